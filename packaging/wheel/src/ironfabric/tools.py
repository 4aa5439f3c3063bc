# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The programs of the library as commands of the Python environment."""

import os
import sys

from . import program


def start(name):
    """Becomes that program, which finds the library beside itself."""
    path = program(name)
    if path is None:
        sys.exit(f"{name} is not in this package")
    os.execv(path, [name, *sys.argv[1:]])


def fi_info():
    start("fi_info")


def fi_mon_sampler():
    start("fi_mon_sampler")


def fi_pingpong():
    start("fi_pingpong")


def fi_strerror():
    start("fi_strerror")


def fi_top():
    start("fi_top")
