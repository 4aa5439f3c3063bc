# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""striped.py: two hosts with one rank each exchange large messages. Tells how many bytes each interface has carried, and
how long the exchanges took."""
import sys
import time
from pathlib import Path

from mpi4py import MPI

SIZE, TIMES = 8 << 20, 6
comm = MPI.COMM_WORLD
rank = comm.Get_rank()
peer = 1 - rank


def carried():
    """Bytes that each interface of this host has received and sent."""
    bytes_of = {}
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        bytes_of[name.strip()] = int(fields[0]) + int(fields[8])
    return bytes_of


def exchange(tag):
    # The message must be the one of this turn, and whole.
    out = bytes([rank + 1, tag]) * (SIZE // 2)
    room = bytearray(SIZE)
    comm.Sendrecv(out, peer, tag, room, peer, tag)
    if room != bytes([peer + 1, tag]) * (SIZE // 2):
        sys.exit(f"rank {rank} got other bytes than {peer} has sent")


exchange(0)
comm.Barrier()
before, start = carried(), time.monotonic()
for tag in range(1, TIMES + 1):
    exchange(tag)
took = time.monotonic() - start
after = carried()
shares = " ".join(f"{name}={after[name] - before[name]}" for name in sorted(after) if name.startswith("eth"))
print(f"rank {rank} payload={2 * TIMES * SIZE} seconds={took:.3f} {shares}", flush=True)
