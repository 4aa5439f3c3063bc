// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Error texts, and the effect of bad arguments on texts: fi_errno(3), fi_fabric(3). tostr.c has the content of texts.

#define _GNU_SOURCE

#include <limits.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "check.h"

#define TEXT(number) #number
#define DOTTED(major, minor, revision) TEXT(major) "." TEXT(minor) "." TEXT(revision)
#define RELEASE DOTTED(FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_REVISION_VERSION)

static void error_texts(void)
{
	char texts[FI_ERRNO_MAX - FI_ERRNO_OFFSET][100];

	// The text of a number that the system does not define is valid only until the next call for such a number.
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

// Each text contains the name of its error in fi_errno(3).
static void error_names(void)
{
#define NAMED(code) {code, "(" #code ")"}
	static const struct {
		int code;
		const char *name;
	} named[] = {
		NAMED(FI_EOTHER), NAMED(FI_ETOOSMALL), NAMED(FI_EOPBADSTATE), NAMED(FI_EAVAIL), NAMED(FI_EBADFLAGS),
		NAMED(FI_ENOEQ), NAMED(FI_EDOMAIN), NAMED(FI_ENOCQ), NAMED(FI_ECRC), NAMED(FI_ETRUNC), NAMED(FI_ENOKEY),
		NAMED(FI_ENOAV), NAMED(FI_EOVERRUN), NAMED(FI_ENORX), NAMED(FI_ENOMR), NAMED(FI_EFIREWALLADDR),
	};

	EQUAL(sizeof named / sizeof *named, FI_ERRNO_MAX - FI_ERRNO_OFFSET);
	for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
		CHECK(strstr(fi_strerror(named[i].code), named[i].name) != NULL);
		CHECK(strstr(fi_strerror(-named[i].code), named[i].name) != NULL);
	}
}

static void text_arguments(void)
{
	char buf[100];
	uint64_t caps = FI_MSG;

	SAME(fi_tostr(NULL, FI_TYPE_VERSION), RELEASE);
	CHECK(fi_tostr(NULL, FI_TYPE_INFO) == NULL);
	CHECK(fi_tostr(NULL, (enum fi_type) 1000) == NULL);
	CHECK(fi_tostr_r(NULL, 0, &caps, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(NULL, 100, &caps, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(buf, 0, &caps, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(buf, sizeof buf, NULL, FI_TYPE_CAPS) == NULL);
	CHECK(fi_tostr_r(buf, sizeof buf, &caps, FI_TYPE_CAPS) == buf);
	SAME(buf, "FI_MSG");
	// A buffer of exactly the length of the text; the byte behind it is not touched.
	buf[8] = '#';
	CHECK(fi_tostr_r(buf, 8, &caps, FI_TYPE_CAPS) == buf);
	SAME(buf, "FI_MSG");
	EQUAL(buf[8], '#');
}

static const struct test tests[] = {
	TEST(error_texts),
	TEST(error_names),
	TEST(text_arguments),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
