# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Remote memory: passive targets, flushes, atomics, general active target, dynamic windows."""

import numpy as np
from rank import MPI, expect, expect_array, run_all

ROUNDS = 50


def window(comm, count):
    """A window of so many int64 on every rank, all zero, and its memory."""
    win = MPI.Win.Allocate(8 * count, disp_unit=8, comm=comm)
    memory = np.frombuffer(win.tomemory(), dtype=np.int64)
    memory[:] = 0
    comm.Barrier()
    return win, memory


def lock_put_get(comm):
    """Exclusive lock, put, unlock; then a shared lock and a get by everybody."""
    for count in (1, 100, 200_000):
        win, _ = window(comm, comm.size * count)
        mine = np.arange(count, dtype=np.int64) * 3 + comm.rank
        for target in range(comm.size):
            win.Lock(target, MPI.LOCK_EXCLUSIVE)
            win.Put(mine, target, target=(comm.rank * count, count))
            win.Unlock(target)
        comm.Barrier()
        wanted = np.concatenate([np.arange(count, dtype=np.int64) * 3 + other for other in range(comm.size)])
        for target in range(comm.size):
            got = np.zeros(comm.size * count, dtype=np.int64)
            win.Lock(target, MPI.LOCK_SHARED)
            win.Get(got, target)
            win.Unlock(target)
            expect_array(got, wanted, f"{8 * count} bytes at {target}")
        comm.Barrier()
        win.Free()


def lock_all_flush(comm):
    """One epoch for everything: after a flush the data is there, and the same epoch goes on."""
    win, memory = window(comm, comm.size)
    win.Lock_all()
    for turn in range(ROUNDS):
        value = np.array([turn * 100 + comm.rank], dtype=np.int64)
        for target in range(comm.size):
            win.Put(value, target, target=(comm.rank, 1))
        win.Flush_all()
        comm.Barrier()
        win.Sync()
        expect_array(memory, turn * 100 + np.arange(comm.size, dtype=np.int64), f"after flush {turn}")
        got = np.zeros(1, dtype=np.int64)
        peer = (comm.rank + turn) % comm.size
        win.Get(got, peer, target=(peer, 1))
        win.Flush(peer)
        expect(int(got[0]), turn * 100 + peer, f"get in turn {turn}")
        comm.Barrier()
    win.Unlock_all()
    win.Free()


def requests(comm):
    """Rput and Rget complete as requests."""
    count = 5000
    win, _ = window(comm, count)
    right = (comm.rank + 1) % comm.size
    out, into = np.arange(count, dtype=np.int64) + comm.rank, np.zeros(count, dtype=np.int64)
    win.Lock_all()
    win.Rput(out, right).Wait()
    win.Flush(right)
    comm.Barrier()
    win.Rget(into, right).Wait()
    expect_array(into, out, "got back what was put")
    win.Unlock_all()
    win.Free()


def accumulate(comm):
    """All ranks add to, and take the maximum in the same places at once; the result has no order."""
    for count in (1, 3000, 100_000):
        win, memory = window(comm, count)
        index = np.arange(count, dtype=np.int64)
        mine, bound = index * (comm.rank + 1), np.full(count, comm.rank + 10**9, dtype=np.int64)
        win.Fence()
        for target in range(comm.size):
            win.Accumulate(mine, target, op=MPI.SUM)
        win.Fence()
        total = comm.size * (comm.size + 1) // 2
        expect_array(memory.copy(), index * total, f"sum of {count}")
        win.Fence()
        for target in range(comm.size):
            win.Accumulate(bound, target, op=MPI.MAX)
        win.Fence()
        wanted = np.maximum(index * total, comm.size - 1 + 10**9)
        expect_array(memory.copy(), wanted, f"maximum of {count}")
        win.Free()


def get_accumulate(comm):
    """Everybody fetches the old values while adding; the fetched ones, sorted, are a run of multiples."""
    count = 1000
    win, memory = window(comm, count)
    win.Lock_all()
    old, ones = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    win.Get_accumulate(ones, old, 0, op=MPI.SUM)
    win.Flush(0)
    comm.Barrier()
    if comm.rank == 0:
        win.Sync()
        expect_array(memory.copy(), np.full(count, comm.size, dtype=np.int64), "sum")
    fetched = np.sort(np.stack(comm.allgather(old)), axis=0)
    wanted = np.repeat(np.arange(comm.size, dtype=np.int64)[:, None], count, axis=1)
    expect_array(fetched.ravel(), wanted.ravel(), "old values")
    win.Unlock_all()
    win.Free()


def fetch_and_op(comm):
    """A shared counter: each value from 0 on is handed out exactly once."""
    win, _ = window(comm, 1)
    win.Lock_all()
    mine = []
    got, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    for _ in range(ROUNDS):
        win.Fetch_and_op(one, got, 0, op=MPI.SUM)
        win.Flush(0)
        mine.append(int(got[0]))
    win.Unlock_all()
    expect(mine, sorted(mine), "values of one rank grow")
    everybody = sorted(value for some in comm.allgather(mine) for value in some)
    expect(everybody, list(range(ROUNDS * comm.size)), "values of all ranks")
    win.Free()


def compare_and_swap(comm):
    """A spin lock made of compare-and-swap guards a counter that is read and written without atomics."""
    win, memory = window(comm, 2)
    win.Lock_all()
    free, taken = np.array([0], dtype=np.int64), np.array([comm.rank + 1], dtype=np.int64)
    old, value = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for _ in range(10):
        while True:
            win.Compare_and_swap(taken, free, old, 0, 0)
            win.Flush(0)
            if old[0] == 0:
                break
        win.Get(value, 0, target=(1, 1))
        win.Flush(0)
        value += 1
        win.Put(value, 0, target=(1, 1))
        win.Flush(0)
        win.Compare_and_swap(free, taken, old, 0, 0)
        win.Flush(0)
        expect(int(old[0]), comm.rank + 1, "owner of the lock")
    win.Unlock_all()
    comm.Barrier()
    if comm.rank == 0:
        expect([int(word) for word in memory], [0, 10 * comm.size], "lock and counter")
    win.Free()


def post_start(comm):
    """General active target: each rank exposes to its left and writes to its right."""
    count = 1000
    win, memory = window(comm, count)
    world = comm.Get_group()
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for turn in range(10):
        win.Post(world.Incl([left]))
        win.Start(world.Incl([right]))
        mine = np.arange(count, dtype=np.int64) + turn + comm.rank
        win.Put(mine, right)
        win.Complete()
        win.Wait()
        expect_array(memory.copy(), np.arange(count, dtype=np.int64) + turn + left, f"exposure {turn}")
    win.Free()


def dynamic(comm):
    """Memory attached later, addressed by absolute displacement."""
    win = MPI.Win.Create_dynamic(comm=comm)
    memory = np.zeros(100, dtype=np.int64)
    win.Attach(memory)
    addresses = comm.allgather(MPI.Get_address(memory))
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine = np.arange(100, dtype=np.int64) + comm.rank
    win.Fence()
    win.Put(mine, right, target=(addresses[right], 100))
    win.Fence()
    expect_array(memory, np.arange(100, dtype=np.int64) + left, "attached memory")
    win.Detach(memory)
    win.Free()


def many_windows(comm):
    """Windows come and go; several are open at once."""
    for turn in range(10):
        open_now = [window(comm, 10 + number) for number in range(8)]
        for number, (win, _) in enumerate(open_now):
            value = np.full(1, turn * 10 + number, dtype=np.int64)
            win.Fence()
            win.Put(value, (comm.rank + 1) % comm.size, target=(number, 1))
            win.Fence()
        for number, (win, memory) in enumerate(open_now):
            expect(int(memory[number]), turn * 10 + number, f"window {number} in turn {turn}")
            win.Free()


def strided_put(comm):
    """Pieces at the origin into other pieces at the target."""
    count = 2000
    win, memory = window(comm, 4 * count)
    thirds = MPI.INT64_T.Create_vector(count, 1, 3).Commit()
    quarters = MPI.INT64_T.Create_vector(count, 1, 4).Commit()
    win.Fence()
    source = np.arange(3 * count, dtype=np.int64) + 7
    win.Put([source, 1, thirds], (comm.rank + 1) % comm.size, target=(0, 1, quarters))
    win.Fence()
    wanted = np.zeros(4 * count, dtype=np.int64)
    wanted[::4] = source[::3]
    expect_array(memory.copy(), wanted, "strided put")
    win.Free()
    thirds.Free()
    quarters.Free()


def main():
    run_all(lock_put_get, lock_all_flush, requests, accumulate, get_accumulate, fetch_and_op, compare_and_swap,
            post_start, dynamic, many_windows, strided_put)


if __name__ == "__main__":
    main()
