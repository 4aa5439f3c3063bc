# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Flags and enumerations."""

import enum

from . import abi


class Caps(enum.IntFlag):
    """Capabilities: fi_getinfo(3), `caps`. `SEND`, `RECV`, `READ`, `WRITE` and the remote ones narrow the others."""

    NONE = 0
    MSG = abi.FI_MSG
    TAGGED = abi.FI_TAGGED
    RMA = abi.FI_RMA
    ATOMIC = abi.FI_ATOMIC
    SEND = abi.FI_SEND
    RECV = abi.FI_RECV
    READ = abi.FI_READ
    WRITE = abi.FI_WRITE
    REMOTE_READ = abi.FI_REMOTE_READ
    REMOTE_WRITE = abi.FI_REMOTE_WRITE
    #: Completions name the sender.
    SOURCE = abi.FI_SOURCE
    #: Receives can be limited to one sender.
    DIRECTED_RECV = abi.FI_DIRECTED_RECV
    #: One receive takes many messages.
    MULTI_RECV = abi.FI_MULTI_RECV
    #: Accesses by peers count on a counter of the target.
    RMA_EVENT = abi.FI_RMA_EVENT
    LOCAL_COMM = abi.FI_LOCAL_COMM
    REMOTE_COMM = abi.FI_REMOTE_COMM


class EndpointType(enum.IntEnum):
    """Kinds of endpoint: fi_endpoint(3), `type`."""

    #: Reliable messages to any peer of an address vector.
    RDM = abi.FI_EP_RDM
    #: Unreliable datagrams of limited size.
    DGRAM = abi.FI_EP_DGRAM
    #: A connection to one peer.
    MSG = abi.FI_EP_MSG


class MrMode(enum.IntFlag):
    """Duties for registered memory: fi_mr(3), `mr_mode`. Hints offer those named here, which this package fulfils."""

    NONE = 0
    #: Buffers of local operations are registered, by the package if the program has not done it.
    LOCAL = abi.FI_MR_LOCAL
    #: Peers name memory by its virtual address, which `RemoteMemory` contains.
    VIRT_ADDR = abi.FI_MR_VIRT_ADDR
    ALLOCATED = abi.FI_MR_ALLOCATED
    #: The provider chooses the keys.
    PROV_KEY = abi.FI_MR_PROV_KEY


class Access(enum.IntFlag):
    """Rights for registered memory: fi_mr(3), `access`."""

    SEND = abi.FI_SEND
    RECV = abi.FI_RECV
    READ = abi.FI_READ
    WRITE = abi.FI_WRITE
    REMOTE_READ = abi.FI_REMOTE_READ
    REMOTE_WRITE = abi.FI_REMOTE_WRITE
    #: Operations of this process read it. It may be read-only.
    SOURCE = abi.FI_SEND | abi.FI_WRITE
    #: Operations of this process use it.
    LOCAL = abi.FI_SEND | abi.FI_RECV | abi.FI_READ | abi.FI_WRITE
    #: Peers use it.
    REMOTE = abi.FI_REMOTE_READ | abi.FI_REMOTE_WRITE


class Wait(enum.IntEnum):
    """How threads wait for a queue or counter: fi_cq(3), `wait_obj`."""

    #: By polling.
    NONE = abi.FI_WAIT_NONE
    #: On a file descriptor, as asyncio does.
    FD = abi.FI_WAIT_FD


class Progress(enum.IntEnum):
    """The side that drives operations: fi_domain(3), `progress`."""

    AUTO = abi.FI_PROGRESS_AUTO
    MANUAL = abi.FI_PROGRESS_MANUAL


class Order(enum.IntFlag):
    """Order of operations to one peer: fi_endpoint(3), `msg_order`."""

    NONE = 0
    RAR = abi.FI_ORDER_RAR
    RAW = abi.FI_ORDER_RAW
    RAS = abi.FI_ORDER_RAS
    WAR = abi.FI_ORDER_WAR
    WAW = abi.FI_ORDER_WAW
    WAS = abi.FI_ORDER_WAS
    SAR = abi.FI_ORDER_SAR
    SAW = abi.FI_ORDER_SAW
    SAS = abi.FI_ORDER_SAS


class Flags(enum.IntFlag):
    """Flags of an operation: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3)."""

    NONE = 0
    #: Completion when the buffer may be used again.
    INJECT_COMPLETE = abi.FI_INJECT_COMPLETE
    #: Completion when the message no longer depends on this endpoint.
    TRANSMIT_COMPLETE = abi.FI_TRANSMIT_COMPLETE
    #: Completion when the data is in the peer's memory.
    DELIVERY_COMPLETE = abi.FI_DELIVERY_COMPLETE
    #: Completion when the peer has matched the message with a receive.
    MATCH_COMPLETE = abi.FI_MATCH_COMPLETE
    #: The operation starts after all earlier ones to the same peer.
    FENCE = abi.FI_FENCE
    #: Another operation follows at once.
    MORE = abi.FI_MORE
    #: The receive takes messages until its buffer is full.
    MULTI_RECV = abi.FI_MULTI_RECV
    #: A tagged receive that only looks whether there is a message.
    PEEK = abi.FI_PEEK
    #: With PEEK: throws the message away.
    DISCARD = abi.FI_DISCARD


class CompletionFlags(enum.IntFlag):
    """Kind of an operation that has ended: fi_cq(3), `flags`."""

    NONE = 0
    SEND = abi.FI_SEND
    RECV = abi.FI_RECV
    MSG = abi.FI_MSG
    TAGGED = abi.FI_TAGGED
    RMA = abi.FI_RMA
    ATOMIC = abi.FI_ATOMIC
    READ = abi.FI_READ
    WRITE = abi.FI_WRITE
    REMOTE_READ = abi.FI_REMOTE_READ
    REMOTE_WRITE = abi.FI_REMOTE_WRITE
    #: `Completion.data` is data of the peer.
    REMOTE_CQ_DATA = abi.FI_REMOTE_CQ_DATA
    #: The buffer of a receive that takes many messages is free again.
    MULTI_RECV = abi.FI_MULTI_RECV


class Datatype(enum.IntEnum):
    """Types of the elements of atomic operations: fi_atomic(3)."""

    INT8 = abi.FI_INT8
    UINT8 = abi.FI_UINT8
    INT16 = abi.FI_INT16
    UINT16 = abi.FI_UINT16
    INT32 = abi.FI_INT32
    UINT32 = abi.FI_UINT32
    INT64 = abi.FI_INT64
    UINT64 = abi.FI_UINT64
    FLOAT = abi.FI_FLOAT
    DOUBLE = abi.FI_DOUBLE

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return _SIZES[self]


_SIZES = {
    Datatype.INT8: 1,
    Datatype.UINT8: 1,
    Datatype.INT16: 2,
    Datatype.UINT16: 2,
    Datatype.INT32: 4,
    Datatype.UINT32: 4,
    Datatype.INT64: 8,
    Datatype.UINT64: 8,
    Datatype.FLOAT: 4,
    Datatype.DOUBLE: 8,
}


class AtomicOp(enum.IntEnum):
    """Atomic operations: fi_atomic(3)."""

    MIN = abi.FI_MIN
    MAX = abi.FI_MAX
    SUM = abi.FI_SUM
    PROD = abi.FI_PROD
    LOR = abi.FI_LOR
    LAND = abi.FI_LAND
    BOR = abi.FI_BOR
    BAND = abi.FI_BAND
    LXOR = abi.FI_LXOR
    BXOR = abi.FI_BXOR
    READ = abi.FI_ATOMIC_READ
    WRITE = abi.FI_ATOMIC_WRITE
    CSWAP = abi.FI_CSWAP
    CSWAP_NE = abi.FI_CSWAP_NE
    CSWAP_LE = abi.FI_CSWAP_LE
    CSWAP_LT = abi.FI_CSWAP_LT
    CSWAP_GE = abi.FI_CSWAP_GE
    CSWAP_GT = abi.FI_CSWAP_GT
    MSWAP = abi.FI_MSWAP
