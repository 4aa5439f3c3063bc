// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), fi_cm(3): operations when the other end closes, dies, restarts or never existed. Each ends with a
//! completion, an error entry or an error code, in bounded time.
#define _GNU_SOURCE
#include "wire.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LEN = 64, BIG = 8 << 20 };

static void close_b(struct env *t)
{
	shut(t, &t->b.ep->fid);
	t->b.ep = NULL;
}

// Waits for a success or an error of each context, once each. Returns the number of errors.
static unsigned ended(struct env *t, struct fid_cq *cq, void **ctx, unsigned count)
{
	unsigned errors = 0;
	bool seen[64] = { false };

	CHECK(count <= 64);
	for (unsigned i = 0; i < count; i++) {
		struct fi_cq_tagged_entry comp = { 0 };
		struct fi_cq_err_entry err = { 0 };
		ssize_t rc = -FI_EAGAIN;
		unsigned k = 0;

		ONCE(t, (rc = fi_cq_read(cq, &comp, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL) {
			CHECK_EQ(fi_cq_readerr(cq, &err, 0), 1);
			CHECK(err.err > 0);
			comp.op_context = err.op_context;
			errors++;
		} else {
			CHECK_RC(rc, 1);
		}
		while (k < count && ctx[k] != comp.op_context)
			k++;
		CHECK(k < count && !seen[k]);
		seen[k] = true;
	}
	nothing(cq);
	return errors;
}

// ---- Connected endpoints

static void wait_shutdown(struct env *t, struct fid_ep *ep)
{
	struct fi_eq_cm_entry entry = { 0 };

	wait_event(t, t->eq, FI_SHUTDOWN, &entry, sizeof(entry));
	CHECK(entry.fid == &ep->fid);
}

TEST(fi_cm, close_ends_receives, EP_MSG, FI_MSG, "When the peer closes, FI_SHUTDOWN comes once and posted receives end in error")
{
	void *ctx[3];

	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 3; i++)
		ctx[i] = post_recv(t, &t->a, new_buf(t, LEN, 0));
	close_b(t);
	wait_shutdown(t, t->a.ep);
	CHECK_EQ(ended(t, t->a.rxcq, ctx, 3), 3);
	struct fi_eq_cm_entry entry;
	uint32_t event;
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	CHECK_RC(fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

TEST(fi_cm, close_ends_sends, EP_MSG, FI_MSG, "When the peer closes, sends that it has not taken end")
{
	struct buf out = new_buf(t, BIG, 1);
	void *ctx[4];

	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 4; i++)
		ctx[i] = post_send(t, &t->a, out);
	for (unsigned i = 0; i < 20; i++)
		progress(t);
	close_b(t);
	ended(t, t->a.txcq, ctx, 4); // the peer may have buffered some
	wait_shutdown(t, t->a.ep);
}

TEST(fi_cm, close_ends_delivery_complete, EP_MSG, FI_MSG, "When the peer closes, sends with FI_DELIVERY_COMPLETE that met no receive end")
{
	struct buf out = new_buf(t, BIG, 1);
	void *ctx[20];

	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 20; i++) { // more than the peer keeps
		struct op op = op_of(SENDMSG, false, out, t->a.peer);

		op.flags = FI_DELIVERY_COMPLETE;
		ctx[i] = op.ctx;
		op_post(t, t->a.ep, &op);
	}
	for (unsigned i = 0; i < 20; i++)
		progress(t);
	close_b(t);
	CHECK(ended(t, t->a.txcq, ctx, 20) > 0);
}

// Operations posted after the end of the connection are refused or complete in error; none waits.
static void after_shutdown(struct env *t, enum form form, bool receives)
{
	struct op op;
	ssize_t rc = -FI_EAGAIN;

	round_trip(t);
	close_b(t);
	wait_shutdown(t, t->a.ep);
	op = op_of(form, false, new_buf(t, LEN, !receives), t->a.peer);
	ONCE(t, (rc = op_try(t->a.ep, &op)) != -FI_EAGAIN);
	if (!rc)
		failed_somehow(t, receives ? t->a.rxcq : t->a.txcq, op.ctx);
}

TEST(fi_cm, post_after_shutdown, EP_MSG, FI_MSG, "After FI_SHUTDOWN a send fails, at once or in its completion")
{
	PAIR(t);
	after_shutdown(t, SEND, false);
}

TEST(fi_cm, receive_after_shutdown, EP_MSG, FI_MSG, "After FI_SHUTDOWN a receive ends in error, at once or in its completion")
{
	PAIR(t);
	after_shutdown(t, RECV, true);
}

TEST(fi_cm, shutdown_ends_both, EP_MSG, FI_MSG, "fi_shutdown raises FI_SHUTDOWN at both ends and ends the receives of both")
{
	struct fi_eq_cm_entry entry;
	bool seen[2] = { false, false };
	void *ctx[2];

	PAIR(t);
	round_trip(t);
	ctx[0] = post_recv(t, &t->a, new_buf(t, LEN, 0));
	ctx[1] = post_recv(t, &t->b, new_buf(t, LEN, 0));
	OK(fi_shutdown(t->a.ep, 0));
	for (unsigned i = 0; i < 2; i++) {
		wait_event(t, t->eq, FI_SHUTDOWN, &entry, sizeof(entry));
		CHECK(!seen[entry.fid == &t->b.ep->fid]);
		seen[entry.fid == &t->b.ep->fid] = true;
	}
	CHECK_EQ(ended(t, t->a.rxcq, &ctx[0], 1), 1);
	CHECK_EQ(ended(t, t->b.rxcq, &ctx[1], 1), 1);
}

TEST(fi_cm, data_before_shutdown, EP_MSG, FI_MSG, "Messages that completed before fi_shutdown arrive")
{
	enum { COUNT = 20 };
	struct buf in[COUNT];
	void *recvs[COUNT];

	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, LEN, 0);
		recvs[i] = post_recv(t, &t->b, in[i]);
	}
	for (unsigned i = 0; i < COUNT; i++)
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	for (unsigned i = 0; i < COUNT; i++)
		wait_comp(t, t->a.txcq, NULL);
	OK(fi_shutdown(t->a.ep, 0));
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recvs[i], FI_MSG | FI_RECV);
		CHECK(holds(in[i], LEN, i + 1));
	}
}

TEST(fi_cm, data_before_close, EP_RELIABLE, FI_MSG, "Messages that completed before fi_close arrive")
{
	enum { COUNT = 20 };
	struct buf in[COUNT];
	void *recvs[COUNT];

	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, LEN, 0);
		recvs[i] = post_recv(t, &t->b, in[i]);
	}
	for (unsigned i = 0; i < COUNT; i++)
		POST(t, fi_inject(t->a.ep, new_buf(t, LEN, i + 1).mem, LEN, t->a.peer));
	shut(t, &t->a.ep->fid);
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recvs[i], FI_MSG | FI_RECV);
		CHECK(holds(in[i], LEN, i + 1));
	}
}

// ---- Closing with pending operations

BOTH(close_with_work, EP_RELIABLE, 0, "An endpoint can be closed with receives and sends outstanding; nothing of them is touched afterwards")
{
	struct buf out = new_buf(t, BIG, 1), in = new_buf(t, BIG, 0);

	PAIR(t);
	round_trip(t);
	struct op send = op_of(SEND, tagged, out, t->a.peer), recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	for (unsigned i = 0; i < 5; i++) {
		op_post(t, t->a.ep, &recv);
		op_post(t, t->a.ep, &send);
	}
	send.addr = t->b.peer;
	op_post(t, t->b.ep, &send);
	for (unsigned i = 0; i < 3; i++)
		progress(t);
	shut(t, &t->a.ep->fid);
	memset(host_view(in.mem), 0x5a, in.len);
	memset(host_view(out.mem), 0x5a, out.len);
	for (unsigned i = 0; i < 200; i++)
		progress(t);
	const uint8_t *seen = host_view(in.mem);

	for (size_t i = 0; i < in.len; i++)
		CHECK(seen[i] == 0x5a);
}

// ---- Endpoints without connections

BOTH(peer_closed_ends_sends, EP_RDM, 0, "When the peer closes, sends that it has not taken end")
{
	struct buf out = new_buf(t, BIG, 1);
	void *ctx[4];

	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 4; i++) {
		struct op op = op_of(SENDMSG, tagged, out, t->a.peer);

		op.flags = i % 2 ? FI_DELIVERY_COMPLETE : 0;
		ctx[i] = op.ctx;
		op_post(t, t->a.ep, &op);
	}
	close_b(t);
	ended(t, t->a.txcq, ctx, 4);
}

TEST(fi_rma, peer_closed_ends_reads, EP_RELIABLE, FI_RMA | FI_MSG, "When the peer closes, reads that it has not answered end")
{
	struct buf mem = new_buf(t, BIG, 1), in = new_buf(t, BIG, 0);
	struct fid_mr *mr;
	void *ctx[4];

	PAIR(t);
	round_trip(t);
	mr = reg(t, mem.mem, BIG, FI_REMOTE_READ);
	for (unsigned i = 0; i < 4; i++) {
		ctx[i] = new_ctx();
		POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, rma_addr(t, mem.mem, 0), fi_mr_key(mr), ctx[i]));
	}
	close_b(t);
	ended(t, t->a.txcq, ctx, 4);
}

BOTH(receives_outlive_peer, EP_RDM, 0, "Receives posted for anyone stay posted when a peer closes")
{
	struct side sides[3] = { 0 };
	fi_addr_t at[9];
	struct buf in = new_buf(t, LEN, 0);

	open_group(t, sides, 3, at);
	struct op recv = op_of(RECV, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC), send = op_of(SEND, tagged, new_buf(t, LEN, 1), at[3]);

	op_post(t, sides[0].ep, &recv);
	op_post(t, sides[1].ep, &send);
	done(t, sides[0].rxcq, recv.ctx, RECEIVED(tagged));
	recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
	op_post(t, sides[0].ep, &recv);
	shut(t, &sides[1].ep->fid);
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	nothing(sides[0].rxcq);
	send = op_of(SEND, tagged, new_buf(t, LEN, 2), at[6]);
	op_post(t, sides[2].ep, &send);
	done(t, sides[0].rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 2));
}

BOTH(peer_restarts, EP_RDM, 0, "A peer that comes back at the same address is reached again, idle or with a send that fails meanwhile")
{
	PAIR(t);
	round_trip(t);
	for (unsigned round = 0; round < 3; round++) {
		struct fi_info *info = fi_dupinfo(t->b.info);
		struct buf in = new_buf(t, LEN, 0);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
		bool arrived = false;

		close_b(t);
		if (round == 1) { // the survivor notices the end
			for (unsigned i = 0; i < 100; i++)
				progress(t);
		} else if (round == 2) { // a send to the dead peer
			struct op op = op_of(SEND, tagged, new_buf(t, LEN, 9), t->a.peer);

			op_try(t->a.ep, &op);
		}
		keep_info(t, info);
		set_source(info, t->b.name, t->b.namelen);
		t->b.ep = open_ep(t, info);
		OK(fi_ep_bind(t->b.ep, &t->b.txcq->fid, FI_TRANSMIT));
		OK(fi_ep_bind(t->b.ep, &t->b.rxcq->fid, FI_RECV));
		OK(fi_ep_bind(t->b.ep, &t->b.av->fid, 0));
		OK(fi_enable(t->b.ep));
		op_post(t, t->b.ep, &recv);
		for (uint64_t limit = now_ms() + t->limit_ms; !arrived;) { // sends of the old connection may fail
			struct op op = op_of(SEND, tagged, new_buf(t, LEN, round + 1), t->a.peer);
			struct fi_cq_tagged_entry comp;
			struct fi_cq_err_entry err = { 0 };
			ssize_t rc = op_try(t->a.ep, &op);

			for (bool over = rc != 0; !over && !arrived;) {
				rc = fi_cq_read(t->a.txcq, &comp, 1);
				if (rc == -FI_EAVAIL)
					CHECK_EQ(fi_cq_readerr(t->a.txcq, &err, 0), 1);
				over = rc == 1 || rc == -FI_EAVAIL;
				arrived = fi_cq_read(t->b.rxcq, &comp, 1) == 1;
				if (now_ms() > limit)
					FAIL("round %u: a send never ended", round);
			}
			for (unsigned i = 0; i < 20 && !arrived; i++)
				arrived = fi_cq_read(t->b.rxcq, &comp, 1) == 1;
			progress(t);
			if (now_ms() > limit)
				FAIL("round %u: never arrived", round);
		}
		CHECK(holds(in, LEN, round + 1) || holds(in, LEN, 9));
		// Messages that were sent twice may arrive twice: receive until nothing is left.
		for (unsigned quiet = 0; quiet < 50; quiet++) {
			struct fi_cq_tagged_entry comp;
			struct fi_cq_err_entry err = { 0 };

			while (fi_cq_read(t->a.txcq, &comp, 1) == 1 || fi_cq_readerr(t->a.txcq, &err, 0) == 1)
				;
			progress(t);
		}
	}
}

// ---- No peer. The limit is a variable of this library, so these tests set their own environment.

static void limit_connects(const char *ms)
{
	setenv("FI_TCP_CONN_TIMEOUT", ms, 1);
}

// Waits for the error code or error entry of the one operation that was posted.
static int fails(struct env *t, struct side *side, struct op *op, unsigned at_most_ms)
{
	uint64_t start = now_ms();
	ssize_t rc = -FI_EAGAIN;

	for (;;) {
		struct fi_cq_tagged_entry comp;
		struct fi_cq_err_entry err = { 0 };

		if (rc == -FI_EAGAIN)
			rc = op_try(side->ep, op);
		if (rc && rc != -FI_EAGAIN)
			return (int)-rc;
		if (fi_cq_read(side->txcq, &comp, 1) == 1)
			FAIL("a completion, %s", comp.op_context == op->ctx ? "the send succeeds" : "of something else");
		if (fi_cq_readerr(side->txcq, &err, 0) == 1) {
			CHECK(op->form == INJECT || err.op_context == op->ctx);
			return err.err;
		}
		progress(t);
		if (now_ms() - start > at_most_ms)
			FAIL("no error within %u ms", at_most_ms);
	}
}

static void send_to(struct env *t, bool tagged, enum form form, size_t len)
{
	struct listener at;

	limit_connects("500");
	start_as(t, "tcp", FI_EP_RDM, FI_TAGGED | FI_MSG);
	PAIR(t);
	round_trip(t);
	at = wire_nobody();
	for (unsigned i = 0; i < 2; i++) {
		struct op op = op_of(form, tagged, new_buf(t, len, 1), 0);

		CHECK_EQ(fi_av_insert(t->a.av, &at.addr, 1, &op.addr, 0, NULL), 1);
		CHECK_RC(-fails(t, &t->a, &op, 5000), -FI_ECONNREFUSED);
		round_trip(t);
	}
}

#define NOBODY(RULE, FORM, SIZE, TEXT)                                                                   \
	TEST(fi_endpoint, RULE, CORE | OURS_ONLY, 0, TEXT " ends in FI_ECONNREFUSED within FI_TCP_CONN_TIMEOUT, the next one too") \
	{                                                                                                              \
		send_to(t, (SIZE) % 2, FORM, SIZE);                                                      \
	}

NOBODY(nobody_listens, SEND, 10, "A send to an address where nobody listens")
NOBODY(nobody_listens_large, SEND, 1000001, "A large send to an address where nobody listens")
NOBODY(nobody_listens_inject, INJECT, 11, "An injected send to an address where nobody listens")

static void nobody_answers(struct env *t, const char *prov, const char *variable)
{
	struct buf out;
	struct listener at;
	fi_addr_t peer;
	void *ctx[3];

	CHECK(!setenv(variable, "100", 1));
	start_as(t, prov, FI_EP_RDM, FI_TAGGED | FI_MSG);
	PAIR(t);
	out = new_buf(t, 1000000, 1);
	at = wire_listen();
	CHECK_EQ(fi_av_insert(t->a.av, &at.addr, 1, &peer, 0, NULL), 1);
	for (unsigned i = 0; i < 3; i++) {
		struct op op = op_of(SEND, i % 2, part(out, 0, i == 2 ? out.len : 10), peer);

		ctx[i] = op.ctx;
		op_post(t, t->a.ep, &op);
	}
	for (uint64_t end = now_ms() + 300; now_ms() < end; nothing(t->a.txcq))
		progress(t);
	round_trip_between(t, &t->a, &t->b);
	close(at.fd);
	for (unsigned i = 0; i < 3; i++)
		failed(t, t->a.txcq, ctx[i], FI_ECONNREFUSED);
	round_trip(t);
}

TEST(fi_endpoint, nobody_answers, CORE | OURS_ONLY, 0, "Sends to an address that accepts and does not answer wait for longer than FI_TCP_CONN_TIMEOUT; when its listener is closed they end in FI_ECONNREFUSED, in their order")
{
	nobody_answers(t, "tcp", "FI_TCP_CONN_TIMEOUT");
}

TEST(fi_sockets, nobody_answers, CORE | OURS_ONLY, 0, "Sends to an address that accepts and does not answer wait for longer than FI_SOCKETS_CONN_TIMEOUT; when its listener is closed they end in FI_ECONNREFUSED, in their order")
{
	nobody_answers(t, "sockets", "FI_SOCKETS_CONN_TIMEOUT");
}

TEST(fi_tcp, no_connect_limit, CORE | OURS_ONLY, 0, "FI_TCP_CONN_TIMEOUT=0: a send waits without a limit until its peer listens")
{
	struct sockaddr_in name = { 0 };
	struct listener at;
	struct buf in;
	size_t len;
	void *sent;

	limit_connects("0");
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	at = wire_nobody();
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	CHECK_EQ(fi_av_insert(t->a.av, &at.addr, 1, &t->a.peer, 0, NULL), 1);
	sent = post_send(t, &t->a, new_buf(t, 8, 1));
	for (uint64_t end = now_ms() + 100; now_ms() < end; nothing(t->a.txcq))
		progress(t);
	close(at.fd);
	open_bound_ep(t, &t->b);
	len = sizeof(name);
	OK(fi_getname(&t->b.ep->fid, &name, &len));
	OK(fi_setname(&t->b.ep->fid, &at.addr, sizeof(at.addr)));
	OK(fi_enable(t->b.ep));
	in = new_buf(t, 8, 0);
	post_recv(t, &t->b, in);
	wait_comp(t, t->b.rxcq, NULL);
	done(t, t->a.txcq, sent, FI_MSG | FI_SEND);
}

TEST(fi_endpoint, cancel_waiting_sends, CORE | OURS_ONLY, 0, "Sends and writes that wait for a connection can be cancelled: those named end in FI_ECANCELED, the others go on waiting")
{
	struct listener at = wire_listen();
	struct buf out;
	void *ctx[4] = { new_ctx(), new_ctx(), new_ctx(), new_ctx() };
	fi_addr_t peer;

	limit_connects("3000"); // for the one that is not cancelled
	start_as(t, "tcp", FI_EP_RDM, FI_MSG | FI_TAGGED | FI_RMA);
	PAIR(t);
	out = new_buf(t, 100000, 1);
	CHECK_EQ(fi_av_insert(t->a.av, &at.addr, 1, &peer, 0, NULL), 1);
	OK(fi_send(t->a.ep, out.mem, 8, out.desc, peer, ctx[0]));
	OK(fi_tsend(t->a.ep, out.mem, out.len, out.desc, peer, TAG, ctx[1]));
	OK(fi_write(t->a.ep, out.mem, 8, out.desc, peer, 0, 1, ctx[2]));
	OK(fi_send(t->a.ep, out.mem, 8, out.desc, peer, ctx[3]));
	for (unsigned i = 0; i < 3; i++) {
		OK(fi_cancel(&t->a.ep->fid, ctx[(i + 1) % 3]));
		failed(t, t->a.txcq, ctx[(i + 1) % 3], FI_ECANCELED);
		OK(fi_cancel(&t->a.ep->fid, ctx[(i + 1) % 3]));
	}
	OK(fi_cancel(&t->a.ep->fid, NULL));
	nothing(t->a.txcq);
	round_trip(t);
	close(at.fd);
	failed_somehow(t, t->a.txcq, ctx[3]);
}

TEST(fi_endpoint, always_rejected, CORE | OURS_ONLY, 0, "A send to a peer that rejects every attempt ends in error within FI_TCP_CONN_TIMEOUT")
{
	struct op op;
	struct listener at = wire_listen();
	ssize_t rc = -FI_EAGAIN;

	limit_connects("500");
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	PAIR(t);
	op = op_of(SEND, false, new_buf(t, 1000000, 1), 0);
	CHECK_EQ(fi_av_insert(t->b.av, &at.addr, 1, &op.addr, 0, NULL), 1);
	for (uint64_t limit = now_ms() + 5000;;) {
		struct fi_cq_err_entry err = { 0 };
		uint8_t bytes[40], private[8];
		int fd = accept4(at.fd, NULL, NULL, SOCK_NONBLOCK);

		if (fd >= 0) {
			read_cm(t, fd, REQUEST, private, 8);
			wire_write(t, fd, bytes, cm_bytes(bytes, REJECT, false, private, 8));
			close(fd);
		}
		if (rc == -FI_EAGAIN)
			rc = op_try(t->b.ep, &op);
		if (rc && rc != -FI_EAGAIN)
			break;
		if (fi_cq_readerr(t->b.txcq, &err, 0) == 1) {
			CHECK(err.op_context == op.ctx);
			break;
		}
		progress(t);
		if (now_ms() > limit)
			FAIL("no error");
	}
	round_trip_between(t, &t->a, &t->b);
}

TEST(fi_endpoint, no_descriptors, CORE | OURS_ONLY, 0, "Without file descriptors a send to a new peer ends in FI_EMFILE; others go on, and with descriptors it works")
{
	struct side sides[2] = { 0 };
	fi_addr_t at[4];
	struct op op, recv;
	struct rlimit limit, none;
	int lowest;

	limit_connects("500");
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	PAIR(t);
	round_trip(t);
	open_group(t, sides, 2, at);
	op = op_of(SEND, false, new_buf(t, 1000000, 1), at[1]);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	lowest = open("/dev/null", O_RDONLY); // the next free one
	CHECK(lowest >= 0 && !close(lowest));
	none.rlim_cur = lowest;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	CHECK_RC(-fails(t, &sides[0], &op, 5000), -FI_EMFILE);
	round_trip(t);
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	recv = op_of(RECV, false, new_buf(t, 1000000, 0), FI_ADDR_UNSPEC);
	op_post(t, sides[1].ep, &recv);
	op_post(t, sides[0].ep, &op);
	CHECK_EQ(done(t, sides[1].rxcq, recv.ctx, FI_MSG | FI_RECV).len, 1000000);
	done(t, sides[0].txcq, op.ctx, FI_MSG | FI_SEND);
}

// Returns the error of a send to a new peer with so many free descriptors.
static int starved(struct env *t, rlim_t free_ones)
{
	struct side sides[2] = { 0 };
	struct op op, recv;
	struct rlimit limit, few;
	fi_addr_t at[4];
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry comp;
	int lowest;

	open_group(t, sides, 2, at);
	op = op_of(SEND, false, new_buf(t, 100, 1), at[1]);
	recv = op_of(RECV, false, new_buf(t, 100, 0), FI_ADDR_UNSPEC);
	op_post(t, sides[1].ep, &recv);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	few = limit;
	lowest = open("/dev/null", O_RDONLY);
	CHECK(lowest >= 0 && !close(lowest));
	few.rlim_cur = lowest + free_ones;
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	err.err = -op_try(sides[0].ep, &op);
	for (uint64_t end = now_ms() + 5000; !err.err && now_ms() < end; progress(t)) {
		if (fi_cq_read(sides[0].txcq, &comp, 1) == 1)
			break;
		if (fi_cq_readerr(sides[0].txcq, &err, 0) == 1)
			break;
	}
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	for (unsigned i = 0; i < 2; i++)
		shut(t, &sides[i].ep->fid);
	return err.err;
}

TEST(fi_shm, few_descriptors, CORE | OURS_ONLY, 0, "Where either side of a new connection runs out of descriptors the send ends in FI_EMFILE, and not in a want of memory")
{
	unsigned refused = 0;

	setenv("FI_SHM_CONN_TIMEOUT", "500", 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	PAIR(t);
	round_trip(t);
	// With each number a different step fails. A side that cannot even accept lets the other one wait.
	for (rlim_t free_ones = 0; free_ones < 12; free_ones++) {
		int error = starved(t, free_ones);

		printf("%d free: %s\n", (int)free_ones, error ? fi_strerror(error) : "sent");
		if (error != 0 && error != FI_EMFILE && error != FI_ETIMEDOUT)
			FAIL("%d free descriptors: %s", (int)free_ones, fi_strerror(error));
		refused += error == FI_EMFILE;
	}
	CHECK(refused > 1);
	round_trip(t);
}
