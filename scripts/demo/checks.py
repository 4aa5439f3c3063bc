# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The demo's checks: ring, allreduce, all-to-all, one-sided put and get, communicator splits. Every value is compared.

Run by every rank under mpiexec; a wrong value ends the job with exit code 1, a hang with each rank's stack.
"""

import numpy as np

from rank import MPI, expect, expect_array, run_all

MIB = 1 << 20


def ring(comm):
    """A token and a growing block go round; each rank adds its mark."""
    rank, size = comm.rank, comm.size
    left, right = (rank - 1) % size, (rank + 1) % size
    rounds = 100
    token = np.zeros(1, dtype=np.int64)
    for lap in range(rounds):
        if rank == 0:
            token += 1
            comm.Send(token, dest=right, tag=lap)
            comm.Recv(token, source=left, tag=lap)
        else:
            comm.Recv(token, source=left, tag=lap)
            token += rank + 1
            comm.Send(token, dest=right, tag=lap)
    per_lap = size * (size + 1) // 2
    if rank == 0:
        expect(int(token[0]), rounds * per_lap, "ring: token after all laps")

    for count in (0, 1, 1000, 8192, 100_000):
        mine = np.arange(count, dtype=np.int64) * size + rank
        got = np.empty_like(mine)
        comm.Sendrecv(mine, dest=right, sendtag=7, recvbuf=got, source=left, recvtag=7)
        expect_array(got, np.arange(count, dtype=np.int64) * size + left, f"ring: block of {8 * count} bytes")
    return f"{rounds} laps, then blocks of 0 to 800,000 bytes"


def allreduce(comm):
    """8 MiB summed over all ranks."""
    count = 8 * MIB // 8
    index = np.arange(count, dtype=np.int64)
    total = np.empty_like(index)
    comm.Allreduce(index * (comm.rank + 1), total, op=MPI.SUM)
    expect_array(total, index * (comm.size * (comm.size + 1) // 2), "allreduce, sum")
    comm.Allreduce((index ^ comm.rank), total, op=MPI.MAX)
    expect_array(total, np.max([index ^ other for other in range(comm.size)], axis=0), "allreduce, max")
    return "8 MiB, sum and max"


def alltoall(comm):
    """8 MiB from each rank, a different block for each peer."""
    size = comm.size
    count = 8 * MIB // 8 // size
    index = np.arange(count, dtype=np.int64)

    def block(source, target):
        return index + (source << 48) + (target << 40)

    send = np.concatenate([block(comm.rank, target) for target in range(size)])
    wanted = np.concatenate([block(source, comm.rank) for source in range(size)])
    got = np.zeros_like(send)
    comm.Alltoall(send, got)
    expect_array(got, wanted, "all-to-all")
    return f"8 MiB a rank, {8 * count} bytes for each peer"


def one_sided(comm):
    """Put to every rank, fence, look; get from every rank, fence, look."""
    size, rank = comm.size, comm.rank
    for count in (1, 512, MIB // 8):
        index = np.arange(count, dtype=np.int64)
        memory = np.full(size * count, -1, dtype=np.int64)
        window = MPI.Win.Create(memory, disp_unit=8, comm=comm)
        window.Fence()
        outgoing = [index + ((rank << 48) | (target << 40)) for target in range(size)]
        for target in range(size):
            window.Put(outgoing[target], target, target=(rank * count, count))
        window.Fence()
        wanted = np.concatenate([index + ((source << 48) | (rank << 40)) for source in range(size)])
        expect_array(memory, wanted, f"put of {8 * count} bytes")

        incoming = np.zeros((size, count), dtype=np.int64)
        window.Fence()
        for target in range(size):
            window.Get(incoming[target], target, target=(rank * count, count))
        window.Fence()
        for target in range(size):
            expect_array(incoming[target], outgoing[target], f"get of {8 * count} bytes")
        window.Free()
    return "put and get of 8 bytes to 1 MiB with fence"


def splits(comm):
    """Communicators split by changing colours and keys; each must have the right members in the right order."""
    for turn in range(100):
        colours = 1 + turn % comm.size
        backwards = turn % 2 == 1
        part = comm.Split(color=comm.rank % colours, key=-comm.rank if backwards else comm.rank)
        members = [other for other in range(comm.size) if other % colours == comm.rank % colours]
        if backwards:
            members.reverse()
        expect(part.rank, members.index(comm.rank), f"split {turn}: rank")
        expect(part.allgather(comm.rank), members, f"split {turn}: members")
        expect(part.allreduce(comm.rank * turn), sum(members) * turn, f"split {turn}: sum")
        part.Free()
    return "100 communicators, members and sums"


def main():
    run_all(ring, allreduce, alltoall, one_sided, splits, quiet=False)


if __name__ == "__main__":
    main()
