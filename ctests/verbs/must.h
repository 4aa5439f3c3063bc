// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Checks that end the process.

#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#define FAIL(...) \
	do { \
		printf("%s:%d: ", __FILE__, __LINE__); \
		printf(__VA_ARGS__); \
		puts(""); \
		exit(1); \
	} while (0)
#define CHECK(cond) \
	do { \
		if (!(cond)) \
			FAIL("not so: %s", #cond); \
	} while (0)
#define RC(call, expected) \
	do { \
		long rc_ = (call), want_ = (expected); \
		if (rc_ != want_) \
			FAIL("%s gave %ld, not %ld", #call, rc_, want_); \
	} while (0)
#define OK(call) RC(call, 0)

#endif
