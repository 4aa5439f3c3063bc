# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Messages between pairs: wildcards, probing, send modes, order, size, depth. Every received value is compared."""

import numpy as np
from rank import MPI, expect, expect_array, hangs_on_upstream, run_all, wrong

MIB = 1 << 20
# MPICH reserves a part of the tag, so the upper bound is queried, never assumed.
ORDER_MESSAGES = 500


def pattern(count, seed):
    return np.arange(count, dtype=np.int64) * 1_000_003 + seed


def any_source_any_tag(comm):
    """Wildcards take each message once, say who sent it with which tag, and keep each sender's order."""
    if comm.rank != 0:
        for turn in range(ORDER_MESSAGES):
            comm.Send(pattern(1 + turn % 600, comm.rank * 1000 + turn), dest=0, tag=turn)
        return
    next_tag = [0] * comm.size
    status = MPI.Status()
    for _ in range(ORDER_MESSAGES * (comm.size - 1)):
        got = np.zeros(600, dtype=np.int64)
        comm.Recv(got, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        source, tag = status.Get_source(), status.Get_tag()
        expect(tag, next_tag[source], f"tag of the next message of {source}")
        next_tag[source] += 1
        count = status.Get_count(MPI.INT64_T)
        expect(count, 1 + tag % 600, f"length of message {tag} of {source}")
        expect_array(got[:count], pattern(count, source * 1000 + tag), f"message {tag} of {source}")
    expect(next_tag[1:], [ORDER_MESSAGES] * (comm.size - 1), "messages per sender")


def exact_among_wildcards(comm):
    """Of a posted exact receive and a posted wildcard, the older one takes the message (MPI's posting order)."""
    if comm.rank == 0:
        got = [np.zeros(1, dtype=np.int64) for _ in range(4)]
        requests = [
            comm.Irecv(got[0], source=1, tag=5),
            comm.Irecv(got[1], source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG),
            comm.Irecv(got[2], source=1, tag=5),
            comm.Irecv(got[3], source=MPI.ANY_SOURCE, tag=5),
        ]
        comm.Send(np.zeros(0, dtype=np.int64), dest=1, tag=1)
        MPI.Request.Waitall(requests)
        expect([int(one[0]) for one in got], [10, 11, 12, 13], "which receive took which message")
    elif comm.rank == 1:
        comm.Recv(np.zeros(0, dtype=np.int64), source=0, tag=1)
        for value in (10, 11, 12, 13):
            comm.Send(np.array([value], dtype=np.int64), dest=0, tag=5)


def probe(comm):
    """Probe tells source, tag and length and leaves the message; the highest tag works."""
    highest = comm.Get_attr(MPI.TAG_UB)
    for count in (0, 1, 2000, 40_000):
        if comm.rank == 1:
            comm.Send(pattern(count, 3), dest=0, tag=highest)
        elif comm.rank == 0:
            status = MPI.Status()
            comm.Probe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
            expect((status.Get_source(), status.Get_tag()), (1, highest), "probed")
            expect(status.Get_count(MPI.INT64_T), count, "probed length")
            expect(comm.Iprobe(source=1, tag=highest - 1), False, "probe of another tag")
            expect(comm.Iprobe(source=1, tag=highest), True, "second probe")
            got = np.zeros(count, dtype=np.int64)
            comm.Recv(got, source=1, tag=highest)
            expect_array(got, pattern(count, 3), "message after probe")


def matched_probe(comm):
    """A matched probe takes the message out of matching; later receives see only the others."""
    for count in (1, 2000, 100_000):
        if comm.rank == 1:
            # A blocking send may wait for its receive, and the first three are received last.
            outgoing = [pattern(count, number) for number in range(6)]
            MPI.Request.Waitall([comm.Isend(one, dest=0, tag=9) for one in outgoing])
        elif comm.rank == 0:
            claimed = [comm.Mprobe(source=1, tag=9) for _ in range(3)]
            rest = []
            for _ in range(3):
                got = np.zeros(count, dtype=np.int64)
                comm.Recv(got, source=1, tag=9)
                rest.append(got)
            for number, got in enumerate(rest, start=3):
                expect_array(got, pattern(count, number), f"message {number}, received past claimed ones")
            for number in (2, 0, 1):
                got = np.zeros(count, dtype=np.int64)
                claimed[number].Recv(got)
                expect_array(got, pattern(count, number), f"claimed message {number}")
            expect(comm.Improbe(source=1, tag=9), None, "matched probe with nothing left")
        comm.Barrier()


def send_modes(comm):
    """Synchronous, buffered and ready sends, blocking and not; a synchronous one waits for its receive."""
    if comm.rank == 1:
        late = comm.Issend(pattern(10, 1), dest=0, tag=1)
        expect(late.Test(), False, "synchronous send before its receive is posted")
        comm.Send(np.zeros(0, dtype=np.int64), dest=0, tag=2)
        late.Wait()
        for count in (1, 30_000):
            comm.Ssend(pattern(count, 2), dest=0, tag=3)
        room = np.zeros(2 * (240_000 + MPI.BSEND_OVERHEAD), dtype=np.uint8)
        MPI.Attach_buffer(room)
        comm.Bsend(pattern(30_000, 3), dest=0, tag=4)
        MPI.Detach_buffer()
        comm.Recv(np.zeros(0, dtype=np.int64), source=0, tag=5)
        comm.Rsend(pattern(100, 4), dest=0, tag=6)
    elif comm.rank == 0:
        comm.Recv(np.zeros(0, dtype=np.int64), source=1, tag=2)
        for count, seed, tag in ((10, 1, 1), (1, 2, 3), (30_000, 2, 3), (30_000, 3, 4)):
            got = np.zeros(count, dtype=np.int64)
            comm.Recv(got, source=1, tag=tag)
            expect_array(got, pattern(count, seed), f"send mode with tag {tag}")
        got = np.zeros(100, dtype=np.int64)
        ready = comm.Irecv(got, source=1, tag=6)
        comm.Send(np.zeros(0, dtype=np.int64), dest=1, tag=5)
        ready.Wait()
        expect_array(got, pattern(100, 4), "ready send")


def persistent(comm):
    """Persistent requests, started again and again with new contents."""
    peer = comm.rank ^ 1
    if peer >= comm.size:
        return
    for count in (1, 50_000):
        out, into = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        requests = [comm.Send_init(out, dest=peer, tag=1), comm.Recv_init(into, source=peer, tag=1)]
        for turn in range(50):
            out[:] = pattern(count, comm.rank + turn)
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
            expect_array(into, pattern(count, peer + turn), f"persistent exchange {turn}")
        for request in requests:
            request.Free()


def cancel(comm):
    """A receive that never matches can be cancelled, and takes nothing away from the next."""
    if comm.rank == 0:
        got = np.zeros(1, dtype=np.int64)
        request = comm.Irecv(got, source=1, tag=77)
        request.Cancel()
        status = MPI.Status()
        request.Wait(status)
        expect(status.Is_cancelled(), True, "cancelled receive")
        comm.Send(np.zeros(0, dtype=np.int64), dest=1, tag=1)
        comm.Recv(got, source=1, tag=77)
        expect(int(got[0]), 5, "message after the cancelled receive")
    elif comm.rank == 1:
        comm.Recv(np.zeros(0, dtype=np.int64), source=0, tag=1)
        comm.Send(np.array([5], dtype=np.int64), dest=0, tag=77)


def truncation(comm):
    """A message longer than its buffer is an error of that receive alone, expected or not."""
    for count in (10, 100_000):
        if comm.rank == 1:
            comm.Barrier()
            comm.Send(pattern(count, 1), dest=0, tag=1)
            comm.Send(pattern(4, 2), dest=0, tag=2)
        else:
            got = np.zeros(4, dtype=np.int64)
            request = comm.Irecv(got, source=1, tag=1) if comm.rank == 0 else MPI.REQUEST_NULL
            comm.Barrier()
            if comm.rank == 0:
                try:
                    request.Wait()
                    wrong(f"no error for {8 * count} bytes into 32")
                except MPI.Exception as error:
                    expect(error.Get_error_class(), MPI.ERR_TRUNCATE, "error class")
                comm.Recv(got, source=1, tag=2)
                expect_array(got, pattern(4, 2), "message after the truncated one")


def every_size(comm):
    """Around each power of two from 0 to 4 MiB, expected and unexpected."""
    edges = sorted({max(0, (1 << bit) + offset) for bit in range(0, 23) for offset in (-1, 0, 1)} | {0})
    peer = comm.rank ^ 1
    if peer >= comm.size:
        return
    for size in edges:
        out = (np.arange(size) * 7 + size + comm.rank).astype(np.uint8)
        wanted = (np.arange(size) * 7 + size + peer).astype(np.uint8)
        into = np.zeros(size, dtype=np.uint8)
        comm.Sendrecv(out, dest=peer, recvbuf=into, source=peer)
        expect_array(into, wanted, f"{size} bytes")


def to_oneself(comm):
    """A rank may send to itself; nothing of it may need the peer."""
    for count in (0, 10, 100_000):
        got = np.zeros(count, dtype=np.int64)
        request = comm.Irecv(got, source=comm.rank, tag=1)
        comm.Send(pattern(count, comm.rank), dest=comm.rank, tag=1)
        request.Wait()
        expect_array(got, pattern(count, comm.rank), f"{8 * count} bytes to oneself")


def large(comm):
    """64 MiB both ways at once between neighbours."""
    count = 64 * MIB // 8
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = np.zeros(count, dtype=np.int64)
    comm.Sendrecv(pattern(count, comm.rank), dest=right, recvbuf=got, source=left)
    expect_array(got, pattern(count, left), "64 MiB")


def ten_thousand_posted(comm):
    """10,000 receives posted, their messages sent in reverse order of tags."""
    deep(comm, posted_first=True)


def fifty_unexpected(comm):
    """50 messages sent before any receive is posted, then taken in reverse order."""
    deep(comm, posted_first=False, depth=50)


@hangs_on_upstream("it stops reading from a peer after FI_TCP_MAX_SAVED, 64, unexpected messages")
def ten_thousand_unexpected(comm):
    """The same with 10,000: the last one has to get through past all others, for both its sides have been started."""
    deep(comm, posted_first=False)


def deep(comm, posted_first, depth=10_000):
    if comm.rank == 0:
        got = np.zeros(depth, dtype=np.int64)
        if not posted_first:
            # The last message to arrive has tag `depth`; the messages before it are unexpected by then.
            comm.Recv(np.zeros(1, dtype=np.int64), source=1, tag=depth)
        order = range(depth) if posted_first else reversed(range(depth))
        requests = [comm.Irecv(got[tag : tag + 1], source=1, tag=tag) for tag in order]
        if posted_first:
            comm.Send(np.zeros(1, dtype=np.int64), dest=1, tag=1)
        MPI.Request.Waitall(requests)
        expect_array(got, pattern(depth, 0), f"{depth} messages")
    elif comm.rank == 1:
        values = pattern(depth, 0)
        if posted_first:
            comm.Recv(np.zeros(1, dtype=np.int64), source=0, tag=1)
        order = reversed(range(depth)) if posted_first else range(depth)
        requests = [comm.Isend(values[tag : tag + 1], dest=0, tag=tag) for tag in order]
        if not posted_first:
            requests.append(comm.Isend(values[:1], dest=0, tag=depth))
        MPI.Request.Waitall(requests)


def many_large_at_once(comm):
    """Hundreds of messages beyond the eager limit in flight between all pairs, both ways."""
    count, messages = 20_000, 40
    requests, received = [], []
    for other in range(comm.size):
        for number in range(messages):
            got = np.zeros(count, dtype=np.int64)
            received.append((other, number, got))
            requests.append(comm.Irecv(got, source=other, tag=number))
    outgoing = [pattern(count, comm.rank * messages + number) for number in range(messages)]
    for other in range(comm.size):
        for number in reversed(range(messages)):
            requests.append(comm.Isend(outgoing[number], dest=other, tag=number))
    MPI.Request.Waitall(requests)
    for other, number, got in received:
        expect_array(got, pattern(count, other * messages + number), f"message {number} of {other}")


def main():
    run_all(
        any_source_any_tag, exact_among_wildcards, probe, matched_probe, send_modes, persistent, cancel, truncation,
        every_size, to_oneself, large, ten_thousand_posted, fifty_unexpected,
        ten_thousand_unexpected, many_large_at_once,
    )


if __name__ == "__main__":
    main()
