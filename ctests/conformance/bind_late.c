// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), fi_ep_bind on an enabled endpoint: counters at any time, queues while no operation is in flight.
#include "wire.h"

#include <rdma/fi_trigger.h>

enum { LEN = 64, LARGE = 32768 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)

static void comes_to(struct env *t, struct fid_cntr *cntr, uint64_t value)
{
	ONCE(t, fi_cntr_read(cntr) >= value);
	turn(t);
	CHECK_EQ(fi_cntr_read(cntr), value);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
}

// Opens the counter before the pair, so that it is closed after the pair.
static struct fid_cntr *late_cntr(struct env *t)
{
	open_domain(t);
	return open_cntr(t, FI_WAIT_NONE);
}

TEST(fi_endpoint, counter_after_enable, EP_ANY, FI_MSG, "A counter that is bound when the endpoint is enabled counts what completes from then on")
{
	struct fid_cntr *sends = late_cntr(t), *receives = late_cntr(t);

	PAIR(t);
	flow_run(t, 0, 3);
	for (int i = 0; i < 3; i++)
		wait_comp(t, t->b.rxcq, NULL);
	OK(fi_ep_bind(t->a.ep, &sends->fid, FI_SEND));
	OK(fi_ep_bind(t->b.ep, &receives->fid, FI_RECV));
	flow_run(t, 3, 5);
	comes_to(t, sends, 5);
	comes_to(t, receives, 5);
}

TEST(fi_endpoint, counter_while_busy, EP_ANY, FI_MSG, "A counter can be bound to an enabled endpoint while operations are under way")
{
	struct fid_cntr *receives = late_cntr(t);
	struct buf in = new_buf(t, LEN, 0);
	void *ctx;

	PAIR(t);
	ctx = post_recv(t, &t->b, in);
	OK(fi_ep_bind(t->b.ep, &receives->fid, FI_RECV));
	post_send(t, &t->a, new_buf(t, LEN, 3));
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
	comes_to(t, receives, 1);
}

TEST(fi_endpoint, put_get_counters_after_enable, EP_RELIABLE, FI_MSG | FI_RMA, "Counters of writes and reads that are bound when the endpoint is enabled count them, small and large")
{
	struct fid_cntr *puts = late_cntr(t), *gets = late_cntr(t);
	struct buf out = new_buf(t, LARGE, 4), in = new_buf(t, LARGE, 0);
	struct region region;

	PAIR(t);
	region = new_region(t, &t->b, new_buf(t, LARGE, 0), RW);
	OK(fi_ep_bind(t->a.ep, &puts->fid, FI_WRITE));
	OK(fi_ep_bind(t->a.ep, &gets->fid, FI_READ));
	for (unsigned i = 0; i < 4; i++) {
		size_t len = i % 2 ? LARGE : LEN;

		POST(t, fi_write(t->a.ep, out.mem, len, out.desc, t->a.peer, region.at, region.key, new_ctx()));
		wait_comp(t, t->a.txcq, NULL);
		comes_to(t, puts, i + 1);
		POST(t, fi_read(t->a.ep, in.mem, len, in.desc, t->a.peer, region.at, region.key, new_ctx()));
		wait_comp(t, t->a.txcq, NULL);
		comes_to(t, gets, i + 1);
	}
	CHECK(holds(in, LARGE, 4));
}

TEST(fi_endpoint, remote_counter_after_enable, EP_RELIABLE, FI_MSG | FI_RMA | FI_RMA_EVENT, "A counter of peers' accesses that is bound when the endpoint is enabled counts those of peers that were connected before")
{
	struct fid_cntr *cntr = late_cntr(t);
	struct buf out = new_buf(t, LARGE, 4), in = new_buf(t, LARGE, 0);
	struct region before, after;

	PAIR(t);
	before = new_region(t, &t->b, new_buf(t, LARGE, 0), RW);
	POST(t, fi_write(t->a.ep, out.mem, LARGE, out.desc, t->a.peer, before.at, before.key, new_ctx()));
	wait_comp(t, t->a.txcq, NULL);
	POST(t, fi_read(t->a.ep, in.mem, LARGE, in.desc, t->a.peer, before.at, before.key, new_ctx()));
	wait_comp(t, t->a.txcq, NULL);
	OK(fi_ep_bind(t->b.ep, &cntr->fid, RW));
	after = new_region(t, &t->b, new_buf(t, LARGE, 0), RW);
	for (unsigned i = 0; i < 4; i++) {
		struct region *region = i % 2 ? &after : &before;

		POST(t, fi_write(t->a.ep, out.mem, LARGE, out.desc, t->a.peer, region->at, region->key, new_ctx()));
		wait_comp(t, t->a.txcq, NULL);
		comes_to(t, cntr, 2 * i + 1);
		POST(t, fi_read(t->a.ep, in.mem, LARGE, in.desc, t->a.peer, region->at, region->key, new_ctx()));
		wait_comp(t, t->a.txcq, NULL);
		comes_to(t, cntr, 2 * i + 2);
	}
	CHECK(holds(after.buf, LARGE, 4));
	CHECK(holds(in, LARGE, 4));
}

TEST(fi_endpoint, counter_twice_after_enable, EP_ANY, FI_MSG, "An enabled endpoint takes one counter for each kind of operation: a second is refused, and the first goes on counting")
{
	struct fid_cntr *first = late_cntr(t), *second = late_cntr(t), *early = late_cntr(t);

	PAIR(t, .cntr_flags = FI_RECV);
	CHECK(fi_ep_bind(t->b.ep, &early->fid, FI_RECV) < 0);
	OK(fi_ep_bind(t->a.ep, &first->fid, FI_SEND));
	CHECK(fi_ep_bind(t->a.ep, &second->fid, FI_SEND) < 0);
	flow_run(t, 0, 2);
	comes_to(t, first, 2);
	comes_to(t, t->b.cntr, 2);
	CHECK_EQ(fi_cntr_read(second), 0);
	CHECK_EQ(fi_cntr_read(early), 0);
}

static void *threshold(struct fid_cntr *cntr, size_t value)
{
	struct fi_triggered_context2 *context = keep_mem(sizeof(*context));

	context->event_type = FI_TRIGGER_THRESHOLD;
	context->trigger.threshold.cntr = cntr;
	context->trigger.threshold.threshold = value;
	return context;
}

TEST(fi_trigger, counter_after_enable, EP_RELIABLE, FI_MSG | FI_TRIGGER, "A counter that is bound when the endpoint is enabled counts, takes no second, and starts what waits for it")
{
	struct fid_cntr *cntr = late_cntr(t), *second = late_cntr(t);
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 7);
	struct op recv, send;

	PAIR(t, .cntr_flags = FI_SEND);
	CHECK(fi_ep_bind(t->a.ep, &second->fid, FI_SEND) < 0);
	OK(fi_ep_bind(t->a.ep, &cntr->fid, FI_RECV));
	CHECK(fi_ep_bind(t->a.ep, &second->fid, FI_RECV) < 0);
	send = op_of(SENDMSG, false, out, t->a.peer);
	send.flags = FI_TRIGGER | FI_COMPLETION;
	send.ctx = threshold(cntr, 2);
	op_post(t, t->a.ep, &send);
	recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	for (unsigned i = 0; i < 2; i++) {
		void *ctx = post_recv(t, &t->a, new_buf(t, LEN, 0));

		nothing(t->a.txcq);
		if (i == 1)
			op_post(t, t->b.ep, &recv);
		post_send(t, &t->b, new_buf(t, LEN, i + 1));
		done(t, t->a.rxcq, ctx, FI_MSG | FI_RECV);
		comes_to(t, cntr, i + 1);
	}
	done(t, t->a.txcq, send.ctx, FI_MSG | FI_SEND);
	done(t, t->b.rxcq, recv.ctx, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 7));
	comes_to(t, t->a.cntr, 1);
}

TEST(fi_endpoint, cq_after_enable, EP_RELIABLE, FI_MSG | FI_RMA, "An endpoint that was enabled without a receive queue, as it receives no messages, can be bound to one: it gets the data of later writes")
{
	struct fi_cq_data_entry entry;
	struct region target;
	struct buf out = new_buf(t, LEN, 1);
	void *ctx = new_ctx();

	t->hints->caps |= FI_SEND | FI_WRITE | FI_REMOTE_WRITE;
	env_info(t);
	if (t->info->caps & FI_RECV)
		SKIP("it has both directions");
	PAIR(t, .unbound_rxcq = true, .cq.format = FI_CQ_FORMAT_DATA);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE);
	OK(fi_ep_bind(t->b.ep, &t->b.rxcq->fid, FI_RECV));
	POST(t, fi_writedata(t->a.ep, out.mem, LEN, out.desc, DATA, t->a.peer, target.at, target.key, ctx));
	wait_read(t, t->b.rxcq, &entry);
	CHECK_EQ(entry.data, DATA);
	CHECK(fi_ep_bind(t->b.ep, &t->b.rxcq->fid, FI_RECV) < 0);
}

TEST(fi_endpoint, cq_twice_after_enable, EP_ANY, FI_MSG, "An enabled endpoint that has a queue for a direction takes no second")
{
	struct fid_cq *other;

	open_domain(t);
	other = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	PAIR(t);
	CHECK(fi_ep_bind(t->a.ep, &other->fid, FI_TRANSMIT) < 0);
	CHECK(fi_ep_bind(t->a.ep, &other->fid, FI_RECV) < 0);
	round_trip(t);
	nothing(other);
}

TEST(fi_endpoint, av_after_enable, EP_AV | OURS_ONLY, FI_MSG, "An address vector is bound before the endpoint is enabled: later it is refused")
{
	struct fid_av *other;

	open_domain(t);
	other = open_av(t, FI_AV_TABLE);
	PAIR(t);
	CHECK(fi_ep_bind(t->a.ep, &other->fid, 0) < 0);
	round_trip(t);
}
