// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two connected ends, by address or by connection; connections step by step.
#include "fixture.h"

static void open_queues(struct env *t, struct side *side, const struct pair_opt *opt)
{
	struct fi_cq_attr cq = opt->cq;
	struct fi_av_attr av = opt->av;

	if (cq.format == FI_CQ_FORMAT_UNSPEC)
		cq.format = FI_CQ_FORMAT_TAGGED;
	if (av.type == FI_AV_UNSPEC)
		av.type = FI_AV_TABLE;
	if (opt->same_cq && side == &t->b) {
		side->txcq = side->rxcq = t->a.txcq;
	} else {
		OK(fi_cq_open(t->domain, &cq, &side->txcq, side));
		keep(t, &side->txcq->fid);
		side->rxcq = side->txcq;
		if (!opt->one_cq && !opt->same_cq) {
			OK(fi_cq_open(t->domain, &cq, &side->rxcq, side));
			keep(t, &side->rxcq->fid);
		}
	}
	if (t->type != FI_EP_MSG && opt->srx && side == &t->b) {
		side->av = t->a.av; // fi_endpoint(3): endpoints that share a receive context share the address vector
	} else if (t->type != FI_EP_MSG) {
		OK(fi_av_open(t->domain, &av, &side->av, side));
		keep(t, &side->av->fid);
	} else if (!t->eq) {
		t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	}
	if (opt->cntr_flags && opt->same_cntr && side == &t->b) {
		side->cntr = t->a.cntr;
	} else if (opt->cntr_flags) {
		struct fi_cntr_attr cntr = opt->cntr;

		OK_OR_SKIP(fi_cntr_open(t->domain, &cntr, &side->cntr, side));
		keep(t, &side->cntr->fid);
	}
}

static void bind_all(struct env *t, struct side *side, const struct pair_opt *opt)
{
	if (opt->unbound_rxcq) {
		OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | opt->tx_flags));
	} else if (side->txcq == side->rxcq && opt->tx_flags == opt->rx_flags) {
		OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | FI_RECV | opt->tx_flags));
	} else {
		OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | opt->tx_flags));
		OK(fi_ep_bind(side->ep, &side->rxcq->fid, FI_RECV | opt->rx_flags));
	}
	if (side->cntr)
		OK(fi_ep_bind(side->ep, &side->cntr->fid, opt->cntr_flags));
	if (opt->srx)
		OK(fi_ep_bind(side->ep, &opt->srx->fid, 0));
	if (opt->stx)
		OK(fi_ep_bind(side->ep, &opt->stx->fid, 0));
	if (side->av)
		OK(fi_ep_bind(side->ep, &side->av->fid, 0));
	if (t->type == FI_EP_MSG)
		OK(fi_ep_bind(side->ep, &t->eq->fid, 0));
}

struct fid_ep *open_bound_ep(struct env *t, struct side *side)
{
	struct pair_opt opt = { 0 };

	open_domain(t);
	side->info = fi_dupinfo(t->info);
	keep_info(t, side->info);
	open_queues(t, side, &opt);
	side->ep = open_ep(t, side->info);
	bind_all(t, side, &opt);
	return side->ep;
}

// ---- The pair

static struct fi_info *side_info(struct env *t, const struct fi_info *from, const struct pair_opt *opt)
{
	struct fi_info *info = fi_dupinfo(from);

	keep_info(t, info);
	info->tx_attr->op_flags |= opt->tx_op_flags;
	info->rx_attr->op_flags |= opt->rx_op_flags;
	if (opt->tune)
		opt->tune(info);
	return info;
}

static void side_name(struct side *side)
{
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

static void pair_by_address(struct env *t)
{
	OK(fi_enable(t->a.ep));
	OK(fi_enable(t->b.ep));
	side_name(&t->a);
	side_name(&t->b);
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	CHECK_EQ(fi_av_insert(t->b.av, t->a.name, 1, &t->b.peer, 0, NULL), 1);
}

struct fid_pep *open_pep(struct env *t, struct fid_eq *eq)
{
	struct fid_pep *pep = NULL;

	open_fabric(t);
	OK(fi_passive_ep(t->fabric, t->info, &pep, t));
	keep(t, &pep->fid);
	OK(fi_pep_bind(pep, &eq->fid, 0));
	return pep;
}

void pep_address(struct fid_pep *pep, void *addr, size_t *len)
{
	OK(fi_getname(&pep->fid, addr, len));
}

static void pair_by_connection(struct env *t, const struct pair_opt *opt)
{
	struct fi_eq_cm_entry entry;
	char addr[256];
	size_t addrlen = sizeof(addr);

	t->pep = open_pep(t, t->eq);
	OK(fi_listen(t->pep));
	pep_address(t->pep, addr, &addrlen);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &entry, sizeof(entry));
	CHECK(entry.info);
	t->b.info = side_info(t, entry.info, opt);
	fi_freeinfo(entry.info);
	t->b.ep = open_ep(t, t->b.info);
	bind_all(t, &t->b, opt);
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	side_name(&t->a);
	side_name(&t->b);
	t->a.peer = t->b.peer = FI_ADDR_UNSPEC;
}

void pair_open(struct env *t, const struct pair_opt *opt)
{
	open_domain(t);
	open_queues(t, &t->a, opt);
	open_queues(t, &t->b, opt);
	t->a.info = side_info(t, t->info, opt);
	t->a.ep = open_ep(t, t->a.info);
	bind_all(t, &t->a, opt);
	if (t->type == FI_EP_MSG) {
		pair_by_connection(t, opt);
		return;
	}
	t->b.info = side_info(t, t->info, opt);
	t->b.ep = open_ep(t, t->b.info);
	bind_all(t, &t->b, opt);
	pair_by_address(t);
}

void pair_close(struct env *t)
{
	shut(t, &t->a.ep->fid);
	shut(t, &t->b.ep->fid);
	t->a.ep = t->b.ep = NULL;
}

void wait_connected(struct env *t, struct fid_eq *eq, struct fid_ep *x, struct fid_ep *y)
{
	for (int left = y ? 2 : 1; left; left--) {
		struct fi_eq_cm_entry entry;

		wait_event(t, eq, FI_CONNECTED, &entry, sizeof(entry));
		CHECK((x && entry.fid == &x->fid) || (y && entry.fid == &y->fid));
		if (x && entry.fid == &x->fid)
			x = NULL;
		else
			y = NULL;
	}
}

struct cm_listener cm_listen(struct env *t)
{
	struct cm_listener listener = { .addrlen = sizeof(listener.addr) };

	if (!t->eq)
		t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	listener.pep = open_pep(t, t->eq);
	OK(fi_listen(listener.pep));
	pep_address(listener.pep, listener.addr, &listener.addrlen);
	return listener;
}

// Receives a connection request. Its data is in *in; returns the length of the data.
size_t cm_request(struct env *t, struct cm_listener *listener, const void *data, size_t len, union cm_entry *in)
{
	ssize_t rc;

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, listener->addr, data, len));
	rc = wait_event(t, t->eq, FI_CONNREQ, in, sizeof(*in));
	CHECK(rc >= (ssize_t)sizeof(in->cm));
	CHECK(in->cm.fid == &listener->pep->fid);
	CHECK(in->cm.info);
	return rc - sizeof(in->cm);
}

struct fid_ep *cm_accepting(struct env *t, struct fi_info *info)
{
	struct fi_info *own = t->info;

	t->info = info; // open_bound_ep uses t->info
	open_bound_ep(t, &t->b);
	t->info = own;
	fi_freeinfo(info);
	return t->b.ep;
}
