# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Event queues, passive endpoints, connection requests: fi_eq(3), fi_cm(3)."""

import ctypes
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from . import abi
from ._cq import provider_text
from ._domain import Fabric
from ._library import slot
from ._object import Object, sized
from ._queue import Pending, Queue
from .errors import EventError, RequestRefused, check, error
from .flags import Wait
from .info import Address, Info, owned

if TYPE_CHECKING:
    from ._endpoint import Endpoint


@dataclass(frozen=True)
class Connected:
    """The connection of an endpoint is established. `data` is what the peer passed to `accept`.

    Some providers append zeros to the data. `endpoint` is None if it was closed.
    """

    endpoint: "Optional[Endpoint]"
    data: bytes


@dataclass(frozen=True)
class Shutdown:
    """The connection of an endpoint has ended."""

    endpoint: "Optional[Endpoint]"


@dataclass(frozen=True)
class OtherEvent:
    """An event that this package does not know: `FI_NOTIFY` and following."""

    kind: int


class ConnectionRequest:
    """A peer that wants to connect. Open an `Endpoint` for it, and let that `accept`; or `reject` it.

    A request is rejected when the last reference to it is gone, unless an endpoint was opened.
    """

    def __init__(self, listener: "PassiveEndpoint", info: Info, handle: int, data: bytes) -> None:
        #: The offer for the endpoint that accepts. `Domain` takes it, too.
        self.info = info
        #: What the peer passed to `connect`. Some providers append zeros.
        self.data = data
        self.event_queue = listener.event_queue
        self._handle: List[int] = [handle]
        self._listener = listener
        weakref.finalize(self, _refuse, listener, self._handle, b"").atexit = False

    def reject(self, data: bytes = b"") -> None:
        """Refuses the request: fi_reject of fi_cm(3). The peer gets `data` with its error."""
        if not self._handle:
            raise ValueError("the request was rejected, or has an endpoint")
        _refuse(self._listener, self._handle, data)

    def __repr__(self) -> str:
        return f"<ConnectionRequest {self.info.provider}>"


def _refuse(listener: "PassiveEndpoint", handles: List[int], data: bytes) -> None:
    with listener._lock:
        # A closed endpoint has rejected its requests.
        if not handles or not listener._fid:
            handles.clear()
            return
        handle = handles.pop()
        table = abi.fid_pep.from_address(listener._fid).cm
        what = "rejecting a request"
        listener._call(table, abi.fi_ops_cm, "reject", what, listener._fid, handle, data or None, len(data))


Event = Union[ConnectionRequest, Connected, Shutdown, OtherEvent]


class Handshake(Pending[bytes]):
    """A connection that is being established. The result is the data that the peer passed to `accept`."""

    __slots__ = ("endpoint",)

    def __init__(self, queue: "EventQueue", endpoint: "Endpoint") -> None:
        super().__init__(queue)
        self.endpoint = endpoint


class EventQueue(Queue):
    """A queue of events of connections: fi_eq(3). A failure is raised as an EventError when it is its turn."""

    kind = "event queue"

    def __init__(self, fabric: Fabric, *, wait: Optional[Wait] = None) -> None:
        super().__init__()
        if not isinstance(fabric, Fabric):
            raise TypeError(f"fabric is a {type(fabric).__name__}, not a Fabric")
        self.fabric = fabric
        attr = abi.fi_eq_attr()

        def open_with(wait: Wait) -> int:
            attr.wait_obj = wait
            return fabric._open("eq_open", ctypes.byref(attr), "opening an event queue")

        raw, self.wait_object = self._open_with(open_with, wait)
        self._fabric = fabric
        self._buffer = ctypes.create_string_buffer(1024)
        self._unread: Dict[object, Tuple[Optional[Event], Optional[EventError]]] = {}
        #: Endpoints that are bound to the queue, by their address.
        self._bound: "weakref.WeakValueDictionary[int, Object]" = weakref.WeakValueDictionary()
        self._opened(raw, fabric)

    def read(self) -> Optional[Event]:
        """Returns the next event, and drives progress: fi_eq_read. None: there is none."""
        with self._lock:
            self.fid
            if not self._is_reading and not self._unread and self._pull():
                self._announce()
            return self._take()

    def wait(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Does the same, but waits for an event, up to `timeout` seconds."""
        while self._wait_for(self._has_unread, timeout):
            with self._lock:
                if self._unread:
                    return self._take()
        return None

    async def next(self) -> Event:
        """Returns the next event, without blocking the event loop."""
        while True:
            event = self.read()
            if event is not None:
                return event
            await self._future(None)

    def __aiter__(self) -> "EventQueue":
        return self

    async def __anext__(self) -> Event:
        return await self.next()

    def _take(self) -> Optional[Event]:
        if not self._unread:
            return None
        event, failure = self._unread.pop(next(iter(self._unread)))
        if failure is not None:
            raise failure
        return event

    def _has_unread(self) -> bool:
        return bool(self._unread)

    def _taken(self, pending: "Pending[Any]") -> None:
        self._unread.pop(pending, None)

    def _pull(self) -> bool:
        if not self._fid:
            return False
        read = slot(abi.fid_eq.from_address(self._fid).ops, abi.fi_ops_eq, "read")
        kind = ctypes.c_uint32()
        while True:
            size = len(self._buffer)
            got: int = read(self._fid, ctypes.byref(kind), self._buffer, size, 0)
            if got != -abi.FI_ETOOSMALL or size > 65536:
                break
            # The event is still in the queue: a peer has sent much data.
            self._buffer = ctypes.create_string_buffer(size * 4)
        if got > 0:
            self._deliver(kind.value, min(got, size))
        elif got == -abi.FI_EAVAIL:
            self._deliver_error()
        elif got not in (-abi.FI_EAGAIN, -abi.FI_EINTR, 0):
            raise error(got, "reading the event queue")
        return got > 0 or got == -abi.FI_EAVAIL

    def _endpoint(self, address: int) -> "Optional[Endpoint]":
        from ._endpoint import Endpoint

        found = self._bound.get(address)
        return found if isinstance(found, Endpoint) and found._fid == address else None

    def _deliver(self, kind: int, length: int) -> None:
        start = abi.fi_eq_cm_entry.data.offset  # type: ignore[attr-defined]
        if kind not in (abi.FI_CONNREQ, abi.FI_CONNECTED, abi.FI_SHUTDOWN) or length < start:
            event: Event = OtherEvent(kind)
            self._unread[event] = event, None
            return
        entry = abi.fi_eq_cm_entry.from_buffer(self._buffer)
        address = ctypes.cast(entry.fid, ctypes.c_void_p).value or 0
        data = self._buffer.raw[start:length]
        if kind == abi.FI_CONNREQ:
            # The entry belongs to the reader. Its handle is moved out, so that it is used once.
            info = owned(ctypes.cast(entry.info, ctypes.c_void_p).value)
            place = handle_of(info)
            handle, place.value = place.value or 0, None
            info._fabric = self.fabric
            listener = self._bound.get(address)
            if not isinstance(listener, PassiveEndpoint):
                return
            event = ConnectionRequest(listener, info, handle, data)
            self._unread[event] = event, None
            return
        endpoint = self._endpoint(address)
        handshake = endpoint._take_handshake() if endpoint is not None else None
        if kind == abi.FI_CONNECTED:
            if endpoint is not None:
                endpoint._is_connected = True
                endpoint._find_calls()
            event = Connected(endpoint, data)
            self._end(handshake, event, None, data)
            return
        if endpoint is not None:
            endpoint._is_connected = False
        event = Shutdown(endpoint)
        if handshake is not None:
            # The peer has gone before the connection was established.
            self._end(handshake, None, EventError(abi.FI_ECONNRESET, endpoint), b"")
        else:
            self._unread[object()] = event, None

    def _end(
        self,
        handshake: "Optional[Handshake]",
        event: Optional[Event],
        failure: Optional[EventError],
        data: bytes,
    ) -> None:
        if handshake is None or not handshake._is_awaited():
            self._unread[handshake or object()] = event, failure
        if handshake is not None:
            handshake._end(data if failure is None else None, failure)

    def _deliver_error(self) -> None:
        """Reads the error at the head: fi_eq_readerr."""
        detail = ctypes.create_string_buffer(1024)
        entry = abi.fi_eq_err_entry(err_data=ctypes.addressof(detail), err_data_size=len(detail))
        ops = abi.fid_eq.from_address(self._fid).ops
        got: int = ops.contents.readerr(self._fid, ctypes.byref(entry), 0)
        if got == -abi.FI_EAGAIN or got == 0:
            return
        check(got, "reading an error of the event queue")
        endpoint = self._endpoint(ctypes.cast(entry.fid, ctypes.c_void_p).value or 0)
        is_ours = entry.err_data == ctypes.addressof(detail)
        kind = RequestRefused if entry.err == abi.FI_ECONNREFUSED else EventError
        text = provider_text(slot(ops, abi.fi_ops_eq, "strerror"), self._fid, entry.prov_errno, entry.err_data)
        failure = kind(
            entry.err,
            endpoint,
            provider_errno=entry.prov_errno,
            provider_text=text,
            data=detail.raw[: entry.err_data_size] if is_ours else b"",
        )
        handshake = endpoint._take_handshake() if endpoint is not None else None
        self._end(handshake, None, failure, b"")


def handle_of(info: Info) -> ctypes.c_void_p:
    """Returns the place of the handle in an entry."""
    return ctypes.c_void_p.from_address(info._address + abi.fi_info.handle.offset)  # type: ignore[attr-defined]


class PassiveEndpoint(Object):
    """An endpoint that listens for connection requests: fi_endpoint(3). Requests are events of its queue."""

    kind = "passive endpoint"
    rank = 1

    def __init__(self, event_queue: EventQueue, info: Info) -> None:
        """Opens an endpoint for an offer, and listens."""
        super().__init__()
        if not isinstance(event_queue, EventQueue):
            raise TypeError(f"event_queue is a {type(event_queue).__name__}, not an EventQueue")
        fabric = event_queue.fabric
        fabric._check_info(info)
        self.event_queue = event_queue
        raw = fabric._open("passive_ep", ctypes.addressof(info.raw), "opening a passive endpoint")
        self._opened(raw, event_queue, fabric)
        try:
            self._bind(event_queue, 0, "binding the event queue")
            event_queue._bound[raw] = self
            with self._lock:
                self._call(abi.fid_pep.from_address(raw).cm, abi.fi_ops_cm, "listen", "listening", raw)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> Address:
        """Returns the address that peers connect to: fi_getname of fi_cm(3)."""
        with self._lock:
            fid = self.fid
            call = slot(abi.fid_pep.from_address(fid).cm, abi.fi_ops_cm, "getname")
            return Address(sized(lambda at, length: int(call(fid, at, length)), "getting the address"))
