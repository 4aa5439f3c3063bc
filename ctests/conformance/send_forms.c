// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_msg(3), fi_tagged(3): the contents of the message and of both completions for each form of send.
#include "transfer.h"

enum { LEN = 64 };

// Posts a receive of `len` at b and the send at a; checks what arrives. Returns the receive's completion.
static struct fi_cq_tagged_entry deliver(struct env *t, struct op *send, size_t len, unsigned seed, bool with_data)
{
	struct buf in = new_buf(t, len + 8, 0);
	struct op recv = op_of(RECV, send->tagged, in, FI_ADDR_UNSPEC);
	struct fi_cq_tagged_entry comp;

	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, send);
	comp = done(t, t->b.rxcq, recv.ctx, RECEIVED(send->tagged) | (with_data ? FI_REMOTE_CQ_DATA : 0));
	CHECK_EQ(comp.len, len);
	CHECK(holds(in, len, seed));
	CHECK(untouched(in, len));
	if (with_data)
		CHECK_EQ(comp.data, DATA);
	if (send->tagged)
		CHECK_EQ(comp.tag, TAG);
	return comp;
}

static void need_cq_data(struct env *t)
{
	if (t->info->domain_attr->cq_data_size < 8)
		SKIP("cq_data_size is %zu", t->info->domain_attr->cq_data_size);
}

BOTH(send, EP_ANY, 0, "The plain send delivers its buffer as one message and completes with its context")
{
	PAIR(t);
	struct op op = op_of(SEND, tagged, new_buf(t, LEN, 1), t->a.peer);

	deliver(t, &op, LEN, 1, false);
	done(t, t->a.txcq, op.ctx, SENT(tagged));
}

BOTH(sendv_gathers, EP_ANY, 0, "The vector send delivers its buffers, up to iov_limit of them, as one message")
{
	size_t limit = t->info->tx_attr->iov_limit;

	PAIR(t);
	for (size_t count = 1; count <= limit && count <= MAX_IOV; count++) {
		struct buf all = new_buf(t, LEN, count);
		struct op op = op_of(SENDV, tagged, all, t->a.peer);
		size_t at = 0;

		op.count = count;
		for (size_t i = 0; i < count; i++) { // pieces of different lengths, including empty ones
			size_t len = i + 1 == count ? LEN - at : i % 3 == 1 ? 0 : i + 1;

			op.iov[i] = (struct iovec){ all.mem + at, len };
			op.desc[i] = all.desc;
			at += len;
		}
		deliver(t, &op, LEN, count, false);
		done(t, t->a.txcq, op.ctx, SENT(tagged));
	}
}

BOTH(sendmsg, EP_ANY, 0, "The message form takes buffers, address, tag and context from its structure")
{
	PAIR(t);
	struct buf all = new_buf(t, LEN, 3);
	struct op op = op_of(SENDMSG, tagged, all, t->a.peer);

	op.iov[0].iov_len = LEN / 2;
	if (t->info->tx_attr->iov_limit > 1) {
		op.iov[1] = (struct iovec){ all.mem + LEN / 2, LEN - LEN / 2 };
		op.desc[1] = all.desc;
		op.count = 2;
	} else {
		op.iov[0].iov_len = LEN;
	}
	deliver(t, &op, LEN, 3, false);
	done(t, t->a.txcq, op.ctx, SENT(tagged));
}

BOTH(senddata, EP_RELIABLE, 0, "The data form carries 64 bits of remote CQ data to the receiver's completion")
{
	need_cq_data(t);
	PAIR(t);
	struct op op = op_of(SENDDATA, tagged, new_buf(t, LEN, 4), t->a.peer);

	deliver(t, &op, LEN, 4, true);
	done(t, t->a.txcq, op.ctx, SENT(tagged));
}

BOTH(sendmsg_cq_data, EP_RELIABLE, 0, "FI_REMOTE_CQ_DATA makes the message form carry its data; without the flag it does not")
{
	need_cq_data(t);
	PAIR(t);
	struct op with = op_of(SENDMSG, tagged, new_buf(t, LEN, 5), t->a.peer), without = with;

	with.flags = FI_REMOTE_CQ_DATA;
	deliver(t, &with, LEN, 5, true);
	done(t, t->a.txcq, with.ctx, SENT(tagged));
	deliver(t, &without, LEN, 5, false);
	done(t, t->a.txcq, without.ctx, SENT(tagged));
}

BOTH(inject, EP_ANY, 0, "After the inject call the buffer may be overwritten; success writes no completion")
{
	PAIR(t);
	struct buf out = new_buf(t, t->info->tx_attr->inject_size < LEN ? t->info->tx_attr->inject_size : LEN, 6);

	for (unsigned i = 0; i < 100; i++) {
		struct op op = op_of(INJECT, tagged, out, t->a.peer);
		struct buf in = new_buf(t, LEN, 0);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

		fill(out.mem, out.len, 200 + i);
		op_post(t, t->a.ep, &op);
		memset(host_view(out.mem), 0xff, out.len);
		op_post(t, t->b.ep, &recv);
		CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, out.len);
		CHECK(holds(in, out.len, 200 + i));
	}
	round_trip(t);
	nothing(t->a.txcq);
}

BOTH(inject_largest, EP_ANY, 0, "Inject takes a message of inject_size bytes, and an empty one")
{
	size_t limit = t->info->tx_attr->inject_size;

	PAIR(t);
	struct buf out = new_buf(t, limit, 7);
	struct op largest = op_of(INJECT, tagged, out, t->a.peer), empty = op_of(INJECT, tagged, part(out, 0, 0), t->a.peer);

	deliver(t, &largest, limit, 7, false);
	deliver(t, &empty, 0, 7, false);
}

BOTH(injectdata, EP_RELIABLE, 0, "The inject form with data is an inject that carries remote CQ data")
{
	need_cq_data(t);
	PAIR(t);
	struct op op = op_of(INJECTDATA, tagged, new_buf(t, 8, 8), t->a.peer);

	deliver(t, &op, 8, 8, true);
	round_trip(t);
	nothing(t->a.txcq);
}

BOTH(sendmsg_inject, EP_ANY, 0, "FI_INJECT returns the buffer at once, and still completes")
{
	PAIR(t);
	struct buf out = new_buf(t, 8, 9), in = new_buf(t, 8, 0);
	struct op send = op_of(SENDMSG, tagged, out, t->a.peer), recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	send.flags = FI_INJECT;
	op_post(t, t->a.ep, &send);
	memset(host_view(out.mem), 0xff, out.len);
	op_post(t, t->b.ep, &recv);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, 8, 9));
	done(t, t->a.txcq, send.ctx, SENT(tagged));
}

BOTH(empty_message_ignores_buffer, EP_ANY, 0, "For 0-byte operations buffer, vector, descriptors and count may be absent")
{
	static const enum form sends[] = { SEND, SENDV, SENDMSG, SENDDATA }, recvs[] = { RECV, RECVV, RECVMSG, RECV };

	PAIR(t);
	for (size_t i = 0; i < sizeof(sends) / sizeof(sends[0]); i++) {
		struct buf none = { 0 };
		struct op send = op_of(sends[i], tagged, none, t->a.peer);
		struct op recv = op_of(recvs[i], tagged, none, FI_ADDR_UNSPEC);

		if (!has_form(t, sends[i]))
			continue;
		send.count = recv.count = 0;
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		CHECK_EQ(done(t, t->b.rxcq, recv.ctx,
			      RECEIVED(tagged) | (sends[i] == SENDDATA ? FI_REMOTE_CQ_DATA : 0)).len, 0);
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

BOTH(empty_message_null_vector, EP_ANY, 0, "For 0-byte operations the vector pointer of the message form may be NULL")
{
	struct fi_context2 *sent = new_ctx(), *got = new_ctx();

	PAIR(t);
	if (tagged) {
		struct fi_msg_tagged send = { .addr = t->a.peer, .tag = TAG, .context = sent };
		struct fi_msg_tagged recv = { .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = got };

		POST(t, fi_trecvmsg(t->b.ep, &recv, 0));
		POST(t, fi_tsendmsg(t->a.ep, &send, 0));
	} else {
		struct fi_msg send = { .addr = t->a.peer, .context = sent };
		struct fi_msg recv = { .addr = FI_ADDR_UNSPEC, .context = got };

		POST(t, fi_recvmsg(t->b.ep, &recv, 0));
		POST(t, fi_sendmsg(t->a.ep, &send, 0));
	}
	CHECK_EQ(done(t, t->b.rxcq, got, RECEIVED(tagged)).len, 0);
	done(t, t->a.txcq, sent, SENT(tagged));
}

BOTH(more_then_last, EP_ANY, 0, "Messages posted with FI_MORE arrive, in order, with the one posted after them")
{
	enum { COUNT = 20 };
	struct op sends[COUNT], recvs[COUNT];
	struct buf in[COUNT];

	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, LEN, 0);
		recvs[i] = op_of(RECV, tagged, in[i], FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recvs[i]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		sends[i] = op_of(SENDMSG, tagged, new_buf(t, LEN, i + 1), t->a.peer);
		sends[i].flags = i + 1 < COUNT ? FI_MORE : 0;
		op_post(t, t->a.ep, &sends[i]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged));
		CHECK(holds(in[i], LEN, i + 1));
		done(t, t->a.txcq, sends[i].ctx, SENT(tagged));
	}
}

BOTH(more_receives, EP_ANY, 0, "FI_MORE is taken on receives")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECVMSG, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, new_buf(t, LEN, 2), t->a.peer);

	recv.flags = FI_MORE;
	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 2));
}

BOTH(more_and_nothing_after, EP_ANY, 0, "A message of any size posted with FI_MORE and followed by nothing still arrives")
{
	PAIR(t);
	size_t most = t->info->ep_attr->max_msg_size, lens[] = { LEN, most < 40000 ? most : 40000 };

	for (unsigned i = 0; i < 2; i++) {
		struct op op = op_of(SENDMSG, tagged, new_buf(t, lens[i], 3), t->a.peer);

		op.flags = FI_MORE;
		deliver(t, &op, lens[i], 3, false);
		done(t, t->a.txcq, op.ctx, SENT(tagged));
	}
}

BOTH(more_flushed_by_error, EP_AV | OURS_ONLY, 0, "Calls delayed by FI_MORE are flushed when a new call returns an error")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op op = op_of(SENDMSG, tagged, new_buf(t, LEN, 4), t->a.peer), recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
	struct op bad = op_of(SEND, tagged, new_buf(t, LEN, 5), 12345);
	ssize_t rc;

	round_trip(t);
	op_post(t, t->b.ep, &recv);
	op.flags = FI_MORE;
	op_post(t, t->a.ep, &op);
	rc = op_try(t->a.ep, &bad);
	CHECK(rc < 0 && rc != -FI_EAGAIN);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 4));
}
