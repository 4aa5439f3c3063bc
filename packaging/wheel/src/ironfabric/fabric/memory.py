# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Memory: buffers of operations, regions that peers access, contexts of operations. fi_mr(3)"""

import ctypes
import struct
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Union

from . import abi
from ._object import Object
from .errors import Busy, check
from .flags import Access, MrMode

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ._domain import Domain


class _PyBuffer(ctypes.Structure):
    """`Py_buffer` of Python's C API, PEP 3118."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]
    if TYPE_CHECKING:
        buf: Optional[int]
        len: int


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.restype, _get_buffer.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.restype, _release_buffer.argtypes = None, (ctypes.c_void_p,)
_SIMPLE, _WRITABLE = 0, 1


class Pin:
    """The memory of an object that has the buffer protocol, which cannot be resized or freed until `release`.

    There is no finalizer: a pin is released when the library no longer accesses the memory, and at no other time.
    """

    __slots__ = ("_view", "address", "length", "where")

    def __init__(self, source: "ReadableBuffer", is_written: bool) -> None:
        view = _PyBuffer()
        where = ctypes.addressof(view)
        try:
            # It raises TypeError for an object without the protocol and BufferError for one that is not contiguous.
            _get_buffer(source, where, _WRITABLE if is_written else _SIMPLE)
        except BufferError as error:
            kind = "writable and contiguous" if is_written else "contiguous"
            raise BufferError(f"the buffer is not {kind}: {error}") from None
        self._view: Optional[_PyBuffer] = view
        self.where = where
        self.address = view.buf or 0
        self.length = view.len

    def release(self) -> None:
        """Lets the object be resized and freed."""
        if self._view is not None:
            _release_buffer(self.where)
            self._view = None


class RemoteMemory(NamedTuple):
    """Memory of a peer: the address, key and length of its region, as numbers that a message can carry.

    >>> memory = RemoteMemory(address=0, key=7, length=100)
    >>> RemoteMemory.from_bytes(bytes(memory)) == memory
    True
    >>> memory.slice(10, 20)
    RemoteMemory(address=10, key=7, length=20)
    """

    address: int
    key: int
    length: int

    def slice(self, offset: int, length: Optional[int] = None) -> "RemoteMemory":
        """Returns a part of the memory. ValueError: it is not within."""
        length = self.length - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > self.length:
            raise ValueError(f"{offset} and {length} bytes: beyond the {self.length} bytes of the memory")
        return RemoteMemory(self.address + offset, self.key, length)

    def __bytes__(self) -> bytes:
        """Returns the numbers in little-endian order, 24 bytes."""
        return _REMOTE.pack(*self)

    @classmethod
    def from_bytes(cls, data: "ReadableBuffer") -> "RemoteMemory":
        """Reads what `bytes` has written."""
        return cls(*_REMOTE.unpack(data))


_REMOTE = struct.Struct("<QQQ")


class MemoryRegion(Object):
    """Registered memory: fi_mr(3).

    `buffer` is an object with the buffer protocol, or a number of bytes to allocate. It is exported until the region is
    closed: a `bytearray` cannot be resized. Operations take a region, or a part of it (`region[8:16]`), as their
    buffer, which is faster than other objects. With rights for peers, these access the memory named by `remote` at any
    time.
    """

    kind = "memory region"

    def __init__(
        self,
        domain: "Domain",
        buffer: "Union[ReadableBuffer, int]",
        access: Access = Access.LOCAL,
        *,
        key: Optional[int] = None,
    ) -> None:
        super().__init__()
        # A number in place of a buffer would otherwise be taken for one by `bytearray` only.
        source: Any = bytearray(buffer) if isinstance(buffer, int) else buffer
        access = Access(access)
        is_written = bool(access & (Access.RECV | Access.READ | Access.REMOTE_WRITE))
        pin = Pin(source, is_written)
        try:
            if not pin.length:
                raise ValueError("a region has at least one byte")
            raw = domain._register(pin.address, pin.length, access, key)
        except BaseException:
            pin.release()
            raise
        self.buffer = source
        self.domain = domain
        self.access = access
        self._pin = pin
        region = abi.fid_mr.from_address(raw)
        #: The descriptor for local operations.
        self._desc: Optional[int] = region.mem_desc
        self._key = region.key
        self._is_written = is_written
        handle = self._opened(raw, domain)
        handle.keep, handle.after = (source, pin), pin.release

    @property
    def key(self) -> int:
        """Returns the key by which peers name the region."""
        return self._key

    @property
    def remote(self) -> RemoteMemory:
        """Returns what peers need to access the region. Send it to them in a message."""
        self.fid
        by_address = self.domain.mr_mode & MrMode.VIRT_ADDR
        return RemoteMemory(self._pin.address if by_address else 0, self._key, self._pin.length)

    def __len__(self) -> int:
        return self._pin.length

    def __getitem__(self, part: slice) -> "RegionSlice":
        """Returns a part of the region, for an operation."""
        if not isinstance(part, slice):
            raise TypeError("a part of a region is a slice, region[8:16]")
        start, stop, step = part.indices(self._pin.length)
        if step != 1:
            raise ValueError("a part of a region has no steps")
        return RegionSlice(self, start, max(stop - start, 0))

    @property
    def view(self) -> memoryview:
        """Returns the bytes."""
        return memoryview(self.buffer).cast("B")

    def _closing(self) -> None:
        # An operation that is being posted checks the region after it is among these operations.
        fid, self._fid = self._fid, 0
        if any(self in operation._regions for operation in list(self.domain._operations.values())):
            self._fid = fid
            raise Busy(abi.FI_EBUSY, "an operation in flight uses the memory region")


class RegionSlice:
    """A part of a memory region."""

    __slots__ = ("length", "offset", "region")

    def __init__(self, region: MemoryRegion, offset: int, length: int) -> None:
        self.region = region
        self.offset = offset
        self.length = length

    def __len__(self) -> int:
        return self.length

    @property
    def view(self) -> memoryview:
        """Returns the bytes."""
        return self.region.view[self.offset : self.offset + self.length]

    @property
    def remote(self) -> RemoteMemory:
        """Returns what peers need to access this part."""
        return self.region.remote.slice(self.offset, self.length)


def copied(data: "ReadableBuffer") -> bytes:
    """Returns the bytes of a buffer."""
    return data if type(data) is bytes else bytes(memoryview(data).cast("B"))


#: Types of buffers of operations.
BufferLike = Union["ReadableBuffer", MemoryRegion, RegionSlice]


class Contexts:
    """Contexts of operations: memory that belongs to the provider while an operation is in flight. fi_endpoint(3)"""

    __slots__ = ("blocks", "free")

    BLOCK = 256

    def __init__(self) -> None:
        self.blocks: List[Any] = []
        self.free: List[int] = []

    def take(self) -> int:
        """Returns the address of a context."""
        try:
            return self.free.pop()
        except IndexError:
            block = (abi.fi_context2 * self.BLOCK)()
            start, size = ctypes.addressof(block), ctypes.sizeof(abi.fi_context2)
            self.blocks.append(block)
            self.free.extend(range(start + size, start + size * self.BLOCK, size))
            return start


def close_raw(fid: int) -> None:
    """Closes a registration that has no object."""
    check(abi.fid.from_address(fid).ops.contents.close(fid), "closing a memory region")


__all__ = ["Access", "BufferLike", "Contexts", "MemoryRegion", "Pin", "RegionSlice", "RemoteMemory"]
