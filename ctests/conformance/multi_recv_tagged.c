// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_tagged(3): buffers posted with FI_MULTI_RECV, which needs FI_TAGGED_MULTI_RECV of fi_getinfo(3).
#include "transfer.h"

enum { LEN = 64, IGNORED = 0xff };

#define MANY (FI_TAGGED | FI_TAGGED_MULTI_RECV)

static void set_min(struct env *t)
{
	size_t min = LEN;

	OK(fi_setopt(&t->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
}

// Posts a buffer for tags 0x1100 to 0x11ff.
static void *post_multi(struct env *t, struct buf in)
{
	struct op op = op_of(RECVMSG, true, in, FI_ADDR_UNSPEC);

	op.tag = 0x1100;
	op.ignore = IGNORED;
	op.flags = FI_MULTI_RECV;
	op_post(t, t->b.ep, &op);
	return op.ctx;
}

// The next completion must be a message in this buffer. Returns whether the buffer was released with it.
static bool placed(struct env *t, struct buf in, uint64_t tag, unsigned seed, void *ctx)
{
	struct fi_cq_tagged_entry comp;

	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == ctx);
	CHECK_EQ(kind_flags(comp.flags) & ~FI_MULTI_RECV, FI_TAGGED | FI_RECV);
	CHECK_EQ(comp.len, LEN);
	CHECK_EQ(comp.tag, tag);
	CHECK((uint8_t *)comp.buf >= in.mem && (uint8_t *)comp.buf + LEN <= in.mem + in.len);
	CHECK(filled(comp.buf, LEN, seed));
	return comp.flags & FI_MULTI_RECV;
}

static void released(struct env *t, void *ctx)
{
	struct fi_cq_tagged_entry comp;

	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == ctx);
	CHECK_EQ(kind_flags(comp.flags), FI_MULTI_RECV);
}

TEST(fi_tagged, multi_recv_packs, EP_RELIABLE, MANY, "One tagged buffer takes messages that match until less than the minimum is left, then it is released")
{
	struct buf in = new_buf(t, 6 * LEN, 0);
	void *ctx;

	PAIR(t);
	set_min(t);
	ctx = post_multi(t, in);
	for (unsigned i = 0; i < 6; i++)
		post_tsend(t, &t->a, new_buf(t, LEN, i + 1), 0x1100 + i);
	for (unsigned i = 0; i < 6; i++) {
		bool last = placed(t, in, 0x1100 + i, i + 1, ctx);

		CHECK(!last || i == 5);
		if (i == 5 && !last)
			released(t, ctx);
	}
	nothing(t->b.rxcq);
}

TEST(fi_tagged, multi_recv_other_tags, EP_RELIABLE, MANY, "Messages with other tags pass a multi-receive buffer by")
{
	struct buf in = new_buf(t, 100 * LEN, 0), other = new_buf(t, LEN, 0);
	void *ctx, *other_ctx;

	PAIR(t);
	set_min(t);
	ctx = post_multi(t, in);
	other_ctx = post_trecv(t, &t->b, other, 0x1200, 0);
	post_tsend(t, &t->a, new_buf(t, LEN, 1), 0x1101);
	post_tsend(t, &t->a, new_buf(t, LEN, 2), 0x1200);
	post_tsend(t, &t->a, new_buf(t, LEN, 3), 0x1102);
	CHECK(!placed(t, in, 0x1101, 1, ctx));
	done(t, t->b.rxcq, other_ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(other, LEN, 2));
	CHECK(!placed(t, in, 0x1102, 3, ctx));
}

TEST(fi_tagged, multi_recv_unexpected, EP_RELIABLE, MANY, "Messages that came before the buffer are packed into it, those with other tags are left")
{
	struct buf in = new_buf(t, 100 * LEN, 0), other = new_buf(t, LEN, 0);
	void *ctx;

	PAIR(t);
	set_min(t);
	for (unsigned i = 0; i < 10; i++)
		post_tsend(t, &t->a, new_buf(t, LEN, i + 1), i == 5 ? 0x1200 : 0x1100 + i);
	turn(t);
	ctx = post_multi(t, in);
	for (unsigned i = 0; i < 10; i++)
		if (i != 5)
			CHECK(!placed(t, in, 0x1100 + i, i + 1, ctx));
	ctx = post_trecv(t, &t->b, other, 0x1200, 0);
	done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(other, LEN, 6));
}

TEST(fi_tagged, multi_recv_by_default, EP_RELIABLE, MANY, "As a default flag of the endpoint FI_MULTI_RECV is for tagged receives, too")
{
	struct buf in = new_buf(t, 100 * LEN, 0);
	uint64_t flags = FI_RECV | FI_MULTI_RECV;
	void *ctx;

	PAIR(t);
	set_min(t);
	OK(fi_control(&t->b.ep->fid, FI_SETOPSFLAG, &flags));
	ctx = post_trecv(t, &t->b, in, 0x1100, IGNORED);
	for (unsigned i = 0; i < 4; i++)
		post_tsend(t, &t->a, new_buf(t, LEN, i + 1), 0x1100 + i);
	for (unsigned i = 0; i < 4; i++)
		CHECK(!placed(t, in, 0x1100 + i, i + 1, ctx));
}

TEST(fi_tagged, multi_recv_large, EP_RELIABLE, MANY, "Large messages are packed like small ones")
{
	enum { BIG = 300000 };
	struct buf in = new_buf(t, 3 * BIG + LEN, 0);
	void *ctx;

	PAIR(t);
	set_min(t);
	ctx = post_multi(t, in);
	for (unsigned i = 0; i < 3; i++)
		post_tsend(t, &t->a, new_buf(t, BIG, i + 1), 0x1100);
	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_tagged_entry comp = done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);

		CHECK_EQ(comp.len, BIG);
		CHECK((uint8_t *)comp.buf >= in.mem && (uint8_t *)comp.buf + BIG <= in.mem + in.len);
		CHECK(filled(comp.buf, BIG, i + 1));
	}
}
