// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_msg(3), fi_tagged(3), fi_rma(3), fi_cq(3): which call forms complete, at which level, and the effect of default
//! flags on each form.
#include "transfer.h"

enum { LEN = 64, ROOM = 1 << 16 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define WROTE (FI_RMA | FI_WRITE)
#define READ (FI_RMA | FI_READ)

static struct fi_msg_rma rma_msg(struct env *t, struct iovec *iov, struct buf *local, struct fi_rma_iov *remote,
				 struct region *target)
{
	*iov = (struct iovec){ local->mem, local->len };
	*remote = (struct fi_rma_iov){ target->at, local->len, target->key };
	return (struct fi_msg_rma){
		.msg_iov = iov, .desc = &local->desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = remote,
		.rma_iov_count = 1, .context = new_ctx(), .data = DATA,
	};
}

// ---- Selective completion, form by form

static void selective_forms(struct env *t, bool tagged, bool by_default)
{
	static const enum form sends[] = { SEND, SENDV, SENDDATA, SENDMSG, SENDMSG, INJECT, INJECTDATA };
	static const enum form recvs[] = { RECV, RECVV, RECVMSG, RECVMSG, RECV, RECVV, RECVMSG };

	for (unsigned i = 0; i < 7; i++) {
		struct buf in = new_buf(t, LEN, 0);
		struct op recv = op_of(recvs[i], tagged, in, FI_ADDR_UNSPEC);
		struct op send = op_of(sends[i], tagged, new_buf(t, LEN, i + 1), t->a.peer);
		uint64_t data = sends[i] == SENDDATA || sends[i] == INJECTDATA ? FI_REMOTE_CQ_DATA : 0;
		bool sent = sends[i] == SENDMSG ? i == 3 : by_default && sends[i] < INJECT;
		bool got = recvs[i] == RECVMSG ? i == 3 : by_default;

		if (!has_form(t, sends[i]))
			continue;
		send.flags = recv.flags = i == 3 ? FI_COMPLETION : 0;
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		ONCE(t, holds_by_now(in, LEN, i + 1));
		if (sent)
			done(t, t->a.txcq, send.ctx, SENT(tagged));
		if (got)
			done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged) | data);
		turn(t);
		nothing(t->a.txcq);
		nothing(t->b.rxcq);
	}
}

BOTH(selective_forms, EP_ANY, 0, "With FI_SELECTIVE_COMPLETION no form of call completes, except the message form with FI_COMPLETION")
{
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION);
	selective_forms(t, tagged, false);
}

BOTH(selective_forms_default, EP_ANY, 0, "With FI_COMPLETION as default flag every form completes but the inject forms and the message form without it")
{
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION, .tx_op_flags = FI_COMPLETION,
	     .rx_op_flags = FI_COMPLETION);
	selective_forms(t, tagged, true);
}

TEST(fi_rma, selective_forms_default, EP_RELIABLE, FI_RMA, "With FI_COMPLETION as default flag every form completes but the inject forms and the message form without it")
{
	struct buf out = new_buf(t, LEN, 1), in = new_buf(t, LEN, 0);
	struct iovec iov;
	struct fi_rma_iov remote;
	struct region target;
	void *ctx[5];

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION, .tx_op_flags = FI_COMPLETION);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < 5; i++)
		ctx[i] = new_ctx();
	iov = (struct iovec){ out.mem, LEN };
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.at, target.key, ctx[0]));
	done(t, t->a.txcq, ctx[0], WROTE);
	POST(t, fi_writev(t->a.ep, &iov, &out.desc, 1, t->a.peer, target.at, target.key, ctx[1]));
	done(t, t->a.txcq, ctx[1], WROTE);
	POST(t, fi_writedata(t->a.ep, out.mem, LEN, out.desc, DATA, t->a.peer, target.at, target.key, ctx[2]));
	done(t, t->a.txcq, ctx[2], WROTE);
	POST(t, fi_inject_write(t->a.ep, out.mem, LEN, t->a.peer, target.at, target.key));
	POST(t, fi_inject_writedata(t->a.ep, out.mem, LEN, DATA, t->a.peer, target.at, target.key));
	struct fi_msg_rma msg = rma_msg(t, &iov, &out, &remote, &target);
	POST(t, fi_writemsg(t->a.ep, &msg, 0));
	iov = (struct iovec){ in.mem, LEN };
	msg.desc = &in.desc;
	POST(t, fi_readmsg(t->a.ep, &msg, 0));
	POST(t, fi_readv(t->a.ep, &iov, &in.desc, 1, t->a.peer, target.at, target.key, ctx[3]));
	done(t, t->a.txcq, ctx[3], READ);
	POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, target.at, target.key, ctx[4]));
	done(t, t->a.txcq, ctx[4], READ);
	turn(t);
	nothing(t->a.txcq);
}

BOTH(selective_send_errors, EP_RELIABLE, 0, "Sends that fail write an entry even when their completions are suppressed")
{
	enum { COUNT = 5 };
	struct fi_cq_err_entry err = { 0 };
	void *ctx[COUNT];

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	round_trip_between(t, &t->a, &t->b);
	for (unsigned i = 0; i < COUNT; i++) { // exceeds FI_TCP_MAX_SAVED_BYTES, so the peer needs a receive
		struct op send = op_of(SENDMSG, tagged, new_buf(t, 16 << 20, 1), t->a.peer);

		send.flags = FI_DELIVERY_COMPLETE;
		ctx[i] = send.ctx;
		op_post(t, t->a.ep, &send);
	}
	shut(t, &t->b.ep->fid);
	wait_err(t, t->a.txcq, &err);
	CHECK(err.err > 0);
	for (unsigned i = 0; i < COUNT && err.op_context; i++)
		if (err.op_context == ctx[i])
			return;
	CHECK(!err.op_context); // the buffer was not returned, which is allowed
}

// ---- FI_INJECT as default flag

BOTH(inject_by_default, EP_RELIABLE, 0, "With FI_INJECT as default flag a send's buffer may be overwritten at once, and the send completes; the message form without it takes any size")
{
	PAIR(t, .tx_op_flags = FI_INJECT);
	static const enum form forms[] = { SEND, SENDV, SENDDATA };
	size_t limit = t->a.info->tx_attr->inject_size;

	for (unsigned i = 0; i < 3; i++) {
		struct buf in = new_buf(t, limit, 0), out = new_buf(t, limit, i + 1);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(forms[i], tagged, out, t->a.peer);

		op_post(t, t->a.ep, &send);
		memset(host_view(out.mem), 0xff, limit);
		op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged) | (forms[i] == SENDDATA ? FI_REMOTE_CQ_DATA : 0));
		CHECK(holds(in, limit, i + 1));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
	struct buf in = new_buf(t, ROOM, 0);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(SENDMSG, tagged, new_buf(t, ROOM, 9), t->a.peer);

	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, ROOM, 9));
}

BOTH(inject_by_default_large, EP_ANY, 0, "With FI_INJECT as default flag a send of more than inject_size is refused, or its buffer may be overwritten at once as well")
{
	static const size_t lens[] = { 1000, 100000, 8 << 20 };

	PAIR(t, .tx_op_flags = FI_INJECT);
	round_trip(t);
	for (unsigned i = 0; i < 6; i++) {
		struct buf in = new_buf(t, lens[i % 3], 0), out = new_buf(t, lens[i % 3], i + 1);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, out, t->a.peer);
		ssize_t rc = -FI_EAGAIN;

		ONCE(t, (rc = op_try(t->a.ep, &send)) != -FI_EAGAIN);
		if (rc) {
			CHECK_RC2(rc, -FI_EINVAL, -FI_EMSGSIZE);
			continue;
		}
		memset(host_view(out.mem), 0xff, out.len);
		op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		CHECK(holds(in, in.len, i + 1));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

TEST(fi_rma, inject_by_default, EP_RELIABLE, FI_RMA, "With FI_INJECT as default flag reads, which have no outbound data, are of any size")
{
	struct buf in = new_buf(t, ROOM, 0);
	struct iovec iov = { in.mem, ROOM };
	struct region target;
	void *ctx[2] = { new_ctx(), new_ctx() };

	PAIR(t, .tx_op_flags = FI_INJECT);
	target = new_region(t, &t->b, new_buf(t, ROOM, 5), RW);
	POST(t, fi_read(t->a.ep, in.mem, ROOM, in.desc, t->a.peer, target.at, target.key, ctx[0]));
	done(t, t->a.txcq, ctx[0], READ);
	CHECK(holds(in, ROOM, 5));
	memset(host_view(in.mem), 0, ROOM);
	POST(t, fi_readv(t->a.ep, &iov, &in.desc, 1, t->a.peer, target.at, target.key, ctx[1]));
	done(t, t->a.txcq, ctx[1], READ);
	CHECK(holds(in, ROOM, 5));
}

TEST(fi_rma, writemsg_inject, EP_RELIABLE, FI_RMA, "fi_writemsg with FI_INJECT returns the buffer at once, still completes, and takes inject_size bytes at most")
{
	size_t limit = t->info->tx_attr->inject_size;
	struct buf out = new_buf(t, limit, 1), larger = new_buf(t, limit + 1, 2);
	struct fi_rma_iov remote;
	struct region target;
	struct iovec iov;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	struct fi_msg_rma msg = rma_msg(t, &iov, &out, &remote, &target);
	POST(t, fi_writemsg(t->a.ep, &msg, FI_INJECT | FI_DELIVERY_COMPLETE));
	memset(host_view(out.mem), 0xff, limit);
	done(t, t->a.txcq, msg.context, WROTE);
	CHECK(holds(part(target.buf, 0, limit), limit, 1));
	msg = rma_msg(t, &iov, &larger, &remote, &target);
	if (on_device() && !t->info->tx_attr->inject_size)
		return; // shm accepts more than it says: fi_mr(3)
	CHECK_RC2(fi_writemsg(t->a.ep, &msg, FI_INJECT), -FI_EINVAL, -FI_EMSGSIZE);
}

// ---- Completion levels

TEST(fi_rma, levels, EP_RELIABLE, FI_RMA, "Writes of any size take FI_INJECT_COMPLETE and FI_TRANSMIT_COMPLETE; after the former the buffer may be used again")
{
	static const uint64_t levels[] = { FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_INJECT_COMPLETE | FI_MORE };
	static const size_t lens[] = { 0, LEN, 20000, 3 << 20 };
	struct region target;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, 4 << 20, 0), RW);
	for (unsigned k = 0; k < 3; k++)
		for (unsigned i = 0; i < 4; i++) {
			struct buf out = new_buf(t, lens[i], 10 * k + i + 1), in = new_buf(t, lens[i], 0);
			struct fi_rma_iov remote;
			struct iovec iov;
			struct fi_msg_rma msg = rma_msg(t, &iov, &out, &remote, &target);
			void *ctx = new_ctx();

			POST(t, fi_writemsg(t->a.ep, &msg, levels[k]));
			done(t, t->a.txcq, msg.context, WROTE);
			memset(host_view(out.mem), 0xff, out.len);
			POST(t, fi_read(t->a.ep, in.mem, in.len, in.desc, t->a.peer, target.at, target.key, ctx));
			done(t, t->a.txcq, ctx, READ);
			if (t->info->tx_attr->msg_order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW))
				CHECK(holds(in, lens[i], 10 * k + i + 1));
		}
}

TEST(fi_rma, delivery_complete_by_default, EP_RELIABLE, FI_RMA, "FI_DELIVERY_COMPLETE as default flag holds for fi_write, fi_writev and fi_writedata")
{
	struct region target;

	PAIR(t, .tx_op_flags = FI_DELIVERY_COMPLETE);
	target = new_region(t, &t->b, new_buf(t, 4 << 20, 0), RW);
	for (unsigned i = 0; i < 6; i++) {
		struct buf out = new_buf(t, i % 2 ? LEN : 3 << 20, i + 1);
		struct iovec iov = { out.mem, out.len };
		void *ctx = new_ctx();

		if (i < 2)
			POST(t, fi_write(t->a.ep, out.mem, out.len, out.desc, t->a.peer, target.at, target.key, ctx));
		else if (i < 4)
			POST(t, fi_writev(t->a.ep, &iov, &out.desc, 1, t->a.peer, target.at, target.key, ctx));
		else
			POST(t, fi_writedata(t->a.ep, out.mem, out.len, out.desc, DATA, t->a.peer, target.at, target.key, ctx));
		done(t, t->a.txcq, ctx, WROTE);
		CHECK(holds(target.buf, out.len, i + 1));
	}
}

TEST(fi_msg, transmit_complete_receive, EP_ANY, FI_MSG, "FI_TRANSMIT_COMPLETE is taken by fi_recvmsg, posted before the message and after it")
{
	PAIR(t);
	for (unsigned late = 0; late < 2; late++) {
		struct buf in = new_buf(t, LEN, 0);
		struct op recv = op_of(RECVMSG, false, in, FI_ADDR_UNSPEC);

		recv.flags = FI_TRANSMIT_COMPLETE;
		if (!late)
			op_post(t, t->b.ep, &recv);
		post_send(t, &t->a, new_buf(t, LEN, late + 1));
		turn(t);
		if (late)
			op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, FI_MSG | FI_RECV);
		CHECK(holds(in, LEN, late + 1));
	}
}

// ---- Remote CQ data

BOTH(cq_data_of_zero, EP_RELIABLE, 0, "Remote CQ data of value 0, and data with a message of 0 bytes, are reported as data")
{
	if (!t->info->domain_attr->cq_data_size)
		SKIP("no remote CQ data");
	PAIR(t);
	for (unsigned i = 0; i < 4; i++) {
		struct op recv = op_of(RECV, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		struct op send = op_of(i < 2 ? SENDDATA : INJECTDATA, tagged, new_buf(t, i % 2 ? LEN : 0, 1), t->a.peer);
		struct fi_cq_tagged_entry comp;

		send.data = 0;
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		comp = done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged) | FI_REMOTE_CQ_DATA);
		CHECK_EQ(comp.data, 0);
		CHECK_EQ(comp.len, i % 2 ? LEN : 0);
	}
}

TEST(fi_rma, writemsg_segments_cq_data, EP_RELIABLE, FI_RMA, "A write to several remote pieces with FI_REMOTE_CQ_DATA gives one completion with the length of all")
{
	size_t pieces = t->info->tx_attr->rma_iov_limit < MAX_IOV ? t->info->tx_attr->rma_iov_limit : MAX_IOV;
	struct fi_rma_iov remote[MAX_IOV];
	struct fi_cq_tagged_entry comp;
	struct region target;
	struct buf out;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	out = new_buf(t, 100 * pieces, 1);
	struct iovec iov = { out.mem, out.len };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = remote,
		.rma_iov_count = pieces, .context = new_ctx(), .data = DATA,
	};
	for (size_t i = 0; i < pieces; i++)
		remote[i] = (struct fi_rma_iov){ target.at + 1000 * i, 100, target.key };
	POST(t, fi_writemsg(t->a.ep, &msg, FI_REMOTE_CQ_DATA));
	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == NULL);
	CHECK_EQ(kind_flags(comp.flags), FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
	CHECK_EQ(comp.len, 100 * pieces);
	for (size_t i = 0; i < pieces; i++)
		CHECK(!memcmp(target.buf.mem + 1000 * i, out.mem + 100 * i, 100));
	nothing(t->b.rxcq);
}

// ---- RMA of nothing, and order

TEST(fi_rma, empty_message_forms, EP_RELIABLE, FI_RMA, "For 0-byte operations vector, descriptors and count of every form may be absent")
{
	struct fi_rma_iov remote;
	struct region target;
	void *ctx[3] = { new_ctx(), new_ctx(), new_ctx() };

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	remote = (struct fi_rma_iov){ target.at, 0, target.key };
	struct fi_msg_rma msg = { .addr = t->a.peer, .rma_iov = &remote, .rma_iov_count = 1, .context = ctx[0] };
	POST(t, fi_writemsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, ctx[0], WROTE);
	msg.context = ctx[1];
	POST(t, fi_readmsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, ctx[1], READ);
	POST(t, fi_readv(t->a.ep, NULL, NULL, 0, t->a.peer, target.at, target.key, ctx[2]));
	done(t, t->a.txcq, ctx[2], READ);
	POST(t, fi_inject_write(t->a.ep, NULL, 0, t->a.peer, target.at, target.key));
	POST(t, fi_inject_writedata(t->a.ep, NULL, 0, DATA, t->a.peer, target.at, target.key));
	wait_comp(t, t->b.rxcq, NULL);
	CHECK(untouched(target.buf, 0));
}

TEST(fi_rma, read_after_write, EP_RELIABLE, FI_RMA, "With FI_ORDER_RAW a read gets what a write posted before it wrote, without waiting between them")
{
	enum { COUNT = 40 };
	struct buf in[COUNT];
	struct region target;
	uint64_t at = 0; // each pair has its own place, because the next write may overtake the answer to a read

	need_order(t, FI_ORDER_RAW | FI_ORDER_RMA_RAW);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, 10 << 20, 0), RW);
	for (unsigned i = 0; i < COUNT; i++) {
		size_t len = i % 3 == 0 ? 500000 : i % 3 == 1 ? 100 : 10000;
		struct buf out = new_buf(t, len, i + 1);

		if (len > t->info->ep_attr->max_order_raw_size)
			len = t->info->ep_attr->max_order_raw_size;
		in[i] = new_buf(t, len, 0);
		POST(t, fi_write(t->a.ep, out.mem, len, out.desc, t->a.peer, target.at + at, target.key, new_ctx()));
		POST(t, fi_read(t->a.ep, in[i].mem, len, in[i].desc, t->a.peer, target.at + at, target.key, new_ctx()));
		at += len;
	}
	for (unsigned i = 0; i < 2 * COUNT; i++)
		wait_comp(t, t->a.txcq, NULL);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(holds(in[i], in[i].len, i + 1));
}

// ---- Closing

TEST(fi_endpoint, close_discards_sends, EP_RELIABLE, FI_MSG, "No completion appears in a queue after the close of the endpoint whose sends and reads were outstanding")
{
	struct fi_cq_tagged_entry comp;

	PAIR(t);
	for (unsigned i = 0; i < 4; i++)
		post_send(t, &t->a, new_buf(t, 4 << 20, 1));
	shut(t, &t->a.ep->fid);
	while (fi_cq_read(t->a.txcq, &comp, 1) == 1)
		;
	turn(t);
	nothing(t->a.txcq);
}
