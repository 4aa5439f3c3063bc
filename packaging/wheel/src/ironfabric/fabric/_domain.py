# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Fabrics, domains, address vectors and counters: fi_fabric(3), fi_domain(3), fi_av(3), fi_cntr(3)."""

import ctypes
import itertools
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Type

from . import abi
from ._library import load, slot
from ._object import Object
from ._queue import NAP, SLICE, SPINS
from .errors import Busy, FabricError, NotSupported, check, error
from .flags import AtomicOp, Datatype, MrMode
from .info import Address, Info, encoded
from .memory import Contexts, copied

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ._cq import Operation


def padded(address: "ReadableBuffer") -> bytes:
    """Returns an address with zeros behind it: a provider that expects another format reads only these."""
    return copied(address) + bytes(256)


class Fabric(Object):
    """A fabric: domains and event queues that can be used together. fi_fabric(3)"""

    kind = "fabric"

    def __init__(self, info: Info) -> None:
        """Opens the fabric of an offer."""
        super().__init__()
        if not isinstance(info, Info):
            raise TypeError(f"info is a {type(info).__name__}, not an Info")
        raw = ctypes.c_void_p()
        code = load().fabric(ctypes.addressof(info.raw.fabric_attr.contents), ctypes.byref(raw), None)
        check(code, "opening the fabric")
        self._names = info.provider, info.fabric
        self._opened(raw.value or 0)

    def _check_info(self, info: Info) -> None:
        """A provider may trust entries that are its own."""
        if not isinstance(info, Info):
            raise TypeError(f"info is a {type(info).__name__}, not an Info")
        names = (info.provider, info.fabric) if info._fabric is None else self._names
        if info._fabric not in (None, self) or names != self._names:
            raise ValueError(f"{info!r} is of another fabric")

    def _open(self, name: str, argument: Any, what: str) -> int:
        """Calls a slot that opens an object, and returns the object."""
        with self._lock:
            ops = abi.fid_fabric.from_address(self.fid).ops
            raw = ctypes.c_void_p()
            self._call(ops, abi.fi_ops_fabric, name, what, self._fid, argument, ctypes.byref(raw), None)
            return raw.value or 0


class Domain(Object):
    """A domain: a network interface, or several as one. fi_domain(3)"""

    kind = "domain"

    def __init__(self, fabric: Fabric, info: Info) -> None:
        """Opens the domain of an offer."""
        super().__init__()
        if not isinstance(fabric, Fabric):
            raise TypeError(f"fabric is a {type(fabric).__name__}, not a Fabric")
        fabric._check_info(info)
        attr = info.raw.domain_attr.contents
        others = info.raw.mode & ~(abi.FI_CONTEXT | abi.FI_CONTEXT2)
        duties = attr.mr_mode & ~int(MrMode.LOCAL | MrMode.VIRT_ADDR | MrMode.ALLOCATED | MrMode.PROV_KEY)
        if attr.threading != abi.FI_THREAD_SAFE or attr.resource_mgmt == abi.FI_RM_DISABLED or others or duties:
            raise NotSupported(abi.FI_EOPNOTSUPP, f"{info!r} has duties that this package does not fulfil")
        raw = fabric._open("domain", ctypes.addressof(info.raw), "opening the domain")
        self.fabric = fabric
        self.mr_mode = info.mr_mode
        self._name = info.domain
        self._needs_registration = bool(self.mr_mode & MrMode.LOCAL)
        self._keys = itertools.count(1)
        self._contexts = Contexts()
        #: Operations in flight, by the address of their context.
        self._operations: "Dict[int, Operation]" = {}
        #: Buffers that can never be released, because closing their registration has failed.
        self._stuck: List[Any] = []
        self._opened(raw, fabric).keep = self._contexts, self._operations, self._stuck

    def _check_info(self, info: Info) -> None:
        self.fabric._check_info(info)
        if info.domain != self._name and info._fabric is None:
            raise ValueError(f"{info!r} is of another domain")

    def _open(self, struct: Type[ctypes.Structure], name: str, argument: Any, what: str) -> int:
        """Calls a slot that opens an object, and returns the object."""
        with self._lock:
            ops = abi.fid_domain.from_address(self.fid).ops
            raw = ctypes.c_void_p()
            self._call(ops, struct, name, what, self._fid, argument, ctypes.byref(raw), None)
            return raw.value or 0

    def _register(self, address: int, length: int, access: int, key: Optional[int] = None) -> int:
        """Registers memory: fi_mr(3)."""
        if key is None:
            key = next(self._keys)
        with self._lock:
            table = abi.fid_domain.from_address(self.fid).mr
            raw = ctypes.c_void_p()
            arguments = (self._fid, address, length, int(access), 0, key, 0, ctypes.byref(raw), None)
            self._call(table, abi.fi_ops_mr, "reg", "registering memory", *arguments)
            return raw.value or 0

    def query_atomic(self, datatype: Datatype, op: AtomicOp, *, fetch: bool = False, compare: bool = False) -> int:
        """Returns how many elements one atomic operation may have; 0: it is not supported. fi_query_atomic"""
        flags = (abi.FI_FETCH_ATOMIC if fetch else 0) | (abi.FI_COMPARE_ATOMIC if compare else 0)
        attr = abi.fi_atomic_attr()
        with self._lock:
            call = slot(abi.fid_domain.from_address(self.fid).ops, abi.fi_ops_domain, "query_atomic")
            if call is None:
                return 0
            code = call(self._fid, Datatype(datatype), AtomicOp(op), ctypes.byref(attr), flags)
        if code in (-abi.FI_EOPNOTSUPP, -abi.FI_ENOSYS):
            return 0
        check(code, "fi_query_atomic")
        return attr.count


class Peer(int):
    """A peer: its place in an address vector."""

    _vector: "Optional[AddressVector]"

    def __repr__(self) -> str:
        return f"Peer({int(self)})"


class AddressVector(Object):
    """The addresses of peers: fi_av(3)."""

    kind = "address vector"

    def __init__(self, domain: Domain, *, count: int = 0) -> None:
        """Opens a vector for some `count` addresses."""
        super().__init__()
        if not isinstance(domain, Domain):
            raise TypeError(f"domain is a {type(domain).__name__}, not a Domain")
        attr = abi.fi_av_attr(type=abi.FI_AV_TABLE, count=count)
        self.domain = domain
        self._peers: Dict[int, Peer] = {}
        raw = domain._open(abi.fi_ops_domain, "av_open", ctypes.byref(attr), "opening an address vector")
        self._opened(raw, domain)

    def insert(self, address: "ReadableBuffer") -> Peer:
        """Inserts the address of an endpoint, which that got from its `address`: fi_av_insert."""
        text = padded(address)
        if len(text) == 256:
            raise ValueError("the address is empty")
        return self._insert("insert", "inserting an address", text, 1)

    def insert_service(self, node: str, service: str) -> Peer:
        """Inserts the address of a host and a port: fi_av_insertsvc."""
        return self._insert("insertsvc", "inserting an address", encoded(node, "node"), encoded(service, "service"))

    def _insert(self, name: str, what: str, *arguments: Any) -> Peer:
        number = ctypes.c_uint64(abi.FI_ADDR_NOTAVAIL)
        with self._lock:
            ops = abi.fid_av.from_address(self.fid).ops
            added = self._call(ops, abi.fi_ops_av, name, what, self._fid, *arguments, ctypes.byref(number), 0, None)
            if added != 1 or number.value == abi.FI_ADDR_NOTAVAIL:
                raise error(abi.FI_EADDRNOTAVAIL, what)
            peer = self._peers.get(number.value)
            if peer is None:
                peer = Peer(number.value)
                peer._vector = self
                self._peers[number.value] = peer
            return peer

    def remove(self, peer: Peer) -> None:
        """Removes a peer: fi_av_remove. Busy: an operation with it is in flight."""
        number = ctypes.c_uint64(self._number(peer))
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            self.fid
            # No endpoint posts meanwhile.
            for user in list(self._handle.users if self._handle is not None else ()):
                endpoint = user.object()
                if endpoint is not None:
                    stack.enter_context(endpoint._lock)
            for operation in list(self.domain._operations.values()):
                if operation._vector is self and operation._destination == number.value:
                    raise Busy(abi.FI_EBUSY, "an operation with this peer is in flight")
            ops = abi.fid_av.from_address(self._fid).ops
            what = "removing an address"
            self._call(ops, abi.fi_ops_av, "remove", what, self._fid, ctypes.byref(number), 1, 0)
            peer._vector = None
            self._peers.pop(number.value, None)

    def lookup(self, peer: Peer) -> Address:
        """Returns the address of a peer: fi_av_lookup."""
        number = self._number(peer)
        buffer, length = ctypes.create_string_buffer(512), ctypes.c_size_t(512)
        with self._lock:
            ops = abi.fid_av.from_address(self.fid).ops
            what = "looking up an address"
            self._call(ops, abi.fi_ops_av, "lookup", what, self._fid, number, buffer, ctypes.byref(length))
        return Address(buffer.raw[: length.value])

    def text(self, address: "ReadableBuffer") -> str:
        """Returns an address in a form for people: fi_av_straddr."""
        buffer, length = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
        with self._lock:
            call = slot(abi.fid_av.from_address(self.fid).ops, abi.fi_ops_av, "straddr")
            if call is None:
                raise NotSupported(abi.FI_ENOSYS, "fi_av_straddr")
            call(self._fid, padded(address), buffer, ctypes.byref(length))
        return buffer.value.decode(errors="replace")

    def _number(self, peer: Peer) -> int:
        if not isinstance(peer, Peer):
            raise TypeError(f"a peer is what insert returns, not a {type(peer).__name__}")
        if peer._vector is not self:
            raise ValueError("the peer was removed, or is of another address vector")
        return int(peer)

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))


class Counter(Object):
    """A number of operations that have ended: fi_cntr(3)."""

    kind = "counter"

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        if not isinstance(domain, Domain):
            raise TypeError(f"domain is a {type(domain).__name__}, not a Domain")
        self.domain = domain
        what = "opening a counter"
        attr = abi.fi_cntr_attr(events=abi.FI_CNTR_EVENTS_COMP, wait_obj=abi.FI_WAIT_UNSPEC)
        try:
            raw = domain._open(abi.fi_ops_domain, "cntr_open", ctypes.byref(attr), what)
            self._may_block = True
        except FabricError:
            attr.wait_obj = abi.FI_WAIT_NONE
            raw = domain._open(abi.fi_ops_domain, "cntr_open", ctypes.byref(attr), what)
            self._may_block = False
        self._opened(raw, domain)

    def _slot(self, name: str) -> Tuple[Any, int]:
        fid = self.fid
        call = slot(abi.fid_cntr.from_address(fid).ops, abi.fi_ops_cntr, name)
        if call is None:
            raise NotSupported(abi.FI_ENOSYS, f"fi_cntr_{name}")
        return call, fid

    @property
    def value(self) -> int:
        """Returns the number of operations that ended well, and drives progress."""
        with self._lock:
            call, fid = self._slot("read")
            value: int = call(fid)
            return value

    @property
    def errors(self) -> int:
        """Returns the number of operations that failed."""
        with self._lock:
            call, fid = self._slot("readerr")
            value: int = call(fid)
            return value

    def add(self, value: int) -> None:
        """Adds to the number."""
        with self._lock:
            call, fid = self._slot("add")
            check(call(fid, value), "fi_cntr_add")

    def set(self, value: int) -> None:
        """Sets the number."""
        with self._lock:
            call, fid = self._slot("set")
            check(call(fid, value), "fi_cntr_set")

    def wait(self, threshold: int, timeout: Optional[float] = None) -> None:
        """Waits until the number has reached `threshold`. TimeoutError: not in time. FI_EAVAIL: an operation failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        errors = self.errors
        spins = 0
        while True:
            if self.value >= threshold:
                return
            if self.errors != errors:
                raise error(abi.FI_EAVAIL, "fi_cntr_wait")
            left = SLICE if deadline is None else min(SLICE, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"the counter did not reach {threshold} in {timeout} s")
            if not self._may_block:
                spins += 1
                if spins > SPINS:
                    time.sleep(NAP)
                continue
            with self._lock:
                call, fid = self._slot("wait")
                code = call(fid, threshold, max(int(left * 1000), 1))
            if code not in (0, -abi.FI_ETIMEDOUT, -abi.FI_EAGAIN, -abi.FI_EINTR, -abi.FI_EAVAIL):
                raise error(code, "fi_cntr_wait")
