# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the loader reads of a program or a shared object: interpreter, NEEDED, RPATH, RUNPATH. 64 bits, elf(5)."""

import mmap
import struct
from pathlib import Path

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB, DT_RPATH, DT_RUNPATH = 1, 5, 15, 29


class NotElf(Exception):
    """The file is no ELF file of this kind of machine."""


class Elf:
    def __init__(self, path):
        self.path = Path(path)
        self.interpreter, self.dynamic = None, False
        self.needed, self.rpath, self.runpath = [], [], []
        try:
            with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._read(data)
        except (OSError, ValueError, struct.error) as error:
            raise NotElf(f"{path}: {error}") from error

    def _read(self, data):
        if data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
            raise NotElf(f"{self.path} is no ELF file of 64 bits")
        (start,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        loads, dynamic = [], None
        for i in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, start + i * size)
            if kind == PT_LOAD:
                loads.append((address, offset, length))
            elif kind == PT_DYNAMIC:
                dynamic = offset, length
            elif kind == PT_INTERP:
                self.interpreter = data[offset : offset + length].rstrip(b"\0").decode()
        if dynamic is None:
            return
        self.dynamic = True
        entries = []
        for at in range(dynamic[0], dynamic[0] + dynamic[1], 16):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag == 0:
                break
            entries.append((tag, value))
        address = dict(entries).get(DT_STRTAB, 0)
        strings = next(
            (offset + address - begin for begin, offset, length in loads if begin <= address < begin + length), None
        )
        if strings is None:
            return

        def text(value):
            return data[strings + value : data.find(b"\0", strings + value)].decode(errors="replace")

        for tag, value in entries:
            if tag == DT_NEEDED:
                self.needed.append(text(value))
            elif tag == DT_RPATH:
                self.rpath = self._folders(text(value))
            elif tag == DT_RUNPATH:
                self.runpath = self._folders(text(value))

    def _folders(self, text):
        origin = str(self.path.resolve().parent)
        return [word.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for word in text.split(":") if word]

    @property
    def static(self):
        """No loader ever sees it, and no variable gives it another library."""
        return self.interpreter is None and not self.dynamic
