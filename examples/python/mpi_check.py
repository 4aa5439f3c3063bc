# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every rank sends to every other one and checks what arrives; rank 0 says on which MPI and which libfabric.

    mpiexec -n 4 python mpi_check.py
"""
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
me, ranks = world.rank, world.size


def libraries():
    """The files of libfabric that this process has mapped: which one is used, whatever the variables say."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split(None, 5)[5].strip() for line in maps if "libfabric" in line})


SIZES = (8, 4096, 1 << 20)
for size in SIZES:
    wanted = [world.irecv(bytearray(size + 1000), source=peer, tag=size) for peer in range(ranks)]
    sends = [world.isend(bytes([me]) * size, dest=peer, tag=size) for peer in range(ranks)]
    for peer, request in enumerate(wanted):
        if request.wait() != bytes([peer]) * size:
            sys.exit(f"rank {me}: {size} bytes from rank {peer} are wrong")
    MPI.Request.waitall(sends)
if world.allreduce(me) != ranks * (ranks - 1) // 2:
    sys.exit(f"rank {me}: the sum is wrong")

found = world.gather(libraries())
if me == 0:
    print(MPI.Get_library_version().splitlines()[0].split(",")[0].strip("\0"))
    print(f"{ranks} ranks, every message right")
    for files in sorted(set(map(tuple, found))):
        print("libfabric:", *files or ["none is mapped"])
