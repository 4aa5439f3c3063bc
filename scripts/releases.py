# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The table src/abi/releases.tsv, for scripts in Python."""
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
Release = collections.namedtuple("Release", "release interface node file provider state")


def table():
    """The rows, oldest first."""
    rows = (row for row in (ROOT / "src/abi/releases.tsv").read_text().splitlines() if not row.startswith(("#", "release\t")))
    return [Release(*row.split("\t")) for row in rows]


def default():
    return next(row for row in table() if row.state == "default")


def oldest_set(built):
    """Compiler options for a program that is to run on other libfabrics, too: the headers of the oldest release in the table
    and the link stub of that release, both in the folder `built`."""
    oldest = table()[0]
    if oldest.state == "default":
        return [f"-I{ROOT / 'include'}", f"-L{built}", "-lfabric"]
    headers, stub = (pathlib.Path(built) / f"{kind}-{oldest.interface}" for kind in ("include", "link"))
    for wanted in (headers / "rdma/fabric.h", stub / "libfabric.so"):
        if not wanted.exists():
            sys.exit(f"FAILED: there is no {wanted}: run make")
    return [f"-I{headers}", f"-L{stub}", "-lfabric"]
