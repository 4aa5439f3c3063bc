# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Communicators keep their messages apart: duplicates, groups, intercommunicators, connections by port name."""

import numpy as np
from rank import MPI, expect, expect_array, run_all


def duplicates(comm):
    """The same source and tag on many communicators: each message reaches its own."""
    copies = [comm.Dup() for _ in range(50)]
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = np.zeros(len(copies), dtype=np.int64)
    receives = [copy.Irecv(got[n : n + 1], source=left, tag=0) for n, copy in enumerate(copies)]
    values = np.arange(len(copies), dtype=np.int64) + 1000 * comm.rank
    sends = [copies[n].Isend(values[n : n + 1], dest=right, tag=0) for n in reversed(range(len(copies)))]
    MPI.Request.Waitall(receives + sends)
    expect_array(got, np.arange(len(copies), dtype=np.int64) + 1000 * left, "one message per communicator")
    for copy in copies:
        copy.Free()


def groups(comm):
    """A communicator of some ranks only, made without the others' help."""
    chosen = list(range(0, comm.size, 2))
    group = comm.Get_group().Incl(chosen)
    if comm.rank in chosen:
        part = comm.Create_group(group, tag=3)
        expect(part.allgather(comm.rank), chosen, "members")
        part.Free()


def intercommunicator(comm):
    """Odd ranks and even ranks as two groups: messages, broadcast and reduction across, then merged."""
    side = comm.rank % 2
    if comm.size < 2:
        return
    local = comm.Split(color=side, key=comm.rank)
    between = local.Create_intercomm(0, comm, 1 - side, tag=12)
    others = [rank for rank in range(comm.size) if rank % 2 != side]
    expect(between.remote_size, len(others), "size of the other side")
    if local.rank < between.remote_size:
        out = np.arange(2000, dtype=np.int64) + comm.rank
        into = np.zeros(2000, dtype=np.int64)
        between.Sendrecv(out, dest=local.rank, recvbuf=into, source=local.rank)
        expect_array(into, np.arange(2000, dtype=np.int64) + others[local.rank], "message across")
    total = np.zeros(1, dtype=np.int64)
    between.Allreduce(np.array([comm.rank + 1], dtype=np.int64), total)
    expect(int(total[0]), sum(rank + 1 for rank in others), "reduction across")
    merged = between.Merge(high=bool(side))
    wanted = [rank for rank in range(comm.size) if rank % 2 == 0] + [rank for rank in range(comm.size) if rank % 2]
    expect(merged.allgather(comm.rank), wanted, "merged order")
    merged.Free()
    between.Free()
    local.Free()


def connect_and_accept(comm):
    """Two halves meet by a port name, exchange, part, and meet again."""
    side = comm.rank % 2
    if comm.size < 2:
        return
    local = comm.Split(color=side, key=comm.rank)
    for turn in range(3):
        port = MPI.Open_port() if comm.rank == 0 else None
        port = comm.bcast(port, root=0)
        between = local.Accept(port) if side == 0 else local.Connect(port)
        if local.rank == 0:
            out = np.full(30_000, turn * 10 + side, dtype=np.int64)
            into = np.zeros_like(out)
            between.Sendrecv(out, dest=0, recvbuf=into, source=0)
            expect_array(into, np.full(30_000, turn * 10 + 1 - side, dtype=np.int64), f"meeting {turn}")
        between.Disconnect()
        if comm.rank == 0:
            MPI.Close_port(port)
    local.Free()


def objects(comm):
    """Pickled Python objects of all sizes, as most mpi4py programs send them."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for length in (0, 1, 100, 10_000, 1_000_000):
        thing = {"rank": comm.rank, "bytes": bytes(length), "list": list(range(length % 1000))}
        got = comm.sendrecv(thing, dest=right, source=left)
        expect(got, dict(thing, rank=left), f"object with {length} bytes")
    everybody = comm.allgather([comm.rank] * comm.rank)
    expect(everybody, [[rank] * rank for rank in range(comm.size)], "gathered objects")


def main():
    run_all(duplicates, groups, intercommunicator, connect_and_accept, objects)


if __name__ == "__main__":
    main()
