// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The services of the library's core from C: variables, log, texts of errors, named services. fi_provider(3),
// fi_errno(3), fi_fabric(3), and the logging chapter of fabric(7).
//
// Each test is a process of its own, with the environment that it wants. Usage: services [NAME...]

#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

static int failures;

#define POINTER_BEFORE ((struct fid *) (uintptr_t) 9)

#define CHECK(condition) check((condition), #condition, __LINE__)
#define EQUAL(value, wanted) equal((long long) (value), (long long) (wanted), #value, __LINE__)
#define SAME(text, wanted) same((text), (wanted), #text, __LINE__)

static void check(bool holds, const char *what, int line)
{
	if (!holds) {
		printf("services.c:%d: not so: %s\n", line, what);
		failures++;
	}
}

static void equal(long long value, long long wanted, const char *what, int line)
{
	if (value != wanted) {
		printf("services.c:%d: %s is %lld, not %lld\n", line, what, value, wanted);
		failures++;
	}
}

static void same(const char *text, const char *wanted, const char *what, int line)
{
	if (!text || strcmp(text, wanted)) {
		printf("services.c:%d: %s is '%s', not '%s'\n", line, what, text ? text : "(null)", wanted);
		failures++;
	}
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(2, 6),
	.name = "My_Prov",
};
static struct fi_provider nameless = {.version = FI_VERSION(1, 0), .fi_version = FI_VERSION(2, 6)};

static int get(const char *name, void *value)
{
	return fi_param_get(&provider, name, value);
}

// --- variables

static void param_arguments(void)
{
	struct fi_param *list;
	int count;
	int value = 7;

	EQUAL(fi_getparams(NULL, &count), -FI_EINVAL);
	EQUAL(fi_getparams(&list, NULL), -FI_EINVAL);
	EQUAL(fi_getparams(NULL, NULL), -FI_EINVAL);
	fi_freeparams(NULL);
	EQUAL(fi_param_define(&provider, NULL, FI_PARAM_INT, "help"), -FI_EINVAL);
	EQUAL(fi_param_define(&provider, "x", FI_PARAM_INT, NULL), -FI_EINVAL);
	EQUAL(fi_param_define(&provider, "x", FI_PARAM_INT, "%s", ""), -FI_EINVAL);
	EQUAL(fi_param_define(&provider, "x", (enum fi_param_type) 4, "help"), -FI_EINVAL);
	EQUAL(fi_param_define(&provider, "x", (enum fi_param_type) -1, "help"), -FI_EINVAL);
	EQUAL(fi_param_define(&nameless, "x", FI_PARAM_INT, "help"), -FI_EINVAL);
	EQUAL(get("x", &value), -FI_ENOENT);
	EQUAL(get(NULL, &value), -FI_EINVAL);
	EQUAL(fi_param_get(&nameless, "x", &value), -FI_EINVAL);
	EQUAL(fi_param_get(NULL, NULL, NULL), -FI_EINVAL);
	EQUAL(fi_param_define(&provider, "x", FI_PARAM_INT, "help"), 0);
	EQUAL(get("x", NULL), -FI_EINVAL);
	EQUAL(get("x", &value), -FI_ENODATA);
	EQUAL(get("X", &value), -FI_ENOENT);
	EQUAL(fi_param_get(NULL, "x", &value), -FI_ENOENT);
	EQUAL(fi_param_get(NULL, "my_prov_x", &value), -FI_ENOENT);
	EQUAL(value, 7);
}

static void param_values(void)
{
	char *string = "before";
	char *again;
	int number = 7, truth = 7;
	size_t size = 7;

	EQUAL(fi_param_define(&provider, "string", FI_PARAM_STRING, "a string"), 0);
	EQUAL(fi_param_define(&provider, "int", FI_PARAM_INT, "an int"), 0);
	EQUAL(fi_param_define(&provider, "bool", FI_PARAM_BOOL, "a bool"), 0);
	EQUAL(fi_param_define(&provider, "size", FI_PARAM_SIZE_T, "a size"), 0);
	EQUAL(fi_param_define(NULL, "my_core", FI_PARAM_INT, "an int of the library"), 0);
	EQUAL(get("string", &string), -FI_ENODATA);
	SAME(string, "before");

	setenv("FI_MY_PROV_STRING", " a b ", 1);
	setenv("FI_MY_PROV_INT", "0x7fffffff", 1);
	setenv("FI_MY_PROV_BOOL", "Yes", 1);
	setenv("FI_MY_PROV_SIZE", "-1", 1);
	setenv("FI_MY_CORE", "-010", 1);
	EQUAL(get("string", &string), 0);
	SAME(string, " a b ");
	EQUAL(get("int", &number), 0);
	EQUAL(number, INT_MAX);
	EQUAL(get("bool", &truth), 0);
	EQUAL(truth, 1);
	EQUAL(get("size", &size), 0);
	CHECK(size == SIZE_MAX);
	EQUAL(fi_param_get(NULL, "my_core", &number), 0);
	EQUAL(number, -8);

	setenv("FI_MY_PROV_BOOL", "yess", 1);
	EQUAL(get("bool", &truth), -FI_EINVAL);
	EQUAL(truth, 1);

	// A string that was given stays, whatever happens to the environment.
	setenv("FI_MY_PROV_STRING", "", 1);
	EQUAL(get("string", &again), 0);
	SAME(again, "");
	SAME(string, " a b ");
}

static const struct fi_param *find(const struct fi_param *list, int count, const char *name)
{
	for (int i = 0; i < count; i++) {
		if (!strcmp(list[i].name, name))
			return &list[i];
	}
	return NULL;
}

static void param_list(void)
{
	char help[5000], name[3000], wanted[5100];
	struct fi_param *list = NULL;
	const struct fi_param *entry;
	int count = -1;

	memset(help, 'h', sizeof help - 1);
	help[sizeof help - 1] = 0;
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	setenv("FI_MY_PROV_GIVEN", "value=\xff", 1);
	EQUAL(fi_param_define(&provider, "given", FI_PARAM_STRING, "%s %d%% %.1f", "of", 7, 2.5), 0);
	EQUAL(fi_param_define(&provider, "long", FI_PARAM_SIZE_T, "%s", help), 0);
	EQUAL(fi_param_define(&provider, name, FI_PARAM_BOOL, "long name"), 0);
	// More arguments of each kind than there are registers for them.
	EQUAL(fi_param_define(&provider, "many", FI_PARAM_INT, "%d %d %d %d %ld %c %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %s",
			      1, 2, 3, 4, 1L << 40, 'x', 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, "end"), 0);
	EQUAL(fi_getparams(&list, &count), 0);
	CHECK(count > 40);
	CHECK(list[count].name == NULL && list[count].help_string == NULL && list[count].value == NULL);
	SAME(list[0].name, "FI_PREFER_SYSCONFIG");

	entry = find(list, count, "FI_MY_PROV_GIVEN");
	CHECK(entry != NULL);
	if (entry) {
		EQUAL(entry->type, FI_PARAM_STRING);
		SAME(entry->help_string, "My_Prov: of 7% 2.5");
		SAME(entry->value, "value=\xff");
	}
	entry = find(list, count, "FI_MY_PROV_LONG");
	CHECK(entry != NULL);
	if (entry) {
		snprintf(wanted, sizeof wanted, "My_Prov: %s", help);
		EQUAL(entry->type, FI_PARAM_SIZE_T);
		SAME(entry->help_string, wanted);
		CHECK(entry->value == NULL);
	}
	snprintf(wanted, sizeof wanted, "FI_MY_PROV_%s", name);
	for (char *c = wanted; *c; c++)
		*c = *c == 'n' ? 'N' : *c;
	CHECK(find(list, count, wanted) != NULL);
	entry = find(list, count, "FI_MY_PROV_MANY");
	CHECK(entry != NULL);
	if (entry)
		SAME(entry->help_string, "My_Prov: 1 2 3 4 1099511627776 x 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5 end");
	fi_freeparams(list);
}

// The variables that release 2.6.0 has too, in its order and with its types, and behind those of tcp our own.
static void param_order(void)
{
	static const struct {
		const char *name;
		enum fi_param_type type;
	} wanted[] = {
		{"FI_PREFER_SYSCONFIG", FI_PARAM_BOOL},
		{"FI_LOG_INTERVAL", FI_PARAM_INT},
		{"FI_LOG_LEVEL", FI_PARAM_STRING},
		{"FI_LOG_PROV", FI_PARAM_STRING},
		{"FI_LOG_SUBSYS", FI_PARAM_STRING},
		{"FI_LOG_LOCATION", FI_PARAM_STRING},
		{"FI_LOG_LOCATION_MODE", FI_PARAM_INT},
		{"FI_PERF_CNTR", FI_PARAM_STRING},
		{"FI_HOOK", FI_PARAM_STRING},
		{"FI_HMEM", FI_PARAM_STRING},
		{"FI_HMEM_DISABLE_P2P", FI_PARAM_BOOL},
		{"FI_MR_CACHE_MAX_SIZE", FI_PARAM_SIZE_T},
		{"FI_MR_CACHE_MAX_COUNT", FI_PARAM_SIZE_T},
		{"FI_MR_CACHE_MONITOR", FI_PARAM_STRING},
		{"FI_MR_CUDA_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL},
		{"FI_MR_ROCR_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL},
		{"FI_MR_ZE_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL},
		{"FI_PROVIDER", FI_PARAM_STRING},
		{"FI_FORK_UNSAFE", FI_PARAM_BOOL},
		{"FI_UNIVERSE_SIZE", FI_PARAM_SIZE_T},
		{"FI_AV_REMOVE_CLEANUP", FI_PARAM_BOOL},
		{"FI_OFFLOAD_COLL_PROVIDER", FI_PARAM_STRING},
		{"FI_PROVIDER_PATH", FI_PARAM_STRING},
		{"FI_TCP_PROV_NAME", FI_PARAM_STRING},
		{"FI_TCP_IFACE", FI_PARAM_STRING},
		{"FI_TCP_PORT_LOW_RANGE", FI_PARAM_INT},
		{"FI_TCP_PORT_HIGH_RANGE", FI_PARAM_INT},
		{"FI_TCP_TX_SIZE", FI_PARAM_SIZE_T},
		{"FI_TCP_RX_SIZE", FI_PARAM_SIZE_T},
		{"FI_TCP_MAX_INJECT", FI_PARAM_SIZE_T},
		{"FI_TCP_MAX_SAVED", FI_PARAM_INT},
		{"FI_TCP_MAX_SAVED_SIZE", FI_PARAM_SIZE_T},
		{"FI_TCP_MAX_RX_SIZE", FI_PARAM_SIZE_T},
		{"FI_TCP_NODELAY", FI_PARAM_BOOL},
		{"FI_TCP_STAGING_SBUF_SIZE", FI_PARAM_INT},
		{"FI_TCP_PREFETCH_RBUF_SIZE", FI_PARAM_INT},
		{"FI_TCP_ZEROCOPY_SIZE", FI_PARAM_SIZE_T},
		{"FI_TCP_TRACE_MSG", FI_PARAM_BOOL},
		{"FI_TCP_DISABLE_AUTO_PROGRESS", FI_PARAM_BOOL},
		{"FI_TCP_IO_URING", FI_PARAM_BOOL},
		{"FI_TCP_FIREWALL_ADDR", FI_PARAM_BOOL},
		{"FI_TCP_CONN_TIMEOUT", FI_PARAM_INT},
		{"FI_TCP_MAX_SAVED_BYTES", FI_PARAM_SIZE_T},
	};
	struct fi_param *list;
	int count, at = 0;

	setenv("FI_UNIVERSE_SIZE", "12", 1);
	EQUAL(fi_getparams(&list, &count), 0);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		// Variables of other providers may stand between the groups.
		while (at < count && strcmp(list[at].name, wanted[i].name))
			at++;
		CHECK(at < count);
		if (at == count) {
			printf("%s is not there, or not in its place\n", wanted[i].name);
			break;
		}
		EQUAL(list[at].type, wanted[i].type);
		CHECK(list[at].help_string[0] != 0);
		if (!strcmp(list[at].name, "FI_UNIVERSE_SIZE"))
			SAME(list[at].value, "12");
	}
	fi_freeparams(list);
}

// --- log

static char log_file[64];

static void log_to_file(const char *level)
{
	snprintf(log_file, sizeof log_file, "/tmp/services-log-%d", (int) getpid());
	unlink(log_file);
	if (level)
		setenv("FI_LOG_LEVEL", level, 1);
	setenv("FI_LOG_LOCATION", log_file, 1);
}

// What the log holds by now, without "libfabric:PID:SECONDS::" at the begin of each line.
static const char *logged(void)
{
	static char lines[65536];
	char line[32768], begin[64];
	FILE *file = fopen(log_file, "r");
	size_t length = 0;

	lines[0] = 0;
	CHECK(file != NULL);
	snprintf(begin, sizeof begin, "libfabric:%d:", (int) getpid());
	while (file && fgets(line, sizeof line, file)) {
		char *rest = strstr(line, "::");

		CHECK(!strncmp(line, begin, strlen(begin)));
		CHECK(rest && strspn(line + strlen(begin), "0123456789") == (size_t) (rest - line) - strlen(begin));
		if (rest)
			length += snprintf(lines + length, sizeof lines - length, "%s", rest + 2);
	}
	if (file)
		fclose(file);
	unlink(log_file);
	return lines;
}

static void log_arguments(void)
{
	uint64_t time = 0;

	log_to_file("debug");
	EQUAL(fi_log_enabled(NULL, FI_LOG_WARN, FI_LOG_CORE), 0);
	EQUAL(fi_log_ready(NULL, FI_LOG_WARN, FI_LOG_CORE, &time), 0);
	EQUAL(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CORE, NULL), 0);
	EQUAL(time, 0);
	for (int number = 4; number < 100; number += 19) {
		EQUAL(fi_log_enabled(&provider, (enum fi_log_level) number, FI_LOG_CORE), 0);
		EQUAL(fi_log_enabled(&provider, (enum fi_log_level) -number, FI_LOG_CORE), 0);
		EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, (enum fi_log_subsys) (number + 6)), 0);
		EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, (enum fi_log_subsys) -number), 0);
	}
	EQUAL(fi_log_enabled(&nameless, FI_LOG_WARN, FI_LOG_CORE), 1);
	fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "f", 1, NULL);
	fi_log(NULL, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "nobody");
	fi_log(&nameless, FI_LOG_WARN, FI_LOG_CORE, NULL, -1, "nameless");
	fi_log(&provider, (enum fi_log_level) 9, (enum fi_log_subsys) 99, "f", 2, "numbers");
	SAME(logged(),
	     "(null):core:f():1<warn> nobody\n"
	     "(null):core:(null)():-1<warn> nameless\n"
	     "My_Prov:Unknown:f():2<Unknown> numbers\n");
}

static void log_lines(void)
{
	static char big[20001], wanted[20100];
	struct stat status;

	memset(big, 'b', sizeof big - 1);
	log_to_file("info");
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_MR), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_TRACE, FI_LOG_EP_DATA), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_INFO, FI_LOG_CNTR), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_DEBUG, FI_LOG_CORE), 0);
	fi_log(&provider, FI_LOG_INFO, FI_LOG_EP_CTRL, "func", 42,
	       "%d %s %.3f %ld %c %.1f %s %d %d %d %d %d %.2f %g %g %g %g %g %g %g\n", 7, "str", 3.25, 1L << 40, 'x', 2.5,
	       "more", 1, 2, 3, 4, 5, 9.75, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0);
	fi_log(&provider, FI_LOG_DEBUG, FI_LOG_CQ, "func", 43, "no newline, and not asked whether it is wanted");
	errno = 4711;
	FI_WARN(&provider, FI_LOG_AV, "by the macro: %s\n", strerror(EINVAL));
	EQUAL(errno, 4711);
	FI_LOG(&provider, FI_LOG_DEBUG, FI_LOG_AV, "not wanted\n");
	EQUAL(stat(log_file, &status), 0);
	EQUAL(status.st_mode & 0777, 0600);
	snprintf(wanted, sizeof wanted,
		 "My_Prov:ep_ctrl:func():42<info> 7 str 3.250 1099511627776 x 2.5 more 1 2 3 4 5 9.75 1 2 3 4 5 6 7\n"
		 "My_Prov:cq:func():43<debug> no newline, and not asked whether it is wanted\n"
		 "My_Prov:av:log_lines():%d<warn> by the macro: Invalid argument\n", __LINE__ - 8);
	SAME(logged(), wanted);
}

static void log_long_line(void)
{
	static char big[20001], wanted[20100];

	memset(big, 'b', sizeof big - 1);
	log_to_file("warn");
	fi_log(&provider, FI_LOG_WARN, FI_LOG_FABRIC, "f", 1, "%s", big);
	snprintf(wanted, sizeof wanted, "My_Prov:fabric:f():1<warn> %s\n", big);
	SAME(logged(), wanted);
}

static void log_off(void)
{
	uint64_t time = 0;

	log_to_file(NULL);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CORE), 0);
	EQUAL(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CORE, &time), 0);
	EQUAL(time, 0);
	FI_WARN(&provider, FI_LOG_CORE, "not wanted\n");
	SAME(logged(), "");
}

static void log_filters(void)
{
	log_to_file("warn");
	setenv("FI_LOG_PROV", "^other,MY_prov", 1);
	setenv("FI_LOG_SUBSYS", "cq,EQ", 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ), 0);
	provider.name = "third";
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_EQ), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CORE), 0);
	SAME(logged(), "");
}

static void log_repeated(void)
{
	uint64_t first = 0, second = 0, unwanted = 0;
	int shown = 0;

	log_to_file("warn");
	setenv("FI_LOG_INTERVAL", "3600000", 1);
	for (int i = 0; i < 10; i++)
		shown += fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CORE, &first);
	EQUAL(shown, 1);
	CHECK(first != 0);
	EQUAL(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CORE, &second), 1);
	EQUAL(fi_log_ready(&provider, FI_LOG_INFO, FI_LOG_CORE, &unwanted), 0);
	EQUAL(unwanted, 0);
	for (int i = 0; i < 10; i++)
		FI_WARN_SPARSE(&provider, FI_LOG_CORE, "once\n");
	const char *lines = logged();
	CHECK(strstr(lines, "<warn> once\n") && !strstr(strstr(lines, "once") + 1, "once"));
}

static void log_always_ready(void)
{
	uint64_t time = 0;

	log_to_file("warn");
	setenv("FI_LOG_INTERVAL", "-1", 1);
	for (int i = 0; i < 10; i++)
		EQUAL(fi_log_ready(&provider, FI_LOG_WARN, FI_LOG_CORE, &time), 1);
	SAME(logged(), "");
}

static void log_file_exists(void)
{
	int saved = dup(2), ends[2];
	char text[1000] = "";
	FILE *file;

	log_to_file("warn");
	file = fopen(log_file, "w");
	CHECK(file && fputs("old\n", file) >= 0 && fclose(file) == 0);
	EQUAL(pipe(ends), 0);
	dup2(ends[1], 2);
	fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "after that");
	dup2(saved, 2);
	close(ends[1]);
	CHECK(read(ends[0], text, sizeof text - 1) > 0);
	CHECK(strstr(text, log_file) && strstr(text, "exists"));
	CHECK(strstr(text, "My_Prov:core:f():1<warn> after that\n"));
	file = fopen(log_file, "r");
	CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "old\n") && !fgets(text, sizeof text, file));
	fclose(file);
	unlink(log_file);
}

// --- services by name

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

// --- texts

static void error_texts(void)
{
	char texts[FI_ERRNO_MAX - FI_ERRNO_OFFSET][100];

	// The text of a number that the system does not know lasts until the next such question only.
	for (int code = -FI_ERRNO_OFFSET + 1; code < FI_ERRNO_OFFSET; code++) {
		char text[100];

		snprintf(text, sizeof text, "%s", fi_strerror(code));
		SAME(text, strerror(abs(code)));
	}
	for (int code = FI_ERRNO_OFFSET; code < FI_ERRNO_MAX; code++) {
		const char *text = fi_strerror(code);
		char *mine = texts[code - FI_ERRNO_OFFSET];

		CHECK(text && strlen(text) > 3 && strlen(text) < 100);
		CHECK(fi_strerror(-code) == text);
		snprintf(mine, 100, "%s", text);
		CHECK(strcmp(mine, fi_strerror(FI_ERRNO_MAX)) != 0);
		for (int other = FI_ERRNO_OFFSET; other < code; other++)
			CHECK(strcmp(mine, texts[other - FI_ERRNO_OFFSET]) != 0);
	}
	for (int i = 0; i < 5; i++) {
		static const int unknown[] = {FI_ERRNO_MAX, 1000, INT_MAX, INT_MIN, -FI_ERRNO_MAX};

		CHECK(fi_strerror(unknown[i]) && fi_strerror(unknown[i])[0]);
		SAME(fi_strerror(unknown[i]), fi_strerror(FI_ERRNO_MAX));
	}
}

static void text_arguments(void)
{
	char buf[100];
	uint64_t caps = FI_MSG;

	SAME(fi_tostr(NULL, FI_TYPE_VERSION), "2.6.0");
	CHECK(fi_tostr(NULL, FI_TYPE_INFO) == NULL);
	CHECK(fi_tostr(NULL, (enum fi_type) 1000) == NULL);
	CHECK(fi_tostr_r(NULL, 0, &caps, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(NULL, 100, &caps, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(buf, 0, &caps, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(buf, sizeof buf, NULL, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(buf, sizeof buf, &caps, FI_TYPE_CAPS) == buf);
	SAME(buf, "FI_MSG");
	// A buffer that ends where the text does; the byte behind it is not touched.
	buf[8] = '#';
	CHECK(fi_tostr_r(buf, 8, &caps, FI_TYPE_CAPS) == buf);
	SAME(buf, "FI_MSG");
	EQUAL(buf[8], '#');
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"param_arguments", param_arguments},
	{"param_values", param_values},
	{"param_list", param_list},
	{"param_order", param_order},
	{"log_arguments", log_arguments},
	{"log_lines", log_lines},
	{"log_long_line", log_long_line},
	{"log_off", log_off},
	{"log_filters", log_filters},
	{"log_repeated", log_repeated},
	{"log_always_ready", log_always_ready},
	{"log_file_exists", log_file_exists},
	{"open_arguments", open_arguments},
	{"import_log", import_log},
	{"import_log_again", import_log_again},
	{"import_filtered_log", import_filtered_log},
	{"import_hears_library", import_hears_library},
	{"import_monitor", import_monitor},
	{"error_texts", error_texts},
	{"text_arguments", text_arguments},
};

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], name))
			return true;
	}
	return argc == 1;
}

int main(int argc, char **argv)
{
	int failed = 0, run = 0;

	for (char **name = environ; *name; ) {
		if (!strncmp(*name, "FI_", 3)) {
			char *copy = strndup(*name, strcspn(*name, "="));

			unsetenv(copy);
			free(copy);
			name = environ;
		} else {
			name++;
		}
	}
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		int status;
		pid_t child;

		if (!wanted(tests[i].name, argc, argv))
			continue;
		fflush(stdout);
		child = fork();
		if (child == 0) {
			alarm(60);
			tests[i].run();
			exit(failures ? 1 : 0);
		}
		run++;
		waitpid(child, &status, 0);
		if (status) {
			printf("FAILED %s%s\n", tests[i].name, WIFSIGNALED(status) ? ", by a signal" : "");
			failed++;
		}
	}
	printf("%d tests, %d failed\n", run, failed);
	return failed || !run;
}
