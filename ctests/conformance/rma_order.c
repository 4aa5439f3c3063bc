// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_rma(3): many accesses at once, order, completion levels, self, limits.
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

TEST(fi_rma, many_reads, EP_RELIABLE, FI_RMA, "Many reads in flight complete, each with its own data")
{
	enum { COUNT = 200 };
	struct region target;
	struct buf in = new_buf(t, COUNT * 100, 0);
	void *ctx[COUNT];
	unsigned completed = 0;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_READ);
	fill(target.buf.mem, ROOM, 7);
	for (unsigned i = 0; i < COUNT; i++) {
		ssize_t rc = -FI_EAGAIN;

		ctx[i] = new_ctx();
		while (rc == -FI_EAGAIN) { // completions are taken while posting: the queue may be small
			struct fi_cq_tagged_entry comp;

			rc = fi_read(t->a.ep, in.mem + 100 * i, 100, in.desc, t->a.peer, target.at + 100 * i, target.key, ctx[i]);
			progress(t);
			while (fi_cq_read(t->a.txcq, &comp, 1) == 1)
				completed++;
		}
		OK(rc);
	}
	for (; completed < COUNT; completed++)
		wait_comp(t, t->a.txcq, NULL);
	CHECK(!memcmp(in.mem, target.buf.mem, COUNT * 100));
	nothing(t->a.txcq);
}

TEST(fi_rma, both_directions_8_mib, EP_RELIABLE, FI_RMA, "Both ends write and read 8 MiB of each other at once: no deadlock")
{
	enum { BIG = 8 << 20 };
	struct side *sides[2] = { &t->a, &t->b };
	struct region region[2];
	struct buf out[2], in[2];

	PAIR(t);
	for (unsigned i = 0; i < 2; i++) {
		struct buf mem = new_buf(t, 2 * BIG, 0);

		fill(mem.mem + BIG, BIG, 5 + i);
		region[i] = new_region(t, sides[i], mem, RW);
		out[i] = new_buf(t, BIG, 1 + i);
		in[i] = new_buf(t, BIG, 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		POST(t, fi_write(sides[i]->ep, out[i].mem, BIG, out[i].desc, sides[i]->peer, region[1 - i].at, region[1 - i].key, new_ctx()));
		POST(t, fi_read(sides[i]->ep, in[i].mem, BIG, in[i].desc, sides[i]->peer, region[1 - i].at + BIG, region[1 - i].key, new_ctx()));
	}
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < 2; k++)
			wait_comp(t, sides[i]->txcq, NULL);
	for (unsigned i = 0; i < 2; i++)
		CHECK(holds(in[i], BIG, 6 - i));
	for (unsigned i = 0; i < 2; i++)
		ONCE(t, filled_by_now(region[i].buf.mem, BIG, 2 - i));
}

TEST(fi_rma, send_after_write, EP_RELIABLE, FI_RMA | FI_MSG, "With FI_ORDER_SAW a message tells that the writes before it are there")
{
	struct region target;

	need_order(t, FI_ORDER_SAW);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, 1 << 20, 0), RW);
	for (unsigned i = 0; i < 30; i++) {
		size_t len = i % 3 ? 100 : 700000;
		struct buf out = new_buf(t, len, i + 1), in = new_buf(t, 8, 0);
		void *recv = post_recv(t, &t->b, in);

		POST(t, fi_write(t->a.ep, out.mem, len, out.desc, t->a.peer, target.at, target.key, new_ctx()));
		post_send(t, &t->a, new_buf(t, 8, 1));
		done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
		CHECK(holds(target.buf, len, i + 1));
	}
}

TEST(fi_rma, write_after_write, EP_RELIABLE, FI_RMA, "With FI_ORDER_WAW the last of several writes to a place is what stays")
{
	struct region target;

	need_order(t, FI_ORDER_WAW | FI_ORDER_RMA_WAW);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < 100; i++) {
		struct buf out = new_buf(t, i % 2 ? 3000 : 40000, i + 1);

		POST(t, fi_write(t->a.ep, out.mem, out.len, out.desc, t->a.peer, target.at, target.key, new_ctx()));
	}
	for (unsigned i = 0; i < 100; i++)
		wait_comp(t, t->a.txcq, NULL);
	flush(t, &target);
	CHECK(holds(target.buf, 3000, 100));
}

TEST(fi_rma, write_after_send, EP_RELIABLE, FI_RMA | FI_TAGGED, "With FI_ORDER_WAS a write tells that the messages before it are there: a peek finds them at once")
{
	struct region target;

	need_order(t, FI_ORDER_WAS);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < 20; i++) {
		struct buf out = new_buf(t, i % 2 ? 100 : 300000, i + 1);
		struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = i, .context = new_ctx() };
		struct fi_cq_tagged_entry comp;

		post_tsend(t, &t->a, out, i);
		POST(t, fi_writedata(t->a.ep, out.mem, 8, out.desc, DATA, t->a.peer, target.at, target.key, new_ctx()));
		wait_comp(t, t->b.rxcq, &comp);
		CHECK(comp.flags & FI_REMOTE_WRITE);
		OK(fi_trecvmsg(t->b.ep, &peek, FI_PEEK));
		CHECK_EQ(done(t, t->b.rxcq, peek.context, FI_TAGGED | FI_RECV).len, out.len);
	}
}

TEST(fi_rma, writedata_selective, EP_RELIABLE, FI_RMA, "The target's completion of a write with data is written where receive completions are selective, too")
{
	struct fi_cq_tagged_entry comp;
	struct buf out = new_buf(t, LEN, 1);
	struct region target;

	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	POST(t, fi_writedata(t->a.ep, out.mem, LEN, out.desc, DATA, t->a.peer, target.at, target.key, new_ctx()));
	wait_comp(t, t->b.rxcq, &comp);
	CHECK_EQ(kind_flags(comp.flags), FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
}

TEST(fi_rma, target_without, EP_RDM, FI_MSG, "An endpoint without FI_RMA is no target: a write to it with a valid key ends in error and writes nothing")
{
	struct fi_info *plain = fi_dupinfo(t->info), *rma;
	struct fi_cq_err_entry err = { 0 };
	struct buf out = new_buf(t, LEN, 1);
	struct region target;

	keep_info(t, plain);
	if (plain->caps & FI_RMA)
		SKIP("FI_RMA comes unasked");
	if (is_layered(t))
		SKIP("the provider below is a target for large messages");
	t->hints->caps = FI_MSG | FI_RMA;
	env_info(t);
	rma = t->info;
	open_bound_ep(t, &t->a);
	t->info = plain;
	open_bound_ep(t, &t->b);
	t->info = rma;
	OK(fi_enable(t->a.ep));
	OK(fi_enable(t->b.ep));
	t->b.namelen = sizeof(t->b.name);
	OK(fi_getname(&t->b.ep->fid, t->b.name, &t->b.namelen));
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	struct iovec iov = { out.mem, LEN };
	struct fi_rma_iov remote = { target.at, LEN, target.key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.op_context == msg.context);
	CHECK(untouched(target.buf, 0));
}

TEST(fi_rma, delivery_complete, EP_RELIABLE, FI_RMA, "A write with FI_DELIVERY_COMPLETE is in the target's memory when it completes")
{
	struct region target;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, 4 << 20, 0), RW);
	for (unsigned i = 0; i < 8; i++) {
		struct buf out = new_buf(t, i % 2 ? LEN : 3 << 20, i + 1);
		struct fi_rma_iov remote = { target.at + i, out.len, target.key };
		struct iovec iov = { out.mem, out.len };
		struct fi_msg_rma msg = {
			.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
			.rma_iov_count = 1, .context = new_ctx(),
		};

		POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
		done(t, t->a.txcq, msg.context, WROTE);
		CHECK(holds(part(target.buf, i, out.len), out.len, i + 1));
	}
}

TEST(fi_rma, commit_complete, EP_RELIABLE, FI_RMA | FI_RMA_PMEM, "A write with FI_COMMIT_COMPLETE completes, and is in the target's memory")
{
	struct region target;
	struct buf out = new_buf(t, LEN, 1);

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	struct fi_rma_iov remote = { target.at, LEN, target.key };
	struct iovec iov = { out.mem, LEN };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	POST(t, fi_writemsg(t->a.ep, &msg, FI_COMMIT_COMPLETE));
	done(t, t->a.txcq, msg.context, WROTE);
	CHECK(holds(target.buf, LEN, 1));
}

TEST(fi_rma, selective, EP_RELIABLE, FI_RMA, "Bound with FI_SELECTIVE_COMPLETION, RMA completes only if it carries FI_COMPLETION")
{
	struct region target;
	struct buf out = new_buf(t, LEN, 1), in = new_buf(t, LEN, 0);

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	struct fi_rma_iov remote = { target.at, LEN, target.key };
	struct iovec iov = { out.mem, LEN };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.at, target.key, NULL));
	POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, target.at, target.key, NULL));
	POST(t, fi_writemsg(t->a.ep, &msg, 0));
	POST(t, fi_writemsg(t->a.ep, &msg, FI_COMPLETION));
	done(t, t->a.txcq, msg.context, WROTE);
	msg.context = new_ctx();
	msg.msg_iov = &(struct iovec){ in.mem, LEN };
	msg.desc = &in.desc;
	POST(t, fi_readmsg(t->a.ep, &msg, FI_COMPLETION));
	done(t, t->a.txcq, msg.context, READ);
	CHECK(holds(in, LEN, 1));
	nothing(t->a.txcq);
}

TEST(fi_rma, to_self, EP_RDM, FI_RMA, "An endpoint can write to and read from itself")
{
	struct side self = { 0 };
	fi_addr_t me = 0;
	struct buf out = new_buf(t, ROOM, 1), in = new_buf(t, ROOM, 0);
	struct region target;
	void *ctx = new_ctx();

	open_group(t, &self, 1, &me);
	target = new_region(t, &self, new_buf(t, ROOM, 0), RW);
	POST(t, fi_write(self.ep, out.mem, ROOM, out.desc, me, target.at, target.key, ctx));
	done(t, self.txcq, ctx, WROTE);
	POST(t, fi_read(self.ep, in.mem, ROOM, in.desc, me, target.at, target.key, ctx));
	done(t, self.txcq, ctx, READ);
	if (t->info->tx_attr->msg_order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW))
		CHECK(holds(in, ROOM, 1));
}

TEST(fi_rma, limits, EP_RELIABLE | OURS_ONLY, FI_RMA, "More buffers or remote pieces than the limits: -FI_EINVAL; more than inject_size injected is refused")
{
	struct region target;
	struct buf out = new_buf(t, 4096, 1);
	struct iovec iov[MAX_IOV];
	struct fi_rma_iov remote[MAX_IOV];
	void *desc[MAX_IOV];
	size_t iovs = t->info->tx_attr->iov_limit + 1, remotes = t->info->tx_attr->rma_iov_limit + 1;

	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
	for (unsigned i = 0; i < MAX_IOV; i++) {
		iov[i] = (struct iovec){ out.mem + i, 1 };
		desc[i] = out.desc;
		remote[i] = (struct fi_rma_iov){ target.at + i, 1, target.key };
	}
	struct fi_msg_rma msg = {
		.msg_iov = iov, .desc = desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = remote,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	POST(t, fi_writemsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, msg.context, WROTE);
	CHECK_RC(fi_writev(t->a.ep, iov, desc, iovs, t->a.peer, target.at, target.key, NULL), -FI_EINVAL);
	CHECK_RC(fi_readv(t->a.ep, iov, desc, iovs, t->a.peer, target.at, target.key, NULL), -FI_EINVAL);
	msg.iov_count = iovs;
	CHECK_RC(fi_writemsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_readmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.iov_count = 1;
	msg.rma_iov_count = remotes;
	CHECK_RC(fi_writemsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_readmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	// Entries of shm with FI_HMEM say 0, and take more.
	if (!on_device() || t->info->tx_attr->inject_size)
		CHECK_RC2(fi_inject_write(t->a.ep, out.mem, t->info->tx_attr->inject_size + 1, t->a.peer, target.at, target.key),
		  -FI_EMSGSIZE, -FI_EINVAL);
	msg.rma_iov_count = 1;
	POST(t, fi_writemsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, msg.context, WROTE);
}

TEST(fi_rma, read_with_inject_by_default, EP_RELIABLE, FI_RMA, "A read whose endpoint has FI_INJECT as a default flag fills its buffer, the first one to a peer too")
{
	struct region target;
	struct buf in = new_buf(t, LEN, 0);

	PAIR(t, .tx_op_flags = FI_INJECT);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_READ);
	for (unsigned seed = 1; seed < 4; seed++) {
		void *ctx = new_ctx();

		fill(target.buf.mem, LEN, seed);
		POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, target.at, target.key, ctx));
		done(t, t->a.txcq, ctx, READ);
		CHECK(holds(in, LEN, seed));
	}
}
