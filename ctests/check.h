// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Checks that go on after a failure, and tests that run in a process of their own each, without FI_ variables from
// outside.

#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
#define EQUAL(value, wanted) equal((long long) (value), (long long) (wanted), #value, __FILE__, __LINE__)
#define SAME(text, wanted) same((text), (wanted), #text, __FILE__, __LINE__)

static inline void check(bool holds, const char *what, const char *file, int line)
{
	if (!holds) {
		printf("%s:%d: not so: %s\n", file, line, what);
		failures++;
	}
}

static inline void equal(long long value, long long wanted, const char *what, const char *file, int line)
{
	if (value != wanted) {
		printf("%s:%d: %s is %lld, not %lld\n", file, line, what, value, wanted);
		failures++;
	}
}

static inline void same(const char *text, const char *wanted, const char *what, const char *file, int line)
{
	if (!text || strcmp(text, wanted)) {
		printf("%s:%d: %s is '%s', not '%s'\n", file, line, what, text ? text : "(null)", wanted);
		failures++;
	}
}

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST(function) {#function, function}
// All tests of the program, or those that its arguments name.
#define RUN_TESTS(tests, argc, argv) run_tests(tests, sizeof(tests) / sizeof *(tests), argc, argv)

static inline bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], name))
			return true;
	}
	return argc == 1;
}

static int run_tests(const struct test *tests, size_t count, int argc, char **argv)
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
	for (size_t i = 0; i < count; i++) {
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

#endif
