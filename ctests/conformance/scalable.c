// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), scalable endpoints: several transmit and receive contexts at one address.
#include "transfer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 64, LEN = 64, LARGE = 300000, BITS = 6 };

struct sep {
	struct fid_ep *ep, *tx[MOST], *rx[MOST];
	struct fid_cq *txcq[MOST], *rxcq[MOST];
	struct fid_av *av;
	fi_addr_t peer;
};

static struct sep x, y;

// Requests `count` contexts of each kind; skips if there are none.
static void ask(struct env *t, unsigned count)
{
	t->hints->caps |= FI_NAMED_RX_CTX;
	t->hints->ep_attr->tx_ctx_cnt = t->hints->ep_attr->rx_ctx_cnt = count;
	if (env_try_info(t) || !t->info)
		SKIP("not offered");
	open_domain(t);
}

static struct fid_av *open_wide_av(struct env *t)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = BITS };
	struct fid_av *av = NULL;

	OK(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	return av;
}

static struct fid_ep *open_bare(struct env *t)
{
	struct fid_ep *sep = NULL;

	OK(fi_scalable_ep(t->domain, t->info, &sep, t));
	keep(t, &sep->fid);
	return sep;
}

static struct fid_ep *open_tx(struct env *t, struct fid_ep *sep, int index)
{
	struct fid_ep *ctx = NULL;

	OK(fi_tx_context(sep, index, NULL, &ctx, NULL));
	keep(t, &ctx->fid);
	return ctx;
}

static struct fid_ep *open_rx(struct env *t, struct fid_ep *sep, int index)
{
	struct fid_ep *ctx = NULL;

	OK(fi_rx_context(sep, index, NULL, &ctx, NULL));
	keep(t, &ctx->fid);
	return ctx;
}

static void ready_tx(struct env *t, struct sep *at, unsigned i)
{
	at->tx[i] = open_tx(t, at->ep, i);
	OK(fi_ep_bind(at->tx[i], &at->txcq[i]->fid, FI_TRANSMIT));
	OK(fi_enable(at->tx[i]));
}

static void ready_rx(struct env *t, struct sep *at, unsigned i)
{
	at->rx[i] = open_rx(t, at->ep, i);
	OK(fi_ep_bind(at->rx[i], &at->rxcq[i]->fid, FI_RECV));
	OK(fi_enable(at->rx[i]));
}

static void open_sep(struct env *t, struct sep *at, unsigned count)
{
	at->av = open_wide_av(t);
	for (unsigned i = 0; i < count; i++) {
		at->txcq[i] = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
		at->rxcq[i] = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	}
	at->ep = open_bare(t);
	OK(fi_scalable_ep_bind(at->ep, &at->av->fid, 0));
	for (unsigned i = 0; i < count; i++) {
		ready_tx(t, at, i);
		ready_rx(t, at, i);
	}
	OK(fi_enable(at->ep));
}

static fi_addr_t insert(struct fid_av *av, struct fid_ep *ep)
{
	char name[ADDR_ROOM];
	size_t len = sizeof(name);
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	OK(fi_getname(&ep->fid, name, &len));
	CHECK_EQ(fi_av_insert(av, name, 1, &addr, 0, NULL), 1);
	return addr;
}

static void open_both(struct env *t, unsigned count)
{
	ask(t, count);
	open_sep(t, &x, count);
	open_sep(t, &y, count);
	x.peer = insert(x.av, y.ep);
	y.peer = insert(y.av, x.ep);
}

static struct op to(enum form form, bool tagged, struct buf buf, fi_addr_t addr, unsigned context)
{
	return op_of(form, tagged, buf, fi_rx_addr(addr, context, BITS));
}

BOTH(scalable_contexts, EP_RDM, 0, "A message for fi_rx_addr(address, i) goes to receive context i, whichever transmit context sends it, and completes at the queues of those two")
{
	enum { COUNT = 4 };

	open_both(t, COUNT);
	for (unsigned from = 0; from < COUNT; from++)
		for (unsigned at = COUNT; at-- > 0;) {
			struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1 + from * COUNT + at);
			struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
			struct op send = to(SEND, tagged, out, x.peer, at);

			op_post(t, y.rx[at], &recv);
			op_post(t, x.tx[from], &send);
			done(t, x.txcq[from], send.ctx, SENT(tagged));
			done(t, y.rxcq[at], recv.ctx, RECEIVED(tagged));
			CHECK(holds(in, LEN, 1 + from * COUNT + at));
		}
	for (unsigned i = 0; i < COUNT; i++) {
		nothing(x.txcq[i]);
		nothing(x.rxcq[i]);
		nothing(y.txcq[i]);
		nothing(y.rxcq[i]);
	}
}

BOTH(scalable_sizes, EP_RDM, 0, "Messages of any size, with or without data, reach the receive context that they name, before their receive or after it")
{
	static const size_t sizes[] = { 0, 1, 500, 5000, 70000, LARGE };

	open_both(t, 3);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned late = 0; late < 2; late++) {
			unsigned at = 1 + i % 2;
			struct buf in = new_buf(t, sizes[i], 0), out = new_buf(t, sizes[i], 9 + i);
			struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
			struct op send = to(SENDDATA, tagged, out, x.peer, at);
			struct fi_cq_tagged_entry entry;

			if (!late)
				op_post(t, y.rx[at], &recv);
			op_post(t, x.tx[0], &send);
			if (late) {
				turn(t);
				op_post(t, y.rx[at], &recv);
			}
			entry = done(t, y.rxcq[at], recv.ctx, RECEIVED(tagged) | FI_REMOTE_CQ_DATA);
			CHECK_EQ(entry.data, DATA);
			CHECK_EQ(entry.len, sizes[i]);
			CHECK(holds(in, sizes[i], 9 + i));
			done(t, x.txcq[0], send.ctx, SENT(tagged));
		}
}

TEST(fi_endpoint, scalable_rendezvous, EP_AV, FI_TAGGED, "A tagged message that stays with its sender until a receive matches reaches the context that it names; it can ask for delivery")
{
	struct buf in = { 0 }, out = { 0 };

	open_both(t, 3);
	in = new_buf(t, LARGE * 10, 0);
	out = new_buf(t, LARGE * 10, 5);
	struct op recv = op_of(RECV, true, in, FI_ADDR_UNSPEC), send = to(SENDMSG, true, out, x.peer, 2);

	send.flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
	op_post(t, x.tx[1], &send);
	turn(t);
	op_post(t, y.rx[2], &recv);
	done(t, y.rxcq[2], recv.ctx, RECEIVED(true));
	done(t, x.txcq[1], send.ctx, SENT(true));
	CHECK(holds(in, LARGE * 10, 5));
}

TEST(fi_endpoint, scalable_all, EP_AV, FI_MSG, "As many contexts as the domain has for one endpoint can be opened, each of them works")
{
	struct op recv, send;
	unsigned count;

	ask(t, 2);
	count = t->info->domain_attr->max_ep_tx_ctx;
	CHECK(count >= 2);
	if (count > MOST)
		count = MOST;
	t->info->ep_attr->tx_ctx_cnt = t->info->ep_attr->rx_ctx_cnt = count;
	open_sep(t, &x, count);
	x.peer = insert(x.av, x.ep); // to itself
	for (unsigned i = 0; i < count; i++) {
		struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1 + i);

		recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
		send = to(SEND, false, out, x.peer, count - 1 - i);
		op_post(t, x.rx[count - 1 - i], &recv);
		op_post(t, x.tx[i], &send);
		done(t, x.txcq[i], send.ctx, FI_MSG | FI_SEND);
		done(t, x.rxcq[count - 1 - i], recv.ctx, FI_MSG | FI_RECV);
		CHECK(holds(in, LEN, 1 + i));
	}
}

TEST(fi_endpoint, scalable_counts, EP_AV, FI_MSG, "More contexts than the domain has for one endpoint are refused, by fi_getinfo and by fi_scalable_ep; so is a context beyond those of the endpoint")
{
	struct fid_ep *sep = NULL, *ctx = NULL;
	size_t most;

	ask(t, 3);
	CHECK(t->info->ep_attr->tx_ctx_cnt == 3 && t->info->ep_attr->rx_ctx_cnt == 3);
	sep = open_bare(t);
	for (int i = -1; i <= 3; i += 4) {
		CHECK_RC(fi_tx_context(sep, i, NULL, &ctx, NULL), -FI_EINVAL);
		CHECK_RC(fi_rx_context(sep, i, NULL, &ctx, NULL), -FI_EINVAL);
	}
	most = t->info->domain_attr->max_ep_rx_ctx;
	t->info->ep_attr->rx_ctx_cnt = most + 1;
	CHECK_RC(fi_scalable_ep(t->domain, t->info, &sep, NULL), -FI_EINVAL);
	t->hints->ep_attr->rx_ctx_cnt = most + 1;
	CHECK_RC(env_try_info(t), -FI_ENODATA);
}

TEST(fi_endpoint, scalable_classes, EP_AV, FI_MSG, "A scalable endpoint and its contexts have classes and contexts of their own")
{
	struct fid_ep *sep, *tx = NULL, *rx = NULL;
	int tag_tx, tag_rx;

	ask(t, 2);
	sep = open_bare(t);
	CHECK_EQ(sep->fid.fclass, FI_CLASS_SEP);
	CHECK(sep->fid.context == t);
	OK(fi_tx_context(sep, 1, NULL, &tx, &tag_tx));
	keep(t, &tx->fid);
	OK(fi_rx_context(sep, 1, NULL, &rx, &tag_rx));
	keep(t, &rx->fid);
	CHECK_EQ(tx->fid.fclass, FI_CLASS_TX_CTX);
	CHECK_EQ(rx->fid.fclass, FI_CLASS_RX_CTX);
	CHECK(tx->fid.context == &tag_tx && rx->fid.context == &tag_rx);
}

TEST(fi_endpoint, scalable_not_for_data, EP_RDM, FI_MSG | FI_RMA, "A scalable endpoint itself transfers nothing; a transmit context receives nothing, a receive context sends nothing")
{
	struct buf buf = { 0 };

	open_both(t, 2);
	buf = new_buf(t, LEN, 1);
	CHECK_RC(fi_send(x.ep, buf.mem, LEN, buf.desc, x.peer, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_recv(x.ep, buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_recv(x.tx[1], buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_send(x.rx[1], buf.mem, LEN, buf.desc, x.peer, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_write(x.rx[1], buf.mem, LEN, buf.desc, x.peer, 0, 0, new_ctx()), -FI_ENOSYS);
}

TEST(fi_endpoint, scalable_close_order, EP_AV, FI_MSG, "A scalable endpoint with open contexts cannot be closed: -FI_EBUSY; nor can its address vector or their queues")
{
	open_both(t, 2);
	CHECK_RC(fi_close(&x.ep->fid), -FI_EBUSY);
	CHECK_RC(fi_close(&x.av->fid), -FI_EBUSY);
	CHECK_RC(fi_close(&x.txcq[0]->fid), -FI_EBUSY);
	CHECK_RC(fi_close(&x.rxcq[1]->fid), -FI_EBUSY);
	for (unsigned i = 0; i < 2; i++) {
		shut(t, &x.tx[i]->fid);
		CHECK_RC(fi_close(&x.ep->fid), -FI_EBUSY);
		shut(t, &x.rx[i]->fid);
	}
	shut(t, &x.ep->fid);
	shut(t, &x.av->fid);
	shut(t, &x.txcq[0]->fid);
}

TEST(fi_endpoint, scalable_enable, EP_AV, FI_MSG, "A context needs a queue and the endpoint an address vector before it is enabled: -FI_ENOCQ, -FI_ENOAV; before that it transfers nothing: -FI_EOPBADSTATE")
{
	struct fid_cq *cq;
	struct fid_ep *sep, *tx, *rx;
	struct fid_cntr *cntr;
	struct fid_av *av;
	struct buf buf;

	ask(t, 2);
	cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cntr = open_cntr(t, FI_WAIT_NONE);
	av = open_wide_av(t);
	buf = new_buf(t, LEN, 1);
	sep = open_bare(t);
	tx = open_tx(t, sep, 0);
	rx = open_rx(t, sep, 0);
	CHECK_RC(fi_enable(sep), -FI_ENOAV);
	OK(fi_ep_bind(tx, &cntr->fid, FI_SEND)); // a counter is no queue
	OK(fi_ep_bind(rx, &cntr->fid, FI_RECV));
	CHECK_RC(fi_enable(tx), -FI_ENOCQ);
	CHECK_RC(fi_enable(rx), -FI_ENOCQ);
	OK(fi_ep_bind(tx, &cq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(rx, &cq->fid, FI_RECV));
	CHECK_RC(fi_enable(tx), -FI_ENOAV);
	CHECK_RC(fi_enable(rx), -FI_ENOAV);
	OK(fi_scalable_ep_bind(sep, &av->fid, 0));
	CHECK_RC(fi_send(tx, buf.mem, LEN, buf.desc, 0, new_ctx()), -FI_EOPBADSTATE);
	CHECK_RC(fi_recv(rx, buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, new_ctx()), -FI_EOPBADSTATE);
	OK(fi_enable(tx));
	OK(fi_enable(rx));
	CHECK_RC(fi_enable(tx), -FI_EOPBADSTATE);
	OK(fi_enable(sep));
}

TEST(fi_endpoint, scalable_bind, EP_AV, FI_MSG, "A context is bound to queues and counters of what it does; the address vector comes from the endpoint")
{
	struct fid_ep *sep, *tx, *rx;
	struct fid_cntr *cntr;
	struct fid_av *av;
	struct fid_cq *cq;

	ask(t, 2);
	cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cntr = open_cntr(t, FI_WAIT_NONE);
	av = open_wide_av(t);
	sep = open_bare(t);
	tx = open_tx(t, sep, 1);
	rx = open_rx(t, sep, 1);
	CHECK_RC(fi_ep_bind(tx, &cq->fid, FI_RECV), -FI_EINVAL);
	CHECK_RC(fi_ep_bind(rx, &cq->fid, FI_TRANSMIT), -FI_EINVAL);
	CHECK_RC(fi_ep_bind(tx, &cntr->fid, FI_RECV), -FI_EINVAL);
	CHECK_RC(fi_ep_bind(rx, &cntr->fid, FI_SEND), -FI_EINVAL);
	CHECK_RC(fi_ep_bind(tx, &av->fid, 0), -FI_EINVAL);
	CHECK_RC(fi_ep_bind(rx, &av->fid, 0), -FI_EINVAL);
	CHECK_RC(fi_scalable_ep_bind(sep, &cq->fid, FI_TRANSMIT), -FI_EINVAL);
	OK(fi_scalable_ep_bind(sep, &av->fid, 0));
	CHECK_RC(fi_scalable_ep_bind(sep, &av->fid, 0), -FI_EINVAL);
	OK(fi_ep_bind(tx, &cntr->fid, FI_SEND));
	OK(fi_ep_bind(rx, &cntr->fid, FI_RECV));
	OK(fi_ep_bind(tx, &cq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(rx, &cq->fid, FI_RECV));
	OK(fi_enable(tx));
	OK(fi_enable(rx));
}

TEST(fi_endpoint, scalable_counters, EP_AV, FI_MSG, "Each context counts what goes through it, and nothing else")
{
	struct fid_cntr *sent[2], *received[2];

	open_both(t, 2);
	for (unsigned i = 0; i < 2; i++) {
		sent[i] = open_cntr(t, FI_WAIT_NONE);
		received[i] = open_cntr(t, FI_WAIT_NONE);
		shut(t, &x.tx[i]->fid);
		shut(t, &y.rx[i]->fid);
		x.tx[i] = open_tx(t, x.ep, i);
		y.rx[i] = open_rx(t, y.ep, i);
		OK(fi_ep_bind(x.tx[i], &sent[i]->fid, FI_SEND));
		OK(fi_ep_bind(y.rx[i], &received[i]->fid, FI_RECV));
		OK(fi_ep_bind(x.tx[i], &x.txcq[i]->fid, FI_TRANSMIT));
		OK(fi_ep_bind(y.rx[i], &y.rxcq[i]->fid, FI_RECV));
		OK(fi_enable(x.tx[i]));
		OK(fi_enable(y.rx[i]));
	}
	for (unsigned n = 0; n < 3; n++) {
		struct op recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		struct op send = to(SEND, false, new_buf(t, LEN, 1), x.peer, n == 2);

		op_post(t, y.rx[n == 2], &recv);
		op_post(t, x.tx[n > 0], &send);
	}
	ONCE(t, fi_cntr_read(received[0]) == 2 && fi_cntr_read(received[1]) == 1);
	CHECK_EQ(fi_cntr_read(sent[0]), 1);
	CHECK_EQ(fi_cntr_read(sent[1]), 2);
}

TEST(fi_endpoint, scalable_attributes, EP_AV, FI_MSG | FI_TAGGED, "A context may have less than its endpoint, not more, and tells the attributes that it has")
{
	struct fi_tx_attr tx_attr = { 0 };
	struct fi_rx_attr rx_attr = { 0 };
	struct fid_ep *sep, *tx = NULL, *rx = NULL;
	struct buf buf;

	ask(t, 2);
	sep = open_bare(t);
	buf = new_buf(t, LEN, 1);
	tx_attr.caps = FI_MSG | FI_SEND;
	tx_attr.inject_size = t->info->tx_attr->inject_size + 1;
	CHECK_RC(fi_tx_context(sep, 0, &tx_attr, &tx, NULL), -FI_EINVAL);
	tx_attr.inject_size = 8;
	OK(fi_tx_context(sep, 0, &tx_attr, &tx, NULL));
	keep(t, &tx->fid);
	CHECK_EQ(tx_attr.inject_size, 8);
	CHECK_EQ(tx_attr.size, t->info->tx_attr->size);
	CHECK_RC(fi_tsend(tx, buf.mem, LEN, buf.desc, 0, TAG, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_inject(tx, buf.mem, 9, 0), -FI_EINVAL);
	rx_attr.caps = FI_TAGGED | FI_RECV | FI_ATOMIC;
	CHECK_RC(fi_rx_context(sep, 0, &rx_attr, &rx, NULL), -FI_EINVAL);
	rx_attr.caps = FI_TAGGED | FI_RECV;
	OK(fi_rx_context(sep, 0, &rx_attr, &rx, NULL));
	keep(t, &rx->fid);
	CHECK_EQ(rx_attr.size, t->info->rx_attr->size);
	CHECK_RC(fi_recv(rx, buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, new_ctx()), -FI_ENOSYS);
}

TEST(fi_endpoint, scalable_default_flags, EP_AV, FI_MSG, "Each context has default operation flags of its own, which an alias of it overrides")
{
	struct fid_ep *alias = NULL;
	struct op send;
	uint64_t flags = FI_TRANSMIT;

	open_both(t, 2);
	OK(fi_control(&x.tx[0]->fid, FI_SETOPSFLAG, &(uint64_t){ FI_TRANSMIT | FI_DELIVERY_COMPLETE }));
	OK(fi_control(&x.tx[1]->fid, FI_GETOPSFLAG, &flags));
	CHECK(!(flags & FI_DELIVERY_COMPLETE));
	OK(fi_ep_alias(x.tx[1], &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE | FI_COMPLETION));
	CHECK_EQ(alias->fid.fclass, FI_CLASS_TX_CTX);
	CHECK_RC(fi_close(&x.tx[1]->fid), -FI_EBUSY);
	send = to(SEND, false, new_buf(t, LEN, 1), x.peer, 1);
	op_post(t, alias, &send);
	done(t, x.txcq[1], send.ctx, FI_MSG | FI_SEND);
	OK(fi_close(&alias->fid));
	shut(t, &x.tx[1]->fid);
}

TEST(fi_endpoint, scalable_cancel, EP_AV, FI_MSG, "A receive is cancelled at its own context only")
{
	struct op recv;

	open_both(t, 2);
	recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	op_post(t, x.rx[1], &recv);
	OK(fi_cancel(&x.rx[0]->fid, recv.ctx));
	OK(fi_cancel(&x.tx[1]->fid, recv.ctx));
	nothing(x.rxcq[1]);
	OK(fi_cancel(&x.rx[1]->fid, recv.ctx));
	failed(t, x.rxcq[1], recv.ctx, FI_ECANCELED);
	nothing(x.rxcq[0]);
}

// Waits for a completion, which may have been written before the context was closed.
static void completes(struct env *t, struct fid_cq *cq, void *ctx)
{
	struct fi_cq_tagged_entry entry = { 0 };

	while (entry.op_context != ctx)
		wait_comp(t, cq, &entry);
}

TEST(fi_endpoint, scalable_reopen, EP_AV, FI_MSG, "A context has one handle at a time; after it is closed, with operations outstanding, it can be opened again and works")
{
	struct fid_ep *again = NULL;
	struct buf big, lost;

	open_both(t, 2);
	CHECK(fi_tx_context(x.ep, 1, NULL, &again, NULL) < 0);
	CHECK(fi_rx_context(y.ep, 1, NULL, &again, NULL) < 0);
	big = new_buf(t, LARGE * 10, 3);
	lost = new_buf(t, LEN, 0);
	for (unsigned round = 0; round < 3; round++) {
		struct op unused = op_of(RECV, false, lost, FI_ADDR_UNSPEC);
		struct op send = to(SEND, false, big, x.peer, 1), recv;

		op_post(t, y.rx[1], &unused);
		shut(t, &y.rx[1]->fid);
		ready_rx(t, &y, 1);
		op_post(t, x.tx[1], &send);
		shut(t, &x.tx[1]->fid);
		ready_tx(t, &x, 1);
		recv = op_of(RECV, false, new_buf(t, LARGE * 10, 0), FI_ADDR_UNSPEC);
		op_post(t, y.rx[1], &recv);
		send = to(SEND, false, part(big, 0, LEN), x.peer, 0);
		op_post(t, x.tx[1], &send);
		recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		op_post(t, y.rx[0], &recv);
		done(t, y.rxcq[0], recv.ctx, FI_MSG | FI_RECV);
		completes(t, x.txcq[1], send.ctx);
	}
	CHECK(untouched(lost, 0));
}

TEST(fi_endpoint, scalable_close_receiving, EP_RDM, FI_MSG, "Nothing is written to a receive of a context that is closed, whatever of its message has come")
{
	size_t size = LARGE * 10;
	struct buf out = new_buf(t, size, 1);

	open_both(t, 2);
	for (unsigned round = 0; round < 12; round++) {
		struct buf in = new_buf(t, size, 0);
		struct op recv = op_of(RECV, false, in, FI_ADDR_UNSPEC), send = to(SEND, false, out, x.peer, 1);
		uint8_t *before = keep_mem(size);

		op_post(t, y.rx[1], &recv);
		op_post(t, x.tx[0], &send);
		for (unsigned i = 0; i < round / 2; i++) // the second receive matches the first message, which waits
			progress(t);
		shut(t, &y.rx[1]->fid);
		memcpy(before, in.mem, size);
		turn(t);
		CHECK(!memcmp(before, in.mem, size));
		ready_rx(t, &y, 1);
	}
}

TEST(fi_endpoint, scalable_sources, EP_AV, FI_MSG | FI_SOURCE, "The messages of all transmit contexts come from the one address of their endpoint, at every receive context")
{
	open_both(t, 2);
	for (unsigned i = 0; i < 4; i++) {
		struct op recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		struct op send = to(SEND, false, new_buf(t, LEN, 1), x.peer, i / 2);
		struct fi_cq_tagged_entry entry;
		fi_addr_t source = FI_ADDR_NOTAVAIL;

		op_post(t, y.rx[i / 2], &recv);
		op_post(t, x.tx[i % 2], &send);
		ONCE(t, fi_cq_readfrom(y.rxcq[i / 2], &entry, 1, &source) == 1);
		CHECK_EQ(source, y.peer);
	}
}

TEST(fi_endpoint, scalable_late_address, EP_AV, FI_MSG | FI_SOURCE | FI_DIRECTED_RECV, "A message that waits at a context gets its source when the sender's address is inserted")
{
	struct op recv, send;
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = FI_ADDR_NOTAVAIL;

	ask(t, 2);
	open_sep(t, &x, 2);
	open_sep(t, &y, 2);
	x.peer = insert(x.av, y.ep);
	send = to(SEND, false, new_buf(t, LEN, 1), x.peer, 1);
	op_post(t, x.tx[0], &send);
	done(t, x.txcq[0], send.ctx, FI_MSG | FI_SEND);
	turn(t);
	y.peer = insert(y.av, x.ep);
	recv = op_of(RECV, false, new_buf(t, LEN, 0), y.peer);
	op_post(t, y.rx[1], &recv);
	ONCE(t, fi_cq_readfrom(y.rxcq[1], &entry, 1, &source) == 1);
	CHECK_EQ(source, y.peer);
}

BOTH(scalable_directed, EP_RDM, FI_SOURCE | FI_DIRECTED_RECV, "A directed receive may name its sender with a context, fi_rx_addr(address, i): it takes messages of that sender only")
{
	struct fi_cq_tagged_entry entry;

	open_both(t, 2);
	for (unsigned i = 0; i < 4; i++) {
		bool late = i / 2;
		fi_addr_t source = FI_ADDR_NOTAVAIL;
		struct op recv = to(RECV, tagged, new_buf(t, LEN, 0), y.peer, i % 2);
		struct op send = to(SEND, tagged, new_buf(t, LEN, 1), x.peer, 1);

		if (!late)
			op_post(t, y.rx[1], &recv);
		op_post(t, x.tx[0], &send);
		done(t, x.txcq[0], send.ctx, SENT(tagged));
		if (late)
			turn(t);
		if (late)
			op_post(t, y.rx[1], &recv);
		ONCE(t, fi_cq_readfrom(y.rxcq[1], &entry, 1, &source) == 1);
		CHECK(entry.op_context == recv.ctx);
		CHECK_EQ(source, y.peer);
	}
	// A receive that names another address does not take messages of this one.
	struct op other = to(RECV, tagged, new_buf(t, LEN, 0), insert(y.av, y.ep), 1);
	struct op send = to(SEND, tagged, new_buf(t, LEN, 1), x.peer, 1);

	op_post(t, y.rx[1], &other);
	op_post(t, x.tx[0], &send);
	done(t, x.txcq[0], send.ctx, SENT(tagged));
	turn(t);
	nothing(y.rxcq[1]);
}

TEST(fi_endpoint, scalable_source_of_crossed, EP_RDM | OURS_ONLY, FI_MSG | FI_SOURCE, "At a receive context, too, a removed peer whose first message crossed ours does not carry the number of the next peer")
{
	struct op recv, send;
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = 12345;

	open_both(t, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct sep *from = i ? &y : &x, *at = i ? &x : &y;

		recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		send = to(SEND, false, new_buf(t, LEN, 1), from->peer, 1);
		OK(fi_recv(at->rx[1], recv.iov[0].iov_base, LEN, recv.desc[0], FI_ADDR_UNSPEC, recv.ctx));
		op_post(t, from->tx[0], &send);
	}
	wait_comp(t, x.rxcq[1], NULL);
	wait_comp(t, y.rxcq[1], NULL);
	OK(fi_av_remove(y.av, &y.peer, 1, 0));
	CHECK_EQ(insert(y.av, y.ep), y.peer);
	recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	send = to(SEND, false, new_buf(t, LEN, 1), x.peer, 1);
	op_post(t, y.rx[1], &recv);
	op_post(t, x.tx[0], &send);
	ONCE(t, fi_cq_readfrom(y.rxcq[1], &entry, 1, &source) == 1);
	CHECK(source == FI_ADDR_NOTAVAIL);
}

TEST(fi_endpoint, scalable_rma, EP_RDM, FI_MSG | FI_RMA, "Every transmit context reads and writes the peer's memory and completes at its own queue; data comes to the peer's first receive context")
{
	struct buf here, there;
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	void *ctx;

	open_both(t, 3);
	here = new_buf(t, LARGE, 7);
	there = new_buf(t, LARGE, 0);
	mr = reg(t, there.mem, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	if (t->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &y.rx[0]->fid, 0));
		OK(fi_mr_enable(mr));
	}
	uint64_t at = rma_addr(t, there.mem, 0), key = fi_mr_key(mr);
	for (unsigned i = 0; i < 3; i++) {
		fi_addr_t peer = fi_rx_addr(x.peer, i, BITS);
		size_t len = i == 1 ? LARGE : LEN;

		ctx = new_ctx();
		POST(t, fi_write(x.tx[i], here.mem, len, here.desc, peer, at, key, ctx));
		done(t, x.txcq[i], ctx, FI_RMA | FI_WRITE);
		ctx = new_ctx();
		struct buf back = new_buf(t, len, 0);
		POST(t, fi_read(x.tx[i], back.mem, len, back.desc, peer, at, key, ctx));
		done(t, x.txcq[i], ctx, FI_RMA | FI_READ);
		CHECK(holds(back, len, 7));
	}
	ctx = new_ctx();
	POST(t, fi_writedata(x.tx[2], here.mem, LEN, here.desc, DATA, fi_rx_addr(x.peer, 0, BITS), at, key, ctx));
	wait_comp(t, y.rxcq[0], &entry);
	CHECK_EQ(entry.data, DATA);
	CHECK_EQ(kind_flags(entry.flags), FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
}

TEST(fi_endpoint, scalable_plain_peer, EP_AV, FI_MSG, "An ordinary endpoint and the first contexts of a scalable one talk to each other; with fi_rx_addr it reaches the others")
{
	struct op recv, send;
	struct side plain = { 0 };
	fi_addr_t back;

	ask(t, 2);
	open_sep(t, &x, 2);
	plain.info = t->info;
	plain.txcq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	plain.av = open_wide_av(t);
	plain.ep = open_ep(t, t->info);
	OK(fi_ep_bind(plain.ep, &plain.txcq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(plain.ep, &plain.av->fid, 0));
	OK(fi_enable(plain.ep));
	plain.peer = insert(plain.av, x.ep);
	back = insert(x.av, plain.ep);
	for (unsigned i = 0; i < 2; i++) {
		recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		send = to(SEND, false, new_buf(t, LEN, 3), plain.peer, i);
		op_post(t, x.rx[i], &recv);
		op_post(t, plain.ep, &send);
		done(t, plain.txcq, send.ctx, FI_MSG | FI_SEND);
		done(t, x.rxcq[i], recv.ctx, FI_MSG | FI_RECV);
		recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		send = op_of(SEND, false, new_buf(t, LEN, 3), back);
		op_post(t, plain.ep, &recv);
		op_post(t, x.tx[i], &send);
		done(t, plain.txcq, recv.ctx, FI_MSG | FI_RECV);
		done(t, x.txcq[i], send.ctx, FI_MSG | FI_SEND);
	}
}

TEST(fi_endpoint, scalable_address_bits, EP_AV, FI_MSG, "A destination names a context that there can be, of an address that is there: -FI_EINVAL; an address vector takes a sensible number of bits")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct fid_av *av = NULL;
	struct buf buf;

	open_both(t, 2);
	buf = new_buf(t, LEN, 1);
	CHECK_RC(fi_send(x.tx[0], buf.mem, LEN, buf.desc, fi_rx_addr(99, 1, BITS), new_ctx()), -FI_EINVAL);
	CHECK_RC(fi_send(x.tx[0], buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, new_ctx()), -FI_EINVAL);
	attr.rx_ctx_bits = -1;
	CHECK_RC(fi_av_open(t->domain, &attr, &av, NULL), -FI_EINVAL);
	attr.rx_ctx_bits = 64;
	CHECK_RC(fi_av_open(t->domain, &attr, &av, NULL), -FI_EINVAL);
}

TEST(fi_endpoint, scalable_missing_context, EP_AV | OURS_ONLY, FI_MSG, "A message for a context that the peer's endpoint does not have ends the connection; both ends go on")
{
	struct op recv, send;

	open_both(t, 2);
	send = to(SEND, false, new_buf(t, LEN, 1), x.peer, 5);
	op_post(t, x.tx[0], &send);
	done(t, x.txcq[0], send.ctx, FI_MSG | FI_SEND);
	turn(t);
	recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	send = to(SEND, false, new_buf(t, LEN, 1), x.peer, 1);
	op_post(t, y.rx[1], &recv);
	op_post(t, x.tx[1], &send);
	done(t, y.rxcq[1], recv.ctx, FI_MSG | FI_RECV);
}

// ---- Threads

enum { WORKERS = 4, MESSAGES = 300 };

struct worker {
	struct env *t;
	unsigned index;
	pthread_t thread;
	struct fi_context2 tx, rx;
	char in[LEN], out[LEN];
};

// Waits for one completion of a queue. The peer's queue may have to be read to make progress.
static void await_one(struct worker *w, struct fid_cq *cq, void *ctx)
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc = -FI_EAGAIN;

	for (uint64_t limit = now_ms() + w->t->limit_ms; rc == -FI_EAGAIN; rc = fi_cq_read(cq, &entry, 1))
		CHECK(now_ms() < limit);
	CHECK_RC(rc, 1);
	CHECK(entry.op_context == ctx);
}

// Sends messages from a transmit context of x to a receive context of y. Both are reopened every few messages.
static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned i = w->index;
	fi_addr_t peer = fi_rx_addr(x.peer, i, BITS);

	for (unsigned n = 0; n < MESSAGES; n++) {
		ssize_t rc = -FI_EAGAIN;

		fill(w->out, LEN, n * WORKERS + i);
		OK(fi_recv(y.rx[i], w->in, LEN, NULL, FI_ADDR_UNSPEC, &w->rx));
		for (uint64_t limit = now_ms() + w->t->limit_ms; rc == -FI_EAGAIN;) {
			CHECK(now_ms() < limit);
			rc = fi_send(x.tx[i], w->out, LEN, NULL, peer, &w->tx);
		}
		OK(rc);
		await_one(w, x.txcq[i], &w->tx);
		await_one(w, y.rxcq[i], &w->rx);
		CHECK(filled(w->in, LEN, n * WORKERS + i));
		if (n % 50 != 49)
			continue;
		OK(fi_close(&x.tx[i]->fid));
		OK(fi_close(&y.rx[i]->fid));
		OK(fi_tx_context(x.ep, i, NULL, &x.tx[i], NULL));
		OK(fi_rx_context(y.ep, i, NULL, &y.rx[i], NULL));
		OK(fi_ep_bind(x.tx[i], &x.txcq[i]->fid, FI_TRANSMIT));
		OK(fi_ep_bind(y.rx[i], &y.rxcq[i]->fid, FI_RECV));
		OK(fi_enable(x.tx[i]));
		OK(fi_enable(y.rx[i]));
	}
	return NULL;
}

TEST(fi_endpoint, scalable_threads, EP_AV, FI_MSG, "Threads use contexts of one endpoint at the same time, and close and open them")
{
	static struct worker workers[WORKERS];

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	t->hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
	open_both(t, WORKERS);
	for (unsigned i = 0; i < WORKERS; i++) {
		forget(t, &x.tx[i]->fid);
		forget(t, &y.rx[i]->fid);
		workers[i].t = t;
		workers[i].index = i;
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (unsigned i = 0; i < WORKERS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	for (unsigned i = 0; i < WORKERS; i++) {
		OK(fi_close(&x.tx[i]->fid));
		OK(fi_close(&y.rx[i]->fid));
	}
}

TEST(fi_endpoint, scalable_multi_recv, EP_AV, FI_MSG | FI_MULTI_RECV, "A context has multi-receive buffers, and options of its own, which end with it")
{
	enum { EACH = 4 };
	struct buf in, out;
	size_t min = LEN, len = sizeof(min);
	struct fi_msg msg = { .addr = FI_ADDR_UNSPEC, .iov_count = 1 };
	struct iovec iov;

	open_both(t, 2);
	in = new_buf(t, EACH * LEN, 0);
	out = new_buf(t, LEN, 5);
	OK(fi_setopt(&y.rx[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	CHECK_RC(fi_setopt(&y.tx[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)), -FI_ENOPROTOOPT);
	OK(fi_getopt(&y.rx[0]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, &len));
	CHECK(min > LEN);
	iov = (struct iovec){ in.mem, in.len };
	msg.msg_iov = &iov;
	msg.desc = &in.desc;
	msg.context = new_ctx();
	POST(t, fi_recvmsg(y.rx[1], &msg, FI_MULTI_RECV));
	for (unsigned i = 0; i < EACH; i++) {
		struct op send = to(SEND, false, out, x.peer, 1);
		struct fi_cq_tagged_entry entry;

		op_post(t, x.tx[i % 2], &send);
		wait_comp(t, y.rxcq[1], &entry);
		CHECK(entry.op_context == msg.context);
		CHECK(entry.buf == in.mem + i * LEN);
		CHECK_EQ(!!(entry.flags & FI_MULTI_RECV), i == EACH - 1);
	}
	shut(t, &y.rx[1]->fid);
	y.rx[1] = open_rx(t, y.ep, 1);
	OK(fi_getopt(&y.rx[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, &len));
	CHECK(min > LEN);
}

TEST(fi_cm, scalable_name, EP_AV, FI_MSG, "A scalable endpoint has a name, which can be set until peers may know it; its contexts have none of their own")
{
	char name[ADDR_ROOM], other[ADDR_ROOM];
	size_t len = sizeof(name), otherlen = sizeof(other);
	struct fid_ep *sep, *ctx;
	struct fid_av *av;

	ask(t, 2);
	av = open_wide_av(t);
	sep = open_bare(t);
	ctx = open_tx(t, sep, 0);
	OK(fi_getname(&sep->fid, name, &len));
	CHECK_RC(fi_getname(&ctx->fid, other, &otherlen), -FI_ENOSYS);
	OK(fi_setname(&sep->fid, name, len));
	OK(fi_getname(&sep->fid, other, &otherlen));
	CHECK(otherlen == len && !memcmp(name, other, len));
	OK(fi_scalable_ep_bind(sep, &av->fid, 0));
	OK(fi_enable(sep));
	CHECK_RC(fi_setname(&sep->fid, name, len), -FI_EOPBADSTATE);
}

TEST(fi_getinfo, contexts_asked_for, EP_AV, FI_MSG, "FI_NAMED_RX_CTX and more contexts than one are there for who asks for them, and only then")
{
	CHECK(!(t->info->caps & FI_NAMED_RX_CTX));
	ask(t, 2);
	CHECK(t->info->caps & FI_NAMED_RX_CTX);
	CHECK(t->info->tx_attr->caps & FI_NAMED_RX_CTX);
	CHECK(t->info->domain_attr->max_ep_tx_ctx >= 2);
	CHECK(t->info->domain_attr->max_ep_rx_ctx >= 2);
}

// ---- Shared transmit contexts

static struct fid_stx *open_stx(struct env *t)
{
	struct fid_stx *stx = NULL;

	t->hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	if (env_try_info(t) || !t->info)
		SKIP("not offered");
	CHECK(t->info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT);
	CHECK(t->info->domain_attr->max_ep_stx_ctx > 0);
	open_domain(t);
	OK(fi_stx_context(t->domain, t->info->tx_attr, &stx, t));
	keep(t, &stx->fid);
	return stx;
}

TEST(fi_endpoint, stx_serves_every_endpoint, EP_RELIABLE, FI_MSG, "Endpoints that share a transmit context send as others do and report to their own queues")
{
	struct fid_stx *stx = open_stx(t);

	CHECK_EQ(stx->fid.fclass, FI_CLASS_STX_CTX);
	CHECK(stx->fid.context == t);
	PAIR(t, .stx = stx);
	round_trip(t);
}

TEST(fi_endpoint, stx_close_while_bound, EP_RELIABLE, FI_MSG, "A shared transmit context that an open endpoint is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_stx *stx = open_stx(t);

	PAIR(t, .stx = stx);
	CHECK_RC(fi_close(&stx->fid), -FI_EBUSY);
	pair_close(t);
	shut(t, &stx->fid);
}

TEST(fi_endpoint, stx_is_single, EP_RELIABLE, FI_MSG, "An endpoint is associated with a single shared transmit context, and only if it was opened for one")
{
	struct fid_stx *one = open_stx(t), *two = open_stx(t);
	struct fid_ep *ep = open_ep(t, t->info);

	OK(fi_ep_bind(ep, &one->fid, 0));
	CHECK(fi_ep_bind(ep, &two->fid, 0) < 0);
	t->info->ep_attr->tx_ctx_cnt = 1;
	ep = open_ep(t, t->info);
	CHECK_RC(fi_ep_bind(ep, &one->fid, 0), -FI_EINVAL);
}

TEST(fi_endpoint, stx_must_be_bound, EP_RELIABLE | OURS_ONLY, FI_MSG, "An endpoint that is to use a shared transmit context is not enabled without one: -FI_EOPBADSTATE")
{
	struct fid_stx *stx = open_stx(t);
	struct fid_ep *ep = open_bound_ep(t, &t->a);

	CHECK_RC(fi_enable(ep), -FI_EOPBADSTATE);
	OK(fi_ep_bind(ep, &stx->fid, 0));
	OK(fi_enable(ep));
}

TEST(fi_endpoint, stx_subset, EP_RELIABLE, FI_MSG, "An endpoint uses a subset of the attributes of the shared transmit context")
{
	struct fid_stx *small = NULL;
	struct fi_tx_attr attr;
	struct fid_ep *ep;

	open_stx(t);
	attr = *t->info->tx_attr;
	attr.inject_size = 1;
	OK(fi_stx_context(t->domain, &attr, &small, NULL));
	keep(t, &small->fid);
	ep = open_ep(t, t->info);
	CHECK_RC(fi_ep_bind(ep, &small->fid, 0), -FI_EINVAL);
	t->info->tx_attr->inject_size = 1;
	ep = open_ep(t, t->info);
	OK(fi_ep_bind(ep, &small->fid, 0));
}

TEST(fi_endpoint, stx_subset_of_orders, EP_RELIABLE, FI_MSG | FI_RMA, "An order of all accesses to memory includes that of each kind")
{
	struct fid_stx *stx = NULL;
	struct fi_tx_attr attr;
	struct fid_ep *ep;

	open_stx(t);
	attr = *t->info->tx_attr;
	attr.msg_order = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW;
	OK(fi_stx_context(t->domain, &attr, &stx, NULL));
	keep(t, &stx->fid);
	t->info->tx_attr->msg_order = FI_ORDER_RMA_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_WAW;
	ep = open_ep(t, t->info);
	OK(fi_ep_bind(ep, &stx->fid, 0));
	t->info->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RMA_RAR;
	ep = open_ep(t, t->info);
	CHECK_RC(fi_ep_bind(ep, &stx->fid, 0), -FI_EINVAL);
}

// Number of times that the words occur in the process's reports about itself.
static unsigned count_of(const char *text, const char *words)
{
	unsigned count = 0;

	for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
		count++;
	return count;
}

TEST(fi_endpoint, scalable_dump, CORE | OURS_ONLY, 0, "A dump shows a scalable endpoint once with its counters, and each context with its index")
{
	static char text[65536];
	char file[64], name[96];
	size_t len = 0;

	snprintf(file, sizeof(file), "/tmp/conformance-dump-%d", (int)getpid());
	snprintf(name, sizeof(name), "%s.%d.1.txt", file, (int)getpid());
	setenv("FI_DUMP_FILE", file, 1);
	setenv("FI_DUMP_ON_SIGNAL", "USR2", 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	open_both(t, 2);
	raise(SIGUSR2);
	for (uint64_t limit = now_ms() + t->limit_ms; count_of(text, "transmit context 1 of") < 2;) {
		FILE *in = fopen(name, "r");

		progress(t);
		len = in ? fread(text, 1, sizeof(text) - 1, in) : 0;
		text[len] = 0;
		if (in)
			fclose(in);
		if (now_ms() > limit)
			FAIL("no dump with all contexts in %s: %s", name, text);
	}
	unlink(name);
	snprintf(name, sizeof(name), "%s.%d.1.json", file, (int)getpid());
	ONCE(t, !unlink(name) || errno != ENOENT);
	CHECK_EQ(count_of(text, "  scalable endpoint "), 2);
	CHECK_EQ(count_of(text, "so far:"), 2);
	CHECK_EQ(count_of(text, "peers:"), 2);
	CHECK_EQ(count_of(text, "receive context 1 of"), 2);
	CHECK_EQ(count_of(text, "transmit context 0 of"), 2);
	CHECK_EQ(count_of(text, "not enabled"), 0);
}
