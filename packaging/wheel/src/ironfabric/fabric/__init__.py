# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""libfabric for Python: messages, tagged messages and access to remote memory over any `libfabric.so.1`.

>>> from ironfabric import fabric as fi
>>> hints = fi.Hints(caps=fi.Caps.MSG, endpoint_type=fi.EndpointType.RDM, provider="tcp")
>>> info = fi.getinfo(hints, node="127.0.0.1", source=True)[0]
>>> with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
...     queue = fi.CompletionQueue(domain)
...     vector = fi.AddressVector(domain)
...     endpoint = fi.Endpoint(domain, info, queue=queue, address_vector=vector)
...     peer = vector.insert(endpoint.address)
...     receive = endpoint.recv(64)
...     _ = endpoint.send(b"hello", peer).wait(10)
...     bytes(receive.wait(10).received)
b'hello'

The module loads libfabric when it is first used, not when it is imported. `abi` has the C declarations.
"""

from . import abi
from ._cq import Completion, CompletionQueue, Operation
from ._domain import AddressVector, Counter, Domain, Fabric, Peer
from ._endpoint import Endpoint, SharedReceiveContext, SharedTransmitContext
from ._eq import (
    Connected,
    ConnectionRequest,
    Event,
    EventQueue,
    Handshake,
    OtherEvent,
    PassiveEndpoint,
    Shutdown,
)
from ._library import Library, load, strerror, version
from .errors import (
    Again,
    Busy,
    ClosedError,
    ConnectionAborted,
    ConnectionRefused,
    ConnectionReset,
    EventError,
    FabricError,
    NoData,
    NotSupported,
    OperationError,
    RequestRefused,
    TimedOut,
)
from .flags import (
    Access,
    AtomicOp,
    Caps,
    CompletionFlags,
    Datatype,
    EndpointType,
    Flags,
    MrMode,
    Order,
    Progress,
    Wait,
)
from .info import Address, Hints, Info, getinfo
from .memory import MemoryRegion, RegionSlice, RemoteMemory

__all__ = [
    "Access",
    "Address",
    "AddressVector",
    "Again",
    "AtomicOp",
    "Busy",
    "Caps",
    "ClosedError",
    "Completion",
    "CompletionFlags",
    "CompletionQueue",
    "Connected",
    "ConnectionAborted",
    "ConnectionRefused",
    "ConnectionRequest",
    "ConnectionReset",
    "Counter",
    "Datatype",
    "Domain",
    "Endpoint",
    "EndpointType",
    "Event",
    "EventError",
    "EventQueue",
    "Fabric",
    "FabricError",
    "Flags",
    "Handshake",
    "Hints",
    "Info",
    "Library",
    "MemoryRegion",
    "MrMode",
    "NoData",
    "NotSupported",
    "Operation",
    "OperationError",
    "Order",
    "OtherEvent",
    "PassiveEndpoint",
    "Peer",
    "Progress",
    "RegionSlice",
    "RemoteMemory",
    "RequestRefused",
    "SharedReceiveContext",
    "SharedTransmitContext",
    "Shutdown",
    "TimedOut",
    "Wait",
    "abi",
    "getinfo",
    "load",
    "strerror",
    "version",
]
