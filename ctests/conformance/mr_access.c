// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_mr(3), fi_rma(3): permitted accesses of a peer to a region.
#include "harness.h"

// A forbidden access ends in an error at the initiator, at the latest with FI_DELIVERY_COMPLETE, and does not change
// the target's memory.

static void check_denied(struct env *t, bool write, uint64_t key, char *target, size_t offset)
{
	static char local[64];
	struct fi_context2 ctx;
	struct fi_cq_err_entry err = { 0 };
	void *desc = reg_desc(t, local, sizeof(local), FI_READ | FI_WRITE);
	struct iovec iov = { local, 32 };
	struct fi_rma_iov rma = { rma_addr(t, target, offset), 32, key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &rma, .rma_iov_count = 1,
		.context = &ctx,
	};

	memset(local, 0x11, sizeof(local));
	if (write)
		POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	else
		POST(t, fi_readmsg(t->a.ep, &msg, FI_COMPLETION));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.op_context == &ctx);
	CHECK(err.err > 0);
	for (size_t i = 0; i < sizeof(local); i++)
		CHECK_EQ(local[i], 0x11);
}

static char *target_memory(void)
{
	static char target[128];

	memset(target, 0x22, sizeof(target));
	return target;
}

static void check_untouched(const char *target)
{
	for (size_t i = 0; i < 128; i++)
		CHECK_EQ(target[i], 0x22);
}

TEST(fi_mr, write_needs_the_right, EP_RELIABLE, FI_MSG | FI_RMA, "A write to a region without FI_REMOTE_WRITE fails at the initiator")
{
	char *target = target_memory();
	struct fid_mr *mr;

	PAIR(t);
	mr = reg(t, target, 128, FI_REMOTE_READ);
	check_denied(t, true, fi_mr_key(mr), target, 0);
	check_untouched(target);
}

TEST(fi_mr, read_needs_the_right, EP_RELIABLE, FI_MSG | FI_RMA, "A read from a region without FI_REMOTE_READ fails at the initiator")
{
	char *target = target_memory();
	struct fid_mr *mr;

	PAIR(t);
	mr = reg(t, target, 128, FI_REMOTE_WRITE);
	check_denied(t, false, fi_mr_key(mr), target, 0);
}

TEST(fi_mr, write_needs_the_key, EP_RELIABLE, FI_MSG | FI_RMA, "A write with a key nobody registered fails at the initiator")
{
	char *target = target_memory();
	struct fid_mr *mr;

	PAIR(t);
	mr = reg(t, target, 128, FI_REMOTE_WRITE);
	check_denied(t, true, fi_mr_key(mr) + 1, target, 0);
	check_untouched(target);
}

TEST(fi_mr, write_stays_inside, EP_RELIABLE, FI_MSG | FI_RMA, "A write that begins in a region and ends behind it fails at the initiator")
{
	char *target = target_memory();
	struct fid_mr *mr;

	PAIR(t);
	mr = reg(t, target, 64, FI_REMOTE_WRITE);
	check_denied(t, true, fi_mr_key(mr), target, 48);
	check_untouched(target);
}

TEST(fi_mr, write_address_wraps, EP_RELIABLE, FI_MSG | FI_RMA, "An address whose end overflows 64 bits fails at the initiator")
{
	char *target = target_memory();
	struct fid_mr *mr;

	PAIR(t);
	mr = reg(t, target, 64, FI_REMOTE_WRITE);
	check_denied(t, true, fi_mr_key(mr), target, (size_t)0 - 16);
	check_untouched(target);
}

TEST(fi_mr, closed_region, EP_RELIABLE, FI_MSG | FI_RMA, "A write to a region that was closed fails at the initiator")
{
	char *target = target_memory();
	struct fid_mr *mr;
	uint64_t key;

	PAIR(t);
	mr = reg(t, target, 128, FI_REMOTE_WRITE);
	key = fi_mr_key(mr);
	shut(t, &mr->fid);
	check_denied(t, true, key, target, 0);
	check_untouched(target);
}

TEST(fi_mr, closed_region_keeps_target_alive, EP_RDM, FI_MSG | FI_RMA, "The target endpoint is unaffected by a peer's access to a closed region")
{
	char *target = target_memory();
	struct fid_mr *mr;
	uint64_t key;

	PAIR(t);
	mr = reg(t, target, 128, FI_REMOTE_WRITE);
	key = fi_mr_key(mr);
	shut(t, &mr->fid);
	check_denied(t, true, key, target, 0);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK(filled(t->flow->in[0], FLOW_LEN, 0));
}
