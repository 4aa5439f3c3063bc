// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_rma(3): every form of write and read, vectors on both sides, sizes, completions.
#include "transfer.h"

enum { LEN = 64, ROOM = 1 << 16 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define WROTE (FI_RMA | FI_WRITE)
#define READ (FI_RMA | FI_READ)

// When it returns, everything that a wrote before is in b's memory. No other completion may come before its own.
static void flush(struct env *t, struct region *target)
{
	struct buf in = new_buf(t, 1, 0);
	void *ctx = new_ctx();

	POST(t, fi_read(t->a.ep, in.mem, 1, in.desc, t->a.peer, target->at, target->key, ctx));
	done(t, t->a.txcq, ctx, READ);
}

TEST(fi_rma, write, EP_RELIABLE, FI_RMA, "fi_write puts its buffer at the address given, and nothing around it")
{
	struct region target;
	struct buf out = new_buf(t, LEN, 1);
	void *ctx = new_ctx();

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_WRITE | FI_REMOTE_READ);
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.at + 100, target.key, ctx));
	done(t, t->a.txcq, ctx, WROTE);
	flush(t, &target);
	CHECK(holds(part(target.buf, 100, LEN), LEN, 1));
	CHECK(untouched(part(target.buf, 0, 100), 0) && untouched(target.buf, 100 + LEN));
	nothing(t->b.rxcq);
}

TEST(fi_rma, read, EP_RELIABLE, FI_RMA, "fi_read fetches from the address given into its buffer, and nothing around it")
{
	struct region target;
	struct buf in = new_buf(t, LEN + 8, 0);
	void *ctx = new_ctx();

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_READ);
	fill(target.buf.mem + 333, LEN, 5);
	POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, target.at + 333, target.key, ctx));
	done(t, t->a.txcq, ctx, READ);
	CHECK(holds(in, LEN, 5));
	CHECK(untouched(in, LEN));
	nothing(t->b.rxcq);
}

TEST(fi_rma, domain_of_messages, EP_RDM, FI_TAGGED, "An endpoint may access memory in a domain that was opened for messages")
{
	struct region target;
	struct buf out;
	void *ctx = new_ctx();

	open_domain(t);
	t->hints->caps = FI_RMA;
	env_info(t);
	PAIR(t);
	out = new_buf(t, LEN, 1);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE);
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.at, target.key, ctx));
	wait_comp(t, t->a.txcq, NULL);
	ONCE(t, !memcmp(target.buf.mem, out.mem, LEN));
}

TEST(fi_rma, writev_gathers, EP_RELIABLE, FI_RMA, "fi_writev writes its buffers, up to iov_limit of them, one behind the other")
{
	struct region target;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (size_t count = 1; count <= t->info->tx_attr->iov_limit && count <= MAX_IOV; count++) {
		struct buf out = new_buf(t, 16 * count, count);
		struct iovec iov[MAX_IOV];
		void *desc[MAX_IOV], *ctx = new_ctx();

		for (size_t i = 0; i < count; i++) {
			iov[i] = (struct iovec){ out.mem + 16 * i, 16 };
			desc[i] = out.desc;
		}
		POST(t, fi_writev(t->a.ep, iov, desc, count, t->a.peer, target.at + 1000 * count, target.key, ctx));
		done(t, t->a.txcq, ctx, WROTE);
		flush(t, &target);
		CHECK(holds(part(target.buf, 1000 * count, 16 * count), 16 * count, count));
	}
}

TEST(fi_rma, readv_scatters, EP_RELIABLE, FI_RMA, "fi_readv fills its buffers, up to iov_limit of them, in order")
{
	struct region target;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_READ);
	fill(target.buf.mem, ROOM, 3);
	for (size_t count = 1; count <= t->info->tx_attr->iov_limit && count <= MAX_IOV; count++) {
		struct buf in = new_buf(t, 16 * count, 0);
		struct iovec iov[MAX_IOV];
		void *desc[MAX_IOV], *ctx = new_ctx();

		for (size_t i = 0; i < count; i++) {
			iov[i] = (struct iovec){ in.mem + 16 * i, 16 };
			desc[i] = in.desc;
		}
		POST(t, fi_readv(t->a.ep, iov, desc, count, t->a.peer, target.at, target.key, ctx));
		done(t, t->a.txcq, ctx, READ);
		CHECK(holds(in, 16 * count, 3));
	}
}

// `count` remote ranges of different lengths, far apart; the local buffers have other borders.
static void message_forms(struct env *t, bool read, size_t pieces, size_t locals, size_t scale)
{
	struct region target = new_region(t, &t->b, new_buf(t, 64 * scale * (pieces + 1), 0), RW);
	struct fi_rma_iov remote[MAX_IOV];
	struct iovec iov[MAX_IOV];
	void *desc[MAX_IOV];
	struct buf local;
	size_t total = 0, at = 0;

	for (size_t i = 0; i < pieces; i++) {
		size_t offset = 64 * scale * i + 7 * i;

		remote[i] = (struct fi_rma_iov){ .addr = target.at + offset, .len = scale * (i + 3), .key = target.key };
		total += remote[i].len;
	}
	local = new_buf(t, total, 9);
	for (size_t i = 0, from = 0; read && i < pieces; from += remote[i++].len)
		memcpy(host_view(target.buf.mem + (remote[i].addr - target.at)), host_view(local.mem + from), remote[i].len);
	if (read)
		memset(host_view(local.mem), 0, total);
	for (size_t i = 0; i < locals; i++) {
		size_t len = i + 1 == locals ? total - at : (total / locals) - 1;

		iov[i] = (struct iovec){ local.mem + at, len };
		desc[i] = local.desc;
		at += len;
	}
	struct fi_msg_rma msg = {
		.msg_iov = iov, .desc = desc, .iov_count = locals, .addr = t->a.peer, .rma_iov = remote,
		.rma_iov_count = pieces, .context = new_ctx(),
	};
	if (read)
		POST(t, fi_readmsg(t->a.ep, &msg, 0));
	else
		POST(t, fi_writemsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, msg.context, read ? READ : WROTE);
	if (read) {
		CHECK(holds(local, total, 9));
		return;
	}
	flush(t, &target);
	for (size_t i = 0, from = 0; i < pieces; from += remote[i++].len)
		CHECK(!memcmp(host_view(target.buf.mem + (remote[i].addr - target.at)), host_view(local.mem + from), remote[i].len));
}

TEST(fi_rma, writemsg_segments, EP_RELIABLE, FI_RMA, "fi_writemsg scatters over up to rma_iov_limit remote pieces, in order")
{
	PAIR(t);
	for (size_t pieces = 1; pieces <= t->info->tx_attr->rma_iov_limit && pieces <= MAX_IOV; pieces++)
		for (size_t locals = 1; locals <= t->info->tx_attr->iov_limit && locals <= MAX_IOV; locals++)
			message_forms(t, false, pieces, locals, locals % 2 ? 10 : 30000);
}

TEST(fi_rma, readmsg_segments, EP_RELIABLE, FI_RMA, "fi_readmsg gathers from up to rma_iov_limit remote pieces, in order")
{
	PAIR(t);
	for (size_t pieces = 1; pieces <= t->info->tx_attr->rma_iov_limit && pieces <= MAX_IOV; pieces++)
		for (size_t locals = 1; locals <= t->info->tx_attr->iov_limit && locals <= MAX_IOV; locals++)
			message_forms(t, true, pieces, locals, locals % 2 ? 10 : 30000);
}

TEST(fi_rma, inject_write, EP_RELIABLE, FI_RMA, "After fi_inject_write the buffer may be overwritten; success writes no completion")
{
	struct region target;
	struct buf out = new_buf(t, 8, 0);

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < 100; i++) {
		fill(out.mem, 8, i + 1);
		POST(t, fi_inject_write(t->a.ep, out.mem, 8, t->a.peer, target.at + 8 * i, target.key));
		memset(host_view(out.mem), 0xff, 8);
	}
	flush(t, &target);
	for (unsigned i = 0; i < 100; i++)
		CHECK(holds(part(target.buf, 8 * i, 8), 8, i + 1));
	nothing(t->a.txcq);
}

static void data_arrived(struct env *t, size_t len)
{
	struct fi_cq_tagged_entry comp;

	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == NULL);
	CHECK_EQ(kind_flags(comp.flags), FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
	CHECK_EQ(comp.len, len);
}

TEST(fi_rma, writedata, EP_RELIABLE, FI_RMA | FI_MSG, "fi_writedata gives the target a completion with the data, which takes no posted receive")
{
	struct region target;
	struct buf out = new_buf(t, LEN, 1), in = new_buf(t, LEN, 0);
	void *ctx = new_ctx(), *recv;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	recv = post_recv(t, &t->b, in);
	POST(t, fi_writedata(t->a.ep, out.mem, LEN, out.desc, DATA, t->a.peer, target.at, target.key, ctx));
	data_arrived(t, LEN);
	CHECK(holds(target.buf, LEN, 1));
	done(t, t->a.txcq, ctx, WROTE);
	post_send(t, &t->a, new_buf(t, LEN, 2));
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 2));
}

TEST(fi_rma, writedata_without_receive, EP_RELIABLE, FI_RMA, "fi_writedata needs no receive at the target")
{
	struct region target;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < 20; i++) {
		struct buf out = new_buf(t, LEN, i + 1);
		void *ctx = new_ctx();

		POST(t, fi_writedata(t->a.ep, out.mem, LEN, out.desc, DATA, t->a.peer, target.at + i * LEN, target.key, ctx));
		data_arrived(t, LEN);
		CHECK(holds(part(target.buf, i * LEN, LEN), LEN, i + 1));
		done(t, t->a.txcq, ctx, WROTE);
	}
}

TEST(fi_rma, inject_writedata, EP_RELIABLE, FI_RMA, "fi_inject_writedata carries data and writes no completion")
{
	struct region target;
	struct buf out = new_buf(t, 8, 1);

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	POST(t, fi_inject_writedata(t->a.ep, out.mem, 8, DATA, t->a.peer, target.at, target.key));
	data_arrived(t, 8);
	CHECK(holds(target.buf, 8, 1));
	flush(t, &target);
	nothing(t->a.txcq);
}

TEST(fi_rma, writemsg_cq_data, EP_RELIABLE, FI_RMA, "fi_writemsg carries data with FI_REMOTE_CQ_DATA, and none without")
{
	struct region target;
	struct buf out = new_buf(t, LEN, 1);

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < 2; i++) {
		struct fi_rma_iov remote = { target.at, LEN, target.key };
		struct iovec iov = { out.mem, LEN };
		struct fi_msg_rma msg = {
			.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
			.rma_iov_count = 1, .context = new_ctx(), .data = DATA,
		};

		POST(t, fi_writemsg(t->a.ep, &msg, i ? 0 : FI_REMOTE_CQ_DATA));
		if (!i)
			data_arrived(t, LEN);
		done(t, t->a.txcq, msg.context, WROTE);
	}
	flush(t, &target);
	nothing(t->b.rxcq);
}

TEST(fi_rma, empty, EP_RELIABLE, FI_RMA, "Writes and reads of 0 bytes complete, with or without a buffer")
{
	struct region target;
	void *ctx[4] = { new_ctx(), new_ctx(), new_ctx(), new_ctx() };

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	POST(t, fi_write(t->a.ep, NULL, 0, NULL, t->a.peer, target.at, target.key, ctx[0]));
	done(t, t->a.txcq, ctx[0], WROTE);
	POST(t, fi_read(t->a.ep, NULL, 0, NULL, t->a.peer, target.at, target.key, ctx[1]));
	done(t, t->a.txcq, ctx[1], READ);
	POST(t, fi_writev(t->a.ep, NULL, NULL, 0, t->a.peer, target.at, target.key, ctx[2]));
	done(t, t->a.txcq, ctx[2], WROTE);
	POST(t, fi_writedata(t->a.ep, NULL, 0, NULL, DATA, t->a.peer, target.at, target.key, ctx[3]));
	data_arrived(t, 0);
	done(t, t->a.txcq, ctx[3], WROTE);
	CHECK(untouched(target.buf, 0));
}

TEST(fi_rma, every_size, EP_RELIABLE, FI_RMA, "Writes and reads of 1 byte to several MiB move every byte")
{
	static const size_t lens[] = { 1, 2, 7, 8, 9, 64, 127, 128, 129, 1000, 4096, 9000, 16384, 65537, 1 << 20, (4 << 20) + 3 };
	struct region target;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, 5 << 20, 0), RW);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct buf out = new_buf(t, lens[i], i + 1), in = new_buf(t, lens[i], 0);
		void *wrote = new_ctx(), *read = new_ctx();

		POST(t, fi_write(t->a.ep, out.mem, lens[i], out.desc, t->a.peer, target.at + i, target.key, wrote));
		done(t, t->a.txcq, wrote, WROTE);
		flush(t, &target);
		CHECK(holds(part(target.buf, i, lens[i]), lens[i], i + 1));
		POST(t, fi_read(t->a.ep, in.mem, lens[i], in.desc, t->a.peer, target.at + i, target.key, read));
		done(t, t->a.txcq, read, READ);
		CHECK(holds(in, lens[i], i + 1));
	}
}

TEST(fi_rma, whole_region, EP_RELIABLE, FI_RMA, "The first and the last byte of a region can be reached")
{
	struct region target;
	struct buf out = new_buf(t, ROOM, 1), in = new_buf(t, ROOM, 0);
	void *ctx = new_ctx();

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	POST(t, fi_write(t->a.ep, out.mem, ROOM, out.desc, t->a.peer, target.at, target.key, ctx));
	done(t, t->a.txcq, ctx, WROTE);
	POST(t, fi_read(t->a.ep, in.mem, ROOM, in.desc, t->a.peer, target.at, target.key, ctx));
	done(t, t->a.txcq, ctx, READ);
	if (t->info->tx_attr->msg_order & FI_ORDER_RMA_RAW || t->info->tx_attr->msg_order & FI_ORDER_RAW)
		CHECK(holds(in, ROOM, 1));
	POST(t, fi_write(t->a.ep, out.mem, 1, out.desc, t->a.peer, target.at + ROOM - 1, target.key, ctx));
	done(t, t->a.txcq, ctx, WROTE);
	flush(t, &target);
	CHECK_EQ(target.buf.mem[ROOM - 1], out.mem[0]);
}
