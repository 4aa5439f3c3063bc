// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_tagged(3): FI_PEEK, FI_CLAIM, FI_DISCARD.
#include "transfer.h"

enum { LEN = 100 };

static void send_tag(struct env *t, uint64_t tag, size_t len, unsigned seed)
{
	post_tsend(t, &t->a, new_buf(t, len, seed), tag);
}

static ssize_t peek(struct env *t, uint64_t tag, uint64_t ignore, uint64_t flags, void *ctx)
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = tag, .ignore = ignore, .context = ctx };
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_trecvmsg(t->b.ep, &msg, flags)) != -FI_EAGAIN);
	return rc;
}

// Peeks until the message has arrived. Every earlier peek must return FI_ENOMSG.
static struct fi_cq_tagged_entry find(struct env *t, uint64_t tag, uint64_t ignore, uint64_t flags, void *ctx)
{
	for (uint64_t limit = now_ms() + t->limit_ms;;) {
		struct fi_cq_tagged_entry comp = { 0 };
		struct fi_cq_err_entry err = { 0 };
		ssize_t rc;

		OK(peek(t, tag, ignore, FI_PEEK | flags, ctx));
		ONCE(t, (rc = fi_cq_read(t->b.rxcq, &comp, 1)) != -FI_EAGAIN);
		if (rc == 1) {
			CHECK(comp.op_context == ctx);
			CHECK((comp.flags & (FI_TAGGED | FI_RECV)) == (FI_TAGGED | FI_RECV));
			return comp;
		}
		CHECK_RC(rc, -FI_EAVAIL);
		CHECK_EQ(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
		CHECK_RC(-err.err, -FI_ENOMSG);
		CHECK(err.op_context == ctx);
		if (now_ms() > limit)
			FAIL("the message is never found");
	}
}

static void find_none(struct env *t, uint64_t tag, uint64_t ignore)
{
	void *ctx = new_ctx();

	OK(peek(t, tag, ignore, FI_PEEK, ctx));
	failed(t, t->b.rxcq, ctx, FI_ENOMSG);
}

static void receive(struct env *t, uint64_t tag, size_t len, unsigned seed)
{
	struct buf in = new_buf(t, len, 0);
	void *ctx = post_trecv(t, &t->b, in, tag, 0);

	CHECK_EQ(done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV).len, len);
	CHECK(holds(in, len, seed));
}

TEST(fi_tagged, peek_nothing, EP_RELIABLE, FI_TAGGED, "A peek that finds no message ends in an FI_ENOMSG entry and stays not queued")
{
	PAIR(t);
	find_none(t, 1, 0);
	send_tag(t, 1, LEN, 1);
	receive(t, 1, LEN, 1);
	nothing(t->b.rxcq);
	find_none(t, 1, 0);
}

TEST(fi_tagged, peek_reports, EP_RELIABLE, FI_TAGGED, "A peek reports length and tag, takes no buffer, and leaves the message for a receive")
{
	struct fi_cq_tagged_entry comp;

	PAIR(t);
	send_tag(t, 0x17, LEN, 1);
	for (unsigned i = 0; i < 3; i++) {
		comp = find(t, 0x10, 0xf, 0, new_ctx());
		CHECK_EQ(comp.len, LEN);
		CHECK_EQ(comp.tag, 0x17);
	}
	find_none(t, 0x27, 0);
	receive(t, 0x17, LEN, 1);
	find_none(t, 0x17, 0);
}

TEST(fi_tagged, peek_large, EP_RELIABLE, FI_TAGGED, "A peek reports the length of a message of any size")
{
	static const size_t lens[] = { 0, 1, 20000, 200000, 4 << 20 };

	PAIR(t);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		send_tag(t, i, lens[i], i + 1);
		CHECK_EQ(find(t, i, 0, 0, new_ctx()).len, lens[i]);
		receive(t, i, lens[i], i + 1);
	}
}

TEST(fi_tagged, peek_cq_data, EP_RELIABLE, FI_TAGGED, "A peek reports remote CQ data")
{
	struct op op;
	struct fi_cq_tagged_entry comp;

	PAIR(t);
	op = op_of(SENDDATA, true, new_buf(t, LEN, 1), t->a.peer);
	op_post(t, t->a.ep, &op);
	comp = find(t, TAG, 0, 0, new_ctx());
	CHECK(comp.flags & FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
}

TEST(fi_tagged, peek_source, EP_RDM, FI_TAGGED | FI_SOURCE, "A peek reports the source address")
{
	struct fi_cq_tagged_entry comp;
	fi_addr_t from = FI_ADDR_NOTAVAIL;
	void *ctx = new_ctx();
	ssize_t rc;

	PAIR(t);
	send_tag(t, 1, LEN, 1);
	find(t, 1, 0, 0, new_ctx());
	OK(peek(t, 1, 0, FI_PEEK, ctx));
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(from, t->b.peer);
}

TEST(fi_tagged, peek_finds_first, EP_RELIABLE, FI_TAGGED, "Of several messages that match, a peek reports the one that a receive would take")
{
	PAIR(t);
	for (unsigned i = 0; i < 5; i++)
		send_tag(t, 0x100 + i, LEN + i, i + 1);
	find(t, 0x104, 0, 0, new_ctx()); // all have arrived
	for (unsigned i = 0; i < 5; i++) {
		CHECK_EQ(find(t, 0x100, 0xf, 0, new_ctx()).tag, 0x100 + i);
		receive(t, 0x100 + i, LEN + i, i + 1);
	}
}

TEST(fi_tagged, peek_ignores_untagged, EP_RELIABLE, FI_TAGGED | FI_MSG, "A peek does not see untagged messages")
{
	struct buf in = new_buf(t, LEN, 0);
	void *ctx;

	PAIR(t);
	post_send(t, &t->a, new_buf(t, LEN, 1));
	turn(t);
	find_none(t, 0, ~UINT64_C(0));
	ctx = post_recv(t, &t->b, in);
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
}

// ---- Claim

static void receive_claimed(struct env *t, void *ctx, uint64_t tag, size_t len, unsigned seed)
{
	struct buf in = new_buf(t, len, 0);
	struct iovec iov = { in.mem, len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = ctx,
	};

	POST(t, fi_trecvmsg(t->b.ep, &msg, FI_CLAIM));
	CHECK_EQ(done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV).len, len);
	CHECK(holds(in, len, seed));
}

TEST(fi_tagged, claim, EP_RELIABLE, FI_TAGGED, "A claimed message is hidden from receives and peeks, and comes with the paired FI_CLAIM receive")
{
	void *ctx = new_ctx();

	PAIR(t);
	send_tag(t, 3, LEN, 1);
	send_tag(t, 3, LEN, 2);
	CHECK_EQ(find(t, 3, 0, FI_CLAIM, ctx).len, LEN);
	receive(t, 3, LEN, 2); // not the claimed one
	find_none(t, 3, 0);
	receive_claimed(t, ctx, 3, LEN, 1);
	find_none(t, 3, 0);
}

TEST(fi_tagged, claim_several, EP_RELIABLE, FI_TAGGED, "Several messages can be claimed, each retrieved by its own context, in any order")
{
	void *ctx[4];

	PAIR(t);
	for (unsigned i = 0; i < 4; i++) {
		ctx[i] = new_ctx();
		send_tag(t, 3, LEN + i, i + 1);
		CHECK_EQ(find(t, 3, 0, FI_CLAIM, ctx[i]).len, LEN + i);
	}
	for (unsigned i = 4; i-- > 0;)
		receive_claimed(t, ctx[i], 3, LEN + i, i + 1);
}

TEST(fi_tagged, claim_large, EP_RELIABLE, FI_TAGGED, "A message of several MiB can be claimed")
{
	void *ctx = new_ctx();

	PAIR(t);
	send_tag(t, 3, 5 << 20, 1);
	CHECK_EQ(find(t, 3, 0, FI_CLAIM, ctx).len, 5 << 20);
	receive_claimed(t, ctx, 3, 5 << 20, 1);
}

TEST(fi_tagged, claim_truncated, EP_RELIABLE, FI_TAGGED, "A claimed message that is larger than the buffer given is truncated")
{
	struct buf in = new_buf(t, 10, 0);
	struct iovec iov = { in.mem, 10 };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx(),
	};

	PAIR(t);
	send_tag(t, 3, LEN, 1);
	find(t, 3, 0, FI_CLAIM, msg.context);
	POST(t, fi_trecvmsg(t->b.ep, &msg, FI_CLAIM));
	failed(t, t->b.rxcq, msg.context, FI_ETRUNC);
	CHECK(holds(in, 10, 1));
	send_tag(t, 3, LEN, 2);
	receive(t, 3, LEN, 2);
}

// ---- Discard

TEST(fi_tagged, peek_discard, EP_RELIABLE, FI_TAGGED, "FI_PEEK with FI_DISCARD reports the message and drops it")
{
	static const size_t lens[] = { LEN, 0, 300000 };

	PAIR(t);
	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_tagged_entry comp;

		send_tag(t, 3, lens[i], 1);
		send_tag(t, 3, LEN, 2);
		comp = find(t, 3, 0, FI_DISCARD, new_ctx());
		CHECK_EQ(comp.tag, 3);
		receive(t, 3, LEN, 2);
		find_none(t, 3, 0);
	}
}

TEST(fi_tagged, claim_discard, EP_RELIABLE, FI_TAGGED, "FI_CLAIM with FI_DISCARD drops a message claimed before")
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx() };

	PAIR(t);
	send_tag(t, 3, LEN, 1);
	send_tag(t, 3, LEN, 2);
	find(t, 3, 0, FI_CLAIM, msg.context);
	POST(t, fi_trecvmsg(t->b.ep, &msg, FI_CLAIM | FI_DISCARD));
	done(t, t->b.rxcq, msg.context, FI_TAGGED | FI_RECV);
	receive(t, 3, LEN, 2);
	find_none(t, 3, 0);
}

TEST(fi_tagged, sender_of_discarded, EP_RELIABLE, FI_TAGGED, "The sender of a discarded message completes")
{
	void *ctx;

	PAIR(t);
	ctx = post_tsend(t, &t->a, new_buf(t, 300000, 1), 3);
	find(t, 3, 0, FI_DISCARD, new_ctx());
	done(t, t->a.txcq, ctx, FI_TAGGED | FI_SEND);
}

TEST(fi_tagged, claim_without_peek, EP_RELIABLE | OURS_ONLY, FI_TAGGED, "FI_CLAIM with a context that claimed nothing is refused")
{
	struct buf in = new_buf(t, LEN, 0);
	struct iovec iov = { in.mem, LEN };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx(),
	};

	PAIR(t);
	CHECK_RC(fi_trecvmsg(t->b.ep, &msg, FI_CLAIM), -FI_EINVAL);
	msg.context = NULL;
	CHECK_RC(fi_trecvmsg(t->b.ep, &msg, FI_CLAIM), -FI_EINVAL);
	nothing(t->b.rxcq);
}

TEST(fi_tagged, discard_alone, EP_RELIABLE | OURS_ONLY, FI_TAGGED, "FI_DISCARD without FI_PEEK or FI_CLAIM is refused")
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx() };

	PAIR(t);
	CHECK_RC2(fi_trecvmsg(t->b.ep, &msg, FI_DISCARD), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_tagged, discard_alone_keeps_claim, EP_RELIABLE | OURS_ONLY, FI_TAGGED, "FI_DISCARD without FI_CLAIM does not drop the message that its context has claimed")
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx() };

	PAIR(t);
	send_tag(t, 3, LEN, 1);
	find(t, 3, 0, FI_CLAIM, msg.context);
	CHECK_RC2(fi_trecvmsg(t->b.ep, &msg, FI_DISCARD), -FI_EINVAL, -FI_EBADFLAGS);
	receive_claimed(t, msg.context, 3, LEN, 1);
}

TEST(fi_tagged, peek_directed, EP_RDM, FI_TAGGED | FI_DIRECTED_RECV, "A peek that names a source finds messages of that source only")
{
	struct fi_msg_tagged msg = { .tag = 3, .context = new_ctx() };
	struct side other = { 0 };

	PAIR(t);
	open_bound_ep(t, &other);
	OK(fi_enable(other.ep));
	other.namelen = sizeof(other.name);
	OK(fi_getname(&other.ep->fid, other.name, &other.namelen));
	CHECK_EQ(fi_av_insert(t->b.av, other.name, 1, &other.peer, 0, NULL), 1);
	send_tag(t, 3, LEN, 1);
	find(t, 3, 0, 0, new_ctx());
	msg.addr = other.peer;
	POST(t, fi_trecvmsg(t->b.ep, &msg, FI_PEEK));
	failed(t, t->b.rxcq, msg.context, FI_ENOMSG);
	msg.addr = t->b.peer;
	POST(t, fi_trecvmsg(t->b.ep, &msg, FI_PEEK));
	CHECK_EQ(done(t, t->b.rxcq, msg.context, FI_TAGGED | FI_RECV).len, LEN);
}

TEST(fi_tagged, peek_selective, EP_RELIABLE, FI_TAGGED, "The result of a peek with FI_COMPLETION is reported where completions are selective, and so is one that finds nothing")
{
	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	find_none(t, 3, 0);
	send_tag(t, 3, LEN, 1);
	CHECK_EQ(find(t, 3, 0, FI_COMPLETION, new_ctx()).len, LEN);
}

TEST(fi_tagged, claim_selective, EP_RELIABLE, FI_TAGGED, "A claimed message is received or discarded without an entry if completions are selective and FI_COMPLETION is not given")
{
	struct buf in = new_buf(t, LEN, 0);
	struct iovec iov = { in.mem, LEN };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx(),
	};

	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	for (unsigned i = 0; i < 2; i++) {
		send_tag(t, 3, LEN, i + 1);
		find(t, 3, 0, FI_CLAIM | FI_COMPLETION, msg.context);
		POST(t, fi_trecvmsg(t->b.ep, &msg, i ? FI_CLAIM | FI_DISCARD : FI_CLAIM));
		ONCE(t, holds_by_now(in, LEN, 1)); // the second was dropped
		turn(t);
		nothing(t->b.rxcq);
	}
	find_none(t, 3, 0);
}

// The sender is closed between a claim and its receive or discard.
static void claim_of_one_who_left(struct env *t, size_t len, bool discard)
{
	struct buf in = new_buf(t, len, 0);
	struct iovec iov = { in.mem, len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = new_ctx(),
	};
	struct fi_cq_tagged_entry comp;
	ssize_t rc;

	send_tag(t, 3, len, 1);
	CHECK_EQ(find(t, 3, 0, FI_CLAIM, msg.context).len, len);
	shut(t, &t->a.ep->fid);
	turn(t);
	rc = fi_trecvmsg(t->b.ep, &msg, discard ? FI_CLAIM | FI_DISCARD : FI_CLAIM);
	if (rc) {
		CHECK(rc != -FI_EAGAIN);
		return;
	}
	ONCE(t, (rc = fi_cq_read(t->b.rxcq, &comp, 1)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		struct fi_cq_err_entry err = { 0 };

		CHECK_EQ(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
		CHECK(err.op_context == msg.context && err.err > 0);
		return;
	}
	CHECK_RC(rc, 1);
	CHECK(comp.op_context == msg.context);
	if (!discard)
		CHECK(comp.len == len && holds(in, len, 1));
}

TEST(fi_tagged, claim_of_one_who_left, EP_RDM, FI_TAGGED, "A message claimed before its sender closed is received whole or ends in error")
{
	PAIR(t);
	claim_of_one_who_left(t, LEN, false);
}

TEST(fi_tagged, claim_of_one_who_left_large, EP_RDM, FI_TAGGED, "A message of 32 MiB claimed before its sender closed is received whole or ends in error")
{
	PAIR(t);
	claim_of_one_who_left(t, 32 << 20, false);
}

TEST(fi_tagged, discard_of_one_who_left, EP_RDM, FI_TAGGED, "A message of 32 MiB claimed before its sender closed can be discarded, or the call fails")
{
	PAIR(t);
	claim_of_one_who_left(t, 32 << 20, true);
}
