# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Derived datatypes: data that lies in pieces at the sender, the receiver or both arrives in the right places."""

import numpy as np
from rank import MPI, expect_array, run_all

UNTOUCHED = -1


def exchange(comm, out, out_type, into, into_type):
    """Even ranks with their odd neighbours, one item of each type."""
    peer = comm.rank ^ 1
    if peer < comm.size:
        comm.Sendrecv([out, 1, out_type], dest=peer, recvbuf=[into, 1, into_type], source=peer)
        return peer
    return None


def committed(datatype):
    return datatype.Commit()


def values(count, rank):
    return np.arange(count, dtype=np.int64) * 10 + rank


def vector(comm):
    """Every third element, from a few to beyond the eager limit."""
    for count in (1, 4, 5, 300, 50_000):
        strided = committed(MPI.INT64_T.Create_vector(count, 1, 3))
        into = np.full(3 * count, UNTOUCHED, dtype=np.int64)
        peer = exchange(comm, values(3 * count, comm.rank), strided, into, strided)
        if peer is not None:
            wanted = np.full(3 * count, UNTOUCHED, dtype=np.int64)
            wanted[::3] = values(3 * count, peer)[::3]
            expect_array(into, wanted, f"vector of {count}")
        strided.Free()


def pieces_to_whole(comm):
    """Pieces at the sender, one block at the receiver, and the other way round."""
    for count in (3, 1000, 40_000):
        strided = committed(MPI.INT64_T.Create_vector(count, 2, 5))
        whole = committed(MPI.INT64_T.Create_contiguous(2 * count))
        source = values(5 * count, comm.rank)
        into = np.zeros(2 * count, dtype=np.int64)
        peer = exchange(comm, source, strided, into, whole)
        if peer is not None:
            expect_array(into, values(5 * count, peer).reshape(count, 5)[:, :2].ravel(), f"gathered {count}")
        spread = np.full(5 * count, UNTOUCHED, dtype=np.int64)
        peer = exchange(comm, values(2 * count, comm.rank), whole, spread, strided)
        if peer is not None:
            wanted = np.full((count, 5), UNTOUCHED, dtype=np.int64)
            wanted[:, :2] = values(2 * count, peer).reshape(count, 2)
            expect_array(spread, wanted.ravel(), f"spread {count}")
        strided.Free()
        whole.Free()


def indexed(comm):
    """Blocks of different lengths at odd places, out of order."""
    lengths, places = [3, 1, 0, 7, 2], [40, 0, 5, 10, 30]
    datatype = committed(MPI.INT64_T.Create_indexed(lengths, places))
    into = np.full(50, UNTOUCHED, dtype=np.int64)
    peer = exchange(comm, values(50, comm.rank), datatype, into, datatype)
    if peer is not None:
        wanted = np.full(50, UNTOUCHED, dtype=np.int64)
        for length, place in zip(lengths, places):
            wanted[place : place + length] = values(50, peer)[place : place + length]
        expect_array(into, wanted, "indexed")
    datatype.Free()


def structure(comm):
    """An array of C structs with padding; the padding stays untouched."""
    layout = np.dtype({"names": ["a", "b", "c"], "formats": ["i1", "f8", "i2"], "offsets": [0, 8, 16], "itemsize": 24})
    one = MPI.Datatype.Create_struct([1, 1, 1], [0, 8, 16], [MPI.INT8_T, MPI.DOUBLE, MPI.INT16_T])
    item = committed(one.Create_resized(0, 24))
    count = 5000
    peer = comm.rank ^ 1
    if peer < comm.size:

        def filled(rank):
            rows = np.zeros(count, dtype=layout)
            rows["a"] = (np.arange(count) + rank) % 100
            rows["b"] = np.arange(count) / 8 + rank
            rows["c"] = np.arange(count) % 30_000 - rank
            return rows

        out, into = filled(comm.rank), np.full(24 * count, 0xEE, dtype=np.uint8)
        comm.Sendrecv([out, count, item], dest=peer, recvbuf=[into, count, item], source=peer)
        rows, wanted = into.view(layout), filled(peer)
        for name in layout.names:
            expect_array(rows[name], wanted[name], f"field {name}")
        expect_array(into.reshape(count, 24)[:, 1:8].ravel(), np.full(7 * count, 0xEE, dtype=np.uint8), "padding")
    one.Free()
    item.Free()


def subarray(comm):
    """The inside of a three-dimensional array."""
    shape, inside, start = [20, 30, 40], [10, 15, 20], [5, 7, 9]
    datatype = committed(MPI.INT64_T.Create_subarray(shape, inside, start))
    count = int(np.prod(shape))
    into = np.full(count, UNTOUCHED, dtype=np.int64)
    peer = exchange(comm, values(count, comm.rank), datatype, into, datatype)
    if peer is not None:
        place = tuple(slice(first, first + length) for first, length in zip(start, inside))
        wanted = np.full(shape, UNTOUCHED, dtype=np.int64)
        wanted[place] = values(count, peer).reshape(shape)[place]
        expect_array(into, wanted.ravel(), "subarray")
    datatype.Free()


def main():
    run_all(vector, pieces_to_whole, indexed, structure, subarray)


if __name__ == "__main__":
    main()
