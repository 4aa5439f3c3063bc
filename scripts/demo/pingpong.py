# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Ping-pong between two ranks: half round trip by message size; rank 0 writes it as JSON to the file named.

usage (under mpiexec -n 2): pingpong.py LIMIT RESULT SIZE...
"""

import json
import os
import sys
from statistics import median
from time import perf_counter

import numpy as np

from rank import begin, end, expect_array

BATCHES = 5
BATCH_SECONDS = 0.01


def pin(rank):
    """Each rank keeps to one processor where there are two, so that the scheduler is not what is measured."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) >= 2:
        os.sched_setaffinity(0, {allowed[rank % len(allowed)]})


def bounce(comm, buffer, times):
    """Seconds for so many round trips."""
    start = perf_counter()
    if comm.rank == 0:
        for _ in range(times):
            comm.Send(buffer, dest=1, tag=1)
            comm.Recv(buffer, source=1, tag=1)
    else:
        for _ in range(times):
            comm.Recv(buffer, source=0, tag=1)
            comm.Send(buffer, dest=0, tag=1)
    return perf_counter() - start


def compare_contents(comm, size):
    """One checked exchange: the peer changes every byte and sends it back."""
    pattern = (np.arange(size) * 131 + size).astype(np.uint8)
    if comm.rank == 0:
        comm.Send(pattern, dest=1, tag=2)
        got = np.zeros(size, dtype=np.uint8)
        comm.Recv(got, source=1, tag=2)
        expect_array(got, ~pattern, f"ping-pong, {size} bytes, answer")
    else:
        got = np.zeros(size, dtype=np.uint8)
        comm.Recv(got, source=0, tag=2)
        expect_array(got, pattern, f"ping-pong, {size} bytes")
        comm.Send(~got, dest=0, tag=2)


def half_round_trip(comm, size):
    """Microseconds: median over batches that each last about BATCH_SECONDS."""
    buffer = np.zeros(size, dtype=np.uint8)
    bounce(comm, buffer, 5)
    once = bounce(comm, buffer, 10) / 10
    times = comm.bcast(max(3, min(2000, int(BATCH_SECONDS / once))), root=0)
    batches = [bounce(comm, buffer, times) / times for _ in range(BATCHES)]
    compare_contents(comm, size)
    return median(batches) / 2 * 1e6


def main():
    limit, result = float(sys.argv[1]), sys.argv[2]
    comm = begin(limit, quiet=True)
    pin(comm.rank)
    table = {size: half_round_trip(comm, size) for size in map(int, sys.argv[3:])}
    if comm.rank == 0:
        with open(result, "w") as file:
            json.dump(table, file)
    end()


if __name__ == "__main__":
    main()
