// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The log as a provider uses it: fi_provider(3), and the logging chapter of fabric(7).

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <rdma/fabric.h>

#include "log_file.h"

static struct fi_provider nameless = {.version = FI_VERSION(1, 0), .fi_version = FI_VERSION(2, 6)};

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

// The kernel would kill a process whose log exceeds the file size limit.
static void log_file_limit(void)
{
	struct rlimit limit;
	int shown = 0;

	log_to_file("warn");
	fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "first");
	EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 1000;
	EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int i = 0; i < 100; i++)
		fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "one more");
	limit.rlim_cur = limit.rlim_max;
	EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (const char *at = logged(); (at = strstr(at, "one more\n")); at++)
		shown++;
	CHECK(shown > 3 && shown < 20);
}

static bool copy_itself(const char *path)
{
	char bytes[65536];
	int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
	ssize_t n;

	while ((n = read(from, bytes, sizeof bytes)) > 0) {
		if (write(to, bytes, (size_t) n) != n)
			return false;
	}
	return !n && !close(from) && !close(to);
}

// Runs a copy of this program with more rights than its user. It must not create a file that the user names.
static void log_of_privileged(void)
{
	char path[64], target[64];
	struct stat status;
	int result;

	if (geteuid()) {
		printf("log_of_privileged: only root can try\n");
		return;
	}
#ifdef __SANITIZE_ADDRESS__
	printf("log_of_privileged: the sanitizer does not run in set-user-ID programs\n");
	return;
#endif
	snprintf(path, sizeof path, "/var/tmp/fabric-setuid-%d", (int) getpid());
	snprintf(target, sizeof target, "/tmp/fabric-log-of-setuid-%d", (int) getpid());
	unlink(path);
	CHECK(copy_itself(path));
	EQUAL(chown(path, 65534, 65534), 0);
	EQUAL(chmod(path, 04755), 0);
	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_LOCATION", target, 1);
	if (fork() == 0) {
		freopen("/dev/null", "w", stderr);
		execl(path, path, "--privileged", NULL);
		_exit(99);
	}
	wait(&result);
	unlink(path);
	if (WEXITSTATUS(result) == 77)
		printf("log_of_privileged: this file system has no set-user-ID programs\n");
	else
		EQUAL(result, 0);
	CHECK(stat(target, &status) < 0);
	unlink(target);
}

// The part of that copy.
static int privileged(void)
{
	if (!getauxval(AT_SECURE))
		return 77;
	fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "from a program with more rights");
	return 0;
}

static const struct test tests[] = {
	TEST(log_arguments),
	TEST(log_lines),
	TEST(log_long_line),
	TEST(log_off),
	TEST(log_filters),
	TEST(log_repeated),
	TEST(log_always_ready),
	TEST(log_file_exists),
	TEST(log_file_limit),
	TEST(log_of_privileged),
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--privileged"))
		return privileged();
	return RUN_TESTS(tests, argc, argv);
}
