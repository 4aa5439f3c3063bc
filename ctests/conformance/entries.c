// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The tables of all objects. Many inline functions of the headers call an entry without a look at it, so each is a
//! function; what is not served answers -FI_ENOSYS.
#include "harness.h"

#include <rdma/fi_collective.h>

#ifdef FI_XPU
#include <rdma/fi_xpu.h>
#endif
#ifdef FI_WR
#include <rdma/fi_wr.h>
#endif

// A table is its size and pointers to functions.
static void check_table(const char *what, const void *table, size_t size)
{
	const size_t *words = table;

	if (!table)
		FAIL("%s is NULL", what);
	if (words[0] < size)
		FAIL("%s has %zu bytes, not %zu", what, words[0], size);
	for (size_t i = 1; i < size / sizeof(*words); i++)
		if (!words[i])
			FAIL("entry %zu of %s is NULL", i, what);
}

#define TABLE(OBJECT, MEMBER) check_table(#OBJECT "->" #MEMBER, (OBJECT)->MEMBER, sizeof(*(OBJECT)->MEMBER))
#define TABLES(OBJECT)                                                                                                 \
	do {                                                                                                           \
		TABLE(OBJECT, fid.ops);                                                                                \
		TABLE(OBJECT, ops);                                                                                    \
	} while (0)

static void check_endpoint(struct fid_ep *ep)
{
	TABLES(ep);
	TABLE(ep, cm);
	TABLE(ep, msg);
	TABLE(ep, rma);
	TABLE(ep, tagged);
	TABLE(ep, atomic);
	TABLE(ep, collective);
#ifdef FI_WR
	TABLE(ep, wr);
#endif
}

TEST(fi_endpoint, entries, EP_ANY | OURS_ONLY, FI_MSG, "No entry of the tables of an endpoint is NULL, whatever it was opened for")
{
	PAIR(t);
	check_endpoint(t->a.ep);
}

TEST(fi_endpoint, entries_of_contexts, EP_ANY | OURS_ONLY, 0, "No entry of the tables of contexts and of scalable and passive endpoints is NULL")
{
	struct fid_ep *sep = NULL, *context = NULL, *srx = NULL;
	struct fid_stx *stx = NULL;

	open_domain(t);
	if (t->type == FI_EP_MSG) {
		struct fid_pep *pep = open_pep(t, open_eq(t, FI_WAIT_UNSPEC, 0));

		TABLES(pep);
		TABLE(pep, cm);
	}
	if (fi_scalable_ep(t->domain, t->info, &sep, NULL) == 0) {
		keep(t, &sep->fid);
		check_endpoint(sep);
		if (fi_tx_context(sep, 0, NULL, &context, NULL) == 0) {
			keep(t, &context->fid);
			check_endpoint(context);
		}
		if (fi_rx_context(sep, 0, NULL, &context, NULL) == 0) {
			keep(t, &context->fid);
			check_endpoint(context);
		}
	}
	if (fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL) == 0) {
		keep(t, &srx->fid);
		check_endpoint(srx);
	}
	if (fi_stx_context(t->domain, t->info->tx_attr, &stx, NULL) == 0) {
		keep(t, &stx->fid);
		TABLES(stx);
	}
}

TEST(fi_domain, entries, EP_ANY | OURS_ONLY, 0, "No entry of the tables of fabrics, domains, queues, vectors, regions and counters is NULL")
{
	static char memory[64];

	open_domain(t);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct fid_av *av = t->type == FI_EP_MSG ? NULL : open_av(t, FI_AV_TABLE);
	struct fid_mr *mr = reg(t, memory, sizeof(memory), FI_SEND | FI_RECV);

	TABLES(t->fabric);
	TABLES(t->domain);
	TABLE(t->domain, mr);
	TABLES(cq);
	TABLES(eq);
	TABLE(mr, fid.ops);
	if (av)
		TABLES(av);
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE); // or the test is skipped here

	TABLES(cntr);
}

#ifdef FI_XPU
TEST(fi_xpu, not_served, EP_ANY | OURS_ONLY, FI_MSG, "Where no device is served, every call for one gives -FI_ENOSYS and opens and fills nothing")
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_CUDA };
	struct fi_cq_attr cq_attr = { .flags = FI_XPU };
	struct fi_cntr_attr cntr_attr = { .flags = FI_XPU };
	struct fid_xpu_ctx *ctx = NULL;
	struct fid_xpu_ep xpu_ep = { { 1, 2, 3 } };
	struct fid_xpu_cq xpu_cq = { { 1, 2, 3 } };
	struct fid_xpu_cntr xpu_cntr = { { 1, 2, 3 } };
	struct fid_ep *ep = NULL;
	struct fid_cq *cq = NULL;
	struct fid_cntr *cntr = NULL;

	PAIR(t);
	// Calls the entries without a check, as some inline functions do.
	CHECK_RC(t->domain->ops->xpu_ctx(t->domain, &attr, &ctx, NULL), -FI_ENOSYS);
	CHECK_RC(t->a.ep->ops->export_xpu(t->a.ep, 0, &xpu_ep), -FI_ENOSYS);
	CHECK_RC(t->a.txcq->ops->export_xpu(t->a.txcq, 0, &xpu_cq), -FI_ENOSYS);
	CHECK_RC(fi_endpoint2(t->domain, t->info, &ep, FI_XPU, NULL), -FI_ENOSYS);
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &cq, NULL), -FI_ENOSYS);
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &cntr, NULL), -FI_ENOSYS);
	CHECK(!ctx && !ep && !cq && !cntr);
	cntr = open_cntr(t, FI_WAIT_NONE); // or the test is skipped here
	CHECK_RC(cntr->ops->export_xpu(cntr, 0, &xpu_cntr), -FI_ENOSYS);
	CHECK_EQ(xpu_ep.fid.prov_ctx + xpu_cq.fid.prov_ctx + xpu_cntr.fid.prov_ctx, 9);
}
#endif

#ifdef FI_WR
TEST(fi_wr, not_served, EP_ANY | OURS_ONLY, FI_MSG, "Every entry for work requests of an endpoint without FI_WR gives -FI_ENOSYS")
{
	struct fi_op_msg op = { 0 };
	struct fi_wr_attr attr = { .op_type = FI_OP_SEND, .op.msg = &op };
	struct fi_rma_iov remote = { 0 };
	struct iovec iov = { &op, sizeof(op) };
	char request[256];
	size_t len = sizeof(request);

	PAIR(t);
	struct fid_ep *ep = op.ep = t->a.ep;
	struct fi_ops_wr *wr = ep->wr;

	CHECK_RC(wr->prepare(ep, &attr, request, &len), -FI_ENOSYS);
	CHECK_RC(wr->queue_tx(ep, request, NULL), -FI_ENOSYS);
	CHECK_RC(wr->queue_recv(ep, request, NULL), -FI_ENOSYS);
	CHECK_RC(wr->queue_trecv(ep, request, NULL), -FI_ENOSYS);
	CHECK_RC(wr->modify_addr(ep, request, FI_OP_SEND, 0), -FI_ENOSYS);
	CHECK_RC(wr->modify_iov(ep, request, FI_OP_SEND, &iov, NULL, 1), -FI_ENOSYS);
	CHECK_RC(wr->modify_rma_iov(ep, request, FI_OP_WRITE, &remote, 1), -FI_ENOSYS);
	CHECK_RC(wr->modify_tag(ep, request, FI_OP_TSEND, 1, 0), -FI_ENOSYS);
	CHECK_RC(wr->modify_data(ep, request, FI_OP_SEND, 1), -FI_ENOSYS);
	CHECK_RC(wr->modify_flags(ep, request, FI_OP_SEND, 0), -FI_ENOSYS);
	CHECK(op.ep == ep);
}
#endif
