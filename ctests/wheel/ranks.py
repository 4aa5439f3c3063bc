# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the ranks of an MPI job say to each other; each value is checked. Each rank names its libfabric in the end."""

import re
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
wanted = int(sys.argv[1])
assert size == wanted, f"{size} ranks in place of {wanted}: is mpi4py on another MPI than the launcher?"
assert comm.allreduce(rank + 1) == size * (size + 1) // 2
for length in (0, 1, 1000, 100_000, 3_000_000):
    sent = bytes((rank + i) % 251 for i in range(min(length, 251))) * (length // 251 + 1)
    before = (rank - 1) % size
    got = comm.sendrecv((rank, sent[:length]), dest=(rank + 1) % size, source=before)
    assert got[0] == before and len(got[1]) == length
    assert got[1] == (bytes((before + i) % 251 for i in range(min(length, 251))) * (length // 251 + 1))[:length]
everything = comm.alltoall([(rank, to) for to in range(size)])
assert everything == [(source, rank) for source in range(size)]
with open("/proc/self/maps", encoding="utf-8") as maps:
    libraries = sorted(set(re.findall(r"(/\S*/libfabric[-.\w]*\.so\S*)$", maps.read(), re.MULTILINE)))
print(f"ok rank {rank} of {size} on {' '.join(libraries)}", flush=True)
