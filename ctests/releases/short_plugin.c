// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A loadable provider of release 2.6. Its objects and tables end before a page without access, so its callers must not
// read members that were added later. fi_provider(7)

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

// Allocates memory that ends before a page without access. Never freed, because the process is short-lived.
static void *guarded(size_t size)
{
	size_t page = (size_t) sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
		exit(2);
	return pages + page - size;
}

static int no(void)
{
	return -FI_ENOSYS;
}

// A table whose functions all return -FI_ENOSYS.
static void *table(size_t size)
{
	size_t *words = guarded(size);

	words[0] = size;
	for (size_t i = 1; i < size / sizeof *words; i++)
		words[i] = (size_t) no;
	return words;
}

static int close_(struct fid *fid)
{
	return 0;
}

static void head(struct fid *fid, size_t class, void *context)
{
	struct fi_ops *ops = table(sizeof *ops);

	ops->close = close_;
	fid->fclass = class;
	fid->context = context;
	fid->ops = ops;
}

#define OBJECT(TYPE, CLASS)                                                                                             \
	struct TYPE *object = guarded(sizeof *object);                                                                  \
	head(&object->fid, CLASS, context);                                                                             \
	object->ops = table(sizeof *object->ops)

static int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
	OBJECT(fid_av, FI_CLASS_AV);
	*av = object;
	return 0;
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
	OBJECT(fid_cq, FI_CLASS_CQ);
	*cq = object;
	return 0;
}

static int cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context)
{
	OBJECT(fid_cntr, FI_CLASS_CNTR);
	*cntr = object;
	return 0;
}

static int endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	OBJECT(fid_ep, FI_CLASS_EP);
	object->cm = table(sizeof *object->cm);
	object->msg = table(sizeof *object->msg);
	object->rma = table(sizeof *object->rma);
	object->tagged = table(sizeof *object->tagged);
	object->atomic = table(sizeof *object->atomic);
	object->collective = table(sizeof *object->collective);
	*ep = object;
	return 0;
}

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	OBJECT(fid_domain, FI_CLASS_DOMAIN);
	object->mr = table(sizeof *object->mr);
	object->ops->av_open = av_open;
	object->ops->cq_open = cq_open;
	object->ops->cntr_open = cntr_open;
	object->ops->endpoint = endpoint;
	*domain = object;
	return 0;
}

static int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	OBJECT(fid_fabric, FI_CLASS_FABRIC);
	object->api_version = attr->api_version;
	object->ops->domain = domain_open;
	*fabric = object;
	return 0;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		   struct fi_info **info)
{
	struct fi_info *entry = fi_dupinfo(NULL);
	// Its own part of a struct, as long as in its headers.
	struct fi_ep_attr *attr = calloc(1, sizeof *attr);

	free(entry->ep_attr);
	entry->ep_attr = attr;
	attr->type = FI_EP_RDM;
	entry->caps = FI_MSG;
	entry->fabric_attr->name = strdup("short");
	entry->domain_attr->name = strdup("short");
	*info = entry;
	return 0;
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(2, 6),
	.name = "short",
	.getinfo = getinfo,
	.fabric = fabric_open,
};

struct fi_provider *fi_prov_ini(void);
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	return &provider;
}
