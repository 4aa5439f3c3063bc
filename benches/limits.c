// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! limits: values that no library can exceed on this machine at this moment. On two processors, core 0 and core 1:
//!
//! limits line: nanoseconds for the transfer of a cache line from one core to the other, half of a round trip between
//! two threads. The value shows the distance of the cores, which a virtual machine may change between runs.
//! limits memcpy BYTES...: bytes per second that one core copies, always between the same two buffers.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 200000
#define COPIED (UINT64_C(1) << 30)

struct line {
	_Alignas(64) _Atomic long number;
};

static struct line ping, pong;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void pass(const struct line *from, struct line *to, long number)
{
	while (atomic_load_explicit(&from->number, memory_order_acquire) != number)
		;
	atomic_store_explicit(&to->number, number, memory_order_release);
}

static void *answer(void *unused)
{
	pin(1);
	for (long i = 1; i <= ROUNDS; i++)
		pass(&ping, &pong, i);
	return unused;
}

static int line(void)
{
	pthread_t thread;
	double start;

	if (pthread_create(&thread, NULL, answer, NULL))
		return 1;
	start = now();
	for (long i = 1; i <= ROUNDS; i++) {
		atomic_store_explicit(&ping.number, i, memory_order_release);
		while (atomic_load_explicit(&pong.number, memory_order_acquire) != i)
			;
	}
	printf("line 1 %.1f\n", (now() - start) / ROUNDS / 2 * 1e9);
	return pthread_join(thread, NULL);
}

static int copies(size_t size)
{
	char *from = malloc(size), *to = malloc(size);
	size_t count = COPIED / size;
	double start;

	if (!from || !to)
		return 1;
	memset(from, 1, size);
	memset(to, 2, size);
	start = now();
	for (size_t i = 0; i < count; i++) {
		memcpy(to, from, size);
		// Keeps the compiler from dropping a copy that the next one repeats.
		__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
	}
	printf("memcpy %zu %.4g\n", size, count * size / (now() - start));
	free(from);
	free(to);
	return 0;
}

int main(int argc, char **argv)
{
	int code = 0;

	pin(0);
	if (argc == 2 && !strcmp(argv[1], "line"))
		return line();
	if (argc < 3 || strcmp(argv[1], "memcpy")) {
		fprintf(stderr, "usage: limits line | limits memcpy BYTES...\n");
		return 2;
	}
	for (int i = 2; i < argc && !code; i++) {
		unsigned long size = strtoul(argv[i], NULL, 0);

		if (!size || size > COPIED)
			return 2;
		code = copies(size);
	}
	return code;
}
