# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The libfabric.so.1 of the process, and the slots of its tables."""

import ctypes
import os
import threading
from pathlib import Path
from typing import Any, Optional, Tuple, Type, Union

from .. import SONAME, library_folder
from . import abi

#: The newest interface that this package was written for, and the oldest whose structs have all members it reads.
NEWEST = abi.FI_MAJOR_VERSION << 16 | abi.FI_MINOR_VERSION
OLDEST = 1 << 16 | 14


class Library:
    """The exported functions of a loaded libfabric."""

    def __init__(self, path: str) -> None:
        self.path = path
        library = ctypes.CDLL(path)

        def function(name: str) -> Any:
            call = getattr(library, name)
            call.restype, call.argtypes = abi.FUNCTIONS[name]
            return call

        self.version: int = function("fi_version")()
        if self.version < OLDEST:
            raise OSError(f"{path} is libfabric {self.version >> 16}.{self.version & 0xFFFF}, older than 1.14")
        # The default version of a symbol belongs to the newest structs of this library.
        self.getinfo = function("fi_getinfo")
        self.freeinfo = function("fi_freeinfo")
        self.dupinfo = function("fi_dupinfo")
        self.fabric = function("fi_fabric")
        self.strerror = function("fi_strerror")
        self.tostr = function("fi_tostr")
        #: The interface that the program asks for.
        self.interface = min(self.version, NEWEST)


_loaded: Optional[Library] = None
_lock = threading.Lock()


def load(path: "Union[str, os.PathLike[str], None]" = None) -> Library:
    """Loads a `libfabric.so.1`, once per process; later calls return it.

    Without a path it is that of the folder `IRONFABRIC_LIBRARY`, then that of this package, and then the one that the
    dynamic linker finds. A path other than that of the loaded library raises an error.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = Library(os.fspath(path) if path is not None else _default())
        elif path is not None and os.path.realpath(path) != os.path.realpath(_loaded.path):
            raise ValueError(f"{_loaded.path} is loaded already")
        return _loaded


def _default() -> str:
    file: Path = library_folder() / SONAME
    if file.is_file() or os.environ.get("IRONFABRIC_LIBRARY"):
        return str(file)
    return SONAME


def version() -> Tuple[int, int]:
    """Returns the version of the loaded libfabric: fi_version(3)."""
    number = load().version
    return number >> 16, number & 0xFFFF


def strerror(code: int) -> str:
    """Returns the text of a number of fi_errno(3)."""
    text: Optional[bytes] = load().strerror(code)
    return text.decode(errors="replace") if text else f"error {code}"


def slot(table: Any, kind: Type[ctypes.Structure], name: str) -> Any:
    """Returns a function of a table; None if the table or the function is absent.

    The first member of a table is its size in bytes, as far as the provider has filled it.
    """
    if not table:
        return None
    content = table.contents
    place = getattr(kind, name)
    if content.size < place.offset + place.size:
        return None
    return getattr(content, name) or None


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)


def allocated(data: bytes) -> int:
    """Returns a copy of bytes in memory that `free` releases, for members of a fi_info: fi_getinfo(3)."""
    address: Optional[int] = _libc.malloc(max(len(data), 1))
    if not address:
        raise MemoryError
    ctypes.memmove(address, data, len(data))
    return address
