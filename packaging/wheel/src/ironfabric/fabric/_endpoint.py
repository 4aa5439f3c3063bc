# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Endpoints and their operations: fi_endpoint(3), fi_cm(3), fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3)."""

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Type, Union

from . import abi
from ._cq import CompletionQueue, Lane, Operation
from ._domain import AddressVector, Counter, Domain, Peer, padded
from ._eq import ConnectionRequest, EventQueue, Handshake, handle_of
from ._library import slot
from ._object import Object, require_open, sized
from .errors import EventError, FabricError, NotSupported, OperationError, check, error
from .flags import AtomicOp, Caps, Datatype, EndpointType, Flags
from .info import Address, Info
from .memory import BufferLike, MemoryRegion, Pin, RegionSlice, RemoteMemory, copied

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

ANY = abi.FI_ADDR_UNSPEC
LIMIT = 2**64

Writable = Union["WriteableBuffer", MemoryRegion, RegionSlice]
Source = Union[BufferLike, Sequence[BufferLike]]
Target = Union[Writable, Sequence[Writable]]

_TABLES: Tuple[Tuple[str, Type[ctypes.Structure]], ...] = (
    ("msg", abi.fi_ops_msg),
    ("tagged", abi.fi_ops_tagged),
    ("rma", abi.fi_ops_rma),
    ("atomic", abi.fi_ops_atomic),
)
#: Local memory of an operation: address, length, descriptor.
Local = Tuple[int, int, Optional[int]]
_FLAGS = 0
for _flag in Flags.__members__.values():
    _FLAGS |= _flag.value
_COUNTED = Caps.SEND | Caps.RECV | Caps.READ | Caps.WRITE | Caps.REMOTE_READ | Caps.REMOTE_WRITE


def number(value: int, what: str) -> int:
    """Checks a number of 64 bits, which ctypes would cut off."""
    if not 0 <= value < LIMIT:
        raise ValueError(f"{what} is {value}, not a number of 64 bits")
    return value


def checked(flags: int) -> int:
    """Checks flags: others would need what this package does not do, such as a context that is used twice."""
    if not flags:
        return 0
    if int(flags) & ~_FLAGS:
        raise ValueError(f"flags that an operation does not have: {int(flags) & ~_FLAGS:#x}")
    return int(flags)


class Context(Object):
    """The common part of endpoints and contexts: operations in flight, and those that wait for room."""

    kind = "endpoint"
    rank = 1

    def __init__(
        self,
        domain: Domain,
        info: Info,
        address_vector: Optional[AddressVector],
        tx_queue: Optional[CompletionQueue],
        rx_queue: Optional[CompletionQueue],
        defer: bool,
    ) -> None:
        super().__init__()
        self.domain = domain
        self.address_vector = address_vector
        self.tx_queue = tx_queue
        self.rx_queue = rx_queue
        self._caps = info.caps
        self._info = info
        self._defers = defer
        self._tx = Lane(self, tx_queue)
        self._rx = Lane(self, rx_queue)
        self._calls: Dict[str, Any] = {}

    def _enable(self) -> None:
        """Enables the C object: fi_enable of fi_endpoint(3)."""
        self._control(abi.FI_ENABLE, None, f"enabling the {self.kind}")
        self._find_calls()
        if self._caps & Caps.SOURCE and self.rx_queue is not None:
            self.rx_queue._note_sources()

    def _enable_calls(self, fid: int) -> None:
        super()._enable_calls(fid)
        # Operations look only for their call.
        self._calls = {}
        if fid:
            self._find_calls()

    def _find_calls(self) -> None:
        """Reads the tables. Providers may replace them when the endpoint is enabled or connected."""
        raw = abi.fid_ep.from_address(self._fid)
        for table, struct in _TABLES:
            content = getattr(raw, table)
            for field in struct._fields_[1:]:
                self._calls[f"{table}.{field[0]}"] = slot(content, struct, field[0])

    def _closed(self) -> None:
        """Operations in flight end without a completion: fi_endpoint(3). The library does not access their buffers."""
        for operation in list(self.domain._operations.values()):
            if operation._endpoint is self:
                operation._release()
                operation._queue._abandoned.append(operation)
        for lane in (self._tx, self._rx):
            lane.waiting.clear()
            if lane.queue is not None:
                lane.queue._deferred.pop(lane, None)
                lane.queue._kick()

    def close(self) -> None:
        super().close()
        # If other objects are closed with it, their queues end the operations.
        for queue in (self.tx_queue, self.rx_queue):
            if queue is not None:
                queue._settle()

    def _peer(self, peer: Optional[Peer]) -> int:
        """Checks a peer."""
        vector = self.address_vector
        if vector is None:
            if peer is not None:
                raise ValueError("a connection has no other peers")
            return ANY
        if type(peer) is not Peer:
            raise TypeError(f"a peer is what AddressVector.insert returns, not a {type(peer).__name__}")
        if peer._vector is not vector:
            raise ValueError("the peer was removed, or is of another address vector")
        return peer

    def _start(self, lane: Lane, buffer: Any, is_written: bool, context: Any) -> Tuple[Operation, List[Local]]:
        """Makes an operation. The caller posts it or calls `_discard`."""
        queue = lane.queue
        if queue is None:
            raise FabricError(abi.FI_ENOCQ, f"the {self.kind} has no completion queue for this operation")
        operation = Operation(queue, self, buffer, context)
        local: List[Local] = []
        try:
            if type(buffer) is list or type(buffer) is tuple:
                if not buffer:
                    raise ValueError("the list of buffers is empty")
                for part in buffer:
                    local.append(self._add(operation, part, is_written))
            else:
                local.append(self._add(operation, buffer, is_written))
        except BaseException:
            operation._release()
            raise
        operation._start = local[0][0]
        operation._context = self.domain._contexts.take()
        return operation, local

    def _add(self, operation: Operation, part: Any, is_written: bool) -> Local:
        """Adds a buffer to an operation."""
        if isinstance(part, (MemoryRegion, RegionSlice)):
            region = part if isinstance(part, MemoryRegion) else part.region
            if region.domain is not self.domain:
                raise ValueError("the memory region is of another domain")
            if is_written and not region._is_written:
                raise ValueError("the memory region is only for reading")
            region.fid
            operation._regions.append(region)
            offset = 0 if isinstance(part, MemoryRegion) else part.offset
            return region._pin.address + offset, len(part), region._desc
        pin = Pin(part, is_written)
        operation._pins.append(pin)
        if not self.domain._needs_registration or not pin.length:
            return pin.address, pin.length, None
        access = abi.FI_RECV | abi.FI_READ if is_written else abi.FI_SEND | abi.FI_WRITE
        raw = self.domain._register(pin.address, pin.length, access)
        operation._raw.append(raw)
        return pin.address, pin.length, abi.fid_mr.from_address(raw).mem_desc

    def _discard(self, operation: Operation) -> None:
        """Drops an operation that was not posted."""
        self.domain._operations.pop(operation._context, None)
        self.domain._contexts.free.append(operation._context)
        operation._release()

    def _post(self, lane: Lane, operation: Operation, name: str, *arguments: Any) -> Operation:
        """Posts an operation. The caller holds the lock."""
        call = self._calls.get(name)
        if call is None:
            self._discard(operation)
            if not self._fid:
                self._raise_closed()
            raise NotSupported(abi.FI_ENOSYS, f"the {self.kind} does not have this operation")
        # Another thread may read its completion before the call has returned.
        self.domain._operations[operation._context] = operation
        for region in operation._regions:
            if not region._fid:
                self._discard(operation)
                region._raise_closed()
        code = -abi.FI_EAGAIN if lane.waiting else call(self._fid, *arguments)
        if code >= 0:
            return operation
        queue = operation._queue
        if code == -abi.FI_EAGAIN and self._defers:
            # The references of the call keep its arguments.
            lane.waiting.append((operation, partial(call, self._fid, *arguments)))
            queue._deferred[lane] = None
            queue._kick()
            return operation
        self._discard(operation)
        raise error(code, "posting an operation")

    def _post_injected(self, name: str, data: bytes, *arguments: Any) -> None:
        """Calls an operation without a completion. The caller holds the lock."""
        call = self._calls.get(name)
        if call is None:
            if not self._fid:
                self._raise_closed()
            raise NotSupported(abi.FI_ENOSYS, f"the {self.kind} does not have this operation")
        lane = self._tx
        code = -abi.FI_EAGAIN if lane.waiting else call(self._fid, data, *arguments)
        if code >= 0:
            return
        if code == -abi.FI_EAGAIN and self._defers and lane.queue is not None:
            lane.waiting.append((None, partial(call, self._fid, data, *arguments)))
            lane.queue._deferred[lane] = None
            lane.queue._kick()
            return
        raise error(code, "posting an operation")

    def _cancel(self, operation: Operation) -> bool:
        queue = operation._queue
        with queue._lock, self._lock:
            if operation._is_done or not self._fid:
                return False
            for lane in (self._tx, self._rx):
                for waiting in lane.waiting:
                    if waiting[0] is operation:
                        lane.waiting.remove(waiting)
                        queue._withdraw(operation)
                        queue._fail(operation, OperationError(abi.FI_ECANCELED, operation))
                        queue._announce()
                        return True
            if self.domain._operations.get(operation._context) is not operation:
                return False
            call = slot(abi.fid_ep.from_address(self._fid).ops, abi.fi_ops_ep, "cancel")
            code = call(self._fid, operation._context) if call else -abi.FI_ENOSYS
        if code == -abi.FI_ENOENT:
            return False
        check(code, "cancelling an operation")
        return True

    def get_option(self, name: int) -> int:
        """Returns an option whose type is `size_t`, such as `abi.FI_OPT_CM_DATA_SIZE`: fi_endpoint(3)."""
        value, length = ctypes.c_size_t(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_size_t))
        with self._lock:
            table = abi.fid_ep.from_address(self.fid).ops
            where = (self._fid, abi.FI_OPT_ENDPOINT, name, ctypes.byref(value), ctypes.byref(length))
            self._call(table, abi.fi_ops_ep, "getopt", "reading an option", *where)
        return value.value

    def set_option(self, name: int, value: int) -> None:
        """Sets an option whose type is `size_t`."""
        content = ctypes.c_size_t(number(value, "the value"))
        with self._lock:
            table = abi.fid_ep.from_address(self.fid).ops
            where = (self._fid, abi.FI_OPT_ENDPOINT, name, ctypes.byref(content), ctypes.sizeof(content))
            self._call(table, abi.fi_ops_ep, "setopt", "setting an option", *where)
            self._find_calls()


def vectors(local: List[Local]) -> Tuple[Any, Any]:
    """Returns the C form of several buffers: their places and descriptors."""
    count = len(local)
    places, descriptors = (abi.iovec * count)(), (ctypes.c_void_p * count)()
    for at, (address, length, descriptor) in enumerate(local):
        places[at].iov_base, places[at].iov_len = address, length
        descriptors[at] = descriptor
    return places, descriptors


class Receiver(Context):
    """What receives messages."""

    def recv(
        self,
        buffer: Union[Target, int],
        source: Optional[Peer] = None,
        *,
        flags: Flags = Flags.NONE,
        context: Any = None,
    ) -> Operation:
        """Receives a message into a buffer, or a list of buffers: fi_recv of fi_msg(3).

        A number allocates a `bytearray` of this size. With `source` only messages of this peer are received, which
        needs `Caps.DIRECTED_RECV`.
        """
        return self._receive("msg", buffer, source, 0, 0, flags, context)

    def trecv(
        self,
        buffer: Union[Target, int],
        tag: int,
        *,
        ignore: int = 0,
        source: Optional[Peer] = None,
        flags: Flags = Flags.NONE,
        context: Any = None,
    ) -> Operation:
        """Receives a message whose tag differs from `tag` only in bits of `ignore`: fi_trecv of fi_tagged(3)."""
        number(tag, "the tag")
        number(ignore, "the mask of ignored bits")
        return self._receive("tagged", buffer, source, tag, ignore, flags, context)

    def _receive(
        self,
        table: str,
        buffer: Any,
        source: Optional[Peer],
        tag: int,
        ignore: int,
        flags: int,
        context: Any,
    ) -> Operation:
        if isinstance(buffer, int):
            if buffer < 0:
                raise ValueError(f"a buffer of {buffer} bytes")
            buffer = bytearray(buffer)
        flags = checked(flags)
        with self._lock:
            address = ANY
            if source is not None:
                if not self._caps & Caps.DIRECTED_RECV:
                    raise ValueError(f"the {self.kind} has no Caps.DIRECTED_RECV")
                address = self._peer(source)
            operation, local = self._start(self._rx, buffer, True, context)
            operation._destination = address
            if flags or len(local) > 1:
                operation._is_multi = bool(flags & Flags.MULTI_RECV)
                message: ctypes.Structure
                if table == "msg":
                    message = abi.fi_msg()
                else:
                    message = abi.fi_msg_tagged(tag=tag, ignore=ignore)
                return post_message(self, self._rx, operation, f"{table}.recvmsg", message, *vectors(local), flags)
            where, length, descriptor = local[0]
            if table == "msg":
                extra: Tuple[int, ...] = ()
            else:
                extra = (tag, ignore)
            return self._post(
                self._rx, operation, f"{table}.recv", where, length, descriptor, address, *extra, operation._context
            )


def post_message(
    endpoint: Context,
    lane: Lane,
    operation: Operation,
    name: str,
    message: Any,
    places: Any,
    descriptors: Any,
    flags: int,
) -> Operation:
    """Posts an operation by its general form, a struct. The caller holds the lock."""
    message.msg_iov = places
    message.desc = ctypes.cast(descriptors, ctypes.c_void_p)
    message.iov_count = len(places)
    message.addr = operation._destination
    message.context = operation._context
    # A struct of ctypes keeps what its pointers lead to, except through c_void_p.
    message._descriptors = descriptors
    # `byref` keeps the struct, for an operation that has to wait.
    return endpoint._post(lane, operation, name, ctypes.byref(message), flags)


class Sender(Context):
    """What sends messages and accesses memory of peers."""

    def send(
        self,
        buffer: Source,
        peer: Optional[Peer] = None,
        *,
        data: Optional[int] = None,
        flags: Flags = Flags.NONE,
        context: Any = None,
    ) -> Operation:
        """Sends a message, the bytes of a buffer or of a list of buffers: fi_send of fi_msg(3).

        `data` is a number for the completion of the peer. The buffer must not be changed until the operation has ended.
        """
        return self._send("msg", buffer, peer, None, data, flags, context)

    def tsend(
        self,
        buffer: Source,
        peer: Optional[Peer] = None,
        *,
        tag: int,
        data: Optional[int] = None,
        flags: Flags = Flags.NONE,
        context: Any = None,
    ) -> Operation:
        """Sends a message with a tag: fi_tsend of fi_tagged(3)."""
        return self._send("tagged", buffer, peer, number(tag, "the tag"), data, flags, context)

    def _send(
        self,
        table: str,
        buffer: Any,
        peer: Optional[Peer],
        tag: Optional[int],
        data: Optional[int],
        flags: int,
        context: Any,
    ) -> Operation:
        flags = checked(flags)
        with self._lock:
            address = self._peer(peer)
            if data is not None:
                number(data, "the data")
            operation, local = self._start(self._tx, buffer, False, context)
            operation._destination = address
            if flags or len(local) > 1:
                message: Any = abi.fi_msg() if tag is None else abi.fi_msg_tagged(tag=tag)
                if data is not None:
                    message.data, flags = data, flags | abi.FI_REMOTE_CQ_DATA
                return post_message(self, self._tx, operation, f"{table}.sendmsg", message, *vectors(local), flags)
            where, length, descriptor = local[0]
            # The order of the arguments: data, address, tag, context.
            rest = (address, operation._context) if tag is None else (address, tag, operation._context)
            if data is not None:
                return self._post(self._tx, operation, f"{table}.senddata", where, length, descriptor, data, *rest)
            return self._post(self._tx, operation, f"{table}.send", where, length, descriptor, *rest)

    def inject(
        self,
        buffer: "ReadableBuffer",
        peer: Optional[Peer] = None,
        *,
        data: Optional[int] = None,
    ) -> None:
        """Sends a small message without a completion: fi_inject of fi_msg(3). The bytes are copied."""
        self._inject("msg", buffer, peer, None, data)

    def tinject(
        self,
        buffer: "ReadableBuffer",
        peer: Optional[Peer] = None,
        *,
        tag: int,
        data: Optional[int] = None,
    ) -> None:
        """Does the same with a tag: fi_tinject of fi_tagged(3)."""
        self._inject("tagged", buffer, peer, number(tag, "the tag"), data)

    def _inject(
        self, table: str, content: "ReadableBuffer", peer: Optional[Peer], tag: Optional[int], data: Optional[int]
    ) -> None:
        content = copied(content)
        if len(content) > self._info.inject_size:
            raise ValueError(f"{len(content)} bytes, more than the inject size of {self._info.inject_size}")
        with self._lock:
            address = self._peer(peer)
            rest = (address,) if tag is None else (address, tag)
            if data is None:
                self._post_injected(f"{table}.inject", content, len(content), *rest)
            else:
                number(data, "the data")
                self._post_injected(f"{table}.injectdata", content, len(content), data, *rest)

    def read(
        self,
        buffer: Target,
        memory: RemoteMemory,
        peer: Optional[Peer] = None,
        *,
        flags: Flags = Flags.NONE,
        context: Any = None,
    ) -> Operation:
        """Reads memory of a peer, as many bytes as the buffer has: fi_read of fi_rma(3)."""
        return self._access("read", buffer, memory, peer, None, flags, context)

    def write(
        self,
        buffer: Source,
        memory: RemoteMemory,
        peer: Optional[Peer] = None,
        *,
        data: Optional[int] = None,
        flags: Flags = Flags.NONE,
        context: Any = None,
    ) -> Operation:
        """Writes the bytes of a buffer to memory of a peer: fi_write of fi_rma(3).

        With `data`, the peer gets a completion with this number.
        """
        return self._access("write", buffer, memory, peer, data, flags, context)

    def _access(
        self,
        name: str,
        buffer: Any,
        memory: RemoteMemory,
        peer: Optional[Peer],
        data: Optional[int],
        flags: int,
        context: Any,
    ) -> Operation:
        if not isinstance(memory, RemoteMemory):
            raise TypeError(f"memory is a {type(memory).__name__}, not a RemoteMemory")
        flags = checked(flags)
        with self._lock:
            address = self._peer(peer)
            if data is not None:
                number(data, "the data")
            operation, local = self._start(self._tx, buffer, name == "read", context)
            operation._destination = address
            total = sum(length for _, length, _ in local)
            if total > memory.length:
                self._discard(operation)
                raise ValueError(f"{total} bytes do not fit the {memory.length} bytes of the remote memory")
            remote, key = memory.address, memory.key
            if flags or len(local) > 1:
                message: Any = abi.fi_msg_rma()
                place = abi.fi_rma_iov(addr=remote, len=total, key=key)
                message.rma_iov, message.rma_iov_count = ctypes.pointer(place), 1
                if data is not None:
                    message.data, flags = data, flags | abi.FI_REMOTE_CQ_DATA
                return post_message(self, self._tx, operation, f"rma.{name}msg", message, *vectors(local), flags)
            where, length, descriptor = local[0]
            rest = (address, remote, key, operation._context)
            if data is not None:
                return self._post(self._tx, operation, "rma.writedata", where, length, descriptor, data, *rest)
            return self._post(self._tx, operation, f"rma.{name}", where, length, descriptor, *rest)

    def inject_write(
        self,
        buffer: "ReadableBuffer",
        memory: RemoteMemory,
        peer: Optional[Peer] = None,
        *,
        data: Optional[int] = None,
    ) -> None:
        """Writes a few bytes without a completion: fi_inject_write of fi_rma(3). The bytes are copied.

        With `data`, the peer gets a completion with this number.
        """
        if not isinstance(memory, RemoteMemory):
            raise TypeError(f"memory is a {type(memory).__name__}, not a RemoteMemory")
        content = copied(buffer)
        if len(content) > memory.length:
            raise ValueError(f"{len(content)} bytes do not fit the {memory.length} bytes of the remote memory")
        with self._lock:
            rest = (self._peer(peer), memory.address, memory.key)
            if data is None:
                self._post_injected("rma.inject", content, len(content), *rest)
            else:
                number(data, "the data")
                self._post_injected("rma.injectdata", content, len(content), data, *rest)

    def atomic(
        self,
        op: AtomicOp,
        operand: BufferLike,
        memory: RemoteMemory,
        peer: Optional[Peer] = None,
        *,
        datatype: Datatype = Datatype.UINT64,
        result: "Optional[Writable]" = None,
        compare: Optional[BufferLike] = None,
        context: Any = None,
    ) -> Operation:
        """Changes memory of a peer: fi_atomic(3).

        `operand` has one element for each element of the memory. With `result`, the old values are stored there
        (fi_fetch_atomic). `compare` has the values for `CSWAP` and its kin, which also need `result`
        (fi_compare_atomic).
        """
        if not isinstance(memory, RemoteMemory):
            raise TypeError(f"memory is a {type(memory).__name__}, not a RemoteMemory")
        datatype, op = Datatype(datatype), AtomicOp(op)
        if compare is not None and result is None:
            raise ValueError("a compare operation needs a result")
        with self._lock:
            address = self._peer(peer)
            parts = [part for part in (operand, compare) if part is not None]
            operation, local = self._start(self._tx, parts, False, context)
            operation._destination = address
            try:
                if result is not None:
                    local.append(self._add(operation, result, True))
                lengths = {length for _, length, _ in local}
                length = local[0][1]
                if len(lengths) != 1 or length % datatype.size or not length:
                    raise ValueError(f"the buffers have {lengths} bytes, elements have {datatype.size}")
                if length > memory.length:
                    raise ValueError(f"{length} bytes do not fit the {memory.length} bytes of the remote memory")
            except BaseException:
                self._discard(operation)
                raise
            operation.buffer = result if result is not None else operand
            rest = (address, memory.address, memory.key, datatype, op, operation._context)
            where, _, descriptor = local[0]
            count = length // datatype.size
            others = [value for place, _, desc in local[1:] for value in (place, desc)]
            name = "write" if result is None else "readwrite" if compare is None else "compwrite"
            return self._post(self._tx, operation, f"atomic.{name}", where, count, descriptor, *others, *rest)


class SharedTransmitContext(Object):
    """Resources that several endpoints send with: fi_stx_context of fi_endpoint(3). The offer has `shared_tx`."""

    kind = "shared transmit context"

    def __init__(self, domain: Domain, info: Info) -> None:
        super().__init__()
        domain._check_info(info)
        self.domain = domain
        attr = ctypes.addressof(info.raw.tx_attr.contents)
        raw = domain._open(abi.fi_ops_domain, "stx_ctx", attr, f"opening a {self.kind}")
        self._opened(raw, domain)


class SharedReceiveContext(Receiver):
    """Receives that several endpoints take messages with: fi_srx_context of fi_endpoint(3). The offer has `shared_rx`.

    `queue` is the completion queue of these endpoints, which reports the receives.
    """

    kind = "shared receive context"

    def __init__(
        self,
        domain: Domain,
        info: Info,
        queue: CompletionQueue,
        *,
        address_vector: Optional[AddressVector] = None,
        defer: bool = True,
    ) -> None:
        require_open(queue=queue, address_vector=address_vector)
        domain._check_info(info)
        super().__init__(domain, info, address_vector, None, queue, defer)
        attr = ctypes.addressof(info.raw.rx_attr.contents)
        raw = domain._open(abi.fi_ops_domain, "srx_ctx", attr, f"opening a {self.kind}")
        self._opened(raw, domain, queue, address_vector)
        self._find_calls()
        if self._caps & Caps.SOURCE:
            queue._note_sources()


class Endpoint(Sender, Receiver):
    """An endpoint: sends and receives messages, reads and writes memory of peers. fi_endpoint(3)

    An endpoint with operations in flight stays open until it is closed. Then they fail with FI_ECANCELED, unless their
    completions are in the queue already.
    """

    def __init__(
        self,
        domain: Domain,
        info: Union[Info, ConnectionRequest],
        *,
        queue: Optional[CompletionQueue] = None,
        tx_queue: Optional[CompletionQueue] = None,
        rx_queue: Optional[CompletionQueue] = None,
        address_vector: Optional[AddressVector] = None,
        event_queue: Optional[EventQueue] = None,
        counters: Sequence[Tuple[Counter, Caps]] = (),
        shared_tx: Optional[SharedTransmitContext] = None,
        shared_rx: Optional[SharedReceiveContext] = None,
        defer: bool = True,
    ) -> None:
        """Opens, binds and enables an endpoint for an offer, or for a connection request that is to be accepted.

        `queue` is for all operations, `tx_queue` and `rx_queue` are for one direction. A counter counts some of SEND,
        RECV, READ, WRITE, REMOTE_READ and REMOTE_WRITE. Endpoints without connection need an address vector.

        Operations that find no room wait until the queue was read; with `defer=False` they raise `Again`.
        """
        request = info if isinstance(info, ConnectionRequest) else None
        offer = info.info if isinstance(info, ConnectionRequest) else info
        if not isinstance(domain, Domain):
            raise TypeError(f"domain is a {type(domain).__name__}, not a Domain")
        domain._check_info(offer)
        require_open(
            queue=queue,
            tx_queue=tx_queue,
            rx_queue=rx_queue,
            address_vector=address_vector,
            event_queue=event_queue,
            shared_tx=shared_tx,
            shared_rx=shared_rx,
        )
        if queue is not None and (tx_queue is not None or rx_queue is not None):
            raise ValueError("queue is for both directions")
        tx_queue, rx_queue = tx_queue or queue, rx_queue or queue
        if request is not None:
            if event_queue not in (None, request.event_queue):
                raise ValueError("events of the connection go to the queue of the request")
            event_queue = request.event_queue
        kind = offer.endpoint_type
        if kind is EndpointType.MSG:
            if address_vector is not None:
                raise ValueError("a connection has no address vector")
            if event_queue is None:
                raise ValueError("an endpoint for a connection needs an event queue")
        elif address_vector is None:
            raise ValueError("an endpoint without connection needs an address vector")
        for used in (tx_queue, rx_queue, address_vector, shared_tx, shared_rx, *(pair[0] for pair in counters)):
            if used is not None and used.domain is not domain:
                raise ValueError(f"the {used.kind} is of another domain")
        if event_queue is not None and event_queue.fabric is not domain.fabric:
            raise ValueError("the event queue is of another fabric")
        for _, operations in counters:
            if int(operations) & ~int(_COUNTED) or not operations:
                raise ValueError(f"{operations!r} cannot be counted")
        super().__init__(domain, offer, address_vector, tx_queue, rx_queue, defer)
        self.event_queue = event_queue
        self._handshake: Optional[Handshake] = None
        self._is_connected = False
        if request is not None:
            raw = self._accepted(request)
        else:
            raw = domain._open(abi.fi_ops_domain, "endpoint", ctypes.addressof(offer.raw), "opening an endpoint")
        uses = (domain, tx_queue, rx_queue, address_vector, event_queue, shared_tx, shared_rx)
        self._opened(raw, *dict.fromkeys((*uses, *(pair[0] for pair in counters))))
        # Objects that the endpoint uses.
        self._uses = (shared_tx, shared_rx, tuple(counters))
        try:
            self._bind_all(shared_tx, shared_rx, counters)
            self._enable()
            if event_queue is not None:
                with event_queue._lock:
                    event_queue._bound[raw] = self
        except BaseException:
            self.close()
            raise

    def _accepted(self, request: ConnectionRequest) -> int:
        """Opens the endpoint of a request."""
        if not request._handle:
            raise ValueError("the request was rejected, or has an endpoint")
        entry = request.info.copy()
        place = handle_of(entry)
        place.value = request._handle[0]
        try:
            raw = self.domain._open(abi.fi_ops_domain, "endpoint", ctypes.addressof(entry.raw), "opening an endpoint")
        finally:
            place.value = None
        request._handle.clear()
        return raw

    def _bind_all(
        self,
        shared_tx: Optional[SharedTransmitContext],
        shared_rx: Optional[SharedReceiveContext],
        counters: Sequence[Tuple[Counter, Caps]],
    ) -> None:
        for used in (self.event_queue, self.address_vector, shared_tx, shared_rx):
            if used is not None:
                self._bind(used, 0, f"binding the {used.kind}")
        what = "binding a completion queue"
        if self.tx_queue is not None and self.tx_queue is self.rx_queue:
            self._bind(self.tx_queue, abi.FI_TRANSMIT | abi.FI_RECV, what)
        else:
            for queue, flag in ((self.tx_queue, abi.FI_TRANSMIT), (self.rx_queue, abi.FI_RECV)):
                if queue is not None:
                    self._bind(queue, flag, what)
        for counter, operations in counters:
            self._bind(counter, int(operations), "binding a counter")

    @property
    def info(self) -> Info:
        """Returns the offer of the endpoint."""
        return self._info

    def _cm(self, name: str, what: str, *arguments: Any) -> int:
        with self._lock:
            table = abi.fid_ep.from_address(self.fid).cm
            return self._call(table, abi.fi_ops_cm, name, what, self._fid, *arguments)

    def _name(self, name: str, what: str) -> Address:
        with self._lock:
            fid = self.fid
            call = slot(abi.fid_ep.from_address(fid).cm, abi.fi_ops_cm, name)
            if call is None:
                raise NotSupported(abi.FI_ENOSYS, what)
            return Address(sized(lambda at, length: int(call(fid, at, length)), what))

    @property
    def address(self) -> Address:
        """Returns the local address: fi_getname of fi_cm(3)."""
        return self._name("getname", "getting the address")

    @property
    def peer_address(self) -> Address:
        """Returns the address of the peer of a connection: fi_getpeer of fi_cm(3)."""
        return self._name("getpeer", "getting the peer's address")

    @property
    def is_connected(self) -> bool:
        """Whether the event queue has reported that the connection is established, and not yet its end."""
        return self._is_connected and not self.closed

    def connect(self, address: "ReadableBuffer", data: "ReadableBuffer" = b"") -> Handshake:
        """Starts to connect: fi_connect of fi_cm(3). The peer gets `data` with the request.

        The result is awaited, or waited for: `endpoint.connect(address).wait(10)`.
        """
        queue = self._begin_handshake()
        place = padded(address)
        with queue._lock:
            self._cm("connect", "connecting", place, *self._passed(data))
            return self._began(queue)

    def accept(self, data: "ReadableBuffer" = b"") -> Handshake:
        """Accepts the request for which the endpoint was opened: fi_accept of fi_cm(3). The peer gets `data`."""
        queue = self._begin_handshake()
        with queue._lock:
            self._cm("accept", "accepting a connection", *self._passed(data))
            return self._began(queue)

    def shutdown(self) -> None:
        """Ends the connection: fi_shutdown of fi_cm(3)."""
        self._cm("shutdown", "ending the connection", 0)

    def _passed(self, data: "ReadableBuffer") -> Tuple[Optional[bytes], int]:
        """Returns the C form of data for the peer. Some providers would cut what is too long."""
        text = copied(data)
        if text:
            try:
                limit = self.get_option(abi.FI_OPT_CM_DATA_SIZE)
            except FabricError:
                limit = len(text)
            if len(text) > limit:
                raise ValueError(f"{len(text)} bytes for the peer, more than the {limit} that the provider passes on")
        return text or None, len(text)

    def _begin_handshake(self) -> EventQueue:
        self.fid
        if self.event_queue is None:
            raise FabricError(abi.FI_ENOEQ, "the endpoint has no event queue")
        return self.event_queue

    def _began(self, queue: EventQueue) -> Handshake:
        """Makes the result of `connect` or `accept`. The caller holds the queue's lock, so no event is lost."""
        self._handshake = handshake = Handshake(queue, self)
        return handshake

    def _take_handshake(self) -> Optional[Handshake]:
        handshake, self._handshake = self._handshake, None
        return handshake

    def _closed(self) -> None:
        super()._closed()
        self._is_connected = False
        handshake, queue = self._take_handshake(), self.event_queue
        if handshake is not None and queue is not None:
            with queue._lock:
                queue._end(handshake, None, EventError(abi.FI_ECANCELED, self), b"")
                queue._announce()
