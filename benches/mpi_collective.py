#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Run by every rank under mpiexec: mpi_collective.py barrier|allreduce MILLISECONDS: MPI's own collective, the same number of
times, from mpi4py; rank 0 prints the line that benches/collective prints."""
import os
import sys
import time

os.sched_setaffinity(0, [int(os.environ.get("PMI_RANK", "0")) % os.cpu_count()])

import numpy
from mpi4py import MPI

WARM_UP = 50
form, budget = sys.argv[1], float(sys.argv[2]) / 1e3
world = MPI.COMM_WORLD
mine, total = numpy.full(1, float(world.rank)), numpy.zeros(1)
barrier = world.Barrier
reduce = world.Allreduce
rounds = 0


def many(count):
    start = time.perf_counter()
    if form == "allreduce":
        for _ in range(count):
            reduce(mine, total)
    else:
        for _ in range(count):
            barrier()
    return time.perf_counter() - start


seconds = many(WARM_UP)
rounds = world.bcast(max(2, int(budget / seconds * WARM_UP)))
world.Barrier()
seconds = many(rounds)
if form == "allreduce" and total[0] != world.size * (world.size - 1) / 2:
    sys.exit(f"the sum is wrong: {total[0]}")
if world.rank == 0:
    print("collective", form, world.size, seconds / rounds * 1e6, "us")
