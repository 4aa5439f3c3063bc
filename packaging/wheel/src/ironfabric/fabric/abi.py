# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The ABI of libfabric 2.7: constants, structs and exported functions, under their names in C.

Written by scripts/python_abi.py from include/rdma; change that.

Structs that a program allocates have the members of this release, and an older library ignores those at the end.
Structs that a library allocates may be shorter: read only members that the version of that library has. Functions take
addresses as numbers, or anything else that ctypes accepts as a `c_void_p`.
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Array,
    Structure,
    Union,
    c_char_p,
    c_int,
    c_size_t,
    c_ssize_t,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TYPE_CHECKING, Any, Callable, Dict, Final, Optional, Tuple

if TYPE_CHECKING:
    from ctypes import _Pointer

FI_SUCCESS: Final = 0
FI_EPERM: Final = 1
FI_ENOENT: Final = 2
FI_EINTR: Final = 4
FI_EIO: Final = 5
FI_E2BIG: Final = 7
FI_EBADF: Final = 9
FI_EAGAIN: Final = 11
FI_ENOMEM: Final = 12
FI_EACCES: Final = 13
FI_EFAULT: Final = 14
FI_EBUSY: Final = 16
FI_ENODEV: Final = 19
FI_EINVAL: Final = 22
FI_EMFILE: Final = 24
FI_ENOSPC: Final = 28
FI_ENOSYS: Final = 38
FI_EWOULDBLOCK: Final = 11
FI_ENOMSG: Final = 42
FI_ENODATA: Final = 61
FI_EPROTO: Final = 71
FI_EOVERFLOW: Final = 75
FI_EMSGSIZE: Final = 90
FI_ENOPROTOOPT: Final = 92
FI_EOPNOTSUPP: Final = 95
FI_EADDRINUSE: Final = 98
FI_EADDRNOTAVAIL: Final = 99
FI_ENETDOWN: Final = 100
FI_ENETUNREACH: Final = 101
FI_ECONNABORTED: Final = 103
FI_ECONNRESET: Final = 104
FI_ENOBUFS: Final = 105
FI_EISCONN: Final = 106
FI_ENOTCONN: Final = 107
FI_ESHUTDOWN: Final = 108
FI_ETIMEDOUT: Final = 110
FI_ECONNREFUSED: Final = 111
FI_EHOSTDOWN: Final = 112
FI_EHOSTUNREACH: Final = 113
FI_EALREADY: Final = 114
FI_EINPROGRESS: Final = 115
FI_EREMOTEIO: Final = 121
FI_ECANCELED: Final = 125
FI_EKEYREJECTED: Final = 129
FI_ERRNO_OFFSET: Final = 256
FI_EOTHER: Final = 256
FI_ETOOSMALL: Final = 257
FI_EOPBADSTATE: Final = 258
FI_EAVAIL: Final = 259
FI_EBADFLAGS: Final = 260
FI_ENOEQ: Final = 261
FI_EDOMAIN: Final = 262
FI_ENOCQ: Final = 263
FI_ECRC: Final = 264
FI_ETRUNC: Final = 265
FI_ENOKEY: Final = 266
FI_ENOAV: Final = 267
FI_EOVERRUN: Final = 268
FI_ENORX: Final = 269
FI_ENOMR: Final = 270
FI_EFIREWALLADDR: Final = 271
FI_ERRNO_MAX: Final = 272
FI_SHARED_CONTEXT: Final = 0xffffffffffffffff
FI_AV_AUTH_KEY: Final = 0xffffffffffffffff
FI_MAJOR_VERSION: Final = 2
FI_MINOR_VERSION: Final = 7
FI_REVISION_VERSION: Final = 0
FI_NAME_MAX: Final = 64
FI_ATOMIC_OP_LAST: Final = 19
FI_DATATYPE_LAST: Final = 14
FI_MSG: Final = 2
FI_RMA: Final = 4
FI_TAGGED: Final = 8
FI_ATOMIC: Final = 16
FI_ATOMICS: Final = 16
FI_MULTICAST: Final = 32
FI_COLLECTIVE: Final = 64
FI_READ: Final = 256
FI_WRITE: Final = 512
FI_RECV: Final = 1024
FI_SEND: Final = 2048
FI_TRANSMIT: Final = 2048
FI_REMOTE_READ: Final = 0x1000
FI_REMOTE_WRITE: Final = 0x2000
FI_MULTI_RECV: Final = 0x10000
FI_REMOTE_CQ_DATA: Final = 0x20000
FI_MORE: Final = 0x40000
FI_PEEK: Final = 0x80000
FI_TRIGGER: Final = 0x100000
FI_FENCE: Final = 0x200000
FI_COMPLETION: Final = 0x1000000
FI_EVENT: Final = 0x1000000
FI_INJECT: Final = 0x2000000
FI_INJECT_COMPLETE: Final = 0x4000000
FI_TRANSMIT_COMPLETE: Final = 0x8000000
FI_DELIVERY_COMPLETE: Final = 0x10000000
FI_AFFINITY: Final = 0x20000000
FI_COMMIT_COMPLETE: Final = 0x40000000
FI_MATCH_COMPLETE: Final = 0x80000000
FI_RESCAN: Final = 0x800000000
FI_PEER_TRANSFER: Final = 0x1000000000
FI_AV_USER_ID: Final = 0x20000000000
FI_FIREWALL_ADDR: Final = 0x40000000000
FI_PEER: Final = 0x80000000000
FI_XPU: Final = 0x100000000000
FI_TAGGED_DIRECTED_RECV: Final = 0x200000000000
FI_TAGGED_MULTI_RECV: Final = 0x400000000000
FI_HMEM: Final = 0x800000000000
FI_EXACT_DIRECTED_RECV: Final = 0x1000000000000
FI_RMA_PMEM: Final = 0x2000000000000
FI_SOURCE_ERR: Final = 0x4000000000000
FI_LOCAL_COMM: Final = 0x8000000000000
FI_REMOTE_COMM: Final = 0x10000000000000
FI_SHARED_AV: Final = 0x20000000000000
FI_PROV_ATTR_ONLY: Final = 0x40000000000000
FI_NUMERICHOST: Final = 0x80000000000000
FI_RMA_EVENT: Final = 0x100000000000000
FI_SOURCE: Final = 0x200000000000000
FI_NAMED_RX_CTX: Final = 0x400000000000000
FI_DIRECTED_RECV: Final = 0x800000000000000
FI_CLAIM: Final = 0x800000000000000
FI_DISCARD: Final = 0x400000000000000
FI_AUTH_KEY: Final = 0x200000000000000
FI_FORMAT_UNSPEC: Final = 0
FI_SOCKADDR: Final = 1
FI_SOCKADDR_IN: Final = 2
FI_SOCKADDR_IN6: Final = 3
FI_SOCKADDR_IB: Final = 4
FI_ADDR_PSMX: Final = 5
FI_ADDR_GNI: Final = 6
FI_ADDR_BGQ: Final = 7
FI_ADDR_MLX: Final = 8
FI_ADDR_STR: Final = 9
FI_ADDR_PSMX2: Final = 10
FI_ADDR_IB_UD: Final = 11
FI_ADDR_EFA: Final = 12
FI_ADDR_PSMX3: Final = 13
FI_ADDR_OPX: Final = 14
FI_ADDR_CXI: Final = 15
FI_ADDR_UCX: Final = 16
FI_SOCKADDR_IP: Final = 17
FI_ADDR_UNSPEC: Final = 0xffffffffffffffff
FI_ADDR_NOTAVAIL: Final = 0xffffffffffffffff
FI_KEY_NOTAVAIL: Final = 0xffffffffffffffff
FI_MR_UNSPEC: Final = 0
FI_MR_BASIC: Final = 1
FI_MR_SCALABLE: Final = 2
FI_MR_LOCAL: Final = 4
FI_MR_RAW: Final = 8
FI_MR_VIRT_ADDR: Final = 16
FI_MR_ALLOCATED: Final = 32
FI_MR_PROV_KEY: Final = 64
FI_MR_MMU_NOTIFY: Final = 128
FI_MR_RMA_EVENT: Final = 256
FI_MR_ENDPOINT: Final = 512
FI_MR_HMEM: Final = 1024
FI_MR_COLLECTIVE: Final = 2048
FI_MR_XPU_DESC: Final = 0x1000
FI_ORDER_NONE: Final = 0
FI_ORDER_RAR: Final = 1
FI_ORDER_RAW: Final = 2
FI_ORDER_RAS: Final = 4
FI_ORDER_WAR: Final = 8
FI_ORDER_WAW: Final = 16
FI_ORDER_WAS: Final = 32
FI_ORDER_SAR: Final = 64
FI_ORDER_SAW: Final = 128
FI_ORDER_SAS: Final = 256
FI_ORDER_STRICT: Final = 511
FI_ORDER_RMA_RAR: Final = 0x100000000
FI_ORDER_RMA_RAW: Final = 0x200000000
FI_ORDER_RMA_WAR: Final = 0x400000000
FI_ORDER_RMA_WAW: Final = 0x800000000
FI_ORDER_ATOMIC_RAR: Final = 0x1000000000
FI_ORDER_ATOMIC_RAW: Final = 0x2000000000
FI_ORDER_ATOMIC_WAR: Final = 0x4000000000
FI_ORDER_ATOMIC_WAW: Final = 0x8000000000
FI_ORDER_DATA: Final = 0x10000
FI_PROTO_UNSPEC: Final = 0
FI_PROTO_RDMA_CM_IB_RC: Final = 1
FI_PROTO_IWARP: Final = 2
FI_PROTO_IB_UD: Final = 3
FI_PROTO_PSMX: Final = 4
FI_PROTO_UDP: Final = 5
FI_PROTO_SOCK_TCP: Final = 6
FI_PROTO_MXM: Final = 7
FI_PROTO_IWARP_RDM: Final = 8
FI_PROTO_IB_RDM: Final = 9
FI_PROTO_GNI: Final = 10
FI_PROTO_RXM: Final = 11
FI_PROTO_RXD: Final = 12
FI_PROTO_MLX: Final = 13
FI_PROTO_NETWORKDIRECT: Final = 14
FI_PROTO_PSMX2: Final = 15
FI_PROTO_SHM: Final = 16
FI_PROTO_MRAIL: Final = 17
FI_PROTO_RSTREAM: Final = 18
FI_PROTO_RDMA_CM_IB_XRC: Final = 19
FI_PROTO_EFA: Final = 20
FI_PROTO_PSMX3: Final = 21
FI_PROTO_RXM_TCP: Final = 22
FI_PROTO_OPX: Final = 23
FI_PROTO_CXI: Final = 24
FI_PROTO_XNET: Final = 25
FI_PROTO_COLL: Final = 26
FI_PROTO_UCX: Final = 27
FI_PROTO_SM2: Final = 28
FI_PROTO_CXI_RNR: Final = 29
FI_PROTO_LPP: Final = 30
FI_PROTO_LNX: Final = 31
FI_TAG_BITS: Final = 0
FI_TAG_MPI: Final = 1
FI_TAG_CCL: Final = 2
FI_TAG_MAX_FORMAT: Final = 0x10000
FI_TC_UNSPEC: Final = 0
FI_TC_DSCP: Final = 256
FI_TC_LABEL: Final = 512
FI_TC_BEST_EFFORT: Final = 512
FI_TC_LOW_LATENCY: Final = 513
FI_TC_DEDICATED_ACCESS: Final = 514
FI_TC_BULK_DATA: Final = 515
FI_TC_SCAVENGER: Final = 516
FI_TC_NETWORK_CTRL: Final = 517
FI_CONTEXT: Final = 0x800000000000000
FI_MSG_PREFIX: Final = 0x400000000000000
FI_ASYNC_IOV: Final = 0x200000000000000
FI_RX_CQ_DATA: Final = 0x100000000000000
FI_LOCAL_MR: Final = 0x80000000000000
FI_CONTEXT2: Final = 0x10000000000000
FI_CLASS_UNSPEC: Final = 0
FI_CLASS_FABRIC: Final = 1
FI_CLASS_DOMAIN: Final = 2
FI_CLASS_EP: Final = 3
FI_CLASS_SEP: Final = 4
FI_CLASS_RX_CTX: Final = 5
FI_CLASS_SRX_CTX: Final = 6
FI_CLASS_TX_CTX: Final = 7
FI_CLASS_STX_CTX: Final = 8
FI_CLASS_PEP: Final = 9
FI_CLASS_INTERFACE: Final = 10
FI_CLASS_AV: Final = 11
FI_CLASS_MR: Final = 12
FI_CLASS_EQ: Final = 13
FI_CLASS_CQ: Final = 14
FI_CLASS_CNTR: Final = 15
FI_CLASS_WAIT: Final = 16
FI_CLASS_POLL: Final = 17
FI_CLASS_CONNREQ: Final = 18
FI_CLASS_MC: Final = 19
FI_CLASS_NIC: Final = 20
FI_CLASS_AV_SET: Final = 21
FI_CLASS_MR_CACHE: Final = 22
FI_CLASS_MEM_MONITOR: Final = 23
FI_CLASS_PEER_CQ: Final = 24
FI_CLASS_PEER_SRX: Final = 25
FI_CLASS_LOG: Final = 26
FI_CLASS_PEER_AV: Final = 27
FI_CLASS_PEER_AV_SET: Final = 28
FI_CLASS_PEER_CNTR: Final = 29
FI_CLASS_PROFILE: Final = 30
FI_CLASS_XPU_CTX: Final = 31
FI_SELECTIVE_COMPLETION: Final = 0x800000000000000
FI_GETFIDFLAG: Final = 0
FI_SETFIDFLAG: Final = 1
FI_GETOPSFLAG: Final = 2
FI_SETOPSFLAG: Final = 3
FI_ALIAS: Final = 4
FI_GETWAIT: Final = 5
FI_ENABLE: Final = 6
FI_BACKLOG: Final = 7
FI_GET_RAW_MR: Final = 8
FI_MAP_RAW_MR: Final = 9
FI_UNMAP_KEY: Final = 10
FI_QUEUE_WORK: Final = 11
FI_CANCEL_WORK: Final = 12
FI_FLUSH_WORK: Final = 13
FI_REFRESH: Final = 14
FI_DUP: Final = 15
FI_GETWAITOBJ: Final = 16
FI_GET_VAL: Final = 17
FI_SET_VAL: Final = 18
FI_EXPORT_FID: Final = 19
FI_GET_FD: Final = 20
FI_GET_MR_XPU_DESC: Final = 21
FI_VARIABLE_MSG: Final = 0
FI_NOTIFY_FLAGS_ONLY: Final = 0
FI_RESTRICTED_COMP: Final = 0
FI_EP_UNSPEC: Final = 0
FI_EP_MSG: Final = 1
FI_EP_DGRAM: Final = 2
FI_EP_RDM: Final = 3
FI_AV_UNSPEC: Final = 0
FI_AV_MAP: Final = 1
FI_AV_TABLE: Final = 2
FI_PROGRESS_UNSPEC: Final = 0
FI_PROGRESS_AUTO: Final = 1
FI_PROGRESS_MANUAL: Final = 2
FI_PROGRESS_CONTROL_UNIFIED: Final = 3
FI_THREAD_UNSPEC: Final = 0
FI_THREAD_SAFE: Final = 1
FI_THREAD_FID: Final = 2
FI_THREAD_DOMAIN: Final = 3
FI_THREAD_COMPLETION: Final = 4
FI_THREAD_ENDPOINT: Final = 5
FI_RM_UNSPEC: Final = 0
FI_RM_DISABLED: Final = 1
FI_RM_ENABLED: Final = 2
FI_BUS_UNSPEC: Final = 0
FI_BUS_UNKNOWN: Final = 0
FI_BUS_PCI: Final = 1
FI_LINK_UNKNOWN: Final = 0
FI_LINK_DOWN: Final = 1
FI_LINK_UP: Final = 2
FI_TYPE_INFO: Final = 0
FI_TYPE_EP_TYPE: Final = 1
FI_TYPE_CAPS: Final = 2
FI_TYPE_OP_FLAGS: Final = 3
FI_TYPE_ADDR_FORMAT: Final = 4
FI_TYPE_TX_ATTR: Final = 5
FI_TYPE_RX_ATTR: Final = 6
FI_TYPE_EP_ATTR: Final = 7
FI_TYPE_DOMAIN_ATTR: Final = 8
FI_TYPE_FABRIC_ATTR: Final = 9
FI_TYPE_THREADING: Final = 10
FI_TYPE_PROGRESS: Final = 11
FI_TYPE_PROTOCOL: Final = 12
FI_TYPE_MSG_ORDER: Final = 13
FI_TYPE_MODE: Final = 14
FI_TYPE_AV_TYPE: Final = 15
FI_TYPE_ATOMIC_TYPE: Final = 16
FI_TYPE_ATOMIC_OP: Final = 17
FI_TYPE_VERSION: Final = 18
FI_TYPE_EQ_EVENT: Final = 19
FI_TYPE_CQ_EVENT_FLAGS: Final = 20
FI_TYPE_MR_MODE: Final = 21
FI_TYPE_OP_TYPE: Final = 22
FI_TYPE_FID: Final = 23
FI_TYPE_COLLECTIVE_OP: Final = 24
FI_TYPE_HMEM_IFACE: Final = 25
FI_TYPE_CQ_FORMAT: Final = 26
FI_TYPE_LOG_LEVEL: Final = 27
FI_TYPE_LOG_SUBSYS: Final = 28
FI_TYPE_AV_ATTR: Final = 29
FI_TYPE_CQ_ATTR: Final = 30
FI_TYPE_MR_ATTR: Final = 31
FI_TYPE_CNTR_ATTR: Final = 32
FI_TYPE_CQ_ERR_ENTRY: Final = 33
FI_TYPE_CQ_WAIT_COND: Final = 34
FI_TYPE_WAIT_OBJ: Final = 35
FI_PARAM_STRING: Final = 0
FI_PARAM_INT: Final = 1
FI_PARAM_BOOL: Final = 2
FI_PARAM_SIZE_T: Final = 3
FI_EP_SOCK_STREAM: Final = 0
FI_NOTIFY: Final = 0
FI_CONNREQ: Final = 1
FI_CONNECTED: Final = 2
FI_SHUTDOWN: Final = 3
FI_MR_COMPLETE: Final = 4
FI_AV_COMPLETE: Final = 5
FI_JOIN_COMPLETE: Final = 6
FI_WAIT_NONE: Final = 0
FI_WAIT_UNSPEC: Final = 1
FI_WAIT_SET: Final = 2
FI_WAIT_FD: Final = 3
FI_WAIT_MUTEX_COND: Final = 4
FI_WAIT_YIELD: Final = 5
FI_WAIT_POLLFD: Final = 6
FI_CQ_FORMAT_UNSPEC: Final = 0
FI_CQ_FORMAT_CONTEXT: Final = 1
FI_CQ_FORMAT_MSG: Final = 2
FI_CQ_FORMAT_DATA: Final = 3
FI_CQ_FORMAT_TAGGED: Final = 4
FI_CQ_COND_NONE: Final = 0
FI_CQ_COND_THRESHOLD: Final = 1
FI_CNTR_EVENTS_COMP: Final = 0
FI_CNTR_EVENTS_BYTES: Final = 1
FI_SYMMETRIC: Final = 0x800000000000000
FI_SYNC_ERR: Final = 0x400000000000000
FI_UNIVERSE: Final = 0x200000000000000
FI_BARRIER_SET: Final = 0x10000000000
FI_BROADCAST_SET: Final = 0x20000000000
FI_ALLTOALL_SET: Final = 0x40000000000
FI_ALLREDUCE_SET: Final = 0x80000000000
FI_ALLGATHER_SET: Final = 0x100000000000
FI_REDUCE_SCATTER_SET: Final = 0x200000000000
FI_REDUCE_SET: Final = 0x400000000000
FI_SCATTER_SET: Final = 0x800000000000
FI_GATHER_SET: Final = 0x1000000000000
FI_MR_DMABUF: Final = 0x10000000000
FI_MR_SINGLE_USE: Final = 0x20000000000
FI_HMEM_HOST_ALLOC: Final = 0x200000000000
FI_HMEM_DEVICE_ONLY: Final = 0x400000000000
FI_COLLECTIVE_OFFSET: Final = 256
FI_REG_MR: Final = 0x800000000000000
FI_HMEM_SYSTEM: Final = 0
FI_HMEM_CUDA: Final = 1
FI_HMEM_ROCR: Final = 2
FI_HMEM_ZE: Final = 3
FI_HMEM_NEURON: Final = 4
FI_HMEM_SYNAPSEAI: Final = 5
FI_INT8: Final = 0
FI_UINT8: Final = 1
FI_INT16: Final = 2
FI_UINT16: Final = 3
FI_INT32: Final = 4
FI_UINT32: Final = 5
FI_INT64: Final = 6
FI_UINT64: Final = 7
FI_FLOAT: Final = 8
FI_DOUBLE: Final = 9
FI_FLOAT_COMPLEX: Final = 10
FI_DOUBLE_COMPLEX: Final = 11
FI_LONG_DOUBLE: Final = 12
FI_LONG_DOUBLE_COMPLEX: Final = 13
FI_INT128: Final = 14
FI_UINT128: Final = 15
FI_FLOAT16: Final = 16
FI_BFLOAT16: Final = 17
FI_FLOAT8_E4M3: Final = 18
FI_FLOAT8_E5M2: Final = 19
FI_VOID: Final = 256
FI_MIN: Final = 0
FI_MAX: Final = 1
FI_SUM: Final = 2
FI_PROD: Final = 3
FI_LOR: Final = 4
FI_LAND: Final = 5
FI_BOR: Final = 6
FI_BAND: Final = 7
FI_LXOR: Final = 8
FI_BXOR: Final = 9
FI_ATOMIC_READ: Final = 10
FI_ATOMIC_WRITE: Final = 11
FI_CSWAP: Final = 12
FI_CSWAP_NE: Final = 13
FI_CSWAP_LE: Final = 14
FI_CSWAP_LT: Final = 15
FI_CSWAP_GE: Final = 16
FI_CSWAP_GT: Final = 17
FI_MSWAP: Final = 18
FI_DIFF: Final = 19
FI_NOOP: Final = 256
FI_BARRIER: Final = 0
FI_BROADCAST: Final = 1
FI_ALLTOALL: Final = 2
FI_ALLREDUCE: Final = 3
FI_ALLGATHER: Final = 4
FI_REDUCE_SCATTER: Final = 5
FI_REDUCE: Final = 6
FI_SCATTER: Final = 7
FI_GATHER: Final = 8
FI_OPT_ENDPOINT: Final = 0
FI_OPT_MIN_MULTI_RECV: Final = 0
FI_OPT_CM_DATA_SIZE: Final = 1
FI_OPT_BUFFERED_MIN: Final = 2
FI_OPT_BUFFERED_LIMIT: Final = 3
FI_OPT_SEND_BUF_SIZE: Final = 4
FI_OPT_RECV_BUF_SIZE: Final = 5
FI_OPT_TX_SIZE: Final = 6
FI_OPT_RX_SIZE: Final = 7
FI_OPT_FI_HMEM_P2P: Final = 8
FI_OPT_XPU_TRIGGER: Final = 9
FI_OPT_CUDA_API_PERMITTED: Final = 10
FI_OPT_SHARED_MEMORY_PERMITTED: Final = 11
FI_OPT_MAX_MSG_SIZE: Final = 12
FI_OPT_MAX_TAGGED_SIZE: Final = 13
FI_OPT_MAX_RMA_SIZE: Final = 14
FI_OPT_MAX_ATOMIC_SIZE: Final = 15
FI_OPT_INJECT_MSG_SIZE: Final = 16
FI_OPT_INJECT_TAGGED_SIZE: Final = 17
FI_OPT_INJECT_RMA_SIZE: Final = 18
FI_OPT_INJECT_ATOMIC_SIZE: Final = 19
FI_OPT_FIREWALL_ADDR: Final = 20
FI_HMEM_P2P_ENABLED: Final = 0
FI_HMEM_P2P_REQUIRED: Final = 1
FI_HMEM_P2P_PREFERRED: Final = 2
FI_HMEM_P2P_DISABLED: Final = 3
FI_MPI_IGNORE_TAG: Final = 0xffffffff
FI_MPI_IGNORE_PAYLOAD: Final = 0xff00000000
FI_FETCH_ATOMIC: Final = 0x400000000000000
FI_COMPARE_ATOMIC: Final = 0x800000000000000


class iovec(Structure):
    if TYPE_CHECKING:
        iov_base: Optional[int]
        iov_len: int


class fi_ops(Structure):
    if TYPE_CHECKING:
        size: int
        close: Callable[..., int]
        bind: Callable[..., int]
        control: Callable[..., int]
        ops_open: Callable[..., int]
        tostr: Callable[..., int]
        ops_set: Callable[..., int]


class fid(Structure):
    if TYPE_CHECKING:
        fclass: int
        context: Optional[int]
        ops: _Pointer[fi_ops]


class fi_ioc(Structure):
    if TYPE_CHECKING:
        addr: Optional[int]
        count: int


class fi_tx_attr(Structure):
    if TYPE_CHECKING:
        caps: int
        mode: int
        op_flags: int
        msg_order: int
        comp_order: int
        inject_size: int
        size: int
        iov_limit: int
        rma_iov_limit: int
        tclass: int


class fi_rx_attr(Structure):
    if TYPE_CHECKING:
        caps: int
        mode: int
        op_flags: int
        msg_order: int
        comp_order: int
        total_buffered_recv: int
        size: int
        iov_limit: int


class fi_ep_attr(Structure):
    if TYPE_CHECKING:
        type: int
        protocol: int
        protocol_version: int
        max_msg_size: int
        msg_prefix_size: int
        max_order_raw_size: int
        max_order_war_size: int
        max_order_waw_size: int
        mem_tag_format: int
        tx_ctx_cnt: int
        rx_ctx_cnt: int
        auth_key_size: int
        auth_key: Optional[int]
        xpu_ctx: Optional[int]


class fi_domain_attr_anonymous1(Union):
    if TYPE_CHECKING:
        data_progress: int
        progress: int


class fi_domain_attr(Structure):
    if TYPE_CHECKING:
        domain: _Pointer[fid_domain]
        name: Optional[bytes]
        threading: int
        control_progress: int
        anonymous1: fi_domain_attr_anonymous1
        resource_mgmt: int
        av_type: int
        mr_mode: int
        mr_key_size: int
        cq_data_size: int
        cq_cnt: int
        ep_cnt: int
        tx_ctx_cnt: int
        rx_ctx_cnt: int
        max_ep_tx_ctx: int
        max_ep_rx_ctx: int
        max_ep_stx_ctx: int
        max_ep_srx_ctx: int
        cntr_cnt: int
        mr_iov_limit: int
        caps: int
        mode: int
        auth_key: Optional[int]
        auth_key_size: int
        max_err_data: int
        mr_cnt: int
        tclass: int
        max_ep_auth_key: int
        max_group_id: int
        max_cntr_value: int
        max_err_cntr_value: int
        max_xpu_ctx_cnt: int
        data_progress: int
        progress: int

    _anonymous_ = ("anonymous1",)


class fi_device_attr(Structure):
    if TYPE_CHECKING:
        name: Optional[bytes]
        device_id: Optional[bytes]
        device_version: Optional[bytes]
        vendor_id: Optional[bytes]
        driver: Optional[bytes]
        firmware: Optional[bytes]


class fi_pci_attr(Structure):
    if TYPE_CHECKING:
        domain_id: int
        bus_id: int
        device_id: int
        function_id: int


class fi_bus_attr_attr(Union):
    if TYPE_CHECKING:
        pci: fi_pci_attr


class fi_bus_attr(Structure):
    if TYPE_CHECKING:
        bus_type: int
        attr: fi_bus_attr_attr


class fi_link_attr(Structure):
    if TYPE_CHECKING:
        address: Optional[bytes]
        mtu: int
        speed: int
        state: int
        network_type: Optional[bytes]


class fid_nic(Structure):
    if TYPE_CHECKING:
        fid: fid
        device_attr: _Pointer[fi_device_attr]
        bus_attr: _Pointer[fi_bus_attr]
        link_attr: _Pointer[fi_link_attr]
        prov_attr: Optional[int]


class fi_info(Structure):
    if TYPE_CHECKING:
        next: _Pointer[fi_info]
        caps: int
        mode: int
        addr_format: int
        src_addrlen: int
        dest_addrlen: int
        src_addr: Optional[int]
        dest_addr: Optional[int]
        handle: _Pointer[fid]
        tx_attr: _Pointer[fi_tx_attr]
        rx_attr: _Pointer[fi_rx_attr]
        ep_attr: _Pointer[fi_ep_attr]
        domain_attr: _Pointer[fi_domain_attr]
        fabric_attr: _Pointer[fi_fabric_attr]
        nic: _Pointer[fid_nic]


class fi_ops_fabric(Structure):
    if TYPE_CHECKING:
        size: int
        domain: Callable[..., int]
        passive_ep: Callable[..., int]
        eq_open: Callable[..., int]
        wait_open: Callable[..., int]
        trywait: Callable[..., int]
        domain2: Callable[..., int]


class fid_fabric(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_fabric]
        api_version: int


class fi_fabric_attr(Structure):
    if TYPE_CHECKING:
        fabric: _Pointer[fid_fabric]
        name: Optional[bytes]
        prov_name: Optional[bytes]
        prov_version: int
        api_version: int


class fi_alias(Structure):
    if TYPE_CHECKING:
        fid: Optional[int]
        flags: int


class fi_fid_var(Structure):
    if TYPE_CHECKING:
        name: int
        val: Optional[int]


class fi_mr_raw_attr(Structure):
    if TYPE_CHECKING:
        flags: int
        base_addr: Optional[int]
        raw_key: Optional[int]
        key_size: Optional[int]


class fi_mr_map_raw(Structure):
    if TYPE_CHECKING:
        flags: int
        base_addr: int
        raw_key: Optional[int]
        key_size: int
        key: Optional[int]


class fi_mr_xpu_desc(Structure):
    if TYPE_CHECKING:
        buf: Optional[int]
        len: Optional[int]
        flags: int
        ctx: Optional[int]


class fi_param(Structure):
    if TYPE_CHECKING:
        name: Optional[bytes]
        type: int
        help_string: Optional[bytes]
        value: Optional[bytes]


class fi_context(Structure):
    if TYPE_CHECKING:
        internal: Array[c_void_p]


class fi_context2(Structure):
    if TYPE_CHECKING:
        internal: Array[c_void_p]


class fi_recv_context(Structure):
    if TYPE_CHECKING:
        ep: _Pointer[fid_ep]
        context: Optional[int]


class fi_wait_attr(Structure):
    if TYPE_CHECKING:
        wait_obj: int
        flags: int


class fid_wait(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_wait]


class fi_ops_wait(Structure):
    if TYPE_CHECKING:
        size: int
        wait: Callable[..., int]


class fi_mutex_cond(Structure):
    if TYPE_CHECKING:
        mutex: Optional[int]
        cond: Optional[int]


class fi_wait_pollfd(Structure):
    if TYPE_CHECKING:
        change_index: int
        nfds: int
        fd: Optional[int]


class fi_poll_attr(Structure):
    if TYPE_CHECKING:
        flags: int


class fid_poll(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_poll]


class fi_ops_poll(Structure):
    if TYPE_CHECKING:
        size: int
        poll: Callable[..., int]
        poll_add: Callable[..., int]
        poll_del: Callable[..., int]


class fi_eq_attr(Structure):
    if TYPE_CHECKING:
        size: int
        flags: int
        wait_obj: int
        signaling_vector: int
        wait_set: _Pointer[fid_wait]


class fi_eq_entry(Structure):
    if TYPE_CHECKING:
        fid: _Pointer[fid]
        context: Optional[int]
        data: int


class fi_eq_err_entry(Structure):
    if TYPE_CHECKING:
        fid: _Pointer[fid]
        context: Optional[int]
        data: int
        err: int
        prov_errno: int
        err_data: Optional[int]
        err_data_size: int


class fi_eq_cm_entry(Structure):
    if TYPE_CHECKING:
        fid: _Pointer[fid]
        info: _Pointer[fi_info]
        data: Array[c_uint8]


class fid_eq(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_eq]


class fi_ops_eq(Structure):
    if TYPE_CHECKING:
        size: int
        read: Callable[..., int]
        readerr: Callable[..., int]
        write: Callable[..., int]
        sread: Callable[..., int]
        strerror: Callable[..., Optional[bytes]]


class fi_cq_entry(Structure):
    if TYPE_CHECKING:
        op_context: Optional[int]


class fi_cq_msg_entry(Structure):
    if TYPE_CHECKING:
        op_context: Optional[int]
        flags: int
        len: int


class fi_cq_data_entry(Structure):
    if TYPE_CHECKING:
        op_context: Optional[int]
        flags: int
        len: int
        buf: Optional[int]
        data: int


class fi_cq_tagged_entry(Structure):
    if TYPE_CHECKING:
        op_context: Optional[int]
        flags: int
        len: int
        buf: Optional[int]
        data: int
        tag: int


class fi_cq_err_entry(Structure):
    if TYPE_CHECKING:
        op_context: Optional[int]
        flags: int
        len: int
        buf: Optional[int]
        data: int
        tag: int
        olen: int
        err: int
        prov_errno: int
        err_data: Optional[int]
        err_data_size: int
        src_addr: int


class fi_cq_attr(Structure):
    if TYPE_CHECKING:
        size: int
        flags: int
        format: int
        wait_obj: int
        signaling_vector: int
        wait_cond: int
        wait_set: _Pointer[fid_wait]
        xpu_ctx: Optional[int]


class fid_cq(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_cq]


class fi_ops_cq(Structure):
    if TYPE_CHECKING:
        size: int
        read: Callable[..., int]
        readfrom: Callable[..., int]
        readerr: Callable[..., int]
        sread: Callable[..., int]
        sreadfrom: Callable[..., int]
        signal: Callable[..., int]
        strerror: Callable[..., Optional[bytes]]
        export_xpu: Callable[..., int]


class fi_cntr_attr(Structure):
    if TYPE_CHECKING:
        events: int
        wait_obj: int
        wait_set: _Pointer[fid_wait]
        flags: int
        xpu_ctx: Optional[int]


class fid_cntr(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_cntr]


class fi_ops_cntr(Structure):
    if TYPE_CHECKING:
        size: int
        read: Callable[..., int]
        readerr: Callable[..., int]
        add: Callable[..., int]
        set: Callable[..., int]
        wait: Callable[..., int]
        adderr: Callable[..., int]
        seterr: Callable[..., int]
        export_xpu: Callable[..., int]


class fi_av_attr(Structure):
    if TYPE_CHECKING:
        type: int
        rx_ctx_bits: int
        count: int
        ep_per_node: int
        name: Optional[bytes]
        map_addr: Optional[int]
        flags: int


class fi_av_set_attr(Structure):
    if TYPE_CHECKING:
        count: int
        start_addr: int
        end_addr: int
        stride: int
        comm_key_size: int
        comm_key: Optional[int]
        flags: int


class fid_av(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_av]


class fi_ops_av(Structure):
    if TYPE_CHECKING:
        size: int
        insert: Callable[..., int]
        insertsvc: Callable[..., int]
        insertsym: Callable[..., int]
        remove: Callable[..., int]
        lookup: Callable[..., int]
        straddr: Callable[..., Optional[bytes]]
        av_set: Callable[..., int]
        insert_auth_key: Callable[..., int]
        lookup_auth_key: Callable[..., int]
        set_user_id: Callable[..., int]
        lookup2: Callable[..., int]


class fid_mr(Structure):
    if TYPE_CHECKING:
        fid: fid
        mem_desc: Optional[int]
        key: int


class fi_mr_dmabuf(Structure):
    if TYPE_CHECKING:
        fd: int
        offset: int
        len: int
        base_addr: Optional[int]


class fi_mr_auth_key(Structure):
    if TYPE_CHECKING:
        av: _Pointer[fid_av]
        src_addr: int


class fi_mr_attr_anonymous1(Union):
    if TYPE_CHECKING:
        mr_iov: _Pointer[iovec]
        dmabuf: _Pointer[fi_mr_dmabuf]


class fi_mr_attr_device(Union):
    if TYPE_CHECKING:
        reserved: int
        cuda: int
        ze: int
        neuron: int
        synapseai: int
        rocr: int


class fi_mr_attr(Structure):
    if TYPE_CHECKING:
        anonymous1: fi_mr_attr_anonymous1
        iov_count: int
        access: int
        offset: int
        requested_key: int
        context: Optional[int]
        auth_key_size: int
        auth_key: Optional[int]
        iface: int
        device: fi_mr_attr_device
        hmem_data: Optional[int]
        page_size: int
        base_mr: _Pointer[fid_mr]
        sub_mr_cnt: int
        mr_iov: _Pointer[iovec]
        dmabuf: _Pointer[fi_mr_dmabuf]

    _anonymous_ = ("anonymous1",)


class fi_mr_modify(Structure):
    if TYPE_CHECKING:
        flags: int
        attr: fi_mr_attr


class fi_hmem_override_ops(Structure):
    if TYPE_CHECKING:
        size: int
        copy_from_hmem_iov: Callable[..., int]
        copy_to_hmem_iov: Callable[..., int]


class fi_ops_mr(Structure):
    if TYPE_CHECKING:
        size: int
        reg: Callable[..., int]
        regv: Callable[..., int]
        regattr: Callable[..., int]


class fid_domain(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_domain]
        mr: _Pointer[fi_ops_mr]


class fi_ops_domain(Structure):
    if TYPE_CHECKING:
        size: int
        av_open: Callable[..., int]
        cq_open: Callable[..., int]
        endpoint: Callable[..., int]
        scalable_ep: Callable[..., int]
        cntr_open: Callable[..., int]
        poll_open: Callable[..., int]
        stx_ctx: Callable[..., int]
        srx_ctx: Callable[..., int]
        query_atomic: Callable[..., int]
        query_collective: Callable[..., int]
        endpoint2: Callable[..., int]
        xpu_ctx: Callable[..., int]


class fi_msg(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[iovec]
        desc: Optional[int]
        iov_count: int
        addr: int
        context: Optional[int]
        data: int


class fi_ops_msg(Structure):
    if TYPE_CHECKING:
        size: int
        recv: Callable[..., int]
        recvv: Callable[..., int]
        recvmsg: Callable[..., int]
        send: Callable[..., int]
        sendv: Callable[..., int]
        sendmsg: Callable[..., int]
        inject: Callable[..., int]
        senddata: Callable[..., int]
        injectdata: Callable[..., int]


class fid_ep(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_ep]
        cm: _Pointer[fi_ops_cm]
        msg: _Pointer[fi_ops_msg]
        rma: _Pointer[fi_ops_rma]
        tagged: _Pointer[fi_ops_tagged]
        atomic: _Pointer[fi_ops_atomic]
        collective: _Pointer[fi_ops_collective]


class fi_ops_ep(Structure):
    if TYPE_CHECKING:
        size: int
        cancel: Callable[..., int]
        getopt: Callable[..., int]
        setopt: Callable[..., int]
        tx_ctx: Callable[..., int]
        rx_ctx: Callable[..., int]
        rx_size_left: Callable[..., int]
        tx_size_left: Callable[..., int]
        export_xpu: Callable[..., int]


class fid_pep(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_ep]
        cm: _Pointer[fi_ops_cm]


class fid_stx(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_ep]


class fid_mc(Structure):
    if TYPE_CHECKING:
        fid: fid
        fi_addr: int


class fi_ops_cm(Structure):
    if TYPE_CHECKING:
        size: int
        setname: Callable[..., int]
        getname: Callable[..., int]
        getpeer: Callable[..., int]
        connect: Callable[..., int]
        listen: Callable[..., int]
        accept: Callable[..., int]
        reject: Callable[..., int]
        shutdown: Callable[..., int]
        join: Callable[..., int]


class fi_rma_iov(Structure):
    if TYPE_CHECKING:
        addr: int
        len: int
        key: int


class fi_rma_ioc(Structure):
    if TYPE_CHECKING:
        addr: int
        count: int
        key: int


class fi_msg_rma(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[iovec]
        desc: Optional[int]
        iov_count: int
        addr: int
        rma_iov: _Pointer[fi_rma_iov]
        rma_iov_count: int
        context: Optional[int]
        data: int


class fi_ops_rma(Structure):
    if TYPE_CHECKING:
        size: int
        read: Callable[..., int]
        readv: Callable[..., int]
        readmsg: Callable[..., int]
        write: Callable[..., int]
        writev: Callable[..., int]
        writemsg: Callable[..., int]
        inject: Callable[..., int]
        writedata: Callable[..., int]
        injectdata: Callable[..., int]


class fi_msg_tagged(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[iovec]
        desc: Optional[int]
        iov_count: int
        addr: int
        tag: int
        ignore: int
        context: Optional[int]
        data: int


class fi_ops_tagged(Structure):
    if TYPE_CHECKING:
        size: int
        recv: Callable[..., int]
        recvv: Callable[..., int]
        recvmsg: Callable[..., int]
        send: Callable[..., int]
        sendv: Callable[..., int]
        sendmsg: Callable[..., int]
        inject: Callable[..., int]
        senddata: Callable[..., int]
        injectdata: Callable[..., int]


class fi_atomic_attr(Structure):
    if TYPE_CHECKING:
        count: int
        size: int


class fi_msg_atomic(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[fi_ioc]
        desc: Optional[int]
        iov_count: int
        addr: int
        rma_iov: _Pointer[fi_rma_ioc]
        rma_iov_count: int
        datatype: int
        op: int
        context: Optional[int]
        data: int


class fi_msg_fetch(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[fi_ioc]
        desc: Optional[int]
        iov_count: int


class fi_msg_compare(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[fi_ioc]
        desc: Optional[int]
        iov_count: int


class fi_ops_atomic(Structure):
    if TYPE_CHECKING:
        size: int
        write: Callable[..., int]
        writev: Callable[..., int]
        writemsg: Callable[..., int]
        inject: Callable[..., int]
        readwrite: Callable[..., int]
        readwritev: Callable[..., int]
        readwritemsg: Callable[..., int]
        compwrite: Callable[..., int]
        compwritev: Callable[..., int]
        compwritemsg: Callable[..., int]
        writevalid: Callable[..., int]
        readwritevalid: Callable[..., int]
        compwritevalid: Callable[..., int]


class fid_av_set(Structure):
    if TYPE_CHECKING:
        fid: fid
        ops: _Pointer[fi_ops_av_set]


class fi_ops_av_set(Structure):
    if TYPE_CHECKING:
        size: int
        set_union: Callable[..., int]
        intersect: Callable[..., int]
        diff: Callable[..., int]
        insert: Callable[..., int]
        remove: Callable[..., int]
        addr: Callable[..., int]


class fi_collective_attr(Structure):
    if TYPE_CHECKING:
        op: int
        datatype: int
        datatype_attr: fi_atomic_attr
        max_members: int
        mode: int


class fi_collective_addr(Structure):
    if TYPE_CHECKING:
        set: _Pointer[fid_av_set]
        coll_addr: int


class fi_msg_collective(Structure):
    if TYPE_CHECKING:
        msg_iov: _Pointer[fi_ioc]
        desc: Optional[int]
        iov_count: int
        coll_addr: int
        root_addr: int
        coll: int
        datatype: int
        op: int
        context: Optional[int]


class fi_ops_collective(Structure):
    if TYPE_CHECKING:
        size: int
        barrier: Callable[..., int]
        broadcast: Callable[..., int]
        alltoall: Callable[..., int]
        allreduce: Callable[..., int]
        allgather: Callable[..., int]
        reduce_scatter: Callable[..., int]
        reduce: Callable[..., int]
        scatter: Callable[..., int]
        gather: Callable[..., int]
        msg: Callable[..., int]
        barrier2: Callable[..., int]


iovec._fields_ = [
    ("iov_base", c_void_p),
    ("iov_len", c_size_t),
]
fi_ops._fields_ = [
    ("size", c_size_t),
    ("close", CFUNCTYPE(c_int, c_void_p)),
    ("bind", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64)),
    ("control", CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)),
    ("ops_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64, c_void_p, c_void_p)),
    ("tostr", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)),
    ("ops_set", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64, c_void_p, c_void_p)),
]
fid._fields_ = [
    ("fclass", c_size_t),
    ("context", c_void_p),
    ("ops", POINTER(fi_ops)),
]
fi_ioc._fields_ = [
    ("addr", c_void_p),
    ("count", c_size_t),
]
fi_tx_attr._fields_ = [
    ("caps", c_uint64),
    ("mode", c_uint64),
    ("op_flags", c_uint64),
    ("msg_order", c_uint64),
    ("comp_order", c_uint64),
    ("inject_size", c_size_t),
    ("size", c_size_t),
    ("iov_limit", c_size_t),
    ("rma_iov_limit", c_size_t),
    ("tclass", c_uint32),
]
fi_rx_attr._fields_ = [
    ("caps", c_uint64),
    ("mode", c_uint64),
    ("op_flags", c_uint64),
    ("msg_order", c_uint64),
    ("comp_order", c_uint64),
    ("total_buffered_recv", c_size_t),
    ("size", c_size_t),
    ("iov_limit", c_size_t),
]
fi_ep_attr._fields_ = [
    ("type", c_uint),
    ("protocol", c_uint32),
    ("protocol_version", c_uint32),
    ("max_msg_size", c_size_t),
    ("msg_prefix_size", c_size_t),
    ("max_order_raw_size", c_size_t),
    ("max_order_war_size", c_size_t),
    ("max_order_waw_size", c_size_t),
    ("mem_tag_format", c_uint64),
    ("tx_ctx_cnt", c_size_t),
    ("rx_ctx_cnt", c_size_t),
    ("auth_key_size", c_size_t),
    ("auth_key", c_void_p),
    ("xpu_ctx", c_void_p),
]
fi_domain_attr_anonymous1._fields_ = [
    ("data_progress", c_uint),
    ("progress", c_uint),
]
fi_domain_attr._fields_ = [
    ("domain", POINTER(fid_domain)),
    ("name", c_char_p),
    ("threading", c_uint),
    ("control_progress", c_uint),
    ("anonymous1", fi_domain_attr_anonymous1),
    ("resource_mgmt", c_uint),
    ("av_type", c_uint),
    ("mr_mode", c_int),
    ("mr_key_size", c_size_t),
    ("cq_data_size", c_size_t),
    ("cq_cnt", c_size_t),
    ("ep_cnt", c_size_t),
    ("tx_ctx_cnt", c_size_t),
    ("rx_ctx_cnt", c_size_t),
    ("max_ep_tx_ctx", c_size_t),
    ("max_ep_rx_ctx", c_size_t),
    ("max_ep_stx_ctx", c_size_t),
    ("max_ep_srx_ctx", c_size_t),
    ("cntr_cnt", c_size_t),
    ("mr_iov_limit", c_size_t),
    ("caps", c_uint64),
    ("mode", c_uint64),
    ("auth_key", c_void_p),
    ("auth_key_size", c_size_t),
    ("max_err_data", c_size_t),
    ("mr_cnt", c_size_t),
    ("tclass", c_uint32),
    ("max_ep_auth_key", c_size_t),
    ("max_group_id", c_uint32),
    ("max_cntr_value", c_uint64),
    ("max_err_cntr_value", c_uint64),
    ("max_xpu_ctx_cnt", c_size_t),
]
fi_device_attr._fields_ = [
    ("name", c_char_p),
    ("device_id", c_char_p),
    ("device_version", c_char_p),
    ("vendor_id", c_char_p),
    ("driver", c_char_p),
    ("firmware", c_char_p),
]
fi_pci_attr._fields_ = [
    ("domain_id", c_uint16),
    ("bus_id", c_uint8),
    ("device_id", c_uint8),
    ("function_id", c_uint8),
]
fi_bus_attr_attr._fields_ = [
    ("pci", fi_pci_attr),
]
fi_bus_attr._fields_ = [
    ("bus_type", c_uint),
    ("attr", fi_bus_attr_attr),
]
fi_link_attr._fields_ = [
    ("address", c_char_p),
    ("mtu", c_size_t),
    ("speed", c_size_t),
    ("state", c_uint),
    ("network_type", c_char_p),
]
fid_nic._fields_ = [
    ("fid", fid),
    ("device_attr", POINTER(fi_device_attr)),
    ("bus_attr", POINTER(fi_bus_attr)),
    ("link_attr", POINTER(fi_link_attr)),
    ("prov_attr", c_void_p),
]
fi_info._fields_ = [
    ("next", POINTER(fi_info)),
    ("caps", c_uint64),
    ("mode", c_uint64),
    ("addr_format", c_uint32),
    ("src_addrlen", c_size_t),
    ("dest_addrlen", c_size_t),
    ("src_addr", c_void_p),
    ("dest_addr", c_void_p),
    ("handle", POINTER(fid)),
    ("tx_attr", POINTER(fi_tx_attr)),
    ("rx_attr", POINTER(fi_rx_attr)),
    ("ep_attr", POINTER(fi_ep_attr)),
    ("domain_attr", POINTER(fi_domain_attr)),
    ("fabric_attr", POINTER(fi_fabric_attr)),
    ("nic", POINTER(fid_nic)),
]
fi_ops_fabric._fields_ = [
    ("size", c_size_t),
    ("domain", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("passive_ep", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("eq_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("wait_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
    ("trywait", CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)),
    ("domain2", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_uint64, c_void_p)),
]
fid_fabric._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_fabric)),
    ("api_version", c_uint32),
]
fi_fabric_attr._fields_ = [
    ("fabric", POINTER(fid_fabric)),
    ("name", c_char_p),
    ("prov_name", c_char_p),
    ("prov_version", c_uint32),
    ("api_version", c_uint32),
]
fi_alias._fields_ = [
    ("fid", c_void_p),
    ("flags", c_uint64),
]
fi_fid_var._fields_ = [
    ("name", c_int),
    ("val", c_void_p),
]
fi_mr_raw_attr._fields_ = [
    ("flags", c_uint64),
    ("base_addr", c_void_p),
    ("raw_key", c_void_p),
    ("key_size", c_void_p),
]
fi_mr_map_raw._fields_ = [
    ("flags", c_uint64),
    ("base_addr", c_uint64),
    ("raw_key", c_void_p),
    ("key_size", c_size_t),
    ("key", c_void_p),
]
fi_mr_xpu_desc._fields_ = [
    ("buf", c_void_p),
    ("len", c_void_p),
    ("flags", c_uint64),
    ("ctx", c_void_p),
]
fi_param._fields_ = [
    ("name", c_char_p),
    ("type", c_uint),
    ("help_string", c_char_p),
    ("value", c_char_p),
]
fi_context._fields_ = [
    ("internal", c_void_p * 4),
]
fi_context2._fields_ = [
    ("internal", c_void_p * 8),
]
fi_recv_context._fields_ = [
    ("ep", POINTER(fid_ep)),
    ("context", c_void_p),
]
fi_wait_attr._fields_ = [
    ("wait_obj", c_uint),
    ("flags", c_uint64),
]
fid_wait._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_wait)),
]
fi_ops_wait._fields_ = [
    ("size", c_size_t),
    ("wait", CFUNCTYPE(c_int, c_void_p, c_int)),
]
fi_mutex_cond._fields_ = [
    ("mutex", c_void_p),
    ("cond", c_void_p),
]
fi_wait_pollfd._fields_ = [
    ("change_index", c_uint64),
    ("nfds", c_size_t),
    ("fd", c_void_p),
]
fi_poll_attr._fields_ = [
    ("flags", c_uint64),
]
fid_poll._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_poll)),
]
fi_ops_poll._fields_ = [
    ("size", c_size_t),
    ("poll", CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)),
    ("poll_add", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64)),
    ("poll_del", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64)),
]
fi_eq_attr._fields_ = [
    ("size", c_size_t),
    ("flags", c_uint64),
    ("wait_obj", c_uint),
    ("signaling_vector", c_int),
    ("wait_set", POINTER(fid_wait)),
]
fi_eq_entry._fields_ = [
    ("fid", POINTER(fid)),
    ("context", c_void_p),
    ("data", c_uint64),
]
fi_eq_err_entry._fields_ = [
    ("fid", POINTER(fid)),
    ("context", c_void_p),
    ("data", c_uint64),
    ("err", c_int),
    ("prov_errno", c_int),
    ("err_data", c_void_p),
    ("err_data_size", c_size_t),
]
fi_eq_cm_entry._fields_ = [
    ("fid", POINTER(fid)),
    ("info", POINTER(fi_info)),
    ("data", c_uint8 * 0),
]
fid_eq._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_eq)),
]
fi_ops_eq._fields_ = [
    ("size", c_size_t),
    ("read", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64)),
    ("readerr", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("write", CFUNCTYPE(c_ssize_t, c_void_p, c_uint32, c_void_p, c_size_t, c_uint64)),
    ("sread", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint64)),
    ("strerror", CFUNCTYPE(c_char_p, c_void_p, c_int, c_void_p, c_void_p, c_size_t)),
]
fi_cq_entry._fields_ = [
    ("op_context", c_void_p),
]
fi_cq_msg_entry._fields_ = [
    ("op_context", c_void_p),
    ("flags", c_uint64),
    ("len", c_size_t),
]
fi_cq_data_entry._fields_ = [
    ("op_context", c_void_p),
    ("flags", c_uint64),
    ("len", c_size_t),
    ("buf", c_void_p),
    ("data", c_uint64),
]
fi_cq_tagged_entry._fields_ = [
    ("op_context", c_void_p),
    ("flags", c_uint64),
    ("len", c_size_t),
    ("buf", c_void_p),
    ("data", c_uint64),
    ("tag", c_uint64),
]
fi_cq_err_entry._fields_ = [
    ("op_context", c_void_p),
    ("flags", c_uint64),
    ("len", c_size_t),
    ("buf", c_void_p),
    ("data", c_uint64),
    ("tag", c_uint64),
    ("olen", c_size_t),
    ("err", c_int),
    ("prov_errno", c_int),
    ("err_data", c_void_p),
    ("err_data_size", c_size_t),
    ("src_addr", c_uint64),
]
fi_cq_attr._fields_ = [
    ("size", c_size_t),
    ("flags", c_uint64),
    ("format", c_uint),
    ("wait_obj", c_uint),
    ("signaling_vector", c_int),
    ("wait_cond", c_uint),
    ("wait_set", POINTER(fid_wait)),
    ("xpu_ctx", c_void_p),
]
fid_cq._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_cq)),
]
fi_ops_cq._fields_ = [
    ("size", c_size_t),
    ("read", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t)),
    ("readfrom", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p)),
    ("readerr", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("sread", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_int)),
    ("sreadfrom", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_int)),
    ("signal", CFUNCTYPE(c_int, c_void_p)),
    ("strerror", CFUNCTYPE(c_char_p, c_void_p, c_int, c_void_p, c_void_p, c_size_t)),
    ("export_xpu", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p)),
]
fi_cntr_attr._fields_ = [
    ("events", c_uint),
    ("wait_obj", c_uint),
    ("wait_set", POINTER(fid_wait)),
    ("flags", c_uint64),
    ("xpu_ctx", c_void_p),
]
fid_cntr._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_cntr)),
]
fi_ops_cntr._fields_ = [
    ("size", c_size_t),
    ("read", CFUNCTYPE(c_uint64, c_void_p)),
    ("readerr", CFUNCTYPE(c_uint64, c_void_p)),
    ("add", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("set", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("wait", CFUNCTYPE(c_int, c_void_p, c_uint64, c_int)),
    ("adderr", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("seterr", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("export_xpu", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p)),
]
fi_av_attr._fields_ = [
    ("type", c_uint),
    ("rx_ctx_bits", c_int),
    ("count", c_size_t),
    ("ep_per_node", c_size_t),
    ("name", c_char_p),
    ("map_addr", c_void_p),
    ("flags", c_uint64),
]
fi_av_set_attr._fields_ = [
    ("count", c_size_t),
    ("start_addr", c_uint64),
    ("end_addr", c_uint64),
    ("stride", c_uint64),
    ("comm_key_size", c_size_t),
    ("comm_key", c_void_p),
    ("flags", c_uint64),
]
fid_av._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_av)),
]
fi_ops_av._fields_ = [
    ("size", c_size_t),
    ("insert", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)),
    ("insertsvc", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_void_p)),
    ("insertsym", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)),
    ("remove", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_uint64)),
    ("lookup", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_void_p)),
    ("straddr", CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("av_set", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("insert_auth_key", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64)),
    ("lookup_auth_key", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_void_p)),
    ("set_user_id", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, c_uint64)),
    ("lookup2", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_void_p, c_uint64, c_void_p)),
]
fid_mr._fields_ = [
    ("fid", fid),
    ("mem_desc", c_void_p),
    ("key", c_uint64),
]
fi_mr_dmabuf._fields_ = [
    ("fd", c_int),
    ("offset", c_uint64),
    ("len", c_size_t),
    ("base_addr", c_void_p),
]
fi_mr_auth_key._fields_ = [
    ("av", POINTER(fid_av)),
    ("src_addr", c_uint64),
]
fi_mr_attr_anonymous1._fields_ = [
    ("mr_iov", POINTER(iovec)),
    ("dmabuf", POINTER(fi_mr_dmabuf)),
]
fi_mr_attr_device._fields_ = [
    ("reserved", c_uint64),
    ("cuda", c_int),
    ("ze", c_int),
    ("neuron", c_int),
    ("synapseai", c_int),
    ("rocr", c_int),
]
fi_mr_attr._fields_ = [
    ("anonymous1", fi_mr_attr_anonymous1),
    ("iov_count", c_size_t),
    ("access", c_uint64),
    ("offset", c_uint64),
    ("requested_key", c_uint64),
    ("context", c_void_p),
    ("auth_key_size", c_size_t),
    ("auth_key", c_void_p),
    ("iface", c_uint),
    ("device", fi_mr_attr_device),
    ("hmem_data", c_void_p),
    ("page_size", c_size_t),
    ("base_mr", POINTER(fid_mr)),
    ("sub_mr_cnt", c_size_t),
]
fi_mr_modify._fields_ = [
    ("flags", c_uint64),
    ("attr", fi_mr_attr),
]
fi_hmem_override_ops._fields_ = [
    ("size", c_size_t),
    ("copy_from_hmem_iov", CFUNCTYPE(c_ssize_t, c_void_p, c_size_t, c_uint, c_uint64, c_void_p, c_size_t, c_uint64)),
    ("copy_to_hmem_iov", CFUNCTYPE(c_ssize_t, c_uint, c_uint64, c_void_p, c_size_t, c_uint64, c_void_p, c_size_t)),
]
fi_ops_mr._fields_ = [
    ("size", c_size_t),
    ("reg", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p)),
    ("regv", CFUNCTYPE(
        c_int,
        c_void_p,
        c_void_p,
        c_size_t,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint64,
        c_void_p,
        c_void_p,
    )),
    ("regattr", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64, c_void_p)),
]
fid_domain._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_domain)),
    ("mr", POINTER(fi_ops_mr)),
]
fi_ops_domain._fields_ = [
    ("size", c_size_t),
    ("av_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("cq_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("endpoint", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("scalable_ep", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("cntr_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("poll_open", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
    ("stx_ctx", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("srx_ctx", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("query_atomic", CFUNCTYPE(c_int, c_void_p, c_uint, c_uint, c_void_p, c_uint64)),
    ("query_collective", CFUNCTYPE(c_int, c_void_p, c_uint, c_void_p, c_uint64)),
    ("endpoint2", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_uint64, c_void_p)),
    ("xpu_ctx", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
]
fi_msg._fields_ = [
    ("msg_iov", POINTER(iovec)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
    ("addr", c_uint64),
    ("context", c_void_p),
    ("data", c_uint64),
]
fi_ops_msg._fields_ = [
    ("size", c_size_t),
    ("recv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)),
    ("recvv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64, c_void_p)),
    ("recvmsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("send", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)),
    ("sendv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64, c_void_p)),
    ("sendmsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("inject", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64)),
    ("senddata", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_uint64, c_void_p)),
    ("injectdata", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64)),
]
fid_ep._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_ep)),
    ("cm", POINTER(fi_ops_cm)),
    ("msg", POINTER(fi_ops_msg)),
    ("rma", POINTER(fi_ops_rma)),
    ("tagged", POINTER(fi_ops_tagged)),
    ("atomic", POINTER(fi_ops_atomic)),
    ("collective", POINTER(fi_ops_collective)),
]
fi_ops_ep._fields_ = [
    ("size", c_size_t),
    ("cancel", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p)),
    ("getopt", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_void_p)),
    ("setopt", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_size_t)),
    ("tx_ctx", CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_void_p, c_void_p)),
    ("rx_ctx", CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_void_p, c_void_p)),
    ("rx_size_left", CFUNCTYPE(c_ssize_t, c_void_p)),
    ("tx_size_left", CFUNCTYPE(c_ssize_t, c_void_p)),
    ("export_xpu", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p)),
]
fid_pep._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_ep)),
    ("cm", POINTER(fi_ops_cm)),
]
fid_stx._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_ep)),
]
fid_mc._fields_ = [
    ("fid", fid),
    ("fi_addr", c_uint64),
]
fi_ops_cm._fields_ = [
    ("size", c_size_t),
    ("setname", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)),
    ("getname", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
    ("getpeer", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
    ("connect", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)),
    ("listen", CFUNCTYPE(c_int, c_void_p)),
    ("accept", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)),
    ("reject", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)),
    ("shutdown", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("join", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint64, c_void_p, c_void_p)),
]
fi_rma_iov._fields_ = [
    ("addr", c_uint64),
    ("len", c_size_t),
    ("key", c_uint64),
]
fi_rma_ioc._fields_ = [
    ("addr", c_uint64),
    ("count", c_size_t),
    ("key", c_uint64),
]
fi_msg_rma._fields_ = [
    ("msg_iov", POINTER(iovec)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
    ("addr", c_uint64),
    ("rma_iov", POINTER(fi_rma_iov)),
    ("rma_iov_count", c_size_t),
    ("context", c_void_p),
    ("data", c_uint64),
]
fi_ops_rma._fields_ = [
    ("size", c_size_t),
    ("read", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("readv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("readmsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("write", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("writev", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("writemsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("inject", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64)),
    ("writedata", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint64,
        c_void_p,
    )),
    ("injectdata", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64, c_uint64)),
]
fi_msg_tagged._fields_ = [
    ("msg_iov", POINTER(iovec)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
    ("addr", c_uint64),
    ("tag", c_uint64),
    ("ignore", c_uint64),
    ("context", c_void_p),
    ("data", c_uint64),
]
fi_ops_tagged._fields_ = [
    ("size", c_size_t),
    ("recv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("recvv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("recvmsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("send", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_uint64, c_void_p)),
    ("sendv", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_void_p)),
    ("sendmsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("inject", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64)),
    ("senddata", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p)),
    ("injectdata", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64)),
]
fi_atomic_attr._fields_ = [
    ("count", c_size_t),
    ("size", c_size_t),
]
fi_msg_atomic._fields_ = [
    ("msg_iov", POINTER(fi_ioc)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
    ("addr", c_uint64),
    ("rma_iov", POINTER(fi_rma_ioc)),
    ("rma_iov_count", c_size_t),
    ("datatype", c_uint),
    ("op", c_uint),
    ("context", c_void_p),
    ("data", c_uint64),
]
fi_msg_fetch._fields_ = [
    ("msg_iov", POINTER(fi_ioc)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
]
fi_msg_compare._fields_ = [
    ("msg_iov", POINTER(fi_ioc)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
]
fi_ops_atomic._fields_ = [
    ("size", c_size_t),
    ("write", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_void_p,
    )),
    ("writev", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_size_t,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_void_p,
    )),
    ("writemsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_uint64)),
    ("inject", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint64, c_uint64, c_uint64, c_uint, c_uint)),
    ("readwrite", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_void_p,
    )),
    ("readwritev", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_void_p,
    )),
    ("readwritemsg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64)),
    ("compwrite", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_void_p,
    )),
    ("compwritev", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_uint64,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_void_p,
    )),
    ("compwritemsg", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_uint64,
    )),
    ("writevalid", CFUNCTYPE(c_int, c_void_p, c_uint, c_uint, c_void_p)),
    ("readwritevalid", CFUNCTYPE(c_int, c_void_p, c_uint, c_uint, c_void_p)),
    ("compwritevalid", CFUNCTYPE(c_int, c_void_p, c_uint, c_uint, c_void_p)),
]
fid_av_set._fields_ = [
    ("fid", fid),
    ("ops", POINTER(fi_ops_av_set)),
]
fi_ops_av_set._fields_ = [
    ("size", c_size_t),
    ("set_union", CFUNCTYPE(c_int, c_void_p, c_void_p)),
    ("intersect", CFUNCTYPE(c_int, c_void_p, c_void_p)),
    ("diff", CFUNCTYPE(c_int, c_void_p, c_void_p)),
    ("insert", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("remove", CFUNCTYPE(c_int, c_void_p, c_uint64)),
    ("addr", CFUNCTYPE(c_int, c_void_p, c_void_p)),
]
fi_collective_attr._fields_ = [
    ("op", c_uint),
    ("datatype", c_uint),
    ("datatype_attr", fi_atomic_attr),
    ("max_members", c_size_t),
    ("mode", c_uint64),
]
fi_collective_addr._fields_ = [
    ("set", POINTER(fid_av_set)),
    ("coll_addr", c_uint64),
]
fi_msg_collective._fields_ = [
    ("msg_iov", POINTER(fi_ioc)),
    ("desc", c_void_p),
    ("iov_count", c_size_t),
    ("coll_addr", c_uint64),
    ("root_addr", c_uint64),
    ("coll", c_uint),
    ("datatype", c_uint),
    ("op", c_uint),
    ("context", c_void_p),
]
fi_ops_collective._fields_ = [
    ("size", c_size_t),
    ("barrier", CFUNCTYPE(c_ssize_t, c_void_p, c_uint64, c_void_p)),
    ("broadcast", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("alltoall", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("allreduce", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("allgather", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("reduce_scatter", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("reduce", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("scatter", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("gather", CFUNCTYPE(
        c_ssize_t,
        c_void_p,
        c_void_p,
        c_size_t,
        c_void_p,
        c_void_p,
        c_void_p,
        c_uint64,
        c_uint64,
        c_uint,
        c_uint64,
        c_void_p,
    )),
    ("msg", CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64)),
    ("barrier2", CFUNCTYPE(c_ssize_t, c_void_p, c_uint64, c_uint64, c_void_p)),
]

# Exported functions: result and arguments. The other calls go through the tables of the objects.
FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "fi_strerror": (c_char_p, (c_int,)),
    "fi_version": (c_uint32, ()),
    "fi_getinfo": (c_int, (c_uint32, c_void_p, c_void_p, c_uint64, c_void_p, c_void_p)),
    "fi_freeinfo": (None, (c_void_p,)),
    "fi_dupinfo": (c_void_p, (c_void_p,)),
    "fi_fabric": (c_int, (c_void_p, c_void_p, c_void_p)),
    "fi_fabric2": (c_int, (c_void_p, c_void_p, c_uint64, c_void_p)),
    "fi_open": (c_int, (c_uint32, c_void_p, c_void_p, c_size_t, c_uint64, c_void_p, c_void_p)),
    "fi_tostr": (c_char_p, (c_void_p, c_uint)),
    "fi_tostr_r": (c_char_p, (c_void_p, c_size_t, c_void_p, c_uint)),
    "fi_getparams": (c_int, (c_void_p, c_void_p)),
    "fi_freeparams": (None, (c_void_p,)),
}
