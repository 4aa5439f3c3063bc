# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Completion queues, and the operations that they report: fi_cq(3)."""

import ctypes
import struct
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, Optional, Tuple, Type

from . import abi
from ._library import slot, strerror
from ._queue import Pending, Queue
from .errors import FabricError, NotSupported, OperationError, check, error
from .flags import CompletionFlags, Wait
from .memory import MemoryRegion, Pin, close_raw

if TYPE_CHECKING:
    from ._domain import Domain, Peer
    from ._endpoint import Context

#: Entries of one read.
BATCH = 64


def packed(kind: Type[ctypes.Structure]) -> struct.Struct:
    """Returns the format that unpacks a C struct of words."""
    letters = {ctypes.c_void_p: "P", ctypes.c_uint64: "Q", ctypes.c_size_t: "N"}
    made = struct.Struct("".join(letters[field[1]] for field in kind._fields_))
    assert made.size == ctypes.sizeof(kind)
    return made


_ENTRY = packed(abi.fi_cq_tagged_entry)
_SIZE = _ENTRY.size


class Completion:
    """The end of an operation: `fi_cq_tagged_entry` of fi_cq(3).

    `operation` is None for an access by a peer that sent data along.
    """

    __slots__ = ("_address", "_data", "_flags", "_source", "length", "operation", "tag")

    def __init__(
        self,
        operation: "Optional[Operation]",
        flags: int,
        length: int,
        address: int,
        data: int,
        tag: int,
        source: Optional[int],
    ) -> None:
        self.operation = operation
        self._flags = flags
        #: Received bytes; undefined for other operations.
        self.length = length
        #: Tag of a message that was received.
        self.tag = tag
        self._address = address
        self._data = data
        self._source = source

    @property
    def flags(self) -> CompletionFlags:
        """Returns the kind of the operation."""
        return CompletionFlags(self._flags & _ALL)

    @property
    def is_recv(self) -> bool:
        """Whether a message was received."""
        return bool(self._flags & abi.FI_RECV)

    @property
    def data(self) -> Optional[int]:
        """Returns the number that the peer has sent along, if any."""
        return self._data if self._flags & abi.FI_REMOTE_CQ_DATA else None

    @property
    def context(self) -> Any:
        """Returns the object that the program gave to the operation."""
        return self.operation.context if self.operation is not None else None

    @property
    def source(self) -> "Optional[Peer]":
        """Returns the sender. None: it is not in the address vector, or the endpoint has no `Caps.SOURCE`."""
        operation = self.operation
        if self._source is None or operation is None or operation._vector is None:
            return None
        known: "Dict[int, Peer]" = operation._vector._peers
        return known.get(self._source)

    @property
    def received(self) -> memoryview:
        """Returns the bytes of the message in the buffer of the operation.

        If the receive has several buffers, the bytes are copied.
        """
        if self.operation is None or not self.is_recv:
            raise TypeError("the completion is not of a receive")
        parts = self.operation._views()
        if self.operation._is_multi:
            start = self._address - self.operation._start
            return parts[0][start : start + self.length]
        if len(parts) == 1:
            return parts[0][: self.length]
        return memoryview(b"".join(parts))[: self.length]

    def __repr__(self) -> str:
        return f"<Completion {self.flags!r} length={self.length} tag={self.tag}>"


_ALL = 0
for _flag in CompletionFlags.__members__.values():
    _ALL |= _flag.value


class Operation(Pending[Completion]):
    """An operation that was posted. It keeps its buffers exported until it has ended.

    `wait` and `await` return its completion, which a read of the queue then does not return, or raise an
    `OperationError`. Completions that were neither read nor waited for are kept: if neither is going to happen, call
    `detach`.
    """

    __slots__ = (
        "_context",
        "_destination",
        "_endpoint",
        "_is_detached",
        "_is_multi",
        "_pins",
        "_raw",
        "_regions",
        "_start",
        "_vector",
        "buffer",
        "context",
    )
    _queue: "CompletionQueue"

    def __init__(self, queue: "CompletionQueue", endpoint: "Context", buffer: Any, context: Any) -> None:
        # In place of super().__init__: operations are made often.
        self._queue = queue
        self._is_done = self._is_detached = self._is_multi = False
        self._result = self._error = self._futures = None
        self._endpoint = endpoint
        self._vector = endpoint.address_vector
        #: The buffer, or the list of buffers, that the program passed.
        self.buffer = buffer
        #: An object of the program.
        self.context = context
        self._pins: List[Pin] = []
        self._regions: List[MemoryRegion] = []
        self._raw: List[int] = []
        self._start = 0
        self._destination: Optional[int] = None
        self._context = 0

    def cancel(self) -> bool:
        """Cancels the operation if possible: fi_cancel of fi_endpoint(3). It then fails with FI_ECANCELED.

        False: it is not in flight.
        """
        return self._endpoint._cancel(self)

    def detach(self) -> "Operation":
        """Drops the completion unless the operation fails. Returns the operation."""
        with self._queue._lock:
            self._is_detached = True
            if self._is_done and self._error is None:
                self._queue._taken(self)
        return self

    def _views(self) -> List[memoryview]:
        parts = self.buffer if isinstance(self.buffer, (list, tuple)) else [self.buffer]
        return [part.view if hasattr(part, "remote") else memoryview(part).cast("B") for part in parts]

    def _release(self) -> None:
        """Releases the buffers. The library does not access them any more."""
        for raw in self._raw:
            try:
                close_raw(raw)
            except FabricError:
                # The provider may still use the memory, so that it stays exported.
                self._endpoint.domain._stuck.extend(self._pins)
                self._pins.clear()
        for pin in self._pins:
            pin.release()
        self._pins.clear()
        self._regions.clear()
        self._raw.clear()

    def __repr__(self) -> str:
        state = "in flight" if not self._is_done else "failed" if self._error is not None else "done"
        return f"<Operation {state}>"


class Lane:
    """One direction of an endpoint, with the operations that the provider has no room for yet."""

    __slots__ = ("endpoint", "queue", "waiting")

    def __init__(self, endpoint: "Context", queue: "Optional[CompletionQueue]") -> None:
        self.endpoint = endpoint
        self.queue = queue
        #: The operation (None: an inject) and the call that posts it.
        self.waiting: "Deque[Tuple[Optional[Operation], partial[int]]]" = deque()


class CompletionQueue(Queue):
    """A queue that reports the ends of operations: fi_cq(3).

    `read` returns what is there, `wait` waits for something, and `async for` does so in asyncio. Several threads may
    read one queue.
    """

    kind = "completion queue"

    def __init__(self, domain: "Domain", *, size: int = 0, wait: Optional[Wait] = None) -> None:
        """Opens a queue with at least `size` entries. `wait` defaults to a descriptor if the provider has them."""
        super().__init__()
        self.domain = domain
        attr = abi.fi_cq_attr(size=size, format=abi.FI_CQ_FORMAT_TAGGED)

        def open_with(wait: Wait) -> int:
            attr.wait_obj = wait
            return domain._open(abi.fi_ops_domain, "cq_open", ctypes.byref(attr), "opening a completion queue")

        self._entries = ctypes.create_string_buffer(BATCH * _SIZE)
        self._at = ctypes.addressof(self._entries)
        self._sources = (ctypes.c_uint64 * BATCH)()
        self._has_sources = False
        #: Completions that the program has not taken, in order.
        self._unread: Dict[object, Tuple[Optional[Completion], Optional[OperationError]]] = {}
        #: Operations of closed endpoints. Providers may leave completions of these in the queue, so their contexts are
        #: used again when the queue was found empty.
        self._abandoned: List[Operation] = []
        self._deferred: Dict[Lane, None] = {}
        raw, self.wait_object = self._open_with(open_with, wait)
        self._fabric = domain.fabric
        self._opened(raw, domain).after = partial(_forget_all, self._abandoned, domain)
        ops = abi.fid_cq.from_address(raw).ops
        self._calls = {name: slot(ops, abi.fi_ops_cq, name) for name in ("read", "readfrom", "readerr", "strerror")}
        self._read = self._calls["read"]
        if not (self._read and self._calls["readfrom"] and self._calls["readerr"]):
            self.close()
            raise NotSupported(abi.FI_ENOSYS, "the queue cannot be read")

    def read(self, count: Optional[int] = None) -> List[Completion]:
        """Reads completions that are there, up to `count`, and drives progress: fi_cq_read.

        A failed operation raises an OperationError when it is its turn; reading goes on after it.
        """
        with self._lock:
            self.fid
            if not self._is_reading and (not self._unread or self._deferred) and self._pull():
                self._announce()
            return self._take(count)

    def wait(self, timeout: Optional[float] = None, count: Optional[int] = None) -> List[Completion]:
        """Does the same, but waits for a completion, up to `timeout` seconds. The list is empty if there was none."""
        while self._wait_for(self._has_unread, timeout):
            with self._lock:
                if self._unread:
                    return self._take(count)
            # Another thread has taken it.
        return []

    async def next(self) -> Completion:
        """Returns the next completion, without blocking the event loop."""
        while True:
            found = self.read(1)
            if found:
                return found[0]
            await self._future(None)

    def __iter__(self) -> Iterator[Completion]:
        """Iterates over the completions that are there. `wait` waits for more."""
        while True:
            found = self.read()
            if not found:
                return
            yield from found

    def __aiter__(self) -> "CompletionQueue":
        return self

    async def __anext__(self) -> Completion:
        return await self.next()

    def _take(self, count: Optional[int]) -> List[Completion]:
        """Returns completions up to the first failure, which is raised if it is the first."""
        found: List[Completion] = []
        unread = self._unread
        while unread and (count is None or len(found) < count):
            key = next(iter(unread))
            completion, failure = unread[key]
            if failure is not None:
                if found:
                    break
                del unread[key]
                raise failure
            del unread[key]
            if completion is not None:
                found.append(completion)
        return found

    def _has_unread(self) -> bool:
        return bool(self._unread)

    def _is_stalled(self) -> bool:
        return bool(self._deferred)

    def _taken(self, pending: "Pending[Any]") -> None:
        self._unread.pop(pending, None)

    def _note_sources(self) -> None:
        """Reads also the senders from now on."""
        with self._lock:
            self._has_sources = True
            self._read = partial(_read_from, self._calls["readfrom"], ctypes.addressof(self._sources))

    def _pull(self) -> bool:
        fid = self._fid
        if not fid:
            return False
        abandoned = len(self._abandoned)
        got: int = self._read(fid, self._at, BATCH)
        if got > 0:
            self._deliver(got)
        elif got == -abi.FI_EAVAIL:
            self._deliver_error()
        elif got in (-abi.FI_EAGAIN, -abi.FI_EINTR, 0):
            if abandoned:
                self._end_abandoned(abandoned)
                got = 1
        else:
            raise error(got, "reading the completion queue")
        if self._deferred and self._flush():
            return True
        return got > 0 or got == -abi.FI_EAVAIL

    def _deliver(self, count: int) -> None:
        operations, free, unread = self.domain._operations, self.domain._contexts.free, self._unread
        for at in range(count):
            context, flags, length, address, data, tag = _ENTRY.unpack_from(self._entries, at * _SIZE)
            source = None
            if self._has_sources:
                source = self._sources[at]
            operation = operations.get(context)
            completion = Completion(operation, flags, length, address, data, tag, source)
            if operation is None:
                unread[completion] = completion, None
                continue
            if operation._is_multi and not flags & abi.FI_MULTI_RECV:
                # The buffer remains posted.
                unread[completion] = completion, None
                continue
            del operations[context]
            free.append(context)
            operation._release()
            if not operation._is_detached and not operation._is_awaited():
                unread[operation] = completion, None
            operation._end(completion, None)

    def _deliver_error(self) -> None:
        """Reads the error at the head: fi_cq_readerr."""
        detail = ctypes.create_string_buffer(512)
        entry = abi.fi_cq_err_entry(
            err_data=ctypes.addressof(detail), err_data_size=len(detail), src_addr=abi.FI_ADDR_NOTAVAIL
        )
        got: int = self._calls["readerr"](self._fid, ctypes.byref(entry), 0)
        if got == -abi.FI_EAGAIN or got == 0:
            return
        check(got, "reading an error of the completion queue")
        context: int = entry.op_context or 0
        operation = self.domain._operations.pop(context, None)
        is_ours = entry.err_data == ctypes.addressof(detail)
        failure = OperationError(
            entry.err,
            operation,
            provider_errno=entry.prov_errno,
            provider_text=provider_text(self._calls["strerror"], self._fid, entry.prov_errno, entry.err_data),
            flags=entry.flags,
            length=entry.len,
            excess=entry.olen,
            tag=entry.tag,
            data=entry.data,
            detail=detail.raw[: entry.err_data_size] if is_ours else b"",
        )
        if operation is None:
            self._unread[failure] = None, failure
            return
        self.domain._contexts.free.append(context)
        self._fail(operation, failure)

    def _fail(self, operation: Operation, failure: OperationError) -> None:
        operation._release()
        if not operation._is_awaited():
            self._unread[operation] = None, failure
        operation._end(None, failure)

    def _withdraw(self, operation: Operation) -> None:
        """Frees the context of an operation that the provider does not have."""
        if self.domain._operations.pop(operation._context, None) is not None:
            self.domain._contexts.free.append(operation._context)

    def _end_abandoned(self, count: int) -> None:
        """Ends operations of endpoints that were closed before the queue was found empty."""
        ended, self._abandoned[:count] = self._abandoned[:count], []
        for operation in ended:
            # Unless it has completed, too.
            if self.domain._operations.pop(operation._context, None) is not None:
                self.domain._contexts.free.append(operation._context)
                self._fail(operation, OperationError(abi.FI_ECANCELED, operation, what="the endpoint was closed"))

    def _flush(self) -> bool:
        """Posts operations that found no room. Returns whether any was posted."""
        found = False
        for lane in list(self._deferred):
            endpoint = lane.endpoint
            with endpoint._lock:
                while lane.waiting:
                    operation, call = lane.waiting[0]
                    if not endpoint._fid:
                        break
                    code = call()
                    if code == -abi.FI_EAGAIN:
                        break
                    lane.waiting.popleft()
                    found = True
                    if code < 0:
                        failure = OperationError(-code, operation, what="posting an operation")
                        if operation is None:
                            self._unread[failure] = None, failure
                        else:
                            self._withdraw(operation)
                            self._fail(operation, failure)
                if not lane.waiting or not endpoint._fid:
                    self._deferred.pop(lane, None)
        return found

    def _settle(self) -> None:
        """Ends operations of an endpoint that was closed, if no thread reads the queue now."""
        with self._lock:
            if self._is_reading:
                # The thread does it.
                return
            try:
                while self._abandoned and self._pull():
                    self._announce()
            except FabricError:
                # The next read raises it.
                return

    def _closed(self) -> None:
        with self._lock:
            self._end_abandoned(len(self._abandoned))
            self._deferred.clear()
        super()._closed()


def _read_from(call: Any, sources: int, fid: int, at: int, count: int) -> int:
    """fi_cq_readfrom with the arguments of fi_cq_read."""
    got: int = call(fid, at, count, sources)
    return got


def _forget_all(abandoned: List[Operation], domain: "Domain") -> None:
    """The queue is closed, so that the contexts can be used again."""
    for operation in abandoned:
        if domain._operations.pop(operation._context, None) is not None:
            domain._contexts.free.append(operation._context)
            operation._release()
    abandoned.clear()


def provider_text(call: Any, fid: int, number: int, detail: Optional[int]) -> str:
    """Returns the text for a provider's number; numbers of fi_errno(3) have a standard text."""
    if not number:
        return ""
    if abs(number) <= abi.FI_ERRNO_MAX:
        return strerror(abs(number))
    # ofi_rxm of libfabric 1.17 crashes if its function for texts is called with a standard number.
    text: Optional[bytes] = call(fid, number, detail, None, 0) if call else None
    return text.decode(errors="replace") if text else ""
