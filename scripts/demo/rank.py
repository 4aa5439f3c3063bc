# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What every MPI program here does as one rank: say which libfabric it runs on, refuse the wrong one, never hang.

Import it before mpi4py. Loading the MPI library maps libfabric, so the report comes before MPI_Init and also tells
what was mapped when initialisation fails.
"""

import ctypes
import faulthandler
import os
import signal
import sys
import time

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402  (the line above has to come first)

RANK = int(os.environ.get("PMI_RANK", "0"))
PR_SET_PDEATHSIG = 1


def say(line):
    """One write, so that the lines of several ranks do not mix."""
    sys.stdout.flush()
    os.write(1, (line + "\n").encode())


def mapped_libraries():
    """Every file called libfabric.so* in this process's address space."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "libfabric.so" in line}
    return sorted(paths)


def version_of(path):
    """What the mapped library itself answers to fi_version(3)."""
    library = ctypes.CDLL(path)
    library.fi_version.restype = ctypes.c_uint32
    version = library.fi_version()
    return f"{version >> 16}.{version & 0xFFFF}"


def begin(limit, required=MPI.THREAD_SINGLE, quiet=False):
    """Report the library, arrange for a stack of each rank at the limit, initialise MPI.

    The launcher ends a job that hangs, some time after the limit: a rank that left by itself would take the others
    with it before they have said where they are.
    """
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit)
    # A rank whose launcher was killed must not keep spinning.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libraries = mapped_libraries()
    if not quiet:
        shown = ", ".join(f"{path}, fi_version() {version_of(path)}" for path in libraries)
        say(f"rank {RANK}: {shown or 'no libfabric.so.1 mapped'}")
    expected = os.environ.get("DEMO_EXPECTED_LIBRARY")
    if expected and libraries != [expected]:
        say(f"rank {RANK}: WRONG LIBRARY, expected {expected} and nothing else, mapped: {libraries}")
        sys.exit(3)
    provided = MPI.Init_thread(required)
    if provided < required:
        wrong(f"MPI gives thread level {provided}, wanted {required}")
    return MPI.COMM_WORLD


def wrong(message):
    """A wrong value: say where and end the whole job with a non-zero code."""
    say(f"rank {RANK}: WRONG: {message}")
    MPI.COMM_WORLD.Abort(1)


def expect(got, wanted, what):
    if got != wanted:
        wrong(f"{what}: got {got!r}, wanted {wanted!r}")


def expect_array(got, wanted, what):
    """Every element is compared; the first that differs is named."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        wrong(f"{what}: got {got.dtype}{got.shape}, wanted {wanted.dtype}{wanted.shape}")
    different = (got != wanted).nonzero()[0]
    if different.size:
        first = int(different[0])
        wrong(f"{what}: {different.size} of {got.size} values, first at {first}: got {got[first]}, wanted {wanted[first]}")


def end():
    MPI.Finalize()
    faulthandler.cancel_dump_traceback_later()


def hangs_on_upstream(reason):
    """Marks a check that upstream's library cannot end; it runs there only when asked for by name."""

    def mark(check):
        check.hangs_on_upstream = reason
        return check

    return mark


def run_all(*checks, required=MPI.THREAD_SINGLE, quiet=True):
    """A program's whole life: each check(comm) in turn, a barrier and a line after each.

    Its arguments are the limit in seconds and, if only one check is wanted, its name. A check may return some words.
    """
    limit, *names = sys.argv[1:]
    comm = begin(float(limit), required, quiet)
    for check in checks:
        if names and check.__name__ not in names:
            continue
        reason = getattr(check, "hangs_on_upstream", None)
        if reason and not names and os.environ["DEMO_LIBRARY_IS_UPSTREAM"] == "1":
            if comm.rank == 0:
                say(f"  --  {check.__name__:<23} not tried on upstream: {reason}")
            continue
        comm.Barrier()
        start = time.perf_counter()
        words = check(comm) or ""
        comm.Barrier()
        if comm.rank == 0:
            say(f"  ok  {check.__name__:<23} {time.perf_counter() - start:6.2f} s  {words}".rstrip())
    end()
