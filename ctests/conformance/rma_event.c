// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_RMA_EVENT: counters of endpoints (fi_endpoint(3)) and of regions (fi_mr(3)) count writes with several segments,
//! and simultaneous operations.
#include "transfer.h"

enum { LEN = 64, LARGE = 300000 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define EVENT_CAPS (FI_MSG | FI_RMA | FI_RMA_EVENT)

static struct region counted_region(struct env *t, struct fid_cntr *cntr)
{
	struct buf buf = new_buf(t, 4 * LEN, 0);
	struct region region = { .buf = buf, .mr = reg(t, buf.mem, buf.len, RW) };

	OK_OR_SKIP(fi_mr_bind(region.mr, &cntr->fid, FI_REMOTE_WRITE));
	if (t->info->domain_attr->mr_mode & FI_MR_ENDPOINT)
		OK(fi_mr_bind(region.mr, &t->b.ep->fid, 0));
	if (t->info->domain_attr->mr_mode & (FI_MR_ENDPOINT | FI_MR_RMA_EVENT))
		OK(fi_mr_enable(region.mr));
	region.key = fi_mr_key(region.mr);
	region.at = rma_addr(t, buf.mem, 0);
	return region;
}

// Writes LEN bytes to the first region, LEN / 2 to the second, LEN / 4 to the first again.
static void write_three(struct env *t, struct region *first, struct region *second)
{
	size_t total = LEN + LEN / 2 + LEN / 4;
	struct buf out = new_buf(t, total, 3);
	struct iovec iov = { out.mem, total };
	struct fi_rma_iov remote[] = {
		{ .addr = first->at, .len = LEN, .key = first->key },
		{ .addr = second->at, .len = LEN / 2, .key = second->key },
		{ .addr = first->at + 2 * LEN, .len = LEN / 4, .key = first->key },
	};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = remote, .rma_iov_count = 3,
		.context = new_ctx(),
	};

	if (t->info->tx_attr->rma_iov_limit < 3)
		SKIP("fewer segments");
	POST(t, fi_writemsg(t->a.ep, &msg, FI_COMPLETION));
	done(t, t->a.txcq, msg.context, FI_RMA | FI_WRITE);
}

static void comes_to(struct env *t, struct fid_cntr *cntr, uint64_t value)
{
	ONCE(t, fi_cntr_read(cntr) >= value);
	turn(t);
	CHECK_EQ(fi_cntr_read(cntr), value);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
}

TEST(fi_mr, counter_of_segments, EP_RELIABLE, EVENT_CAPS, "A write with several segments counts once for each region that it modifies, and once for the endpoint")
{
	struct fid_cntr *cntr[3];
	struct region region[3];

	PAIR(t, .cntr_flags = FI_REMOTE_WRITE);
	for (int i = 0; i < 3; i++) {
		cntr[i] = open_cntr(t, FI_WAIT_NONE);
		region[i] = counted_region(t, cntr[i]);
	}
	write_three(t, &region[0], &region[1]);
	comes_to(t, cntr[0], 1);
	comes_to(t, cntr[1], 1);
	comes_to(t, cntr[2], 0);
	comes_to(t, t->b.cntr, 1);
	CHECK(holds(region[0].buf, LEN, 3));
	for (int i = 0; i < 3; i++)
		shut(t, &region[i].mr->fid);
}

TEST(fi_mr, bytes_of_segments, EP_RELIABLE, EVENT_CAPS, "FI_CNTR_EVENTS_BYTES of a region: the bytes of a write that came to that region")
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_BYTES };
	struct fid_cntr *cntr[2];
	struct region region[2];

	PAIR(t);
	for (int i = 0; i < 2; i++) {
		int rc = fi_cntr_open(t->domain, &attr, &cntr[i], NULL);

		if (rc)
			SKIP("not offered");
		keep(t, &cntr[i]->fid);
		region[i] = counted_region(t, cntr[i]);
	}
	write_three(t, &region[0], &region[1]);
	comes_to(t, cntr[0], LEN + LEN / 4);
	comes_to(t, cntr[1], LEN / 2);
	for (int i = 0; i < 2; i++)
		shut(t, &region[i].mr->fid);
}

TEST(fi_endpoint, one_counter_for_all, EP_RELIABLE, EVENT_CAPS, "A counter bound for all six kinds counts each operation at its initiator and each at its target")
{
	struct buf out = new_buf(t, LEN, 1), in = new_buf(t, LEN, 0);
	struct region region;
	void *ctx = new_ctx();

	PAIR(t, .cntr_flags = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
	region = new_region(t, &t->b, new_buf(t, LEN, 0), RW);
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, region.at, region.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	comes_to(t, t->b.cntr, 1);
	POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, region.at, region.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_READ);
	comes_to(t, t->b.cntr, 2);
	round_trip(t);
	comes_to(t, t->a.cntr, 4);
	comes_to(t, t->b.cntr, 4);
}

TEST(fi_endpoint, messages_are_no_accesses, EP_RELIABLE, EVENT_CAPS, "FI_REMOTE_READ and FI_REMOTE_WRITE count accesses to memory, and no messages, however large")
{
	struct buf out = new_buf(t, LARGE, 1), in = new_buf(t, LARGE, 0);
	struct side *from[] = { &t->a, &t->b }, *to[] = { &t->b, &t->a };
	struct region region;
	void *ctx;

	PAIR(t, .cntr_flags = FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 2; i++) {
		void *sent, *received = post_recv(t, to[i], in);

		sent = post_send(t, from[i], out);
		done(t, to[i]->rxcq, received, FI_MSG | FI_RECV);
		done(t, from[i]->txcq, sent, FI_MSG | FI_SEND);
	}
	region = new_region(t, &t->b, new_buf(t, LEN, 0), RW);
	ctx = new_ctx();
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, region.at, region.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	comes_to(t, t->b.cntr, 1);
	comes_to(t, t->a.cntr, 0);
}
