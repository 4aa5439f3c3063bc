// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_msg(3), fi_tagged(3), fi_cq(3): forms of receive, entries by queue format, order, truncation, cancelling.
#include "transfer.h"

enum { LEN = 64 };

// Posts `count` receives at b, each with a buffer of its own.
static void post_recvs(struct env *t, bool tagged, struct op *recvs, struct buf *in, unsigned count, size_t len)
{
	for (unsigned i = 0; i < count; i++) {
		in[i] = new_buf(t, len, 0);
		recvs[i] = op_of(RECV, tagged, in[i], FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recvs[i]);
	}
}

static void *send_one(struct env *t, bool tagged, size_t len, unsigned seed)
{
	struct op op = op_of(SEND, tagged, new_buf(t, len, seed), t->a.peer);

	op_post(t, t->a.ep, &op);
	return op.ctx;
}

BOTH(recvv_scatters, EP_ANY, 0, "The vector receive fills its buffers in order, a short message leaves the last ones alone")
{
	size_t limit = t->info->rx_attr->iov_limit;

	PAIR(t);
	for (size_t count = 1; count <= limit && count <= MAX_IOV; count++) {
		struct buf in = new_buf(t, 16 * count, 0);
		struct op recv = op_of(RECVV, tagged, in, FI_ADDR_UNSPEC);
		size_t len = 16 * count - 9;

		recv.count = count;
		for (size_t i = 0; i < count; i++) {
			recv.iov[i] = (struct iovec){ in.mem + 16 * i, 16 };
			recv.desc[i] = in.desc;
		}
		op_post(t, t->b.ep, &recv);
		send_one(t, tagged, len, count);
		CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, len);
		CHECK(holds(in, len, count));
		CHECK(untouched(in, len));
	}
}

BOTH(receives_in_posted_order, EP_ANY, 0, "Messages from one peer take receives in the order in which they were posted")
{
	enum { COUNT = 100 };
	struct op recvs[COUNT];
	struct buf in[COUNT];

	PAIR(t);
	post_recvs(t, tagged, recvs, in, COUNT, LEN);
	for (unsigned i = 0; i < COUNT; i++)
		send_one(t, tagged, LEN, i + 1);
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged));
		CHECK(holds(in[i], LEN, i + 1));
	}
}

BOTH(unexpected_in_sent_order, EP_ANY, 0, "Messages that came before any receive are received in the order in which they were sent")
{
	enum { COUNT = 300 };
	unsigned sent;

	PAIR(t);
	// Sends as many messages as the provider keeps without a receive; the rest when receives make room.
	send_one(t, tagged, LEN, 1);
	for (sent = 1; sent < COUNT; sent++) {
		struct op op = op_of(SEND, tagged, new_buf(t, LEN, sent % 250 + 1), t->a.peer);
		ssize_t rc = -FI_EAGAIN;

		for (unsigned tries = 0; rc && tries < 100; tries++, progress(t))
			rc = op_try(t->a.ep, &op);
		if (rc)
			break;
	}
	turn(t);
	for (unsigned i = 0; i < COUNT; i++) {
		struct buf in = new_buf(t, LEN, 0);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

		op_post(t, t->b.ep, &recv);
		if (i >= sent)
			send_one(t, tagged, LEN, i % 250 + 1);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		CHECK(holds(in, LEN, i % 250 + 1));
	}
}

BOTH(large_and_small_in_order, EP_RELIABLE, 0, "A small message does not overtake a large one before it")
{
	enum { COUNT = 12 };
	struct op recvs[COUNT];
	struct buf in[COUNT];

	PAIR(t);
	post_recvs(t, tagged, recvs, in, COUNT, 2 << 20);
	for (unsigned i = 0; i < COUNT; i++)
		send_one(t, tagged, i % 2 ? 8 : 2 << 20, i + 1);
	struct expected_recv all[COUNT];

	for (unsigned i = 0; i < COUNT; i++)
		all[i] = (struct expected_recv){ recvs[i].ctx, RECEIVED(tagged), i % 2 ? 8 : 2 << 20 };
	all_done(t, t->b.rxcq, all, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(holds(in[i], i % 2 ? 8 : 2 << 20, i + 1));
}

// ---- Truncation

static void truncates(struct env *t, bool tagged, size_t sent, size_t room, bool unexpected)
{
	struct buf in = new_buf(t, room + 16, 0), next = new_buf(t, LEN, 0);
	struct op recv = op_of(RECV, tagged, part(in, 0, room), FI_ADDR_UNSPEC);
	struct op recv_next = op_of(RECV, tagged, next, FI_ADDR_UNSPEC);
	struct fi_cq_err_entry err;

	if (!unexpected)
		op_post(t, t->b.ep, &recv);
	send_one(t, tagged, sent, 1);
	if (unexpected) {
		turn(t);
		op_post(t, t->b.ep, &recv);
	}
	err = failed(t, t->b.rxcq, recv.ctx, FI_ETRUNC);
	if (kind_flags(err.flags) != RECEIVED(tagged))
		FAIL("flags of the error entry: 0x%" PRIx64, err.flags);
	CHECK(holds(in, room, 1));
	CHECK(untouched(in, room));
	op_post(t, t->b.ep, &recv_next);
	send_one(t, tagged, LEN, 2);
	CHECK_EQ(done(t, t->b.rxcq, recv_next.ctx, RECEIVED(tagged)).len, LEN);
	CHECK(holds(next, LEN, 2));
	for (unsigned i = 0; i < 2; i++) // the sends succeed
		wait_comp(t, t->a.txcq, NULL);
}

BOTH(truncated, EP_RELIABLE, 0, "A message larger than its receive: FI_ETRUNC, as much data as fits, and the next one is unharmed")
{
	static const size_t cases[][2] = { { 2, 1 }, { 64, 63 }, { 1000, 10 }, { 100000, 4096 }, { 3 << 20, 1 << 20 } };

	PAIR(t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		truncates(t, tagged, cases[i][0], cases[i][1], false);
}

BOTH(truncated_to_nothing, EP_RELIABLE, 0, "A message meets a receive of 0 bytes: FI_ETRUNC, and the next one is unharmed")
{
	PAIR(t);
	truncates(t, tagged, 1, 0, false);
	truncates(t, tagged, 100000, 0, false);
	truncates(t, tagged, 1, 0, true);
}

BOTH(truncated_unexpected, EP_RELIABLE, 0, "The same when the message came before its receive")
{
	static const size_t cases[][2] = { { 2, 1 }, { 1000, 10 }, { 100000, 4096 }, { 3 << 20, 1 << 20 } };

	PAIR(t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		truncates(t, tagged, cases[i][0], cases[i][1], true);
}

BOTH(truncated_data, EP_RELIABLE, 0, "The error entry of a truncated message has its remote CQ data, also if that is zero")
{
	static const uint64_t values[] = { 0x5a, 0 };

	PAIR(t);
	if (!t->info->domain_attr->cq_data_size)
		SKIP("no remote CQ data");
	for (unsigned i = 0; i < 2; i++) {
		struct buf in = new_buf(t, 8, 0), out = new_buf(t, 64, 1);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
		struct op send = op_of(SENDDATA, tagged, out, t->a.peer);
		struct fi_cq_err_entry err;

		send.data = values[i];
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		err = failed(t, t->b.rxcq, recv.ctx, FI_ETRUNC);
		CHECK(err.flags & FI_REMOTE_CQ_DATA);
		CHECK_EQ(err.data, values[i]);
	}
}

BOTH(truncated_lengths, EP_ANY, 0, "The error entry of a truncated message: len is what was placed, olen what was dropped")
{
	PAIR(t);
	for (unsigned unexpected = 0; unexpected < 2; unexpected++) {
		struct buf in = new_buf(t, 100, 0);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
		struct fi_cq_err_entry err;

		if (!unexpected)
			op_post(t, t->b.ep, &recv);
		send_one(t, tagged, 1234, 1);
		turn(t);
		if (unexpected)
			op_post(t, t->b.ep, &recv);
		err = failed(t, t->b.rxcq, recv.ctx, FI_ETRUNC);
		CHECK_EQ(err.len, 100);
		CHECK_EQ(err.olen, 1134);
		if (tagged)
			CHECK_EQ(err.tag, TAG);
	}
}

BOTH(truncated_vector, EP_ANY, 0, "A truncated message fills every buffer of a vector")
{
	PAIR(t);
	struct buf in = new_buf(t, 64, 0);
	struct op recv = op_of(RECVV, tagged, in, FI_ADDR_UNSPEC);

	if (t->info->rx_attr->iov_limit < 2)
		SKIP("iov_limit %zu", t->info->rx_attr->iov_limit);
	recv.count = 2;
	recv.iov[0].iov_len = 5;
	recv.iov[1] = (struct iovec){ in.mem + 5, 20 };
	recv.desc[1] = in.desc;
	op_post(t, t->b.ep, &recv);
	send_one(t, tagged, t->info->ep_attr->max_msg_size < 50000 ? 1000 : 50000, 1);
	failed(t, t->b.rxcq, recv.ctx, FI_ETRUNC);
	CHECK(holds(in, 25, 1));
	CHECK(untouched(in, 25));
}

// ---- Cancel

BOTH(cancel_posted, EP_ANY, 0, "A cancelled receive gives an FI_ECANCELED entry, and the next message takes the next receive")
{
	PAIR(t);
	struct op recvs[3];
	struct buf in[3];
	struct fi_cq_err_entry err;

	post_recvs(t, tagged, recvs, in, 3, LEN);
	CHECK_RC(fi_cancel(&t->b.ep->fid, recvs[1].ctx), 0);
	err = failed(t, t->b.rxcq, recvs[1].ctx, FI_ECANCELED);
	if (kind_flags(err.flags) != RECEIVED(tagged))
		FAIL("flags of the error entry: 0x%" PRIx64, err.flags);
	send_one(t, tagged, LEN, 1);
	done(t, t->b.rxcq, recvs[0].ctx, RECEIVED(tagged));
	send_one(t, tagged, LEN, 2);
	done(t, t->b.rxcq, recvs[2].ctx, RECEIVED(tagged));
	CHECK(holds(in[0], LEN, 1) && untouched(in[1], 0) && holds(in[2], LEN, 2));
	nothing(t->b.rxcq);
}

BOTH(cancel_only_one, EP_ANY, 0, "Of receives with the same context one cancel takes one")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	op_post(t, t->b.ep, &recv);
	op_post(t, t->b.ep, &recv);
	OK(fi_cancel(&t->b.ep->fid, recv.ctx));
	failed(t, t->b.rxcq, recv.ctx, FI_ECANCELED);
	send_one(t, tagged, LEN, 1);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	nothing(t->b.rxcq);
}

BOTH(cancel_nothing, EP_ANY, 0, "Cancelling what is not posted writes no entry")
{
	PAIR(t);
	struct op recvs[1];
	struct buf in[1];

	fi_cancel(&t->b.ep->fid, new_ctx());
	post_recvs(t, tagged, recvs, in, 1, LEN);
	fi_cancel(&t->b.ep->fid, new_ctx());
	send_one(t, tagged, LEN, 1);
	done(t, t->b.rxcq, recvs[0].ctx, RECEIVED(tagged));
	fi_cancel(&t->b.ep->fid, recvs[0].ctx);
	turn(t);
	nothing(t->b.rxcq);
}

BOTH(cancel_many, EP_RELIABLE, 0, "Every second of many receives can be cancelled, in any order")
{
	enum { COUNT = 100 };
	struct op recvs[COUNT];
	struct buf in[COUNT];

	PAIR(t);
	post_recvs(t, tagged, recvs, in, COUNT, LEN);
	for (int i = COUNT - 1; i > 0; i -= 2) {
		OK(fi_cancel(&t->b.ep->fid, recvs[i].ctx));
		failed(t, t->b.rxcq, recvs[i].ctx, FI_ECANCELED);
	}
	for (unsigned i = 0; i < COUNT; i += 2)
		send_one(t, tagged, LEN, i + 1);
	for (unsigned i = 0; i < COUNT; i += 2) {
		done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged));
		CHECK(holds(in[i], LEN, i + 1));
	}
}

// ---- State

static void needs_enabled(struct env *t, bool tagged)
{
	struct side side = { 0 };
	struct buf buf = new_buf(t, LEN, 1);
	struct op op;

	open_bound_ep(t, &side);
	for (enum form form = SEND; form <= RECVMSG; form++) {
		op = op_of(form, tagged, buf, 0);
		CHECK_RC(op_try(side.ep, &op), has_form(t, form) ? -FI_EOPBADSTATE : -FI_ENOSYS);
	}
}

BOTH(not_enabled, EP_ANY | OURS_ONLY, 0, "Posting to an endpoint that is not enabled gives -FI_EOPBADSTATE")
{
	needs_enabled(t, tagged);
}

BOTH(full_receive_queue, EP_RELIABLE, 0, "A full receive queue gives -FI_EAGAIN, and takes more after some receives completed")
{
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
	unsigned posted = 0;
	ssize_t rc = 0;

	PAIR(t);
	size_t most = 4 * t->b.info->rx_attr->size + 16;

	while (posted < most && !(rc = op_try(t->b.ep, &recv)))
		posted++;
	if (!rc)
		SKIP("%u receives and still room, rx_attr->size is %zu", posted, t->b.info->rx_attr->size);
	CHECK_RC(rc, -FI_EAGAIN);
	CHECK(posted >= t->b.info->rx_attr->size);
	for (unsigned i = 0; i < 10; i++) {
		send_one(t, tagged, LEN, 1);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	}
	for (unsigned i = 0; i < 10; i++)
		OK(op_try(t->b.ep, &recv));
}

TEST(fi_msg, posted_before_connect, EP_MSG, FI_MSG, "For connected endpoints receives may be posted before connect")
{
	struct side side = { 0 };
	struct buf in = new_buf(t, LEN, 0);
	void *ctx;

	open_bound_ep(t, &side);
	OK(fi_enable(side.ep));
	ctx = post_recv(t, &side, in);
	OK(fi_cancel(&side.ep->fid, ctx));
	failed(t, side.rxcq, ctx, FI_ECANCELED);
}

TEST(fi_msg, send_before_connect, EP_MSG | OURS_ONLY, FI_MSG, "Sending on an endpoint that is not connected fails at once")
{
	struct side side = { 0 };
	struct op op = op_of(SEND, false, new_buf(t, LEN, 1), FI_ADDR_UNSPEC);

	open_bound_ep(t, &side);
	OK(fi_enable(side.ep));
	CHECK_RC2(op_try(side.ep, &op), -FI_ENOTCONN, -FI_EOPBADSTATE);
}
