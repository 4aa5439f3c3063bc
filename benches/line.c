// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! line: what it takes a line of the cache to get from one of two processors to the other, in nanoseconds: half of a round
//! trip between two threads, on core 0 and core 1. It says how far apart they are at the moment, which a virtual machine
//! changes.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define ROUNDS 500000

struct line {
	_Alignas(64) _Atomic long number;
};

static struct line ping, pong;

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

int main(void)
{
	struct timespec start, end;
	pthread_t thread;

	pin(0);
	if (pthread_create(&thread, NULL, answer, NULL))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long i = 1; i <= ROUNDS; i++) {
		atomic_store_explicit(&ping.number, i, memory_order_release);
		while (atomic_load_explicit(&pong.number, memory_order_acquire) != i)
			;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	pthread_join(thread, NULL);
	printf("%.1f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / ROUNDS / 2);
}
