// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_domain(3), fi_fabric(3): opening, attributes, bindings, the order of closing.
#include "harness.h"

// ---- Fabric

TEST(fi_fabric, open_sets_class_and_context, EP_ANY, 0, "The fabric is of class FI_CLASS_FABRIC and carries the caller's context")
{
	struct fid_fabric *fabric = NULL;
	int mark;

	OK(fi_fabric(t->info->fabric_attr, &fabric, &mark));
	keep(t, &fabric->fid);
	CHECK_EQ(fabric->fid.fclass, FI_CLASS_FABRIC);
	CHECK(fabric->fid.context == &mark);
	CHECK_EQ(fabric->api_version, t->version);
}

TEST(fi_fabric, open_twice, EP_ANY, 0, "A fabric can be opened several times; each has to be closed")
{
	struct fid_fabric *x = NULL, *y = NULL;

	OK(fi_fabric(t->info->fabric_attr, &x, NULL));
	OK(fi_fabric(t->info->fabric_attr, &y, NULL));
	OK(fi_close(&x->fid));
	keep(t, &y->fid);
	t->fabric = y;
	open_domain(t);
}

TEST(fi_fabric, open_many_times, EP_ANY, 0, "Opening and closing leaves nothing behind")
{
	for (int i = 0; i < 200; i++) {
		struct fid_fabric *fabric = NULL;
		struct fid_domain *domain = NULL;

		OK(fi_fabric(t->info->fabric_attr, &fabric, NULL));
		OK(fi_domain(fabric, t->info, &domain, NULL));
		OK(fi_close(&domain->fid));
		OK(fi_close(&fabric->fid));
	}
}

static int try_fabric(const struct fi_fabric_attr *attr)
{
	struct fi_fabric_attr copy = *attr;
	struct fid_fabric *fabric = NULL;
	int rc = fi_fabric(&copy, &fabric, NULL);

	if (!rc)
		OK(fi_close(&fabric->fid));
	return rc;
}

TEST(fi_fabric, open_unknown_provider, EP_ANY, 0, "A provider that does not exist gives -FI_ENODEV")
{
	struct fi_fabric_attr attr = *t->info->fabric_attr;
	char name[70000];

	attr.prov_name = "no-such-provider";
	CHECK_RC(try_fabric(&attr), -FI_ENODEV);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	attr.prov_name = name;
	CHECK_RC(try_fabric(&attr), -FI_ENODEV);
	attr.prov_name = "";
	CHECK(try_fabric(&attr) < 0);
}

TEST(fi_fabric, open_without_names, EP_ANY, 0, "A fabric or provider name that is missing gives -FI_EINVAL")
{
	struct fi_fabric_attr attr = *t->info->fabric_attr;

	attr.name = NULL;
	CHECK_RC(try_fabric(&attr), -FI_EINVAL);
	attr = *t->info->fabric_attr;
	attr.prov_name = NULL;
	CHECK_RC(try_fabric(&attr), -FI_EINVAL);
}

TEST(fi_fabric, open_unknown_name, EP_ANY, 0, "A fabric that does not exist is refused, or opened as the caller's own name for it; very long names too")
{
	struct fi_fabric_attr attr = *t->info->fabric_attr;
	char name[70000];
	int rc;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	attr.name = name;
	rc = try_fabric(&attr);
	CHECK(rc == 0 || rc == -FI_EINVAL || rc == -FI_ENODEV || rc == -FI_ENODATA || rc == -FI_ENOENT);
}

TEST(fi_fabric, fabric2_by_info, EP_ANY, 0, "fi_fabric2 opens by an info; unknown flags are refused")
{
	struct fid_fabric *fabric = NULL;

	OK(fi_fabric2(t->info, &fabric, 0, NULL));
	OK(fi_close(&fabric->fid));
	CHECK_RC2(fi_fabric2(t->info, &fabric, 1ULL << 51, NULL), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_fabric, close_with_domain, EP_ANY, 0, "A fabric with an open domain cannot be closed: -FI_EBUSY")
{
	open_domain(t);
	CHECK_RC(fi_close(&t->fabric->fid), -FI_EBUSY);
	shut(t, &t->domain->fid);
	shut(t, &t->fabric->fid);
}

TEST(fi_fabric, close_with_eq, EP_ANY, 0, "A fabric with an open event queue cannot be closed: -FI_EBUSY")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);

	CHECK_RC(fi_close(&t->fabric->fid), -FI_EBUSY);
	shut(t, &eq->fid);
	shut(t, &t->fabric->fid);
}

TEST(fi_fabric, close_with_pep, EP_MSG, 0, "A fabric with an open passive endpoint cannot be closed: -FI_EBUSY")
{
	struct fid_pep *pep = NULL;

	open_fabric(t);
	OK(fi_passive_ep(t->fabric, t->info, &pep, NULL));
	keep(t, &pep->fid);
	CHECK_RC(fi_close(&t->fabric->fid), -FI_EBUSY);
	shut(t, &pep->fid);
	shut(t, &t->fabric->fid);
}

TEST(fi_fabric, control_unknown_command, EP_ANY, 0, "A command that a fabric does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	open_fabric(t);
	CHECK_RC(fi_control(&t->fabric->fid, 0x7fff, &arg), -FI_ENOSYS);
}

TEST(fi_fabric, open_ops_unknown, EP_ANY, 0, "An interface that a fabric does not have gives -FI_ENOSYS")
{
	void *ops = NULL;

	open_fabric(t);
	CHECK_RC(fi_open_ops(&t->fabric->fid, "no-such-interface", 0, &ops, NULL), -FI_ENOSYS);
	CHECK(!ops);
}

TEST(fi_fabric, getinfo_names_the_open_fabric, EP_ANY, 0, "fi_getinfo refers to the first open instance of the fabric and of the domain")
{
	open_domain(t);
	OK(env_try_info(t));
	CHECK(t->info->fabric_attr->fabric == t->fabric);
	CHECK(t->info->domain_attr->domain == t->domain);
	shut(t, &t->domain->fid);
	shut(t, &t->fabric->fid);
	OK(env_try_info(t));
	CHECK(!t->info->fabric_attr->fabric);
	CHECK(!t->info->domain_attr->domain);
}

// ---- Domain

TEST(fi_domain, open_sets_class_and_context, EP_ANY, 0, "The domain is of class FI_CLASS_DOMAIN and carries the caller's context")
{
	struct fid_domain *domain = NULL;
	int mark;

	open_fabric(t);
	OK(fi_domain(t->fabric, t->info, &domain, &mark));
	keep(t, &domain->fid);
	CHECK_EQ(domain->fid.fclass, FI_CLASS_DOMAIN);
	CHECK(domain->fid.context == &mark);
}

TEST(fi_domain, open_several, EP_ANY, 0, "A fabric holds several domains; their resources are apart")
{
	struct fid_domain *other = NULL;
	struct fid_mr *mr = NULL;
	static char buf[64];

	open_domain(t);
	OK(fi_domain(t->fabric, t->info, &other, NULL));
	keep(t, &other->fid);
	if (!(t->info->caps & FI_RMA))
		return;
	OK(fi_mr_reg(t->domain, buf, 64, FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
	keep(t, &mr->fid);
	OK(fi_mr_reg(other, buf, 64, FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
	keep(t, &mr->fid);
}

TEST(fi_domain, open_from_dupinfo, EP_ANY, 0, "The info may be a copy made by fi_dupinfo")
{
	struct fi_info *copy = fi_dupinfo(t->info);
	struct fid_domain *domain = NULL;

	CHECK(copy);
	keep_info(t, copy);
	open_fabric(t);
	OK(fi_domain(t->fabric, copy, &domain, NULL));
	keep(t, &domain->fid);
}

static int try_domain(struct env *t, struct fi_info *info)
{
	struct fid_domain *domain = NULL;
	int rc;

	open_fabric(t);
	rc = fi_domain(t->fabric, info, &domain, NULL);
	if (!rc)
		OK(fi_close(&domain->fid));
	return rc;
}

TEST(fi_domain, open_every_threading, EP_ANY, 0, "FI_THREAD_SAFE and every level that asks less of the provider can be used")
{
	static const enum fi_threading levels[] = {
		FI_THREAD_UNSPEC, FI_THREAD_SAFE, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION,
	};

	OK(try_domain(t, t->info));
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		t->info->domain_attr->threading = levels[i];
		OK(try_domain(t, t->info));
	}
}

TEST(fi_domain, open_unknown_threading, EP_ANY, 0, "An unknown threading level is refused")
{
	t->info->domain_attr->threading = 1000;
	CHECK_RC2(try_domain(t, t->info), -FI_EINVAL, -FI_ENODATA);
}

TEST(fi_domain, open_unknown_progress, EP_ANY, 0, "An unknown progress model is refused")
{
	t->info->domain_attr->progress = 1000;
	CHECK_RC2(try_domain(t, t->info), -FI_EINVAL, -FI_ENODATA);
}

TEST(fi_domain, open_unknown_resource_mgmt, EP_ANY, 0, "An unknown resource management setting is refused")
{
	t->info->domain_attr->resource_mgmt = 1000;
	CHECK_RC2(try_domain(t, t->info), -FI_EINVAL, -FI_ENODATA);
}

TEST(fi_domain, open_unknown_av_type, EP_AV, 0, "An unknown address vector type is refused")
{
	t->info->domain_attr->av_type = 1000;
	CHECK_RC2(try_domain(t, t->info), -FI_EINVAL, -FI_ENODATA);
}

TEST(fi_domain, open_too_much, EP_ANY, 0, "More CQ data than the provider has is refused")
{
	t->info->domain_attr->cq_data_size = 1000;
	CHECK_RC2(try_domain(t, t->info), -FI_EINVAL, -FI_ENODATA);
}

TEST(fi_domain, open2_unknown_flags, EP_ANY, 0, "fi_domain2 without flags is fi_domain; unknown flags are refused")
{
	struct fid_domain *domain = NULL;
	int rc;

	open_fabric(t);
	OK(fi_domain2(t->fabric, t->info, &domain, 0, NULL));
	OK(fi_close(&domain->fid));
	rc = fi_domain2(t->fabric, t->info, &domain, 1ULL << 51, NULL);
	CHECK(rc == -FI_EINVAL || rc == -FI_EBADFLAGS || rc == -FI_ENOSYS);
}

TEST(fi_domain, close_with_endpoint, EP_ANY, 0, "A domain with an open endpoint cannot be closed: -FI_EBUSY")
{
	struct fid_ep *ep = open_ep(t, t->info);

	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
	shut(t, &ep->fid);
	shut(t, &t->domain->fid);
}

TEST(fi_domain, close_with_cq, EP_ANY, 0, "A domain with an open completion queue cannot be closed: -FI_EBUSY")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);

	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
	shut(t, &cq->fid);
	shut(t, &t->domain->fid);
}

TEST(fi_domain, close_with_counter, EP_ANY, 0, "A domain with an open counter cannot be closed: -FI_EBUSY")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);

	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
	shut(t, &cntr->fid);
	shut(t, &t->domain->fid);
}

TEST(fi_domain, close_with_av, EP_AV, 0, "A domain with an open address vector cannot be closed: -FI_EBUSY")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);

	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
	shut(t, &av->fid);
	shut(t, &t->domain->fid);
}

TEST(fi_domain, close_with_mr, EP_RELIABLE, FI_RMA, "A domain with an open memory region cannot be closed: -FI_EBUSY")
{
	static char buf[64];
	struct fid_mr *mr = reg(t, buf, sizeof(buf), FI_REMOTE_READ);

	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
	shut(t, &mr->fid);
	shut(t, &t->domain->fid);
}

TEST(fi_domain, bind_eq, EP_ANY, 0, "An event queue can be bound: it gets the connection events of endpoints without their own")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);

	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &eq->fid, 0));
}

TEST(fi_domain, bind_wrong_object, EP_ANY, 0, "Only event queues can be bound to a domain")
{
	open_domain(t);
	CHECK_RC2(fi_domain_bind(t->domain, &t->fabric->fid, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_domain_bind(t->domain, &open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE)->fid, 0), -FI_EINVAL,
		  -FI_ENOSYS);
}

TEST(fi_domain, bind_unknown_flag, EP_ANY, 0, "Flags that are not defined for the binding are refused")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	int rc;

	open_domain(t);
	rc = fi_domain_bind(t->domain, &eq->fid, 1ULL << 51);
	CHECK(rc == -FI_EINVAL || rc == -FI_EBADFLAGS || rc == -FI_ENOSYS);
}

TEST(fi_domain, open_ops_unknown, EP_ANY, 0, "An interface that a domain does not have gives -FI_ENOSYS")
{
	void *ops = NULL;

	open_domain(t);
	CHECK_RC(fi_open_ops(&t->domain->fid, "no-such-interface", 0, &ops, NULL), -FI_ENOSYS);
	CHECK(!ops);
}

TEST(fi_domain, set_ops_unknown, EP_ANY, 0, "An override that is unknown gives -FI_ENOSYS")
{
	int ops;

	open_domain(t);
	CHECK_RC(fi_set_ops(&t->domain->fid, "no-such-override", 0, &ops, NULL), -FI_ENOSYS);
}

TEST(fi_domain, control_unknown_command, EP_ANY, 0, "A command that a domain does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	open_domain(t);
	CHECK_RC(fi_control(&t->domain->fid, 0x7fff, &arg), -FI_ENOSYS);
}

TEST(fi_domain, unique_names, EP_ANY, 0, "A domain taken from another interface of the same provider opens as well")
{
	struct fi_info *all = NULL;
	unsigned opened = 0;

	OK(fi_getinfo(t->version, NULL, NULL, 0, t->hints, &all));
	keep_info(t, all);
	for (struct fi_info *at = all; at; at = at->next) {
		struct fid_fabric *fabric = NULL;
		struct fid_domain *domain = NULL;

		if (strcmp(at->fabric_attr->prov_name, t->prov))
			continue;
		OK(fi_fabric(at->fabric_attr, &fabric, NULL));
		OK(fi_domain(fabric, at, &domain, NULL));
		OK(fi_close(&domain->fid));
		OK(fi_close(&fabric->fid));
		opened++;
	}
	CHECK(opened > 0);
}
