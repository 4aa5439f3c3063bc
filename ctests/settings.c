// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Settings that cannot be meant: what becomes of them, and the one line that says so. fabric(7), fi_tcp(7), fi_shm(7).

#define _GNU_SOURCE

#include <rdma/fabric.h>
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

// What the log at level warn says while a program asks for everything, several times.
static const char *complaints(void)
{
	log_to_file("warn");
	for (int i = 0; i < 3; i++)
		entries_of(NULL);
	return logged();
}

// One line that has all these parts.
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

static const struct test tests[] = {
	TEST(unknown_interface),
	TEST(unknown_interface_line),
	TEST(list_of_interfaces),
	TEST(list_of_interfaces_line),
	TEST(empty_interface),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
