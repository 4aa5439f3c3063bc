// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), fi_ep_bind on an endpoint that is enabled: counters at any time, queues while nothing is under way.
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

// The counter is opened before the pair, so that it is closed after it.
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

#define ONLY_COUNTERS .unbound_cqs = true, .cntr_flags = FI_SEND | FI_RECV

static void bind_queues(struct side *side)
{
	OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(side->ep, &side->rxcq->fid, FI_RECV));
}

TEST(fi_endpoint, cq_after_enable, EP_ANY, FI_MSG, "An endpoint that is enabled with counters alone can be bound to queues while nothing is under way: they get its completions")
{
	PAIR(t, ONLY_COUNTERS);
	bind_queues(&t->a);
	bind_queues(&t->b);
	round_trip(t);
	comes_to(t, t->a.cntr, 2);
	comes_to(t, t->b.cntr, 2);
}

TEST(fi_endpoint, cq_after_traffic, EP_ANY, FI_MSG, "Queues that are bound after the operations of an enabled endpoint have completed get the completions of later ones alone")
{
	PAIR(t, ONLY_COUNTERS);
	flow_post_recv(t, 0, 3);
	flow_post_send(t, 0, 3);
	comes_to(t, t->a.cntr, 3);
	comes_to(t, t->b.cntr, 3);
	bind_queues(&t->a);
	bind_queues(&t->b);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
	round_trip(t);
}

TEST(fi_endpoint, selective_cq_after_enable, EP_ANY, FI_MSG, "FI_SELECTIVE_COMPLETION holds for a queue that is bound when the endpoint is enabled")
{
	struct buf in = new_buf(t, LEN, 0);
	struct op send;

	PAIR(t, ONLY_COUNTERS);
	OK(fi_ep_bind(t->a.ep, &t->a.txcq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
	post_recv(t, &t->b, in);
	post_recv(t, &t->b, new_buf(t, LEN, 0));
	post_send(t, &t->a, new_buf(t, LEN, 1));
	send = op_of(SENDMSG, false, new_buf(t, LEN, 2), t->a.peer);
	send.flags = FI_COMPLETION;
	op_post(t, t->a.ep, &send);
	comes_to(t, t->a.cntr, 2);
	comes_to(t, t->b.cntr, 2);
	done(t, t->a.txcq, send.ctx, FI_MSG | FI_SEND);
	nothing(t->a.txcq);
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

TEST(fi_endpoint, cq_while_receiving, EP_ANY | OURS_ONLY, FI_MSG, "A queue is not bound to an enabled endpoint while a receive is posted: -FI_EOPBADSTATE; after the receive it is")
{
	PAIR(t, ONLY_COUNTERS);
	flow_post_recv(t, 0, 1);
	CHECK_RC(fi_ep_bind(t->b.ep, &t->b.rxcq->fid, FI_RECV), -FI_EOPBADSTATE);
	CHECK_RC(fi_ep_bind(t->b.ep, &t->b.txcq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
	flow_post_send(t, 0, 1);
	comes_to(t, t->a.cntr, 1);
	comes_to(t, t->b.cntr, 1);
	bind_queues(&t->a);
	bind_queues(&t->b);
	round_trip(t);
}

TEST(wire_tcp, bind_while_sending, EP_RDM | OURS_ONLY, FI_MSG, "A queue is not bound to an enabled endpoint while a send waits for its peer: -FI_EOPBADSTATE; when the send is over it is")
{
	struct dial dial;

	only_tcp(t);
	PAIR(t, ONLY_COUNTERS);
	dial = dial_from(t, &t->a, wire_listen());
	CHECK(dial.queued);
	CHECK_RC(fi_ep_bind(t->a.ep, &t->a.txcq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
	CHECK_RC(fi_ep_bind(t->a.ep, &t->a.rxcq->fid, FI_RECV), -FI_EOPBADSTATE);
	OK(fi_cancel(&t->a.ep->fid, dial.queued));
	ONCE(t, fi_cntr_readerr(t->a.cntr) == 1);
	bind_queues(&t->a);
	nothing(t->a.txcq);
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

// A receive that takes a message of which half has come.
enum how { RECEIVE_FIRST, MESSAGE_FIRST, BY_RENDEZVOUS };

static void half_received(struct env *t, enum how how)
{
	struct wire_header announced = { .op = RTS, .op_data = 1, .tag = TAG, .msg_size = LARGE };
	struct wire_header frame = { .op = TAGGED, .payload = LARGE, .tag = TAG };
	struct wire_header data = { .op = DATA_OP, .op_data = 1, .payload = LARGE };
	struct buf in = new_buf(t, LARGE, 0), out = new_buf(t, LARGE, 3);
	uint8_t *bytes = keep_mem(LARGE + 256);
	struct wire wire;
	size_t len;

	only_tcp(t);
	PAIR(t, ONLY_COUNTERS);
	wire = rdm_open(t, &t->b, 7, false);
	if (how == BY_RENDEZVOUS)
		send_frame(t, &wire, announced, NULL);
	if (how != MESSAGE_FIRST)
		post_trecv(t, &t->b, in, TAG, 0);
	if (how == BY_RENDEZVOUS)
		expect_frame(t, &wire, (struct wire_header){ .op = CTS, .op_data = 1 });
	len = frame_bytes(bytes, how == BY_RENDEZVOUS ? data : frame, false, out.mem);
	wire_write(t, wire.fd, bytes, len / 2);
	turn(t);
	if (how == MESSAGE_FIRST)
		post_trecv(t, &t->b, in, TAG, 0);
	CHECK_RC(fi_ep_bind(t->b.ep, &t->b.rxcq->fid, FI_RECV), -FI_EOPBADSTATE);
	wire_write(t, wire.fd, bytes + len / 2, len - len / 2);
	comes_to(t, t->b.cntr, 1);
	CHECK(holds(in, LARGE, 3));
	bind_queues(&t->b);
	nothing(t->b.rxcq);
}

TEST(fi_trigger, bind_while_waiting, EP_RELIABLE | OURS_ONLY, FI_MSG | FI_TRIGGER, "A queue is not bound to an enabled endpoint while an operation waits for its threshold: -FI_EOPBADSTATE")
{
	struct fid_cntr *cntr = late_cntr(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op send;

	PAIR(t, ONLY_COUNTERS);
	send = op_of(SENDMSG, false, new_buf(t, LEN, 7), t->a.peer);
	send.flags = FI_TRIGGER;
	send.ctx = threshold(cntr, 1);
	op_post(t, t->a.ep, &send);
	CHECK_RC(fi_ep_bind(t->a.ep, &t->a.txcq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
	OK(fi_cntr_add(cntr, 1));
	post_recv(t, &t->b, in);
	comes_to(t, t->a.cntr, 1);
	comes_to(t, t->b.cntr, 1);
	bind_queues(&t->a);
	nothing(t->a.txcq);
}

#define HALF "A queue is not bound to an enabled endpoint while a message is on its way to a receive"

TEST(wire_tcp, bind_in_message, EP_RDM | OURS_ONLY, FI_TAGGED, HALF)
{
	half_received(t, RECEIVE_FIRST);
}

TEST(wire_tcp, bind_in_unexpected_message, EP_RDM | OURS_ONLY, FI_TAGGED, HALF " that was posted after its first bytes")
{
	half_received(t, MESSAGE_FIRST);
}

TEST(wire_tcp, bind_in_rendezvous, EP_RDM | OURS_ONLY, FI_TAGGED, HALF " that the sender had asked for")
{
	half_received(t, BY_RENDEZVOUS);
}
