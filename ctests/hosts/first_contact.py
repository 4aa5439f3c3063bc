# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""first_contact.py LIMIT: says how long it took from the begin of MPI_Init until this rank had heard of all others."""
import sys
import time

import numpy
import rank

start = time.monotonic()
rank.begin(float(sys.argv[1]), quiet=True)
comm = rank.MPI.COMM_WORLD
mine, theirs = numpy.full(comm.size, comm.rank), numpy.zeros(comm.size, dtype=int)
requests = [comm.Irecv(theirs[n:n + 1], source=n) for n in range(comm.size) if n != comm.rank]
requests += [comm.Isend(mine[:1], dest=n) for n in range(comm.size) if n != comm.rank]
rank.MPI.Request.Waitall(requests)
rank.say(f"rank {comm.rank}: all peers after {time.monotonic() - start:.3f} s")
rank.MPI.Finalize()
