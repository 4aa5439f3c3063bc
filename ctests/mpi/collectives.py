# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Collective operations over the point-to-point layer: all kinds, several sizes, blocking and not."""

import numpy as np
from rank import MPI, expect, expect_array, run_all

COUNTS = (0, 1, 17, 5000, 200_000)


def block(count, rank, salt=0):
    return np.arange(count, dtype=np.int64) * 7 + rank * 1_000_000_007 + salt


def broadcast(comm):
    for count in COUNTS:
        for root in range(comm.size):
            data = block(count, root) if comm.rank == root else np.zeros(count, dtype=np.int64)
            comm.Bcast(data, root=root)
            expect_array(data, block(count, root), f"broadcast of {count} from {root}")


def gather_scatter(comm):
    """Equal parts, then parts of different lengths."""
    size = comm.size
    for count in COUNTS[:4]:
        root = count % size
        everything = np.concatenate([block(count, rank) for rank in range(size)])
        got = np.zeros(size * count if comm.rank == root else 0, dtype=np.int64)
        comm.Gather(block(count, comm.rank), got, root=root)
        if comm.rank == root:
            expect_array(got, everything, f"gather of {count}")
        part = np.zeros(count, dtype=np.int64)
        comm.Scatter(everything if comm.rank == root else None, part, root=root)
        expect_array(part, block(count, comm.rank), f"scatter of {count}")
        lengths = [count + rank for rank in range(size)]
        uneven = np.concatenate([block(length, rank) for rank, length in enumerate(lengths)])
        got = np.zeros(sum(lengths), dtype=np.int64)
        comm.Allgatherv(block(lengths[comm.rank], comm.rank), [got, lengths])
        expect_array(got, uneven, f"allgatherv of {count}")
        part = np.zeros(lengths[comm.rank], dtype=np.int64)
        comm.Scatterv([uneven, lengths] if comm.rank == root else None, part, root=root)
        expect_array(part, block(lengths[comm.rank], comm.rank), f"scatterv of {count}")


def reductions(comm):
    size = comm.size
    for count in COUNTS:
        parts = [block(count, rank) for rank in range(size)]
        got = np.zeros(count, dtype=np.int64)
        comm.Reduce(parts[comm.rank], got, op=MPI.SUM, root=size - 1)
        if comm.rank == size - 1:
            expect_array(got, np.sum(parts, axis=0), f"reduce of {count}")
        comm.Allreduce(parts[comm.rank], got, op=MPI.BXOR)
        expect_array(got, np.bitwise_xor.reduce(parts), f"allreduce of {count}")
        comm.Scan(parts[comm.rank], got, op=MPI.SUM)
        expect_array(got, np.sum(parts[: comm.rank + 1], axis=0), f"scan of {count}")
        comm.Exscan(parts[comm.rank], got, op=MPI.SUM)
        if comm.rank > 0:
            expect_array(got, np.sum(parts[: comm.rank], axis=0), f"exscan of {count}")
        whole = [block(count * size, rank) for rank in range(size)]
        comm.Reduce_scatter_block(whole[comm.rank], got, op=MPI.SUM)
        wanted = np.sum(whole, axis=0).reshape(size, count)[comm.rank]
        expect_array(got, wanted, f"reduce_scatter of {count}")


def alltoallv(comm):
    """A different length for each pair."""
    size = comm.size
    for unit in (0, 1, 3000):
        out_lengths = [unit * (comm.rank + 2 * other) for other in range(size)]
        in_lengths = [unit * (other + 2 * comm.rank) for other in range(size)]
        out = np.concatenate([block(length, comm.rank, salt=other) for other, length in enumerate(out_lengths)])
        wanted = np.concatenate([block(length, other, salt=comm.rank) for other, length in enumerate(in_lengths)])
        got = np.zeros(sum(in_lengths), dtype=np.int64)
        comm.Alltoallv([out, out_lengths], [got, in_lengths])
        expect_array(got, wanted, f"alltoallv of {unit}")


def several_at_once(comm):
    """Non-blocking collectives of different kinds overlap on one communicator."""
    count, rounds = 3000, 20
    requests, results = [], []
    for turn in range(rounds):
        root = turn % comm.size
        data = block(count, root, turn) if comm.rank == root else np.zeros(count, dtype=np.int64)
        total = np.zeros(count, dtype=np.int64)
        everything = np.zeros(count * comm.size, dtype=np.int64)
        mine = block(count, comm.rank, turn)
        requests += [comm.Ibcast(data, root=root), comm.Iallreduce(mine, total), comm.Iallgather(mine, everything)]
        results.append((root, data, total, everything, mine))
    requests.append(comm.Ibarrier())
    MPI.Request.Waitall(requests)
    for turn, (root, data, total, everything, _) in enumerate(results):
        parts = [block(count, rank, turn) for rank in range(comm.size)]
        expect_array(data, block(count, root, turn), f"ibcast {turn}")
        expect_array(total, np.sum(parts, axis=0), f"iallreduce {turn}")
        expect_array(everything, np.concatenate(parts), f"iallgather {turn}")


def neighbours(comm):
    """A periodic grid and its neighbourhood exchange."""
    dims = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims, periods=[True, True])
    count = 2000
    got = np.zeros(4 * count, dtype=np.int64)
    grid.Neighbor_allgather(block(count, grid.rank), got)
    order = [rank for dimension in range(2) for rank in grid.Shift(dimension, 1)]
    expect_array(got, np.concatenate([block(count, rank) for rank in order]), "neighbours")
    grid.Free()


def barrier(comm):
    """Nobody leaves a barrier before the last has entered."""
    window = MPI.Win.Allocate(8, disp_unit=8, comm=comm)
    entered = np.frombuffer(window.tomemory(), dtype=np.int64)
    entered[:] = 0
    comm.Barrier()
    one, seen = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    window.Lock_all()
    for turn in range(1, 101):
        window.Accumulate(one, 0, op=MPI.SUM)
        window.Flush(0)
        comm.Barrier()
        window.Fetch_and_op(one, seen, 0, op=MPI.NO_OP)
        window.Flush(0)
        expect(bool(seen[0] >= turn * comm.size), True, f"all had entered barrier {turn} ({seen[0]})")
    window.Unlock_all()
    window.Free()


def main():
    run_all(broadcast, gather_scatter, reductions, alltoallv, several_at_once, neighbours, barrier)


if __name__ == "__main__":
    main()
