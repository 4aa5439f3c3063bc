// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_domain(3), fi_fabric(3): restricting fi_getinfo, which queue gets events, threads beside a domain, objects that
//! keep a domain or fabric open.
#include "harness.h"

#include <pthread.h>

// ---- fi_getinfo restricted to what is open

static void check_all(struct env *t, const char *fabric, const char *domain)
{
	struct fi_info *all = NULL;

	OK(fi_getinfo(t->version, NULL, NULL, 0, t->hints, &all));
	for (struct fi_info *at = all; at; at = at->next) {
		if (fabric)
			CHECK_STR(at->fabric_attr->name, fabric);
		if (domain)
			CHECK_STR(at->domain_attr->name, domain);
	}
	fi_freeinfo(all);
}

TEST(fi_domain, getinfo_of_an_open_domain, EP_ANY, 0, "A domain given to fi_getinfo restricts its output to that domain")
{
	open_domain(t);
	t->hints->domain_attr->domain = t->domain;
	check_all(t, NULL, t->info->domain_attr->name); // a name that domains of several fabrics may have
}

TEST(fi_fabric, getinfo_of_an_open_fabric, EP_ANY, 0, "A fabric given to fi_getinfo restricts its output to that fabric")
{
	open_fabric(t);
	t->hints->fabric_attr->fabric = t->fabric;
	check_all(t, t->info->fabric_attr->name, NULL);
}

TEST(fi_fabric, api_version_is_kept, EP_ANY, 0, "The fabric has the API version that fi_getinfo was called with")
{
	static const uint32_t versions[] = { FI_VERSION(1, 5), FI_VERSION(1, 20), FI_VERSION(2, 0) };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		env_version(t, versions[i]);
		CHECK_EQ(t->info->fabric_attr->api_version, versions[i]);
		open_fabric(t);
		CHECK_EQ(t->fabric->api_version, versions[i]);
		shut(t, &t->fabric->fid);
		t->fabric = NULL;
	}
}

TEST(fi_domain, counter_range_asked_for, EP_ANY, 0, "A counter range asked for is offered, or more, or the entry is not")
{
	uint64_t ranges[] = { 1000, UINT32_MAX, UINT64_MAX };

	for (int i = 0; i < 3; i++) {
		t->hints->domain_attr->max_cntr_value = ranges[i];
		t->hints->domain_attr->max_err_cntr_value = ranges[i];
		if (env_try_info(t) == -FI_ENODATA)
			continue;
		CHECK(t->info && t->info->domain_attr->max_cntr_value >= ranges[i]);
		CHECK(t->info->domain_attr->max_err_cntr_value >= ranges[i]);
	}
}

// ---- Event queues

TEST(fi_domain, endpoint_queue_wins, EP_MSG, FI_MSG, "An endpoint that is bound to a queue of its own reports there, not at the domain's")
{
	struct fid_eq *other = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fi_eq_cm_entry entry;
	uint32_t event;

	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &other->fid, 0));
	PAIR(t); // waits for both FI_CONNECTED at t->eq
	CHECK_RC(fi_eq_read(other, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	OK(fi_shutdown(t->a.ep, 0));
	wait_event(t, t->eq, FI_SHUTDOWN, &entry, sizeof(entry));
	CHECK_RC(fi_eq_read(other, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

struct reader {
	struct fid_eq *eq;
	_Atomic bool stop, wrong;
};

static void *reader_main(void *arg)
{
	struct reader *reader = arg;

	while (!reader->stop) {
		struct fi_eq_cm_entry entry;
		uint32_t event;

		reader->wrong |= fi_eq_read(reader->eq, &event, &entry, sizeof(entry), 0) != -FI_EAGAIN;
	}
	return NULL;
}

// The queue belongs to the fabric, and control calls are thread safe: only the domain's objects belong to one thread.
static void check_beside(struct env *t, bool bind_domain)
{
	struct reader reader = { .eq = open_eq(t, FI_WAIT_NONE, 0) };
	pthread_t threads[3];

	t->hints->domain_attr->threading = FI_THREAD_DOMAIN;
	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	open_domain(t);
	if (bind_domain)
		OK_OR_SKIP(fi_domain_bind(t->domain, &reader.eq->fid, 0));
	open_bound_ep(t, &t->a);
	if (!bind_domain)
		OK_OR_SKIP(fi_ep_bind(t->a.ep, &reader.eq->fid, 0));
	shut(t, &t->a.ep->fid);
	PAIR(t);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, reader_main, &reader), 0);
	for (int round = 0; round < 40; round++) {
		flow_post_recv(t, 0, FLOW_MAX);
		for (unsigned i = 0; i < FLOW_MAX; i++) {
			struct fi_cq_tagged_entry entry;

			flow_post_send(t, i, 1);
			wait_comp(t, t->a.txcq, &entry);
			CHECK(entry.op_context == &t->flow->tx[i]);
			wait_comp(t, t->b.rxcq, &entry);
			CHECK(entry.op_context == &t->flow->rx[i] && filled(t->flow->in[i], FLOW_LEN, i));
		}
	}
	reader.stop = true;
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK(!reader.wrong);
}

TEST(fi_domain, queue_read_beside_a_domain, EP_RDM, FI_MSG, "FI_THREAD_DOMAIN: one thread reads the event queue bound to a domain while another uses the domain")
{
	check_beside(t, true);
}

TEST(fi_domain, queue_read_beside_an_endpoint, EP_RDM, FI_MSG, "FI_THREAD_DOMAIN: one thread reads the event queue bound to an endpoint while another uses the domain")
{
	check_beside(t, false);
}

// ---- Closing

TEST(fi_domain, close_with_poll_set, EP_ANY, FI_MSG, "A domain with an open poll set cannot be closed: -FI_EBUSY")
{
	struct fi_poll_attr attr = { 0 };
	struct fid_poll *set = NULL;

	open_domain(t);
	OK_OR_SKIP(fi_poll_open(t->domain, &attr, &set));
	CHECK_RC(fi_close(&t->domain->fid), -FI_EBUSY);
	OK(fi_close(&set->fid));
	shut(t, &t->domain->fid);
}

TEST(fi_fabric, close_with_wait_set, EP_ANY, FI_MSG, "A fabric with an open wait set cannot be closed: -FI_EBUSY")
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_wait *set = NULL;

	open_fabric(t);
	OK_OR_SKIP(fi_wait_open(t->fabric, &attr, &set));
	CHECK_RC(fi_close(&t->fabric->fid), -FI_EBUSY);
	OK(fi_close(&set->fid));
	shut(t, &t->fabric->fid);
}
