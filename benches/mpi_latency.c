// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Half of the round trip of a message between two ranks of MPI, in microseconds, the best of nine rounds for each size; for
//! benches/mpi_latency.py, which builds it with the mpicc of an MPI and pins the ranks.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 9, SMALL = 4096, LARGEST = 1 << 20 };

static double round_of(char *buffer, int size, int rank)
{
	int messages = size <= SMALL ? 4000 : 500;
	double start = MPI_Wtime();

	for (int i = 0; i < messages; i++) {
		if (rank == 0)
			MPI_Send(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(buffer, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / messages / 2 * 1e6;
}

int main(int argc, char **argv)
{
	static char buffer[LARGEST];
	cpu_set_t core;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	CPU_ZERO(&core);
	CPU_SET(rank, &core);
	sched_setaffinity(0, sizeof(core), &core);
	for (int i = 1; i < argc; i++) {
		int size = atoi(argv[i]);
		double best = 1e9;

		if (size < 0 || size > LARGEST) {
			fprintf(stderr, "%s: a size is from 0 to %d\n", argv[i], LARGEST);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}

		for (int round = 0; round <= ROUNDS; round++) {
			double took = round_of(buffer, size, rank);

			// The first one warms up.
			if (round && took < best)
				best = took;
		}
		if (rank == 0)
			printf("%d %.4f\n", size, best);
	}
	MPI_Finalize();
}
