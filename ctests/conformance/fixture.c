// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What tests start from: an info, a fabric, a domain, two ends that can talk, and waiting with a limit.
#include "harness.h"

#include <netinet/in.h>

// Deprecated names whose use warns: what programs of API 1.4 and before ask for.
static const uint64_t local_mr_mode = 1ULL << 55; // FI_LOCAL_MR
static const int mr_unspec = 0, mr_basic = 1;     // FI_MR_UNSPEC, FI_MR_BASIC

struct held {
	struct fid *fid;
	struct fi_info *info;
	struct held *next;
};

// ---- Objects that are closed when the test returns

static void hold(struct env *t, struct fid *fid, struct fi_info *info)
{
	struct held *held = malloc(sizeof(*held));

	CHECK(held);
	*held = (struct held){ .fid = fid, .info = info, .next = t->held };
	t->held = held;
}

void keep(struct env *t, struct fid *fid)
{
	CHECK(fid);
	hold(t, fid, NULL);
}

void keep_info(struct env *t, struct fi_info *info)
{
	CHECK(info);
	hold(t, NULL, info);
}

void forget(struct env *t, struct fid *fid)
{
	for (struct held **at = &t->held; *at; at = &(*at)->next) {
		struct held *held = *at;

		if (held->fid != fid)
			continue;
		*at = held->next;
		free(held);
		return;
	}
	FAIL("an object that is not held");
}

void shut(struct env *t, struct fid *fid)
{
	forget(t, fid);
	OK(fi_close(fid));
}

static void close_all(struct env *t)
{
	while (t->held) {
		struct held *held = t->held;

		t->held = held->next;
		if (held->fid) {
			size_t class = held->fid->fclass;
			int rc = fi_close(held->fid);

			if (rc)
				FAIL("closing an object of class %zu at the end gave %s", class, rc_name(rc));
		} else {
			fi_freeinfo(held->info);
		}
		free(held);
	}
	fi_freeinfo(t->info);
	fi_freeinfo(t->hints);
	free(t->flow);
}

void env_run(struct env *t, const struct test *test);
void env_run(struct env *t, const struct test *test)
{
	if (t->prov) {
		t->hints = fi_allocinfo();
		CHECK(t->hints);
		t->hints->caps = t->caps;
		t->hints->mode = FI_CONTEXT | FI_CONTEXT2;
		t->hints->ep_attr->type = t->type;
		t->hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
						 FI_MR_ENDPOINT | FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT;
		t->hints->fabric_attr->prov_name = strdup(t->prov);
		env_info(t);
	}
	test->run(t);
	close_all(t);
}

// ---- Info

static bool on_loopback(const struct fi_info *info)
{
	const struct sockaddr_in *in = info->src_addr;

	if (!in || info->addr_format == FI_ADDR_STR)
		return true;
	return in->sin_family == AF_INET && (ntohl(in->sin_addr.s_addr) >> 24) == 127;
}

int env_try_info(struct env *t)
{
	struct fi_info *all = NULL, *at;
	int rc = fi_getinfo(t->version, NULL, NULL, 0, t->hints, &all);

	fi_freeinfo(t->info);
	t->info = NULL;
	if (rc)
		return rc;
	for (at = all; at && !(on_loopback(at) && !strcmp(at->fabric_attr->prov_name, t->prov));)
		at = at->next;
	if (at) {
		t->info = fi_dupinfo(at);
		CHECK(t->info);
	}
	fi_freeinfo(all);
	return at ? 0 : -FI_ENODATA;
}

void env_info(struct env *t)
{
	int rc = env_try_info(t);

	if (rc == -FI_ENODATA)
		SKIP("not offered");
	OK(rc);
}

void env_version(struct env *t, uint32_t version)
{
	t->version = version;
	if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
		t->hints->domain_attr->mr_mode = mr_unspec;
		t->hints->mode |= local_mr_mode;
	}
	env_info(t);
}

// ---- Opening

void open_fabric(struct env *t)
{
	if (t->fabric)
		return;
	OK(fi_fabric(t->info->fabric_attr, &t->fabric, t));
	keep(t, &t->fabric->fid);
}

void open_domain(struct env *t)
{
	open_fabric(t);
	if (t->domain)
		return;
	OK(fi_domain(t->fabric, t->info, &t->domain, t));
	keep(t, &t->domain->fid);
}

struct fid_eq *open_eq(struct env *t, enum fi_wait_obj wait, uint64_t flags)
{
	struct fi_eq_attr attr = { .wait_obj = wait, .flags = flags };
	struct fid_eq *eq = NULL;

	open_fabric(t);
	OK(fi_eq_open(t->fabric, &attr, &eq, t));
	keep(t, &eq->fid);
	return eq;
}

struct fid_cq *open_cq(struct env *t, enum fi_cq_format format, enum fi_wait_obj wait)
{
	struct fi_cq_attr attr = { .format = format, .wait_obj = wait };
	struct fid_cq *cq = NULL;

	open_domain(t);
	OK(fi_cq_open(t->domain, &attr, &cq, t));
	keep(t, &cq->fid);
	return cq;
}

struct fid_cntr *open_cntr(struct env *t, enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = { .wait_obj = wait };
	struct fid_cntr *cntr = NULL;

	open_domain(t);
	OK_OR_SKIP(fi_cntr_open(t->domain, &attr, &cntr, t));
	keep(t, &cntr->fid);
	return cntr;
}

struct fid_av *open_av(struct env *t, enum fi_av_type type)
{
	struct fi_av_attr attr = { .type = type };
	struct fid_av *av = NULL;

	open_domain(t);
	OK(fi_av_open(t->domain, &attr, &av, t));
	keep(t, &av->fid);
	return av;
}

struct fid_ep *open_ep(struct env *t, struct fi_info *info)
{
	struct fid_ep *ep = NULL;

	open_domain(t);
	OK(fi_endpoint(t->domain, info, &ep, t));
	keep(t, &ep->fid);
	return ep;
}

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
	if (t->type != FI_EP_MSG) {
		OK(fi_av_open(t->domain, &av, &side->av, side));
		keep(t, &side->av->fid);
	} else if (!t->eq) {
		t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	}
	if (opt->cntr_flags) {
		struct fi_cntr_attr cntr = opt->cntr;

		OK_OR_SKIP(fi_cntr_open(t->domain, &cntr, &side->cntr, side));
		keep(t, &side->cntr->fid);
	}
}

static void bind_all(struct env *t, struct side *side, const struct pair_opt *opt)
{
	if (side->txcq == side->rxcq && opt->tx_flags == opt->rx_flags) {
		OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | FI_RECV | opt->tx_flags));
	} else {
		OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | opt->tx_flags));
		OK(fi_ep_bind(side->ep, &side->rxcq->fid, FI_RECV | opt->rx_flags));
	}
	if (side->cntr)
		OK(fi_ep_bind(side->ep, &side->cntr->fid, opt->cntr_flags));
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

// The request's data ends up in *in; its length is returned.
size_t cm_request(struct env *t, struct cm_listener *listener, const void *data, size_t len, union cm_event *in)
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

	t->info = info; // what open_bound_ep opens with
	open_bound_ep(t, &t->b);
	t->info = own;
	fi_freeinfo(info);
	return t->b.ep;
}

// ---- Waiting

static void peek_eq(struct fid_eq *eq)
{
	char buf[sizeof(struct fi_eq_cm_entry) + 256];
	uint32_t event;

	fi_eq_read(eq, &event, buf, sizeof(buf), FI_PEEK);
}

void progress(struct env *t)
{
	for (struct held *held = t->held; held; held = held->next) {
		if (!held->fid)
			continue;
		if (held->fid->fclass == FI_CLASS_CQ)
			fi_cq_read((struct fid_cq *)held->fid, NULL, 0);
		else if (held->fid->fclass == FI_CLASS_CNTR)
			fi_cntr_read((struct fid_cntr *)held->fid);
		else if (held->fid->fclass == FI_CLASS_EQ)
			peek_eq((struct fid_eq *)held->fid);
	}
}

void wait_read(struct env *t, struct fid_cq *cq, void *entry)
{
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_cq_read(cq, entry, 1)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		struct fi_cq_err_entry err = { 0 };

		CHECK_EQ(fi_cq_readerr(cq, &err, 0), 1);
		FAIL("an error entry instead of a completion: %s, flags 0x%" PRIx64, rc_name(-err.err), err.flags);
	}
	CHECK_RC(rc, 1);
}

void wait_comp(struct env *t, struct fid_cq *cq, struct fi_cq_tagged_entry *comp)
{
	struct fi_cq_tagged_entry entry = { 0 };

	wait_read(t, cq, &entry);
	if (comp)
		*comp = entry;
}

void wait_err(struct env *t, struct fid_cq *cq, struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry entry = { 0 };
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN);
	if (rc == 1)
		FAIL("a completion with flags 0x%" PRIx64 " instead of an error entry", entry.flags);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(cq, err, 0), 1);
}

ssize_t wait_event(struct env *t, struct fid_eq *eq, uint32_t want, void *buf, size_t len)
{
	uint32_t event = 0;
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_eq_read(eq, &event, buf, len, 0)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		struct fi_eq_err_entry err = { 0 };

		CHECK(fi_eq_readerr(eq, &err, 0) > 0);
		FAIL("an error event instead of event %u: %s", want, rc_name(-err.err));
	}
	if (rc < 0)
		FAIL("fi_eq_read gave %s instead of event %u", rc_name(rc), want);
	CHECK_EQ(event, want);
	return rc;
}

void wait_eq_err(struct env *t, struct fid_eq *eq, struct fi_eq_err_entry *err)
{
	char buf[512];
	uint32_t event = 0;
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_eq_read(eq, &event, buf, sizeof(buf), 0)) != -FI_EAGAIN);
	if (rc >= 0)
		FAIL("event %u instead of an error", event);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK(fi_eq_readerr(eq, err, 0) > 0);
}

// ---- Memory

struct fid_mr *reg(struct env *t, void *buf, size_t len, uint64_t access)
{
	struct fid_mr *mr = NULL;

	open_domain(t);
	OK(fi_mr_reg(t->domain, buf, len, access, 0, t->next_key++, 0, &mr, t));
	keep(t, &mr->fid);
	return mr;
}

void *reg_desc(struct env *t, void *buf, size_t len, uint64_t access)
{
	if (!(t->info->domain_attr->mr_mode & FI_MR_LOCAL) && !(t->info->mode & local_mr_mode))
		return NULL;
	return fi_mr_desc(reg(t, buf, len, access));
}

uint64_t rma_addr(struct env *t, const void *base, size_t offset)
{
	return (t->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | mr_basic)) ? (uintptr_t)base + offset : offset;
}

static struct flow *flow_of(struct env *t)
{
	if (!t->flow) {
		t->flow = calloc(1, sizeof(*t->flow));
		CHECK(t->flow);
		t->flow->in_desc = reg_desc(t, t->flow->in, sizeof(t->flow->in), FI_RECV);
		t->flow->out_desc = reg_desc(t, t->flow->out, sizeof(t->flow->out), FI_SEND);
	}
	return t->flow;
}

struct flow *flow_post_recv(struct env *t, unsigned first, unsigned count)
{
	struct flow *flow = flow_of(t);

	CHECK(first + count <= FLOW_MAX);
	for (unsigned i = first; i < first + count; i++)
		POST(t, fi_recv(t->b.ep, flow->in[i], FLOW_LEN, flow->in_desc, FI_ADDR_UNSPEC, &flow->rx[i]));
	return flow;
}

struct flow *flow_post_send(struct env *t, unsigned first, unsigned count)
{
	struct flow *flow = flow_of(t);

	CHECK(first + count <= FLOW_MAX);
	for (unsigned i = first; i < first + count; i++) {
		fill(flow->out[i], FLOW_LEN, i);
		POST(t, fi_send(t->a.ep, flow->out[i], FLOW_LEN, flow->out_desc, t->a.peer, &flow->tx[i]));
	}
	return flow;
}

struct flow *flow_run(struct env *t, unsigned first, unsigned count)
{
	flow_post_recv(t, first, count);
	flow_post_send(t, first, count);
	for (unsigned i = first; i < first + count; i++) {
		struct fi_cq_tagged_entry entry; // as large as any format's

		wait_read(t, t->a.txcq, &entry);
		CHECK(entry.op_context == &t->flow->tx[i]);
	}
	return t->flow;
}

void flow_error(struct env *t, unsigned index)
{
	struct flow *flow = flow_post_recv(t, index, 1);

	OK_OR_SKIP(fi_cancel(&t->b.ep->fid, &flow->rx[index]));
}

void fill(void *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(i * 131 + (i >> 8) * 17 + seed * 37 + 1);
}

bool filled(const void *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)buf)[i] != (uint8_t)(i * 131 + (i >> 8) * 17 + seed * 37 + 1))
			return false;
	return true;
}
