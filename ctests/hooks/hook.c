// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A hook as a plug-in that wraps only the fabric and prints that. NAME is the provider's name. REFUSES: the hook wraps
// nothing.

#include <stdio.h>
#include <stdlib.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

struct around {
	struct fid_fabric fabric;
	struct fid_fabric *inside;
};

static int close_fabric(struct fid *fid)
{
	struct around *around = (struct around *) fid;

	fprintf(stderr, "%s: closes\n", NAME);
	int ret = fi_close(&around->inside->fid);

	if (!ret)
		free(around);
	return ret;
}

static int bind_fabric(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void) fid, (void) other, (void) flags;
	return -FI_ENOSYS;
}

static int control(struct fid *fid, int command, void *arg)
{
	return fi_control(&((struct around *) fid)->inside->fid, command, arg);
}

static int ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return fi_open_ops(&((struct around *) fid)->inside->fid, name, flags, ops, context);
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	fprintf(stderr, "%s: domain\n", NAME);
	return fi_domain(((struct around *) fabric)->inside, info, domain, context);
}

static int passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
	return fi_passive_ep(((struct around *) fabric)->inside, info, pep, context);
}

static int open_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
	return fi_eq_open(((struct around *) fabric)->inside, attr, eq, context);
}

static int open_wait(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set)
{
	(void) fabric, (void) attr, (void) set;
	return -FI_ENOSYS;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	return fi_trywait(((struct around *) fabric)->inside, fids, count);
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops), .close = close_fabric, .bind = bind_fabric, .control = control, .ops_open = ops_open,
};
static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops), .domain = open_domain, .passive_ep = passive, .eq_open = open_eq, .wait_open = open_wait,
	.trywait = trywait,
};

static int wrap(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	const struct fi_provider *hooked = context;
	struct around *around;

	fprintf(stderr, "%s: around %s %u.%u, attributes %s\n", NAME, hooked->name, FI_MAJOR(hooked->version),
		FI_MINOR(hooked->version), attr->name || attr->prov_name || attr->prov_version || attr->api_version ? "set" : "zero");
#ifdef REFUSES
	(void) around, (void) fabric;
	return -FI_EINVAL;
#else
	around = calloc(1, sizeof(*around));
	if (!around)
		return -FI_ENOMEM;
	around->inside = attr->fabric;
	around->fabric.fid.fclass = FI_CLASS_FABRIC;
	around->fabric.fid.context = attr->fabric->fid.context;
	around->fabric.fid.ops = &fid_ops;
	around->fabric.ops = &fabric_ops;
	around->fabric.api_version = attr->fabric->api_version;
	*fabric = &around->fabric;
	return 0;
#endif
}

static struct fi_provider provider = {.name = NAME, .version = FI_VERSION(1, 0), .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), .fabric = wrap};

FI_EXT_INI
{
	(void) close_fabric, (void) fabric_ops, (void) fid_ops;
	return &provider;
}
