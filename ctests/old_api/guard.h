// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Memory between two pages without access, as close to the second one as its alignment permits. A read or write one
// byte beyond it ends the process with a line that names the struct. The bytes before it in its page are checked at the
// end.

#ifndef OLD_API_GUARD_H
#define OLD_API_GUARD_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARDS = 512, PAGE = 4096, BEFORE = 0x5a };

static struct guard {
	const char *what;
	char *pages; // one page without access, one with, one without
	size_t size;
} guards[GUARDS];
static int guard_count;

// Only functions that a signal handler may call; glibc's snprintf into a local buffer is one.
static void guard_hit(int signal, siginfo_t *info, void *context)
{
	char *at = info->si_addr, line[160];
	int length = 0;

	(void) context;
	for (int i = 0; i < guard_count; i++) {
		char *begin = guards[i].pages + 2 * PAGE - guards[i].size;

		if (at >= guards[i].pages && at < guards[i].pages + 3 * PAGE)
			length = snprintf(line, sizeof(line), "%s: byte %td of %zu was touched\n", guards[i].what,
					  at - begin, guards[i].size);
	}
	if (!length)
		length = snprintf(line, sizeof(line), "signal %d at %p\n", signal, (void *) at);
	if (write(STDOUT_FILENO, line, (size_t) length) < 0)
		_exit(3);
	_exit(2);
}

static void guard_init(void)
{
	struct sigaction action = {.sa_sigaction = guard_hit, .sa_flags = SA_SIGINFO};

	if (sysconf(_SC_PAGESIZE) > PAGE) {
		printf("NOT TRIED here: pages are larger than %d bytes\n", PAGE);
		exit(0);
	}
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

// Allocates `size` bytes, all set to `fill`.
static void *guarded_bytes(const char *what, size_t size, int fill)
{
	char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || size > PAGE || guard_count == GUARDS ||
	    mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE)) {
		perror("guarded memory");
		exit(2);
	}
	guards[guard_count++] = (struct guard) {what, pages, size};
	memset(pages + PAGE, BEFORE, PAGE - size);
	return memset(pages + 2 * PAGE - size, fill, size);
}

static void *guarded_copy_of(const char *what, const void *from, size_t size)
{
	return memcpy(guarded_bytes(what, size, 0), from, size);
}

// Stands for uninitialised memory on a program's stack, which is not zero.
#define GARBAGE 0xa5
#define GUARDED(type) ((type *) guarded_bytes(#type, sizeof(type), 0))
#define GUARDED_GARBAGE(type) ((type *) guarded_bytes(#type, sizeof(type), GARBAGE))
#define GUARDED_COPY(from) ((__typeof__(from)) guarded_copy_of(#from, (from), sizeof(*(from))))
#define GUARDED_ARRAY(type, count) ((type *) guarded_bytes(#type "[" #count "]", (count) * sizeof(type), 0))

// Number of guarded pieces whose preceding bytes have changed.
static int guards_broken(void)
{
	static char before[PAGE];
	int broken = 0;

	memset(before, BEFORE, PAGE);
	for (int i = 0; i < guard_count; i++) {
		if (memcmp(guards[i].pages + PAGE, before, PAGE - guards[i].size)) {
			printf("%s: what is before it was changed\n", guards[i].what);
			broken++;
		}
	}
	return broken;
}

#endif
