// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_domain(3), fi_endpoint(3), fi_mr(3): authorization keys. Endpoints with the same key can communicate. With
//! different keys, or with one key missing, operations fail and no byte arrives. wire_auth.c checks the bytes on the
//! wire.
#define _GNU_SOURCE
#include "fixture.h"
#include "transfer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEN = 64 };

static void set_key(struct fi_info *info, const char *key)
{
	struct fi_ep_attr *ep = info->ep_attr;

	free(ep->auth_key);
	ep->auth_key = key ? (uint8_t *)strdup(key) : NULL;
	ep->auth_key_size = key ? strlen(key) : 0;
}

// Requests endpoints with this key; skips if there are none.
static void ask(struct env *t, const char *key)
{
	set_key(t->hints, key);
	env_info(t);
}

// Keys with which a and b are opened.
static const char *of_a, *of_b;

static void tune(struct fi_info *info)
{
	static unsigned sides;

	set_key(info, sides++ ? of_b : of_a);
}

static void pair_with(struct env *t, const char *a, const char *b)
{
	ask(t, a ? a : b);
	of_a = a;
	of_b = b;
	PAIR(t, .tune = tune);
}

// ---- fi_getinfo

TEST(fi_endpoint, auth_key_in_info, EP_RELIABLE, FI_MSG, "A key in the hints comes back in the result, in memory of its own")
{
	struct fi_info *copy;

	ask(t, "job 7");
	CHECK_EQ(t->info->ep_attr->auth_key_size, 5);
	CHECK(t->info->ep_attr->auth_key && t->info->ep_attr->auth_key != t->hints->ep_attr->auth_key);
	CHECK(!memcmp(t->info->ep_attr->auth_key, "job 7", 5));
	copy = fi_dupinfo(t->info);
	keep_info(t, copy);
	CHECK_EQ(copy->ep_attr->auth_key_size, 5);
	CHECK(copy->ep_attr->auth_key && copy->ep_attr->auth_key != t->info->ep_attr->auth_key);
	CHECK(!memcmp(copy->ep_attr->auth_key, "job 7", 5));
}

TEST(fi_domain, auth_key_in_info, EP_RELIABLE, FI_MSG, "A domain's key in the hints comes back in the result, in memory of its own")
{
	t->hints->domain_attr->auth_key = (uint8_t *)strdup("job 7");
	t->hints->domain_attr->auth_key_size = 5;
	env_info(t);
	CHECK_EQ(t->info->domain_attr->auth_key_size, 5);
	CHECK(t->info->domain_attr->auth_key && t->info->domain_attr->auth_key != t->hints->domain_attr->auth_key);
	CHECK(!memcmp(t->info->domain_attr->auth_key, "job 7", 5));
}

TEST(fi_endpoint, no_auth_key_unasked, EP_RELIABLE, FI_MSG, "Without a key in the hints there is none in the result")
{
	CHECK_EQ(t->info->ep_attr->auth_key_size, 0);
	CHECK(!t->info->ep_attr->auth_key);
	CHECK_EQ(t->info->domain_attr->auth_key_size, 0);
	CHECK(!t->info->domain_attr->auth_key);
}

TEST(fi_endpoint, auth_key_too_long, EP_RELIABLE, FI_MSG, "A key that is longer than any is -FI_ENODATA")
{
	t->hints->ep_attr->auth_key = calloc(1, 1 << 16);
	t->hints->ep_attr->auth_key_size = 1 << 16;
	CHECK_RC(env_try_info(t), -FI_ENODATA);
}

TEST(fi_endpoint, auth_key_without_bytes, EP_RELIABLE, FI_MSG, "An endpoint with the size of a key but no key is -FI_EINVAL")
{
	struct fid_ep *ep = NULL;

	ask(t, "job 7");
	open_domain(t);
	free(t->info->ep_attr->auth_key);
	t->info->ep_attr->auth_key = NULL;
	CHECK_RC(fi_endpoint(t->domain, t->info, &ep, NULL), -FI_EINVAL);
}

TEST(fi_domain, auth_key_without_bytes, EP_RELIABLE, FI_MSG, "A domain with the size of a key but no key is -FI_EINVAL")
{
	struct fid_domain *domain = NULL;

	t->hints->domain_attr->auth_key_size = 5;
	env_info(t);
	open_fabric(t);
	CHECK_RC(fi_domain(t->fabric, t->info, &domain, NULL), -FI_EINVAL);
}

// ---- The same key

static void exchange(struct env *t)
{
	for (unsigned i = 0; i < 3; i++) {
		round_trip(t);
		round_trip_between(t, &t->b, &t->a);
	}
}

TEST(fi_endpoint, same_auth_key, EP_RELIABLE, FI_MSG, "Endpoints with the same key communicate")
{
	pair_with(t, "job 7", "job 7");
	exchange(t);
}

TEST(fi_endpoint, long_auth_key, EP_RELIABLE, FI_MSG, "So do endpoints with a long key")
{
	static const char key[] = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567";

	pair_with(t, key, key);
	exchange(t);
}

TEST(fi_endpoint, same_auth_key_large, EP_RELIABLE, FI_MSG, "Messages that wait for the connection, large and small, come in order")
{
	enum { COUNT = 8, LARGE = 100000 };
	struct buf in[COUNT], out[COUNT];
	struct op recv[COUNT], send[COUNT];

	pair_with(t, "job 7", "job 7");
	for (unsigned i = 0; i < COUNT; i++) {
		size_t len = i % 2 ? LARGE : LEN;

		in[i] = new_buf(t, len, 0);
		out[i] = new_buf(t, len, i + 1);
		recv[i] = op_of(RECV, false, in[i], FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recv[i]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		send[i] = op_of(SEND, false, out[i], t->a.peer);
		op_post(t, t->a.ep, &send[i]);
	}
	// Sends may complete in any order.
	for (unsigned n = 0; n < COUNT; n++) {
		struct fi_cq_tagged_entry comp;
		unsigned i = 0;

		wait_comp(t, t->a.txcq, &comp);
		while (i < COUNT && send[i].ctx != comp.op_context)
			i++;
		CHECK(i < COUNT);
		send[i].ctx = NULL;
	}
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recv[i].ctx, RECEIVED(false));
		CHECK(!memcmp(in[i].mem, out[i].mem, i % 2 ? LARGE : LEN));
	}
}

TEST(fi_endpoint, same_auth_key_both_begin, EP_RDM, FI_MSG, "Endpoints with the same key that begin at the same time communicate")
{
	struct buf out[2], in[2];
	struct op send[2], recv[2];
	struct side *side[2] = { &t->a, &t->b };

	pair_with(t, "job 7", "job 7");
	for (unsigned i = 0; i < 2; i++) {
		in[i] = new_buf(t, LEN, 0);
		out[i] = new_buf(t, LEN, i + 1);
		recv[i] = op_of(RECV, false, in[i], FI_ADDR_UNSPEC);
		send[i] = op_of(SEND, false, out[i], side[i]->peer);
		op_post(t, side[i]->ep, &recv[i]);
	}
	op_post(t, t->a.ep, &send[0]);
	op_post(t, t->b.ep, &send[1]);
	for (unsigned i = 0; i < 2; i++) {
		done(t, side[i]->txcq, send[i].ctx, SENT(false));
		done(t, side[i]->rxcq, recv[i].ctx, RECEIVED(false));
		CHECK(!memcmp(in[i].mem, out[!i].mem, LEN));
	}
	exchange(t);
}

TEST(fi_endpoint, auth_key_to_itself, EP_RDM, FI_MSG, "An endpoint with a key can send to itself")
{
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);
	struct op recv, send;
	fi_addr_t self;

	pair_with(t, "job 7", "job 7");
	CHECK_EQ(fi_av_insert(t->a.av, t->a.name, 1, &self, 0, NULL), 1);
	recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	send = op_of(SEND, false, out, self);
	op_post(t, t->a.ep, &recv);
	op_post(t, t->a.ep, &send);
	done(t, t->a.txcq, send.ctx, SENT(false));
	done(t, t->a.rxcq, recv.ctx, RECEIVED(false));
	CHECK(!memcmp(in.mem, out.mem, LEN));
}

// ---- Another key, or none

// Posts a send of a that must not be delivered: it ends in an error, and b gets nothing.
static void no_byte(struct env *t)
{
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);
	struct op recv = op_of(RECV, false, in, FI_ADDR_UNSPEC), send = op_of(SEND, false, out, t->a.peer);
	struct fi_cq_err_entry err = { 0 };

	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	wait_err(t, t->a.txcq, &err);
	CHECK(err.op_context == send.ctx);
	CHECK_EQ(err.err, FI_EKEYREJECTED);
	turn(t);
	nothing(t->b.rxcq);
	CHECK(untouched(in, 0));
}

static void refused(struct env *t, const char *a, const char *b)
{
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_cm_entry entry;
	struct cm_listener listener;
	union cm_entry in;
	int rc;

	ask(t, a ? a : b);
	if (t->type == FI_EP_RDM) {
		of_a = a;
		of_b = b;
		PAIR(t, .tune = tune);
		no_byte(t);
		no_byte(t); // nor later
		return;
	}
	listener = cm_listen(t);
	set_key(t->info, a);
	cm_request(t, &listener, NULL, 0, &in);
	set_key(in.cm.info, b);
	cm_accepting(t, in.cm.info);
	OK(fi_enable(t->b.ep));
	rc = fi_accept(t->b.ep, NULL, 0);
	CHECK_RC2(rc, 0, -FI_EKEYREJECTED);
	for (unsigned left = rc ? 1 : 2; left; left--) {
		wait_eq_err(t, t->eq, &err);
		CHECK(err.fid == &t->a.ep->fid || (!rc && err.fid == &t->b.ep->fid));
		CHECK_EQ(err.err, FI_EKEYREJECTED);
	}
	turn(t);
	CHECK_RC(fi_eq_read(t->eq, &(uint32_t){ 0 }, &entry, sizeof(entry), 0), -FI_EAGAIN);
	CHECK_RC2(fi_send(t->a.ep, "x", 1, NULL, 0, NULL), -FI_ESHUTDOWN, -FI_ENOTCONN);
}

TEST(fi_endpoint, other_auth_key, EP_RELIABLE, FI_MSG, "Endpoints with different keys do not communicate, and learn that it is for the key")
{
	refused(t, "job 7", "job 8");
}

TEST(fi_endpoint, longer_auth_key, EP_RELIABLE, FI_MSG, "A key that goes on where the other ends is another key")
{
	refused(t, "job 7", "job 77");
}

TEST(fi_endpoint, auth_key_to_keyless, EP_RELIABLE, FI_MSG, "An endpoint with a key does not communicate with one without")
{
	refused(t, "job 7", NULL);
}

TEST(fi_endpoint, keyless_to_auth_key, EP_RELIABLE, FI_MSG, "Nor one without a key with one that has one")
{
	refused(t, NULL, "job 7");
}

TEST(fi_endpoint, other_auth_key_both_begin, EP_RDM, FI_MSG, "Endpoints with different keys that begin at the same time are both told")
{
	struct op send[2];
	struct side *side[2] = { &t->a, &t->b };

	pair_with(t, "job 7", "job 8");
	for (unsigned i = 0; i < 2; i++) {
		send[i] = op_of(SEND, false, new_buf(t, LEN, 1), side[i]->peer);
		op_post(t, side[i]->ep, &send[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct fi_cq_err_entry err = { 0 };

		wait_err(t, side[i]->txcq, &err);
		CHECK(err.op_context == send[i].ctx);
		CHECK_EQ(err.err, FI_EKEYREJECTED);
	}
}

TEST(fi_endpoint, other_auth_key_harms_nobody, EP_RDM, FI_MSG, "A peer with another key that is refused leaves those with the right one alone")
{
	struct side c = { 0 };
	struct op send;
	struct fi_cq_err_entry err = { 0 };
	fi_addr_t b;

	pair_with(t, "job 7", "job 7");
	exchange(t);
	set_key(t->info, "job 8");
	open_bound_ep(t, &c);
	OK(fi_enable(c.ep));
	CHECK_EQ(fi_av_insert(c.av, t->b.name, 1, &b, 0, NULL), 1);
	send = op_of(SEND, false, new_buf(t, LEN, 1), b);
	op_post(t, c.ep, &send);
	wait_err(t, c.txcq, &err);
	CHECK_EQ(err.err, FI_EKEYREJECTED);
	exchange(t);
}

// ---- The domain's key

TEST(fi_domain, auth_key_is_default, EP_RDM, FI_MSG, "Endpoints without a key of their own have that of their domain")
{
	t->hints->domain_attr->auth_key = (uint8_t *)strdup("job 7");
	t->hints->domain_attr->auth_key_size = 5;
	pair_with(t, NULL, "job 7");
	exchange(t);
}

TEST(fi_domain, auth_key_is_overruled, EP_RDM, FI_MSG, "An endpoint's own key takes the place of that of its domain")
{
	t->hints->domain_attr->auth_key = (uint8_t *)strdup("job 7");
	t->hints->domain_attr->auth_key_size = 5;
	pair_with(t, NULL, "job 8");
	no_byte(t);
}

// ---- Regions

static struct fid_mr *region_with(struct env *t, struct buf buf, const char *key)
{
	struct iovec iov = { buf.mem, LEN };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.requested_key = ++t->next_key + 1000, .auth_key = (uint8_t *)key, .auth_key_size = key ? strlen(key) : 0,
	};
	struct fid_mr *mr = NULL;

	OK(fi_mr_regattr(t->domain, &attr, 0, &mr));
	keep(t, &mr->fid);
	return mr;
}

// Posts a write of a and waits for its delivery.
static int write_to(struct env *t, struct fid_mr *mr, struct buf target)
{
	struct buf out = new_buf(t, LEN, 9);
	struct fi_rma_iov remote = { rma_addr(t, target.mem, 0), LEN, fi_mr_key(mr) };
	struct iovec iov = { out.mem, LEN };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	ssize_t rc = -FI_EAGAIN;

	POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
	ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
	if (rc == 1) {
		CHECK(filled(target.mem, LEN, 9));
		return 0;
	}
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(t->a.txcq, &err, 0), 1);
	CHECK(untouched(target, 0));
	return err.err;
}

TEST(fi_mr, auth_key_same, EP_RELIABLE, FI_RMA | FI_MSG, "A region with the key of the peer is accessed")
{
	struct buf target = new_buf(t, LEN, 0);

	pair_with(t, "job 7", "job 7");
	CHECK_EQ(write_to(t, region_with(t, target, "job 7"), target), 0);
}

TEST(fi_mr, auth_key_none, EP_RELIABLE, FI_RMA | FI_MSG, "A region without a key is accessed by peers with any key")
{
	struct buf target = new_buf(t, LEN, 0);

	pair_with(t, "job 7", "job 7");
	CHECK_EQ(write_to(t, region_with(t, target, NULL), target), 0);
}

TEST(fi_mr, auth_key_other, EP_RELIABLE, FI_RMA | FI_MSG, "A region with another key than that of the peer is not accessed")
{
	struct buf target = new_buf(t, LEN, 0);

	pair_with(t, "job 7", "job 7");
	CHECK(write_to(t, region_with(t, target, "job 8"), target) > 0);
}

TEST(fi_mr, auth_key_of_keyless_peer, EP_RELIABLE, FI_RMA | FI_MSG, "A region with a key is not accessed by a peer without one")
{
	struct buf target = new_buf(t, LEN, 0);

	ask(t, "job 7");
	of_a = of_b = NULL;
	PAIR(t, .tune = tune);
	CHECK(write_to(t, region_with(t, target, "job 7"), target) > 0);
}

TEST(fi_mr, auth_key_of_domain, EP_RDM, FI_RMA | FI_MSG, "A region without a key of its own has that of its domain")
{
	struct buf target = new_buf(t, LEN, 0);

	t->hints->domain_attr->auth_key = (uint8_t *)strdup("job 7");
	t->hints->domain_attr->auth_key_size = 5;
	pair_with(t, "job 8", "job 8");
	CHECK(write_to(t, region_with(t, target, NULL), target) > 0);
	CHECK_EQ(write_to(t, region_with(t, target, "job 8"), target), 0);
}

// ---- FI_AV_AUTH_KEY

static void ask_av(struct env *t)
{
	t->hints->domain_attr->auth_key_size = FI_AV_AUTH_KEY;
	env_info(t);
}

static fi_addr_t key_in(struct fid_av *av, const char *key)
{
	fi_addr_t handle = FI_ADDR_NOTAVAIL;

	OK_OR_SKIP(fi_av_insert_auth_key(av, key, strlen(key), &handle, 0));
	CHECK(handle != FI_ADDR_NOTAVAIL);
	return handle;
}

static void enabled(struct side *side)
{
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

static fi_addr_t known(struct side *side, struct side *peer, fi_addr_t key)
{
	fi_addr_t addr = key;

	CHECK_EQ(fi_av_insert(side->av, peer->name, 1, &addr, FI_AUTH_KEY, NULL), 1);
	CHECK(addr != key);
	return addr;
}

// Puts both keys into both vectors. Each side inserts the other one with the other's key.
static void av_pair(struct env *t, const char *a, const char *b)
{
	fi_addr_t key_a, key_b;

	ask_av(t);
	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	key_a = key_in(t->a.av, a);
	key_b = key_in(t->b.av, b);
	enabled(&t->a);
	enabled(&t->b);
	t->a.peer = known(&t->a, &t->b, key_a);
	t->b.peer = known(&t->b, &t->a, key_b);
}

TEST(fi_av, auth_key_same, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: addresses under the same key communicate")
{
	av_pair(t, "job 7", "job 7");
	CHECK_EQ(t->info->domain_attr->auth_key_size, FI_AV_AUTH_KEY);
	CHECK(!t->info->domain_attr->auth_key);
	exchange(t);
}

TEST(fi_av, auth_key_other, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: addresses under different keys do not communicate")
{
	av_pair(t, "job 7", "job 8");
	no_byte(t);
}

TEST(fi_av, auth_key_of_peer_counts, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: a peer that is known under one key is refused under another that the endpoint has")
{
	fi_addr_t seven, eight;

	ask_av(t);
	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	key_in(t->a.av, "job 7");
	eight = key_in(t->a.av, "job 8");
	seven = key_in(t->b.av, "job 7");
	key_in(t->b.av, "job 8");
	enabled(&t->a);
	enabled(&t->b);
	t->a.peer = known(&t->a, &t->b, eight);
	t->b.peer = known(&t->b, &t->a, seven);
	no_byte(t);
}

TEST(fi_av, auth_key_several, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: an endpoint with several keys talks to peers of each")
{
	struct side c = { 0 };
	fi_addr_t seven, eight, of_b, of_c;

	ask_av(t);
	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	open_bound_ep(t, &c);
	seven = key_in(t->a.av, "job 7");
	eight = key_in(t->a.av, "job 8");
	of_b = key_in(t->b.av, "job 7");
	of_c = key_in(c.av, "job 8");
	enabled(&t->a);
	enabled(&t->b);
	enabled(&c);
	t->b.peer = known(&t->b, &t->a, of_b);
	c.peer = known(&c, &t->a, of_c);
	t->a.peer = known(&t->a, &t->b, seven);
	round_trip_between(t, &t->b, &t->a);
	t->a.peer = known(&t->a, &c, eight);
	round_trip_between(t, &c, &t->a);
}

TEST(fi_av, auth_key_same_key_same_handle, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: different keys have different addresses, and are looked up by them")
{
	struct fid_av *av;
	char name[ADDR_ROOM];
	fi_addr_t one, two;
	uint8_t key[16] = { 0 };
	size_t size = sizeof(key);

	ask_av(t);
	av = open_av(t, FI_AV_TABLE);
	one = key_in(av, "job 7");
	two = key_in(av, "another job");
	CHECK(one != two);
	OK(fi_av_lookup_auth_key(av, two, key, &size));
	CHECK_EQ(size, 11);
	CHECK(!memcmp(key, "another job", 11));
	memset(key, 0, sizeof(key));
	size = 3;
	OK(fi_av_lookup_auth_key(av, one, key, &size)); // cut to the size of the buffer
	CHECK_EQ(size, 5);
	CHECK(!memcmp(key, "job\0", 4));
	CHECK_RC(fi_av_lookup_auth_key(av, 12345, key, &size), -FI_EINVAL);
	size = sizeof(name);
	CHECK_RC(fi_av_lookup(av, one, name, &size), -FI_EINVAL); // the handle is no address of an endpoint
}

TEST(fi_av, auth_key_of_address, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: the key of an address is looked up by the address")
{
	uint8_t key[16];
	size_t size = sizeof(key);

	av_pair(t, "job 7", "job 7");
	OK(fi_av_lookup_auth_key(t->a.av, t->a.peer, key, &size));
	CHECK_EQ(size, 5);
	CHECK(!memcmp(key, "job 7", 5));
}

TEST(fi_av, auth_key_insert_wrong, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: a key of no or too many bytes is -FI_EINVAL, flags are -FI_EBADFLAGS")
{
	static uint8_t large[1 << 16];
	struct fid_av *av;
	fi_addr_t addr;

	ask_av(t);
	av = open_av(t, FI_AV_TABLE);
	key_in(av, "job 7");
	CHECK_RC(fi_av_insert_auth_key(av, "x", 0, &addr, 0), -FI_EINVAL);
	CHECK_RC(fi_av_insert_auth_key(av, NULL, 5, &addr, 0), -FI_EINVAL);
	CHECK_RC(fi_av_insert_auth_key(av, "job 7", 5, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_av_insert_auth_key(av, large, sizeof(large), &addr, 0), -FI_EINVAL);
	CHECK_RC(fi_av_insert_auth_key(av, "job 7", 5, &addr, FI_MORE), -FI_EBADFLAGS);
}

TEST(fi_av, auth_key_limit, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: a vector takes as many keys as max_ep_auth_key says")
{
	struct fid_av *av;
	fi_addr_t addr;
	size_t most = 0;
	int rc = 0;

	t->hints->domain_attr->max_ep_auth_key = 2;
	ask_av(t);
	CHECK(t->info->domain_attr->max_ep_auth_key >= 2);
	av = open_av(t, FI_AV_TABLE);
	for (; most < 100000 && !rc; most++)
		rc = fi_av_insert_auth_key(av, &most, sizeof(most), &addr, 0);
	CHECK(rc < 0 && most > 2);
}

TEST(fi_av, auth_key_address_without, EP_RDM | OURS_ONLY, FI_MSG, "FI_AV_AUTH_KEY: addresses without a key, with a wrong one, or with a second one are refused")
{
	fi_addr_t addr, eight;

	av_pair(t, "job 7", "job 7");
	eight = key_in(t->a.av, "job 8");
	CHECK_RC(fi_av_insert(t->a.av, t->a.name, 1, &addr, 0, NULL), -FI_EOPNOTSUPP);
	CHECK_RC(fi_av_insert(t->a.av, t->a.name, 1, &addr, FI_AUTH_KEY | FI_AV_USER_ID, NULL), -FI_EBADFLAGS);
	CHECK_RC(fi_av_insert(t->a.av, t->a.name, 1, NULL, FI_AUTH_KEY, NULL), -FI_EINVAL);
	addr = 12345;
	CHECK_EQ(fi_av_insert(t->a.av, t->a.name, 1, &addr, FI_AUTH_KEY, NULL), 0);
	CHECK_EQ(addr, FI_ADDR_NOTAVAIL);
	addr = eight;
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &addr, FI_AUTH_KEY, NULL), 0);
	exchange(t);
}

TEST(fi_av, auth_key_flag_unconfigured, EP_RDM, FI_MSG, "Without FI_AV_AUTH_KEY the flag FI_AUTH_KEY of fi_av_insert is refused")
{
	fi_addr_t addr = 0;

	PAIR(t);
	CHECK(fi_av_insert(t->a.av, t->b.name, 1, &addr, FI_AUTH_KEY, NULL) <= 0);
	CHECK(fi_av_remove(t->a.av, &addr, 1, FI_AUTH_KEY) < 0);
}

TEST(fi_av, auth_key_remove, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: a key is removed with FI_AUTH_KEY, once no endpoint has it any more")
{
	struct side side = { 0 };
	fi_addr_t early, late;

	ask_av(t);
	open_bound_ep(t, &side);
	early = key_in(side.av, "job 7");
	OK(fi_enable(side.ep));
	late = key_in(side.av, "job 8");
	CHECK_RC(fi_av_remove(side.av, &early, 1, FI_AUTH_KEY), -FI_EBUSY);
	OK(fi_av_remove(side.av, &late, 1, FI_AUTH_KEY));
	CHECK_RC(fi_av_remove(side.av, &late, 1, FI_AUTH_KEY), -FI_EINVAL);
	CHECK(fi_av_remove(side.av, &early, 1, 0) < 0);
	shut(t, &side.ep->fid);
	OK(fi_av_remove(side.av, &early, 1, FI_AUTH_KEY));
}

TEST(fi_av, auth_key_after_enable, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: a key that comes later is not that of endpoints that are enabled already")
{
	fi_addr_t key;

	ask_av(t);
	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	key_in(t->b.av, "job 7");
	enabled(&t->a);
	enabled(&t->b);
	key = key_in(t->a.av, "job 7");
	t->a.peer = known(&t->a, &t->b, key);
	no_byte(t);
}

TEST(fi_endpoint, auth_key_with_av, EP_RDM, FI_MSG, "FI_AV_AUTH_KEY: an endpoint with a key of its own is -FI_EINVAL")
{
	struct fid_ep *ep = NULL;

	ask_av(t);
	open_domain(t);
	set_key(t->info, "job 7");
	CHECK_RC(fi_endpoint(t->domain, t->info, &ep, NULL), -FI_EINVAL);
}

TEST(fi_domain, av_auth_key_connected, EP_MSG, FI_MSG, "FI_AV_AUTH_KEY is for endpoints with an address vector")
{
	t->hints->domain_attr->auth_key_size = FI_AV_AUTH_KEY;
	CHECK(env_try_info(t) == -FI_ENODATA || t->info->domain_attr->auth_key_size != FI_AV_AUTH_KEY);
}

static int named_region(struct env *t, struct buf buf, struct fid_av *av, fi_addr_t addr, uint64_t flags, struct fid_mr **mr)
{
	struct fi_mr_auth_key key = { av, addr };
	struct iovec iov = { buf.mem, LEN };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.requested_key = ++t->next_key + 1000, .auth_key = (uint8_t *)&key, .auth_key_size = sizeof(key),
	};
	int rc = fi_mr_regattr(t->domain, &attr, flags, mr);

	if (!rc)
		keep(t, &(*mr)->fid);
	return rc;
}

TEST(fi_mr, av_auth_key, EP_RDM, FI_RMA | FI_MSG, "FI_AV_AUTH_KEY: a region has all keys of a vector, or the one that is named")
{
	struct buf target = new_buf(t, LEN, 0), other = new_buf(t, LEN, 0);
	fi_addr_t seven = FI_ADDR_UNSPEC, eight;
	struct fid_mr *mr = NULL;

	av_pair(t, "job 7", "job 7");
	seven = key_in(t->b.av, "job 7");
	eight = key_in(t->b.av, "job 8");
	OK(named_region(t, other, t->b.av, eight, FI_AUTH_KEY, &mr));
	CHECK(write_to(t, mr, other) > 0);
	OK(named_region(t, target, t->b.av, FI_ADDR_UNSPEC, 0, &mr));
	CHECK_EQ(write_to(t, mr, target), 0);
	target = new_buf(t, LEN, 0);
	OK(named_region(t, target, t->b.av, seven, FI_AUTH_KEY, &mr));
	CHECK_EQ(write_to(t, mr, target), 0);
}

TEST(fi_mr, av_auth_key_wrong, EP_RDM, FI_RMA | FI_MSG, "FI_AV_AUTH_KEY: a region without a vector, or with another key, is refused")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct iovec iov = { buf.mem, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE, .requested_key = 3 };
	struct fid_mr *mr = NULL;

	av_pair(t, "job 7", "job 7");
	CHECK(fi_mr_reg(t->domain, buf.mem, LEN, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL) < 0);
	CHECK(fi_mr_regv(t->domain, &iov, 1, FI_REMOTE_WRITE, 0, 2, 0, &mr, NULL) < 0);
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.auth_key = (uint8_t *)"job 7";
	attr.auth_key_size = 5;
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL);
	CHECK_RC(named_region(t, buf, NULL, FI_ADDR_UNSPEC, 0, &mr), -FI_EINVAL);
	CHECK_RC(named_region(t, buf, t->b.av, 12345, FI_AUTH_KEY, &mr), -FI_EINVAL);
}

TEST(fi_cq, auth_key_of_stranger, EP_RDM, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, "FI_AV_AUTH_KEY: FI_EADDRNOTAVAIL names the key of a sender that is not in the vector")
{
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);
	struct op recv = op_of(RECV, false, in, FI_ADDR_UNSPEC), send;
	struct fi_cq_err_entry err = { 0 };
	fi_addr_t key_a, key_b, from;

	ask_av(t);
	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	key_a = key_in(t->a.av, "job 7");
	key_in(t->b.av, "job 6");
	key_b = key_in(t->b.av, "job 7");
	enabled(&t->a);
	enabled(&t->b);
	t->a.peer = known(&t->a, &t->b, key_a);
	send = op_of(SEND, false, out, t->a.peer);
	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	wait_err(t, t->b.rxcq, &err);
	CHECK_EQ(err.err, FI_EADDRNOTAVAIL);
	CHECK_EQ(err.src_addr, key_b);
	CHECK(err.err_data);
	from = err.src_addr; // the input for fi_av_insert
	CHECK_EQ(fi_av_insert(t->b.av, err.err_data, 1, &from, FI_AUTH_KEY, NULL), 1);
	t->b.peer = from;
	done(t, t->a.txcq, send.ctx, SENT(false));
	exchange(t);
}

TEST(fi_cq, auth_key_of_removed, EP_RDM | OURS_ONLY, FI_MSG | FI_SOURCE, "FI_AV_AUTH_KEY: what a sender left under one key is not that of its address under another")
{
	fi_addr_t seven, eight, from = 12345;
	struct fi_cq_tagged_entry entry;
	ssize_t rc;

	ask_av(t);
	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	t->a.peer = key_in(t->a.av, "job 7");
	seven = key_in(t->b.av, "job 7");
	eight = key_in(t->b.av, "job 8");
	enabled(&t->a);
	enabled(&t->b);
	t->a.peer = known(&t->a, &t->b, t->a.peer);
	t->b.peer = known(&t->b, &t->a, seven);
	post_send(t, &t->a, new_buf(t, 64, 1));
	wait_comp(t, t->a.txcq, NULL);
	shut(t, &t->a.ep->fid);
	turn(t);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	known(&t->b, &t->a, eight);
	post_recv(t, &t->b, new_buf(t, 64, 0));
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK(from == FI_ADDR_NOTAVAIL);
}

TEST(fi_av, auth_key_user_id, EP_RDM, FI_MSG | FI_SOURCE | FI_SOURCE_ERR | FI_AV_USER_ID, "FI_AV_AUTH_KEY, FI_AV_USER_ID: FI_EADDRNOTAVAIL names the identifier of the key, once one is set")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_AV_USER_ID };
	struct side *side[2] = { &t->a, &t->b };
	fi_addr_t key[2];

	ask_av(t);
	open_domain(t);
	for (unsigned i = 0; i < 2; i++) {
		struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };

		OK_OR_SKIP(fi_av_open(t->domain, &attr, &side[i]->av, NULL));
		keep(t, &side[i]->av->fid);
		OK(fi_cq_open(t->domain, &cq, &side[i]->txcq, NULL));
		keep(t, &side[i]->txcq->fid);
		side[i]->rxcq = side[i]->txcq;
		side[i]->ep = open_ep(t, t->info);
		OK(fi_ep_bind(side[i]->ep, &side[i]->txcq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_ep_bind(side[i]->ep, &side[i]->av->fid, 0));
		key[i] = key_in(side[i]->av, "job 7");
		enabled(side[i]);
	}
	t->a.peer = known(&t->a, &t->b, key[0]);
	for (unsigned i = 0; i < 2; i++) {
		struct op recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		struct op send = op_of(SEND, false, new_buf(t, LEN, 1), t->a.peer);
		struct fi_cq_err_entry err = { 0 };

		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		wait_err(t, t->b.rxcq, &err);
		CHECK_EQ(err.err, FI_EADDRNOTAVAIL);
		CHECK_EQ(err.src_addr, i ? 4711 : FI_ADDR_NOTAVAIL);
		done(t, t->a.txcq, send.ctx, SENT(false));
		OK(fi_av_set_user_id(t->b.av, key[1], 4711, FI_AUTH_KEY));
	}
	CHECK_RC(fi_av_set_user_id(t->b.av, 12345, 1, FI_AUTH_KEY), -FI_EINVAL);
}

TEST(fi_endpoint, auth_key_of_scalable, EP_RDM, FI_MSG, "A scalable endpoint has a key as others have")
{
	struct op send;
	struct fi_cq_err_entry err = { 0 };
	struct fid_ep *sep = NULL;
	struct side peer = { .namelen = sizeof(peer.name) };

	t->hints->ep_attr->rx_ctx_cnt = 2;
	ask(t, "job 8");
	peer.av = open_av(t, FI_AV_TABLE);
	OK_OR_SKIP(fi_scalable_ep(t->domain, t->info, &sep, NULL));
	keep(t, &sep->fid);
	OK(fi_scalable_ep_bind(sep, &peer.av->fid, 0));
	OK(fi_enable(sep));
	OK(fi_getname(&sep->fid, peer.name, &peer.namelen));
	t->info->ep_attr->rx_ctx_cnt = 1;
	set_key(t->info, "job 7");
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	CHECK_EQ(fi_av_insert(t->a.av, peer.name, 1, &t->a.peer, 0, NULL), 1);
	send = op_of(SEND, false, new_buf(t, LEN, 1), t->a.peer);
	op_post(t, t->a.ep, &send);
	wait_err(t, t->a.txcq, &err);
	CHECK_EQ(err.err, FI_EKEYREJECTED);
}

// ---- Copies of a key in the memory of the process

enum { KEY_LEN = 32, MASK = 0x5a };

// Masked, so that the test itself adds no copy.
static uint8_t masked_key[KEY_LEN];

static void make_masked_key(void)
{
	int fd = open("/dev/urandom", O_RDONLY);

	CHECK_EQ(read(fd, masked_key, KEY_LEN), KEY_LEN);
	close(fd);
}

static bool is_key(const uint8_t *at)
{
	for (unsigned i = 0; i < KEY_LEN; i++)
		if ((at[i] ^ MASK) != masked_key[i])
			return false;
	return true;
}

// Number of copies of the key in writable memory.
static unsigned copies_of_key(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int memory = open("/proc/self/mem", O_RDONLY);
	char line[512];
	unsigned count = 0;

	CHECK(maps && memory >= 0);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char rights[5];
		uint8_t *copy;
		ssize_t n;

		CHECK(sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3);
		if (rights[1] != 'w')
			continue;
		// Allocated without malloc, so that the search of the heap does not find this copy.
		copy = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (copy == MAP_FAILED)
			continue;
		n = pread(memory, copy, to - from, (off_t)from);
		for (ssize_t i = 0; i + KEY_LEN <= n; i++)
			count += is_key(copy + i);
		munmap(copy, to - from);
	}
	fclose(maps);
	close(memory);
	return count;
}

static void wipe(void *bytes, size_t len)
{
	explicit_bzero(bytes, len);
}

static void give_key(struct fi_info *info)
{
	uint8_t *key = malloc(KEY_LEN);

	for (unsigned i = 0; i < KEY_LEN; i++)
		key[i] = masked_key[i] ^ MASK;
	info->domain_attr->auth_key = key;
	info->domain_attr->auth_key_size = KEY_LEN;
}

// Wipes the memory that the program itself has allocated before the info is freed.
static void take_key(struct fi_info *info)
{
	wipe(info->domain_attr->auth_key, KEY_LEN);
	free(info->domain_attr->auth_key);
	info->domain_attr->auth_key = NULL;
	info->domain_attr->auth_key_size = 0;
}

TEST(fi_domain, auth_key_copies, EP_RELIABLE | OURS_ONLY, FI_MSG, "Of a key there is one copy in the library while it is in use, and none when what had it is closed and freed")
{
	struct fi_info *copy;

	if (is_checked())
		SKIP("what is freed is kept for a while");
	make_masked_key();
	CHECK_EQ(copies_of_key(), 0);
	give_key(t->hints);
	CHECK_EQ(copies_of_key(), 1);
	env_info(t);
	copy = fi_dupinfo(t->info);
	CHECK_EQ(copies_of_key(), 3);
	fi_freeinfo(copy);
	take_key(t->hints);
	CHECK_EQ(copies_of_key(), 1); // the one in the result
	PAIR(t);
	round_trip(t);
	take_key(t->info);
	take_key(t->a.info);
	take_key(t->b.info);
	CHECK_EQ(copies_of_key(), 1);
	close_all(t);
	t->info = t->hints = NULL;
	t->flow = NULL;
	CHECK_EQ(copies_of_key(), 0);
}
