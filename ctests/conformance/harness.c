// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Runs test instances in child processes: registry, outcomes, time limits, captured output.
//!
//! The parent never calls the library, so a child starts without threads and locks of the library.
#define _GNU_SOURCE
#include "fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_PASSED = 0, EXIT_FAILED = 1, EXIT_SKIPPED = 77 };

static struct test *tests;
static int reason_fd = STDERR_FILENO;

// ---- Registry

void test_register(struct test *test)
{
	test->next = tests;
	tests = test;
}

static int by_place(const struct test *x, const struct test *y)
{
	int order = strcmp(x->page, y->page);

	if (!order)
		order = strcmp(x->file, y->file);
	return order ? order : x->line - y->line;
}

struct test *test_list(void)
{
	struct test *sorted = NULL;

	while (tests) {
		struct test *test = tests, **at = &sorted;

		tests = test->next;
		while (*at && by_place(*at, test) < 0)
			at = &(*at)->next;
		test->next = *at;
		*at = test;
	}
	return tests = sorted;
}

// ---- Outcomes, in the child

static void write_reason(const char *place, const char *format, va_list args)
{
	char text[sizeof(((struct result *)0)->reason)];
	int used = snprintf(text, sizeof(text), "%s", place);

	vsnprintf(text + used, sizeof(text) - used, format, args);
	if (write(reason_fd, text, strlen(text)) < 0)
		perror(text);
}

void test_fail(const char *file, int line, const char *format, ...)
{
	const char *base = strrchr(file, '/');
	char place[128];
	va_list args;

	snprintf(place, sizeof(place), "%s:%d: ", base ? base + 1 : file, line);
	va_start(args, format);
	write_reason(place, format, args);
	va_end(args);
	fflush(NULL);
	_exit(EXIT_FAILED);
}

void test_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_reason("", format, args);
	va_end(args);
	_exit(EXIT_SKIPPED);
}

const char *rc_name(long long rc)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
#define NAME(CODE) { CODE, #CODE }
		NAME(FI_ENOENT), NAME(FI_EIO), NAME(FI_E2BIG), NAME(FI_EBADF), NAME(FI_EAGAIN), NAME(FI_ENOMEM),
		NAME(FI_EACCES), NAME(FI_EBUSY), NAME(FI_ENODEV), NAME(FI_EINVAL), NAME(FI_EMFILE), NAME(FI_ENOSPC),
		NAME(FI_ENOSYS), NAME(FI_ENOMSG), NAME(FI_ENODATA), NAME(FI_EOVERFLOW), NAME(FI_EMSGSIZE),
		NAME(FI_ENOPROTOOPT), NAME(FI_EOPNOTSUPP), NAME(FI_EADDRINUSE), NAME(FI_EADDRNOTAVAIL),
		NAME(FI_ENETDOWN), NAME(FI_ENETUNREACH), NAME(FI_ECONNABORTED), NAME(FI_ECONNRESET), NAME(FI_ENOBUFS),
		NAME(FI_EISCONN), NAME(FI_ENOTCONN), NAME(FI_ESHUTDOWN), NAME(FI_ETIMEDOUT), NAME(FI_ECONNREFUSED),
		NAME(FI_EHOSTDOWN), NAME(FI_EHOSTUNREACH), NAME(FI_EALREADY), NAME(FI_EINPROGRESS), NAME(FI_EREMOTEIO),
		NAME(FI_ECANCELED), NAME(FI_EKEYREJECTED), NAME(FI_ENOKEY), NAME(FI_EOTHER), NAME(FI_ETOOSMALL),
		NAME(FI_EOPBADSTATE), NAME(FI_EAVAIL), NAME(FI_EBADFLAGS), NAME(FI_ENOEQ), NAME(FI_EDOMAIN),
		NAME(FI_ENOCQ), NAME(FI_ECRC), NAME(FI_ETRUNC), NAME(FI_ENOAV), NAME(FI_EOVERRUN), NAME(FI_ENORX),
		NAME(FI_ENOMR),
#undef NAME
	};
	static _Thread_local char texts[8][40];
	static _Thread_local unsigned turn;
	char *text = texts[turn++ % 8];

	snprintf(text, sizeof(texts[0]), "%lld", rc);
	for (size_t i = 0; rc < 0 && i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].code == -rc)
			snprintf(text, sizeof(texts[0]), "-%s", names[i].name);
	return text;
}

bool is_checked(void)
{
	return getenv("CONFORMANCE_SLOWER");
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool is_ours(void)
{
	return dlvsym(RTLD_DEFAULT, "fi_cq_open", "FABRIC_RS_1.0") != NULL;
}

bool is_layered(const struct env *t)
{
	return t->prov && (strchr(t->prov, ';') || !strcmp(t->prov, "lnx"));
}

const char *ep_type_name(enum fi_ep_type type)
{
	switch (type) {
	case FI_EP_RDM:
		return "rdm";
	case FI_EP_MSG:
		return "msg";
	case FI_EP_DGRAM:
		return "dgram";
	default:
		return "any";
	}
}

// ---- Children, in the parent

struct child {
	pid_t pid;
	int reason, output;
	size_t index;
	uint64_t deadline;
};

_Noreturn void run_here(const struct instance *instance)
{
	struct env env = {
		.prov = instance->prov,
		.type = instance->type,
		.caps = instance->test->caps,
		.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
		.limit_ms = 10000,
		.next_key = 0x1000,
	};
	const char *slower = getenv("CONFORMANCE_SLOWER"); // a factor for valgrind and sanitizers: see is_checked

	if (slower)
		env.limit_ms *= strtoul(slower, NULL, 10);
	if ((instance->test->where & OURS_ONLY) && !is_ours())
		SKIP("defined by this library only");
	env_run(&env, instance->test);
	exit(EXIT_PASSED); // not _exit: leak checkers run here
}

static struct child child_start(const struct instance *instance, unsigned limit_s)
{
	struct child child = { .output = memfd_create("output", MFD_CLOEXEC) };
	int pipefd[2];

	if (child.output < 0 || pipe(pipefd)) {
		perror("conformance");
		exit(2);
	}
	fflush(NULL);
	child.pid = fork();
	if (child.pid < 0) {
		perror("fork");
		exit(2);
	}
	if (!child.pid) {
		sigset_t chld;

		sigemptyset(&chld);
		sigaddset(&chld, SIGCHLD);
		sigprocmask(SIG_UNBLOCK, &chld, NULL);
		setpgid(0, 0);
		close(pipefd[0]);
		reason_fd = pipefd[1];
		dup2(child.output, STDOUT_FILENO);
		dup2(child.output, STDERR_FILENO);
		run_here(instance);
	}
	setpgid(child.pid, child.pid);
	close(pipefd[1]);
	child.reason = pipefd[0];
	child.deadline = now_ms() + (uint64_t)limit_s * 1000;
	return child;
}

static char *child_output(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = size > 0 ? calloc(1, size + 1) : NULL;

	if (text && pread(fd, text, size, 0) < 0)
		text[0] = '\0';
	return text;
}

static struct result child_end(struct child *child, bool late, unsigned limit_s)
{
	struct result result = { .outcome = FAILED };
	int status = 0;
	ssize_t got;

	kill(-child->pid, SIGKILL); // a child past its limit, and processes that the test started
	waitpid(child->pid, &status, 0);
	got = read(child->reason, result.reason, sizeof(result.reason) - 1);
	result.reason[got < 0 ? 0 : got] = '\0';
	if (late)
		snprintf(result.reason, sizeof(result.reason), "hangs: killed after %u s", limit_s);
	else if (WIFSIGNALED(status))
		snprintf(result.reason, sizeof(result.reason), "killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == EXIT_PASSED)
		result.outcome = PASSED;
	else if (WEXITSTATUS(status) == EXIT_SKIPPED)
		result.outcome = SKIPPED;
	else if (WEXITSTATUS(status) != EXIT_FAILED || !result.reason[0])
		snprintf(result.reason, sizeof(result.reason), "exit status %d (a checker's report?)",
			 WEXITSTATUS(status));
	result.output = child_output(child->output);
	close(child->output);
	close(child->reason);
	return result;
}

// Waits until a child has ended (it stays to be reaped) or exceeded its time. Returns its index in the list.
static unsigned next_child(struct child *children, unsigned count, bool *late)
{
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		uint64_t now = now_ms(), first = UINT64_MAX;
		struct timespec wait = { 0 };

		for (unsigned i = 0; i < count; i++) {
			siginfo_t ended = { .si_pid = 0 };

			waitid(P_PID, children[i].pid, &ended, WEXITED | WNOHANG | WNOWAIT);
			*late = ended.si_pid != children[i].pid;
			if (!*late || now >= children[i].deadline)
				return i;
			if (children[i].deadline < first)
				first = children[i].deadline;
		}
		wait.tv_sec = (first - now) / 1000;
		wait.tv_nsec = (first - now) % 1000 * 1000000;
		sigtimedwait(&chld, NULL, &wait); // blocked since run_all began
	}
}

// Reports in the order of the list, whatever order the children end in.
int run_all(struct instance *list, size_t count, unsigned jobs, unsigned limit_s,
	    void (*report)(const struct instance *, struct result *))
{
	struct child children[64];
	struct result *results = calloc(count, sizeof(*results));
	bool *done = calloc(count, sizeof(*done));
	size_t next = 0, told = 0;
	unsigned running = 0;
	sigset_t chld;

	if (!results || !done)
		return -1;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	if (jobs > 64)
		jobs = 64;
	while (told < count) {
		bool late;
		unsigned which;
		size_t index;

		while (running < jobs && next < count) {
			children[running] = child_start(&list[next], limit_s);
			children[running++].index = next++;
		}
		which = next_child(children, running, &late);
		index = children[which].index;
		results[index] = child_end(&children[which], late, limit_s);
		done[index] = true;
		children[which] = children[--running];
		for (; told < count && done[told]; told++) {
			report(&list[told], &results[told]);
			free(results[told].output);
		}
	}
	free(done);
	free(results);
	return 0;
}

size_t offered(char (*provs)[64], enum fi_ep_type *types, size_t max)
{
	size_t count = 0;
	int pipefd[2], status = 0;
	char line[80];
	FILE *in;
	pid_t pid;

	if (pipe(pipefd) || (pid = fork()) < 0) {
		perror("conformance");
		exit(2);
	}
	if (!pid) {
		struct fi_info *info = NULL;

		close(pipefd[0]);
		fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, NULL, &info);
		for (struct fi_info *at = info; at; at = at->next)
			dprintf(pipefd[1], "%s %d\n", at->fabric_attr->prov_name, (int)at->ep_attr->type);
		fi_freeinfo(info);
		exit(0);
	}
	close(pipefd[1]);
	in = fdopen(pipefd[0], "r");
	while (fgets(line, sizeof(line), in)) {
		char prov[64];
		int type;
		size_t i = 0;

		if (sscanf(line, "%63s %d", prov, &type) != 2)
			continue;
		while (i < count && (strcmp(provs[i], prov) || types[i] != (enum fi_ep_type)type))
			i++;
		if (i == count && count < max) {
			strcpy(provs[count], prov);
			types[count++] = (enum fi_ep_type)type;
		}
	}
	fclose(in);
	waitpid(pid, &status, 0);
	if (status)
		fprintf(stderr, "conformance: fi_getinfo without hints ended with status 0x%x\n", status);
	return count;
}
