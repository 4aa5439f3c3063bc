// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Invalid settings: the value that is used instead, and the one line in the log. fabric(7), fi_tcp(7), fi_shm(7).

#define _GNU_SOURCE

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "log_file.h"

static int entries_of(const char *name)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;
	int rc, count = 0;

	hints->fabric_attr->prov_name = name ? strdup(name) : NULL;
	rc = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &list);
	CHECK(rc == 0 || rc == -FI_ENODATA);
	for (struct fi_info *info = list; info; info = info->next)
		count++;
	fi_freeinfo(list);
	fi_freeinfo(hints);
	return count;
}

static int lines(const char *text)
{
	int count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

// Returns the log at level warn after the program has requested all entries several times.
static const char *complaints(void)
{
	log_to_file("warn");
	for (int i = 0; i < 3; i++)
		entries_of(NULL);
	return logged();
}

// Checks that there is one line, which contains all these parts.
static void check_line(const char *said, const char *const *parts)
{
	EQUAL(lines(said), 1);
	for (; *parts; parts++)
		CHECK(strstr(said, *parts) != NULL);
	if (failures)
		printf("said: %s", said);
}

#define ONE_LINE(said, ...) check_line((said), (const char *const[]){__VA_ARGS__, NULL})

static void unknown_interface(void)
{
	setenv("FI_TCP_IFACE", "eth7x", 1);
	EQUAL(entries_of("tcp"), 0);
	CHECK(entries_of("shm") > 0);
}

static void unknown_interface_line(void)
{
	setenv("FI_TCP_IFACE", "eth7x", 1);
	ONE_LINE(complaints(), "<warn>", "tcp:", "FI_TCP_IFACE", "\"eth7x\"", "lo");
}

// Failures that end a job are logged without a level, too.
static void failure_without_a_level(void)
{
	unsetenv("FI_LOG_LEVEL");
	setenv("FI_TCP_IFACE", "eth7x", 1);
	log_to_file(NULL);
	EQUAL(entries_of("tcp"), 0);
	ONE_LINE(logged(), "<warn>", "FI_TCP_IFACE", "\"eth7x\"", "lo");
}

static void failure_at_level_none(void)
{
	setenv("FI_TCP_IFACE", "eth7x", 1);
	log_to_file("none");
	EQUAL(entries_of("tcp"), 0);
	SAME(logged(), "");
}

static void failures_turned_off(void)
{
	unsetenv("FI_LOG_LEVEL");
	setenv("FI_LOG_FAILURES", "0", 1);
	setenv("FI_TCP_IFACE", "eth7x", 1);
	log_to_file(NULL);
	EQUAL(entries_of("tcp"), 0);
	SAME(logged(), "");
}

static void list_of_interfaces(void)
{
	setenv("FI_TCP_IFACE", "lo,eth0", 1);
	EQUAL(entries_of("tcp"), 0);
}

static void list_of_interfaces_line(void)
{
	setenv("FI_TCP_IFACE", "lo,eth0", 1);
	ONE_LINE(complaints(), "<warn>", "FI_TCP_IFACE", "\"lo,eth0\"", "lo");
}

static void empty_interface(void)
{
	setenv("FI_TCP_IFACE", "", 1);
	SAME(complaints(), "");
	CHECK(entries_of("tcp") > 0);
}

static void unknown_provider(void)
{
	setenv("FI_PROVIDER", "tpc,shm", 1);
	ONE_LINE(complaints(), "<warn>", "core:", "FI_PROVIDER", "no provider is called \"tpc\"", "verbs, ofi_rxm, ofi_rxd, shm, udp, tcp, sockets, off_coll, ofi_mrail, sm2, lnx");
	EQUAL(entries_of("tcp"), 0);
	CHECK(entries_of("shm") > 0);
}

static void unknown_provider_excluded(void)
{
	setenv("FI_PROVIDER", "^tpc", 1);
	ONE_LINE(complaints(), "<warn>", "FI_PROVIDER", "\"tpc\"", "verbs, ofi_rxm, ofi_rxd, shm, udp, tcp, sockets, off_coll, ofi_mrail, sm2, lnx");
	CHECK(entries_of("tcp") > 0);
}

static void no_provider_left(void)
{
	setenv("FI_PROVIDER", "cxi", 1);
	ONE_LINE(complaints(), "<warn>", "FI_PROVIDER=\"cxi\"", "verbs, ofi_rxm, ofi_rxd, shm, udp, tcp, sockets, off_coll, ofi_mrail, sm2, lnx");
	EQUAL(entries_of(NULL), 0);
}

// Number of entries with another address format.
static int others_than(uint32_t format)
{
	struct fi_info *list = NULL;
	int others = 0;

	EQUAL(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &list), 0);
	for (struct fi_info *info = list; info; info = info->next)
		others += info->addr_format != format;
	fi_freeinfo(list);
	return others;
}

// fi_getinfo(3), FI_ADDR_FORMAT: only this format is offered, whatever the case of letters in its name.
static void address_format(void)
{
	struct fi_info *list = NULL;

	setenv("FI_ADDR_FORMAT", "fi_Sockaddr_In", 1);
	EQUAL(others_than(FI_SOCKADDR_IN), 0);
	EQUAL(entries_of("shm"), 0);
	CHECK(entries_of("tcp") > 0);
	EQUAL(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list), 0);
	CHECK(list && list->next);
	fi_freeinfo(list);
}

static void address_format_of_strings(void)
{
	setenv("FI_ADDR_FORMAT", "FI_ADDR_STR", 1);
	EQUAL(others_than(FI_ADDR_STR), 0);
	EQUAL(entries_of("tcp"), 0);
	CHECK(entries_of("shm") > 0);
}

static void address_format_of_nobody(void)
{
	setenv("FI_ADDR_FORMAT", "FI_SOCKADDR", 1);
	EQUAL(entries_of(NULL), 0);
}

static void unknown_address_format(void)
{
	setenv("FI_ADDR_FORMAT", "FI_ADDR_PSMX", 1);
	ONE_LINE(complaints(), "<warn>", "core:", "FI_ADDR_FORMAT=FI_ADDR_PSMX", "no effect", "FI_SOCKADDR_IN6");
	CHECK(entries_of("tcp") > 0 && entries_of("shm") > 0);
}

static void empty_address_format(void)
{
	setenv("FI_ADDR_FORMAT", "", 1);
	SAME(complaints(), "");
	CHECK(entries_of("tcp") > 0 && entries_of("shm") > 0);
}

// Providers of other builds, and variables that have a meaning only there.
static void nothing_wrong(void)
{
	static const char *const fine[][2] = {
		{"FI_PROVIDER", "verbs,efa,tcp;ofi_rxm,shm"},
		{"FI_TCP_IFACE", "lo"},
		{"FI_TCP_PROV_NAME", "tcp"},
		{"FI_TCP_IO_URING", "1"},
		{"FI_TCP_PORT_LOW_RANGE", "20000"},
		{"FI_TCP_PORT_HIGH_RANGE", "0x7000"},
		{"FI_TCP_TX_SIZE", " 100 "},
		{"FI_TCP_RX_SIZE", "-1"},
		{"FI_TCP_MAX_SAVED", "-1"},
		{"FI_TCP_ZEROCOPY_SIZE", "18446744073709551615"},
		{"FI_SHM_USE_DSA_SAR", "yes"},
		{"FI_SHM_USE_XPMEM", "0"},
		{"FI_SHM_MAX_GDRCOPY_SIZE", "0"},
		{"FI_SHM_BUFFER_THRESHOLD", "010"},
		{"FI_SHM_RING_SIZE", "65536"},
		{"FI_EFA_TX_SIZE", "1s"},
		{"FI_HOOK", "perf"},
		{"FI_UNIVERSE_SIZE", "7"},
	};

	for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
		setenv(fine[i][0], fine[i][1], 1);
	SAME(complaints(), "");
}

static void unknown_variables(void)
{
	setenv("FI_TCP_TXSIZE", "secret", 1);
	ONE_LINE(complaints(), "<warn>", "tcp:", "FI_TCP_TXSIZE is no variable of tcp", "fi_info -g tcp",
		 "FI_TCP_TX_SIZE is meant?");
}

static void misspelt_variables(void)
{
	static const char *const names[][2] = {
		{"FI_PROVDER", "FI_PROVIDER"},		 {"FI_HOK", "FI_HOOK"},
		{"FI_UNIVERSE_SZ", "FI_UNIVERSE_SIZE"},	 {"FI_LOG_LEVL", "FI_LOG_LEVEL"},
		{"FI_RXM_TX_SIZE", "FI_OFI_RXM_TX_SIZE"},
	};
	enum { COUNT = sizeof names / sizeof *names };

	for (size_t i = 0; i < COUNT; i++)
		setenv(names[i][0], "1", 1);
	// Variables of other libraries' providers.
	setenv("FI_EFA_FORK_SAFE", "1", 1);
	setenv("FI_OPX_HFI_SELECT", "1", 1);
	const char *said = complaints();

	EQUAL(lines(said), COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		char line[100];

		snprintf(line, sizeof line, "%s is no variable; %s is meant?", names[i][0], names[i][1]);
		CHECK(strstr(said, line));
	}
	if (failures)
		printf("said: %s", said);
}

static void missing_folder_of_providers(void)
{
	setenv("FI_PROVIDER_PATH", "/no/such/folder", 1);
	ONE_LINE(complaints(), "<warn>", "FI_PROVIDER_PATH", "/no/such/folder", "No such file");
}

static void unknown_variables_of_each(void)
{
	setenv("FI_SHM_RING", "1", 1);
	setenv("FI_TCP_iface", "lo", 1);
	setenv("FI_SM2_TX_SIZE", "1", 1);
	const char *said = complaints();

	EQUAL(lines(said), 3);
	CHECK(strstr(said, "FI_SHM_RING is no variable of shm"));
	CHECK(strstr(said, "FI_TCP_iface is no variable of tcp"));
	CHECK(strstr(said, "FI_SM2_TX_SIZE is no variable of sm2"));
}

static void check_value(const char *variable, const char *value, const char *wanted)
{
	char said[200];

	setenv(variable, value, 1);
	snprintf(said, sizeof said, "%s=\"%s\"", variable, value);
	ONE_LINE(complaints(), "<warn>", said, wanted, "default");
}

static void number_with_unit(void)
{
	check_value("FI_TCP_CONN_TIMEOUT", "10s", "number");
}

static void number_in_words(void)
{
	check_value("FI_SHM_TX_SIZE", "abc", "number");
}

static void number_of_nothing(void)
{
	check_value("FI_TCP_MAX_INJECT", "", "number");
}

static void int_out_of_range(void)
{
	check_value("FI_TCP_PEER_TIMEOUT", "99999999999", "number");
}

static void size_out_of_range(void)
{
	check_value("FI_UNIVERSE_SIZE", "-5", "number");
}

static void not_yes_or_no(void)
{
	check_value("FI_TCP_SHARED_MEMORY", "never", "yes or no");
}

static void number_of_the_log(void)
{
	check_value("FI_LOG_INTERVAL", "2s", "number");
}

// The invalid value starts with 100; the default is 8192.
static void default_is_kept(void)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;

	setenv("FI_TCP_MAX_INJECT", "100k", 1);
	hints->fabric_attr->prov_name = strdup("tcp");
	EQUAL(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &list), 0);
	if (list)
		EQUAL(list->tx_attr->inject_size, 8192);
	fi_freeinfo(list);
	fi_freeinfo(hints);
}

static void own_variable(void)
{
	int value = 7;

	log_to_file("warn");
	setenv("FI_MY_PROV_NUMBER", "7 or 8", 1);
	EQUAL(fi_param_define(&provider, "number", FI_PARAM_INT, "an int"), 0);
	for (int i = 0; i < 3; i++)
		EQUAL(fi_param_get(&provider, "number", &value), -FI_EINVAL);
	EQUAL(value, 7);
	ONE_LINE(logged(), "<warn>", "My_Prov:", "FI_MY_PROV_NUMBER=\"7 or 8\"");
}

static void impossible_ports(void)
{
	setenv("FI_TCP_PORT_LOW_RANGE", "5000", 1);
	setenv("FI_TCP_PORT_HIGH_RANGE", "4000", 1);
	ONE_LINE(complaints(), "<warn>", "FI_TCP_PORT_LOW_RANGE=5000", "FI_TCP_PORT_HIGH_RANGE=4000");
}

// The name of the lowest level in other programs.
static void level_error(void)
{
	log_to_file("error");
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CORE), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_TRACE, FI_LOG_CORE), 0);
	fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "that matters");
	SAME(logged(), "My_Prov:core:f():1<warn> that matters\n");
}

static void unknown_level(void)
{
	log_to_file("verbose");
	setenv("FI_LOG_SUBSYS", "cq,ep", 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CQ), 1);
	EQUAL(fi_log_enabled(&provider, FI_LOG_TRACE, FI_LOG_CQ), 0);
	const char *said = logged();

	EQUAL(lines(said), 2);
	CHECK(strstr(said, "FI_LOG_LEVEL=\"verbose\" is no level and means warn"));
	CHECK(strstr(said, "FI_LOG_SUBSYS: \"ep\" is no subsystem"));
}

// The value of a variable, or the name of an endpoint, cannot add lines to the log and cannot move a terminal's cursor.
static void control_characters(void)
{
	setenv("FI_TCP_IFACE", "x\nlibfabric:1:1::core:core:main():1<warn> fine\x1b[1A\r", 1);
	setenv("FI_TCP_BAD\x1b[2J", "1", 1);
	const char *said = complaints();

	EQUAL(lines(said), 2);
	CHECK(!strpbrk(said, "\x1b\r"));
	CHECK(strstr(said, "\\n"));
	CHECK(strstr(said, "FI_TCP_BAD\\x1b[2J"));
}

static const struct test tests[] = {
	TEST(unknown_interface),
	TEST(unknown_interface_line),
	TEST(failure_without_a_level),
	TEST(failure_at_level_none),
	TEST(failures_turned_off),
	TEST(list_of_interfaces),
	TEST(list_of_interfaces_line),
	TEST(empty_interface),
	TEST(unknown_provider),
	TEST(unknown_provider_excluded),
	TEST(address_format), TEST(address_format_of_strings), TEST(address_format_of_nobody),
	TEST(unknown_address_format), TEST(empty_address_format), TEST(no_provider_left),
	TEST(nothing_wrong),
	TEST(unknown_variables),
	TEST(unknown_variables_of_each),
	TEST(misspelt_variables),
	TEST(missing_folder_of_providers),
	TEST(number_with_unit),
	TEST(number_in_words),
	TEST(number_of_nothing),
	TEST(int_out_of_range),
	TEST(size_out_of_range),
	TEST(not_yes_or_no),
	TEST(number_of_the_log),
	TEST(default_is_kept),
	TEST(own_variable),
	TEST(impossible_ports),
	TEST(level_error),
	TEST(unknown_level),
	TEST(control_characters),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
