// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_wr(3) of the alpha of release 2.8: work requests that are prepared once and queued many times. Headers of older
//! releases do not have these calls.
#include "transfer.h"

#ifdef FI_WR

#include <sys/mman.h>

#include <rdma/fi_wr.h>

enum { LEN = 64 };

// A work request with all that its descriptor points to. Only `wr` is used after it was prepared.
struct request {
	enum fi_op_type type;
	struct iovec iov[2];
	void *desc[2];
	struct fi_rma_iov remote;
	union {
		struct fi_op_msg msg;
		struct fi_op_tagged tagged;
		struct fi_op_rma rma;
	} op;
	struct fi_wr_attr attr;
	fi_wr wr;
	size_t len;
};

static bool receives(enum fi_op_type type)
{
	return type == FI_OP_RECV || type == FI_OP_TRECV;
}

// Describes an operation of `side` on `buf`.
static struct request *describe(struct side *side, enum fi_op_type type, struct buf buf, struct region *target, uint64_t flags)
{
	struct request *r = keep_mem(sizeof(*r));
	fi_addr_t addr = receives(type) ? FI_ADDR_UNSPEC : side->peer;
	struct fi_ep_attr *sizes = side->info->ep_attr;

	r->type = type;
	r->iov[0] = (struct iovec){ buf.mem, buf.len };
	r->desc[0] = r->desc[1] = buf.desc;
	r->attr.op_type = type;
	r->attr.op.msg = &r->op.msg;
	r->len = receives(type) ? sizes->max_rx_wr_size : sizes->max_tx_wr_size;
	r->wr = keep_mem(r->len);
	switch (type) {
	case FI_OP_SEND:
	case FI_OP_RECV:
		r->op.msg.ep = side->ep;
		r->op.msg.flags = flags;
		r->op.msg.msg = (struct fi_msg){ .msg_iov = r->iov, .desc = r->desc, .iov_count = 1, .addr = addr, .data = DATA };
		break;
	case FI_OP_TSEND:
	case FI_OP_TRECV:
		r->op.tagged.ep = side->ep;
		r->op.tagged.flags = flags;
		r->op.tagged.msg = (struct fi_msg_tagged){ .msg_iov = r->iov, .desc = r->desc, .iov_count = 1, .addr = addr,
							   .data = DATA, .tag = TAG };
		break;
	default:
		r->remote = (struct fi_rma_iov){ .addr = target->at, .len = buf.len, .key = target->key };
		r->op.rma.ep = side->ep;
		r->op.rma.flags = flags;
		r->op.rma.msg = (struct fi_msg_rma){ .msg_iov = r->iov, .desc = r->desc, .iov_count = 1, .addr = addr,
						     .rma_iov = &r->remote, .rma_iov_count = 1, .data = DATA };
	}
	return r;
}

static int prepare(struct side *side, struct request *r)
{
	return fi_wr_prepare(side->ep, &r->attr, r->wr, &r->len);
}

// A request of which nothing but `wr` is left.
static struct request *prepared(struct side *side, enum fi_op_type type, struct buf buf, struct region *target, uint64_t flags)
{
	struct request *r = describe(side, type, buf, target, flags);

	OK(prepare(side, r));
	memset(&r->op, 0xa5, sizeof(r->op));
	memset(r->iov, 0xa5, sizeof(r->iov));
	memset(&r->remote, 0xa5, sizeof(r->remote));
	return r;
}

static ssize_t queue(struct side *side, struct request *r, void *ctx)
{
	switch (r->type) {
	case FI_OP_RECV:
		return fi_wr_queue_recv(side->ep, r->wr, ctx);
	case FI_OP_TRECV:
		return fi_wr_queue_trecv(side->ep, r->wr, ctx);
	default:
		return fi_wr_queue_tx(side->ep, r->wr, ctx);
	}
}

static void *queued(struct env *t, struct side *side, struct request *r)
{
	void *ctx = new_ctx();

	POST(t, queue(side, r, ctx));
	return ctx;
}

static struct request *sender(struct env *t, bool tagged, struct buf buf, uint64_t flags)
{
	return prepared(&t->a, tagged ? FI_OP_TSEND : FI_OP_SEND, buf, NULL, flags);
}

static struct request *receiver(struct env *t, bool tagged, struct buf buf)
{
	return prepared(&t->b, tagged ? FI_OP_TRECV : FI_OP_RECV, buf, NULL, 0);
}

// The next message goes to a receive of the plain call.
static void *plain_recv(struct env *t, bool tagged, struct buf in)
{
	return tagged ? post_trecv(t, &t->b, in, TAG, 0) : post_recv(t, &t->b, in);
}

// One queued send arrives at b as the message of `seed`.
static void arrives(struct env *t, struct request *send, bool tagged, size_t len, unsigned seed)
{
	struct buf in = new_buf(t, len, 0);
	void *got = plain_recv(t, tagged, in), *sent = queued(t, &t->a, send);

	CHECK_EQ(done(t, t->b.rxcq, got, RECEIVED(tagged)).len, len);
	CHECK(holds(in, len, seed));
	done(t, t->a.txcq, sent, SENT(tagged));
}

#define WR_TEST(RULE, CAPS, TEXT) TEST(fi_wr, RULE, EP_RELIABLE, FI_WR | (CAPS), TEXT)
#define WR_BOTH(RULE, TEXT)                                                                                            \
	static void RULE##__either(struct env *t, bool tagged);                                                        \
	TEST(fi_wr, RULE, EP_RELIABLE, FI_WR | FI_MSG, TEXT)                                                           \
	{                                                                                                              \
		RULE##__either(t, false);                                                                              \
	}                                                                                                              \
	TEST(fi_wr, RULE##_tagged, EP_RELIABLE, FI_WR | FI_TAGGED, TEXT)                                               \
	{                                                                                                              \
		RULE##__either(t, true);                                                                               \
	}                                                                                                              \
	static void RULE##__either(struct env *t, bool tagged)

// ---- What is offered

TEST(fi_getinfo, wr_sizes, EP_RELIABLE, FI_MSG | FI_WR, "FI_WR that was asked for is reported with the sizes of work requests; without it they are 0")
{
	CHECK(t->info->caps & FI_WR);
	CHECK(t->info->ep_attr->max_tx_wr_size > 0);
	CHECK(t->info->ep_attr->max_rx_wr_size > 0);
	t->hints->caps = FI_MSG;
	env_info(t);
	CHECK(!(t->info->caps & FI_WR));
	CHECK_EQ(t->info->ep_attr->max_tx_wr_size, 0);
	CHECK_EQ(t->info->ep_attr->max_rx_wr_size, 0);
}

TEST(fi_wr, without_capability, EP_ANY, FI_MSG, "An endpoint without FI_WR has no work requests")
{
	struct fi_op_msg op = { 0 };
	struct fi_wr_attr attr = { .op_type = FI_OP_SEND, .op.msg = &op };
	char room[1024];
	size_t len = sizeof(room);

	PAIR(t);
	op.ep = t->a.ep;
	CHECK_RC(fi_wr_prepare(t->a.ep, &attr, room, &len), -FI_ENOSYS);
	CHECK_RC(fi_wr_queue_tx(t->a.ep, room, NULL), -FI_ENOSYS);
	CHECK_RC(fi_wr_queue_recv(t->a.ep, room, NULL), -FI_ENOSYS);
	CHECK_RC(fi_wr_modify_addr(t->a.ep, room, FI_OP_SEND, 0), -FI_ENOSYS);
}

// ---- Each type of operation

WR_BOTH(message, "A prepared send meets a prepared receive; the contexts are those of the queue calls")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct request *recv = receiver(t, tagged, in), *send = sender(t, tagged, new_buf(t, LEN, 7), 0);
	void *got = queued(t, &t->b, recv), *sent = queued(t, &t->a, send);
	struct fi_cq_tagged_entry entry = done(t, t->b.rxcq, got, RECEIVED(tagged));

	CHECK_EQ(entry.len, LEN);
	if (tagged)
		CHECK_EQ(entry.tag, TAG);
	CHECK(holds(in, LEN, 7));
	done(t, t->a.txcq, sent, SENT(tagged));
}

WR_BOTH(large_message, "A prepared send takes messages of any size")
{
	static const size_t lens[] = { 0, 1, 513, 5000, 70000, 1000000 };

	PAIR(t);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++)
		arrives(t, sender(t, tagged, new_buf(t, lens[i], i + 1), 0), tagged, lens[i], i + 1);
}

WR_BOTH(several_buffers, "A prepared send has several buffers")
{
	PAIR(t);
	struct buf out = new_buf(t, LEN, 5);
	struct request *r = describe(&t->a, tagged ? FI_OP_TSEND : FI_OP_SEND, out, NULL, 0);

	if (t->a.info->tx_attr->iov_limit < 2)
		SKIP("one buffer is all that an operation has");
	r->iov[0].iov_len = 10;
	r->iov[1] = (struct iovec){ out.mem + 10, LEN - 10 };
	if (tagged)
		r->op.tagged.msg.iov_count = 2;
	else
		r->op.msg.msg.iov_count = 2;
	OK(prepare(&t->a, r));
	arrives(t, r, tagged, LEN, 5);
}

WR_BOTH(data, "FI_REMOTE_CQ_DATA of a prepared send is delivered, and modified only where it was prepared")
{
	PAIR(t);
	struct buf out = new_buf(t, LEN, 1);
	struct request *send = sender(t, tagged, out, FI_REMOTE_CQ_DATA), *without = sender(t, tagged, out, 0);

	for (uint64_t data = DATA; data < DATA + 2; data++) {
		void *got = plain_recv(t, tagged, new_buf(t, LEN, 0)), *sent = queued(t, &t->a, send);

		CHECK_EQ(done(t, t->b.rxcq, got, RECEIVED(tagged) | FI_REMOTE_CQ_DATA).data, data);
		done(t, t->a.txcq, sent, SENT(tagged));
		OK(fi_wr_modify_data(t->a.ep, send->wr, send->type, data + 1));
	}
	CHECK_RC(fi_wr_modify_data(t->a.ep, without->wr, without->type, 1), -FI_EINVAL);
}

WR_BOTH(inject, "The buffer of a prepared send with FI_INJECT is free after each queue call, and read anew by each")
{
	PAIR(t);
	struct buf out = new_buf(t, 16, 1);
	struct request *send = sender(t, tagged, out, FI_INJECT);

	for (unsigned seed = 1; seed < 4; seed++) {
		struct buf in = new_buf(t, 16, 0);
		void *got, *sent;

		fill(out.mem, 16, seed);
		got = plain_recv(t, tagged, in);
		sent = queued(t, &t->a, send);
		memset(host_view(out.mem), 0, 16);
		done(t, t->b.rxcq, got, RECEIVED(tagged));
		CHECK(holds(in, 16, seed));
		done(t, t->a.txcq, sent, SENT(tagged));
	}
}

WR_TEST(write, FI_RMA, "A prepared write")
{
	PAIR(t);
	struct region at = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE | FI_REMOTE_READ);
	struct request *r = prepared(&t->a, FI_OP_WRITE, new_buf(t, LEN, 3), &at, FI_DELIVERY_COMPLETE);

	done(t, t->a.txcq, queued(t, &t->a, r), FI_RMA | FI_WRITE);
	CHECK(holds_by_now(at.buf, LEN, 3));
}

WR_TEST(read, FI_RMA, "A prepared read, queued again after the target has changed")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct region at = new_region(t, &t->b, new_buf(t, LEN, 3), FI_REMOTE_WRITE | FI_REMOTE_READ);
	struct request *r = prepared(&t->a, FI_OP_READ, in, &at, 0);

	for (unsigned seed = 3; seed < 5; seed++) {
		fill(at.buf.mem, LEN, seed);
		done(t, t->a.txcq, queued(t, &t->a, r), FI_RMA | FI_READ);
		CHECK(holds(in, LEN, seed));
	}
}

WR_TEST(atomic, FI_ATOMIC, "Prepared atomic operations of the three kinds")
{
	uint64_t *operand = keep_mem(8), *compare = keep_mem(8), *result = keep_mem(8);
	struct region at;

	PAIR(t);
	at = new_region(t, &t->b, new_buf(t, 8, 0), FI_REMOTE_WRITE | FI_REMOTE_READ);
	struct fi_ioc ioc = { operand, 1 }, wanted = { compare, 1 }, back = { result, 1 };
	struct fi_rma_ioc remote = { at.at, 1, at.key };
	struct fi_msg_atomic msg = { .msg_iov = &ioc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote, .rma_iov_count = 1,
				     .datatype = FI_UINT64, .op = FI_SUM };
	struct fi_op_atomic add = { t->a.ep, msg, FI_DELIVERY_COMPLETE };
	struct fi_op_fetch_atomic fetch = { .ep = t->a.ep, .msg = msg, .fetch = { &back, NULL, 1 } };
	struct fi_op_compare_atomic swap = { .ep = t->a.ep, .msg = msg, .fetch = { &back, NULL, 1 }, .compare = { &wanted, NULL, 1 } };
	struct fi_wr_attr attrs[] = {
		{ .op_type = FI_OP_ATOMIC, .op.atomic = &add },
		{ .op_type = FI_OP_FETCH_ATOMIC, .op.fetch_atomic = &fetch },
		{ .op_type = FI_OP_COMPARE_ATOMIC, .op.compare_atomic = &swap },
	};
	struct request requests[3];

	swap.msg.op = FI_CSWAP;
	for (unsigned i = 0; i < 3; i++) {
		requests[i].type = attrs[i].op_type;
		requests[i].len = t->a.info->ep_attr->max_tx_wr_size;
		requests[i].wr = keep_mem(requests[i].len);
		OK(fi_wr_prepare(t->a.ep, &attrs[i], requests[i].wr, &requests[i].len));
	}
	*operand = 5;
	for (unsigned i = 0; i < 2; i++)
		done(t, t->a.txcq, queued(t, &t->a, &requests[0]), FI_ATOMIC | FI_WRITE);
	done(t, t->a.txcq, queued(t, &t->a, &requests[1]), FI_ATOMIC | FI_READ);
	CHECK_EQ(*result, 10);
	*compare = 15;
	*operand = 1;
	done(t, t->a.txcq, queued(t, &t->a, &requests[2]), FI_ATOMIC | FI_READ);
	CHECK_EQ(*result, 15);
	CHECK_EQ(*(volatile uint64_t *)at.buf.mem, 1);
}

// ---- Queueing

WR_BOTH(queued_many_times, "A request is queued again while operations of it are under way, in the order of the calls")
{
	enum { COUNT = 32 };
	struct request *send;
	struct buf in[COUNT];
	void *got[COUNT], *sent[COUNT];

	PAIR(t);
	send = sender(t, tagged, new_buf(t, LEN, 9), FI_REMOTE_CQ_DATA);
	for (unsigned i = 0; i < COUNT; i++)
		got[i] = plain_recv(t, tagged, in[i] = new_buf(t, LEN, 0));
	for (unsigned i = 0; i < COUNT; i++) {
		OK(fi_wr_modify_data(t->a.ep, send->wr, send->type, i));
		sent[i] = queued(t, &t->a, send);
	}
	CHECK_RC(fi_tx_flush(t->a.ep, 0), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		CHECK_EQ(done(t, t->b.rxcq, got[i], RECEIVED(tagged) | FI_REMOTE_CQ_DATA).data, i);
		CHECK(holds(in[i], LEN, 9));
		done(t, t->a.txcq, sent[i], SENT(tagged));
	}
}

WR_BOTH(description_is_only_read, "A description may lie in memory that cannot be written")
{
	PAIR(t);
	struct request *send = describe(&t->a, tagged ? FI_OP_TSEND : FI_OP_SEND, new_buf(t, LEN, 5), NULL, 0);
	struct request *constant = mmap(NULL, sizeof *send, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(constant != MAP_FAILED);
	*constant = *send;
	constant->attr.op.msg = &constant->op.msg;
	OK(mprotect(constant, sizeof *constant, PROT_READ));
	OK(fi_wr_prepare(t->a.ep, &constant->attr, send->wr, &send->len));
	OK(munmap(constant, sizeof *constant));
	arrives(t, send, tagged, LEN, 5);
}

WR_BOTH(buffer_is_free_after_queueing, "A request may be overwritten as soon as it is queued")
{
	PAIR(t);
	struct buf in = new_buf(t, 100000, 0);
	struct request *recv = receiver(t, tagged, in), *send = sender(t, tagged, new_buf(t, 100000, 7), 0);
	void *got = queued(t, &t->b, recv), *sent = queued(t, &t->a, send);

	memset(recv->wr, 0x5a, recv->len);
	memset(send->wr, 0x5a, send->len);
	done(t, t->b.rxcq, got, RECEIVED(tagged));
	CHECK(holds(in, 100000, 7));
	done(t, t->a.txcq, sent, SENT(tagged));
}

static void after_read(struct env *t, bool tagged)
{
	enum { BIG = 4 << 20 };
	struct buf in, note;
	struct region target;
	struct request *send;
	void *got;

	need_order(t, FI_ORDER_SAR);
	PAIR(t);
	in = new_buf(t, BIG, 0);
	note = new_buf(t, LEN, 0);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ);
	send = sender(t, tagged, new_buf(t, LEN, 2), 0);
	got = plain_recv(t, tagged, note);
	POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, new_ctx()));
	queued(t, &t->a, send);
	done(t, t->b.rxcq, got, RECEIVED(tagged));
	fill(target.buf.mem, BIG, 9); // the target takes its memory back
	for (unsigned i = 0; i < 2; i++)
		wait_comp(t, t->a.txcq, NULL);
	CHECK(filled(in.mem, BIG, 1));
}

WR_TEST(order_after_reads, FI_MSG | FI_RMA, "FI_ORDER_SAR: a queued send does not pass a read that was posted before")
{
	after_read(t, false);
}

WR_TEST(order_after_reads_tagged, FI_TAGGED | FI_RMA, "FI_ORDER_SAR: the same for tagged messages")
{
	after_read(t, true);
}

struct poster {
	struct side *side;
	struct request *send;
	pthread_t thread;
	unsigned count;
};

static void *post_many(void *arg)
{
	struct poster *poster = arg;

	for (unsigned i = 0; i < poster->count;) {
		ssize_t rc = queue(poster->side, poster->send, new_ctx());

		if (rc && rc != -FI_EAGAIN)
			return (void *)1;
		i += !rc;
	}
	return NULL;
}

WR_BOTH(queued_by_threads, "Threads queue the same request")
{
	enum { THREADS = 4, EACH = 50 };
	struct poster posters[THREADS];
	struct request *send;
	struct fi_cq_tagged_entry entry;
	unsigned left = THREADS * EACH;

	PAIR(t);
	if (t->info->domain_attr->threading != FI_THREAD_SAFE)
		SKIP("threads take turns there");
	send = sender(t, tagged, new_buf(t, LEN, 4), 0);
	for (unsigned i = 0; i < THREADS * EACH; i++)
		plain_recv(t, tagged, new_buf(t, LEN, 0));
	for (unsigned i = 0; i < THREADS; i++) {
		posters[i] = (struct poster){ .side = &t->a, .send = send, .count = EACH };
		CHECK(!pthread_create(&posters[i].thread, NULL, post_many, &posters[i]));
	}
	while (left--) {
		wait_comp(t, t->b.rxcq, &entry);
		CHECK_EQ(entry.len, LEN);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		void *failed;

		CHECK(!pthread_join(posters[i].thread, &failed));
		CHECK(!failed);
	}
	for (unsigned i = 0; i < THREADS * EACH; i++)
		wait_comp(t, t->a.txcq, &entry);
}

WR_BOTH(without_completion, "A request without FI_COMPLETION on a selective queue completes silently")
{
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	struct buf in = new_buf(t, LEN, 0);
	struct request *quiet = sender(t, tagged, new_buf(t, LEN, 7), 0);
	struct request *loud = sender(t, tagged, new_buf(t, LEN, 8), FI_COMPLETION);
	void *got[] = { plain_recv(t, tagged, in), plain_recv(t, tagged, new_buf(t, LEN, 0)) }, *sent;

	queued(t, &t->a, quiet);
	sent = queued(t, &t->a, loud);
	done(t, t->b.rxcq, got[0], RECEIVED(tagged));
	CHECK(holds(in, LEN, 7));
	done(t, t->b.rxcq, got[1], RECEIVED(tagged));
	done(t, t->a.txcq, sent, SENT(tagged));
	turn(t);
	nothing(t->a.txcq);
}

// ---- Wrong calls

WR_BOTH(other_endpoint, "A descriptor that names another endpoint is refused")
{
	PAIR(t);
	struct request *send = describe(&t->a, tagged ? FI_OP_TSEND : FI_OP_SEND, new_buf(t, LEN, 1), NULL, 0);

	CHECK_RC(fi_wr_prepare(t->b.ep, &send->attr, send->wr, &send->len), -FI_EINVAL);
	if (tagged)
		send->op.tagged.ep = NULL;
	else
		send->op.msg.ep = NULL;
	CHECK_RC(prepare(&t->a, send), -FI_EINVAL);
}

WR_BOTH(foreign_request, "A request that was prepared on another endpoint, or never, is not queued or modified")
{
	PAIR(t);
	struct request *send = sender(t, tagged, new_buf(t, LEN, 1), 0), *recv = receiver(t, tagged, new_buf(t, LEN, 0));

	CHECK_RC(fi_wr_queue_tx(t->b.ep, send->wr, NULL), -FI_EINVAL);
	CHECK_RC(queue(&t->a, recv, NULL), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_flags(t->b.ep, send->wr, send->type, 0), -FI_EINVAL);
	memset(send->wr, 0, send->len);
	CHECK_RC(queue(&t->a, send, NULL), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_flags(t->a.ep, send->wr, send->type, 0), -FI_EINVAL);
	memset(send->wr, 0xff, send->len);
	CHECK_RC(queue(&t->a, send, NULL), -FI_EINVAL);
	CHECK_RC(fi_wr_queue_tx(t->a.ep, NULL, NULL), -FI_EINVAL);
}

WR_BOTH(wrong_queue, "A request is queued by the call for its operation only")
{
	PAIR(t);
	struct request *send = sender(t, tagged, new_buf(t, LEN, 1), 0), *recv = receiver(t, tagged, new_buf(t, LEN, 0));

	CHECK_RC(fi_wr_queue_recv(t->a.ep, send->wr, NULL), -FI_EINVAL);
	CHECK_RC(fi_wr_queue_trecv(t->a.ep, send->wr, NULL), -FI_EINVAL);
	CHECK_RC(fi_wr_queue_tx(t->b.ep, recv->wr, NULL), -FI_EINVAL);
	if (tagged)
		CHECK_RC(fi_wr_queue_recv(t->b.ep, recv->wr, NULL), -FI_EINVAL);
	else
		CHECK_RC(fi_wr_queue_trecv(t->b.ep, recv->wr, NULL), -FI_EINVAL);
}

WR_BOTH(small_buffer, "A buffer that is too small is refused, and the size that is needed is returned")
{
	PAIR(t);
	struct request *send = describe(&t->a, tagged ? FI_OP_TSEND : FI_OP_SEND, new_buf(t, LEN, 1), NULL, 0);
	size_t needed = 0;

	CHECK_RC(fi_wr_prepare(t->a.ep, &send->attr, send->wr, &needed), -FI_ETOOSMALL);
	CHECK(needed > 0 && needed <= t->a.info->ep_attr->max_tx_wr_size);
	// No byte behind it is used: a memory checker sees the end of the block.
	send->wr = keep_mem(needed);
	send->len = needed;
	OK(prepare(&t->a, send));
	CHECK_EQ(send->len, needed);
	arrives(t, send, tagged, LEN, 1);
}

WR_BOTH(any_alignment, "The buffer of a request may lie at any address")
{
	PAIR(t);
	struct request *send = describe(&t->a, tagged ? FI_OP_TSEND : FI_OP_SEND, new_buf(t, LEN, 6), NULL, 0);

	send->wr = (char *)keep_mem(send->len + 1) + 1;
	OK(prepare(&t->a, send));
	arrives(t, send, tagged, LEN, 6);
}

WR_TEST(before_enable, FI_MSG, "An endpoint that is not enabled prepares nothing")
{
	struct side side = { 0 };
	struct request *recv;

	open_domain(t);
	open_bound_ep(t, &side);
	recv = describe(&side, FI_OP_RECV, new_buf(t, LEN, 0), NULL, 0);
	CHECK_RC(prepare(&side, recv), -FI_EOPBADSTATE);
}

WR_TEST(bad_descriptors, FI_MSG, "Wrong operation types, flags and arguments are refused when a request is prepared")
{
	struct request *send;
	struct fi_wr_attr attr;

	PAIR(t);
	send = describe(&t->a, FI_OP_SEND, new_buf(t, LEN, 1), NULL, 0);
	attr = send->attr;
	attr.op_type = FI_OP_CNTR_ADD;
	CHECK_RC(fi_wr_prepare(t->a.ep, &attr, send->wr, &send->len), -FI_EINVAL);
	attr.op_type = 1000;
	CHECK_RC(fi_wr_prepare(t->a.ep, &attr, send->wr, &send->len), -FI_EINVAL);
	attr = send->attr;
	attr.op.msg = NULL;
	CHECK_RC(fi_wr_prepare(t->a.ep, &attr, send->wr, &send->len), -FI_EINVAL);
	CHECK_RC(fi_wr_prepare(t->a.ep, NULL, send->wr, &send->len), -FI_EINVAL);
	CHECK_RC(fi_wr_prepare(t->a.ep, &send->attr, NULL, &send->len), -FI_EINVAL);
	CHECK_RC(fi_wr_prepare(t->a.ep, &send->attr, send->wr, NULL), -FI_EINVAL);
	send->op.msg.flags = FI_PEEK;
	CHECK_RC(prepare(&t->a, send), -FI_EBADFLAGS);
	send->op.msg.flags = 0;
	send->iov[0].iov_base = NULL;
	CHECK_RC(prepare(&t->a, send), -FI_EINVAL);
	send->op.msg.msg.iov_count = 100;
	CHECK_RC(prepare(&t->a, send), -FI_EINVAL);
}

// ---- Addresses

TEST(fi_wr, unknown_address, EP_RDM, FI_WR | FI_MSG, "A request for an address that is not in the vector is not prepared")
{
	struct request *send;

	PAIR(t);
	send = describe(&t->a, FI_OP_SEND, new_buf(t, LEN, 1), NULL, 0);
	send->op.msg.msg.addr = 12345;
	CHECK_RC(prepare(&t->a, send), -FI_EINVAL);
	send->op.msg.msg.addr = t->a.peer;
	OK(prepare(&t->a, send));
	CHECK_RC(fi_wr_modify_addr(t->a.ep, send->wr, send->type, 12345), -FI_EINVAL);
	arrives(t, send, false, LEN, 1);
}

TEST(fi_wr, removed_address, EP_RDM, FI_WR | FI_MSG | FI_TAGGED, "A request whose address was removed is refused, also when another peer has got its index, until it gets a new address")
{
	enum { A, B, C };
	struct side sides[3] = { 0 };
	fi_addr_t at[9], addr;
	struct request *sends[2];
	struct buf in;
	void *got, *sent;

	open_group(t, sides, 3, at);
	sides[A].peer = at[A * 3 + B];
	sends[0] = prepared(&sides[A], FI_OP_SEND, new_buf(t, LEN, 1), NULL, 0);
	sends[1] = prepared(&sides[A], FI_OP_SEND, new_buf(t, 100000, 1), NULL, 0);
	post_recv(t, &sides[B], new_buf(t, LEN, 0));
	queued(t, &sides[A], sends[0]);
	wait_comp(t, sides[B].rxcq, NULL);
	wait_comp(t, sides[A].txcq, NULL);
	addr = at[A * 3 + B];
	OK(fi_av_remove(sides[A].av, &addr, 1, 0));
	for (unsigned i = 0; i < 2; i++)
		CHECK_RC(queue(&sides[A], sends[i], NULL), -FI_EINVAL);
	// The free index goes to the next address.
	addr = at[A * 3 + C];
	OK(fi_av_remove(sides[A].av, &addr, 1, 0));
	CHECK_RC(fi_av_insert(sides[A].av, sides[C].name, 1, &addr, 0, NULL), 1);
	in = new_buf(t, LEN, 0);
	got = post_recv(t, &sides[C], in);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_RC(queue(&sides[A], sends[i], NULL), -FI_EINVAL);
		CHECK_RC(fi_wr_modify_flags(sides[A].ep, sends[i]->wr, FI_OP_SEND, 0), -FI_EINVAL);
	}
	OK(fi_wr_modify_addr(sides[A].ep, sends[0]->wr, FI_OP_SEND, addr));
	sent = queued(t, &sides[A], sends[0]);
	done(t, sides[C].rxcq, got, RECEIVED(false));
	CHECK(holds(in, LEN, 1));
	done(t, sides[A].txcq, sent, SENT(false));
}

TEST(fi_wr, other_peer, EP_RDM, FI_WR | FI_MSG, "fi_wr_modify_addr: the next queue call is for another peer")
{
	enum { A, B, C };
	struct side sides[3] = { 0 };
	fi_addr_t at[9];
	struct request *send;

	open_group(t, sides, 3, at);
	sides[A].peer = at[A * 3 + B];
	send = prepared(&sides[A], FI_OP_SEND, new_buf(t, LEN, 1), NULL, 0);
	for (unsigned peer = B; peer <= C; peer++) {
		void *got = post_recv(t, &sides[peer], new_buf(t, LEN, 0)), *sent;

		OK(fi_wr_modify_addr(sides[A].ep, send->wr, FI_OP_SEND, at[A * 3 + peer]));
		sent = queued(t, &sides[A], send);
		done(t, sides[peer].rxcq, got, RECEIVED(false));
		done(t, sides[A].txcq, sent, SENT(false));
	}
}

// ---- Changes

WR_BOTH(other_buffers, "fi_wr_modify_iov: buffers and length of the next queue call; no more buffers than were prepared")
{
	PAIR(t);
	struct buf out = new_buf(t, 100, 8);
	struct request *send = sender(t, tagged, new_buf(t, LEN, 1), 0);
	struct iovec iov[2] = { { out.mem, 100 }, { out.mem, 1 } };
	void *desc[2] = { out.desc, out.desc };

	arrives(t, send, tagged, LEN, 1);
	OK(fi_wr_modify_iov(t->a.ep, send->wr, send->type, iov, desc, 1));
	arrives(t, send, tagged, 100, 8);
	CHECK_RC(fi_wr_modify_iov(t->a.ep, send->wr, send->type, iov, desc, 2), -FI_EINVAL);
	arrives(t, send, tagged, 100, 8);
	OK(fi_wr_modify_iov(t->a.ep, send->wr, send->type, NULL, NULL, 0));
	arrives(t, send, tagged, 0, 1);
}

WR_TEST(other_tag, FI_MSG | FI_TAGGED, "fi_wr_modify_tag: tag and ignore bits of tagged requests; a send has no ignore bits")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct request *send = sender(t, true, new_buf(t, LEN, 2), 0), *recv = receiver(t, true, in);
	struct request *plain = sender(t, false, new_buf(t, LEN, 3), 0);
	void *got, *sent;

	OK(fi_wr_modify_tag(t->a.ep, send->wr, FI_OP_TSEND, 0x35, 0));
	OK(fi_wr_modify_tag(t->b.ep, recv->wr, FI_OP_TRECV, 0x30, 0xf));
	got = queued(t, &t->b, recv);
	sent = queued(t, &t->a, send);
	CHECK_EQ(done(t, t->b.rxcq, got, RECEIVED(true)).tag, 0x35);
	CHECK(holds(in, LEN, 2));
	done(t, t->a.txcq, sent, SENT(true));
	CHECK_RC(fi_wr_modify_tag(t->a.ep, send->wr, FI_OP_TSEND, 0x35, 1), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_tag(t->a.ep, plain->wr, FI_OP_SEND, 1, 0), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_tag(t->a.ep, plain->wr, FI_OP_TSEND, 1, 0), -FI_EINVAL);
}

WR_TEST(other_target, FI_MSG | FI_RMA, "fi_wr_modify_rma_iov: place at the target, of the same length; messages have none")
{
	PAIR(t);
	struct region at = new_region(t, &t->b, new_buf(t, 2 * LEN, 0), FI_REMOTE_WRITE);
	struct buf out = new_buf(t, LEN, 3);
	struct request *write = prepared(&t->a, FI_OP_WRITE, out, &at, FI_DELIVERY_COMPLETE), *send = sender(t, false, out, 0);
	struct fi_rma_iov remote[2] = { { at.at + LEN, LEN, at.key }, { at.at, 0, at.key } };

	OK(fi_wr_modify_rma_iov(t->a.ep, write->wr, FI_OP_WRITE, remote, 1));
	done(t, t->a.txcq, queued(t, &t->a, write), FI_RMA | FI_WRITE);
	CHECK(!at.buf.mem[0] && holds_by_now(part(at.buf, LEN, LEN), LEN, 3));
	remote[0].len = LEN - 1;
	CHECK_RC(fi_wr_modify_rma_iov(t->a.ep, write->wr, FI_OP_WRITE, remote, 1), -FI_EINVAL);
	remote[0].len = LEN;
	CHECK_RC(fi_wr_modify_rma_iov(t->a.ep, write->wr, FI_OP_WRITE, remote, 2), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_rma_iov(t->a.ep, send->wr, FI_OP_SEND, remote, 1), -FI_EINVAL);
	done(t, t->a.txcq, queued(t, &t->a, write), FI_RMA | FI_WRITE);
}

WR_TEST(other_length, FI_RMA, "fi_wr_modify_iov sets the length of a write, too")
{
	PAIR(t);
	struct region at = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE);
	struct buf out = new_buf(t, LEN, 3);
	struct request *write = prepared(&t->a, FI_OP_WRITE, out, &at, FI_DELIVERY_COMPLETE);
	struct iovec iov = { out.mem, 10 };

	OK(fi_wr_modify_iov(t->a.ep, write->wr, FI_OP_WRITE, &iov, &out.desc, 1));
	done(t, t->a.txcq, queued(t, &t->a, write), FI_RMA | FI_WRITE);
	CHECK(holds_by_now(at.buf, 10, 3) && !at.buf.mem[10]);
}

WR_BOTH(other_flags, "fi_wr_modify_flags: other flags for the next queue call, but FI_INJECT and FI_REMOTE_CQ_DATA stay")
{
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	struct request *send = sender(t, tagged, new_buf(t, 16, 1), 0);

	plain_recv(t, tagged, new_buf(t, 16, 0));
	queued(t, &t->a, send);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK_RC(fi_wr_modify_flags(t->a.ep, send->wr, send->type, FI_INJECT), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_flags(t->a.ep, send->wr, send->type, FI_REMOTE_CQ_DATA), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_flags(t->a.ep, send->wr, send->type, FI_PEEK), -FI_EBADFLAGS);
	nothing(t->a.txcq);
	OK(fi_wr_modify_flags(t->a.ep, send->wr, send->type, FI_COMPLETION));
	arrives(t, send, tagged, 16, 1);
}

WR_BOTH(wrong_type, "The modify calls take the operation type that the request was prepared for")
{
	PAIR(t);
	struct request *send = sender(t, tagged, new_buf(t, LEN, 1), 0);
	enum fi_op_type other = tagged ? FI_OP_SEND : FI_OP_TSEND;

	CHECK_RC(fi_wr_modify_addr(t->a.ep, send->wr, other, t->a.peer), -FI_EINVAL);
	CHECK_RC(fi_wr_modify_addr(t->a.ep, send->wr, FI_OP_RECV, t->a.peer), -FI_EINVAL);
	OK(fi_wr_modify_addr(t->a.ep, send->wr, send->type, t->a.peer));
	arrives(t, send, tagged, LEN, 1);
}

#endif
