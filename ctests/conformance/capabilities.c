// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_getinfo(3), fi_endpoint(3), capabilities: endpoints for one direction, and receive contexts whose attributes
//! leave capabilities out.
#include "transfer.h"

enum { LEN = 32 };
#define SOURCES (FI_DIRECTED_RECV | FI_SOURCE)
#define REFUSES(CALL) CHECK_RC2(CALL, -FI_ENOSYS, -FI_EOPNOTSUPP)

// ---- Receive attributes without FI_DIRECTED_RECV and FI_SOURCE

static void without_sources(struct fi_info *info)
{
	info->rx_attr->caps &= ~SOURCES;
}

// Checks that a receive at `at` that names itself as the source takes a message of `from`, and that its completion has
// no source.
static void check_source_is_ignored(struct env *t, struct fid_ep *at, struct fid_cq *rxcq, struct side *from, fi_addr_t self, bool tagged)
{
	struct op recv = op_of(RECV, tagged, new_buf(t, LEN, 0), self);
	struct op send = op_of(SEND, tagged, new_buf(t, LEN, 1), from->peer);
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = 4242;
	ssize_t rc;

	op_post(t, at, &recv);
	op_post(t, from->ep, &send);
	ONCE(t, (rc = fi_cq_readfrom(rxcq, &entry, 1, &source)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK(entry.op_context == recv.ctx);
	CHECK_EQ(source, FI_ADDR_NOTAVAIL);
	wait_comp(t, from->txcq, NULL);
}

// The address of an endpoint in its own vector.
static fi_addr_t own_address(struct fid_ep *ep, struct fid_av *av)
{
	char name[ADDR_ROOM];
	size_t len = sizeof(name);
	fi_addr_t self = FI_ADDR_NOTAVAIL;

	OK(fi_getname(&ep->fid, name, &len));
	CHECK_EQ(fi_av_insert(av, name, 1, &self, 0, NULL), 1);
	return self;
}

BOTH(attributes_ignore_source, EP_RDM, FI_DIRECTED_RECV | FI_SOURCE, "Without FI_DIRECTED_RECV and FI_SOURCE among the receive attributes src_addr is ignored, and completions name no source")
{
	PAIR(t, .tune = without_sources);
	check_source_is_ignored(t, t->b.ep, t->b.rxcq, &t->a, own_address(t->b.ep, t->b.av), tagged);
}

BOTH(srx_ignores_source, EP_RDM, FI_DIRECTED_RECV | FI_SOURCE, "So it is at a shared receive context with such attributes")
{
	struct fid_ep *srx = NULL;
	struct fi_rx_attr attr;

	t->hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	env_info(t);
	open_domain(t);
	attr = *t->info->rx_attr;
	attr.caps &= ~SOURCES;
	OK_OR_SKIP(fi_srx_context(t->domain, &attr, &srx, NULL));
	keep(t, &srx->fid);
	PAIR(t, .srx = srx, .tune = without_sources);
	check_source_is_ignored(t, srx, t->b.rxcq, &t->a, own_address(t->b.ep, t->b.av), tagged);
}

BOTH(context_ignores_source, EP_RDM, FI_DIRECTED_RECV | FI_SOURCE, "So it is at receive contexts of a scalable endpoint that are opened with such attributes; others go by the endpoint's")
{
	struct fid_ep *sep = NULL, *rx[2];
	struct fid_cq *rxcq[2];
	struct fid_av *av;
	struct op recv, other;
	fi_addr_t self;
	struct side from = { 0 };

	open_domain(t);
	open_bound_ep(t, &from);
	OK(fi_enable(from.ep));
	t->hints->ep_attr->rx_ctx_cnt = t->hints->ep_attr->tx_ctx_cnt = 2;
	if (env_try_info(t))
		SKIP("no scalable endpoints");
	t->domain = NULL;
	t->fabric = NULL;
	open_domain(t);
	av = open_av(t, FI_AV_TABLE);
	OK_OR_SKIP(fi_scalable_ep(t->domain, t->info, &sep, NULL));
	keep(t, &sep->fid);
	OK(fi_scalable_ep_bind(sep, &av->fid, 0));
	for (int i = 0; i < 2; i++) {
		struct fi_rx_attr attr = *t->info->rx_attr;

		if (!i)
			attr.caps &= ~SOURCES;
		rxcq[i] = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
		OK(fi_rx_context(sep, i, &attr, &rx[i], NULL));
		CHECK_EQ(attr.caps & SOURCES, i ? SOURCES : 0);
		keep(t, &rx[i]->fid);
		OK(fi_ep_bind(rx[i], &rxcq[i]->fid, FI_RECV));
		OK(fi_enable(rx[i]));
	}
	OK(fi_enable(sep));
	self = own_address(sep, av);
	from.peer = own_address(sep, from.av);
	check_source_is_ignored(t, rx[0], rxcq[0], &from, self, tagged);
	// The second context filters: no message comes from itself.
	recv = op_of(RECV, tagged, new_buf(t, LEN, 0), self);
	other = op_of(RECV, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	op_post(t, rx[1], &recv);
	op_post(t, rx[0], &other);
	other = op_of(SEND, tagged, new_buf(t, LEN, 1), from.peer);
	op_post(t, from.ep, &other);
	wait_comp(t, rxcq[0], NULL);
	nothing(rxcq[1]);
}

TEST(fi_endpoint, srx_peek_nothing, EP_RDM, FI_MSG | FI_TAGGED, "A peek at a shared receive context that finds nothing is reported by the queue of an endpoint that uses the context")
{
	struct fid_ep *srx = NULL;
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = new_ctx() };

	t->hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	env_info(t);
	open_domain(t);
	OK_OR_SKIP(fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL));
	keep(t, &srx->fid);
	PAIR(t, .srx = srx, .same_cq = true);
	OK(fi_trecvmsg(srx, &msg, FI_PEEK | FI_COMPLETION));
	failed(t, t->a.txcq, msg.context, FI_ENOMSG);
}

// ---- One direction

// Opens and enables an endpoint with these capabilities, to which a queue for one direction only is bound.
static struct fid_ep *open_one_way(struct env *t, uint64_t caps, uint64_t queue)
{
	struct fid_eq *eq = NULL;
	struct fid_av *av = NULL;
	struct fid_cq *cq;
	struct fid_ep *ep;

	t->hints->caps = caps;
	env_info(t);
	open_domain(t);
	cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	if (t->info->ep_attr->type == FI_EP_MSG)
		eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	else
		av = open_av(t, FI_AV_TABLE);
	ep = open_ep(t, t->info);
	OK(fi_ep_bind(ep, &cq->fid, queue));
	OK(fi_ep_bind(ep, eq ? &eq->fid : &av->fid, 0));
	OK(fi_enable(ep));
	if (av)
		own_address(ep, av); // index 0
	return ep;
}

static struct buf any;

static void refuses_form(struct env *t, struct fid_ep *ep, enum form form, bool tagged)
{
	struct op op = op_of(form, tagged, any, form >= RECV ? FI_ADDR_UNSPEC : 0);

	(void)t;
	REFUSES(op_try(ep, &op));
}

BOTH(send_only, EP_ANY, 0, "An endpoint opened for FI_SEND alone takes no receives")
{
	struct fid_ep *ep = open_one_way(t, (tagged ? FI_TAGGED : FI_MSG) | FI_SEND, FI_TRANSMIT);

	any = new_buf(t, LEN, 0);
	for (enum form form = RECV; form <= RECVMSG; form++)
		refuses_form(t, ep, form, tagged);
}

BOTH(receive_only, EP_ANY, 0, "An endpoint opened for FI_RECV alone takes no sends")
{
	struct fid_ep *ep = open_one_way(t, (tagged ? FI_TAGGED : FI_MSG) | FI_RECV, FI_RECV);

	any = new_buf(t, LEN, 0);
	for (enum form form = SEND; form < RECV; form++)
		if (has_form(t, form))
			refuses_form(t, ep, form, tagged);
}

static ssize_t write_once(struct fid_ep *ep)
{
	return fi_write(ep, any.mem, 8, any.desc, 0, 0, 7, new_ctx());
}

static ssize_t read_once(struct fid_ep *ep)
{
	return fi_read(ep, any.mem, 8, any.desc, 0, 0, 7, new_ctx());
}

TEST(fi_rma, target_only, EP_RDM, FI_RMA, "An endpoint with FI_REMOTE_READ and FI_REMOTE_WRITE alone begins no accesses")
{
	struct fid_ep *ep = open_one_way(t, FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE, FI_TRANSMIT);

	any = new_buf(t, LEN, 0);
	REFUSES(write_once(ep));
	REFUSES(read_once(ep));
	REFUSES(fi_inject_write(ep, any.mem, 8, 0, 0, 7));
}

TEST(fi_rma, write_only, EP_RDM, FI_RMA, "An endpoint with FI_WRITE alone takes no reads")
{
	struct fid_ep *ep = open_one_way(t, FI_RMA | FI_WRITE, FI_TRANSMIT);

	any = new_buf(t, LEN, 0);
	REFUSES(read_once(ep));
}

TEST(fi_rma, read_only, EP_RDM, FI_RMA, "An endpoint with FI_READ alone takes no writes")
{
	struct fid_ep *ep = open_one_way(t, FI_RMA | FI_READ, FI_TRANSMIT);

	any = new_buf(t, LEN, 0);
	REFUSES(write_once(ep));
	REFUSES(fi_inject_write(ep, any.mem, 8, 0, 0, 7));
}

TEST(fi_atomic, target_only, EP_RDM, FI_ATOMIC, "An endpoint with FI_REMOTE_READ and FI_REMOTE_WRITE alone begins no atomic operations")
{
	struct fid_ep *ep = open_one_way(t, FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE, FI_TRANSMIT);

	any = new_buf(t, LEN, 0);
	REFUSES(fi_atomic(ep, any.mem, 1, any.desc, 0, 0, 7, FI_UINT64, FI_SUM, new_ctx()));
	REFUSES(fi_fetch_atomic(ep, any.mem, 1, any.desc, any.mem + 8, any.desc, 0, 0, 7, FI_UINT64, FI_SUM, new_ctx()));
}

static void initiator_only(struct fi_info *info)
{
	info->caps &= ~(FI_REMOTE_READ | FI_REMOTE_WRITE);
	info->rx_attr->caps &= ~(FI_REMOTE_READ | FI_REMOTE_WRITE);
}

TEST(fi_rma, initiator_only, EP_RDM, FI_MSG | FI_RMA, "Peers cannot access memory through an endpoint without FI_REMOTE_READ and FI_REMOTE_WRITE")
{
	PAIR(t, .tune = initiator_only);
	struct region target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = new_ctx();

	if (strstr(t->prov, "ofi_rxm") || (is_linked(t) && !links_shm()))
		SKIP("the endpoint below serves the access");
	POST(t, fi_read(t->a.ep, in.mem, LEN, in.desc, t->a.peer, target.at, target.key, ctx));
	failed_somehow(t, t->a.txcq, ctx);
}

// ---- Keys

TEST(fi_mr, local_region_has_key, EP_RELIABLE, FI_RMA, "fi_mr_key of a region that no peer may access is a key, not FI_KEY_NOTAVAIL, which says that registration has not ended")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct fid_mr *mr = NULL;

	open_domain(t);
	OK(fi_mr_reg(t->domain, buf.mem, LEN, FI_SEND | FI_RECV, 0, 0x77, 0, &mr, NULL));
	keep(t, &mr->fid);
	if (t->info->domain_attr->mr_mode & FI_MR_PROV_KEY)
		CHECK(fi_mr_key(mr) != FI_KEY_NOTAVAIL);
	else
		CHECK_EQ(fi_mr_key(mr), 0x77);
}
