// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cm(3): setting and getting addresses, requests that are answered twice, queues after fi_shutdown.
#include "transfer.h"

#include <netinet/in.h>

enum { LEN = 64 };

struct address {
	char bytes[ADDR_ROOM];
	size_t len;
};

static struct address free_address(struct env *t)
{
	struct address addr = { 0 };

	addr.len = put_unused(t, addr.bytes);
	return addr;
}

static struct address name_of(struct fid *fid)
{
	struct address name = { .len = sizeof(name.bytes) };

	OK(fi_getname(fid, name.bytes, &name.len));
	return name;
}

static void is_named(struct env *t, struct fid *fid, struct address want)
{
	struct address got = name_of(fid);

	if (is_linked(t)) { // the other rails keep their names
		CHECK(has_rail(got.bytes, got.len, want.bytes));
		return;
	}
	CHECK_EQ(got.len, want.len);
	CHECK(same_address(t, got.bytes, want.bytes));
}

static int set_name(struct fid *fid, struct address name)
{
	return fi_setname(fid, name.bytes, name.len);
}

// ---- fi_setname, fi_getname

TEST(fi_cm, name_from_info, EP_AV, FI_MSG, "An endpoint may be assigned its address on creation, through the info")
{
	struct address want = free_address(t);

	set_source(t->info, want.bytes, want.len);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	is_named(t, &t->a.ep->fid, want);
}

TEST(fi_cm, setname_of_service, EP_AV, FI_MSG, "fi_setname assigns the node and service given, and messages reach the endpoint there")
{
	struct address want = free_address(t);
	struct side *sides[2] = { &t->a, &t->b };

	for (unsigned i = 0; i < 2; i++)
		open_bound_ep(t, sides[i]);
	OK_OR_SKIP(set_name(&t->b.ep->fid, want));
	OK(fi_enable(t->a.ep));
	OK(fi_enable(t->b.ep));
	is_named(t, &t->b.ep->fid, want);
	CHECK_EQ(fi_av_insert(t->a.av, want.bytes, 1, &t->a.peer, 0, NULL), 1);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, setname_again, EP_AV, FI_MSG, "An address can be modified before the endpoint is enabled, and assigned again as it is")
{
	struct address first = free_address(t), second;

	open_bound_ep(t, &t->a);
	OK_OR_SKIP(set_name(&t->a.ep->fid, first));
	OK(set_name(&t->a.ep->fid, first));
	is_named(t, &t->a.ep->fid, first);
	second = free_address(t);
	OK(set_name(&t->a.ep->fid, second));
	OK(set_name(&t->a.ep->fid, first));
	OK(fi_enable(t->a.ep));
	is_named(t, &t->a.ep->fid, first);
}

TEST(fi_cm, setname_after_enable, EP_AV, FI_MSG, "The address of an enabled endpoint is modified, or the call fails and it stays")
{
	struct address before, want;

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	want = free_address(t);
	before = name_of(&t->a.ep->fid);
	is_named(t, &t->a.ep->fid, set_name(&t->a.ep->fid, want) ? before : want);
}

TEST(fi_cm, setname_failed, EP_AV, FI_MSG, "After an fi_setname that failed the endpoint has the address it had, and can be enabled")
{
	struct address before = free_address(t), taken;
	int rc;

	open_bound_ep(t, &t->b);
	OK(fi_enable(t->b.ep));
	taken = name_of(&t->b.ep->fid);
	open_bound_ep(t, &t->a);
	OK_OR_SKIP(set_name(&t->a.ep->fid, before));
	rc = set_name(&t->a.ep->fid, taken);
	if (!rc)
		SKIP("found out when the endpoint is enabled");
	CHECK_RC(rc, -FI_EADDRINUSE);
	OK(fi_enable(t->a.ep));
	is_named(t, &t->a.ep->fid, before);
}

TEST(fi_cm, setname_of_listener_failed, EP_MSG, FI_MSG, "After an fi_setname that failed a passive endpoint has the address it had, and can listen")
{
	struct cm_listener other = cm_listen(t);
	struct fid_pep *pep = open_pep(t, t->eq);
	struct address before = free_address(t);
	int rc;

	OK(set_name(&pep->fid, before));
	rc = fi_setname(&pep->fid, other.addr, other.addrlen);
	if (!rc)
		SKIP("found out when the endpoint listens");
	CHECK_RC(rc, -FI_EADDRINUSE);
	OK(fi_listen(pep));
	is_named(t, &pep->fid, before);
}

TEST(fi_cm, setname_other_format, EP_ANY, FI_MSG, "An address of another format than the info's is refused")
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct address before = free_address(t), other = { 0 };
	struct fid_ep *ep;

	other.len = sizeof(v6);
	memcpy(other.bytes, &v6, sizeof(v6));
	if (has_strings(t)) // bytes without a terminator are no string
		memset(other.bytes, 'x', other.len);
	ep = open_bound_ep(t, &t->a);
	OK_OR_SKIP(set_name(&ep->fid, before));
	CHECK(set_name(&ep->fid, other) < 0);
	if (t->type == FI_EP_MSG) {
		struct fid_pep *pep = open_pep(t, t->eq);

		CHECK(set_name(&pep->fid, other) < 0);
		OK(fi_listen(pep));
	}
}

TEST(fi_cm, setname_of_connecting, EP_MSG, FI_MSG, "An active endpoint connects from the address that fi_setname gave it")
{
	struct cm_listener listener = cm_listen(t);
	struct address want = free_address(t);
	union cm_entry in;

	open_bound_ep(t, &t->a);
	OK_OR_SKIP(set_name(&t->a.ep->fid, want));
	is_named(t, &t->a.ep->fid, want);
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	CHECK(in.cm.info->dest_addr);
	CHECK(same_address(t, in.cm.info->dest_addr, want.bytes));
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	is_named(t, &t->a.ep->fid, want);
}

TEST(fi_cm, source_of_connecting, EP_MSG, FI_MSG, "An active endpoint connects from the address and port in the src_addr that it was opened with")
{
	struct cm_listener listener = cm_listen(t);
	struct address want = free_address(t);
	union cm_entry in;

	set_source(t->info, want.bytes, want.len);
	open_bound_ep(t, &t->a);
	is_named(t, &t->a.ep->fid, want);
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	CHECK(same_address(t, in.cm.info->dest_addr, want.bytes));
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	is_named(t, &t->a.ep->fid, want);
}

TEST(fi_cm, setname_of_connected, EP_MSG, FI_MSG, "The address of a connected endpoint cannot be modified")
{
	struct address before, want;

	PAIR(t);
	want = free_address(t);
	before = name_of(&t->a.ep->fid);
	CHECK(set_name(&t->a.ep->fid, want) < 0);
	is_named(t, &t->a.ep->fid, before);
}

TEST(fi_cm, names_of_connected, EP_MSG, FI_MSG, "fi_getname and fi_getpeer of connected endpoints name each other; short buffers get what fits and the size needed")
{
	struct side *sides[2] = { &t->a, &t->b };

	PAIR(t);
	for (unsigned i = 0; i < 2; i++)
		for (size_t room = 0; room <= sides[i]->namelen; room++) {
			uint8_t name[256], peer[256];
			size_t name_len = room, peer_len = room;
			bool fits = room == sides[i]->namelen;

			memset(name, 0xa5, sizeof(name));
			memset(peer, 0xa5, sizeof(peer));
			CHECK_RC(fi_getname(&sides[i]->ep->fid, name, &name_len), fits ? 0 : -FI_ETOOSMALL);
			CHECK_RC(fi_getpeer(sides[1 - i]->ep, peer, &peer_len), fits ? 0 : -FI_ETOOSMALL);
			CHECK(name_len == sides[i]->namelen && peer_len == sides[i]->namelen);
			CHECK(!memcmp(name, sides[i]->name, room) && !memcmp(peer, sides[i]->name, room));
			CHECK(name[room] == 0xa5 && peer[room] == 0xa5);
		}
}

// ---- Requests

TEST(fi_cm, reject_twice, EP_MSG, FI_MSG, "A request is answered once: rejecting it again, or opening an endpoint for it, is refused")
{
	struct cm_listener listener = cm_listen(t);
	struct fi_eq_err_entry err = { 0 };
	struct fid_ep *ep = NULL;
	union cm_entry in;
	int rc;

	cm_request(t, &listener, NULL, 0, &in);
	keep_info(t, in.cm.info);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	CHECK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0) < 0);
	rc = fi_endpoint(t->domain, in.cm.info, &ep, NULL);
	if (!rc) {
		rc = fi_accept(ep, NULL, 0);
		OK(fi_close(&ep->fid));
	}
	CHECK(rc < 0);
	wait_eq_err(t, t->eq, &err);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
}

TEST(fi_cm, reject_after_endpoint, EP_MSG | OURS_ONLY, FI_MSG, "A request can be rejected with data after an endpoint was opened for it; the endpoint cannot accept then, and closing it leaves later requests alone")
{
	struct cm_listener listener = cm_listen(t);
	uint8_t back[CM_ROOM];
	struct fi_eq_err_entry err = { .err_data = back, .err_data_size = sizeof(back) };
	struct fid_ep *ep = NULL;
	struct side later = { 0 };
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	keep_info(t, in.cm.info);
	OK(fi_endpoint(t->domain, in.cm.info, &ep, NULL));
	OK(fi_reject(listener.pep, in.cm.info->handle, "no", 2));
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
	CHECK(err.err_data_size >= 2 && !memcmp(back, "no", 2));
	CHECK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0) < 0);
	open_bound_ep(t, &later);
	OK(fi_connect(later.ep, listener.addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	CHECK(fi_accept(ep, NULL, 0) < 0);
	OK(fi_close(&ep->fid));
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, later.ep, t->b.ep);
}

// ---- Shutting down

TEST(fi_cm, shutdown_cancels_before_it_returns, EP_MSG, FI_MSG, "Completions of operations that fi_shutdown cancels are written before it returns")
{
	struct fi_cq_tagged_entry comp;
	unsigned at_once = 0;

	PAIR(t);
	flow_post_recv(t, 0, 4);
	OK(fi_shutdown(t->b.ep, 0));
	for (ssize_t rc; (rc = fi_cq_read(t->b.rxcq, &comp, 1)) != -FI_EAGAIN; at_once++) {
		struct fi_cq_err_entry err = { 0 };

		CHECK_RC(rc, -FI_EAVAIL);
		CHECK_EQ(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
		CHECK_RC(-err.err, -FI_ECANCELED);
		CHECK(err.op_context == &t->flow->rx[at_once]);
	}
	CHECK(at_once <= 4);
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	nothing(t->b.rxcq);
}

TEST(fi_cm, shutdown_keeps_completions, EP_MSG, FI_MSG, "Completions that are in a queue when fi_shutdown is called can still be read")
{
	void *sent[3], *got[3];

	PAIR(t);
	for (unsigned i = 0; i < 3; i++)
		got[i] = post_recv(t, &t->b, new_buf(t, LEN, 0));
	for (unsigned i = 0; i < 3; i++)
		sent[i] = post_send(t, &t->a, new_buf(t, LEN, i + 1));
	done(t, t->b.rxcq, got[0], FI_MSG | FI_RECV);
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	OK(fi_shutdown(t->a.ep, 0));
	fi_shutdown(t->b.ep, 0);
	for (unsigned i = 0; i < 3; i++)
		done(t, t->a.txcq, sent[i], FI_MSG | FI_SEND);
	for (unsigned i = 1; i < 3; i++)
		done(t, t->b.rxcq, got[i], FI_MSG | FI_RECV);
}
