// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3), fi_endpoint(3): when a transfer completes, the contents of entries in each format, suppressed completions.
#include "transfer.h"

enum { LEN = 64 };

static struct op receive_at_b(struct env *t, bool tagged, struct buf in)
{
	struct op op = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	op_post(t, t->b.ep, &op);
	return op;
}

// ---- Entry formats

// Reads one entry of `size` bytes and checks that later bytes of the buffer are unchanged.
static void read_entry(struct env *t, struct fid_cq *cq, void *entry, size_t size)
{
	uint8_t room[128];

	memset(room, 0xab, sizeof(room));
	wait_read(t, cq, room);
	for (size_t i = size; i < sizeof(room); i++)
		CHECK_EQ(room[i], 0xab);
	memcpy(entry, room, size);
}

static void check_entry(enum fi_cq_format format, const struct fi_cq_tagged_entry *entry, void *ctx, uint64_t flags,
			bool received, bool tagged)
{
	CHECK(entry->op_context == ctx);
	if (format == FI_CQ_FORMAT_CONTEXT)
		return;
	CHECK_EQ(kind_flags(entry->flags) & ~(received ? 0 : FI_REMOTE_CQ_DATA), flags);
	if (received)
		CHECK_EQ(entry->len, LEN);
	if (format == FI_CQ_FORMAT_MSG || !received)
		return;
	CHECK_EQ(entry->data, DATA);
	if (format == FI_CQ_FORMAT_TAGGED && tagged)
		CHECK_EQ(entry->tag, TAG);
}

static void entries(struct env *t, bool tagged, enum fi_cq_format format, size_t size)
{
	struct fi_cq_tagged_entry entry = { 0 };

	PAIR(t, .cq.format = format);
	struct op recv = receive_at_b(t, tagged, new_buf(t, LEN, 0));
	struct op send = op_of(SENDDATA, tagged, new_buf(t, LEN, 1), t->a.peer);

	op_post(t, t->a.ep, &send);
	read_entry(t, t->b.rxcq, &entry, size);
	check_entry(format, &entry, recv.ctx, RECEIVED(tagged) | FI_REMOTE_CQ_DATA, true, tagged);
	read_entry(t, t->a.txcq, &entry, size);
	check_entry(format, &entry, send.ctx, SENT(tagged), false, tagged);
}

BOTH(entry_context, EP_RELIABLE, 0, "FI_CQ_FORMAT_CONTEXT entries hold the context alone")
{
	entries(t, tagged, FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry));
}

BOTH(entry_msg, EP_RELIABLE, 0, "FI_CQ_FORMAT_MSG entries hold context, flags and length")
{
	entries(t, tagged, FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry));
}

BOTH(entry_data, EP_RELIABLE, 0, "FI_CQ_FORMAT_DATA entries add buffer and remote CQ data")
{
	entries(t, tagged, FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry));
}

BOTH(entry_tagged, EP_RELIABLE, 0, "FI_CQ_FORMAT_TAGGED entries add the tag")
{
	entries(t, tagged, FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry));
}

// ---- Completion levels

static void level(struct env *t, bool tagged, uint64_t flags, bool by_default, size_t len)
{
	struct buf in = new_buf(t, len, 0);
	struct op recv = receive_at_b(t, tagged, in);
	struct op send = op_of(by_default ? SEND : SENDMSG, tagged, new_buf(t, len, 1), t->a.peer);

	send.flags = flags;
	op_post(t, t->a.ep, &send);
	done(t, t->a.txcq, send.ctx, SENT(tagged));
	if (flags & FI_DELIVERY_COMPLETE) // the data arrives before the receiver's queue is read
		CHECK(holds(in, len, 1));
	CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, len);
	CHECK(holds(in, len, 1));
}

static const size_t level_lens[] = { 0, LEN, 20000, 3 << 20 };

BOTH(inject_complete, EP_RELIABLE, 0, "FI_INJECT_COMPLETE: the completion says that the buffer may be used again")
{
	PAIR(t);
	for (unsigned i = 0; i < 4; i++) {
		struct buf in = new_buf(t, level_lens[i], 0), out = new_buf(t, level_lens[i], 1);
		struct op recv = receive_at_b(t, tagged, in), send = op_of(SENDMSG, tagged, out, t->a.peer);

		send.flags = FI_INJECT_COMPLETE;
		op_post(t, t->a.ep, &send);
		done(t, t->a.txcq, send.ctx, SENT(tagged));
		memset(host_view(out.mem), 0xff, out.len);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		CHECK(holds(in, level_lens[i], 1));
	}
}

BOTH(transmit_complete, EP_RELIABLE, 0, "FI_TRANSMIT_COMPLETE is honoured for messages of any size")
{
	PAIR(t);
	for (unsigned i = 0; i < 4; i++)
		level(t, tagged, FI_TRANSMIT_COMPLETE, false, level_lens[i]);
}

BOTH(delivery_complete, EP_RELIABLE, 0, "FI_DELIVERY_COMPLETE: with a buffer posted, the completion says that the data is in it")
{
	PAIR(t);
	for (unsigned i = 0; i < 4; i++)
		level(t, tagged, FI_DELIVERY_COMPLETE, false, level_lens[i]);
}

BOTH(delivery_complete_many, EP_RELIABLE, 0, "Many sends of mixed levels complete, each once")
{
	enum { COUNT = 100 };
	struct op sends[COUNT], recvs[COUNT];
	bool seen[COUNT] = { 0 };

	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++)
		recvs[i] = receive_at_b(t, tagged, new_buf(t, 5000, 0));
	for (unsigned i = 0; i < COUNT; i++) {
		sends[i] = op_of(SENDMSG, tagged, new_buf(t, i % 7 ? LEN : 5000, i + 1), t->a.peer);
		sends[i].flags = (uint64_t[]){ FI_DELIVERY_COMPLETE, 0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE }[i % 4];
		op_post(t, t->a.ep, &sends[i]);
	}
	for (unsigned i = 0; i < COUNT; i++)
		done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged));
	for (unsigned i = 0; i < COUNT; i++) {
		struct fi_cq_tagged_entry comp;
		unsigned k = 0;

		wait_comp(t, t->a.txcq, &comp);
		while (k < COUNT && sends[k].ctx != comp.op_context)
			k++;
		CHECK(k < COUNT && !seen[k]);
		seen[k] = true;
	}
	nothing(t->a.txcq);
}

BOTH(delivery_complete_unexpected, EP_RELIABLE, 0, "FI_DELIVERY_COMPLETE completes when the receive is posted later")
{
	PAIR(t);
	for (unsigned i = 0; i < 4; i++) {
		struct buf in = new_buf(t, level_lens[i], 0);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
		struct op send = op_of(SENDMSG, tagged, new_buf(t, level_lens[i], 1), t->a.peer);

		send.flags = FI_DELIVERY_COMPLETE;
		op_post(t, t->a.ep, &send);
		turn(t);
		op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		CHECK(holds(in, level_lens[i], 1));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

BOTH(delivery_complete_truncated, EP_RELIABLE, 0, "The sender of a truncated message with FI_DELIVERY_COMPLETE completes")
{
	PAIR(t);
	struct op recv = receive_at_b(t, tagged, new_buf(t, 10, 0));
	struct op send = op_of(SENDMSG, tagged, new_buf(t, 100000, 1), t->a.peer);

	send.flags = FI_DELIVERY_COMPLETE;
	op_post(t, t->a.ep, &send);
	failed(t, t->b.rxcq, recv.ctx, FI_ETRUNC);
	done(t, t->a.txcq, send.ctx, SENT(tagged));
}

BOTH(match_complete, EP_ANY, 0, "FI_MATCH_COMPLETE is refused, or holds back the completion until a receive matched")
{
	PAIR(t);
	struct op send = op_of(SENDMSG, tagged, new_buf(t, LEN, 1), t->a.peer);
	ssize_t rc = -FI_EAGAIN;

	send.flags = FI_MATCH_COMPLETE;
	ONCE(t, (rc = op_try(t->a.ep, &send)) != -FI_EAGAIN);
	if (rc) {
		CHECK(rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL || rc == -FI_EBADFLAGS || rc == -FI_ENOSYS);
		return;
	}
	turn(t);
	nothing(t->a.txcq);
	struct op recv = receive_at_b(t, tagged, new_buf(t, LEN, 0));
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	done(t, t->a.txcq, send.ctx, SENT(tagged));
}

TEST(fi_tagged, match_complete_any_size, EP_RDM | OURS_ONLY, FI_TAGGED, "FI_MATCH_COMPLETE: each message completes when its own receive has matched, whatever its size")
{
	static const size_t len[] = { 0, 1, 4096, 1 << 20 };
	enum { COUNT = sizeof(len) / sizeof(len[0]) };
	struct op send[COUNT];

	if (is_layered(t))
		SKIP("not offered");
	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++) {
		send[i] = op_of(SENDMSG, true, new_buf(t, len[i], 1 + i), t->a.peer);
		send[i].tag = i;
		send[i].flags = FI_MATCH_COMPLETE;
		op_post(t, t->a.ep, &send[i]);
	}
	for (unsigned i = COUNT; i-- > 0;) {
		struct buf in = new_buf(t, len[i], 0);
		void *ctx = post_trecv(t, &t->b, in, i, 0);

		done(t, t->b.rxcq, ctx, RECEIVED(true));
		CHECK(holds(in, len[i], 1 + i));
		done(t, t->a.txcq, send[i].ctx, SENT(true));
		nothing(t->a.txcq);
	}
}

TEST(fi_tagged, match_complete_injected, EP_RDM | OURS_ONLY, FI_TAGGED, "FI_MATCH_COMPLETE with FI_INJECT: the buffer is free at once, the completion comes with the match")
{
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);
	struct op send = op_of(SENDMSG, true, out, FI_ADDR_UNSPEC);

	if (is_layered(t))
		SKIP("not offered");
	PAIR(t);
	send.addr = t->a.peer;
	send.flags = FI_MATCH_COMPLETE | FI_INJECT | FI_COMPLETION;
	// The first message has to wait for the connection as well.
	for (unsigned turns = 0; turns < 2; turns++) {
		fill(out.mem, LEN, 1 + turns);
		send.ctx = new_ctx();
		op_post(t, t->a.ep, &send);
		fill(out.mem, LEN, 9);
		turn(t);
		nothing(t->a.txcq);
		void *ctx = post_trecv(t, &t->b, in, TAG, 0);
		done(t, t->b.rxcq, ctx, RECEIVED(true));
		CHECK(holds(in, LEN, 1 + turns));
		done(t, t->a.txcq, send.ctx, SENT(true));
	}
}

TEST(fi_tagged, match_complete_discarded, EP_RDM | OURS_ONLY, FI_TAGGED, "FI_MATCH_COMPLETE: a message that the target discards completes, too")
{
	struct op send = op_of(SENDMSG, true, new_buf(t, LEN, 1), FI_ADDR_UNSPEC);
	struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = new_ctx() };
	struct fi_cq_tagged_entry comp;
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc = -FI_EAVAIL;

	if (is_layered(t))
		SKIP("not offered");
	PAIR(t);
	send.addr = t->a.peer;
	send.flags = FI_MATCH_COMPLETE;
	op_post(t, t->a.ep, &send);
	while (rc != 1) {
		POST(t, fi_trecvmsg(t->b.ep, &peek, FI_PEEK | FI_DISCARD));
		ONCE(t, (rc = fi_cq_read(t->b.rxcq, &comp, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL) {
			CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
			CHECK_EQ(err.err, FI_ENOMSG);
			nothing(t->a.txcq);
		}
	}
	done(t, t->a.txcq, send.ctx, SENT(true));
}

TEST(fi_tagged, match_complete_many, EP_RDM | OURS_ONLY, FI_TAGGED, "FI_MATCH_COMPLETE: as many messages as the transmit queue takes wait for their receives")
{
	enum { MANY = 600 };
	struct op send[MANY];
	unsigned posted = 0;

	if (is_layered(t))
		SKIP("not offered");
	PAIR(t);
	for (; posted < MANY; posted++) {
		ssize_t rc;

		send[posted] = op_of(SENDMSG, true, new_buf(t, 8, 1 + posted), t->a.peer);
		send[posted].tag = posted;
		send[posted].flags = FI_MATCH_COMPLETE;
		// A new connection takes some time. A later refusal lasts until a receive matches.
		if (posted == 0)
			op_post(t, t->a.ep, &send[0]);
		else if ((rc = op_try(t->a.ep, &send[posted])) == -FI_EAGAIN)
			break;
		else
			OK(rc);
	}
	turn(t);
	nothing(t->a.txcq);
	for (unsigned i = 0; i < posted; i++) {
		void *ctx = post_trecv(t, &t->b, new_buf(t, 8, 0), i, 0);

		done(t, t->b.rxcq, ctx, RECEIVED(true));
		done(t, t->a.txcq, send[i].ctx, SENT(true));
	}
}

static void delivery_by_default(struct fi_info *info)
{
	info->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
}

BOTH(delivery_complete_by_default, EP_RELIABLE, 0, "A completion level in the endpoint's default flags applies to the calls without flags")
{
	PAIR(t, .tune = delivery_by_default);
	for (unsigned i = 0; i < 4; i++)
		level(t, tagged, FI_DELIVERY_COMPLETE, true, level_lens[i]);
}

// ---- Selective completion

BOTH(selective_transmit, EP_ANY, 0, "Bound with FI_SELECTIVE_COMPLETION, sends complete only if they carry FI_COMPLETION")
{
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	struct op sends[6];

	for (unsigned i = 0; i < 6; i++) {
		struct op recv = receive_at_b(t, tagged, new_buf(t, LEN, 0));

		sends[i] = op_of(i == 0 ? SEND : SENDMSG, tagged, new_buf(t, LEN, i + 1), t->a.peer);
		sends[i].flags = i % 2 ? FI_COMPLETION : 0;
		op_post(t, t->a.ep, &sends[i]);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	}
	for (unsigned i = 1; i < 6; i += 2)
		done(t, t->a.txcq, sends[i].ctx, SENT(tagged));
	turn(t);
	nothing(t->a.txcq);
}

BOTH(selective_receive, EP_ANY, 0, "Bound with FI_SELECTIVE_COMPLETION, receives complete only if they carry FI_COMPLETION")
{
	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	struct op recvs[6];
	struct buf in[6];

	for (unsigned i = 0; i < 6; i++) {
		in[i] = new_buf(t, LEN, 0);
		recvs[i] = op_of(i == 0 ? RECV : RECVMSG, tagged, in[i], FI_ADDR_UNSPEC);
		recvs[i].flags = i % 2 ? FI_COMPLETION : 0;
		op_post(t, t->b.ep, &recvs[i]);
	}
	for (unsigned i = 0; i < 6; i++) {
		struct op send = op_of(SEND, tagged, new_buf(t, LEN, i + 1), t->a.peer);

		op_post(t, t->a.ep, &send);
	}
	for (unsigned i = 1; i < 6; i += 2)
		done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged));
	for (unsigned i = 0; i < 6; i++)
		CHECK(holds(in[i], LEN, i + 1));
	nothing(t->b.rxcq);
}

BOTH(selective_unexpected, EP_ANY, 0, "The same for messages that came before their receives")
{
	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	struct buf in[2];
	struct op recvs[2];

	for (unsigned i = 0; i < 2; i++) {
		struct op send = op_of(SEND, tagged, new_buf(t, LEN, i + 1), t->a.peer);

		op_post(t, t->a.ep, &send);
	}
	turn(t);
	for (unsigned i = 0; i < 2; i++) {
		in[i] = new_buf(t, LEN, 0);
		recvs[i] = op_of(RECVMSG, tagged, in[i], FI_ADDR_UNSPEC);
		recvs[i].flags = i ? FI_COMPLETION : 0;
		op_post(t, t->b.ep, &recvs[i]);
	}
	done(t, t->b.rxcq, recvs[1].ctx, RECEIVED(tagged));
	CHECK(holds(in[0], LEN, 1) && holds(in[1], LEN, 2));
	nothing(t->b.rxcq);
}

BOTH(selective_errors, EP_ANY, 0, "Operations that fail write an entry even when completions are suppressed")
{
	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	struct op cancelled = receive_at_b(t, tagged, new_buf(t, LEN, 0)), send;
	struct fi_cq_err_entry err = { 0 };

	OK(fi_cancel(&t->b.ep->fid, cancelled.ctx));
	wait_err(t, t->b.rxcq, &err);
	CHECK_RC(-err.err, -FI_ECANCELED);
	receive_at_b(t, tagged, new_buf(t, LEN, 0));
	send = op_of(SEND, tagged, new_buf(t, LEN + 1, 1), t->a.peer);
	op_post(t, t->a.ep, &send);
	wait_err(t, t->b.rxcq, &err);
	CHECK_RC(-err.err, -FI_ETRUNC);
}

static void completion_by_default(struct fi_info *info)
{
	info->tx_attr->op_flags |= FI_COMPLETION;
	info->rx_attr->op_flags |= FI_COMPLETION;
}

BOTH(selective_with_default, EP_ANY, 0, "With FI_COMPLETION among the default flags the calls without flags complete; the message form without the flag does not")
{
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION, .tune = completion_by_default);
	struct op recv[2], send[2];

	for (unsigned i = 0; i < 2; i++) {
		recv[i] = op_of(i ? RECV : RECVMSG, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recv[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		send[i] = op_of(i ? SEND : SENDMSG, tagged, new_buf(t, LEN, 1), t->a.peer);
		op_post(t, t->a.ep, &send[i]);
	}
	done(t, t->b.rxcq, recv[1].ctx, RECEIVED(tagged));
	done(t, t->a.txcq, send[1].ctx, SENT(tagged));
	nothing(t->b.rxcq);
	nothing(t->a.txcq);
}

BOTH(completion_flag_ignored, EP_ANY, 0, "Without FI_SELECTIVE_COMPLETION every operation completes, FI_COMPLETION or not")
{
	PAIR(t);
	for (unsigned i = 0; i < 2; i++) {
		struct op recv = op_of(RECVMSG, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		struct op send = op_of(SENDMSG, tagged, new_buf(t, LEN, 1), t->a.peer);

		recv.flags = send.flags = i ? FI_COMPLETION : 0;
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

// ---- Counters

static void wait_cntr(struct env *t, struct fid_cntr *cntr, uint64_t value)
{
	ONCE(t, fi_cntr_read(cntr) >= value);
	CHECK_EQ(fi_cntr_read(cntr), value);
}

BOTH(counter_send_recv, EP_ANY, 0, "Counters bound with FI_SEND and FI_RECV count messages that completed, injected ones too")
{
	enum { COUNT = 20 };

	PAIR(t, .cntr_flags = FI_SEND | FI_RECV);
	for (unsigned i = 0; i < COUNT; i++) {
		struct op recv = receive_at_b(t, tagged, new_buf(t, LEN, 0));
		struct op send = op_of(i % 2 ? INJECT : SEND, tagged, new_buf(t, LEN, 1), t->a.peer);

		op_post(t, t->a.ep, &send);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		wait_cntr(t, t->b.cntr, i + 1);
		wait_cntr(t, t->a.cntr, i + 1);
	}
	CHECK_EQ(fi_cntr_readerr(t->a.cntr), 0);
	CHECK_EQ(fi_cntr_readerr(t->b.cntr), 0);
}

BOTH(counter_selective, EP_ANY, 0, "Counters count operations whose completion entries are suppressed")
{
	PAIR(t, .cntr_flags = FI_SEND | FI_RECV, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION);
	for (unsigned i = 0; i < 5; i++) {
		struct op send = op_of(SEND, tagged, new_buf(t, LEN, 1), t->a.peer);

		receive_at_b(t, tagged, new_buf(t, LEN, 0));
		op_post(t, t->a.ep, &send);
	}
	wait_cntr(t, t->b.cntr, 5);
	wait_cntr(t, t->a.cntr, 5);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
}

BOTH(counter_errors, EP_ANY, 0, "An operation that fails counts as an error, not as a success")
{
	PAIR(t, .cntr_flags = FI_SEND | FI_RECV);
	struct op recv = receive_at_b(t, tagged, new_buf(t, LEN, 0));

	OK(fi_cancel(&t->b.ep->fid, recv.ctx));
	failed(t, t->b.rxcq, recv.ctx, FI_ECANCELED);
	ONCE(t, fi_cntr_readerr(t->b.cntr) == 1);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}

// ---- Queues under pressure

BOTH(small_queue_many_messages, EP_RELIABLE, 0, "Resource management: a small completion queue gives -FI_EAGAIN or waits, nothing is lost")
{
	enum { COUNT = 500 };
	unsigned sent = 0, completed = 0, received = 0, posted = 0;
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);

	if (t->info->domain_attr->resource_mgmt != FI_RM_ENABLED)
		SKIP("resource management is not offered");
	PAIR(t, .cq.size = 8);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, out, t->a.peer);

	for (uint64_t limit = now_ms() + t->limit_ms; completed < COUNT || received < COUNT;) {
		struct fi_cq_tagged_entry comp;
		ssize_t rc;

		while (posted < COUNT && !(rc = op_try(t->b.ep, &recv)))
			posted++;
		while (sent < COUNT && !(rc = op_try(t->a.ep, &send)))
			sent++;
		rc = fi_cq_read(t->a.txcq, &comp, 1);
		CHECK(rc == 1 || rc == -FI_EAGAIN);
		completed += rc == 1;
		rc = fi_cq_read(t->b.rxcq, &comp, 1);
		CHECK(rc == 1 || rc == -FI_EAGAIN);
		received += rc == 1;
		if (now_ms() > limit)
			FAIL("%u sent, %u of them complete; %u received", sent, completed, received);
	}
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
}

BOTH(full_transmit_queue, EP_RELIABLE, 0, "Posting until -FI_EAGAIN, then progress: everything posted arrives, in order, and posting goes on")
{
	enum { COUNT = 3000, BIG = 20000 };
	unsigned posted = 0, refused = 0, received = 0, completed = 0;
	struct buf in[2] = { new_buf(t, BIG, 0), new_buf(t, BIG, 0) };
	struct buf out = new_buf(t, BIG, 1);

	PAIR(t);
	struct op recv[2] = { op_of(RECV, tagged, in[0], FI_ADDR_UNSPEC), op_of(RECV, tagged, in[1], FI_ADDR_UNSPEC) };
	struct op send = op_of(SEND, tagged, out, t->a.peer);

	op_post(t, t->b.ep, &recv[0]);
	op_post(t, t->b.ep, &recv[1]);
	for (uint64_t limit = now_ms() + t->limit_ms; received < COUNT || completed < COUNT;) {
		struct fi_cq_tagged_entry comp = { 0 };
		ssize_t rc = 0;

		while (posted < COUNT) {
			struct op next = send;

			next.iov[0].iov_len = 8 + posted % (BIG - 8);
			rc = op_try(t->a.ep, &next);
			if (rc)
				break;
			posted++;
		}
		CHECK(rc == 0 || rc == -FI_EAGAIN);
		refused += rc != 0;
		rc = fi_cq_read(t->b.rxcq, &comp, 1);
		if (rc == 1) {
			CHECK(comp.op_context == recv[received % 2].ctx);
			CHECK_EQ(comp.len, 8 + received % (BIG - 8));
			op_post(t, t->b.ep, &recv[received % 2]);
			received++;
		} else {
			CHECK_RC(rc, -FI_EAGAIN);
		}
		rc = fi_cq_read(t->a.txcq, &comp, 1);
		CHECK(rc == 1 || rc == -FI_EAGAIN);
		completed += rc == 1;
		if (now_ms() > limit)
			FAIL("%u posted, %u refused, %u complete, %u received", posted, refused, completed, received);
	}
	if (!refused)
		SKIP("never refused");
}
