# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hints and offers: fi_getinfo(3)."""

import ctypes
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, List, Optional

from . import abi
from ._library import allocated, load
from .errors import NoData, check
from .flags import Caps, EndpointType, MrMode, Order, Progress

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MODES = abi.FI_CONTEXT | abi.FI_CONTEXT2
_MR_MODES = MrMode.LOCAL | MrMode.VIRT_ADDR | MrMode.ALLOCATED | MrMode.PROV_KEY


class Address(bytes):
    """An address in the format of a provider. Programs exchange addresses as bytes, outside of libfabric."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Address({super().__repr__()})"


@dataclass(frozen=True)
class Hints:
    """The requirements of a program. Those that are not given leave the choice to the provider.

    >>> hints = Hints(caps=Caps.MSG | Caps.TAGGED, endpoint_type=EndpointType.RDM, provider="tcp")
    >>> hints.replace(provider="shm").provider
    'shm'
    """

    #: Required capabilities.
    caps: Caps = Caps.NONE
    endpoint_type: Optional[EndpointType] = None
    #: "tcp" or "verbs;ofi_rxm". A list has commas, and a leading "^" excludes its providers.
    provider: Optional[str] = None
    #: Name of the fabric.
    fabric: Optional[str] = None
    #: Name of the domain, usually a network interface.
    domain: Optional[str] = None
    progress: Optional[Progress] = None
    #: Order of operations to one peer.
    order: Order = Order.NONE
    #: Bytes that can be injected.
    inject_size: int = 0
    #: Bytes of a message.
    max_message_size: int = 0
    #: Operations in flight that send, read or write; posted receives.
    tx_size: int = 0
    rx_size: int = 0
    #: Buffers of one operation.
    iov_limit: int = 0
    #: Bytes, up to 8, of the number that operations carry into the completion of the peer.
    cq_data_size: int = 0
    #: Endpoints of the offer use a `SharedTransmitContext`, a `SharedReceiveContext`.
    shared_tx: bool = False
    shared_rx: bool = False

    def __post_init__(self) -> None:
        for field, kind in (("caps", Caps), ("order", Order), ("endpoint_type", EndpointType), ("progress", Progress)):
            value = getattr(self, field)
            if value is not None:
                # Raises ValueError for a number without a name.
                object.__setattr__(self, field, kind(value))
        for field in _SIZES:
            size = getattr(self, field)
            if not isinstance(size, int):
                raise TypeError(f"{field} is a {type(size).__name__}, not a number")
            if not 0 <= size < 2**63:
                raise ValueError(f"{field} is {size}")

    def replace(self, **changes: Any) -> "Hints":
        """Returns hints that differ in these members."""
        return replace(self, **changes)


_SIZES = (
    "inject_size",
    "max_message_size",
    "tx_size",
    "rx_size",
    "iov_limit",
    "cq_data_size",
)


class _List:
    """A list of the library, which is freed when no entry is in use."""

    __slots__ = ("__weakref__", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        weakref.finalize(self, load().freeinfo, first).atexit = False


class Info:
    """An offer: endpoints that a provider has on one domain."""

    def __init__(self, owner: _List, address: int) -> None:
        self._owner = owner
        self._raw = abi.fi_info.from_address(address)
        self._address = address
        #: The fabric of a connection request. Its entry may have other names than those of the listening endpoint.
        self._fabric: Optional[Any] = None

    @property
    def caps(self) -> Caps:
        """Returns the capabilities that have a name in `Caps`."""
        return Caps(self._raw.caps & _CAPS)

    @property
    def endpoint_type(self) -> EndpointType:
        return EndpointType(self._raw.ep_attr.contents.type)

    @property
    def provider(self) -> str:
        return _text(self._raw.fabric_attr.contents.prov_name)

    @property
    def fabric(self) -> str:
        """Returns the name of the fabric."""
        return _text(self._raw.fabric_attr.contents.name)

    @property
    def domain(self) -> str:
        """Returns the name of the domain."""
        return _text(self._raw.domain_attr.contents.name)

    @property
    def mr_mode(self) -> MrMode:
        """Returns the duties for registered memory."""
        return MrMode(self._raw.domain_attr.contents.mr_mode & _MR_MODES)

    @property
    def progress(self) -> Progress:
        return Progress(self._raw.domain_attr.contents.progress)

    @property
    def inject_size(self) -> int:
        """Returns how many bytes can be injected."""
        return self._raw.tx_attr.contents.inject_size

    @property
    def tx_size(self) -> int:
        return self._raw.tx_attr.contents.size

    @property
    def rx_size(self) -> int:
        return self._raw.rx_attr.contents.size

    @property
    def iov_limit(self) -> int:
        """Returns how many buffers one operation may have."""
        return min(self._raw.tx_attr.contents.iov_limit, self._raw.rx_attr.contents.iov_limit)

    @property
    def max_message_size(self) -> int:
        return self._raw.ep_attr.contents.max_msg_size

    @property
    def cq_data_size(self) -> int:
        return self._raw.domain_attr.contents.cq_data_size

    @property
    def source(self) -> Optional[Address]:
        """Returns the local address, if the offer has one."""
        return _bytes(self._raw.src_addr, self._raw.src_addrlen)

    @property
    def destination(self) -> Optional[Address]:
        """Returns the address of the peer that `getinfo` was called with."""
        return _bytes(self._raw.dest_addr, self._raw.dest_addrlen)

    @property
    def raw(self) -> "abi.fi_info":
        """Returns the C struct. It exists as long as this object; do not change it."""
        return self._raw

    def copy(self) -> "Info":
        """Returns an entry of its own."""
        return owned(load().dupinfo(self._address))

    def __str__(self) -> str:
        """Returns the text of fi_tostr(3)."""
        return _text(load().tostr(self._address, abi.FI_TYPE_INFO))

    def __repr__(self) -> str:
        return f"<Info {self.provider} {self.endpoint_type.name} {self.domain}>"


_CAPS = 0
for _flag in Caps.__members__.values():
    _CAPS |= _flag.value


def _text(raw: Optional[bytes]) -> str:
    return raw.decode(errors="surrogateescape") if raw else ""


def _bytes(address: Optional[int], length: int) -> Optional[Address]:
    return Address(ctypes.string_at(address, length)) if address and length else None


def owned(address: Optional[int]) -> Info:
    """Takes over an entry."""
    if not address:
        raise MemoryError
    return Info(_List(address), address)


def encoded(text: Optional[str], what: str) -> Optional[bytes]:
    """Returns the C form of a text."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{what} is a {type(text).__name__}, not a text")
    if "\0" in text:
        raise ValueError(f"{what} contains a zero")
    return text.encode(errors="surrogateescape")


def getinfo(
    hints: Optional[Hints] = None,
    *,
    node: Optional[str] = None,
    service: Optional[str] = None,
    source: bool = False,
    destination: "Optional[ReadableBuffer]" = None,
) -> List[Info]:
    """Returns the offers that match, best first: fi_getinfo(3). NoData: there are none.

    `node` and `service` are a host name or number, and a port: the address of the peer, or with `source` the local
    one. `destination` is the address of the peer in the provider's format.
    """
    library = load()
    hints = Hints() if hints is None else hints
    if not isinstance(hints, Hints):
        raise TypeError(f"hints is a {type(hints).__name__}, not Hints")
    node_text, service_text = encoded(node, "node"), encoded(service, "service")
    # Entries of the library have the structs of its own version. The list frees it with its parts.
    entry = owned(library.dupinfo(None))
    raw = entry.raw
    raw.caps, raw.mode = hints.caps, _MODES
    tx, rx, ep = raw.tx_attr.contents, raw.rx_attr.contents, raw.ep_attr.contents
    domain, fabric = raw.domain_attr.contents, raw.fabric_attr.contents
    tx.inject_size, tx.size, tx.iov_limit = hints.inject_size, hints.tx_size, hints.iov_limit
    rx.size, rx.iov_limit = hints.rx_size, hints.iov_limit
    tx.msg_order = rx.msg_order = hints.order
    ep.type = hints.endpoint_type or abi.FI_EP_UNSPEC
    ep.max_msg_size = hints.max_message_size
    ep.tx_ctx_cnt = abi.FI_SHARED_CONTEXT if hints.shared_tx else 0
    ep.rx_ctx_cnt = abi.FI_SHARED_CONTEXT if hints.shared_rx else 0
    # Finalizers may close objects in any thread.
    domain.threading = abi.FI_THREAD_SAFE
    domain.av_type = abi.FI_AV_TABLE
    # Otherwise a program that posts too much could overrun a queue.
    domain.resource_mgmt = abi.FI_RM_ENABLED
    domain.mr_mode = _MR_MODES
    domain.cq_data_size = hints.cq_data_size
    domain.progress = hints.progress or abi.FI_PROGRESS_UNSPEC
    _set_text(domain, abi.fi_domain_attr, "name", encoded(hints.domain, "domain"))
    _set_text(fabric, abi.fi_fabric_attr, "name", encoded(hints.fabric, "fabric"))
    _set_text(fabric, abi.fi_fabric_attr, "prov_name", encoded(hints.provider, "provider"))
    if destination is not None:
        # Zeros behind it: a provider that expects another format reads memory of this process only.
        address = bytes(memoryview(destination).cast("B"))
        raw.dest_addr, raw.dest_addrlen = allocated(address + bytes(256)), len(address)
    flags = abi.FI_SOURCE if source and (node is not None or service is not None) else 0
    first = ctypes.c_void_p()
    code = library.getinfo(library.interface, node_text, service_text, flags, ctypes.byref(raw), ctypes.byref(first))
    check(code, "fi_getinfo")
    if not first.value:
        raise NoData(abi.FI_ENODATA, "fi_getinfo")
    owner = _List(first.value)
    found: List[Info] = []
    address_of: Optional[int] = first.value
    while address_of:
        found.append(Info(owner, address_of))
        next_of = ctypes.c_void_p.from_address(address_of + abi.fi_info.next.offset)  # type: ignore[attr-defined]
        address_of = next_of.value
    return found


def _set_text(part: Any, kind: Any, name: str, text: Optional[bytes]) -> None:
    """Sets a member of a library's struct to a copy of a text, which the library frees."""
    if text is not None:
        place = ctypes.c_void_p.from_address(ctypes.addressof(part) + getattr(kind, name).offset)
        place.value = allocated(text + b"\0")
