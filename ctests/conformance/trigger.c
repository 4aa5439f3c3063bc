// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_trigger(3): operations with FI_TRIGGER, which wait until a counter reaches a threshold.
#include "transfer.h"

#include <rdma/fi_trigger.h>

enum { LEN = 64 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)

// The context of a waiting operation; as long as the larger of the two structs.
static void *when(struct fid_cntr *cntr, size_t threshold)
{
	struct fi_triggered_context2 *context;

	context = keep_mem(sizeof(*context));
	context->event_type = FI_TRIGGER_THRESHOLD;
	context->trigger.threshold.cntr = cntr;
	context->trigger.threshold.threshold = threshold;
	return context;
}

static struct op waiting_op(enum form form, bool tagged, struct buf buf, fi_addr_t addr, void *ctx)
{
	struct op op = op_of(form, tagged, buf, addr);

	op.flags = FI_TRIGGER | FI_COMPLETION;
	op.ctx = ctx;
	return op;
}

static ssize_t rma_when(struct side *side, bool read, struct buf buf, struct region *target, void *ctx)
{
	struct iovec iov = { buf.mem, buf.len };
	struct fi_rma_iov remote = { .addr = target->at, .len = buf.len, .key = target->key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &buf.desc, .iov_count = 1, .addr = side->peer, .rma_iov = &remote,
		.rma_iov_count = 1, .context = ctx,
	};

	return read ? fi_readmsg(side->ep, &msg, FI_TRIGGER | FI_COMPLETION) : fi_writemsg(side->ep, &msg, FI_TRIGGER | FI_COMPLETION);
}

TEST(fi_trigger, capability, EP_RELIABLE, FI_MSG | FI_TRIGGER, "FI_TRIGGER that is asked for is among the capabilities of the result")
{
	CHECK(t->info->caps & FI_TRIGGER);
	CHECK(t->info->tx_attr->caps & FI_TRIGGER);
	CHECK(t->info->rx_attr->caps & FI_TRIGGER);
}

BOTH(triggered_send, EP_RELIABLE, FI_TRIGGER, "A send with FI_TRIGGER stays back until its counter reaches the threshold; its completion has the triggered context")
{
	struct buf out = new_buf(t, LEN, 3), in = new_buf(t, LEN, 0);
	struct fid_cntr *cntr;
	struct op recv, send;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
	op_post(t, t->b.ep, &recv);
	send = waiting_op(SENDMSG, tagged, out, t->a.peer, when(cntr, 2));
	op_post(t, t->a.ep, &send);
	OK(fi_cntr_add(cntr, 1));
	turn(t);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
	CHECK(untouched(in, 0));
	OK(fi_cntr_add(cntr, 1));
	done(t, t->a.txcq, send.ctx, SENT(tagged));
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 3));
}

BOTH(triggered_recv, EP_RELIABLE, FI_TRIGGER, "A receive with FI_TRIGGER takes no message before its counter reaches the threshold")
{
	struct buf early = new_buf(t, LEN, 0), late = new_buf(t, LEN, 0);
	struct fid_cntr *cntr;
	struct op recv, plain, send;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	recv = waiting_op(RECVMSG, tagged, late, FI_ADDR_UNSPEC, when(cntr, 1));
	op_post(t, t->b.ep, &recv);
	plain = op_of(RECV, tagged, early, FI_ADDR_UNSPEC);
	op_post(t, t->b.ep, &plain);
	for (unsigned i = 1; i <= 2; i++) {
		send = op_of(SEND, tagged, new_buf(t, LEN, i), t->a.peer);
		op_post(t, t->a.ep, &send);
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
	done(t, t->b.rxcq, plain.ctx, RECEIVED(tagged));
	turn(t);
	nothing(t->b.rxcq);
	OK(fi_cntr_set(cntr, 1));
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(early, LEN, 1));
	CHECK(holds(late, LEN, 2));
}

TEST(fi_trigger, write_and_read, EP_RELIABLE, FI_RMA | FI_TRIGGER, "A write and a read with FI_TRIGGER wait for their thresholds")
{
	struct buf out = new_buf(t, LEN, 5), in = new_buf(t, LEN, 0);
	struct region target;
	struct fid_cntr *cntr;
	void *write, *read;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), RW);
	cntr = open_cntr(t, FI_WAIT_NONE);
	write = when(cntr, 1);
	read = when(cntr, 2);
	POST(t, rma_when(&t->a, true, in, &target, read));
	POST(t, rma_when(&t->a, false, out, &target, write));
	turn(t);
	CHECK(untouched(target.buf, 0));
	OK(fi_cntr_add(cntr, 1));
	done(t, t->a.txcq, write, FI_RMA | FI_WRITE);
	ONCE(t, filled_by_now(target.buf.mem, LEN, 5));
	nothing(t->a.txcq);
	OK(fi_cntr_add(cntr, 1));
	done(t, t->a.txcq, read, FI_RMA | FI_READ);
	CHECK(holds(in, LEN, 5));
}

TEST(fi_trigger, atomic, EP_RELIABLE, FI_ATOMIC | FI_TRIGGER, "An atomic operation with FI_TRIGGER waits; with FI_INJECT its operands are the caller's again")
{
	struct buf operand = new_buf(t, 8, 0);
	struct region target;
	struct fid_cntr *cntr;
	size_t most;

	PAIR(t);
	if (fi_atomicvalid(t->a.ep, FI_UINT64, FI_SUM, &most))
		SKIP("no such operation");
	target = new_region(t, &t->b, new_buf(t, 8, 0), RW);
	cntr = open_cntr(t, FI_WAIT_NONE);
	*(uint64_t *)operand.mem = 7;

	struct fi_ioc local = { operand.mem, 1 };
	struct fi_rma_ioc remote = { target.at, 1, target.key };
	struct fi_msg_atomic msg = {
		.msg_iov = &local, .desc = &operand.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = when(cntr, 1),
	};

	POST(t, fi_atomicmsg(t->a.ep, &msg, FI_TRIGGER | FI_INJECT | FI_COMPLETION));
	*(uint64_t *)operand.mem = 1000;
	turn(t);
	CHECK(untouched(target.buf, 0));
	OK(fi_cntr_add(cntr, 1));
	done(t, t->a.txcq, msg.context, FI_ATOMIC | FI_WRITE);
	ONCE(t, *(volatile uint64_t *)target.buf.mem == 7);
}

TEST(fi_trigger, condition_met, EP_RELIABLE, FI_MSG | FI_TRIGGER, "An operation whose threshold is reached already starts at once")
{
	struct buf in = new_buf(t, LEN, 0);
	struct fid_cntr *cntr;
	struct op send;
	void *recv;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	OK(fi_cntr_set(cntr, 7));
	recv = post_recv(t, &t->b, in);
	send = waiting_op(SENDMSG, false, new_buf(t, LEN, 1), t->a.peer, when(cntr, 7));
	op_post(t, t->a.ep, &send);
	done(t, t->a.txcq, send.ctx, FI_MSG | FI_SEND);
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
}

TEST(fi_trigger, order, EP_RELIABLE, FI_MSG | FI_TRIGGER, "Operations start in the order of their thresholds, and of their calls where these are equal, however far the counter jumps")
{
	// The message that each threshold triggers, in the order of the calls.
	static const size_t thresholds[] = { 5, 2, 9, 2, 5, 1, 9, 1 };
	static const unsigned sorted[] = { 5, 7, 1, 3, 0, 4, 2, 6 };
	enum { COUNT = sizeof(thresholds) / sizeof(thresholds[0]) };
	struct fid_cntr *cntr;
	struct buf in[COUNT];
	void *recv[COUNT];

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, LEN, 0);
		recv[i] = post_recv(t, &t->b, in[i]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		struct op send = waiting_op(SENDMSG, false, new_buf(t, LEN, i + 1), t->a.peer, when(cntr, thresholds[i]));

		op_post(t, t->a.ep, &send);
	}
	turn(t);
	nothing(t->b.rxcq);
	OK(fi_cntr_add(cntr, 100));
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recv[i], FI_MSG | FI_RECV);
		CHECK(holds(in[i], LEN, sorted[i] + 1));
	}
}

TEST(fi_trigger, chain, EP_RELIABLE, FI_MSG | FI_TRIGGER, "A chain: each send is set off by the completion of the one before, on the counter of the endpoint")
{
	enum { COUNT = 2000 };
	struct buf out = new_buf(t, 8, 1);
	unsigned received = 0;
	uint64_t limit;
	void *first;

	PAIR(t, .cntr_flags = FI_SEND);
	for (unsigned i = 1; i < COUNT; i++) {
		struct op send = waiting_op(SENDMSG, false, out, t->a.peer, when(t->a.cntr, i));

		op_post(t, t->a.ep, &send);
	}
	turn(t);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
	first = new_ctx();
	POST(t, fi_send(t->a.ep, out.mem, out.len, out.desc, t->a.peer, first));
	limit = now_ms() + t->limit_ms;
	while (received < COUNT || fi_cntr_read(t->a.cntr) < COUNT) {
		struct fi_cq_tagged_entry entry;

		if (received < COUNT) {
			post_recv(t, &t->b, new_buf(t, 8, 0));
			wait_comp(t, t->b.rxcq, &entry);
			received++;
		}
		CHECK(now_ms() < limit);
	}
	CHECK_EQ(fi_cntr_read(t->a.cntr), COUNT);
}

TEST(fi_trigger, forwards, EP_RELIABLE, FI_MSG | FI_TRIGGER, "A send that waits for the receive counter goes out when the message is in")
{
	struct buf in = new_buf(t, LEN, 0), back = new_buf(t, LEN, 0);
	struct op forward;
	void *recv;

	PAIR(t, .cntr_flags = FI_RECV);
	recv = post_recv(t, &t->a, back);
	post_recv(t, &t->b, in);
	forward = waiting_op(SENDMSG, false, in, t->b.peer, when(t->b.cntr, 1));
	op_post(t, t->b.ep, &forward);
	post_send(t, &t->a, new_buf(t, LEN, 9));
	done(t, t->a.rxcq, recv, FI_MSG | FI_RECV);
	CHECK(holds(back, LEN, 9));
}

TEST(fi_trigger, remote_write, EP_RELIABLE, FI_MSG | FI_RMA | FI_RMA_EVENT | FI_TRIGGER, "A peer's write, counted by a memory region, sets off a send at the target")
{
	struct buf out = new_buf(t, LEN, 4), in = new_buf(t, LEN, 0);
	struct region target;
	struct fid_cntr *cntr;
	struct op answer;
	void *recv, *ctx = new_ctx();

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), RW);
	OK_OR_SKIP(fi_mr_bind(target.mr, &cntr->fid, FI_REMOTE_WRITE));
	recv = post_recv(t, &t->a, in);
	answer = waiting_op(SENDMSG, false, target.buf, t->b.peer, when(cntr, 1));
	op_post(t, t->b.ep, &answer);
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.at, target.key, ctx));
	done(t, t->a.rxcq, recv, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 4));
	shut(t, &target.mr->fid);
}

TEST(fi_trigger, inject, EP_RELIABLE, FI_MSG | FI_TRIGGER, "FI_INJECT with FI_TRIGGER: the buffer is the caller's again when the call returns")
{
	struct buf out = new_buf(t, 16, 3), in = new_buf(t, 16, 0);
	struct fid_cntr *cntr;
	struct op send;
	void *recv;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	recv = post_recv(t, &t->b, in);
	send = waiting_op(SENDMSG, false, out, t->a.peer, when(cntr, 1));
	send.flags |= FI_INJECT;
	op_post(t, t->a.ep, &send);
	memset(host_view(out.mem), 0xff, out.len);
	OK(fi_cntr_add(cntr, 1));
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
	CHECK(holds(in, 16, 3));
}

TEST(fi_trigger, alias, EP_RELIABLE, FI_MSG | FI_RMA | FI_TRIGGER, "An alias with FI_TRIGGER as default flag makes the plain calls wait; the endpoint's own do not")
{
	struct buf out = new_buf(t, LEN, 6), in[2] = { new_buf(t, LEN, 0), new_buf(t, LEN, 0) };
	struct fid_ep *alias = NULL;
	struct region target;
	struct fid_cntr *cntr;
	void *recv[2], *send, *write, *plain;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), RW);
	OK_OR_SKIP(fi_ep_alias(t->a.ep, &alias, FI_TRANSMIT | FI_TRIGGER));
	keep(t, &alias->fid);
	cntr = open_cntr(t, FI_WAIT_NONE);
	for (int i = 0; i < 2; i++)
		recv[i] = post_recv(t, &t->b, in[i]);
	send = when(cntr, 1);
	write = when(cntr, 2);
	POST(t, fi_send(alias, out.mem, LEN, out.desc, t->a.peer, send));
	POST(t, fi_write(alias, out.mem, LEN, out.desc, t->a.peer, target.at, target.key, write));
	plain = post_send(t, &t->a, new_buf(t, LEN, 1));
	done(t, t->b.rxcq, recv[0], FI_MSG | FI_RECV);
	done(t, t->a.txcq, plain, FI_MSG | FI_SEND);
	turn(t);
	nothing(t->b.rxcq);
	OK(fi_cntr_add(cntr, 2));
	done(t, t->b.rxcq, recv[1], FI_MSG | FI_RECV);
	CHECK(holds(in[0], LEN, 1) && holds(in[1], LEN, 6));
	ONCE(t, filled_by_now(target.buf.mem, LEN, 6));
}

TEST(fi_trigger, cancel, EP_RELIABLE, FI_MSG | FI_TRIGGER, "fi_cancel of an operation that waits: it ends with FI_ECANCELED and never starts")
{
	struct buf in = new_buf(t, LEN, 0);
	struct fid_cntr *cntr;
	struct op send, recv;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	send = waiting_op(SENDMSG, false, new_buf(t, LEN, 1), t->a.peer, when(cntr, 1));
	recv = waiting_op(RECVMSG, false, in, FI_ADDR_UNSPEC, when(cntr, 1));
	op_post(t, t->a.ep, &send);
	op_post(t, t->b.ep, &recv);
	OK(fi_cancel(&t->a.ep->fid, send.ctx));
	OK(fi_cancel(&t->b.ep->fid, recv.ctx));
	failed(t, t->a.txcq, send.ctx, FI_ECANCELED);
	failed(t, t->b.rxcq, recv.ctx, FI_ECANCELED);
	OK(fi_cntr_add(cntr, 1));
	turn(t);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
	shut(t, &cntr->fid);
}

TEST(fi_trigger, without_capability, EP_RELIABLE, FI_MSG, "An endpoint opened without FI_TRIGGER refuses the flag with -FI_EBADFLAGS")
{
	struct fid_ep *alias = NULL;
	struct fid_cntr *cntr;
	struct op op;

	if (t->info->caps & FI_TRIGGER)
		SKIP("given without being asked for");
	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	op = waiting_op(SENDMSG, false, new_buf(t, LEN, 1), t->a.peer, when(cntr, 0));
	CHECK_RC(op_try(t->a.ep, &op), -FI_EBADFLAGS);
	op = waiting_op(RECVMSG, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC, when(cntr, 0));
	CHECK_RC(op_try(t->a.ep, &op), -FI_EBADFLAGS);
	CHECK(fi_ep_alias(t->a.ep, &alias, FI_TRANSMIT | FI_TRIGGER) < 0);
}

TEST(fi_trigger, bad_context, EP_RELIABLE | OURS_ONLY, FI_MSG | FI_TRIGGER, "FI_TRIGGER without context, with an event that is none, without counter or with one of another domain is refused")
{
	struct fi_triggered_context2 *context;
	struct fid_domain *other;
	struct fid_cntr *cntr, *foreign = NULL;
	struct fi_cntr_attr attr = { 0 };
	struct op op;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	op = waiting_op(SENDMSG, false, new_buf(t, LEN, 1), t->a.peer, NULL);
	CHECK_RC(op_try(t->a.ep, &op), -FI_EINVAL);
	op.ctx = context = when(cntr, 0);
	context->event_type = FI_TRIGGER_XPU;
	CHECK_RC(op_try(t->a.ep, &op), -FI_ENOSYS);
	context->event_type = 77;
	CHECK_RC(op_try(t->a.ep, &op), -FI_EINVAL);
	op.ctx = when(NULL, 0);
	CHECK_RC(op_try(t->a.ep, &op), -FI_EINVAL);
	OK(fi_domain(t->fabric, t->info, &other, NULL));
	keep(t, &other->fid);
	OK(fi_cntr_open(other, &attr, &foreign, NULL));
	keep(t, &foreign->fid);
	op.ctx = when(foreign, 0);
	CHECK_RC(op_try(t->a.ep, &op), -FI_EDOMAIN);
	turn(t);
	nothing(t->a.txcq);
}

TEST(fi_trigger, close_counter, EP_RELIABLE, FI_MSG | FI_TRIGGER, "A counter that operations wait for cannot be closed: -FI_EBUSY. They are gone with their endpoint")
{
	struct fid_cntr *cntr;
	struct op send;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	send = waiting_op(SENDMSG, false, new_buf(t, LEN, 1), t->a.peer, when(cntr, 1));
	op_post(t, t->a.ep, &send);
	CHECK_RC(fi_close(&cntr->fid), -FI_EBUSY);
	pair_close(t);
	shut(t, &cntr->fid);
}

TEST(fi_trigger, bounded, EP_RELIABLE | OURS_ONLY, FI_MSG | FI_TRIGGER, "Operations that wait are bounded: -FI_EAGAIN, and all that were taken start")
{
	struct buf out = new_buf(t, 1, 1);
	unsigned count = 0, received = 0;
	struct fid_cntr *cntr;
	struct op recv;

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION, .cntr_flags = FI_RECV);
	cntr = open_cntr(t, FI_WAIT_NONE);
	recv = op_of(RECVMSG, false, new_buf(t, 1, 0), FI_ADDR_UNSPEC);
	recv.ctx = when(cntr, 1);
	recv.flags = FI_TRIGGER;
	while (op_try(t->b.ep, &recv) == 0)
		CHECK(++count < 1u << 24);
	CHECK_RC(op_try(t->b.ep, &recv), -FI_EAGAIN);
	OK(fi_cntr_add(cntr, 1));
	// All receives are posted, so as many messages find one.
	for (; received < count; received++) {
		POST(t, fi_inject(t->a.ep, out.mem, 1, t->a.peer));
		if (received % 64 == 63)
			ONCE(t, fi_cntr_read(t->b.cntr) == received + 1);
	}
	ONCE(t, fi_cntr_read(t->b.cntr) == count);
}

TEST(fi_trigger, wakes_a_waiter, EP_RELIABLE, FI_MSG | FI_TRIGGER, "A thread that sleeps in fi_cntr_wait drives what the counter sets off")
{
	struct cntr_waiter waiter = { .threshold = 2 };
	struct buf out = new_buf(t, LEN, 2);
	struct op send;
	void *recv[2];

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cntr.wait_obj = FI_WAIT_UNSPEC, .cntr_flags = FI_SEND);
	waiter.cntr = t->a.cntr;
	for (int i = 0; i < 2; i++)
		recv[i] = post_recv(t, &t->b, new_buf(t, LEN, 0));
	send = waiting_op(SENDMSG, false, out, t->a.peer, when(t->a.cntr, 1));
	op_post(t, t->a.ep, &send);
	start_cntr_waiter(&waiter);
	POST(t, fi_send(t->a.ep, out.mem, LEN, out.desc, t->a.peer, new_ctx()));
	for (int i = 0; i < 2; i++)
		done(t, t->b.rxcq, recv[i], FI_MSG | FI_RECV);
	OK(join_cntr_waiter(&waiter));
}
