// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A number goes around all ranks of an MPI job a thousand times; each rank adds one, and prints which libfabric it has.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int rank, size;
	long value = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int next = (rank + 1) % size, previous = (rank + size - 1) % size;
	for (int round = 0; round < 1000; round++) {
		if (rank == 0) {
			value++;
			MPI_Send(&value, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
			MPI_Recv(&value, 1, MPI_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&value, 1, MPI_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			value++;
			MPI_Send(&value, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
		}
	}
	if (rank == 0)
		printf("value %ld\n", value);

	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, "r-xp") && strstr(line, "/libfabric.so"))
			printf("rank %d has %s", rank, strchr(line, '/'));
	MPI_Finalize();
	return rank == 0 && value != 1000L * size;
}
