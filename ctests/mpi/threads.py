# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""MPI_THREAD_MULTIPLE: several threads of each rank send, receive, collect and put at the same time."""

import threading

import numpy as np
from rank import MPI, expect_array, run_all, say, wrong

THREADS = 4
ROUNDS = 60


def in_threads(work):
    """Run work(number) in THREADS threads; the first exception ends the job."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)
            say(f"thread {number}: {error!r}: {error}")
            MPI.COMM_WORLD.Abort(1)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        wrong(f"{len(failures)} threads failed")


def exchange(comm, number, tag):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for turn in range(ROUNDS):
        count = (1, 50, 3000, 20_000)[turn % 4]
        base = np.arange(count, dtype=np.int64) + 1_000_000 * number + turn
        got = np.zeros(count, dtype=np.int64)
        comm.Sendrecv(base + 10_000_000 * comm.rank, dest=right, sendtag=tag, recvbuf=got, source=left, recvtag=tag)
        expect_array(got, base + 10_000_000 * left, f"thread {number}, turn {turn}")


def one_communicator(comm):
    """All threads on one communicator, kept apart by tags."""
    in_threads(lambda number: exchange(comm, number, tag=number))


def own_communicators(comm):
    """A communicator for each thread, the same tag."""
    copies = [comm.Dup() for _ in range(THREADS)]
    in_threads(lambda number: exchange(copies[number], number, tag=0))
    for copy in copies:
        copy.Free()


def collectives(comm):
    """Each thread runs its own collectives."""
    copies = [comm.Dup() for _ in range(THREADS)]

    def work(number):
        for turn in range(ROUNDS):
            mine = np.arange(500, dtype=np.int64) * (comm.rank + 1) + number + turn
            total = np.zeros(500, dtype=np.int64)
            copies[number].Allreduce(mine, total)
            wanted = np.arange(500, dtype=np.int64) * (comm.size * (comm.size + 1) // 2) + comm.size * (number + turn)
            expect_array(total, wanted, f"allreduce of thread {number}, turn {turn}")

    in_threads(work)
    for copy in copies:
        copy.Free()


def senders_and_receivers(comm):
    """One half of the threads only sends, the other only receives, by wildcard; nothing is lost or doubled."""
    right = (comm.rank + 1) % comm.size
    total = ROUNDS * (THREADS // 2)
    seen, lock = [], threading.Lock()

    def work(number):
        if number % 2 == 0:
            for turn in range(ROUNDS):
                value = np.array([number // 2 * ROUNDS + turn], dtype=np.int64)
                comm.Send(value, dest=right, tag=500)
        else:
            got = np.zeros(1, dtype=np.int64)
            for _ in range(ROUNDS):
                comm.Recv(got, source=MPI.ANY_SOURCE, tag=500)
                with lock:
                    seen.append(int(got[0]))

    in_threads(work)
    expect_array(np.array(sorted(seen)), np.arange(total), "values received by all threads")


def windows(comm):
    """Each thread with its own window."""
    wins = [MPI.Win.Allocate(8 * 1000, disp_unit=8, comm=comm) for _ in range(THREADS)]
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    copies = [comm.Dup() for _ in range(THREADS)]

    def work(number):
        win = wins[number]
        memory = np.frombuffer(win.tomemory(), dtype=np.int64)
        for turn in range(10):
            mine = np.arange(1000, dtype=np.int64) + 100 * comm.rank + number + turn
            win.Lock(right)
            win.Put(mine, right)
            win.Unlock(right)
            copies[number].Barrier()
            win.Lock(comm.rank)
            seen = memory.copy()
            win.Unlock(comm.rank)
            wanted = np.arange(1000, dtype=np.int64) + 100 * left + number + turn
            expect_array(seen, wanted, f"window of thread {number}, turn {turn}")
            copies[number].Barrier()

    in_threads(work)
    for copy, win in zip(copies, wins):
        copy.Free()
        win.Free()


def main():
    run_all(one_communicator, own_communicators, collectives, senders_and_receivers, windows,
            required=MPI.THREAD_MULTIPLE)


if __name__ == "__main__":
    main()
