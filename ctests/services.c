// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Services of the library by name, and what is imported into them: fi_open in fi_provider(3), fi_mr(3).

#define _GNU_SOURCE

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "log_file.h"

#define POINTER_BEFORE ((struct fid *) (uintptr_t) 9)

static int asked, answered;
static uint64_t asked_flags;
static char told[30000];

static int log_is_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
			  uint64_t flags)
{
	(void) prov;
	asked++;
	asked_flags = flags;
	return level == FI_LOG_TRACE && subsys == FI_LOG_CQ;
}

static int log_is_ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
			uint64_t flags, uint64_t *showtime)
{
	(void) prov, (void) level, (void) subsys, (void) flags;
	*showtime += 5;
	return 1;
}

static void log_it(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		   int line, const char *msg)
{
	answered++;
	snprintf(told, sizeof told, "%s %d %d %s %d %s", prov->name, level, subsys, func, line, msg);
}

static void log_second(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		       const char *func, int line, const char *msg)
{
	(void) prov, (void) level, (void) subsys, (void) func, (void) line;
	snprintf(told, sizeof told, "second %s", msg);
}

static struct fi_ops_log log_ops = {
	.size = sizeof log_ops,
	.enabled = log_is_enabled,
	.ready = log_is_ready,
	.log = log_it,
};
static struct fid_logging logging = {.fid.fclass = FI_CLASS_LOG, .ops = &log_ops};

static void open_arguments(void)
{
	struct fid *fid = POINTER_BEFORE;
	uint32_t version = FI_VERSION(2, 6);

	EQUAL(fi_open(version, NULL, NULL, 0, 0, &fid, NULL), -FI_EINVAL);
	EQUAL(fi_open(version, "logging", NULL, 0, 0, NULL, NULL), -FI_EINVAL);
	EQUAL(fi_open(version, "", NULL, 0, 0, &fid, NULL), -FI_ENOSYS);
	EQUAL(fi_open(version, "loggin", NULL, 0, 0, &fid, NULL), -FI_ENOSYS);
	EQUAL(fi_open(version, "logging ", NULL, 0, 0, &fid, NULL), -FI_ENOSYS);
	EQUAL(fi_open(FI_VERSION(1, 12), "logging", NULL, 0, 0, &fid, NULL), -FI_EINVAL);
	EQUAL(fi_open(0, "mr_cache", NULL, 0, 0, &fid, NULL), -FI_EINVAL);
	EQUAL(fi_open(version, "logging", &version, sizeof version, 0, &fid, NULL), -FI_EINVAL);
	EQUAL(fi_open(version, "mr_cache", NULL, 1, 0, &fid, NULL), -FI_EINVAL);
	EQUAL(fi_open(version, "logging", NULL, 0, 1, &fid, NULL), -FI_EBADFLAGS);
	EQUAL(fi_open(version, "mr_cache", NULL, 0, UINT64_MAX, &fid, NULL), -FI_EBADFLAGS);
	CHECK(fid == POINTER_BEFORE);

	for (int i = 0; i < 2; i++) {
		EQUAL(fi_open(FI_VERSION(1, 13), i ? "MR_cache" : "Logging", NULL, 0, 0, &fid, &version), 0);
		EQUAL(fid->fclass, i ? FI_CLASS_MR_CACHE : FI_CLASS_LOG);
		CHECK(fid->context == &version);
		EQUAL(fi_control(fid, 12345, &version), -FI_ENOSYS);
		EQUAL(fi_close(fid), 0);
	}
}

static void import_log(void)
{
	struct fid *fid;
	struct fid_logging other = logging;
	struct fi_ops_log other_ops = log_ops;
	uint64_t time = 1;
	uint32_t version = FI_VERSION(2, 6);
	char big[20000];

	log_to_file("warn");
	EQUAL(fi_open(version, "logging", NULL, 0, 0, &fid, NULL), 0);
	EQUAL(fid->ops->bind(fid, NULL, 0), -FI_EINVAL);
	EQUAL(fid->ops->bind(fid, &logging.fid, 1), -FI_EINVAL);
	other.fid.fclass = FI_CLASS_CQ;
	EQUAL(fid->ops->bind(fid, &other.fid, 0), -FI_EINVAL);
	other.fid.fclass = FI_CLASS_LOG;
	other.ops = NULL;
	EQUAL(fid->ops->bind(fid, &other.fid, 0), -FI_EINVAL);
	other.ops = &other_ops;
	other_ops.size = sizeof other_ops - 1;
	EQUAL(fid->ops->bind(fid, &other.fid, 0), -FI_EINVAL);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CORE), 1);
	EQUAL(asked, 0);

	EQUAL(fid->ops->bind(fid, &logging.fid, 0), 0);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ), 0);
	EQUAL(fi_log_enabled(&provider, FI_LOG_TRACE, FI_LOG_CQ), 1);
	EQUAL(asked, 2);
	EQUAL(asked_flags, 0);
	EQUAL(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CQ, &time), 1);
	EQUAL(time, 6);
	fi_log(&provider, FI_LOG_INFO, FI_LOG_EQ, "fn", 5, "%d and %s", 3, "four");
	SAME(told, "My_Prov 2 7 fn 5 3 and four");
	memset(big, 'b', sizeof big - 1);
	big[sizeof big - 1] = 0;
	fi_log(&provider, FI_LOG_INFO, FI_LOG_EQ, "fn", 5, "%s", big);
	EQUAL(strlen(told), sizeof big - 1 + strlen("My_Prov 2 7 fn 5 "));

	// The import lives on when the service is closed; while there is one, the service cannot be opened again.
	EQUAL(fi_close(fid), 0);
	answered = 0;
	fi_log(&provider, FI_LOG_INFO, FI_LOG_EQ, "fn", 5, "closed");
	EQUAL(answered, 1);
	EQUAL(fi_open(version, "logging", NULL, 0, 0, &fid, NULL), -FI_EALREADY);
	EQUAL(fi_import_log(version, 0, &logging), -FI_EALREADY);

	// Closing what was imported gives the log back.
	EQUAL(fi_close(&logging.fid), 0);
	fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "fn", 6, "back");
	EQUAL(answered, 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_TRACE, FI_LOG_CQ), 0);
	SAME(logged(), "My_Prov:core:fn():6<warn> back\n");
	EQUAL(fi_import_log(version, 1, &logging), -FI_EBADFLAGS);
	EQUAL(fi_import_log(version, 0, &logging), 0);
	EQUAL(fi_close(&logging.fid), 0);
}

static void import_log_again(void)
{
	struct fid *fid;
	struct fi_ops_log second_ops = {.size = sizeof second_ops, .log = log_second};
	struct fid_logging second = {.fid.fclass = FI_CLASS_LOG, .ops = &second_ops};
	uint64_t time = 0;

	EQUAL(fi_open(FI_VERSION(2, 6), "logging", NULL, 0, 0, &fid, NULL), 0);
	EQUAL(fid->ops->bind(fid, &logging.fid, 0), 0);
	EQUAL(fid->ops->bind(fid, &second.fid, 0), 0);
	// The last import counts, as the table was; what it leaves out is not wanted.
	memset(&second_ops, 0, sizeof second_ops);
	fi_log(&provider, FI_LOG_INFO, FI_LOG_EQ, "fn", 5, "x");
	SAME(told, "second x");
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ), 0);
	EQUAL(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CQ, &time), 0);
	// Closing the earlier one changes nothing.
	EQUAL(fi_close(&logging.fid), 0);
	fi_log(&provider, FI_LOG_INFO, FI_LOG_EQ, "fn", 5, "y");
	SAME(told, "second y");
	EQUAL(fi_close(&second.fid), 0);
	EQUAL(fi_close(fid), 0);
}

static void import_filtered_log(void)
{
	setenv("FI_LOG_PROV", "tcp", 1);
	EQUAL(fi_import_log(FI_VERSION(2, 6), 0, &logging), 0);
	fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ);
	EQUAL(asked_flags, FI_LOG_PROV_FILTERED);
	provider.name = "tcp";
	fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ);
	EQUAL(asked_flags, 0);
	EQUAL(fi_close(&logging.fid), 0);
}

// The library's own lines arrive too.
static void import_hears_library(void)
{
	struct fi_param *list;
	int count;

	EQUAL(fi_import_log(FI_VERSION(2, 6), 0, &logging), 0);
	EQUAL(fi_getparams(&list, &count), 0);
	CHECK(asked > 0);
	fi_freeparams(list);
	EQUAL(fi_close(&logging.fid), 0);
}

static int monitor_start(struct fid_mem_monitor *monitor)
{
	(void) monitor;
	printf("the monitor was started\n");
	failures++;
	return 0;
}

static void import_monitor(void)
{
	struct fid *fid;
	struct fi_ops_mem_monitor ops = {.size = sizeof ops, .start = monitor_start};
	struct fid_mem_monitor first = {.fid.fclass = FI_CLASS_MEM_MONITOR, .export_ops = &ops};
	struct fid_mem_monitor second = first;

	EQUAL(fi_open(FI_VERSION(2, 6), "mr_cache", NULL, 0, 0, &fid, NULL), 0);
	EQUAL(fid->ops->bind(fid, NULL, 0), -FI_EINVAL);
	EQUAL(fid->ops->bind(fid, &logging.fid, 0), -FI_EINVAL);
	EQUAL(fid->ops->bind(fid, &first.fid, 1), -FI_EINVAL);
	first.export_ops = NULL;
	EQUAL(fid->ops->bind(fid, &first.fid, 0), -FI_EINVAL);
	first.export_ops = &ops;
	ops.size--;
	EQUAL(fid->ops->bind(fid, &first.fid, 0), -FI_EINVAL);
	ops.size++;
	EQUAL(fid->ops->bind(fid, &first.fid, 0), 0);
	EQUAL(fid->ops->bind(fid, &second.fid, 0), -FI_EBUSY);
	EQUAL(first.import_ops->size, sizeof *first.import_ops);
	first.import_ops->notify(&first, &first, sizeof first);
	EQUAL(first.fid.ops->bind(&first.fid, &second.fid, 0), -FI_ENOSYS);
	EQUAL(fi_close(&first.fid), 0);
	EQUAL(fid->ops->bind(fid, &second.fid, 0), 0);
	EQUAL(fi_close(fid), 0);
	EQUAL(fi_close(&second.fid), 0);
	EQUAL(fi_import(FI_VERSION(2, 6), "mr_cache", NULL, 0, 0, &first.fid, NULL), 0);
	EQUAL(fi_close(&first.fid), 0);
	EQUAL(fi_close(&first.fid), 0);
}

static const struct test tests[] = {
	TEST(open_arguments),
	TEST(import_log),
	TEST(import_log_again),
	TEST(import_filtered_log),
	TEST(import_hears_library),
	TEST(import_monitor),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
