// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3): opening, binding, enabling, closing.
#include "harness.h"

// ---- Opening

TEST(fi_endpoint, open_sets_class_and_context, EP_ANY, FI_MSG, "The endpoint is of class FI_CLASS_EP and carries the caller's context")
{
	struct fid_ep *ep = NULL;
	int mark;

	open_domain(t);
	OK(fi_endpoint(t->domain, t->info, &ep, &mark));
	keep(t, &ep->fid);
	CHECK_EQ(ep->fid.fclass, FI_CLASS_EP);
	CHECK(ep->fid.context == &mark);
}

TEST(fi_endpoint, open_leaves_info_alone, EP_ANY, FI_MSG, "The info stays the caller's: it can be freed at once, and used for several endpoints")
{
	struct fi_info *copy = fi_dupinfo(t->info);

	CHECK(copy);
	open_ep(t, copy);
	open_ep(t, copy);
	fi_freeinfo(copy);
}

TEST(fi_endpoint, open_many, EP_ANY, FI_MSG, "A domain holds many endpoints, each with an address of its own")
{
	char name[50][ADDR_ROOM] = { { 0 } };

	for (int i = 0; i < 50; i++) {
		struct side side = { 0 };
		size_t len = sizeof(name[i]);

		if (t->type == FI_EP_MSG) {
			open_ep(t, t->info);
			continue;
		}
		open_bound_ep(t, &side);
		OK(fi_enable(side.ep));
		OK(fi_getname(&side.ep->fid, name[i], &len));
		for (int j = 0; j < i; j++)
			CHECK(memcmp(name[i], name[j], sizeof(name[i])));
	}
}

TEST(fi_endpoint, open_unknown_type, EP_ANY, FI_MSG, "An info with an unknown endpoint type is refused")
{
	struct fid_ep *ep = NULL;
	int rc;

	open_domain(t);
	t->info->ep_attr->type = 1000;
	rc = fi_endpoint(t->domain, t->info, &ep, NULL);
	CHECK(rc == -FI_EINVAL || rc == -FI_ENODATA || rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP);
}

TEST(fi_endpoint, open_too_much, EP_ANY, FI_MSG, "An info that asks for more than the provider has is refused")
{
	struct fid_ep *ep = NULL;

	open_domain(t);
	t->info->tx_attr->inject_size = SIZE_MAX;
	CHECK_RC2(fi_endpoint(t->domain, t->info, &ep, NULL), -FI_EINVAL, -FI_ENODATA);
}

TEST(fi_endpoint, open2_flags, EP_ANY, FI_MSG, "fi_endpoint2 without flags is fi_endpoint; unknown flags are refused")
{
	struct fid_ep *ep = NULL;
	int rc;

	open_domain(t);
	OK(fi_endpoint2(t->domain, t->info, &ep, 0, NULL));
	OK(fi_close(&ep->fid));
	rc = fi_endpoint2(t->domain, t->info, &ep, 1ULL << 51, NULL);
	CHECK(rc == -FI_EINVAL || rc == -FI_EBADFLAGS || rc == -FI_ENOSYS);
}

TEST(fi_endpoint, open_scalable, EP_ANY, FI_MSG, "A scalable endpoint opens where the domain has more than one context, else the call is refused")
{
	struct fid_ep *sep = NULL;
	int rc;

	open_domain(t);
	rc = fi_scalable_ep(t->domain, t->info, &sep, NULL);
	if (rc) {
		CHECK(rc == -FI_ENOSYS || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP);
		CHECK(t->info->domain_attr->max_ep_tx_ctx <= 1 && t->info->domain_attr->max_ep_rx_ctx <= 1);
		return;
	}
	keep(t, &sep->fid);
	CHECK_EQ(sep->fid.fclass, FI_CLASS_SEP);
}

TEST(fi_endpoint, contexts_of_plain_endpoint, EP_ANY, FI_MSG, "A plain endpoint has no transmit and receive contexts to open")
{
	struct fid_ep *ep = open_ep(t, t->info), *ctx = NULL;

	CHECK(fi_tx_context(ep, 0, NULL, &ctx, NULL) < 0);
	CHECK(fi_rx_context(ep, 0, NULL, &ctx, NULL) < 0);
}

TEST(fi_endpoint, open_shared_transmit, EP_ANY, FI_MSG, "A shared transmit context opens where the domain has them, else the call is refused")
{
	struct fid_stx *stx = NULL;
	int rc;

	open_domain(t);
	rc = fi_stx_context(t->domain, t->info->tx_attr, &stx, NULL);
	if (rc)
		CHECK(rc == -FI_ENOSYS || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP);
	else
		keep(t, &stx->fid);
}

TEST(fi_endpoint, open_shared_receive, EP_ANY, FI_MSG, "A shared receive context opens where the domain has them, else the call is refused")
{
	struct fid_ep *srx = NULL;
	int rc;

	open_domain(t);
	rc = fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL);
	if (rc) {
		CHECK(rc == -FI_ENOSYS || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP);
		CHECK_EQ(t->info->domain_attr->max_ep_srx_ctx, 0);
		return;
	}
	keep(t, &srx->fid);
	CHECK_EQ(srx->fid.fclass, FI_CLASS_SRX_CTX);
	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
}

// ---- Enabling

static void bind_some(struct env *t, struct fid_ep *ep, bool tx, bool rx, bool av, bool eq)
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);

	if (tx)
		OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT));
	if (rx)
		OK(fi_ep_bind(ep, &cq->fid, FI_RECV));
	if (av && t->type != FI_EP_MSG)
		OK(fi_ep_bind(ep, &open_av(t, FI_AV_TABLE)->fid, 0));
	if (eq && t->type == FI_EP_MSG)
		OK(fi_ep_bind(ep, &open_eq(t, FI_WAIT_NONE, 0)->fid, 0));
}

// Opens the queues before the endpoint, so that they are closed after it.
static struct fid_ep *ep_with(struct env *t, bool tx, bool rx, bool av, bool eq)
{
	struct fid_ep *ep;

	open_domain(t);
	OK(fi_endpoint(t->domain, t->info, &ep, NULL));
	bind_some(t, ep, tx, rx, av, eq);
	keep(t, &ep->fid);
	return ep;
}

TEST(fi_endpoint, enable_needs_cqs, EP_ANY, FI_MSG, "Enabling an endpoint that is not bound to a completion queue gives -FI_ENOCQ")
{
	CHECK_RC(fi_enable(ep_with(t, false, false, true, true)), -FI_ENOCQ);
}

TEST(fi_endpoint, enable_needs_transmit_cq, EP_ANY, FI_MSG, "An endpoint that can send needs a transmit queue: -FI_ENOCQ")
{
	CHECK_RC(fi_enable(ep_with(t, false, true, true, true)), -FI_ENOCQ);
}

TEST(fi_endpoint, enable_needs_receive_cq, EP_ANY, FI_MSG, "An endpoint that can receive needs a receive queue: -FI_ENOCQ")
{
	CHECK_RC(fi_enable(ep_with(t, true, false, true, true)), -FI_ENOCQ);
}

TEST(fi_endpoint, enable_needs_cqs_beside_counters, EP_ANY, FI_MSG | FI_RMA, "Counters do not stand for completion queues: -FI_ENOCQ, as errors could not be reported")
{
	static const uint64_t sends = FI_SEND | FI_READ | FI_WRITE, all = FI_SEND | FI_READ | FI_WRITE | FI_RECV;
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);

	for (unsigned cq = 0; cq < 3; cq++) { // no queue, then one for each direction
		struct fid_ep *ep = ep_with(t, cq == 1, cq == 2, true, true);

		OK(fi_ep_bind(ep, &cntr->fid, cq == 1 ? FI_RECV : cq == 2 ? sends : all));
		CHECK_RC(fi_enable(ep), -FI_ENOCQ);
		shut(t, &ep->fid);
	}
}

// Checks an endpoint with one direction.
static void check_one_way(struct env *t, uint64_t way)
{
	uint64_t needed = way == FI_SEND ? FI_TRANSMIT : FI_RECV;
	struct fid_ep *ep;

	t->hints->caps |= way;
	env_info(t);
	if (t->info->caps & (FI_SEND | FI_RECV) & ~way)
		SKIP("it has both directions");
	ep = ep_with(t, needed == FI_RECV, needed == FI_TRANSMIT, true, true);
	CHECK_RC(fi_enable(ep), -FI_ENOCQ);
	shut(t, &ep->fid);
	OK(fi_enable(ep_with(t, needed == FI_TRANSMIT, needed == FI_RECV, true, true)));
}

TEST(fi_endpoint, enable_send_only, EP_ANY, FI_MSG, "An endpoint that only sends needs a transmit queue, and no other")
{
	check_one_way(t, FI_SEND);
}

TEST(fi_endpoint, enable_receive_only, EP_ANY, FI_MSG, "An endpoint that only receives needs a receive queue, and no other")
{
	check_one_way(t, FI_RECV);
}

TEST(fi_endpoint, enable_needs_av, EP_AV, FI_MSG, "A connectionless endpoint needs an address vector: -FI_ENOAV")
{
	CHECK_RC(fi_enable(ep_with(t, true, true, false, true)), -FI_ENOAV);
}

TEST(fi_endpoint, enable_needs_eq, EP_MSG, FI_MSG, "A connected endpoint needs an event queue: -FI_ENOEQ")
{
	CHECK_RC(fi_enable(ep_with(t, true, true, true, false)), -FI_ENOEQ);
}

TEST(fi_endpoint, enable_complete, EP_ANY, FI_MSG, "An endpoint bound to all it needs can be enabled")
{
	OK(fi_enable(ep_with(t, true, true, true, true)));
}

TEST(fi_endpoint, enable_after_failure, EP_ANY, FI_MSG, "After a failed enable the missing object can be bound and the endpoint enabled")
{
	struct fid_ep *ep = ep_with(t, true, false, true, true);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);

	CHECK_RC(fi_enable(ep), -FI_ENOCQ);
	forget(t, &ep->fid);
	keep(t, &ep->fid);
	OK(fi_ep_bind(ep, &cq->fid, FI_RECV));
	OK(fi_enable(ep));
}

TEST(fi_endpoint, enable_twice, EP_ANY, FI_MSG, "Enabling an enabled endpoint is harmless or gives -FI_EOPBADSTATE")
{
	struct fid_ep *ep = ep_with(t, true, true, true, true);

	OK(fi_enable(ep));
	CHECK_RC2(fi_enable(ep), 0, -FI_EOPBADSTATE);
}

TEST(fi_endpoint, enable_with_counters, EP_ANY, FI_MSG, "One queue for both directions and a counter for each kind of operation can be bound together")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	struct fid_ep *ep = ep_with(t, true, true, true, true);

	OK(fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_RECV));
	OK(fi_enable(ep));
}

// ---- Binding

TEST(fi_endpoint, bind_cq_twice, EP_ANY, FI_MSG, "An endpoint takes one queue for each direction: a second is refused")
{
	struct fid_cq *other = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fid_ep *ep = ep_with(t, true, true, true, true);

	CHECK(fi_ep_bind(ep, &other->fid, FI_TRANSMIT) < 0);
	CHECK(fi_ep_bind(ep, &other->fid, FI_RECV) < 0);
	CHECK(fi_ep_bind(ep, &other->fid, FI_TRANSMIT | FI_RECV) < 0);
	OK(fi_enable(ep));
}

TEST(fi_endpoint, bind_counter_twice, EP_ANY, FI_MSG, "An endpoint takes one counter for each kind of operation: a second is refused")
{
	struct fid_cntr *x = open_cntr(t, FI_WAIT_NONE), *y = open_cntr(t, FI_WAIT_NONE);
	struct fid_ep *ep = ep_with(t, true, true, true, true);

	OK(fi_ep_bind(ep, &x->fid, FI_SEND));
	CHECK(fi_ep_bind(ep, &y->fid, FI_SEND) < 0);
	OK(fi_ep_bind(ep, &y->fid, FI_RECV));
}

TEST(fi_endpoint, bind_av_twice, EP_AV, FI_MSG, "An endpoint takes a single address vector: a second is refused")
{
	struct fid_av *other = open_av(t, FI_AV_TABLE);
	struct fid_ep *ep = ep_with(t, true, true, true, true);

	CHECK(fi_ep_bind(ep, &other->fid, 0) < 0);
}

TEST(fi_endpoint, bind_cq_without_direction, EP_ANY, FI_MSG, "Binding a queue with neither FI_TRANSMIT nor FI_RECV is refused; selective completion needs one")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fid_ep *ep = open_ep(t, t->info);

	CHECK_RC2(fi_ep_bind(ep, &cq->fid, 0), -FI_EINVAL, -FI_EBADFLAGS);
	CHECK_RC2(fi_ep_bind(ep, &cq->fid, FI_SELECTIVE_COMPLETION), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_endpoint, bind_unknown_flags, EP_ANY, FI_MSG, "Flags that are not defined for the binding are refused")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	struct fid_ep *ep = open_ep(t, t->info);

	CHECK_RC2(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | (1ULL << 51)), -FI_EINVAL, -FI_EBADFLAGS);
	CHECK_RC2(fi_ep_bind(ep, &cntr->fid, FI_SEND | (1ULL << 51)), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_endpoint, bind_wrong_object, EP_ANY, FI_MSG, "Objects that are nothing to an endpoint are refused with -FI_EINVAL")
{
	struct fid_ep *ep = open_ep(t, t->info);

	CHECK_RC2(fi_ep_bind(ep, &t->domain->fid, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_ep_bind(ep, &t->fabric->fid, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_ep_bind(ep, &ep->fid, 0), -FI_EINVAL, -FI_ENOSYS);
}

TEST(fi_endpoint, bind_foreign_domain, EP_ANY, FI_MSG, "Objects of another domain are refused")
{
	struct fi_cq_attr attr = { 0 };
	struct fid_domain *other = NULL;
	struct fid_cq *cq = NULL;
	struct fid_ep *ep = open_ep(t, t->info);

	OK(fi_domain(t->fabric, t->info, &other, NULL));
	keep(t, &other->fid);
	OK(fi_cq_open(other, &attr, &cq, NULL));
	keep(t, &cq->fid);
	CHECK_RC2(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT), -FI_EINVAL, -FI_EDOMAIN);
}

// ---- Before the endpoint is enabled

TEST(fi_endpoint, send_before_enable, EP_ANY, FI_MSG, "Sending on an endpoint that is not enabled gives -FI_EOPBADSTATE")
{
	struct fi_context2 ctx;
	char buf[16] = "";

	open_bound_ep(t, &t->a);
	CHECK_RC(fi_send(t->a.ep, buf, sizeof(buf), NULL, 0, &ctx), -FI_EOPBADSTATE);
	CHECK_RC(fi_inject(t->a.ep, buf, sizeof(buf), 0), -FI_EOPBADSTATE);
}

TEST(fi_endpoint, recv_before_enable, EP_ANY, FI_MSG, "Posting a receive on an endpoint that is not enabled gives -FI_EOPBADSTATE")
{
	struct fi_context2 ctx;
	static char buf[16];

	open_bound_ep(t, &t->a);
	CHECK_RC(fi_recv(t->a.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, &ctx), -FI_EOPBADSTATE);
}

TEST(fi_endpoint, tagged_before_enable, EP_ANY, FI_TAGGED, "Tagged operations on an endpoint that is not enabled give -FI_EOPBADSTATE")
{
	struct fi_context2 ctx;
	static char buf[16];

	open_bound_ep(t, &t->a);
	CHECK_RC(fi_tsend(t->a.ep, buf, sizeof(buf), NULL, 0, 1, &ctx), -FI_EOPBADSTATE);
	CHECK_RC(fi_trecv(t->a.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 1, 0, &ctx), -FI_EOPBADSTATE);
}

TEST(fi_endpoint, rma_before_enable, EP_RELIABLE, FI_RMA, "RMA on an endpoint that is not enabled gives -FI_EOPBADSTATE")
{
	struct fi_context2 ctx;
	static char buf[16];

	open_bound_ep(t, &t->a);
	CHECK_RC(fi_write(t->a.ep, buf, sizeof(buf), NULL, 0, 0, 1, &ctx), -FI_EOPBADSTATE);
	CHECK_RC(fi_read(t->a.ep, buf, sizeof(buf), NULL, 0, 0, 1, &ctx), -FI_EOPBADSTATE);
}

TEST(fi_endpoint, not_offered_interfaces, EP_ANY, FI_MSG, "Operations the endpoint has no capability for are refused or work, but do not crash")
{
	struct fi_context2 ctx[4];
	static char buf[16];

	PAIR(t);
	CHECK(fi_trecv(t->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[0]) <= 0);
	CHECK(fi_tsend(t->a.ep, buf, sizeof(buf), NULL, t->a.peer, 1, &ctx[1]) <= 0);
	CHECK(fi_atomic(t->a.ep, buf, 1, NULL, t->a.peer, 0, 0, FI_INT64, FI_SUM, &ctx[2]) <= 0);
	CHECK(fi_write(t->a.ep, buf, sizeof(buf), NULL, t->a.peer, 0, 1, &ctx[3]) <= 0);
}

// ---- Closing

TEST(fi_endpoint, close_discards_receives, EP_ANY, FI_MSG, "Closing discards posted operations silently: no completion is reported for them")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	flow_post_recv(t, 0, 8);
	shut(t, &t->b.ep->fid);
	for (int i = 0; i < 100; i++) {
		ssize_t rc = fi_cq_read(t->b.rxcq, &entry, 1);

		CHECK_RC(rc, -FI_EAGAIN);
		fi_cq_read(t->a.txcq, NULL, 0);
	}
}

TEST(fi_endpoint, close_keeps_or_drops_completions, EP_ANY, FI_MSG, "Completions of a closed endpoint may still be read; none is corrupt")
{
	struct fi_cq_tagged_entry entry;
	unsigned got = 0;
	ssize_t rc;

	PAIR(t);
	flow_run(t, 0, 4);
	ONCE(t, filled_by_now(t->flow->in[3], FLOW_LEN, 3));
	shut(t, &t->b.ep->fid);
	while ((rc = fi_cq_read(t->b.rxcq, &entry, 1)) == 1)
		CHECK(entry.op_context == &t->flow->rx[got++]);
	CHECK_RC(rc, -FI_EAGAIN);
	CHECK(got <= 4);
}

TEST(fi_endpoint, close_and_open_again, EP_AV, FI_MSG, "Endpoints can be opened and closed on the same domain and queues again and again")
{
	open_bound_ep(t, &t->a);
	shut(t, &t->a.ep->fid);
	for (int i = 0; i < 100; i++) {
		t->a.ep = open_ep(t, t->a.info);
		OK(fi_ep_bind(t->a.ep, &t->a.txcq->fid, FI_TRANSMIT));
		OK(fi_ep_bind(t->a.ep, &t->a.rxcq->fid, FI_RECV));
		OK(fi_ep_bind(t->a.ep, &t->a.av->fid, 0));
		OK(fi_enable(t->a.ep));
		shut(t, &t->a.ep->fid);
	}
}

// ---- Traffic classes

TEST(fi_endpoint, dscp, CORE, 0, "fi_tc_dscp_set and fi_tc_dscp_get are each other's inverse; other classes have no DSCP")
{
	for (unsigned dscp = 0; dscp < 256; dscp++) {
		CHECK(fi_tc_dscp_set(dscp) & FI_TC_DSCP);
		CHECK_EQ(fi_tc_dscp_get(fi_tc_dscp_set(dscp)), dscp);
	}
	CHECK_EQ(fi_tc_dscp_get(FI_TC_LOW_LATENCY), 0);
}
