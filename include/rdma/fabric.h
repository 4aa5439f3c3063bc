/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects, attributes, capabilities and discovery: fi_getinfo(3), fi_fabric(3), fi_control(3).
 *
 * A function that returns int or ssize_t returns 0 or a positive count, or a negative error number
 * of <rdma/fi_errno.h>. Every object starts with a struct fid. A call uses the table of function
 * pointers that its object points to.
 *
 * Written by build.rs from src/abi/fabric.rs and src/abi/fabric.h.in; change those.
 */

#ifndef FABRIC_H
#define FABRIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fi_errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
/* Marks a function whose use the compiler reports (-Wdeprecated-declarations). */
#define FI_DEPRECATED_FUNC __attribute__((deprecated))
#define FI_DEPRECATED_FIELD __attribute__((deprecated))
/* Argument `string` is a printf format, its values start at argument `first`; both count from 1. */
#define FI_FORMAT_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define FI_DEPRECATED_FUNC
#define FI_DEPRECATED_FIELD
#define FI_FORMAT_PRINTF(string, first)
#endif

/* One word of an attribute list: keeps a symbol through whole-program optimisation. */
#if defined(__GNUC__) && !defined(__clang__)
#define EXTERNALLY_VISIBLE externally_visible
#else
#define EXTERNALLY_VISIBLE
#endif

/* An interface version: the major number in the upper, the minor in the lower 16 bits. fi_version(3) */
#define FI_VERSION(major, minor) (((major) << 16) | (minor))
#define FI_MAJOR(version) ((version) >> 16)
#define FI_MINOR(version) ((version) & 0xffff)
#define FI_VERSION_GE(v1, v2) ((v1) >= (v2))
#define FI_VERSION_LT(v1, v2) ((v1) < (v2))

/*
 * Whether a table of operations exists, is long enough to have the member, and serves it. Tables
 * grow at the end; `size` is the number of bytes that the provider of the object filled.
 */
#define FI_CHECK_OP(ops, opstype, op)                                                              \
    ((ops) && (ops)->size > offsetof(opstype, op) && (ops)->op)

/* In fi_ep_attr.tx_ctx_cnt and rx_ctx_cnt: the endpoint uses a shared context. fi_endpoint(3) */
#define FI_SHARED_CONTEXT SIZE_MAX
/* In auth_key_size: the keys come from the address vector. fi_domain(3) */
#define FI_AV_AUTH_KEY SIZE_MAX

struct fi_alias;
struct fi_bus_attr;
struct fi_context2;
struct fi_context;
struct fi_device_attr;
struct fi_domain_attr;
struct fi_ep_attr;
struct fi_eq_attr;
struct fi_fabric_attr;
struct fi_fid_var;
struct fi_info;
struct fi_ioc;
struct fi_link_attr;
struct fi_mr_map_raw;
struct fi_mr_raw_attr;
struct fi_mr_xpu_desc;
struct fi_ops;
struct fi_ops_fabric;
struct fi_param;
struct fi_pci_attr;
struct fi_recv_context;
struct fi_rx_attr;
struct fi_tx_attr;
struct fi_wait_attr;
struct fid;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_fabric;
struct fid_nic;
struct fid_pep;
struct fid_wait;
struct fid_xpu_ctx;

/** The interface of these headers; FI_VERSION() of the two goes to fi_getinfo. fi_version(3) */
#define FI_MAJOR_VERSION 2
#define FI_MINOR_VERSION 7
#define FI_REVISION_VERSION 0

/** Longest name of a fabric, domain or provider, in bytes. */
#define FI_NAME_MAX 64

/** Frozen by old programs; members of enum fi_op go on after it. */
#define FI_ATOMIC_OP_LAST 19

/** Frozen by old programs; members of enum fi_datatype go on after it. */
#define FI_DATATYPE_LAST 14

/** Capability: messages; with FI_SEND or FI_RECV alone in one direction. fi_getinfo(3) */
#define FI_MSG (1ull << 1)

/**
 * Capability: remote reads and writes; FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE
 * narrow it.
 */
#define FI_RMA (1ull << 2)

/** Capability: messages with tags. As flag of fi_query_atomic: for tagged operations. */
#define FI_TAGGED (1ull << 3)

/** Capability: atomic operations; narrowed as FI_RMA. */
#define FI_ATOMIC (1ull << 4)

/** An older name of FI_ATOMIC. */
#define FI_ATOMICS FI_ATOMIC

/** Capability: messages to groups. As send flag: the address is that of a group. */
#define FI_MULTICAST (1ull << 5)

/** Capability: collective operations. */
#define FI_COLLECTIVE (1ull << 6)

/** Reads from peers: narrows a capability, names an access right, counts or completes reads. */
#define FI_READ (1ull << 8)

/** Writes to peers: narrows a capability, names an access right, counts or completes writes. */
#define FI_WRITE (1ull << 9)

/** Receiving: narrows a capability, binds a queue to receives, marks completions of receives. */
#define FI_RECV (1ull << 10)

/** Sending: narrows a capability, marks completions of sends. */
#define FI_SEND (1ull << 11)

/** Binds a queue to everything that an endpoint sends. */
#define FI_TRANSMIT FI_SEND

/** Reads by peers. */
#define FI_REMOTE_READ (1ull << 12)

/** Writes by peers. */
#define FI_REMOTE_WRITE (1ull << 13)

/**
 * One buffer receives many messages until less than FI_OPT_MIN_MULTI_RECV bytes are left. In
 * a completion: the buffer belongs to the application again.
 */
#define FI_MULTI_RECV (1ull << 16)

/** The operation carries 64 bits into the peer's completion. In a completion: `data` is valid. */
#define FI_REMOTE_CQ_DATA (1ull << 17)

/** More operations follow at once; the provider may defer this one until they are posted. */
#define FI_MORE (1ull << 18)

/** Looks at a message or an event without taking it. */
#define FI_PEEK (1ull << 19)

/** Capability and flag: the operation waits for a trigger. fi_trigger(3) */
#define FI_TRIGGER (1ull << 20)

/** The operation starts when all earlier ones to the same peer are complete. */
#define FI_FENCE (1ull << 21)

/** Reports a completion although the queue is bound with FI_SELECTIVE_COMPLETION. */
#define FI_COMPLETION (1ull << 24)

/** An older name of FI_COMPLETION. */
#define FI_EVENT FI_COMPLETION

/** The buffer may be used again as soon as the call returns; up to inject_size bytes. */
#define FI_INJECT (1ull << 25)

/** Completion when the buffer may be used again. */
#define FI_INJECT_COMPLETE (1ull << 26)

/** Completion when the message no longer depends on this endpoint. */
#define FI_TRANSMIT_COMPLETE (1ull << 27)

/** Completion when the data lies in the peer's memory. */
#define FI_DELIVERY_COMPLETE (1ull << 28)

/** For a queue: signaling_vector is set. */
#define FI_AFFINITY (1ull << 29)

/** Completion when the data lies in the peer's persistent memory. */
#define FI_COMMIT_COMPLETE (1ull << 30)

/** Completion when the peer has matched the message with a receive. */
#define FI_MATCH_COMPLETE (1ull << 31)

/** For fi_getinfo: scans again for devices that were added or removed. */
#define FI_RESCAN (1ull << 35)

/** For an endpoint that another provider drives. fi_peer(3) */
#define FI_PEER_TRANSFER (1ull << 36)

/** Capability and flag: completions report addresses as numbers that the application chooses. */
#define FI_AV_USER_ID (1ull << 41)

/** For fi_av_insert: the peer is behind a firewall and connects by itself. */
#define FI_FIREWALL_ADDR (1ull << 42)

/** Capability and flag: objects are shared with another provider. fi_peer(3) */
#define FI_PEER (1ull << 43)

/** Capability and flag: a device starts transfers by itself. fi_xpu(3) */
#define FI_XPU (1ull << 44)

/** Capability: FI_DIRECTED_RECV for tagged receives only. */
#define FI_TAGGED_DIRECTED_RECV (1ull << 45)

/** Capability: FI_MULTI_RECV for tagged receives. */
#define FI_TAGGED_MULTI_RECV (1ull << 46)

/** Capability: transfers from and to device memory. */
#define FI_HMEM (1ull << 47)

/** Capability: as FI_DIRECTED_RECV, but every receive names its source. */
#define FI_EXACT_DIRECTED_RECV (1ull << 48)

/** Capability: remote access to persistent memory. */
#define FI_RMA_PMEM (1ull << 49)

/** Capability: the address of an unknown sender comes as an error entry. */
#define FI_SOURCE_ERR (1ull << 50)

/** Capability: peers on the same machine. */
#define FI_LOCAL_COMM (1ull << 51)

/** Capability: peers on other machines. */
#define FI_REMOTE_COMM (1ull << 52)

/** Capability: an address vector that processes share. */
#define FI_SHARED_AV (1ull << 53)

/** For fi_getinfo: lists providers without examining any device. */
#define FI_PROV_ATTR_ONLY (1ull << 54)

/** For fi_getinfo: the node is a numeric address; no name is resolved. */
#define FI_NUMERICHOST (1ull << 55)

/** Capability: remote access counts on the target's counter. */
#define FI_RMA_EVENT (1ull << 56)

/**
 * Capability: completions come with the sender. For fi_getinfo: node and service are the
 * local side.
 */
#define FI_SOURCE (1ull << 57)

/** Capability: a sender chooses the peer's receive context, fi_rx_addr. */
#define FI_NAMED_RX_CTX (1ull << 58)

/** Capability: receives are matched by their source address too. */
#define FI_DIRECTED_RECV (1ull << 59)

/** For fi_trecvmsg: reserves the message that FI_PEEK found, or receives the reserved one. */
#define FI_CLAIM (1ull << 59)

/** For fi_trecvmsg: throws away the message that FI_PEEK found or FI_CLAIM reserved. */
#define FI_DISCARD (1ull << 58)

/** For an address vector: inserts authorization keys. */
#define FI_AUTH_KEY (1ull << 57)

/** Formats of addresses, fi_info.addr_format. FI_FORMAT_UNSPEC: any format. */
#define FI_FORMAT_UNSPEC 0

/** struct sockaddr of any family. */
#define FI_SOCKADDR 1

/** struct sockaddr_in. */
#define FI_SOCKADDR_IN 2

/** struct sockaddr_in6. */
#define FI_SOCKADDR_IN6 3

/** struct sockaddr_ib of InfiniBand. */
#define FI_SOCKADDR_IB 4
#define FI_ADDR_PSMX 5
#define FI_ADDR_GNI 6
#define FI_ADDR_BGQ 7
#define FI_ADDR_MLX 8

/** A string that ends with 0: "fi_shm://...". */
#define FI_ADDR_STR 9
#define FI_ADDR_PSMX2 10
#define FI_ADDR_IB_UD 11
#define FI_ADDR_EFA 12
#define FI_ADDR_PSMX3 13
#define FI_ADDR_OPX 14
#define FI_ADDR_CXI 15
#define FI_ADDR_UCX 16

/** struct sockaddr_in or sockaddr_in6. */
#define FI_SOCKADDR_IP 17

/** No address: any source, or the peer of a connection. */
#define FI_ADDR_UNSPEC UINT64_MAX

/** No address: inserting failed, or the sender is unknown. */
#define FI_ADDR_NOTAVAIL UINT64_MAX

/** The key of a region does not fit 64 bits, see fi_mr_raw_attr. */
#define FI_KEY_NOTAVAIL UINT64_MAX





/** Deprecated. The values of fi_domain_attr.mr_mode before version 1.5. */
#define FI_MR_UNSPEC 0

/** Deprecated. FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY together. */
#define FI_MR_BASIC 1

/** Deprecated. None of the bits below. */
#define FI_MR_SCALABLE 2

/**
 * Bits of fi_domain_attr.mr_mode, fi_mr(3): duties of the application for registered memory.
 * FI_MR_LOCAL: it registers local buffers too.
 */
#define FI_MR_LOCAL 4

/** Keys may be longer than 64 bits. */
#define FI_MR_RAW 8

/** Peers name memory by its virtual address, not by an offset into the region. */
#define FI_MR_VIRT_ADDR 16

/** Memory has physical pages when it is registered. */
#define FI_MR_ALLOCATED 32

/** The provider chooses the keys. */
#define FI_MR_PROV_KEY 64

/** The application calls fi_mr_refresh when pages under a region change. */
#define FI_MR_MMU_NOTIFY 128

/** A region is bound to its counter before it is enabled. */
#define FI_MR_RMA_EVENT 256

/** A region is bound to its endpoint before it is enabled. */
#define FI_MR_ENDPOINT 512

/** Device memory is registered for local use too. */
#define FI_MR_HMEM 1024

/** Buffers of collective operations are registered. */
#define FI_MR_COLLECTIVE 2048

/** Transfers that a device starts need the descriptors of fi_mr_get_xpu_desc. */
#define FI_MR_XPU_DESC 4096

/** Deprecated. No ordering. */
#define FI_ORDER_NONE 0ull

/**
 * Bits of msg_order, fi_endpoint(3). FI_ORDER_XAY: an operation X is not placed before an operation Y
 * that was posted earlier. X and Y are R (read), W (write) or S (send).
 */
#define FI_ORDER_RAR (1ull << 0)
#define FI_ORDER_RAW (1ull << 1)
#define FI_ORDER_RAS (1ull << 2)
#define FI_ORDER_WAR (1ull << 3)
#define FI_ORDER_WAW (1ull << 4)
#define FI_ORDER_WAS (1ull << 5)
#define FI_ORDER_SAR (1ull << 6)
#define FI_ORDER_SAW (1ull << 7)
#define FI_ORDER_SAS (1ull << 8)

/** Deprecated. Every bit of the nine above. */
#define FI_ORDER_STRICT 511

/** The same for RMA alone. */
#define FI_ORDER_RMA_RAR (1ull << 32)
#define FI_ORDER_RMA_RAW (1ull << 33)
#define FI_ORDER_RMA_WAR (1ull << 34)
#define FI_ORDER_RMA_WAW (1ull << 35)

/** The same for atomics alone. */
#define FI_ORDER_ATOMIC_RAR (1ull << 36)
#define FI_ORDER_ATOMIC_RAW (1ull << 37)
#define FI_ORDER_ATOMIC_WAR (1ull << 38)
#define FI_ORDER_ATOMIC_WAW (1ull << 39)

/** Deprecated. Bytes within an operation are placed in order. */
#define FI_ORDER_DATA (1ull << 16)

/** Protocols on the wire, fi_ep_attr.protocol. FI_PROTO_UNSPEC: any protocol. */
#define FI_PROTO_UNSPEC 0
#define FI_PROTO_RDMA_CM_IB_RC 1
#define FI_PROTO_IWARP 2
#define FI_PROTO_IB_UD 3
#define FI_PROTO_PSMX 4

/** Datagrams of the provider udp. */
#define FI_PROTO_UDP 5

/** The provider tcp between connected endpoints. */
#define FI_PROTO_SOCK_TCP 6
#define FI_PROTO_MXM 7
#define FI_PROTO_IWARP_RDM 8
#define FI_PROTO_IB_RDM 9
#define FI_PROTO_GNI 10

/** Reliable datagrams over connected endpoints, ofi_rxm. */
#define FI_PROTO_RXM 11

/** Reliable datagrams over datagrams, ofi_rxd. */
#define FI_PROTO_RXD 12
#define FI_PROTO_MLX 13
#define FI_PROTO_NETWORKDIRECT 14
#define FI_PROTO_PSMX2 15

/** Shared memory. */
#define FI_PROTO_SHM 16
#define FI_PROTO_MRAIL 17
#define FI_PROTO_RSTREAM 18
#define FI_PROTO_RDMA_CM_IB_XRC 19
#define FI_PROTO_EFA 20
#define FI_PROTO_PSMX3 21

/** ofi_rxm over tcp. */
#define FI_PROTO_RXM_TCP 22
#define FI_PROTO_OPX 23
#define FI_PROTO_CXI 24

/** The provider tcp between reliable datagram endpoints. */
#define FI_PROTO_XNET 25

/** Collectives made of messages. */
#define FI_PROTO_COLL 26
#define FI_PROTO_UCX 27

/** Shared memory, the second design. */
#define FI_PROTO_SM2 28
#define FI_PROTO_CXI_RNR 29
#define FI_PROTO_LPP 30

/** Several providers as one. */
#define FI_PROTO_LNX 31

/** Formats of tags, fi_ep_attr.mem_tag_format. FI_TAG_BITS: 64 bits that the application divides. */
#define FI_TAG_BITS 0

/** A 32-bit tag and an 8-bit payload, see fi_tag_mpi. */
#define FI_TAG_MPI 1

/** One message per tag, no wildcards. */
#define FI_TAG_CCL 2

/** From here on the value is a bit pattern: runs of equal bits are fields. */
#define FI_TAG_MAX_FORMAT 65536

/**
 * Traffic classes, tclass of domain and transmit attributes. FI_TC_UNSPEC: the provider's
 * choice.
 */
#define FI_TC_UNSPEC 0

/** Marks a differentiated services code point, see fi_tc_dscp_set. */
#define FI_TC_DSCP 256

/** The first of the named classes. */
#define FI_TC_LABEL 512

/** Ordinary traffic. */
#define FI_TC_BEST_EFFORT 512

/** Small messages that must not wait. */
#define FI_TC_LOW_LATENCY 513

/** Bandwidth kept for one job. */
#define FI_TC_DEDICATED_ACCESS 514

/** Large transfers such as storage. */
#define FI_TC_BULK_DATA 515

/** Traffic that yields to all other classes. */
#define FI_TC_SCAVENGER 516

/** Control messages of the fabric. */
#define FI_TC_NETWORK_CTRL 517

/**
 * Modes, fi_info.mode: duties of the application towards a provider. FI_CONTEXT: contexts point to
 * a struct fi_context that stays untouched until the completion.
 */
#define FI_CONTEXT (1ull << 59)

/** Buffers leave msg_prefix_size bytes in front for the provider. */
#define FI_MSG_PREFIX (1ull << 58)

/** I/O vectors stay valid until the completion. */
#define FI_ASYNC_IOV (1ull << 57)

/** Receives are consumed by operations that only carry remote data. */
#define FI_RX_CQ_DATA (1ull << 56)

/** Deprecated. The older form of FI_MR_LOCAL. */
#define FI_LOCAL_MR (1ull << 55)

/** As FI_CONTEXT, with struct fi_context2. */
#define FI_CONTEXT2 (1ull << 52)

/** Kinds of objects, fid.fclass. */
#define FI_CLASS_UNSPEC 0
#define FI_CLASS_FABRIC 1
#define FI_CLASS_DOMAIN 2
#define FI_CLASS_EP 3
#define FI_CLASS_SEP 4
#define FI_CLASS_RX_CTX 5
#define FI_CLASS_SRX_CTX 6
#define FI_CLASS_TX_CTX 7
#define FI_CLASS_STX_CTX 8
#define FI_CLASS_PEP 9
#define FI_CLASS_INTERFACE 10
#define FI_CLASS_AV 11
#define FI_CLASS_MR 12
#define FI_CLASS_EQ 13
#define FI_CLASS_CQ 14
#define FI_CLASS_CNTR 15
#define FI_CLASS_WAIT 16
#define FI_CLASS_POLL 17
#define FI_CLASS_CONNREQ 18
#define FI_CLASS_MC 19
#define FI_CLASS_NIC 20
#define FI_CLASS_AV_SET 21
#define FI_CLASS_MR_CACHE 22
#define FI_CLASS_MEM_MONITOR 23
#define FI_CLASS_PEER_CQ 24
#define FI_CLASS_PEER_SRX 25
#define FI_CLASS_LOG 26
#define FI_CLASS_PEER_AV 27
#define FI_CLASS_PEER_AV_SET 28
#define FI_CLASS_PEER_CNTR 29
#define FI_CLASS_PROFILE 30
#define FI_CLASS_XPU_CTX 31

/** For fi_ep_bind: operations complete only where FI_COMPLETION asks for it. */
#define FI_SELECTIVE_COMPLETION (1ull << 59)

/** Commands of fi_control(3); `arg` points to: the flags of a file descriptor, uint64_t. */
#define FI_GETFIDFLAG 0

/** Sets those flags. */
#define FI_SETFIDFLAG 1

/**
 * Default flags of an endpoint's operations, uint64_t; FI_TRANSMIT or FI_RECV in it selects the
 * direction.
 */
#define FI_GETOPSFLAG 2

/** Sets those flags. */
#define FI_SETOPSFLAG 3

/** struct fi_alias, see fi_alias(). */
#define FI_ALIAS 4

/** The wait object: int for FI_WAIT_FD, struct fi_mutex_cond, struct fi_wait_pollfd. */
#define FI_GETWAIT 5

/** Nothing; see fi_enable and fi_mr_enable. */
#define FI_ENABLE 6

/** int: how many connection requests may wait. */
#define FI_BACKLOG 7

/** struct fi_mr_raw_attr. */
#define FI_GET_RAW_MR 8

/** struct fi_mr_map_raw. */
#define FI_MAP_RAW_MR 9

/** uint64_t, a key from FI_MAP_RAW_MR. */
#define FI_UNMAP_KEY 10

/** struct fi_deferred_work. */
#define FI_QUEUE_WORK 11

/** struct fi_deferred_work. */
#define FI_CANCEL_WORK 12

/** Nothing; cancels all deferred work. */
#define FI_FLUSH_WORK 13

/** struct fi_mr_modify. */
#define FI_REFRESH 14

/** struct fid_nic pointer that receives a copy. */
#define FI_DUP 15

/** enum fi_wait_obj of a queue, counter or set. */
#define FI_GETWAITOBJ 16

/** struct fi_fid_var. */
#define FI_GET_VAL 17

/** struct fi_fid_var. */
#define FI_SET_VAL 18

/** struct fi_fid_export. */
#define FI_EXPORT_FID 19

/** int, the file descriptor of an object. */
#define FI_GET_FD 20

/** struct fi_mr_xpu_desc, the descriptor of a region for a device. */
#define FI_GET_MR_XPU_DESC 21

/** Names without effect since release 1.21. */
#define FI_VARIABLE_MSG 0ull
#define FI_NOTIFY_FLAGS_ONLY 0ull
#define FI_RESTRICTED_COMP 0ull

/** Kinds of endpoints. fi_endpoint(3) */
enum fi_ep_type {
    /** Any. */
    FI_EP_UNSPEC = 0,
    /** Reliable, connected to one peer. */
    FI_EP_MSG = 1,
    /** Unreliable datagrams of limited size to any peer. */
    FI_EP_DGRAM = 2,
    /** Reliable messages to any peer. */
    FI_EP_RDM = 3,
};

/** How an address vector assigns fi_addr_t values to peers. fi_av(3) */
enum fi_av_type {
    /** The provider's choice. */
    FI_AV_UNSPEC = 0,
    /** Values that the provider chooses. Deprecated. */
    FI_AV_MAP = 1,
    /** 0, 1, 2, ... in the order of insertion. */
    FI_AV_TABLE = 2,
};

/** The side that drives the progress of operations. fi_domain(3) */
enum fi_progress {
    /** Any. */
    FI_PROGRESS_UNSPEC = 0,
    /** The provider, by itself. */
    FI_PROGRESS_AUTO = 1,
    /** The application, when it reads queues and counters. */
    FI_PROGRESS_MANUAL = 2,
    /** As manual; control operations progress together with data operations. */
    FI_PROGRESS_CONTROL_UNIFIED = 3,
};

/** Objects that threads of the application may use at the same time. fi_domain(3) */
enum fi_threading {
    /** Any. */
    FI_THREAD_UNSPEC = 0,
    /** All objects. */
    FI_THREAD_SAFE = 1,
    /** Deprecated. Different objects. */
    FI_THREAD_FID = 2,
    /** Objects of different domains. */
    FI_THREAD_DOMAIN = 3,
    /** Endpoints with different completion queues and counters. */
    FI_THREAD_COMPLETION = 4,
    /** Deprecated. Different endpoints. */
    FI_THREAD_ENDPOINT = 5,
};

/** The side that protects queues against overrun. fi_domain(3) */
enum fi_resource_mgmt {
    /** Any. */
    FI_RM_UNSPEC = 0,
    /** The application. */
    FI_RM_DISABLED = 1,
    /** The provider: posting returns -FI_EAGAIN when a queue is full. */
    FI_RM_ENABLED = 2,
};

/** Where a device sits. fi_nic(3) */
enum fi_bus_type {
    FI_BUS_UNSPEC = 0,
    FI_BUS_UNKNOWN = 0,
    FI_BUS_PCI = 1,
};

/** State of a device's link. fi_nic(3) */
enum fi_link_state {
    FI_LINK_UNKNOWN = 0,
    FI_LINK_DOWN = 1,
    FI_LINK_UP = 2,
};

/** Types that fi_tostr prints; its `data` points to a value of that type. fi_fabric(3) */
enum fi_type {
    FI_TYPE_INFO = 0,
    FI_TYPE_EP_TYPE = 1,
    FI_TYPE_CAPS = 2,
    FI_TYPE_OP_FLAGS = 3,
    FI_TYPE_ADDR_FORMAT = 4,
    FI_TYPE_TX_ATTR = 5,
    FI_TYPE_RX_ATTR = 6,
    FI_TYPE_EP_ATTR = 7,
    FI_TYPE_DOMAIN_ATTR = 8,
    FI_TYPE_FABRIC_ATTR = 9,
    FI_TYPE_THREADING = 10,
    FI_TYPE_PROGRESS = 11,
    FI_TYPE_PROTOCOL = 12,
    FI_TYPE_MSG_ORDER = 13,
    FI_TYPE_MODE = 14,
    FI_TYPE_AV_TYPE = 15,
    FI_TYPE_ATOMIC_TYPE = 16,
    FI_TYPE_ATOMIC_OP = 17,
    FI_TYPE_VERSION = 18,
    FI_TYPE_EQ_EVENT = 19,
    FI_TYPE_CQ_EVENT_FLAGS = 20,
    FI_TYPE_MR_MODE = 21,
    FI_TYPE_OP_TYPE = 22,
    FI_TYPE_FID = 23,
    FI_TYPE_COLLECTIVE_OP = 24,
    FI_TYPE_HMEM_IFACE = 25,
    FI_TYPE_CQ_FORMAT = 26,
    FI_TYPE_LOG_LEVEL = 27,
    FI_TYPE_LOG_SUBSYS = 28,
    FI_TYPE_AV_ATTR = 29,
    FI_TYPE_CQ_ATTR = 30,
    FI_TYPE_MR_ATTR = 31,
    FI_TYPE_CNTR_ATTR = 32,
    FI_TYPE_CQ_ERR_ENTRY = 33,
    FI_TYPE_CQ_WAIT_COND = 34,
    FI_TYPE_WAIT_OBJ = 35,
};

/** Type of a setting. fi_provider(3) */
enum fi_param_type {
    /** Text, char *. */
    FI_PARAM_STRING = 0,
    /** A number, int. */
    FI_PARAM_INT = 1,
    /** Yes or no in one of many spellings, int. */
    FI_PARAM_BOOL = 2,
    /** A size, size_t. */
    FI_PARAM_SIZE_T = 3,
};

/** Operations of every object. fi_fabric(3) */
struct fi_ops {
    /** Bytes of the table in the version that filled it. */
    size_t size;
    /** fi_close; -FI_EBUSY while objects made from it are open. */
    int (*close)(struct fid *fid);
    /** fi_ep_bind and the other bind calls. */
    int (*bind)(struct fid *fid, struct fid *bfid, uint64_t flags);
    /** fi_control. */
    int (*control)(struct fid *fid, int command, void *arg);
    /** fi_open_ops. */
    int (*ops_open)(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
    /** Prints the object for fi_tostr; returns bytes. */
    int (*tostr)(const struct fid *fid, char *buf, size_t len);
    /** fi_set_ops. */
    int (*ops_set)(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
};

/** The first member of every object. fi_fabric(3) */
struct fid {
    /** FI_CLASS_*. */
    size_t fclass;
    /** Context that the application passed when it opened the object. */
    void *context;
    /** Operations. */
    struct fi_ops *ops;
};

/** Any object. */
typedef struct fid *fid_t;

/** Identifies a peer in an address vector. fi_av(3) */
typedef uint64_t fi_addr_t;

/** A piece of memory as elements of a datatype. fi_atomic(3) */
struct fi_ioc {
    /** First element. */
    void *addr;
    /** Number of elements, not bytes. */
    size_t count;
};

/** The sending side of an endpoint. fi_endpoint(3) */
struct fi_tx_attr {
    /** FI_MSG, FI_RMA, ...; 0 in hints: those of the info. */
    uint64_t caps;
    /** FI_CONTEXT, ... */
    uint64_t mode;
    /** Default flags of operations whose call has no flags argument. */
    uint64_t op_flags;
    /** FI_ORDER_*. */
    uint64_t msg_order;
    /** Deprecated, 0. */
    uint64_t comp_order;
    /** Most bytes of an inject operation. */
    size_t inject_size;
    /** Most operations in flight. */
    size_t size;
    /** Most pieces of local memory in one operation. */
    size_t iov_limit;
    /** Most pieces of remote memory in one operation. */
    size_t rma_iov_limit;
    /** FI_TC_*; from version 1.9 on. */
    uint32_t tclass;
};

/** The receiving side of an endpoint. fi_endpoint(3) */
struct fi_rx_attr {
    /** FI_MSG, FI_TAGGED, ...; 0 in hints: those of the info. */
    uint64_t caps;
    /** FI_CONTEXT, ... */
    uint64_t mode;
    /** Default flags of operations whose call has no flags argument. */
    uint64_t op_flags;
    /** FI_ORDER_*. */
    uint64_t msg_order;
    /** Deprecated, 0. */
    uint64_t comp_order;
    /** Bytes of unexpected messages that the provider keeps. */
    size_t total_buffered_recv;
    /** Most buffers posted. */
    size_t size;
    /** Most pieces of memory in one buffer. */
    size_t iov_limit;
};

/** An endpoint. fi_endpoint(3) */
struct fi_ep_attr {
    /** Kind; FI_EP_UNSPEC in hints matches all. */
    enum fi_ep_type type;
    /** FI_PROTO_*. Two endpoints can communicate if their protocol and protocol version are equal. */
    uint32_t protocol;
    /** Version of the protocol; 0 in hints matches all. */
    uint32_t protocol_version;
    /** Most bytes of a message. */
    size_t max_msg_size;
    /** Bytes that FI_MSG_PREFIX leaves to the provider. */
    size_t msg_prefix_size;
    /** Most bytes for which read after write keeps its order. */
    size_t max_order_raw_size;
    /** Most bytes for which write after read keeps its order. */
    size_t max_order_war_size;
    /** Most bytes for which write after write keeps its order. */
    size_t max_order_waw_size;
    /** FI_TAG_*, or a pattern of bits whose runs are fields. */
    uint64_t mem_tag_format;
    /** Transmit contexts, or FI_SHARED_CONTEXT. */
    size_t tx_ctx_cnt;
    /** Receive contexts, or FI_SHARED_CONTEXT. */
    size_t rx_ctx_cnt;
    /** Bytes of the key, or FI_AV_AUTH_KEY; from version 1.5 on. */
    size_t auth_key_size;
    /**
     * Authorization key, owned by the info. It should be at least 16 random bytes, because an eavesdropper on the
     * handshake of a connection can guess shorter keys offline. fi_freeinfo wipes it.
     */
    uint8_t *auth_key;
    /** With FI_XPU in the flags of fi_endpoint2: the device that uses the endpoint. fi_xpu(3) */
    struct fid_xpu_ctx *xpu_ctx;
};

/** A domain. fi_domain(3) */
struct fi_domain_attr {
    /** An open domain that hints ask for. */
    struct fid_domain *domain;
    /** Name of the interface; owned by the info. */
    char *name;
    /** Objects that threads may use at the same time. */
    enum fi_threading threading;
    /** Deprecated. In hints it has no effect. */
    enum fi_progress control_progress;
    union {
        /** Older name of `progress`. */
        enum fi_progress data_progress;
        /** The side that drives the progress of operations. */
        enum fi_progress progress;
    };
    /** The side that protects queues against overrun. */
    enum fi_resource_mgmt resource_mgmt;
    /** How address vectors assign fi_addr_t values. */
    enum fi_av_type av_type;
    /** FI_MR_* bits. */
    int mr_mode;
    /** Bytes of a region's key. */
    size_t mr_key_size;
    /** Bytes of remote CQ data in a completion, 0 to 8. */
    size_t cq_data_size;
    /** Optimal number of completion queues. */
    size_t cq_cnt;
    /** How many endpoints can be open. */
    size_t ep_cnt;
    /** How many transmit contexts can be open. */
    size_t tx_ctx_cnt;
    /** How many receive contexts can be open. */
    size_t rx_ctx_cnt;
    /** Most transmit contexts of one endpoint. */
    size_t max_ep_tx_ctx;
    /** Most receive contexts of one endpoint. */
    size_t max_ep_rx_ctx;
    /** Most shared transmit contexts. */
    size_t max_ep_stx_ctx;
    /** Most shared receive contexts. */
    size_t max_ep_srx_ctx;
    /** Optimal number of counters. */
    size_t cntr_cnt;
    /** Most pieces of memory in one region. */
    size_t mr_iov_limit;
    /** Capabilities of the domain itself; from version 1.5 on. */
    uint64_t caps;
    /** Modes of the domain itself. */
    uint64_t mode;
    /**
     * Authorization key, owned by the info. It should be at least 16 random bytes, because an eavesdropper on the
     * handshake of a connection can guess shorter keys offline. fi_freeinfo wipes it.
     */
    uint8_t *auth_key;
    /** Bytes of the key, or FI_AV_AUTH_KEY. */
    size_t auth_key_size;
    /** Most bytes of detail in an error entry. */
    size_t max_err_data;
    /** How many regions can be registered. */
    size_t mr_cnt;
    /** FI_TC_*; from version 1.9 on. */
    uint32_t tclass;
    /** Most authorization keys of one endpoint; from version 1.20 on. */
    size_t max_ep_auth_key;
    /** Most groups within an address vector; from version 2.0 on. */
    uint32_t max_group_id;
    /** Largest value of a counter; from version 2.5 on. */
    uint64_t max_cntr_value;
    /** Largest number of failures of a counter; from version 2.5 on. */
    uint64_t max_err_cntr_value;
    /** How many contexts of devices can be open; 0: none. Output only. fi_xpu(3) */
    size_t max_xpu_ctx_cnt;
};

/** A network device. Strings are owned by the NIC. fi_nic(3) */
struct fi_device_attr {
    char *name;
    char *device_id;
    char *device_version;
    char *vendor_id;
    char *driver;
    char *firmware;
};

/** A place on the PCI bus. fi_nic(3) */
struct fi_pci_attr {
    uint16_t domain_id;
    uint8_t bus_id;
    uint8_t device_id;
    uint8_t function_id;
};

/** A place on a bus. fi_nic(3) */
struct fi_bus_attr {
    enum fi_bus_type bus_type;
    union {
        /** With FI_BUS_PCI. */
        struct fi_pci_attr pci;
    } attr;
};

/** A link. fi_nic(3) */
struct fi_link_attr {
    /** Its address as text. */
    char *address;
    /** Largest packet, bytes. */
    size_t mtu;
    /** Bits per second. */
    size_t speed;
    enum fi_link_state state;
    /** "Ethernet", "InfiniBand", ... */
    char *network_type;
};

/** A network device. fi_nic(3) */
struct fid_nic {
    struct fid fid;
    struct fi_device_attr *device_attr;
    struct fi_bus_attr *bus_attr;
    struct fi_link_attr *link_attr;
    /** Further attributes, in a type of the provider. */
    void *prov_attr;
};

/**
 * A set of attributes that a provider offers, or that hints request. It owns its strings and
 * addresses. fi_getinfo(3)
 */
struct fi_info {
    /** The next entry of the list, in order of preference, or NULL. */
    struct fi_info *next;
    /** Capabilities; 0 in hints: all that the provider offers without a request. */
    uint64_t caps;
    /** Duties of the application; in hints the duties that it can fulfil. */
    uint64_t mode;
    /** FI_SOCKADDR, FI_ADDR_STR, ... */
    uint32_t addr_format;
    /** Bytes of src_addr. */
    size_t src_addrlen;
    /** Bytes of dest_addr. */
    size_t dest_addrlen;
    /** Local address, or NULL. */
    void *src_addr;
    /** Address of the peer, or NULL. */
    void *dest_addr;
    /**
     * With FI_CONNREQ: the request, for fi_endpoint or fi_reject. Also an endpoint whose resources are
     * shared.
     */
    fid_t handle;
    struct fi_tx_attr *tx_attr;
    struct fi_rx_attr *rx_attr;
    struct fi_ep_attr *ep_attr;
    struct fi_domain_attr *domain_attr;
    struct fi_fabric_attr *fabric_attr;
    /** The network device, or NULL; from version 1.7 on. */
    struct fid_nic *nic;
};

/** Operations of a fabric. fi_fabric(3) */
struct fi_ops_fabric {
    size_t size;
    int (*domain)(struct fid_fabric *fabric,
                  struct fi_info *info,
                  struct fid_domain **dom,
                  void *context);
    int (*passive_ep)(struct fid_fabric *fabric,
                      struct fi_info *info,
                      struct fid_pep **pep,
                      void *context);
    int (*eq_open)(struct fid_fabric *fabric,
                   struct fi_eq_attr *attr,
                   struct fid_eq **eq,
                   void *context);
    int (*wait_open)(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset);
    int (*trywait)(struct fid_fabric *fabric, struct fid **fids, int count);
    int (*domain2)(struct fid_fabric *fabric,
                   struct fi_info *info,
                   struct fid_domain **dom,
                   uint64_t flags,
                   void *context);
};

/** A fabric: domains that can communicate with each other. fi_fabric(3) */
struct fid_fabric {
    struct fid fid;
    struct fi_ops_fabric *ops;
    /** Version that the application gave to fi_getinfo. */
    uint32_t api_version;
};

/** A fabric. fi_fabric(3) */
struct fi_fabric_attr {
    /** An open fabric that hints ask for. */
    struct fid_fabric *fabric;
    /** Name of the network; owned by the info. */
    char *name;
    /** Provider; layers are joined by ';'. In hints, a leading '^' excludes the provider. */
    char *prov_name;
    /** Version of the provider, FI_VERSION(). */
    uint32_t prov_version;
    /** Version that the application gave to fi_getinfo. */
    uint32_t api_version;
};

/** Argument of FI_ALIAS. fi_control(3) */
struct fi_alias {
    /** Out: the second handle. */
    struct fid **fid;
    /** FI_TRANSMIT or FI_RECV with the flags of the handle. */
    uint64_t flags;
};

/** Argument of FI_GET_VAL and FI_SET_VAL. fi_control(3) */
struct fi_fid_var {
    int name;
    void *val;
};

/** Argument of FI_GET_RAW_MR. fi_mr(3) */
struct fi_mr_raw_attr {
    /** 0. */
    uint64_t flags;
    /** Out: base address that peers add to offsets. */
    uint64_t *base_addr;
    /** Out: the key. */
    uint8_t *raw_key;
    /** In and out: bytes. */
    size_t *key_size;
};

/** Argument of FI_MAP_RAW_MR. fi_mr(3) */
struct fi_mr_map_raw {
    uint64_t flags;
    uint64_t base_addr;
    uint8_t *raw_key;
    size_t key_size;
    /** Out: the 64-bit key to use instead. */
    uint64_t *key;
};

/** Argument of FI_GET_MR_XPU_DESC. fi_mr(3) */
struct fi_mr_xpu_desc {
    /** Room for the descriptor. */
    void *buf;
    /** In: bytes of room; out: bytes of the descriptor. */
    size_t *len;
    /** 0, FI_XPU. */
    uint64_t flags;
    struct fid_xpu_ctx *ctx;
};

/** A setting. Strings are owned by the list. fi_fabric(3) */
struct fi_param {
    /** Its environment variable. */
    const char *name;
    enum fi_param_type type;
    /** Its help text. */
    const char *help_string;
    /** Its value as text, or NULL if it is not set. */
    const char *value;
};

/**
 * Memory of the application that a provider uses while an operation is pending (FI_CONTEXT). Its
 * content is private to the provider. fi_getinfo(3)
 */
struct fi_context {
    void *internal[4];
};

/** The same for FI_CONTEXT2. fi_getinfo(3) */
struct fi_context2 {
    void *internal[8];
};

/** A context together with the endpoint it belongs to. */
struct fi_recv_context {
    struct fid_ep *ep;
    void *context;
};

/** A name without effect since release 1.21. */
#define FI_EP_SOCK_STREAM FI_EP_UNSPEC

#ifdef FI_REMOVED_NAMES
/* Names that release 2.0 removed, for older sources. Define the macro before the include. */
#ifndef container_of
#define container_of(ptr, type, field) ((type *) ((char *) (ptr) - offsetof(type, field)))
#endif
#ifndef count_of
#define count_of(array) (sizeof(array) / sizeof(*(array)))
#endif
#define FI_PATH_MAX 256
#define FI_VERSION_MAX 64
/* Variables of this type hold the FI_MR_* constants above. */
enum fi_mr_mode { FI_MR_MODE_COMPAT_ };
#endif

/* The interface version of the library, as FI_VERSION(major, minor). fi_version(3) */
uint32_t fi_version(void);

/*
 * Lists the available attribute sets in order of preference; the caller frees *info with fi_freeinfo.
 * `version` is the interface that the caller was written for. -FI_ENODATA: nothing matches.
 * fi_getinfo(3)
 */
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info);

/* Frees a list and all memory it points to with free(3). NULL is allowed. fi_getinfo(3) */
void fi_freeinfo(struct fi_info *info);

/*
 * Copies one entry of a list. For NULL it allocates an empty entry with its attribute structs.
 * Returns NULL if there is no memory. fi_getinfo(3)
 */
struct fi_info *fi_dupinfo(const struct fi_info *info);

/*
 * Binds these calls to the symbol version that matches the structs of this header. The library may also
 * export newer versions; a program built with this header also runs on the release of the header. A source
 * that defines the functions itself must define FABRIC_UNVERSIONED before the include.
 */
#if defined(__GNUC__) && defined(__ELF__) && !defined(FABRIC_UNVERSIONED)
__asm__(".symver fi_getinfo, fi_getinfo@FABRIC_1.10");
__asm__(".symver fi_dupinfo, fi_dupinfo@FABRIC_1.10");
__asm__(".symver fi_freeinfo, fi_freeinfo@FABRIC_1.10");
#endif

static inline struct fi_info *fi_allocinfo(void)
{
    return fi_dupinfo(NULL);
}

/*
 * Opens a fabric, the parent of all other objects; `flags` of fi_fabric2 are reserved (0).
 * fi_fabric(3)
 */
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

int fi_fabric2(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context);

/* Opens a named object of the library itself, such as "logging" or "mem_monitor". fi_open(3) */
int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
            struct fid **fid, void *context);

/* Closes any object. -FI_EBUSY: objects made from it are still open. fi_fabric(3), fi_endpoint(3) */
static inline int fi_close(struct fid *fid)
{
    return fid->ops->close(fid);
}

/*
 * Executes a command on any object; the type of *arg depends on `command` (FI_GETWAIT, FI_ALIAS, ...).
 * fi_control(3)
 */
static inline int fi_control(struct fid *fid, int command, void *arg)
{
    return fid->ops->control(fid, command, arg);
}

/* Creates a second handle of an endpoint that uses `flags` by default. fi_endpoint(3) */
static inline int fi_alias(struct fid *fid, struct fid **alias_fid, uint64_t flags)
{
    struct fi_alias alias;

    alias.fid = alias_fid;
    alias.flags = flags;
    return fid->ops->control(fid, FI_ALIAS, &alias);
}

/* Reads or sets one variable of an object; the type of *val depends on `name`. fi_control(3) */
static inline int fi_get_val(struct fid *fid, int name, void *val)
{
    struct fi_fid_var var;

    var.name = name;
    var.val = val;
    return fid->ops->control(fid, FI_GET_VAL, &var);
}

static inline int fi_set_val(struct fid *fid, int name, void *val)
{
    struct fi_fid_var var;

    var.name = name;
    var.val = val;
    return fid->ops->control(fid, FI_SET_VAL, &var);
}

/* Gets or replaces a named table of provider functions. -FI_ENOSYS: no such table. fi_fabric(3) */
static inline int
fi_open_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    return fid->ops->ops_open(fid, name, flags, ops, context);
}

static inline int
fi_set_ops(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    if (!FI_CHECK_OP(fid->ops, struct fi_ops, ops_set))
        return -FI_ENOSYS;
    return fid->ops->ops_set(fid, name, flags, ops, context);
}

/*
 * Traffic classes: fi_tc_dscp_set converts a differentiated services code point (0 to 63) to a class,
 * fi_tc_dscp_get converts it back and returns 0 for every other class. fi_endpoint(3)
 */
static inline uint32_t fi_tc_dscp_set(uint8_t dscp)
{
    return dscp | (uint32_t) FI_TC_DSCP;
}

static inline uint8_t fi_tc_dscp_get(uint32_t tclass)
{
    return (tclass & FI_TC_DSCP) ? (uint8_t) tclass : 0;
}

/*
 * Prints a value, or the struct that `data` points to. fi_tostr uses storage of the calling
 * thread; fi_tostr_r writes at most `len` bytes with the final 0 and returns `buf`. fi_fabric(3)
 */
char *fi_tostr(const void *data, enum fi_type datatype);

char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype);

/*
 * Lists the settings that the library and its providers read, *count entries; the caller frees the list
 * with fi_freeparams. fi_fabric(3)
 */
int fi_getparams(struct fi_param **params, int *count);

void fi_freeparams(struct fi_param *params);

#ifdef __cplusplus
}
#endif

#endif /* FABRIC_H */
