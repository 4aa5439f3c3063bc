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


def headers(release, built):
    """The folder of the headers of a release; `built` is the folder of the library."""
    folder = ROOT / "include" if release.state == "default" else pathlib.Path(built) / f"include-{release.interface}"
    if not (folder / "rdma/fabric.h").exists():
        sys.exit(f"FAILED: there are no headers in {folder}: run make")
    return folder


def oldest_set(built):
    """Compiler options for a program that is to run on other libfabrics, too: the headers of the oldest release in the table
    and the link stub of that release, both in the folder `built`."""
    oldest = table()[0]
    stub = pathlib.Path(built) / ("" if oldest.state == "default" else f"link-{oldest.interface}")
    if not (stub / "libfabric.so").exists():
        sys.exit(f"FAILED: there is no {stub / 'libfabric.so'}: run make")
    return [f"-I{headers(oldest, built)}", f"-L{stub}", "-lfabric"]


def newest_set(built):
    """Compiler options for a program that calls all that the library has, and so runs on this library alone."""
    return [f"-I{headers(table()[-1], built)}", f"-L{built}", "-lfabric"]
