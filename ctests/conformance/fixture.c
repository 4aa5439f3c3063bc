// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The starting point of tests: an info, a fabric, a domain, single objects. All are closed when the test returns.
#include "device.h"
#include "fixture.h"

#include <netinet/in.h>

bool over_ipv6;


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

void shut_all(struct env *t)
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
}

void close_all(struct env *t)
{
	shut_all(t);
	fi_freeinfo(t->info);
	fi_freeinfo(t->hints);
	free(t->flow);
}

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
		// Datagrams of RDMA devices need room for a header.
		if (!strcmp(t->prov, "verbs") && t->type == FI_EP_DGRAM)
			t->hints->mode |= FI_MSG_PREFIX;
		t->hints->fabric_attr->prov_name = strdup(t->prov);
		env_info(t);
	}
	test->run(t);
	close_all(t);
}

// ---- Info

static bool on_loopback(const struct fi_info *info)
{
	const struct sockaddr_in6 *in6 = info->src_addr;
	const struct sockaddr_in *in = info->src_addr;

	if (!in || info->addr_format == FI_ADDR_STR || info->addr_format == FI_ADDR_IB_UD)
		return true;
	// No RDMA device has the loopback interface. The stand-in for its libraries stays in this process.
	if (!strncmp(info->fabric_attr->prov_name, "verbs", 5))
		return in->sin_family == AF_INET;
	if (over_ipv6)
		return in6->sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	return in->sin_family == AF_INET && (ntohl(in->sin_addr.s_addr) >> 24) == 127;
}

int env_try_info(struct env *t)
{
	struct fi_info *all = NULL, *at;
	int rc;

	if (on_device()) {
		t->hints->caps |= FI_HMEM;
		t->hints->domain_attr->mr_mode |= FI_MR_HMEM;
	}
	rc = fi_getinfo(t->version, NULL, NULL, 0, t->hints, &all);

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
		t->hints->domain_attr->mr_mode = MR_UNSPEC;
		t->hints->mode |= LOCAL_MR_MODE;
	}
	env_info(t);
}

void need_order(struct env *t, uint64_t any)
{
	if (t->info->tx_attr->msg_order & t->info->rx_attr->msg_order & any)
		return;
	t->hints->tx_attr->msg_order |= any;
	t->hints->rx_attr->msg_order |= any;
	if (env_try_info(t))
		SKIP("message order 0x%" PRIx64 " is not offered", any);
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

struct fid_av *open_av_by_name(struct env *t)
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	int rc = fi_av_insertsvc(av, "127.0.0.1", "7471", NULL, 0, NULL);

	if (rc == -FI_ENOSYS)
		SKIP("nothing is inserted by name");
	if (!has_strings(t))
		need_ipv4(t);
	shut(t, &av->fid);
	return open_av(t, FI_AV_TABLE);
}

struct fid_ep *open_ep(struct env *t, struct fi_info *info)
{
	struct fid_ep *ep = NULL;

	open_domain(t);
	OK(fi_endpoint(t->domain, info, &ep, t));
	keep(t, &ep->fid);
	return ep;
}

// ---- A thread that waits

static void *cntr_waiter_main(void *arg)
{
	struct cntr_waiter *waiter = arg;

	waiter->rc = fi_cntr_wait(waiter->cntr, waiter->threshold, -1);
	waiter->done = true;
	return NULL;
}

void start_cntr_waiter(struct cntr_waiter *waiter)
{
	CHECK_EQ(pthread_create(&waiter->thread, NULL, cntr_waiter_main, waiter), 0);
}

int join_cntr_waiter(struct cntr_waiter *waiter)
{
	CHECK_EQ(pthread_join(waiter->thread, NULL), 0);
	return waiter->rc;
}
