// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Domains. fi_domain(3)

#include "carry.h"

enum { BUCKETS = 1024 };

static int domain_close(struct fid *fid)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct carry_fabric *fabric = domain->fabric;

	carry_lock(fabric);
	if (domain->users) {
		carry_unlock(fabric);
		return -FI_EBUSY;
	}
	if (domain->eq)
		domain->eq->users--;
	fabric->users--;
	carry_unlock(fabric);
	carry_list_domain(domain, false);
	free(domain->by_key);
	free(domain);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct carry_eq *eq = (struct carry_eq *) other;
	int rc = 0;

	if (!other || other->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	if (flags & (1ull << 59)) // FI_REG_MR: regions are registered in the call
		return -FI_EOPNOTSUPP;
	if (flags || eq->fabric != domain->fabric)
		return -FI_EINVAL;
	carry_lock(domain->fabric);
	if (domain->eq) {
		rc = -FI_EINVAL;
	} else {
		domain->eq = eq;
		eq->users++;
	}
	carry_unlock(domain->fabric);
	return rc;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	return carry_mr_control((struct carry_domain *) fid, command, arg);
}

static struct fi_ops domain_fid_ops = CARRY_FI_OPS(domain_close, domain_bind, domain_control);
static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = carry_av_open,
	.cq_open = carry_cq_open,
	.endpoint = carry_endpoint,
	.cntr_open = carry_cntr_open,
	.srx_ctx = carry_srx_open,
};
CARRY_FILL(domain_ops, carry_no_domain)

int carry_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
	struct carry_fabric *fabric = (struct carry_fabric *) fid;
	struct carry_domain *domain;
	int rc = out ? carry_check_info(info) : -FI_EINVAL;

	if (rc)
		return rc;
	domain = calloc(1, sizeof(*domain));
	if (domain)
		domain->by_key = calloc(BUCKETS, sizeof(*domain->by_key));
	if (!domain || !domain->by_key) {
		free(domain);
		return -FI_ENOMEM;
	}
	for (unsigned i = 0; i < BUCKETS; i++)
		list_init(&domain->by_key[i]);
	domain->fid.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops};
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &carry_mr_ops;
	domain->fabric = fabric;
	domain->type = info->ep_attr->type;
	domain->mr_mode = info->domain_attr->mr_mode;
	domain->mode = info->mode;
	domain->caps = info->caps;
	if (domain->mr_mode & 1) // FI_MR_BASIC
		domain->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (info->mode & (1ull << 55)) // FI_LOCAL_MR
		domain->mr_mode |= FI_MR_LOCAL;
	carry_lock(fabric);
	fabric->users++;
	carry_unlock(fabric);
	carry_list_domain(domain, true);
	*out = &domain->fid;
	return 0;
}
