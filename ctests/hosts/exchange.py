# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""exchange.py LIMIT: every rank exchanges messages with every other one, until something fails."""
import sys

import numpy
import rank

rank.begin(float(sys.argv[1]), quiet=True)
comm = rank.MPI.COMM_WORLD
peers = [n for n in range(comm.size) if n != comm.rank]
mine, theirs = numpy.zeros(1), numpy.zeros(comm.size)
for turn in range(1 << 60):
    requests = [comm.Irecv(theirs[n:n + 1], source=n) for n in peers]
    requests += [comm.Isend(mine, dest=n) for n in peers]
    rank.MPI.Request.Waitall(requests)
    if turn == 100:
        rank.say(f"rank {comm.rank} goes on and on")
