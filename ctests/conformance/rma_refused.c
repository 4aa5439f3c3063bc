// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_rma(3), fi_mr(3), fi_cntr(3): forbidden accesses, errors at both ends, and RMA events.
#include "transfer.h"

enum { LEN = 64, ROOM = 4096 };
#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)

// The region is the middle third of the memory, so that a write outside of it is noticed.
struct target {
	struct buf around;
	struct region region;
};

static struct target open_target(struct env *t, uint64_t access)
{
	struct target target = { .around = new_buf(t, 3 * ROOM, 0) };

	target.region = new_region(t, &t->b, part(target.around, ROOM, ROOM), access);
	return target;
}

// A read, or a write that waits for its delivery, must end in an error entry and transfer nothing.
static void refused(struct env *t, struct target *target, bool read, uint64_t offset, size_t len, uint64_t key)
{
	struct buf local = new_buf(t, len, read ? 0 : 1);
	struct fi_rma_iov remote = { target->region.at + offset, len, key };
	struct iovec iov = { local.mem, len };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &local.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	struct fi_cq_err_entry err = { 0 };

	if (read)
		POST(t, fi_readmsg(t->a.ep, &msg, 0));
	else
		POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.op_context == msg.context);
	CHECK(err.err > 0);
	if ((kind_flags(err.flags) & (FI_RMA | FI_READ | FI_WRITE)) != (FI_RMA | (read ? FI_READ : FI_WRITE)))
		FAIL("flags of the error entry: 0x%" PRIx64, err.flags);
	CHECK(untouched(target->around, 0));
	if (read)
		CHECK(untouched(local, 0));
}

#define REFUSED(RULE, TEXT, ACCESS, OFFSET, LENGTH, KEY)                                                               \
	TEST(fi_rma, RULE##_write, EP_RELIABLE, FI_RMA, "A write " TEXT " ends in an error entry and writes nothing")  \
	{                                                                                                              \
		PAIR(t);                                                                                               \
		struct target target = open_target(t, ACCESS);                                                         \
		refused(t, &target, false, OFFSET, LENGTH, KEY);                                                       \
	}                                                                                                              \
	TEST(fi_rma, RULE##_read, EP_RELIABLE, FI_RMA, "A read " TEXT " ends in an error entry and reads nothing")     \
	{                                                                                                              \
		PAIR(t);                                                                                               \
		struct target target = open_target(t, ACCESS);                                                         \
		refused(t, &target, true, OFFSET, LENGTH, KEY);                                                        \
	}

REFUSED(unknown_key, "with a key that the target does not have", RW, 0, LEN, target.region.key + 0x5150)
REFUSED(past_end, "that reaches one byte past the end of the region", RW, ROOM - LEN + 1, LEN, target.region.key)
REFUSED(before_start, "that begins one byte before the region", RW, (uint64_t)-1, LEN, target.region.key)
REFUSED(beyond, "wholly outside the region", RW, 100 * ROOM, LEN, target.region.key)
REFUSED(wraps, "whose range wraps around the address space", RW, (uint64_t)-LEN / 2 - target.region.at, LEN, target.region.key)
REFUSED(no_right, "without the right to do so", FI_SEND, 0, LEN, target.region.key)

TEST(fi_rma, write_right_only, EP_RELIABLE, FI_RMA, "A region registered for FI_REMOTE_WRITE alone cannot be read")
{
	PAIR(t);
	struct target target = open_target(t, FI_REMOTE_WRITE);
	refused(t, &target, true, 0, LEN, target.region.key);
}

TEST(fi_rma, read_right_only, EP_RELIABLE, FI_RMA, "A region registered for FI_REMOTE_READ alone cannot be written")
{
	PAIR(t);
	struct target target = open_target(t, FI_REMOTE_READ);
	refused(t, &target, false, 0, LEN, target.region.key);
}

TEST(fi_rma, closed_region, EP_RELIABLE, FI_RMA, "A region that was closed cannot be reached")
{
	PAIR(t);
	struct target target = open_target(t, RW);
	shut(t, &target.region.mr->fid);
	refused(t, &target, false, 0, LEN, target.region.key);
}

TEST(fi_rma, second_piece_refused, EP_RELIABLE, FI_RMA, "A write whose second piece is not allowed writes nothing of the first either")
{
	PAIR(t);
	struct target target = open_target(t, RW);
	struct buf out = new_buf(t, 2 * LEN, 1);
	struct fi_rma_iov remote[2] = { { target.region.at, LEN, target.region.key }, { target.region.at + ROOM - 1, LEN, target.region.key } };
	struct iovec iov = { out.mem, 2 * LEN };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = remote,
		.rma_iov_count = 2, .context = new_ctx(),
	};
	struct fi_cq_err_entry err = { 0 };

	if (t->info->tx_attr->rma_iov_limit < 2)
		SKIP("rma_iov_limit %zu", t->info->tx_attr->rma_iov_limit);
	POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.op_context == msg.context);
	CHECK(untouched(target.around, 0));
}

TEST(fi_rma, works_after_refusal, EP_RDM, FI_RMA | FI_MSG, "After a refused access the two endpoints can talk again")
{
	PAIR(t);
	struct target target = open_target(t, RW);
	struct buf out = new_buf(t, LEN, 2), in = new_buf(t, LEN, 0);
	void *ctx;

	refused(t, &target, false, 0, LEN, target.region.key + 0x5150);
	ctx = new_ctx();
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.region.at, target.region.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, target.region.at, target.region.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_READ);
	CHECK(holds(in, LEN, 2));
	round_trip(t);
}

TEST(fi_rma, refusal_shuts_connection, EP_MSG, FI_RMA | FI_MSG, "After a refused access over a connection both ends get FI_SHUTDOWN, and posted receives end in error")
{
	PAIR(t);
	if (!is_ours() && strcmp(t->prov, "tcp"))
		SKIP("what a refused access does to the connection is up to the provider");
	struct target target = open_target(t, RW);
	struct buf in = new_buf(t, LEN, 0);
	struct fi_eq_cm_entry entry;
	bool seen[2] = { false, false };
	void *recv = post_recv(t, &t->b, in);

	refused(t, &target, true, 0, LEN, target.region.key + 0x5150);
	for (unsigned i = 0; i < 2; i++) {
		wait_event(t, t->eq, FI_SHUTDOWN, &entry, sizeof(entry));
		CHECK(entry.fid == &t->a.ep->fid || entry.fid == &t->b.ep->fid);
		CHECK(!seen[entry.fid == &t->b.ep->fid]);
		seen[entry.fid == &t->b.ep->fid] = true;
	}
	failed(t, t->b.rxcq, recv, is_ours() ? FI_ECONNABORTED : FI_ECANCELED);
}

// ---- Events

static void wait_cntr(struct env *t, struct fid_cntr *cntr, uint64_t value)
{
	ONCE(t, fi_cntr_read(cntr) >= value);
	CHECK_EQ(fi_cntr_read(cntr), value);
}

static void write_and_read(struct env *t, struct target *target, unsigned count)
{
	struct buf out = new_buf(t, LEN, 1);
	void *ctx = new_ctx();

	for (unsigned i = 0; i < count; i++) {
		POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target->region.at, target->region.key, ctx));
		done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
		POST(t, fi_read(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target->region.at, target->region.key, ctx));
		done(t, t->a.txcq, ctx, FI_RMA | FI_READ);
	}
}

TEST(fi_cntr, initiator_rma, EP_RELIABLE, FI_RMA, "Counters bound with FI_WRITE and FI_READ count accesses that this endpoint made")
{
	PAIR(t, .cntr_flags = FI_WRITE | FI_READ);
	struct target target = open_target(t, RW);

	write_and_read(t, &target, 5);
	wait_cntr(t, t->a.cntr, 10);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}

TEST(fi_cntr, target_write, EP_RELIABLE, FI_RMA | FI_RMA_EVENT, "A counter bound with FI_REMOTE_WRITE counts writes that peers made")
{
	PAIR(t, .cntr_flags = FI_REMOTE_WRITE);
	struct target target = open_target(t, RW);

	write_and_read(t, &target, 5);
	wait_cntr(t, t->b.cntr, 5);
	CHECK(holds(part(target.around, ROOM, LEN), LEN, 1));
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
}

TEST(fi_cntr, target_read, EP_RELIABLE, FI_RMA | FI_RMA_EVENT, "A counter bound with FI_REMOTE_READ counts reads that peers made")
{
	PAIR(t, .cntr_flags = FI_REMOTE_READ);
	struct target target = open_target(t, RW);

	write_and_read(t, &target, 5);
	wait_cntr(t, t->b.cntr, 5);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
}

TEST(fi_cntr, region_write, EP_RELIABLE, FI_RMA | FI_RMA_EVENT, "A counter bound to a region counts the writes to that region only")
{
	PAIR(t);
	struct target counted = { 0 }, other = open_target(t, RW);
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_UNSPEC);

	counted.around = new_buf(t, ROOM, 0);
	counted.region.mr = reg(t, counted.around.mem, ROOM, RW);
	OK_OR_SKIP(fi_mr_bind(counted.region.mr, &cntr->fid, FI_REMOTE_WRITE));
	if (t->info->domain_attr->mr_mode & FI_MR_ENDPOINT)
		OK(fi_mr_bind(counted.region.mr, &t->b.ep->fid, 0));
	if (t->info->domain_attr->mr_mode & (FI_MR_ENDPOINT | FI_MR_RMA_EVENT))
		OK(fi_mr_enable(counted.region.mr));
	counted.region.key = fi_mr_key(counted.region.mr);
	counted.region.at = rma_addr(t, counted.around.mem, 0);
	write_and_read(t, &other, 3);
	write_and_read(t, &counted, 4);
	wait_cntr(t, cntr, 4);
}

TEST(fi_cntr, refused_access, EP_RELIABLE, FI_RMA | FI_RMA_EVENT, "A refused access counts as an error at the initiator and not at all at the target")
{
	PAIR(t, .cntr_flags = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
	struct target target = open_target(t, RW);

	refused(t, &target, true, 0, LEN, target.region.key + 0x5150);
	ONCE(t, fi_cntr_readerr(t->a.cntr) == 1);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}
