// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Variables from C: fi_provider(3). Each test has the environment that it wants.

#define _GNU_SOURCE

#include <limits.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "check.h"

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
		{"FI_HMEM_ZE_COPY_ENGINE", FI_PARAM_STRING},
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
		{"FI_PROVIDER_OPEN", FI_PARAM_STRING},
		{"FI_PROVIDER_TIMEOUT", FI_PARAM_INT},
		{"FI_ADDR_FORMAT", FI_PARAM_STRING},
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
		{"FI_TCP_CONGESTION", FI_PARAM_STRING},
		{"FI_TCP_STAGING_SBUF_SIZE", FI_PARAM_INT},
		{"FI_TCP_PREFETCH_RBUF_SIZE", FI_PARAM_INT},
		{"FI_TCP_ZEROCOPY_SIZE", FI_PARAM_SIZE_T},
		{"FI_TCP_TRACE_MSG", FI_PARAM_BOOL},
		{"FI_TCP_DISABLE_AUTO_PROGRESS", FI_PARAM_BOOL},
		{"FI_TCP_IO_URING", FI_PARAM_BOOL},
		{"FI_TCP_FIREWALL_ADDR", FI_PARAM_BOOL},
		{"FI_TCP_OFFER_ALL", FI_PARAM_BOOL},
		{"FI_TCP_CONN_TIMEOUT", FI_PARAM_INT},
		{"FI_TCP_PEER_TIMEOUT", FI_PARAM_INT},
		{"FI_TCP_OP_TIMEOUT", FI_PARAM_INT},
		{"FI_TCP_STALL_REPORT", FI_PARAM_INT},
		{"FI_TCP_MAX_SAVED_BYTES", FI_PARAM_SIZE_T},
		{"FI_TCP_SHARED_MEMORY", FI_PARAM_BOOL},
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

static const struct test tests[] = {
	TEST(param_arguments),
	TEST(param_values),
	TEST(param_list),
	TEST(param_order),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
