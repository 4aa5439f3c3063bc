# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A job that hangs: rank 0 waits for a message with tag 77 that rank 1 never sends. Each rank says its process and number."""
import os
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
# They must be connected before one waits for a message that never comes.
comm.Sendrecv(np.ones(4), other, recvbuf=np.zeros(4), source=other)
os.write(1, f"rank {comm.rank} {os.getpid()}\n".encode())
if comm.rank == 0:
    comm.Recv(np.zeros(10), source=1, tag=77)
else:
    time.sleep(1000)
