// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Values that MPI programs see, measured as in OSU's micro-benchmarks: mpi WORK X... under mpiexec prints the best of
//! ROUNDS rounds for each X. benches/mpi.py builds it with the mpicc of an MPI and runs it.
//!
//! latency BYTES: half of a round trip, us. bandwidth BYTES: one direction, 64 in flight, bytes per second. rate BYTES:
//! both directions at once, 64 in flight, messages per second. threads N: half of a round trip of 8 bytes if N threads
//! of each rank exchange messages at once, us. allreduce BYTES (of doubles), alltoall BYTES (to each), bcast BYTES: us.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 7, WINDOW = 64, THREADS = 64, LARGEST = 4 << 20 };

static int rank, ranks;
static char *out, *in;

static void give_up(const char *why)
{
	fprintf(stderr, "%s\n", why);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

// Number of repetitions in a round, by message size.
static int times_of(int size)
{
	return size <= 4096 ? 2000 : size <= 65536 ? 400 : 30;
}

static void play(char *from, char *to, int size, int tag, int count)
{
	for (int i = 0; i < count; i++) {
		if (rank == 0)
			MPI_Send(from, size, MPI_CHAR, 1, tag, MPI_COMM_WORLD);
		MPI_Recv(to, size, MPI_CHAR, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(from, size, MPI_CHAR, 0, tag, MPI_COMM_WORLD);
	}
}

static double latency(int size)
{
	int count = times_of(size);
	double start = MPI_Wtime();

	play(out, in, size, 0, count);
	return (MPI_Wtime() - start) / count / 2 * 1e6;
}

// Sends a window, receives one, or both; an empty message in the other direction ends it.
static void window(int size, int sends, int receives)
{
	MPI_Request requests[2 * WINDOW];
	int count = 0;

	for (int i = 0; receives && i < WINDOW; i++)
		MPI_Irecv(in, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, &requests[count++]);
	for (int i = 0; sends && i < WINDOW; i++)
		MPI_Isend(out, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, &requests[count++]);
	MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static double bandwidth(int size)
{
	int count = times_of(size) / 10;
	double start = MPI_Wtime();

	for (int i = 0; i < count; i++) {
		window(size, rank == 0, rank == 1);
		if (rank == 0)
			MPI_Recv(in, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(out, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	}
	return (double) size * WINDOW * count / (MPI_Wtime() - start);
}

static double rate(int size)
{
	int count = times_of(size) / 10;
	double start = MPI_Wtime();

	for (int i = 0; i < count; i++)
		window(size, 1, 1);
	return 2.0 * WINDOW * count / (MPI_Wtime() - start);
}

static void *play_alone(void *argument)
{
	int number = *(int *) argument;
	char from[8] = "", to[8];

	play(from, to, sizeof(to), 2 + number, 1000);
	return NULL;
}

static double threads(int count)
{
	pthread_t started[THREADS];
	int numbers[THREADS];
	double start;

	if (count < 1 || count > THREADS)
		give_up("threads: from 1 to 64");
	start = MPI_Wtime();
	for (int i = 0; i < count; i++) {
		numbers[i] = i;
		pthread_create(&started[i], NULL, play_alone, &numbers[i]);
	}
	for (int i = 0; i < count; i++)
		pthread_join(started[i], NULL);
	return (MPI_Wtime() - start) / 1000 / 2 * 1e6;
}

static double collective(void (*call)(int), int size)
{
	int count = times_of(size) / 10;
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < count; i++)
		call(size);
	return (MPI_Wtime() - start) / count * 1e6;
}

static void call_allreduce(int size)
{
	MPI_Allreduce(out, in, size / (int) sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void call_alltoall(int size)
{
	MPI_Alltoall(out, size, MPI_CHAR, in, size, MPI_CHAR, MPI_COMM_WORLD);
}

static void call_bcast(int size)
{
	MPI_Bcast(in, size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static double allreduce(int size)
{
	return collective(call_allreduce, size);
}

static double alltoall(int size)
{
	return collective(call_alltoall, size);
}

static double bcast(int size)
{
	return collective(call_bcast, size);
}

static const struct work {
	const char *name;
	double (*measure)(int x);
	int more_is_better, pair;
} WORKS[] = {
	{ "latency", latency, 0, 1 }, { "bandwidth", bandwidth, 1, 1 }, { "rate", rate, 1, 1 }, { "threads", threads, 0, 1 },
	{ "allreduce", allreduce, 0, 0 }, { "alltoall", alltoall, 0, 0 }, { "bcast", bcast, 0, 0 },
};

static const struct work *find(const char *name)
{
	for (size_t i = 0; i < sizeof(WORKS) / sizeof(*WORKS); i++) {
		if (!strcmp(WORKS[i].name, name))
			return &WORKS[i];
	}
	give_up("there is no such work");
	return NULL;
}

int main(int argc, char **argv)
{
	const struct work *work;
	cpu_set_t core;
	int level;

	MPI_Init_thread(&argc, &argv, argc > 1 && !strcmp(argv[1], "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 3)
		give_up("usage: mpi WORK X...");
	work = find(argv[1]);
	if (work->pair && ranks != 2)
		give_up("two ranks, please");
	CPU_ZERO(&core);
	CPU_SET(rank % sysconf(_SC_NPROCESSORS_ONLN), &core);
	sched_setaffinity(0, sizeof(core), &core);
	out = calloc(LARGEST, ranks);
	in = calloc(LARGEST, ranks);
	if (!out || !in)
		give_up("no memory");
	for (int i = 2; i < argc; i++) {
		double best = 0;
		int x = atoi(argv[i]);

		if (x < 0 || x > LARGEST)
			give_up("a size is from 0 to 4 MiB");
		for (int round = 0; round <= ROUNDS; round++) {
			double got = work->measure(x);

			// The first round is the warm-up.
			if (round && (!best || (work->more_is_better ? got > best : got < best)))
				best = got;
		}
		if (rank == 0)
			printf("%s %d %.6g\n", work->name, x, best);
	}
	free(out);
	free(in);
	MPI_Finalize();
}
