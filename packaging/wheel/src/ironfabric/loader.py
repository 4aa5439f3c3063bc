# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which libfabric.so.1 the loader would give an object, asked of the loader itself, and why that one: ld.so(8)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import SONAME
from .elf import Elf, NotElf


def interpreter():
    """The loader of this machine, which this Python has too."""
    try:
        return Elf(os.path.realpath(sys.executable)).interpreter
    except NotElf:
        return None


def loaded(path, env):
    """The file that `path` would get as libfabric.so.1 in this environment; None: it asks for none, or finds none."""
    loader = interpreter()
    if not loader or not Path(loader).exists():
        return None
    try:
        done = subprocess.run(
            [loader, "--list", str(path)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rf"^\s*(?:{re.escape(SONAME)} => )?(/\S*{re.escape(SONAME)}) \(0x", done.stdout, re.MULTILINE)
    return found.group(1) if found else None


def opened(env):
    """The file that dlopen(3) finds under the name alone, tried in a process of its own."""
    script = (
        f"import ctypes; ctypes.CDLL({SONAME!r}); "
        f"print(next(line.split()[-1] for line in open('/proc/self/maps') if '/libfabric' in line))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def same(one, other):
    """Do both names lead to one file?"""
    try:
        return bool(one and other) and os.path.samefile(one, other)
    except OSError:
        return False


def reason(path, file, env):
    """In words, why the loader takes `file` for `path`."""
    folder = os.path.realpath(os.path.dirname(file))

    def has(folders):
        return any(os.path.realpath(one) == folder for one in folders)

    if any(same(word, file) for word in re.split("[: ]", env.get("LD_PRELOAD", "")) if word):
        return "LD_PRELOAD comes before everything else"
    try:
        elf = Elf(path)
    except NotElf as why:
        return str(why)
    if not elf.runpath and has(elf.rpath):
        return "its RPATH comes before LD_LIBRARY_PATH"
    if has(env.get("LD_LIBRARY_PATH", "").split(":")):
        return (
            "LD_LIBRARY_PATH comes before its RUNPATH and the system's folders"
            if elf.runpath
            else "LD_LIBRARY_PATH comes before the system's folders"
        )
    if has(elf.runpath):
        return "its RUNPATH names the folder"
    return "the system's folders (ld.so.cache), or what another object had loaded before"


def rpath_hides(path):
    """The folder of this object's RPATH that has a libfabric.so.1; it is searched before LD_LIBRARY_PATH."""
    try:
        elf = Elf(os.path.realpath(path))
    except NotElf:
        return None
    if elf.runpath:
        return None
    return next((folder for folder in elf.rpath if Path(folder, SONAME).exists()), None)


def resolve(word):
    """The file of a command's first word."""
    found = shutil.which(word)
    return Path(found) if found else None
