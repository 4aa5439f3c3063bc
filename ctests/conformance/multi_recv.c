// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_msg(3): buffers posted with FI_MULTI_RECV, and FI_OPT_MIN_MULTI_RECV of fi_endpoint(3).
#include "transfer.h"

enum { LEN = 64 };

static void set_min(struct fid_ep *ep, size_t min)
{
	OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
}

static void *post_multi(struct env *t, struct side *at, struct buf in)
{
	struct op op = op_of(RECVMSG, false, in, FI_ADDR_UNSPEC);

	op.flags = FI_MULTI_RECV;
	op_post(t, at->ep, &op);
	return op.ctx;
}

// A message was placed at `offset`. Returns whether the same entry releases the buffer; otherwise the next one must.
static bool placed(struct env *t, struct buf in, size_t offset, size_t len, unsigned seed, void *ctx)
{
	struct fi_cq_tagged_entry comp;

	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == ctx);
	CHECK_EQ(kind_flags(comp.flags) & ~FI_MULTI_RECV, FI_MSG | FI_RECV);
	CHECK_EQ(comp.len, len);
	CHECK((uint8_t *)comp.buf >= in.mem + offset && (uint8_t *)comp.buf + len <= in.mem + in.len);
	CHECK(filled(comp.buf, len, seed));
	return comp.flags & FI_MULTI_RECV;
}

static void released(struct env *t, void *ctx)
{
	struct fi_cq_tagged_entry comp;

	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == ctx);
	CHECK_EQ(kind_flags(comp.flags), FI_MULTI_RECV);
}

TEST(fi_msg, multi_recv_packs, EP_ANY, FI_MSG | FI_MULTI_RECV, "One buffer takes messages until less than the minimum is left, then it is released")
{
	enum { ROOM = 10 * LEN };
	struct buf in = new_buf(t, ROOM, 0);
	void *ctx;

	PAIR(t);
	set_min(t->b.ep, LEN);
	ctx = post_multi(t, &t->b, in);
	for (unsigned i = 0; i < 10; i++)
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	for (unsigned i = 0; i < 10; i++) {
		bool last = placed(t, in, 0, LEN, i + 1, ctx);

		CHECK(!last || i == 9);
		if (i == 9 && !last)
			released(t, ctx);
	}
	nothing(t->b.rxcq);
}

TEST(fi_msg, multi_recv_lengths, EP_ANY, FI_MSG | FI_MULTI_RECV, "Pieces of different lengths do not overlap, and what was received stays as it is")
{
	size_t lens[] = { 1, 100, 0, 7, 5000, 64, 0, 333, 20000, 2 };
	enum { COUNT = sizeof(lens) / sizeof(lens[0]) };
	size_t max = t->info->ep_attr->max_msg_size;
	struct buf in = new_buf(t, 65536, 0);
	uint8_t *at[COUNT];
	void *ctx;

	PAIR(t);
	set_min(t->b.ep, 64);
	ctx = post_multi(t, &t->b, in);
	for (unsigned i = 0; i < COUNT; i++) {
		struct fi_cq_tagged_entry comp;

		lens[i] = lens[i] < max ? lens[i] : max;
		post_send(t, &t->a, new_buf(t, lens[i], i + 1));
		comp = done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
		CHECK_EQ(comp.len, lens[i]);
		at[i] = comp.buf;
		CHECK(at[i] >= in.mem && at[i] + lens[i] <= in.mem + in.len);
	}
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(filled(at[i], lens[i], i + 1));
}

TEST(fi_msg, multi_recv_next_buffer, EP_ANY, FI_MSG | FI_MULTI_RECV, "Behind a released buffer the next posted receive is used")
{
	struct buf in[3];
	void *ctx[3];
	unsigned buffer = 0;

	PAIR(t);
	set_min(t->b.ep, LEN);
	for (unsigned i = 0; i < 3; i++) {
		in[i] = new_buf(t, 4 * LEN, 0);
		ctx[i] = post_multi(t, &t->b, in[i]);
	}
	for (unsigned i = 0; i < 12; i++)
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	for (unsigned i = 0; i < 12; i++) {
		bool last = placed(t, in[buffer], 0, LEN, i + 1, ctx[buffer]);

		CHECK(!last || i % 4 == 3);
		if (i % 4 != 3)
			continue;
		if (!last)
			released(t, ctx[buffer]);
		buffer++;
	}
	nothing(t->b.rxcq);
}

TEST(fi_msg, multi_recv_unexpected, EP_ANY, FI_MSG | FI_MULTI_RECV, "Messages that came before the buffer are packed into it in order")
{
	struct buf in = new_buf(t, 65536, 0);
	void *ctx;

	PAIR(t);
	set_min(t->b.ep, LEN);
	for (unsigned i = 0; i < 20; i++)
		post_send(t, &t->a, new_buf(t, LEN + i, i + 1));
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	ctx = post_multi(t, &t->b, in);
	for (unsigned i = 0; i < 20; i++)
		CHECK(!placed(t, in, 0, LEN + i, i + 1, ctx));
}

TEST(fi_msg, multi_recv_then_plain, EP_ANY, FI_MSG | FI_MULTI_RECV, "A plain receive posted behind a multi-receive buffer waits for its release")
{
	struct buf in = new_buf(t, 2 * LEN, 0), plain = new_buf(t, LEN, 0);
	void *ctx, *plain_ctx;

	PAIR(t);
	set_min(t->b.ep, LEN);
	ctx = post_multi(t, &t->b, in);
	plain_ctx = post_recv(t, &t->b, plain);
	for (unsigned i = 0; i < 3; i++)
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	CHECK(!placed(t, in, 0, LEN, 1, ctx));
	if (!placed(t, in, LEN, LEN, 2, ctx))
		released(t, ctx);
	done(t, t->b.rxcq, plain_ctx, FI_MSG | FI_RECV);
	CHECK(holds(plain, LEN, 3));
}

TEST(fi_msg, multi_recv_too_large, EP_ANY, FI_MSG | FI_MULTI_RECV, "A message larger than what is left of the buffer is truncated, and the buffer is released")
{
	struct buf in = new_buf(t, 4 * LEN, 0), next = new_buf(t, LEN, 0);
	struct fi_cq_err_entry err;
	void *ctx, *next_ctx;

	PAIR(t);
	set_min(t->b.ep, LEN);
	ctx = post_multi(t, &t->b, in);
	next_ctx = post_recv(t, &t->b, next);
	post_send(t, &t->a, new_buf(t, 2 * LEN, 1));
	CHECK(!placed(t, in, 0, 2 * LEN, 1, ctx));
	post_send(t, &t->a, new_buf(t, 3 * LEN, 2));
	err = failed(t, t->b.rxcq, ctx, FI_ETRUNC);
	if (!(err.flags & FI_MULTI_RECV))
		released(t, ctx);
	post_send(t, &t->a, new_buf(t, LEN, 3));
	done(t, t->b.rxcq, next_ctx, FI_MSG | FI_RECV);
	CHECK(holds(next, LEN, 3));
}

TEST(fi_msg, multi_recv_too_large_unexpected, EP_ANY, FI_MSG | FI_MULTI_RECV, "The same when the messages came before the buffer; the one behind goes to the next receive")
{
	struct buf in = new_buf(t, 4 * LEN, 0), next = new_buf(t, LEN, 0);
	struct fi_cq_err_entry err;
	void *ctx, *next_ctx;

	PAIR(t);
	set_min(t->b.ep, LEN);
	post_send(t, &t->a, new_buf(t, 2 * LEN, 1));
	post_send(t, &t->a, new_buf(t, 3 * LEN, 2));
	post_send(t, &t->a, new_buf(t, LEN, 3));
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	ctx = post_multi(t, &t->b, in);
	CHECK(!placed(t, in, 0, 2 * LEN, 1, ctx));
	err = failed(t, t->b.rxcq, ctx, FI_ETRUNC);
	if (!(err.flags & FI_MULTI_RECV))
		released(t, ctx);
	next_ctx = post_recv(t, &t->b, next);
	done(t, t->b.rxcq, next_ctx, FI_MSG | FI_RECV);
	CHECK(holds(next, LEN, 3));
}

TEST(fi_msg, multi_recv_larger_than_buffer, EP_ANY, FI_MSG | FI_MULTI_RECV, "A first message larger than the whole buffer fills it and is truncated; the buffer is released")
{
	struct buf in = new_buf(t, LEN, 0);
	struct fi_cq_err_entry err;
	void *ctx;

	PAIR(t);
	set_min(t->b.ep, 1);
	ctx = post_multi(t, &t->b, in);
	post_send(t, &t->a, new_buf(t, LEN + 1, 1));
	err = failed(t, t->b.rxcq, ctx, FI_ETRUNC);
	if (!(err.flags & FI_MULTI_RECV))
		released(t, ctx);
	CHECK(holds(in, LEN, 1));
	nothing(t->b.rxcq);
}

TEST(fi_msg, multi_recv_cancel, EP_ANY, FI_MSG | FI_MULTI_RECV, "A multi-receive buffer that is in use can be cancelled")
{
	struct buf in = new_buf(t, 65536, 0), next = new_buf(t, LEN, 0);
	void *ctx, *next_ctx;

	PAIR(t);
	ctx = post_multi(t, &t->b, in);
	post_send(t, &t->a, new_buf(t, LEN, 1));
	CHECK(!placed(t, in, 0, LEN, 1, ctx));
	OK(fi_cancel(&t->b.ep->fid, ctx));
	failed(t, t->b.rxcq, ctx, FI_ECANCELED);
	next_ctx = post_recv(t, &t->b, next);
	post_send(t, &t->a, new_buf(t, LEN, 2));
	done(t, t->b.rxcq, next_ctx, FI_MSG | FI_RECV);
	CHECK(holds(next, LEN, 2));
}

TEST(fi_msg, multi_recv_selective, EP_ANY, FI_MSG | FI_MULTI_RECV, "The release of the buffer is reported even when other receive completions are suppressed")
{
	struct buf in = new_buf(t, 4 * LEN, 0);
	struct fi_cq_tagged_entry comp;
	void *ctx;

	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	set_min(t->b.ep, LEN);
	ctx = post_multi(t, &t->b, in);
	for (unsigned i = 0; i < 4; i++)
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == ctx);
	CHECK(comp.flags & FI_MULTI_RECV);
	for (unsigned i = 0; i < 4; i++)
		CHECK(filled(in.mem + i * LEN, LEN, i + 1));
	nothing(t->b.rxcq);
}

static void multi_by_default(struct fi_info *info)
{
	info->rx_attr->op_flags |= FI_MULTI_RECV;
}

TEST(fi_msg, multi_recv_by_default, EP_ANY, FI_MSG | FI_MULTI_RECV, "FI_MULTI_RECV as a default receive flag of the endpoint applies to fi_recv, not to fi_recvmsg without it")
{
	struct buf in = new_buf(t, 65536, 0), once = new_buf(t, 65536, 0);
	struct op op = op_of(RECVMSG, false, once, FI_ADDR_UNSPEC);
	void *ctx;

	PAIR(t, .tune = multi_by_default);
	op_post(t, t->b.ep, &op);
	ctx = post_recv(t, &t->b, in);
	for (unsigned i = 0; i < 5; i++)
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	done(t, t->b.rxcq, op.ctx, FI_MSG | FI_RECV);
	CHECK(holds(once, LEN, 1));
	for (unsigned i = 1; i < 5; i++)
		CHECK(!placed(t, in, 0, LEN, i + 1, ctx));
}

// Two messages and two receives: each receive takes one message. An inapplicable flag must not make one take both.
static void one_message_each(struct env *t, enum form form, uint64_t flags)
{
	struct buf in[2] = { new_buf(t, 65536, 0), new_buf(t, 65536, 0) };
	struct op recv[2];

	for (unsigned i = 0; i < 2; i++) {
		recv[i] = op_of(form, true, in[i], FI_ADDR_UNSPEC);
		recv[i].flags = flags;
		op_post(t, t->b.ep, &recv[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		post_tsend(t, &t->a, new_buf(t, LEN, i + 1), TAG);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(done(t, t->b.rxcq, recv[i].ctx, FI_TAGGED | FI_RECV).len, LEN);
		CHECK(holds(in[i], LEN, i + 1));
	}
}

TEST(fi_tagged, multi_recv_by_default_without, EP_RELIABLE, FI_TAGGED | FI_MSG | FI_MULTI_RECV, "Without FI_TAGGED_MULTI_RECV the default flag FI_MULTI_RECV does not apply to tagged receives")
{
	if (t->info->caps & FI_TAGGED_MULTI_RECV)
		SKIP("the endpoint has FI_TAGGED_MULTI_RECV");
	PAIR(t, .tune = multi_by_default);
	one_message_each(t, RECV, 0);
	one_message_each(t, RECVV, 0);
}

TEST(fi_tagged, multi_recv_without, EP_RELIABLE, FI_TAGGED | FI_MSG | FI_MULTI_RECV, "Without FI_TAGGED_MULTI_RECV a tagged receive with FI_MULTI_RECV is refused, or takes one message")
{
	struct op op = op_of(RECVMSG, true, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	ssize_t rc = -FI_EAGAIN;

	if (t->info->caps & FI_TAGGED_MULTI_RECV)
		SKIP("the endpoint has FI_TAGGED_MULTI_RECV");
	PAIR(t);
	op.flags = FI_MULTI_RECV;
	op.tag = 1;
	ONCE(t, (rc = op_try(t->b.ep, &op)) != -FI_EAGAIN);
	if (rc)
		CHECK(rc == -FI_EBADFLAGS || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP);
	else
		one_message_each(t, RECVMSG, FI_MULTI_RECV);
}

TEST(fi_endpoint, min_multi_recv_option, EP_ANY, FI_MSG | FI_MULTI_RECV, "FI_OPT_MIN_MULTI_RECV reads back what was set")
{
	struct side side = { 0 };
	size_t value = 0, len = sizeof(value);

	open_bound_ep(t, &side);
	OK(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	CHECK_EQ(len, sizeof(value));
	CHECK(value > 0);
	set_min(side.ep, 12345);
	OK(fi_getopt(&side.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	CHECK_EQ(value, 12345);
}

TEST(fi_endpoint, min_multi_recv_decides, EP_ANY, FI_MSG | FI_MULTI_RECV, "A larger FI_OPT_MIN_MULTI_RECV releases the buffer earlier")
{
	struct buf in = new_buf(t, 1000, 0);
	void *ctx;

	PAIR(t);
	set_min(t->b.ep, 901);
	ctx = post_multi(t, &t->b, in);
	post_send(t, &t->a, new_buf(t, 100, 1));
	if (!placed(t, in, 0, 100, 1, ctx))
		released(t, ctx);
}
