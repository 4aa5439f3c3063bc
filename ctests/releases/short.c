// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A program with newer headers than its provider, short_plugin.c, whose tables end early: newer entries return
// -FI_ENOSYS. With a hook the entries are called without a size check, because the tables are those of the hook.
// SHORT_PLUGIN is the folder of the plug-in.

#define _GNU_SOURCE

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#ifdef FI_XPU
#include <rdma/fi_xpu.h>
#endif
#ifdef FI_WR
#include <rdma/fi_wr.h>
#endif

#include "../check.h"

static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_cntr *cntr;
static struct fid_ep *ep;

static void open_all(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_fabric *fabric;

	hints->fabric_attr->prov_name = strdup("short");
	EQUAL(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
	if (!info)
		exit(1);
#ifdef FI_XPU
	// The library has extended the part that the plug-in made to its own length.
	CHECK(!info->ep_attr->xpu_ctx);
#endif
#ifdef FI_WR
	CHECK(!info->ep_attr->max_tx_wr_size && !info->ep_attr->max_rx_wr_size);
#endif
	EQUAL(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
	EQUAL(fi_av_open(domain, &av_attr, &av, NULL), 0);
	EQUAL(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	EQUAL(fi_cntr_open(domain, &cntr_attr, &cntr, NULL), 0);
	EQUAL(fi_endpoint(domain, info, &ep, NULL), 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

// The inline functions of the headers check the size of a table.
static void functions(void)
{
#ifdef FI_XPU
	struct fi_xpu_attr attr = {.iface = FI_HMEM_CUDA};
	struct fid_xpu_ctx *ctx = NULL;
	struct fid_xpu_ep xpu_ep;
	struct fid_xpu_cq xpu_cq;
	struct fid_xpu_cntr xpu_cntr;
	char buf[8];
	size_t len = sizeof buf;

	EQUAL(fi_xpu_ctx(domain, &attr, &ctx, NULL), -FI_ENOSYS);
	EQUAL(fi_ep_export_xpu(ep, 0, &xpu_ep), -FI_ENOSYS);
	EQUAL(fi_cq_export_xpu(cq, 0, &xpu_cq), -FI_ENOSYS);
	EQUAL(fi_cntr_export_xpu(cntr, 0, &xpu_cntr), -FI_ENOSYS);
	EQUAL(fi_av_lookup2(av, 0, buf, &len, 0, NULL), -FI_ENOSYS);
#endif
#ifdef FI_WR
	struct fi_op_msg op = {.ep = ep};
	struct fi_wr_attr wr_attr = {.op_type = FI_OP_SEND, .op.msg = &op};
	char request[64];
	size_t wr_len = sizeof request;

	EQUAL(fi_tx_flush(ep, 0), -FI_ENOSYS);
	EQUAL(fi_recv_flush(ep, 0), -FI_ENOSYS);
	EQUAL(fi_trecv_flush(ep, 0), -FI_ENOSYS);
	EQUAL(fi_wr_prepare(ep, &wr_attr, request, &wr_len), -FI_ENOSYS);
	CHECK(op.ep == ep);
#endif
}

// Each entry that was added after 2.6, without a size check.
static void entries(void)
{
#ifdef FI_XPU
	struct fi_xpu_attr attr = {.iface = FI_HMEM_CUDA};
	struct fid_xpu_ctx *ctx = NULL;
	struct fid_xpu_ep xpu_ep;
	struct fid_xpu_cq xpu_cq;
	struct fid_xpu_cntr xpu_cntr;
	char buf[8];
	size_t len = sizeof buf;

	EQUAL(domain->ops->xpu_ctx(domain, &attr, &ctx, NULL), -FI_ENOSYS);
	EQUAL(ep->ops->export_xpu(ep, 0, &xpu_ep), -FI_ENOSYS);
	EQUAL(cq->ops->export_xpu(cq, 0, &xpu_cq), -FI_ENOSYS);
	EQUAL(cntr->ops->export_xpu(cntr, 0, &xpu_cntr), -FI_ENOSYS);
	EQUAL(av->ops->lookup2(av, 0, buf, &len, 0, NULL), -FI_ENOSYS);
#endif
#ifdef FI_WR
	struct fi_op_msg op = {.ep = ep};
	struct fi_wr_attr wr_attr = {.op_type = FI_OP_SEND, .op.msg = &op};
	struct fi_rma_iov remote = {0};
	struct iovec iov = {&op, sizeof op};
	char request[64];
	size_t wr_len = sizeof request;

	EQUAL(ep->ops->tx_flush(ep, 0), -FI_ENOSYS);
	EQUAL(ep->msg->recv_flush(ep, 0), -FI_ENOSYS);
	EQUAL(ep->tagged->trecv_flush(ep, 0), -FI_ENOSYS);
	EQUAL(ep->wr->prepare(ep, &wr_attr, request, &wr_len), -FI_ENOSYS);
	CHECK(op.ep == ep);
	EQUAL(ep->wr->queue_tx(ep, request, NULL), -FI_ENOSYS);
	EQUAL(ep->wr->queue_recv(ep, request, NULL), -FI_ENOSYS);
	EQUAL(ep->wr->queue_trecv(ep, request, NULL), -FI_ENOSYS);
	EQUAL(ep->wr->modify_addr(ep, request, FI_OP_SEND, 0), -FI_ENOSYS);
	EQUAL(ep->wr->modify_iov(ep, request, FI_OP_SEND, &iov, NULL, 1), -FI_ENOSYS);
	EQUAL(ep->wr->modify_rma_iov(ep, request, FI_OP_WRITE, &remote, 1), -FI_ENOSYS);
	EQUAL(ep->wr->modify_tag(ep, request, FI_OP_TSEND, 1, 0), -FI_ENOSYS);
	EQUAL(ep->wr->modify_data(ep, request, FI_OP_SEND, 1), -FI_ENOSYS);
	EQUAL(ep->wr->modify_flags(ep, request, FI_OP_SEND, 0), -FI_ENOSYS);
#endif
}

static void without_hooks(void)
{
	setenv("FI_PROVIDER_PATH", getenv("SHORT_PLUGIN"), 1);
	open_all();
	functions();
}

static void under(const char *hooks)
{
	setenv("FI_HOOK", hooks, 1);
	setenv("FI_LOG_LEVEL", "trace", 1);
	setenv("FI_LOG_LOCATION", "/dev/null", 1);
	without_hooks();
	entries();
}

static void with_a_hook(void)
{
	under("noop");
}

static void with_all_hooks(void)
{
	under("perf;trace;profile;monitor;debug;hmem");
}

static const struct test tests[] = {TEST(without_hooks), TEST(with_a_hook), TEST(with_all_hooks)};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
