// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_provider(3), fi_import_log: callbacks that replace the log. They may call the library.
#include "harness.h"

#include <rdma/fi_ext.h>

enum { RECEIVES = 4, LEN = 32 };

static struct env *env;
static unsigned asked, told, read_from, refused, posted, inside;
static struct fi_context2 rx[RECEIVES], tx[RECEIVES];
static char in[RECEIVES][LEN], out[RECEIVES][LEN];

// Calls that any callback of the application may make: progress, and a receive, on the domain of the log line.
static void call_back(void)
{
	ssize_t rc;

	if (!env->a.ep || !env->a.txcq)
		return;
	rc = fi_cq_read(env->a.txcq, NULL, 0);
	if (rc == -FI_EAGAIN)
		read_from++;
	else if (rc == -FI_EOPBADSTATE)
		refused++;
	if (posted < RECEIVES &&
	    fi_recv(env->a.ep, in[posted], LEN, NULL, FI_ADDR_UNSPEC, &rx[posted]) == 0)
		posted++;
}

static int enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys, uint64_t flags)
{
	(void)prov, (void)level, (void)subsys, (void)flags;
	asked++;
	// Lines that these calls log come here again.
	if (!inside++)
		call_back();
	inside--;
	return 1;
}

static void tell(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		 int line, const char *text)
{
	(void)prov, (void)level, (void)subsys, (void)func, (void)line, (void)text;
	told++;
	if (!inside++)
		call_back();
	inside--;
}

static struct fi_ops_log ops = { .size = sizeof(ops), .enabled = enabled, .log = tell };
static struct fid_logging logging = { .fid.fclass = FI_CLASS_LOG, .ops = &ops };

TEST(fi_provider, log_callbacks_call_back, EP_RELIABLE | OURS_ONLY, FI_MSG, "Callbacks of the log may read queues and post operations of the domain that a line is about")
{
	struct fi_cq_tagged_entry entry;
	void *desc;

	env = t;
	if (is_layered(t))
		SKIP("the lines come from within calls of the layer");
	if (t->info->domain_attr->mr_mode & FI_MR_LOCAL)
		SKIP("buffers are to be registered");
	OK(fi_import_log(FI_VERSION(2, 6), 0, &logging));
	PAIR(t);
	desc = reg_desc(t, out, sizeof(out), FI_SEND);
	flow_run(t, 0, 8);
	CHECK(asked > 0);
	CHECK(told > 0);
	CHECK(read_from > 0);
	CHECK(posted > 0);
	for (unsigned i = 0; i < posted; i++) {
		fill(out[i], LEN, i);
		POST(t, fi_send(t->b.ep, out[i], LEN, desc, t->b.peer, &tx[i]));
		wait_comp(t, t->a.rxcq, &entry);
		CHECK(entry.op_context == &rx[i]);
		CHECK(filled(in[i], LEN, i));
	}
	OK(fi_close(&logging.fid));
}

// Only one thread calls, so the data path of the domain needed no lock before.
TEST(fi_provider, log_callbacks_come_late, EP_RELIABLE | OURS_ONLY, FI_MSG, "Callbacks of the log may use a domain that was busy before they were imported")
{
	struct fi_cq_tagged_entry entry;

	env = t;
	if (t->info->domain_attr->mr_mode & FI_MR_LOCAL)
		SKIP("buffers are to be registered");
	t->hints->domain_attr->threading = FI_THREAD_DOMAIN;
	t->hints->domain_attr->progress = FI_PROGRESS_CONTROL_UNIFIED;
	env_info(t);
	PAIR(t);
	for (int i = 0; i < 8; i++) {
		flow_run(t, 0, FLOW_MAX / 2);
		for (int left = FLOW_MAX / 2; left; left--)
			wait_comp(t, t->b.rxcq, &entry);
	}
	OK(fi_import_log(FI_VERSION(2, 6), 0, &logging));
	// The other end is closed, which progress logs. Closing an endpoint of a layer makes progress, too.
	told = 0;
	shut(t, &t->b.ep->fid);
	t->b.ep = NULL;
	if (!is_layered(t))
		told = 0;
	ONCE(t, fi_cq_read(t->a.rxcq, NULL, 0) != 0 && told > 0 && read_from > 0);
	CHECK_EQ(refused, 0);
	CHECK(posted > 0);
	OK(fi_close(&logging.fid));
}
