// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A loadable provider that serves a device as described in fi_xpu(3). It distinguishes the two layouts of fi_xpu_ops by
// their size, and fills the members of fi_xpu_ctx_attr that the application's version has. Built with the newest
// headers.

#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_xpu.h>
#include <rdma/providers/fi_prov.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

// The members of fi_xpu_ops in release 2.7.
struct ops_2_7 {
	size_t size;
	void (*alloc)(void), (*import)(void);
	void (*free)(uint64_t device, void *addr);
};

static uint32_t asked;

static int close_(struct fid *fid)
{
	free(fid);
	return 0;
}

static struct fi_ops fid_ops = {.size = sizeof(struct fi_ops), .close = close_};

static int query(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr)
{
	attr->caps = FI_XPU_CAP_EP;
	attr->av_addr_size = 1;
	attr->mr_desc_size = 2;
	if (asked >= FI_VERSION(2, 8)) {
		attr->max_tx_wr_desc_size = 3;
		attr->max_rx_wr_desc_size = 4;
	}
	return 0;
}

static int xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx, void *context)
{
	static struct fi_ops_xpu_ctx ops = {.size = sizeof(struct fi_ops_xpu_ctx), .query = query};

	if (attr->ops->size >= sizeof(struct fi_xpu_ops)) {
		if (attr->ops->unimport(attr->device, &ops) != 0)
			return -FI_EIO;
		attr->ops->free(attr->device, &ops);
	} else {
		((struct ops_2_7 *) attr->ops)->free(attr->device, &ops);
	}
	*ctx = calloc(1, sizeof **ctx);
	(*ctx)->fid = (struct fid){FI_CLASS_XPU_CTX, context, &fid_ops};
	(*ctx)->ops = &ops;
	return 0;
}

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	static struct fi_ops_domain ops = {.size = sizeof(struct fi_ops_domain), .xpu_ctx = xpu_ctx};

	*domain = calloc(1, sizeof **domain);
	(*domain)->fid = (struct fid){FI_CLASS_DOMAIN, context, &fid_ops};
	(*domain)->ops = &ops;
	return 0;
}

static int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	static struct fi_ops_fabric ops = {.size = sizeof(struct fi_ops_fabric), .domain = domain_open};

	asked = attr->api_version;
	*fabric = calloc(1, sizeof **fabric);
	(*fabric)->fid = (struct fid){FI_CLASS_FABRIC, context, &fid_ops};
	(*fabric)->ops = &ops;
	(*fabric)->api_version = attr->api_version;
	return 0;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		   struct fi_info **info)
{
	struct fi_info *entry = fi_dupinfo(NULL);

	entry->caps = FI_MSG | FI_XPU | FI_WR;
	entry->ep_attr->type = FI_EP_RDM;
	entry->ep_attr->max_tx_wr_size = 5;
	entry->ep_attr->max_rx_wr_size = 6;
	entry->domain_attr->max_xpu_ctx_cnt = 1;
	entry->fabric_attr->name = strdup("device");
	entry->domain_attr->name = strdup("device");
	*info = entry;
	return 0;
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = "device",
	.getinfo = getinfo,
	.fabric = fabric_open,
};

struct fi_provider *fi_prov_ini(void);
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	return &provider;
}
