// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_trigger(3), deferred work queues: FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK of a domain.
#include "transfer.h"

#include <rdma/fi_trigger.h>

enum { LEN = 64 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define WORK_CAPS (FI_MSG | FI_RMA | FI_TRIGGER)

// A request with everything that it points to, kept until the test ends.
struct work {
	struct fi_deferred_work work;
	union {
		struct fi_op_msg msg;
		struct fi_op_tagged tagged;
		struct fi_op_rma rma;
		struct fi_op_cntr cntr;
	} op;
	struct iovec iov;
	struct fi_rma_iov remote;
	struct buf buf;
};

static struct work *new_work(enum fi_op_type type, struct fid_cntr *trigger, uint64_t threshold, struct fid_cntr *completion)
{
	struct work *work = keep_mem(sizeof(*work));

	work->work.op_type = type;
	work->work.triggering_cntr = trigger;
	work->work.threshold = threshold;
	work->work.completion_cntr = completion;
	work->work.op.msg = &work->op.msg;
	return work;
}

// Makes a transfer of `side` from or to `buf`. Its context is the request.
static struct work *transfer(enum fi_op_type type, struct side *side, struct buf buf, struct region *target,
			     struct fid_cntr *trigger, uint64_t threshold, struct fid_cntr *completion)
{
	struct work *work = new_work(type, trigger, threshold, completion);
	bool receives = type == FI_OP_RECV || type == FI_OP_TRECV;
	fi_addr_t addr = receives ? FI_ADDR_UNSPEC : side->peer;

	work->buf = buf;
	work->iov = (struct iovec){ buf.mem, buf.len };
	switch (type) {
	case FI_OP_SEND:
	case FI_OP_RECV:
		work->op.msg.ep = side->ep;
		work->op.msg.msg = (struct fi_msg){ .msg_iov = &work->iov, .desc = &work->buf.desc, .iov_count = 1,
						    .addr = addr, .context = work };
		break;
	case FI_OP_TSEND:
	case FI_OP_TRECV:
		work->op.tagged.ep = side->ep;
		work->op.tagged.msg = (struct fi_msg_tagged){ .msg_iov = &work->iov, .desc = &work->buf.desc,
							      .iov_count = 1, .addr = addr, .tag = TAG, .context = work };
		break;
	default:
		work->remote = (struct fi_rma_iov){ .addr = target->at, .len = buf.len, .key = target->key };
		work->op.rma.ep = side->ep;
		work->op.rma.msg = (struct fi_msg_rma){ .msg_iov = &work->iov, .desc = &work->buf.desc, .iov_count = 1,
							.addr = addr, .rma_iov = &work->remote, .rma_iov_count = 1,
							.context = work };
	}
	return work;
}

static struct work *change(enum fi_op_type type, struct fid_cntr *cntr, uint64_t value, struct fid_cntr *trigger,
			   uint64_t threshold)
{
	struct work *work = new_work(type, trigger, threshold, NULL);

	work->op.cntr.cntr = cntr;
	work->op.cntr.value = value;
	return work;
}

static int try_queue(struct env *t, struct work *work)
{
	return fi_control(&t->domain->fid, FI_QUEUE_WORK, &work->work);
}

static void queue(struct env *t, struct work *work)
{
	OK_OR_SKIP(try_queue(t, work));
}

// The counter must reach the value and not exceed it.
static void counts(struct env *t, struct fid_cntr *cntr, uint64_t value)
{
	ONCE(t, fi_cntr_read(cntr) >= value);
	turn(t);
	CHECK_EQ(fi_cntr_read(cntr), value);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
}

// ---- Each type of operation

static void message(struct env *t, enum fi_op_type send, enum fi_op_type recv)
{
	struct buf out = new_buf(t, LEN, 7), in = new_buf(t, LEN, 0);
	struct fid_cntr *trigger, *sent, *received;

	PAIR(t, .cntr_flags = FI_SEND | FI_RECV);
	trigger = open_cntr(t, FI_WAIT_NONE);
	sent = open_cntr(t, FI_WAIT_NONE);
	received = open_cntr(t, FI_WAIT_NONE);
	queue(t, transfer(recv, &t->b, in, NULL, trigger, 1, received));
	queue(t, transfer(send, &t->a, out, NULL, trigger, 2, sent));
	OK(fi_cntr_add(trigger, 1));
	turn(t);
	CHECK_EQ(fi_cntr_read(sent), 0);
	OK(fi_cntr_add(trigger, 1));
	counts(t, sent, 1);
	counts(t, received, 1);
	CHECK(holds(in, LEN, 7));
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}

TEST(fi_trigger, work_message, EP_RELIABLE, WORK_CAPS, "FI_OP_SEND, FI_OP_RECV: the completion counters count, not the queues nor the counters of the endpoints")
{
	message(t, FI_OP_SEND, FI_OP_RECV);
}

TEST(fi_trigger, work_tagged, EP_RELIABLE, WORK_CAPS | FI_TAGGED, "FI_OP_TSEND, FI_OP_TRECV: the same for tagged messages")
{
	message(t, FI_OP_TSEND, FI_OP_TRECV);
}

TEST(fi_trigger, work_and_late_counter, EP_RELIABLE, WORK_CAPS, "A counter that is bound when the endpoint is enabled does not count deferred work, and counts all else")
{
	struct fid_cntr *late, *trigger, *sent;

	open_domain(t);
	late = open_cntr(t, FI_WAIT_NONE);
	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	sent = open_cntr(t, FI_WAIT_NONE);
	OK(fi_ep_bind(t->a.ep, &late->fid, FI_SEND));
	post_recv(t, &t->b, new_buf(t, LEN, 0));
	post_recv(t, &t->b, new_buf(t, LEN, 0));
	queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 7), NULL, trigger, 1, sent));
	OK(fi_cntr_add(trigger, 1));
	counts(t, sent, 1);
	CHECK_EQ(fi_cntr_read(late), 0);
	post_send(t, &t->a, new_buf(t, LEN, 8));
	counts(t, late, 1);
	counts(t, sent, 1);
}

TEST(fi_trigger, work_rma, EP_RELIABLE, WORK_CAPS, "FI_OP_WRITE, FI_OP_READ: the completion counter of the write sets off the read; neither shows at the endpoint")
{
	struct buf out = new_buf(t, LEN, 7), in = new_buf(t, LEN, 0);
	struct fid_cntr *trigger, *wrote, *read;
	struct region target;

	PAIR(t, .cntr_flags = FI_READ | FI_WRITE);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), RW);
	trigger = open_cntr(t, FI_WAIT_NONE);
	wrote = open_cntr(t, FI_WAIT_NONE);
	read = open_cntr(t, FI_WAIT_NONE);
	queue(t, transfer(FI_OP_READ, &t->a, in, &target, wrote, 1, read));
	queue(t, transfer(FI_OP_WRITE, &t->a, out, &target, trigger, 1, wrote));
	turn(t);
	CHECK(untouched(target.buf, 0));
	OK(fi_cntr_add(trigger, 1));
	counts(t, wrote, 1);
	counts(t, read, 1);
	CHECK(holds(in, LEN, 7));
	nothing(t->a.txcq);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
}

TEST(fi_trigger, work_large, EP_RELIABLE, WORK_CAPS, "A deferred transfer of several MiB completes when its bytes are there")
{
	enum { BIG = 4 << 20 };
	struct buf out = new_buf(t, BIG, 7), in = new_buf(t, BIG, 0);
	struct fid_cntr *trigger, *count;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	queue(t, transfer(FI_OP_SEND, &t->a, out, NULL, trigger, 1, count));
	queue(t, transfer(FI_OP_RECV, &t->b, in, NULL, trigger, 1, count));
	OK(fi_cntr_add(trigger, 1));
	counts(t, count, 2);
	CHECK(holds(in, BIG, 7));
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
}

TEST(fi_trigger, work_counters, EP_RELIABLE, WORK_CAPS, "FI_OP_CNTR_SET and FI_OP_CNTR_ADD change their counter, in the order of thresholds and calls, and set off what waits for it")
{
	struct fid_cntr *trigger, *target, *last;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	target = open_cntr(t, FI_WAIT_NONE);
	last = open_cntr(t, FI_WAIT_NONE);
	queue(t, change(FI_OP_CNTR_ADD, target, 5, trigger, 3));
	queue(t, change(FI_OP_CNTR_SET, target, 100, trigger, 2));
	queue(t, change(FI_OP_CNTR_ADD, target, 1, trigger, 3));
	queue(t, change(FI_OP_CNTR_SET, last, 9, target, 106));
	OK(fi_cntr_set(trigger, 3));
	counts(t, target, 106);
	counts(t, last, 9);
	CHECK_EQ(fi_cntr_read(trigger), 3);
}

TEST(fi_trigger, work_chain, EP_RELIABLE, WORK_CAPS, "A chain of counters, each set off by the one before: no depth is too deep")
{
	enum { COUNT = 30000 };
	struct fid_cntr *cntr;

	PAIR(t);
	cntr = open_cntr(t, FI_WAIT_NONE);
	for (unsigned i = COUNT; i-- > 1;)
		queue(t, change(FI_OP_CNTR_ADD, cntr, 1, cntr, i));
	OK(fi_cntr_add(cntr, 1));
	counts(t, cntr, COUNT);
}

TEST(fi_trigger, work_atomic, EP_RELIABLE, FI_ATOMIC | FI_TRIGGER, "FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC wait too, and count at their completion counter alone")
{
	struct buf operand = new_buf(t, 8, 0), compare = new_buf(t, 8, 0), result = new_buf(t, 16, 0);
	struct fid_cntr *trigger, *count;
	struct region target;
	uint64_t *before = (uint64_t *)result.mem;
	size_t most;

	PAIR(t, .cntr_flags = FI_READ | FI_WRITE);
	if (fi_compare_atomicvalid(t->a.ep, FI_UINT64, FI_CSWAP, &most))
		SKIP("no such operation");
	target = new_region(t, &t->b, new_buf(t, 8, 0), RW);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	*(uint64_t *)operand.mem = 5;
	*(uint64_t *)compare.mem = 10;

	struct fi_ioc local = { operand.mem, 1 }, expected = { compare.mem, 1 }, back[2] = { { before, 1 }, { before + 1, 1 } };
	struct fi_rma_ioc remote = { target.at, 1, target.key };
	struct fi_msg_atomic msg = {
		.msg_iov = &local, .desc = &operand.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = &msg,
	};
	struct fi_op_atomic base = { .ep = t->a.ep, .msg = msg };
	struct fi_op_fetch_atomic fetch = {
		.ep = t->a.ep, .msg = msg, .fetch = { .msg_iov = &back[0], .desc = &result.desc, .iov_count = 1 },
	};
	struct fi_op_compare_atomic swap = {
		.ep = t->a.ep, .msg = msg, .fetch = { .msg_iov = &back[1], .desc = &result.desc, .iov_count = 1 },
		.compare = { .msg_iov = &expected, .desc = &compare.desc, .iov_count = 1 },
	};
	struct work *work[3] = {
		new_work(FI_OP_ATOMIC, trigger, 1, count),
		new_work(FI_OP_FETCH_ATOMIC, trigger, 2, count),
		new_work(FI_OP_COMPARE_ATOMIC, trigger, 3, count),
	};

	swap.msg.op = FI_CSWAP;
	work[0]->work.op.atomic = &base;
	work[1]->work.op.fetch_atomic = &fetch;
	work[2]->work.op.compare_atomic = &swap;
	for (int i = 2; i >= 0; i--)
		queue(t, work[i]);
	turn(t);
	CHECK(untouched(target.buf, 0));
	OK(fi_cntr_add(trigger, 3));
	counts(t, count, 3);
	CHECK_EQ(before[0], 5);
	CHECK_EQ(before[1], 10);
	CHECK_EQ(*(uint64_t *)target.buf.mem, 5);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
	nothing(t->a.txcq);
	swap.flags = FI_COMPLETION;
	queue(t, work[2]);
	done(t, t->a.txcq, &msg, FI_ATOMIC | FI_READ);
	counts(t, count, 4);
	base.msg.rma_iov_count = 0;
	CHECK_RC(try_queue(t, work[0]), -FI_EINVAL);
	base.msg.op = 1000;
	CHECK_RC(try_queue(t, work[0]), -FI_EOPNOTSUPP);
}

// ---- Conditions and completions

TEST(fi_trigger, work_condition_met, EP_RELIABLE, WORK_CAPS, "Work whose condition is met when it is queued starts at once")
{
	struct fid_cntr *trigger, *count;
	void *recv;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	OK(fi_cntr_add(trigger, 3));
	recv = post_recv(t, &t->b, new_buf(t, LEN, 0));
	queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 3, count));
	counts(t, count, 1);
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
}

TEST(fi_trigger, work_counts_errors, EP_RELIABLE, WORK_CAPS, "The condition is about the sum of value and error value")
{
	struct fid_cntr *trigger, *target;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	target = open_cntr(t, FI_WAIT_NONE);
	queue(t, change(FI_OP_CNTR_ADD, target, 1, trigger, 3));
	OK(fi_cntr_add(trigger, 1));
	OK_OR_SKIP(fi_cntr_adderr(trigger, 1));
	turn(t);
	CHECK_EQ(fi_cntr_read(target), 0);
	OK(fi_cntr_adderr(trigger, 1));
	counts(t, target, 1);
}

TEST(fi_trigger, work_completion_flag, EP_RELIABLE, WORK_CAPS, "FI_COMPLETION in the operation's flags: its completion is an entry of the queue too, with its context")
{
	struct fid_cntr *trigger, *count;
	struct work *send, *recv;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	recv = transfer(FI_OP_RECV, &t->b, new_buf(t, LEN, 0), NULL, trigger, 1, count);
	send = transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 1, NULL);
	send->op.msg.flags = recv->op.msg.flags = FI_COMPLETION;
	queue(t, recv);
	queue(t, send);
	OK(fi_cntr_add(trigger, 1));
	done(t, t->a.txcq, send, FI_MSG | FI_SEND);
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
	counts(t, count, 1);
}

TEST(fi_trigger, work_counted_by_endpoint, EP_RELIABLE, WORK_CAPS, "The counter of the endpoint counts deferred work if it is named as completion counter; other operations it counts as ever")
{
	struct fid_cntr *trigger;

	PAIR(t, .cntr_flags = FI_SEND);
	trigger = open_cntr(t, FI_WAIT_NONE);
	for (int i = 0; i < 3; i++)
		post_recv(t, &t->b, new_buf(t, LEN, 0));
	queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 1, t->a.cntr));
	queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 1, NULL));
	post_send(t, &t->a, new_buf(t, LEN, 1));
	counts(t, t->a.cntr, 1);
	OK(fi_cntr_add(trigger, 1));
	for (int i = 0; i < 3; i++)
		wait_comp(t, t->b.rxcq, NULL);
	counts(t, t->a.cntr, 2);
}

TEST(fi_trigger, work_set_off_by_traffic, EP_RELIABLE, WORK_CAPS, "Work that waits for a counter of an endpoint starts when messages have come")
{
	struct buf in = new_buf(t, LEN, 0);
	struct fid_cntr *count;
	void *recv;

	PAIR(t, .cntr_flags = FI_RECV);
	count = open_cntr(t, FI_WAIT_NONE);
	for (int i = 0; i < 3; i++)
		post_recv(t, &t->b, new_buf(t, LEN, 0));
	recv = post_recv(t, &t->a, in);
	queue(t, transfer(FI_OP_SEND, &t->b, new_buf(t, LEN, 5), NULL, t->b.cntr, 3, count));
	for (int i = 0; i < 2; i++)
		post_send(t, &t->a, new_buf(t, LEN, 1));
	ONCE(t, fi_cntr_read(t->b.cntr) == 2);
	turn(t);
	CHECK_EQ(fi_cntr_read(count), 0);
	post_send(t, &t->a, new_buf(t, LEN, 1));
	done(t, t->a.rxcq, recv, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 5));
	counts(t, count, 1);
}

TEST(fi_trigger, work_fails, EP_RDM, WORK_CAPS, "Work that cannot be done counts as error at its completion counter, not at the endpoint's")
{
	struct fid_cntr *trigger, *count;
	struct work *work;

	PAIR(t, .cntr_flags = FI_SEND);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	work = transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 1, count);
	work->op.msg.msg.addr = 1000;
	queue(t, work);
	OK(fi_cntr_add(trigger, 1));
	ONCE(t, fi_cntr_readerr(count) == 1);
	CHECK_EQ(fi_cntr_read(count), 0);
	CHECK_EQ(fi_cntr_readerr(t->a.cntr), 0);
	failed_somehow(t, t->a.txcq, work);
}

TEST(fi_trigger, work_more_than_the_queue, EP_RELIABLE, WORK_CAPS, "More work than an endpoint takes at once starts as there is room, in order")
{
	enum { COUNT = 4000 };
	struct fid_cntr *trigger, *count;
	struct buf out[8];

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	for (unsigned i = 0; i < 8; i++)
		out[i] = new_buf(t, 20000, i + 1);
	for (unsigned i = 0; i < COUNT; i++)
		queue(t, transfer(FI_OP_SEND, &t->a, out[i % 8], NULL, trigger, 1, count));
	OK(fi_cntr_add(trigger, 1));
	for (unsigned i = 0; i < COUNT; i++) {
		static uint8_t mem[20000];
		struct buf in = { .mem = mem, .len = sizeof(mem), .desc = NULL };
		struct fi_cq_tagged_entry entry;

		if (t->info->domain_attr->mr_mode & FI_MR_LOCAL)
			SKIP("local buffers must be registered");
		POST(t, fi_recv(t->b.ep, in.mem, in.len, NULL, t->b.peer, new_ctx()));
		wait_comp(t, t->b.rxcq, &entry);
		CHECK(holds(in, in.len, i % 8 + 1));
	}
	counts(t, count, COUNT);
}

// ---- Cancel and flush

TEST(fi_trigger, work_cancel, EP_RELIABLE, WORK_CAPS, "FI_CANCEL_WORK: the work never starts and nothing is reported. -FI_ENOENT if there is none such")
{
	struct fid_cntr *trigger, *target;
	struct work *gone, *stays;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	target = open_cntr(t, FI_WAIT_NONE);
	queue(t, gone = change(FI_OP_CNTR_ADD, target, 1, trigger, 1));
	queue(t, stays = change(FI_OP_CNTR_ADD, target, 10, trigger, 1));
	OK(fi_control(&t->domain->fid, FI_CANCEL_WORK, &gone->work));
	OK(fi_cntr_add(trigger, 1));
	counts(t, target, 10);
	if (is_ours()) {
		CHECK_RC(fi_control(&t->domain->fid, FI_CANCEL_WORK, &gone->work), -FI_ENOENT);
		CHECK_RC(fi_control(&t->domain->fid, FI_CANCEL_WORK, &stays->work), -FI_ENOENT);
	}
}

TEST(fi_trigger, work_flush, EP_RELIABLE, WORK_CAPS, "FI_FLUSH_WORK: no work of the domain is left")
{
	struct fid_cntr *trigger[2], *target;

	PAIR(t);
	trigger[0] = open_cntr(t, FI_WAIT_NONE);
	trigger[1] = open_cntr(t, FI_WAIT_NONE);
	target = open_cntr(t, FI_WAIT_NONE);
	for (int i = 0; i < 20; i++)
		queue(t, change(FI_OP_CNTR_ADD, target, 1, trigger[i % 2], 1));
	queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger[0], 1, target));
	OK(fi_control(&t->domain->fid, FI_FLUSH_WORK, NULL));
	OK(fi_cntr_add(trigger[0], 1));
	OK(fi_cntr_add(trigger[1], 1));
	turn(t);
	CHECK_EQ(fi_cntr_read(target), 0);
	nothing(t->a.txcq);
}

TEST(fi_trigger, work_flush_counter, EP_RELIABLE | OURS_ONLY, WORK_CAPS, "FI_FLUSH_WORK with a request that names a counter, or with the counter: what waits for it is gone, the rest stays")
{
	struct fid_cntr *trigger[2], *target;
	struct work *work;

	PAIR(t);
	trigger[0] = open_cntr(t, FI_WAIT_NONE);
	trigger[1] = open_cntr(t, FI_WAIT_NONE);
	target = open_cntr(t, FI_WAIT_NONE);
	for (int round = 0; round < 2; round++) {
		queue(t, work = change(FI_OP_CNTR_ADD, target, 1, trigger[0], 1));
		if (round)
			OK(fi_control(&t->domain->fid, FI_FLUSH_WORK, trigger[0]));
		else
			OK(fi_control(&t->domain->fid, FI_FLUSH_WORK, &work->work));
		queue(t, change(FI_OP_CNTR_ADD, target, 10, trigger[1], 1));
		OK(fi_cntr_set(trigger[0], 1));
		turn(t);
		CHECK_EQ(fi_cntr_read(target), 10 * round);
		OK(fi_cntr_set(trigger[1], 1));
		counts(t, target, 10 * (round + 1));
		OK(fi_cntr_set(trigger[0], 0));
		OK(fi_cntr_set(trigger[1], 0));
	}
}

TEST(fi_trigger, work_close, EP_RELIABLE, WORK_CAPS, "Counters that work names cannot be closed before it is done or flushed: -FI_EBUSY")
{
	struct fid_cntr *trigger, *count;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	count = open_cntr(t, FI_WAIT_NONE);
	queue(t, transfer(FI_OP_RECV, &t->a, new_buf(t, LEN, 0), NULL, trigger, 1, count));
	CHECK_RC(fi_close(&trigger->fid), -FI_EBUSY);
	CHECK_RC(fi_close(&count->fid), -FI_EBUSY);
	// The work has started and waits for a message.
	OK(fi_cntr_add(trigger, 1));
	turn(t);
	CHECK_RC(fi_close(&count->fid), -FI_EBUSY);
	queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 0), NULL, trigger, 2, NULL));
	OK(fi_control(&t->domain->fid, FI_FLUSH_WORK, NULL));
	shut(t, &trigger->fid);
	pair_close(t);
	shut(t, &count->fid);
}

// ---- Refused

TEST(fi_trigger, work_refused, EP_RELIABLE | OURS_ONLY, WORK_CAPS, "Work that makes no sense is refused when it is queued")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct fid_cntr *trigger;
	struct work *work;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	CHECK_RC(fi_control(&t->domain->fid, FI_QUEUE_WORK, NULL), -FI_EINVAL);
	CHECK_RC(fi_control(&t->domain->fid, FI_CANCEL_WORK, NULL), -FI_EINVAL);
	work = change(FI_OP_CNTR_ADD, trigger, 1, trigger, 1);
	CHECK_RC(fi_control(&t->a.ep->fid, FI_QUEUE_WORK, &work->work), -FI_ENOSYS);
	CHECK_RC(try_queue(t, change(FI_OP_CNTR_ADD, trigger, 1, NULL, 1)), -FI_EINVAL);
	CHECK_RC(try_queue(t, change(FI_OP_CNTR_ADD, NULL, 1, trigger, 1)), -FI_EINVAL);
	work = change(FI_OP_CNTR_ADD, trigger, 1, trigger, 1);
	work->work.completion_cntr = trigger;
	CHECK_RC(try_queue(t, work), -FI_EINVAL);
	work->work.op.cntr = NULL;
	CHECK_RC(try_queue(t, work), -FI_EINVAL);
	work = transfer(FI_OP_SEND, &t->a, buf, NULL, trigger, 1, NULL);
	work->op.msg.ep = NULL;
	CHECK_RC(try_queue(t, work), -FI_EINVAL);
	work->op.msg.ep = (struct fid_ep *)t->a.txcq;
	CHECK_RC(try_queue(t, work), -FI_EINVAL);
	work->op.msg.ep = t->a.ep;
	work->op.msg.flags = FI_TRIGGER;
	CHECK_RC(try_queue(t, work), -FI_EBADFLAGS);
	work->op.msg.flags = 0;
	work->work.op_type = 99;
	CHECK_RC(try_queue(t, work), -FI_EINVAL);
	work = transfer(FI_OP_RECV, &t->a, buf, NULL, trigger, 1, NULL);
	work->op.msg.flags = FI_MULTI_RECV;
	CHECK_RC(try_queue(t, work), -FI_ENOSYS);
	work->op.msg.flags = FI_PEEK;
	CHECK_RC(try_queue(t, work), -FI_ENOSYS);
	OK(fi_cntr_add(trigger, 1));
	turn(t);
	nothing(t->a.txcq);
	nothing(t->a.rxcq);
	CHECK_EQ(fi_cntr_read(trigger), 1);
}

TEST(fi_trigger, work_without_operation, EP_RELIABLE, FI_RMA | FI_TRIGGER, "Work of a kind that the endpoint was not opened for is refused: -FI_ENOSYS")
{
	struct fid_cntr *trigger;

	if (t->info->caps & FI_MSG)
		SKIP("given without being asked for");
	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	CHECK_RC(try_queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 0, NULL)), -FI_ENOSYS);
	CHECK_RC(try_queue(t, transfer(FI_OP_TRECV, &t->a, new_buf(t, LEN, 1), NULL, trigger, 0, NULL)), -FI_ENOSYS);
}

TEST(fi_trigger, work_without_capability, EP_RELIABLE | OURS_ONLY, FI_MSG, "An endpoint opened without FI_TRIGGER takes no deferred work: -FI_EINVAL")
{
	struct fid_cntr *trigger;

	if (t->info->caps & FI_TRIGGER)
		SKIP("given without being asked for");
	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	CHECK_RC(try_queue(t, transfer(FI_OP_SEND, &t->a, new_buf(t, LEN, 1), NULL, trigger, 1, NULL)), -FI_EINVAL);
	shut(t, &trigger->fid);
}

TEST(fi_trigger, work_bounded, EP_RELIABLE | OURS_ONLY, WORK_CAPS, "Work that waits is bounded: -FI_EAGAIN, and all that was taken is done")
{
	struct fid_cntr *trigger, *target;
	struct work *work;
	uint64_t count = 0;

	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	target = open_cntr(t, FI_WAIT_NONE);
	work = change(FI_OP_CNTR_ADD, target, 1, trigger, 1);
	while (try_queue(t, work) == 0)
		CHECK(++count < 1u << 24);
	CHECK_RC(try_queue(t, work), -FI_EAGAIN);
	OK(fi_cntr_add(trigger, 1));
	counts(t, target, count);
	OK(try_queue(t, work));
	counts(t, target, count + 1);
}
