# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs that do little between MPI_Init and MPI_Finalize: what a rank posts last is still under way, or its peers are
not yet connected, when it ends. Each function of a communicator is a job of its own, which run.py starts by its name."""

import sys
from array import array

from rank import MPI, begin, end, expect, say


def init_and_finalize(_comm):
    """Nothing at all."""


def barrier(comm):
    comm.Barrier()


def bcast(comm):
    data = array("q", [42, 43] if comm.rank == 0 else [0, 0])
    comm.Bcast(data, root=0)
    expect(list(data), [42, 43], "broadcast")


def reduce_by_user(comm):
    """An operation of the program's own that does not commute, so that every rank's part takes its way in order."""

    def last_and_count(left, right, _datatype):
        left, right = memoryview(left).cast("q"), memoryview(right).cast("q")
        right[1] += left[1]

    op = MPI.Op.Create(last_and_count, commute=False)
    got = array("q", [0, 0])
    comm.Reduce(array("q", [comm.rank, 1]), got, op=op, root=0)
    if comm.rank == 0:
        expect(list(got), [comm.size - 1, comm.size], "last rank, and how many")
    op.Free()


def allgather(comm):
    got = array("q", [0] * comm.size)
    comm.Allgather(array("q", [comm.rank * 3]), got)
    expect(list(got), [rank * 3 for rank in range(comm.size)], "all ranks")


def gather(comm):
    """All but the root only send."""
    got = array("q", [0] * comm.size) if comm.rank == 0 else None
    comm.Gather(array("q", [comm.rank + 1]), got, root=0)
    if comm.rank == 0:
        expect(list(got), [rank + 1 for rank in range(comm.size)], "all ranks")


def communicators(comm):
    """Duplicated, split, and made of a group; none is used."""
    copy = comm.Dup()
    part = comm.Split(color=comm.rank % 2, key=-comm.rank)
    group = comm.Get_group()
    chosen = group.Incl(range(0, comm.size, 2))
    even = comm.Create(chosen)
    expect(part.size, len(range(comm.rank % 2, comm.size, 2)), "ranks of one parity")
    expect(even != MPI.COMM_NULL, comm.rank % 2 == 0, "member of the group")
    expect(MPI.Group.Difference(group, chosen).size, comm.size // 2, "ranks outside of the group")
    for made in (copy, part, even):
        if made != MPI.COMM_NULL:
            made.Free()


def ring(comm):
    """A few small messages to the next rank."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = array("q", [0])
    for turn in range(5):
        comm.Send(array("q", [10 * comm.rank + turn]), dest=right, tag=turn)
    for turn in range(5):
        comm.Recv(got, source=left, tag=turn)
        expect(got[0], 10 * left + turn, "message of the left neighbour")


def send_and_leave(comm):
    """The same without the way around: the first rank sends and ends, the last one only receives."""
    got = array("q", [0])
    if comm.rank + 1 < comm.size:
        for turn in range(5):
            comm.Send(array("q", [10 * comm.rank + turn]), dest=comm.rank + 1, tag=turn)
    if comm.rank > 0:
        for turn in range(5):
            comm.Recv(got, source=comm.rank - 1, tag=turn)
            expect(got[0], 10 * (comm.rank - 1) + turn, "message of the rank before")


def put_and_fence(comm):
    win = MPI.Win.Allocate(8, disp_unit=8, comm=comm)
    memory = memoryview(win.tomemory()).cast("q")
    memory[0] = -1
    win.Fence()
    win.Put(array("q", [comm.rank]), (comm.rank + 1) % comm.size)
    win.Fence()
    expect(memory[0], (comm.rank - 1) % comm.size, "what the left neighbour has put")
    del memory
    win.Free()


def main():
    limit, name = sys.argv[1:]
    comm = begin(float(limit), quiet=True)
    root = comm.rank == 0
    globals()[name](comm)
    end()
    if root:
        say(f"  ok  {name}")


if __name__ == "__main__":
    main()
