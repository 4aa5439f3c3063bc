# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Open objects: which object uses which, closing, fork, the end of the process.

`Object` is what a program holds. Its `Handle` outlives it: the set of all open handles keeps everything that the
library may access (buffers of operations in flight, registered memory), and an object whose last reference is gone
stays open as long as others use it. So neither the garbage collector nor the end of the interpreter frees memory that
the library uses, in whatever order they finalize objects.

Locks are taken in this order: `_graph`, the lock of a queue, the lock of an endpoint or another object.
"""

import atexit
import ctypes
import os
import threading
import weakref
from collections import deque
from types import TracebackType
from typing import Any, Callable, Deque, List, Optional, Sequence, Set, Tuple, Type, TypeVar

from . import abi
from ._library import slot
from .errors import ClosedError, FabricError, check, error

Self = TypeVar("Self", bound="Object")


class Handle:
    """An open C object."""

    __slots__ = ("__weakref__", "after", "fid", "is_dropped", "keep", "kind", "object", "rank", "users", "uses")

    def __init__(self, owner: "Object", fid: int, uses: Sequence["Handle"]) -> None:
        self.fid = fid
        self.kind = owner.kind
        self.rank = owner.rank
        self.object: "weakref.ref[Object]" = weakref.ref(owner)
        self.uses: Tuple[Handle, ...] = tuple(uses)
        self.users: List[Handle] = []
        self.is_dropped = False
        #: What the library may access until the object is closed.
        self.keep: Any = None
        #: Called when the object is closed.
        self.after: Optional[Callable[[], object]] = None

    def dropped(self) -> None:
        """Closes the object, now or when no other object uses it. Called when the program has no more references."""
        _graph.dropped.append(self)
        _graph.collect()


class Graph:
    """All open objects of the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: Set[Handle] = set()
        #: Handles whose object is gone. Finalizers run at any time, also while this thread holds the lock, so they only
        #: leave their handle here.
        self.dropped: Deque[Handle] = deque()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        self.collect()

    def collect(self) -> None:
        """Closes objects that have no references and no users."""
        while self.dropped:
            if not self.lock.acquire(blocking=False):
                # The thread that holds the lock calls this when it releases it.
                return
            try:
                while self.dropped:
                    handle = self.dropped.popleft()
                    handle.is_dropped = True
                    self._release(handle)
            finally:
                self.lock.release()

    def add(self, handle: Handle) -> None:
        with self:
            for used in handle.uses:
                used.users.append(handle)
            self.open.add(handle)

    def _release(self, handle: Handle) -> None:
        if handle.is_dropped and not handle.users and handle in self.open:
            try:
                self.close(handle)
            except FabricError:
                # It still exists, and stays in the set with all that it uses.
                return

    def close(self, handle: Handle) -> None:
        """Closes an object without users. The caller holds the lock."""
        owner = handle.object()
        if owner is not None:
            owner._closing()
        try:
            call = slot(abi.fid.from_address(handle.fid).ops, abi.fi_ops, "close")
            check(call(handle.fid) if call else -abi.FI_ENOSYS, f"closing the {handle.kind}")
        except FabricError:
            if owner is not None:
                owner._enable_calls(handle.fid)
            raise
        self.open.discard(handle)
        if owner is not None:
            owner._closed()
        if handle.after is not None:
            handle.after()
        handle.keep = handle.after = None
        for used in handle.uses:
            used.users.remove(handle)
            self._release(used)
        handle.uses = ()

    def close_all(self, handle: Handle) -> None:
        """Closes an object and before it those that use it. The caller holds the lock."""
        while handle.users:
            # The newest first, and endpoints before regions that their operations use.
            self.close_all(max(reversed(handle.users), key=lambda user: user.rank))
        if handle in self.open:
            self.close(handle)


_graph = Graph()


class Object:
    """An object of libfabric. It is closed by `close`, by a `with` block, or when the last reference to it is gone.

    An object keeps open those that it was opened on and that it is bound to. `close` first closes the objects that use
    this one.
    """

    kind = "object"
    #: Objects of a higher rank are closed first.
    rank = 0

    def __init__(self) -> None:
        self._fid = 0
        self._handle: Optional[Handle] = None
        #: Held during calls that use the C object, so that no other thread closes it meanwhile.
        self._lock = threading.RLock()

    def _opened(self, fid: int, *uses: "Optional[Object]") -> Handle:
        """Takes over an open C object."""
        handles = [used._handle for used in uses if used is not None and used._handle is not None]
        handle = Handle(self, fid, handles)
        self._handle, self._fid = handle, fid
        _graph.add(handle)
        weakref.finalize(self, handle.dropped).atexit = False
        return handle

    @property
    def closed(self) -> bool:
        """Whether the object is closed."""
        return not self._fid

    @property
    def fid(self) -> int:
        """Returns the address of the C object, for calls that this package does not have."""
        return self._fid or self._raise_closed()

    def _raise_closed(self) -> int:
        raise ClosedError(f"the {self.kind} is closed")

    def close(self) -> None:
        """Closes the objects that use this one, and then this one. Closing it again has no effect."""
        handle = self._handle
        if handle is None:
            return
        with _graph:
            if handle in _graph.open:
                _graph.close_all(handle)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"at {self._fid:#x}" if self._fid else "closed"
        return f"<{type(self).__name__} {state}>"

    def _enable_calls(self, fid: int) -> None:
        """Allows calls of the C object; 0: none."""
        self._fid = fid

    def _closing(self) -> None:
        """Makes further calls fail, after those that are running."""
        with self._lock:
            self._enable_calls(0)

    def _closed(self) -> None:
        """Called when the C object is closed."""

    def _call(self, table: Any, struct: Type[ctypes.Structure], name: str, what: str, *arguments: Any) -> int:
        """Calls a slot of a table, and raises an error if it fails. The caller holds the lock."""
        call = slot(table, struct, name)
        result: int = call(*arguments) if call is not None else -abi.FI_ENOSYS
        return check(result, what)

    def _control(self, command: int, argument: Any, what: str) -> int:
        """fi_control(3)."""
        fid = self._fid or self._raise_closed()
        return self._call(abi.fid.from_address(fid).ops, abi.fi_ops, "control", what, fid, command, argument)

    def _bind(self, other: "Object", flags: int, what: str) -> None:
        """fi_ep_bind of fi_endpoint(3), and similar calls."""
        fid = self._fid or self._raise_closed()
        self._call(abi.fid.from_address(fid).ops, abi.fi_ops, "bind", what, fid, other.fid, flags)


def require_open(**objects: Optional[Object]) -> None:
    """Raises an error unless each of the arguments is an open object, or None."""
    for name, value in objects.items():
        if value is not None and not isinstance(value, Object):
            raise TypeError(f"{name} is a {type(value).__name__}, not an object of libfabric")
        if value is not None:
            value.fid


def sized(call: Callable[[Any, Any], int], what: str) -> bytes:
    """Returns the bytes that `call` writes into a buffer, and calls it again if the first buffer was too small."""
    size = 256
    for _ in range(2):
        buffer, length = ctypes.create_string_buffer(size), ctypes.c_size_t(size)
        code = call(buffer, ctypes.byref(length))
        if code != -abi.FI_ETOOSMALL and (code < 0 or length.value <= size):
            check(code, what)
            return buffer.raw[: length.value]
        size = length.value
    raise error(abi.FI_ETOOSMALL, what)


def _forked() -> None:
    """In a forked child all objects belong to the parent: they are closed here without a call of the library."""
    for handle in list(_graph.open):
        owner = handle.object()
        if owner is not None:
            owner._enable_calls(0)
            owner._handle = None
            owner._lock = threading.RLock()
    # The lists stay allocated, because the handles' memory must stay what it is in the parent.
    _inherited.append(_graph.open)
    _graph.open = set()
    _graph.dropped = deque()
    _graph.lock = threading.Lock()


#: Handles of the parent process.
_inherited: List[Set[Handle]] = []


def _exit() -> None:
    """Closes everything at the end of the process, operations in flight included."""
    if not _graph.lock.acquire(timeout=1):
        # A thread is closing an object. Everything stays allocated, and the kernel frees it.
        return
    try:
        while _graph.open:
            handle = max(_graph.open, key=lambda handle: handle.rank)
            try:
                _graph.close_all(handle)
            except FabricError:
                return
    finally:
        _graph.lock.release()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
