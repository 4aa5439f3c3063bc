# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""linked.py: two hosts with two ranks each. Messages within a host must not use the network, those between hosts must:
the counters of the interface tell."""
import sys
from pathlib import Path

from mpi4py import MPI

SIZE, TIMES = 8 << 20, 4
comm = MPI.COMM_WORLD
rank = comm.Get_rank()


def carried():
    """Bytes that this host's interface has received and sent."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "eth0":
            fields = numbers.split()
            return int(fields[0]) + int(fields[8])
    raise SystemExit("there is no eth0")


def exchange(peer):
    """The bytes that the interface has carried while all ranks exchanged messages with their peers."""
    out = bytearray([rank + 1]) * SIZE
    room = bytearray(SIZE)
    comm.Barrier()
    before = carried()
    comm.Barrier()
    for tag in range(TIMES):
        comm.Sendrecv(out, peer, tag, room, peer, tag)
        if room[0] != peer + 1 or room[-1] != peer + 1:
            raise SystemExit(f"rank {rank} got {room[0]}, {room[-1]} from {peer}")
    comm.Barrier()
    after = carried()
    comm.Barrier()
    return after - before


# Host names are those of the machine; the namespaces tell the hosts apart.
places = comm.allgather(Path("/proc/self/ns/net").stat().st_ino)
near = next(other for other in range(4) if other != rank and places[other] == places[rank])
far = sorted(other for other in range(4) if places[other] != places[rank])[sorted((rank, near)).index(rank)]
within, between = exchange(near), exchange(far)
# Both ranks of a host send and receive.
payload = 2 * 2 * TIMES * SIZE
print(f"rank {rank}: {within} bytes on eth0 within the host, {between} between hosts", flush=True)
if within > payload // 100 or between < payload:
    sys.exit(f"rank {rank}: {payload} bytes each were expected to stay, and to go")
