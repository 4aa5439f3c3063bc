// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_FENCE of fi_msg(3), fi_tagged(3), fi_rma(3) and fi_cq(3): a fenced operation, and all later ones, start only
//! after the earlier ones to the same peer have completed.
#include "transfer.h"

enum { LEN = 64, BIG = 4 << 20 };

#define READ (FI_RMA | FI_READ)

static struct op at_b(struct env *t, bool tagged, struct buf in)
{
	struct op op = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	op_post(t, t->b.ep, &op);
	return op;
}

static struct op fenced(struct env *t, bool tagged, struct buf out, uint64_t flags)
{
	struct op op = op_of(SENDMSG, tagged, out, t->a.peer);

	op.flags = FI_FENCE | flags;
	op_post(t, t->a.ep, &op);
	return op;
}

BOTH(fence_refused_or_ordered, EP_ANY, 0, "FI_FENCE without the FI_FENCE capability is refused or harmless; with it, it is taken")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = at_b(t, tagged, in), send = op_of(SENDMSG, tagged, new_buf(t, LEN, 1), t->a.peer);
	ssize_t rc = -FI_EAGAIN;

	send.flags = FI_FENCE;
	ONCE(t, (rc = op_try(t->a.ep, &send)) != -FI_EAGAIN);
	if (rc) {
		CHECK(!(t->info->caps & FI_FENCE));
		CHECK(rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL || rc == -FI_EBADFLAGS);
		return;
	}
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 1));
	done(t, t->a.txcq, send.ctx, SENT(tagged));
}

BOTH(fence_with_nothing_before, EP_RELIABLE, FI_FENCE, "A fenced operation with none before it is an ordinary one")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = at_b(t, tagged, in), send = fenced(t, tagged, new_buf(t, LEN, 1), 0);

	done(t, t->a.txcq, send.ctx, SENT(tagged));
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 1));
}

BOTH(fence_waits_for_reads, EP_RELIABLE, FI_RMA | FI_FENCE, "A fenced send, and a plain one after it, begin when the reads before them have completed")
{
	PAIR(t);
	struct region target = new_region(t, &t->b, new_buf(t, BIG, 3), FI_REMOTE_READ);
	struct buf in[2] = { new_buf(t, BIG, 0), new_buf(t, BIG, 0) };
	struct op recv[2] = { at_b(t, tagged, new_buf(t, LEN, 0)), at_b(t, tagged, new_buf(t, LEN, 0)) };
	void *read[2] = { new_ctx(), new_ctx() };

	for (unsigned i = 0; i < 2; i++)
		POST(t, fi_read(t->a.ep, in[i].mem, BIG, in[i].desc, t->a.peer, target.at, target.key, read[i]));
	struct op first = fenced(t, tagged, new_buf(t, LEN, 1), 0);
	struct op second = op_of(SEND, tagged, new_buf(t, LEN, 2), t->a.peer);
	op_post(t, t->a.ep, &second);
	// All operations share a queue: the reads come first.
	done(t, t->a.txcq, read[0], READ);
	done(t, t->a.txcq, read[1], READ);
	CHECK(holds(in[0], BIG, 3) && holds(in[1], BIG, 3));
	done(t, t->a.txcq, first.ctx, SENT(tagged));
	done(t, t->a.txcq, second.ctx, SENT(tagged));
	done(t, t->b.rxcq, recv[0].ctx, RECEIVED(tagged));
	done(t, t->b.rxcq, recv[1].ctx, RECEIVED(tagged));
}

TEST(fi_rma, fence_orders_write_behind_read, EP_RELIABLE, FI_RMA | FI_FENCE, "A fenced write does not change what a read before it sees")
{
	struct region target;
	struct buf in = new_buf(t, BIG, 0), out = new_buf(t, BIG, 2);
	void *read = new_ctx(), *write = new_ctx();

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	struct iovec iov = { out.mem, BIG };
	struct fi_rma_iov at = { target.at, BIG, target.key };
	struct fi_msg_rma msg = { .msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer,
				  .rma_iov = &at, .rma_iov_count = 1, .context = write };

	POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, read));
	POST(t, fi_writemsg(t->a.ep, &msg, FI_FENCE | FI_DELIVERY_COMPLETE));
	done(t, t->a.txcq, read, READ);
	CHECK(holds(in, BIG, 1));
	done(t, t->a.txcq, write, FI_RMA | FI_WRITE);
	CHECK(holds(target.buf, BIG, 2));
}

BOTH(fence_raises_level_of_those_before, EP_RELIABLE, FI_RMA | FI_FENCE, "FI_FENCE with FI_DELIVERY_COMPLETE: its completion says that writes before it have been delivered")
{
	enum { COUNT = 20 };
	PAIR(t);
	struct region target = new_region(t, &t->b, new_buf(t, COUNT * LEN, 0), FI_REMOTE_WRITE);
	struct buf out = new_buf(t, COUNT * LEN, 3);

	at_b(t, tagged, new_buf(t, LEN, 0));
	for (unsigned i = 0; i < COUNT; i++)
		POST(t, fi_inject_write(t->a.ep, out.mem + i * LEN, LEN, t->a.peer, target.at + i * LEN, target.key));
	struct op send = fenced(t, tagged, new_buf(t, LEN, 1), FI_DELIVERY_COMPLETE);
	done(t, t->a.txcq, send.ctx, SENT(tagged));
	CHECK(holds(target.buf, COUNT * LEN, 3));
}

BOTH(fence_keeps_injected_bytes, EP_RELIABLE, FI_RMA | FI_FENCE, "A fenced operation with FI_INJECT leaves its buffer to the caller at once")
{
	PAIR(t);
	struct region target = new_region(t, &t->b, new_buf(t, BIG, 3), FI_REMOTE_READ);
	struct buf big = new_buf(t, BIG, 0), in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);
	struct op recv = at_b(t, tagged, in);
	void *read = new_ctx();

	POST(t, fi_read(t->a.ep, big.mem, BIG, big.desc, t->a.peer, target.at, target.key, read));
	struct op send = fenced(t, tagged, out, FI_INJECT | FI_COMPLETION);
	fill(out.mem, LEN, 2);
	done(t, t->a.txcq, read, READ);
	done(t, t->a.txcq, send.ctx, SENT(tagged));
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 1));
}

TEST(fi_tagged, fence_waits_for_match, EP_RDM | OURS_ONLY, FI_TAGGED | FI_FENCE, "Behind a message with FI_MATCH_COMPLETE, a fenced one and all after it stay until it has matched")
{
	struct buf in[3];
	void *recv[3];
	struct op send[3];

	PAIR(t);
	for (unsigned i = 0; i < 3; i++) {
		in[i] = new_buf(t, LEN, 0);
		if (i > 0)
			recv[i] = post_trecv(t, &t->b, in[i], i, 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		send[i] = op_of(SENDMSG, true, new_buf(t, LEN, 1 + i), t->a.peer);
		send[i].tag = i;
		send[i].flags = i == 0 ? FI_MATCH_COMPLETE : i == 1 ? FI_FENCE : 0;
		op_post(t, t->a.ep, &send[i]);
	}
	turn(t);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
	recv[0] = post_trecv(t, &t->b, in[0], 0, 0);
	for (unsigned i = 0; i < 3; i++) {
		done(t, t->b.rxcq, recv[i], RECEIVED(true));
		CHECK(holds(in[i], LEN, 1 + i));
		done(t, t->a.txcq, send[i].ctx, SENT(true));
	}
}

TEST(fi_tagged, fence_of_one_peer, EP_RDM | OURS_ONLY, FI_TAGGED | FI_FENCE, "A fence holds back operations to its own peer only")
{
	struct side *sides = keep_mem(3 * sizeof(struct side));
	fi_addr_t at[9];
	struct op send[3];

	open_group(t, sides, 3, at);
	for (unsigned i = 0; i < 3; i++) {
		send[i] = op_of(SENDMSG, true, new_buf(t, LEN, 1 + i), at[i < 2 ? 1 : 2]);
		send[i].flags = i == 0 ? FI_MATCH_COMPLETE : i == 1 ? FI_FENCE : 0;
		op_post(t, sides[0].ep, &send[i]);
	}
	void *recv = post_trecv(t, &sides[2], new_buf(t, LEN, 0), TAG, 0);
	done(t, sides[2].rxcq, recv, RECEIVED(true));
	done(t, sides[0].txcq, send[2].ctx, SENT(true));
	nothing(sides[0].txcq);
	for (unsigned i = 0; i < 2; i++) {
		recv = post_trecv(t, &sides[1], new_buf(t, LEN, 0), TAG, 0);
		done(t, sides[1].rxcq, recv, RECEIVED(true));
		done(t, sides[0].txcq, send[i].ctx, SENT(true));
	}
}

TEST(fi_tagged, fence_peer_closed, EP_RDM | OURS_ONLY, FI_TAGGED | FI_FENCE, "When the peer closes, a fenced operation that has not begun ends in error, after those before it")
{
	struct op send[2];

	PAIR(t);
	for (unsigned i = 0; i < 2; i++) {
		send[i] = op_of(SENDMSG, true, new_buf(t, LEN, 1), t->a.peer);
		send[i].flags = i == 0 ? FI_MATCH_COMPLETE : FI_FENCE;
		op_post(t, t->a.ep, &send[i]);
	}
	turn(t);
	nothing(t->a.txcq);
	shut(t, &t->b.ep->fid);
	for (unsigned i = 0; i < 2; i++)
		failed_somehow(t, t->a.txcq, send[i].ctx);
}
