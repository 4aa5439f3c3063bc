// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), message and data ordering: operations after a read. rma_order.c tests orders that are always
//! present.
#include "transfer.h"

enum { BIG = 8 << 20, LEN = 64 };

#define READ (FI_RMA | FI_READ)
#define WROTE (FI_RMA | FI_WRITE)
#define AFTER_READS (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR | FI_ORDER_ATOMIC_WAR)

static void ask_order(struct env *t, uint64_t order)
{
	t->hints->tx_attr->msg_order = order;
	t->hints->rx_attr->msg_order = order;
	env_info(t);
	CHECK_EQ(t->info->tx_attr->msg_order & order, order);
	CHECK_EQ(t->info->rx_attr->msg_order & order, order);
}

// Reads a large range and writes to the same place right after it.
static void check_writes(struct env *t, size_t len)
{
	struct buf in[4];
	void *read_ctx[4], *write_ctx[4];
	struct region target;

	PAIR(t);
	CHECK_EQ(t->b.info->tx_attr->msg_order, t->a.info->tx_attr->msg_order);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 4; i++) {
		struct buf out = new_buf(t, len, i + 2);

		in[i] = new_buf(t, BIG, 0);
		read_ctx[i] = new_ctx();
		write_ctx[i] = new_ctx();
		POST(t, fi_read(t->a.ep, in[i].mem, BIG, in[i].desc, t->a.peer, target.at, target.key, read_ctx[i]));
		POST(t, fi_write(t->a.ep, out.mem, len, out.desc, t->a.peer, target.at, target.key, write_ctx[i]));
	}
	for (unsigned i = 0; i < 8; i++) // the order of completions is not defined
		wait_comp(t, t->a.txcq, NULL);
	for (unsigned i = 0; i < 4; i++) {
		CHECK(filled(in[i].mem, len, i + 1));
		CHECK(len == BIG || !memcmp(in[i].mem + len, target.buf.mem + len, BIG - len));
	}
}

TEST(fi_endpoint, write_after_read, EP_RELIABLE, FI_RMA, "FI_ORDER_WAR: a read does not see what a later write puts there")
{
	ask_order(t, FI_ORDER_WAR);
	CHECK(t->info->ep_attr->max_order_war_size >= t->info->ep_attr->max_msg_size);
	check_writes(t, BIG);
}

TEST(fi_endpoint, small_write_after_read, EP_RELIABLE, FI_RMA, "FI_ORDER_RMA_WAR: nor what a small write puts at its start")
{
	ask_order(t, FI_ORDER_RMA_WAR);
	check_writes(t, LEN);
}

TEST(fi_endpoint, atomic_after_read, EP_RELIABLE, FI_RMA | FI_ATOMIC, "FI_ORDER_WAR: nor what an atomic operation does")
{
	struct region target;
	struct buf in = new_buf(t, BIG, 0), out = new_buf(t, 8, 2);

	ask_order(t, FI_ORDER_WAR);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 2; i++) {
		POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, new_ctx()));
		POST(t, fi_atomic(t->a.ep, out.mem, 1, out.desc, t->a.peer, target.at + BIG - 8, target.key, FI_UINT64, FI_ATOMIC_WRITE,
				  new_ctx()));
		for (unsigned k = 0; k < 2; k++)
			wait_comp(t, t->a.txcq, NULL);
		CHECK(!memcmp(in.mem, target.buf.mem, BIG - 8));
		if (!i)
			CHECK(filled(in.mem, BIG, 1));
		else
			CHECK(filled(in.mem + BIG - 8, 8, 2));
		ONCE(t, filled_by_now(target.buf.mem + BIG - 8, 8, 2));
	}
}

BOTH(send_after_read, EP_RELIABLE, FI_RMA, "FI_ORDER_SAR: when the target has a send that was posted after a read, the read has its data")
{
	struct region target;
	struct buf in = new_buf(t, BIG, 0), note = new_buf(t, LEN, 0);
	struct op send, recv = op_of(RECV, tagged, note, FI_ADDR_UNSPEC);
	void *ctx = new_ctx();

	ask_order(t, FI_ORDER_SAR);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ);
	op_post(t, t->b.ep, &recv);
	POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, ctx));
	send = op_of(SEND, tagged, new_buf(t, LEN, 2), t->a.peer);
	op_post(t, t->a.ep, &send);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	fill(target.buf.mem, BIG, 9); // the target changes its memory
	for (unsigned i = 0; i < 2; i++)
		wait_comp(t, t->a.txcq, NULL);
	CHECK(filled(in.mem, BIG, 1));
}

TEST(fi_endpoint, all_orders, EP_RELIABLE, FI_MSG | FI_RMA, "All orders at once: many reads, writes and sends, of which each sees what came before it, and nothing that came after")
{
	enum { ROUNDS = 30, SIZE = 100000 };
	static const uint64_t all = AFTER_READS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS |
				    FI_ORDER_SAW | FI_ORDER_SAS;
	struct region target;
	struct buf in[ROUNDS];
	void *recv[ROUNDS];

	ask_order(t, all);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, SIZE, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < ROUNDS; i++)
		recv[i] = post_recv(t, &t->b, new_buf(t, LEN, 0));
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct buf out = new_buf(t, SIZE, i + 2);

		in[i] = new_buf(t, SIZE, 0);
		POST(t, fi_read(t->a.ep, in[i].mem, SIZE, in[i].desc, t->a.peer, target.at, target.key, new_ctx()));
		POST(t, fi_write(t->a.ep, out.mem, SIZE, out.desc, t->a.peer, target.at, target.key, new_ctx()));
		post_send(t, &t->a, new_buf(t, LEN, i + 1));
	}
	for (unsigned i = 0; i < ROUNDS; i++)
		done(t, t->b.rxcq, recv[i], FI_MSG | FI_RECV);
	for (unsigned i = 0; i < 3 * ROUNDS; i++)
		wait_comp(t, t->a.txcq, NULL);
	for (unsigned i = 0; i < ROUNDS; i++)
		CHECK(filled(in[i].mem, SIZE, i + 1));
	CHECK(filled(target.buf.mem, SIZE, ROUNDS + 1));
}

TEST(fi_endpoint, ordered_injects, EP_RELIABLE, FI_MSG | FI_RMA, "FI_ORDER_SAR: an injected message that waits for a read keeps what it was given")
{
	struct region target;
	struct buf in = new_buf(t, BIG, 0), note = new_buf(t, LEN, 0), out = new_buf(t, LEN, 2);
	struct op send, recv = op_of(RECV, false, note, FI_ADDR_UNSPEC);
	void *ctx = new_ctx();

	ask_order(t, FI_ORDER_SAR);
	if (t->info->tx_attr->inject_size < LEN)
		SKIP("inject_size is %zu", t->info->tx_attr->inject_size);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ);
	op_post(t, t->b.ep, &recv);
	POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, ctx));
	send = op_of(INJECT, false, out, t->a.peer);
	op_post(t, t->a.ep, &send);
	fill(out.mem, LEN, 7);
	done(t, t->b.rxcq, recv.ctx, FI_MSG | FI_RECV);
	CHECK(holds(note, LEN, 2));
	done(t, t->a.txcq, ctx, READ);
	CHECK(filled(in.mem, BIG, 1));
}

TEST(fi_getinfo, order_size_needs_order, EP_RELIABLE, FI_RMA, "max_order_war_size can be asked for where writes after reads are ordered, and is no promise where they are not")
{
	// With these providers the size is meaningless without the order and does not select an entry.
	bool apart = !strcmp(t->prov, "shm") || !strcmp(t->prov, "sm2");

	env_info(t);
	if (t->info->tx_attr->msg_order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR))
		SKIP("ordered for all");
	if (!apart)
		CHECK_EQ(t->info->ep_attr->max_order_war_size, 0);
	t->hints->ep_attr->max_order_war_size = 4096;
	CHECK_RC(env_try_info(t), apart ? 0 : -FI_ENODATA);
	t->hints->tx_attr->msg_order = FI_ORDER_WAR;
	env_info(t);
	CHECK(t->info->ep_attr->max_order_war_size >= 4096);
}

// Deprecated: programs of the 1.x API.

TEST(fi_endpoint, strict_completion_order, EP_RELIABLE | OURS_ONLY, FI_MSG | FI_RMA, "FI_ORDER_STRICT, which 1.x has for completions: operations complete in the order of their calls")
{
	enum { ROUNDS = 10 };
	struct region target;
	struct buf in = new_buf(t, BIG, 0);
	void *ctx[3 * ROUNDS], *recv[ROUNDS];
	unsigned next = 0;

	t->hints->tx_attr->comp_order = 511;
	CHECK_RC(env_try_info(t), -FI_ENODATA);
	t->hints->tx_attr->comp_order = 0;
	env_version(t, FI_VERSION(1, 20));
	t->hints->tx_attr->comp_order = 511;
	OK(env_try_info(t));
	CHECK_EQ(t->info->tx_attr->comp_order, 511);
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, BIG, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < ROUNDS; i++)
		recv[i] = post_recv(t, &t->b, new_buf(t, LEN, 0));
	for (unsigned i = 0; i < 3 * ROUNDS; i++) {
		struct buf out = new_buf(t, LEN, 2);
		ssize_t rc = -FI_EAGAIN;

		ctx[i] = new_ctx();
		while (rc == -FI_EAGAIN) {
			struct fi_cq_tagged_entry comp;

			if (i % 3 == 0)
				rc = fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, ctx[i]);
			else if (i % 3 == 1)
				rc = fi_write(t->a.ep, out.mem, LEN, out.desc, t->a.peer, target.at, target.key, ctx[i]);
			else
				rc = fi_send(t->a.ep, out.mem, LEN, out.desc, t->a.peer, ctx[i]);
			progress(t);
			while (fi_cq_read(t->a.txcq, &comp, 1) == 1)
				CHECK(comp.op_context == ctx[next++]);
		}
		OK(rc);
	}
	while (next < 3 * ROUNDS) {
		struct fi_cq_tagged_entry comp;

		wait_comp(t, t->a.txcq, &comp);
		CHECK(comp.op_context == ctx[next++]);
	}
	for (unsigned i = 0; i < ROUNDS; i++)
		done(t, t->b.rxcq, recv[i], FI_MSG | FI_RECV);
}

TEST(fi_domain, threading_of_1_x, EP_ANY | OURS_ONLY, FI_MSG, "FI_THREAD_FID and FI_THREAD_ENDPOINT are taken from programs of the 1.x API only")
{
	static const enum fi_threading levels[] = { 2, 5 }; // their names warn

	for (unsigned i = 0; i < 2; i++) {
		t->hints->domain_attr->threading = levels[i];
		CHECK_RC(env_try_info(t), -FI_ENODATA);
	}
	t->hints->domain_attr->threading = FI_THREAD_UNSPEC;
	env_version(t, FI_VERSION(1, 20));
	for (unsigned i = 0; i < 2; i++) {
		t->hints->domain_attr->threading = levels[i];
		OK(env_try_info(t));
		CHECK_EQ(t->info->domain_attr->threading, levels[i]);
	}
	PAIR(t);
	round_trip(t);
}
