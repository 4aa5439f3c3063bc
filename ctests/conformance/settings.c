// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_tcp(7): the received data is the same whatever the provider's variables say about buffers and protocols.
#include "transfer.h"

#include <netinet/in.h>
#include <unistd.h>

enum { ROUNDS = 4, KINDS = 9, COUNT = ROUNDS * KINDS };

static const size_t lens[KINDS] = { 0, 1, 127, 129, 3000, 9001, 20000, 200000, 2 << 20 };

// Messages of all sizes in both directions, some before their receives, some truncated, with RMA between them.
void mixed_traffic(struct env *t, bool before)
{
	struct side *sides[2] = { &t->a, &t->b };
	struct region region[2];
	struct op sends[2][COUNT], recvs[2][COUNT];
	struct buf in[2][COUNT];
	struct fi_cq_tagged_entry comp;

	PAIR(t);
	for (unsigned i = 0; i < 2; i++)
		region[i] = new_region(t, sides[i], new_buf(t, 2 << 20, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < COUNT; k++) {
			size_t len = lens[(k * 5 + i) % KINDS];

			in[i][k] = new_buf(t, len, 0);
			recvs[i][k] = op_of(RECV, true, part(in[i][k], 0, k % 7 == 3 ? (len + 1) / 2 : len), FI_ADDR_UNSPEC);
			recvs[i][k].tag = k / 2;
			if (!before)
				op_post(t, sides[i]->ep, &recvs[i][k]);
		}
	for (unsigned k = 0; k < COUNT; k++)
		for (unsigned i = 0; i < 2; i++) {
			struct buf out = new_buf(t, in[1 - i][k].len, k + 1);

			sends[i][k] = op_of(SENDMSG, true, out, sides[i]->peer);
			sends[i][k].tag = k / 2;
			sends[i][k].flags = k % 3 == 1 ? FI_DELIVERY_COMPLETE : 0;
			op_post(t, sides[i]->ep, &sends[i][k]);
			if (k % 4)
				continue;
			POST(t, fi_write(sides[i]->ep, out.mem, out.len, out.desc, sides[i]->peer, region[1 - i].at, region[1 - i].key,
					 new_ctx()));
		}
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	for (unsigned k = 0; before && k < COUNT; k++)
		for (unsigned i = 0; i < 2; i++)
			op_post(t, sides[i]->ep, &recvs[i][k]);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned n = 0; n < COUNT; n++) {
			struct fi_cq_err_entry err = { 0 };
			ssize_t rc = -FI_EAGAIN;
			unsigned k = 0;

			ONCE(t, (rc = fi_cq_read(sides[i]->rxcq, &comp, 1)) != -FI_EAGAIN);
			if (rc == -FI_EAVAIL) {
				CHECK_EQ(fi_cq_readerr(sides[i]->rxcq, &err, 0), 1);
				CHECK_RC(-err.err, -FI_ETRUNC);
				comp.op_context = err.op_context;
			}
			while (k < COUNT && recvs[i][k].ctx != comp.op_context)
				k++;
			CHECK(k < COUNT);
			CHECK(holds(in[i][k], recvs[i][k].iov[0].iov_len, k + 1));
			CHECK(untouched(in[i][k], recvs[i][k].iov[0].iov_len));
			CHECK((rc == -FI_EAVAIL) == (recvs[i][k].iov[0].iov_len < in[i][k].len));
		}
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned n = 0; n < COUNT + COUNT / 4; n++)
			wait_comp(t, sides[i]->txcq, NULL);
		nothing(sides[i]->txcq);
		nothing(sides[i]->rxcq);
	}
}

static void with(struct env *t, const char *const *variables, bool before)
{
	for (; *variables; variables += 2)
		setenv(variables[0], variables[1], 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG | FI_TAGGED | FI_RMA);
	mixed_traffic(t, before);
}

#define SETTINGS(RULE, WHERE, TEXT, ...)                                                                               \
	TEST(fi_tcp, RULE, CORE | (WHERE), 0, "Mixed traffic into posted receives " TEXT)                              \
	{                                                                                                              \
		with(t, (const char *[]){ __VA_ARGS__, NULL }, false);                                                 \
	}                                                                                                              \
	TEST(fi_tcp, RULE##_unexpected, CORE | (WHERE), 0, "Mixed traffic before its receives " TEXT)                  \
	{                                                                                                              \
		with(t, (const char *[]){ __VA_ARGS__, NULL }, true);                                                  \
	}

SETTINGS(defaults, 0, "with the defaults", "FI_TCP_MAX_INJECT", "8192")
SETTINGS(rendezvous, 0, "with a rendezvous for all but small messages", "FI_TCP_MAX_INJECT", "128", "FI_TCP_MAX_RX_SIZE", "128", "FI_TCP_MAX_SAVED_SIZE", "128")
SETTINGS(no_staging, 0, "without a staging buffer", "FI_TCP_STAGING_SBUF_SIZE", "0")
SETTINGS(no_prefetch, 0, "without a prefetch buffer", "FI_TCP_PREFETCH_RBUF_SIZE", "0")
SETTINGS(tiny_buffers, 0, "with tiny buffers", "FI_TCP_STAGING_SBUF_SIZE", "64", "FI_TCP_PREFETCH_RBUF_SIZE", "64")
SETTINGS(delay, 0, "with Nagle's algorithm", "FI_TCP_NODELAY", "0")
SETTINGS(manual, 0, "without a progress thread", "FI_TCP_DISABLE_AUTO_PROGRESS", "1")
SETTINGS(zero_copy, 0, "with zero-copy sends", "FI_TCP_ZEROCOPY_SIZE", "1000")
SETTINGS(large_inject, 0, "with an inject limit of 64 KiB", "FI_TCP_MAX_INJECT", "65536")
SETTINGS(few_saved, OURS_ONLY, "with room for 100000 bytes of unexpected messages", "FI_TCP_MAX_SAVED_BYTES", "100000")

// ---- Settings that an application can see

static void queue_sizes(struct env *t, enum fi_ep_type type)
{
	setenv("FI_TCP_TX_SIZE", "37", 1);
	setenv("FI_TCP_RX_SIZE", "41", 1);
	start_as(t, "tcp", type, FI_MSG);
	CHECK_EQ(t->info->tx_attr->size, 37);
	CHECK_EQ(t->info->rx_attr->size, 41);
	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 37; i++) {
		struct op op = op_of(SEND, false, new_buf(t, 400000, 1), t->a.peer);

		OK(op_try(t->a.ep, &op));
	}
}

TEST(fi_tcp, queue_sizes_rdm, CORE, 0, "FI_TCP_TX_SIZE and FI_TCP_RX_SIZE are the queue sizes of RDM endpoints; so many sends may be posted before -FI_EAGAIN")
{
	queue_sizes(t, FI_EP_RDM);
}

TEST(fi_tcp, queue_sizes_msg, CORE, 0, "FI_TCP_TX_SIZE and FI_TCP_RX_SIZE are the queue sizes of MSG endpoints; so many sends may be posted before -FI_EAGAIN")
{
	queue_sizes(t, FI_EP_MSG);
}

TEST(fi_tcp, inject_size, CORE, 0, "FI_TCP_MAX_INJECT is the inject size, and a message of that size can be injected")
{
	struct op op, recv;
	struct buf in;

	setenv("FI_TCP_MAX_INJECT", "3000", 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	CHECK_EQ(t->info->tx_attr->inject_size, 3000);
	PAIR(t);
	in = new_buf(t, 3000, 0);
	recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	op_post(t, t->b.ep, &recv);
	op = op_of(INJECT, false, new_buf(t, 3000, 1), t->a.peer);
	op_post(t, t->a.ep, &op);
	done(t, t->b.rxcq, recv.ctx, FI_MSG | FI_RECV);
	CHECK(holds(in, 3000, 1));
}

TEST(fi_tcp, port_range, CORE, 0, "Passive endpoints take a port between FI_TCP_PORT_LOW_RANGE and FI_TCP_PORT_HIGH_RANGE, and fail when all are taken")
{
	struct sockaddr_in name = { 0 };
	struct fid_pep *pep = NULL;
	struct fid_eq *eq;
	unsigned low, got = 0;
	char text[16];
	int rc = 0;

	// Below the ports that the kernel assigns, and different from other runs of this test.
	low = 20000 + getpid() % 2000 * 4;
	snprintf(text, sizeof(text), "%u", low);
	setenv("FI_TCP_PORT_LOW_RANGE", text, 1);
	snprintf(text, sizeof(text), "%u", low + 3);
	setenv("FI_TCP_PORT_HIGH_RANGE", text, 1);
	start_as(t, "tcp", FI_EP_MSG, FI_MSG);
	eq = open_eq(t, FI_WAIT_NONE, 0);
	for (unsigned i = 0; i < 5 && !rc; i++) {
		size_t len = sizeof(name);

		rc = fi_passive_ep(t->fabric, t->info, &pep, NULL);
		if (rc)
			break;
		keep(t, &pep->fid);
		OK(fi_pep_bind(pep, &eq->fid, 0));
		rc = fi_listen(pep);
		if (rc)
			break;
		OK(fi_getname(&pep->fid, &name, &len));
		CHECK(ntohs(name.sin_port) >= low && ntohs(name.sin_port) <= low + 3);
		got++;
	}
	CHECK(got >= 1);
	CHECK_RC2(rc, -FI_EADDRINUSE, -FI_EADDRNOTAVAIL);
}

// ---- Edge cases of the rendezvous

static void start_rendezvous(struct env *t)
{
	setenv("FI_TCP_MAX_INJECT", "128", 1);
	setenv("FI_TCP_MAX_RX_SIZE", "128", 1);
	setenv("FI_TCP_MAX_SAVED_SIZE", "128", 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG | FI_TAGGED);
	PAIR(t);
}

TEST(fi_tcp, rendezvous_many, CORE, 0, "More rendezvous than the format has numbers for (254) wait or are refused, then finish")
{
	enum { COUNT = 400, LEN = 5000 };
	struct buf out, in;
	unsigned posted = 0, sent = 0, received = 0;

	start_rendezvous(t);
	out = new_buf(t, LEN, 1);
	in = new_buf(t, LEN, 0);
	while (posted < COUNT) {
		struct op op = op_of(SEND, true, out, t->a.peer);
		ssize_t rc = -FI_EAGAIN;

		for (unsigned tries = 0; rc == -FI_EAGAIN && tries < 1000; tries++, progress(t))
			rc = op_try(t->a.ep, &op);
		if (rc == -FI_EAGAIN)
			break;
		OK(rc);
		posted++;
	}
	CHECK(posted > 0);
	for (uint64_t limit = now_ms() + t->limit_ms; received < COUNT || sent < COUNT;) {
		struct fi_cq_tagged_entry comp;
		struct op op = op_of(SEND, true, out, t->a.peer), recv = op_of(RECV, true, in, FI_ADDR_UNSPEC);

		if (posted < COUNT && !op_try(t->a.ep, &op))
			posted++;
		sent += fi_cq_read(t->a.txcq, &comp, 1) == 1;
		if (received < COUNT) {
			op_post(t, t->b.ep, &recv);
			for (bool got = false; !got; progress(t)) {
				got = fi_cq_read(t->b.rxcq, &comp, 1) == 1;
				sent += fi_cq_read(t->a.txcq, NULL, 0) == 1;
				if (now_ms() > limit)
					FAIL("%u posted, %u sent, %u received", posted, sent, received);
			}
			CHECK(holds(in, LEN, 1));
			received++;
		}
		if (now_ms() > limit)
			FAIL("%u posted, %u sent, %u received", posted, sent, received);
	}
}

TEST(fi_tcp, rendezvous_peer_closed, CORE, 0, "Rendezvous that no receive matched end in error when the peer closes")
{
	enum { COUNT = 10 };
	struct buf out;
	unsigned errors = 0;

	start_rendezvous(t);
	out = new_buf(t, 100000, 1);
	round_trip(t);
	for (unsigned i = 0; i < COUNT; i++)
		post_tsend(t, &t->a, out, i);
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	nothing(t->a.txcq);
	shut(t, &t->b.ep->fid);
	for (; errors < COUNT; errors++) {
		struct fi_cq_err_entry err = { 0 };

		wait_err(t, t->a.txcq, &err);
		CHECK(err.err > 0);
	}
	nothing(t->a.txcq);
}

TEST(fi_tcp, rendezvous_cancelled_receive, CORE, 0, "A receive whose rendezvous is under way either cannot be cancelled or is, once")
{
	struct buf in;
	void *ctx;
	struct fi_cq_tagged_entry comp;
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc = -FI_EAGAIN;

	start_rendezvous(t);
	in = new_buf(t, 4 << 20, 0);
	ctx = post_trecv(t, &t->b, in, TAG, 0);
	post_tsend(t, &t->a, new_buf(t, 4 << 20, 1), TAG);
	fi_cancel(&t->b.ep->fid, ctx);
	ONCE(t, (rc = fi_cq_read(t->b.rxcq, &comp, 1)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		CHECK_EQ(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
		CHECK_RC(-err.err, -FI_ECANCELED);
		ctx = post_trecv(t, &t->b, in, TAG, 0);
		done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	}
	CHECK(holds(in, 4 << 20, 1));
	nothing(t->b.rxcq);
}

TEST(fi_tcp, rendezvous_inject, CORE | OURS_ONLY, 0, "With FI_INJECT as default flag a message large enough for a rendezvous has given its buffer back: what is written there later is not sent")
{
	enum { LEN = 100000 };

	setenv("FI_TCP_MAX_INJECT", "128", 1);
	setenv("FI_TCP_MAX_RX_SIZE", "128", 1);
	setenv("FI_TCP_MAX_SAVED_SIZE", "128", 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG | FI_TAGGED);
	PAIR(t, .tx_op_flags = FI_INJECT);
	round_trip(t);
	for (unsigned i = 0; i < 3; i++) {
		struct buf out = new_buf(t, LEN, i + 1), in = new_buf(t, LEN, 0);
		struct op send = op_of(SEND, true, out, t->a.peer), recv = op_of(RECV, true, in, FI_ADDR_UNSPEC);

		op_post(t, t->a.ep, &send);
		memset(host_view(out.mem), 0xff, LEN);
		op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, FI_TAGGED | FI_RECV);
		CHECK(holds(in, LEN, i + 1));
		done(t, t->a.txcq, send.ctx, FI_TAGGED | FI_SEND);
	}
}

TEST(fi_tcp, rendezvous_claim_peer_closed, CORE, 0, "A rendezvous that was claimed before its sender closed ends in error when it is to be received")
{
	enum { LEN = 100000 };
	struct buf in;
	struct iovec iov;
	struct fi_cq_err_entry err = { 0 };
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = new_ctx() };
	struct fi_cq_tagged_entry comp;
	ssize_t rc = -FI_EAGAIN;

	start_rendezvous(t);
	round_trip(t);
	in = new_buf(t, LEN, 0);
	post_tsend(t, &t->a, new_buf(t, LEN, 1), TAG);
	do { // until the message has arrived
		POST(t, fi_trecvmsg(t->b.ep, &msg, FI_PEEK | FI_CLAIM));
		ONCE(t, (rc = fi_cq_read(t->b.rxcq, &comp, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL)
			CHECK_EQ(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	} while (rc != 1);
	shut(t, &t->a.ep->fid);
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	iov = (struct iovec){ in.mem, LEN };
	msg.msg_iov = &iov;
	msg.desc = &in.desc;
	msg.iov_count = 1;
	if (fi_trecvmsg(t->b.ep, &msg, FI_CLAIM))
		return;
	wait_err(t, t->b.rxcq, &err);
	CHECK(err.op_context == msg.context);
}
