// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fabric.h>`: Objects, attributes, capabilities: fi_fabric(3), fi_getinfo(3), fi_control(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use super::fi_domain::fid_domain;
use super::fi_endpoint::{fid_ep, fid_pep};
use super::fi_eq::{fi_eq_attr, fi_wait_attr, fid_eq, fid_wait};
use super::fi_xpu::fid_xpu_ctx;
use super::release;

/// The interface of these headers; FI_VERSION() of the two goes to fi_getinfo. fi_version(3)
pub const FI_MAJOR_VERSION: u32 = release::MAJOR;
pub const FI_MINOR_VERSION: u32 = release::MINOR;
pub const FI_REVISION_VERSION: u32 = 0;
/// Longest name of a fabric, domain or provider, in bytes.
pub const FI_NAME_MAX: u32 = 64;
/// Frozen by old programs; members of enum fi_op go on after it.
pub const FI_ATOMIC_OP_LAST: u32 = 19;
/// Frozen by old programs; members of enum fi_datatype go on after it.
pub const FI_DATATYPE_LAST: u32 = 14;
/// Capability: messages; with FI_SEND or FI_RECV alone in one direction. fi_getinfo(3)
pub const FI_MSG: u64 = 1u64 << 1;
/// Capability: remote reads and writes; FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE
/// narrow it.
pub const FI_RMA: u64 = 1u64 << 2;
/// Capability: messages with tags. As flag of fi_query_atomic: for tagged operations.
pub const FI_TAGGED: u64 = 1u64 << 3;
/// Capability: atomic operations; narrowed as FI_RMA.
pub const FI_ATOMIC: u64 = 1u64 << 4;
/// An older name of FI_ATOMIC.
pub const FI_ATOMICS: u64 = FI_ATOMIC;
/// Capability: messages to groups. As send flag: the address is that of a group.
pub const FI_MULTICAST: u64 = 1u64 << 5;
/// Capability: collective operations.
pub const FI_COLLECTIVE: u64 = 1u64 << 6;
/// Reads from peers: narrows a capability, names an access right, counts or completes reads.
pub const FI_READ: u64 = 1u64 << 8;
/// Writes to peers: narrows a capability, names an access right, counts or completes writes.
pub const FI_WRITE: u64 = 1u64 << 9;
/// Receiving: narrows a capability, binds a queue to receives, marks completions of receives.
pub const FI_RECV: u64 = 1u64 << 10;
/// Sending: narrows a capability, marks completions of sends.
pub const FI_SEND: u64 = 1u64 << 11;
/// Binds a queue to everything that an endpoint sends.
pub const FI_TRANSMIT: u64 = FI_SEND;
/// Reads by peers.
pub const FI_REMOTE_READ: u64 = 1u64 << 12;
/// Writes by peers.
pub const FI_REMOTE_WRITE: u64 = 1u64 << 13;
/// One buffer receives many messages until less than FI_OPT_MIN_MULTI_RECV bytes are left. In
/// a completion: the buffer belongs to the application again.
pub const FI_MULTI_RECV: u64 = 1u64 << 16;
/// The operation carries 64 bits into the peer's completion. In a completion: `data` is valid.
pub const FI_REMOTE_CQ_DATA: u64 = 1u64 << 17;
/// More operations follow at once; the provider may defer this one until they are posted.
pub const FI_MORE: u64 = 1u64 << 18;
/// Looks at a message or an event without taking it.
pub const FI_PEEK: u64 = 1u64 << 19;
/// Capability and flag: the operation waits for a trigger. fi_trigger(3)
pub const FI_TRIGGER: u64 = 1u64 << 20;
/// The operation starts when all earlier ones to the same peer are complete.
pub const FI_FENCE: u64 = 1u64 << 21;
/// Reports a completion although the queue is bound with FI_SELECTIVE_COMPLETION.
pub const FI_COMPLETION: u64 = 1u64 << 24;
/// An older name of FI_COMPLETION.
pub const FI_EVENT: u64 = FI_COMPLETION;
/// The buffer may be used again as soon as the call returns; up to inject_size bytes.
pub const FI_INJECT: u64 = 1u64 << 25;
/// Completion when the buffer may be used again.
pub const FI_INJECT_COMPLETE: u64 = 1u64 << 26;
/// Completion when the message no longer depends on this endpoint.
pub const FI_TRANSMIT_COMPLETE: u64 = 1u64 << 27;
/// Completion when the data lies in the peer's memory.
pub const FI_DELIVERY_COMPLETE: u64 = 1u64 << 28;
/// For a queue: signaling_vector is set.
pub const FI_AFFINITY: u64 = 1u64 << 29;
/// Completion when the data lies in the peer's persistent memory.
pub const FI_COMMIT_COMPLETE: u64 = 1u64 << 30;
/// Completion when the peer has matched the message with a receive.
pub const FI_MATCH_COMPLETE: u64 = 1u64 << 31;
/// For fi_getinfo: scans again for devices that were added or removed.
pub const FI_RESCAN: u64 = 1u64 << 35;
/// For an endpoint that another provider drives. fi_peer(3)
pub const FI_PEER_TRANSFER: u64 = 1u64 << 36;
// since 2.8
/// Capability: requests are prepared once and queued often. fi_endpoint(3)
pub const FI_WR: u64 = 1u64 << 39;
/// Capability and flag: completions report addresses as numbers that the application chooses.
pub const FI_AV_USER_ID: u64 = 1u64 << 41;
/// For fi_av_insert: the peer is behind a firewall and connects by itself.
pub const FI_FIREWALL_ADDR: u64 = 1u64 << 42;
/// Capability and flag: objects are shared with another provider. fi_peer(3)
pub const FI_PEER: u64 = 1u64 << 43;
// since 2.7
/// Capability and flag: a device starts transfers by itself. fi_xpu(3)
pub const FI_XPU: u64 = 1u64 << 44;
/// Capability: FI_DIRECTED_RECV for tagged receives only.
pub const FI_TAGGED_DIRECTED_RECV: u64 = 1u64 << 45;
/// Capability: FI_MULTI_RECV for tagged receives.
pub const FI_TAGGED_MULTI_RECV: u64 = 1u64 << 46;
/// Capability: transfers from and to device memory.
pub const FI_HMEM: u64 = 1u64 << 47;
/// Capability: as FI_DIRECTED_RECV, but every receive names its source.
pub const FI_EXACT_DIRECTED_RECV: u64 = 1u64 << 48;
/// Capability: remote access to persistent memory.
pub const FI_RMA_PMEM: u64 = 1u64 << 49;
/// Capability: the address of an unknown sender comes as an error entry.
pub const FI_SOURCE_ERR: u64 = 1u64 << 50;
/// Capability: peers on the same machine.
pub const FI_LOCAL_COMM: u64 = 1u64 << 51;
/// Capability: peers on other machines.
pub const FI_REMOTE_COMM: u64 = 1u64 << 52;
/// Capability: an address vector that processes share.
pub const FI_SHARED_AV: u64 = 1u64 << 53;
/// For fi_getinfo: lists providers without examining any device.
pub const FI_PROV_ATTR_ONLY: u64 = 1u64 << 54;
/// For fi_getinfo: the node is a numeric address; no name is resolved.
pub const FI_NUMERICHOST: u64 = 1u64 << 55;
/// Capability: remote access counts on the target's counter.
pub const FI_RMA_EVENT: u64 = 1u64 << 56;
/// Capability: completions come with the sender. For fi_getinfo: node and service are the
/// local side.
pub const FI_SOURCE: u64 = 1u64 << 57;
/// Capability: a sender chooses the peer's receive context, fi_rx_addr.
pub const FI_NAMED_RX_CTX: u64 = 1u64 << 58;
/// Capability: receives are matched by their source address too.
pub const FI_DIRECTED_RECV: u64 = 1u64 << 59;
/// For fi_trecvmsg: reserves the message that FI_PEEK found, or receives the reserved one.
pub const FI_CLAIM: u64 = 1u64 << 59;
/// For fi_trecvmsg: throws away the message that FI_PEEK found or FI_CLAIM reserved.
pub const FI_DISCARD: u64 = 1u64 << 58;
/// For an address vector: inserts authorization keys.
pub const FI_AUTH_KEY: u64 = 1u64 << 57;
/// Formats of addresses, fi_info.addr_format. FI_FORMAT_UNSPEC: any format.
pub const FI_FORMAT_UNSPEC: u32 = 0;
/// struct sockaddr of any family.
pub const FI_SOCKADDR: u32 = 1;
/// struct sockaddr_in.
pub const FI_SOCKADDR_IN: u32 = 2;
/// struct sockaddr_in6.
pub const FI_SOCKADDR_IN6: u32 = 3;
/// struct sockaddr_ib of InfiniBand.
pub const FI_SOCKADDR_IB: u32 = 4;
pub const FI_ADDR_PSMX: u32 = 5;
pub const FI_ADDR_GNI: u32 = 6;
pub const FI_ADDR_BGQ: u32 = 7;
pub const FI_ADDR_MLX: u32 = 8;
/// A string that ends with 0: "fi_shm://...".
pub const FI_ADDR_STR: u32 = 9;
pub const FI_ADDR_PSMX2: u32 = 10;
pub const FI_ADDR_IB_UD: u32 = 11;
pub const FI_ADDR_EFA: u32 = 12;
pub const FI_ADDR_PSMX3: u32 = 13;
pub const FI_ADDR_OPX: u32 = 14;
pub const FI_ADDR_CXI: u32 = 15;
pub const FI_ADDR_UCX: u32 = 16;
/// struct sockaddr_in or sockaddr_in6.
pub const FI_SOCKADDR_IP: u32 = 17;
/// No address: any source, or the peer of a connection.
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
/// No address: inserting failed, or the sender is unknown.
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
/// The key of a region does not fit 64 bits, see fi_mr_raw_attr.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
pub const FI_SHARED_CONTEXT: usize = usize::MAX;
pub const FI_AV_AUTH_KEY: usize = usize::MAX;
/// Deprecated. The values of fi_domain_attr.mr_mode before version 1.5.
pub const FI_MR_UNSPEC: c_int = 0;
/// Deprecated. FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY together.
pub const FI_MR_BASIC: c_int = 1;
/// Deprecated. None of the bits below.
pub const FI_MR_SCALABLE: c_int = 2;
/// Bits of fi_domain_attr.mr_mode, fi_mr(3): duties of the application for registered memory.
/// FI_MR_LOCAL: it registers local buffers too.
pub const FI_MR_LOCAL: c_int = 4;
/// Keys may be longer than 64 bits.
pub const FI_MR_RAW: c_int = 8;
/// Peers name memory by its virtual address, not by an offset into the region.
pub const FI_MR_VIRT_ADDR: c_int = 16;
/// Memory has physical pages when it is registered.
pub const FI_MR_ALLOCATED: c_int = 32;
/// The provider chooses the keys.
pub const FI_MR_PROV_KEY: c_int = 64;
/// The application calls fi_mr_refresh when pages under a region change.
pub const FI_MR_MMU_NOTIFY: c_int = 128;
/// A region is bound to its counter before it is enabled.
pub const FI_MR_RMA_EVENT: c_int = 256;
/// A region is bound to its endpoint before it is enabled.
pub const FI_MR_ENDPOINT: c_int = 512;
/// Device memory is registered for local use too.
pub const FI_MR_HMEM: c_int = 1024;
/// Buffers of collective operations are registered.
pub const FI_MR_COLLECTIVE: c_int = 2048;
// since 2.7
/// Transfers that a device starts need the descriptors of fi_mr_get_xpu_desc.
pub const FI_MR_XPU_DESC: c_int = 4096;
/// Deprecated. No ordering.
pub const FI_ORDER_NONE: u64 = 0u64;
/// Bits of msg_order, fi_endpoint(3). FI_ORDER_XAY: an operation X is not placed before an operation Y
/// that was posted earlier. X and Y are R (read), W (write) or S (send).
pub const FI_ORDER_RAR: u64 = 1u64 << 0;
pub const FI_ORDER_RAW: u64 = 1u64 << 1;
pub const FI_ORDER_RAS: u64 = 1u64 << 2;
pub const FI_ORDER_WAR: u64 = 1u64 << 3;
pub const FI_ORDER_WAW: u64 = 1u64 << 4;
pub const FI_ORDER_WAS: u64 = 1u64 << 5;
pub const FI_ORDER_SAR: u64 = 1u64 << 6;
pub const FI_ORDER_SAW: u64 = 1u64 << 7;
pub const FI_ORDER_SAS: u64 = 1u64 << 8;
/// Deprecated. Every bit of the nine above.
pub const FI_ORDER_STRICT: c_int = 511;
/// The same for RMA alone.
pub const FI_ORDER_RMA_RAR: u64 = 1u64 << 32;
pub const FI_ORDER_RMA_RAW: u64 = 1u64 << 33;
pub const FI_ORDER_RMA_WAR: u64 = 1u64 << 34;
pub const FI_ORDER_RMA_WAW: u64 = 1u64 << 35;
/// The same for atomics alone.
pub const FI_ORDER_ATOMIC_RAR: u64 = 1u64 << 36;
pub const FI_ORDER_ATOMIC_RAW: u64 = 1u64 << 37;
pub const FI_ORDER_ATOMIC_WAR: u64 = 1u64 << 38;
pub const FI_ORDER_ATOMIC_WAW: u64 = 1u64 << 39;
/// Deprecated. Bytes within an operation are placed in order.
pub const FI_ORDER_DATA: u64 = 1u64 << 16;
/// Protocols on the wire, fi_ep_attr.protocol. FI_PROTO_UNSPEC: any protocol.
pub const FI_PROTO_UNSPEC: u32 = 0;
pub const FI_PROTO_RDMA_CM_IB_RC: u32 = 1;
pub const FI_PROTO_IWARP: u32 = 2;
pub const FI_PROTO_IB_UD: u32 = 3;
pub const FI_PROTO_PSMX: u32 = 4;
/// Datagrams of the provider udp.
pub const FI_PROTO_UDP: u32 = 5;
/// The provider tcp between connected endpoints.
pub const FI_PROTO_SOCK_TCP: u32 = 6;
pub const FI_PROTO_MXM: u32 = 7;
pub const FI_PROTO_IWARP_RDM: u32 = 8;
pub const FI_PROTO_IB_RDM: u32 = 9;
pub const FI_PROTO_GNI: u32 = 10;
/// Reliable datagrams over connected endpoints, ofi_rxm.
pub const FI_PROTO_RXM: u32 = 11;
/// Reliable datagrams over datagrams, ofi_rxd.
pub const FI_PROTO_RXD: u32 = 12;
pub const FI_PROTO_MLX: u32 = 13;
pub const FI_PROTO_NETWORKDIRECT: u32 = 14;
pub const FI_PROTO_PSMX2: u32 = 15;
/// Shared memory.
pub const FI_PROTO_SHM: u32 = 16;
pub const FI_PROTO_MRAIL: u32 = 17;
pub const FI_PROTO_RSTREAM: u32 = 18;
pub const FI_PROTO_RDMA_CM_IB_XRC: u32 = 19;
pub const FI_PROTO_EFA: u32 = 20;
pub const FI_PROTO_PSMX3: u32 = 21;
/// ofi_rxm over tcp.
pub const FI_PROTO_RXM_TCP: u32 = 22;
pub const FI_PROTO_OPX: u32 = 23;
pub const FI_PROTO_CXI: u32 = 24;
/// The provider tcp between reliable datagram endpoints.
pub const FI_PROTO_XNET: u32 = 25;
/// Collectives made of messages.
pub const FI_PROTO_COLL: u32 = 26;
pub const FI_PROTO_UCX: u32 = 27;
/// Shared memory, the second design.
pub const FI_PROTO_SM2: u32 = 28;
pub const FI_PROTO_CXI_RNR: u32 = 29;
pub const FI_PROTO_LPP: u32 = 30;
/// Several providers as one.
pub const FI_PROTO_LNX: u32 = 31;
/// Formats of tags, fi_ep_attr.mem_tag_format. FI_TAG_BITS: 64 bits that the application divides.
pub const FI_TAG_BITS: u32 = 0;
/// A 32-bit tag and an 8-bit payload, see fi_tag_mpi.
pub const FI_TAG_MPI: u32 = 1;
/// One message per tag, no wildcards.
pub const FI_TAG_CCL: u32 = 2;
/// From here on the value is a bit pattern: runs of equal bits are fields.
pub const FI_TAG_MAX_FORMAT: u32 = 65536;
/// Traffic classes, tclass of domain and transmit attributes. FI_TC_UNSPEC: the provider's
/// choice.
pub const FI_TC_UNSPEC: u32 = 0;
/// Marks a differentiated services code point, see fi_tc_dscp_set.
pub const FI_TC_DSCP: u32 = 256;
/// The first of the named classes.
pub const FI_TC_LABEL: u32 = 512;
/// Ordinary traffic.
pub const FI_TC_BEST_EFFORT: u32 = 512;
/// Small messages that must not wait.
pub const FI_TC_LOW_LATENCY: u32 = 513;
/// Bandwidth kept for one job.
pub const FI_TC_DEDICATED_ACCESS: u32 = 514;
/// Large transfers such as storage.
pub const FI_TC_BULK_DATA: u32 = 515;
/// Traffic that yields to all other classes.
pub const FI_TC_SCAVENGER: u32 = 516;
/// Control messages of the fabric.
pub const FI_TC_NETWORK_CTRL: u32 = 517;
/// Modes, fi_info.mode: duties of the application towards a provider. FI_CONTEXT: contexts point to
/// a struct fi_context that stays untouched until the completion.
pub const FI_CONTEXT: u64 = 1u64 << 59;
/// Buffers leave msg_prefix_size bytes in front for the provider.
pub const FI_MSG_PREFIX: u64 = 1u64 << 58;
/// I/O vectors stay valid until the completion.
pub const FI_ASYNC_IOV: u64 = 1u64 << 57;
/// Receives are consumed by operations that only carry remote data.
pub const FI_RX_CQ_DATA: u64 = 1u64 << 56;
/// Deprecated. The older form of FI_MR_LOCAL.
pub const FI_LOCAL_MR: u64 = 1u64 << 55;
/// As FI_CONTEXT, with struct fi_context2.
pub const FI_CONTEXT2: u64 = 1u64 << 52;
/// Kinds of objects, fid.fclass.
pub const FI_CLASS_UNSPEC: u32 = 0;
pub const FI_CLASS_FABRIC: u32 = 1;
pub const FI_CLASS_DOMAIN: u32 = 2;
pub const FI_CLASS_EP: u32 = 3;
pub const FI_CLASS_SEP: u32 = 4;
pub const FI_CLASS_RX_CTX: u32 = 5;
pub const FI_CLASS_SRX_CTX: u32 = 6;
pub const FI_CLASS_TX_CTX: u32 = 7;
pub const FI_CLASS_STX_CTX: u32 = 8;
pub const FI_CLASS_PEP: u32 = 9;
pub const FI_CLASS_INTERFACE: u32 = 10;
pub const FI_CLASS_AV: u32 = 11;
pub const FI_CLASS_MR: u32 = 12;
pub const FI_CLASS_EQ: u32 = 13;
pub const FI_CLASS_CQ: u32 = 14;
pub const FI_CLASS_CNTR: u32 = 15;
pub const FI_CLASS_WAIT: u32 = 16;
pub const FI_CLASS_POLL: u32 = 17;
pub const FI_CLASS_CONNREQ: u32 = 18;
pub const FI_CLASS_MC: u32 = 19;
pub const FI_CLASS_NIC: u32 = 20;
pub const FI_CLASS_AV_SET: u32 = 21;
pub const FI_CLASS_MR_CACHE: u32 = 22;
pub const FI_CLASS_MEM_MONITOR: u32 = 23;
pub const FI_CLASS_PEER_CQ: u32 = 24;
pub const FI_CLASS_PEER_SRX: u32 = 25;
pub const FI_CLASS_LOG: u32 = 26;
pub const FI_CLASS_PEER_AV: u32 = 27;
pub const FI_CLASS_PEER_AV_SET: u32 = 28;
pub const FI_CLASS_PEER_CNTR: u32 = 29;
pub const FI_CLASS_PROFILE: u32 = 30;
// since 2.7
pub const FI_CLASS_XPU_CTX: u32 = 31;
/// For fi_ep_bind: operations complete only where FI_COMPLETION asks for it.
pub const FI_SELECTIVE_COMPLETION: u64 = 1u64 << 59;
/// Commands of fi_control(3); `arg` points to: the flags of a file descriptor, uint64_t.
pub const FI_GETFIDFLAG: u32 = 0;
/// Sets those flags.
pub const FI_SETFIDFLAG: u32 = 1;
/// Default flags of an endpoint's operations, uint64_t; FI_TRANSMIT or FI_RECV in it selects the
/// direction.
pub const FI_GETOPSFLAG: u32 = 2;
/// Sets those flags.
pub const FI_SETOPSFLAG: u32 = 3;
/// struct fi_alias, see fi_alias().
pub const FI_ALIAS: u32 = 4;
/// The wait object: int for FI_WAIT_FD, struct fi_mutex_cond, struct fi_wait_pollfd.
pub const FI_GETWAIT: u32 = 5;
/// Nothing; see fi_enable and fi_mr_enable.
pub const FI_ENABLE: u32 = 6;
/// int: how many connection requests may wait.
pub const FI_BACKLOG: u32 = 7;
/// struct fi_mr_raw_attr.
pub const FI_GET_RAW_MR: u32 = 8;
/// struct fi_mr_map_raw.
pub const FI_MAP_RAW_MR: u32 = 9;
/// uint64_t, a key from FI_MAP_RAW_MR.
pub const FI_UNMAP_KEY: u32 = 10;
/// struct fi_deferred_work.
pub const FI_QUEUE_WORK: u32 = 11;
/// struct fi_deferred_work.
pub const FI_CANCEL_WORK: u32 = 12;
/// Nothing; cancels all deferred work.
pub const FI_FLUSH_WORK: u32 = 13;
/// struct fi_mr_modify.
pub const FI_REFRESH: u32 = 14;
/// struct fid_nic pointer that receives a copy.
pub const FI_DUP: u32 = 15;
/// enum fi_wait_obj of a queue, counter or set.
pub const FI_GETWAITOBJ: u32 = 16;
/// struct fi_fid_var.
pub const FI_GET_VAL: u32 = 17;
/// struct fi_fid_var.
pub const FI_SET_VAL: u32 = 18;
/// struct fi_fid_export.
pub const FI_EXPORT_FID: u32 = 19;
/// int, the file descriptor of an object.
pub const FI_GET_FD: u32 = 20;
// since 2.7
/// struct fi_mr_xpu_desc, the descriptor of a region for a device.
pub const FI_GET_MR_XPU_DESC: u32 = 21;
/// Names without effect since release 1.21.
pub const FI_VARIABLE_MSG: u64 = 0u64;
pub const FI_NOTIFY_FLAGS_ONLY: u64 = 0u64;
pub const FI_RESTRICTED_COMP: u64 = 0u64;
/// A name without effect since release 1.21.
pub const FI_EP_SOCK_STREAM: fi_ep_type = FI_EP_UNSPEC;

c_enum! {
    /// How an address vector assigns fi_addr_t values to peers. fi_av(3)
    pub enum fi_av_type {
        /// The provider's choice.
        FI_AV_UNSPEC = 0,
        /// Values that the provider chooses. Deprecated.
        FI_AV_MAP = 1,
        /// 0, 1, 2, ... in the order of insertion.
        FI_AV_TABLE = 2,
    }
}

c_enum! {
    /// The side that drives the progress of operations. fi_domain(3)
    pub enum fi_progress {
        /// Any.
        FI_PROGRESS_UNSPEC = 0,
        /// The provider, by itself.
        FI_PROGRESS_AUTO = 1,
        /// The application, when it reads queues and counters.
        FI_PROGRESS_MANUAL = 2,
        /// As manual; control operations progress together with data operations.
        FI_PROGRESS_CONTROL_UNIFIED = 3,
    }
}

c_enum! {
    /// Objects that threads of the application may use at the same time. fi_domain(3)
    pub enum fi_threading {
        /// Any.
        FI_THREAD_UNSPEC = 0,
        /// All objects.
        FI_THREAD_SAFE = 1,
        /// Deprecated. Different objects.
        FI_THREAD_FID = 2,
        /// Objects of different domains.
        FI_THREAD_DOMAIN = 3,
        /// Endpoints with different completion queues and counters.
        FI_THREAD_COMPLETION = 4,
        /// Deprecated. Different endpoints.
        FI_THREAD_ENDPOINT = 5,
    }
}

c_enum! {
    /// The side that protects queues against overrun. fi_domain(3)
    pub enum fi_resource_mgmt {
        /// Any.
        FI_RM_UNSPEC = 0,
        /// The application.
        FI_RM_DISABLED = 1,
        /// The provider: posting returns -FI_EAGAIN when a queue is full.
        FI_RM_ENABLED = 2,
    }
}

c_enum! {
    /// Kinds of endpoints. fi_endpoint(3)
    pub enum fi_ep_type {
        /// Any.
        FI_EP_UNSPEC = 0,
        /// Reliable, connected to one peer.
        FI_EP_MSG = 1,
        /// Unreliable datagrams of limited size to any peer.
        FI_EP_DGRAM = 2,
        /// Reliable messages to any peer.
        FI_EP_RDM = 3,
    }
}

c_enum! {
    /// Where a device sits. fi_nic(3)
    pub enum fi_bus_type {
        FI_BUS_UNSPEC = 0,
        FI_BUS_UNKNOWN = 0,
        FI_BUS_PCI = 1,
    }
}

c_enum! {
    /// State of a device's link. fi_nic(3)
    pub enum fi_link_state {
        FI_LINK_UNKNOWN = 0,
        FI_LINK_DOWN = 1,
        FI_LINK_UP = 2,
    }
}

c_enum! {
    /// Types that fi_tostr prints; its `data` points to a value of that type. fi_fabric(3)
    pub enum fi_type {
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
    }
}

c_enum! {
    /// Type of a setting. fi_provider(3)
    pub enum fi_param_type {
        /// Text, char *.
        FI_PARAM_STRING = 0,
        /// A number, int.
        FI_PARAM_INT = 1,
        /// Yes or no in one of many spellings, int.
        FI_PARAM_BOOL = 2,
        /// A size, size_t.
        FI_PARAM_SIZE_T = 3,
    }
}

/// Any object.
pub type fid_t = *mut fid;
/// Identifies a peer in an address vector. fi_av(3)
pub type fi_addr_t = u64;

/// A piece of memory as elements of a datatype. fi_atomic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ioc {
    /// First element.
    pub addr: *mut c_void,
    /// Number of elements, not bytes.
    pub count: usize,
}

/// The sending side of an endpoint. fi_endpoint(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_tx_attr {
    /// FI_MSG, FI_RMA, ...; 0 in hints: those of the info.
    pub caps: u64,
    /// FI_CONTEXT, ...
    pub mode: u64,
    /// Default flags of operations whose call has no flags argument.
    pub op_flags: u64,
    /// FI_ORDER_*.
    pub msg_order: u64,
    /// Deprecated, 0.
    pub comp_order: u64,
    /// Most bytes of an inject operation.
    pub inject_size: usize,
    /// Most operations in flight.
    pub size: usize,
    /// Most pieces of local memory in one operation.
    pub iov_limit: usize,
    /// Most pieces of remote memory in one operation.
    pub rma_iov_limit: usize,
    /// FI_TC_*; from version 1.9 on.
    pub tclass: u32,
}

/// The receiving side of an endpoint. fi_endpoint(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_rx_attr {
    /// FI_MSG, FI_TAGGED, ...; 0 in hints: those of the info.
    pub caps: u64,
    /// FI_CONTEXT, ...
    pub mode: u64,
    /// Default flags of operations whose call has no flags argument.
    pub op_flags: u64,
    /// FI_ORDER_*.
    pub msg_order: u64,
    /// Deprecated, 0.
    pub comp_order: u64,
    /// Bytes of unexpected messages that the provider keeps.
    pub total_buffered_recv: usize,
    /// Most buffers posted.
    pub size: usize,
    /// Most pieces of memory in one buffer.
    pub iov_limit: usize,
}

/// An endpoint. fi_endpoint(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ep_attr {
    /// Kind; FI_EP_UNSPEC in hints matches all.
    pub r#type: fi_ep_type,
    /// FI_PROTO_*. Two endpoints can communicate if their protocol and protocol version are equal.
    pub protocol: u32,
    /// Version of the protocol; 0 in hints matches all.
    pub protocol_version: u32,
    /// Most bytes of a message.
    pub max_msg_size: usize,
    /// Bytes that FI_MSG_PREFIX leaves to the provider.
    pub msg_prefix_size: usize,
    /// Most bytes for which read after write keeps its order.
    pub max_order_raw_size: usize,
    /// Most bytes for which write after read keeps its order.
    pub max_order_war_size: usize,
    /// Most bytes for which write after write keeps its order.
    pub max_order_waw_size: usize,
    /// FI_TAG_*, or a pattern of bits whose runs are fields.
    pub mem_tag_format: u64,
    /// Transmit contexts, or FI_SHARED_CONTEXT.
    pub tx_ctx_cnt: usize,
    /// Receive contexts, or FI_SHARED_CONTEXT.
    pub rx_ctx_cnt: usize,
    /// Bytes of the key, or FI_AV_AUTH_KEY; from version 1.5 on.
    pub auth_key_size: usize,
    /// Authorization key, owned by the info. It should be at least 16 random bytes, because an eavesdropper on the
    /// handshake of a connection can guess shorter keys offline. fi_freeinfo wipes it.
    pub auth_key: *mut u8,
    // since 2.7
    /// With FI_XPU in the flags of fi_endpoint2: the device that uses the endpoint. fi_xpu(3)
    pub xpu_ctx: *mut fid_xpu_ctx,
    // since 2.8
    /// Bytes of a prepared send, read, write or atomic request; 0: the endpoint prepares none.
    pub max_tx_wr_size: usize,
    // since 2.8
    /// Bytes of a prepared receive.
    pub max_rx_wr_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_domain_attr_anonymous {
    /// Older name of `progress`.
    pub data_progress: fi_progress,
    /// The side that drives the progress of operations.
    pub progress: fi_progress,
}

/// A domain. fi_domain(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_domain_attr {
    /// An open domain that hints ask for.
    pub domain: *mut fid_domain,
    /// Name of the interface; owned by the info.
    pub name: *mut c_char,
    /// Objects that threads may use at the same time.
    pub threading: fi_threading,
    /// Deprecated. In hints it has no effect.
    pub control_progress: fi_progress,
    pub anonymous: fi_domain_attr_anonymous,
    /// The side that protects queues against overrun.
    pub resource_mgmt: fi_resource_mgmt,
    /// How address vectors assign fi_addr_t values.
    pub av_type: fi_av_type,
    /// FI_MR_* bits.
    pub mr_mode: c_int,
    /// Bytes of a region's key.
    pub mr_key_size: usize,
    /// Bytes of remote CQ data in a completion, 0 to 8.
    pub cq_data_size: usize,
    /// Optimal number of completion queues.
    pub cq_cnt: usize,
    /// How many endpoints can be open.
    pub ep_cnt: usize,
    /// How many transmit contexts can be open.
    pub tx_ctx_cnt: usize,
    /// How many receive contexts can be open.
    pub rx_ctx_cnt: usize,
    /// Most transmit contexts of one endpoint.
    pub max_ep_tx_ctx: usize,
    /// Most receive contexts of one endpoint.
    pub max_ep_rx_ctx: usize,
    /// Most shared transmit contexts.
    pub max_ep_stx_ctx: usize,
    /// Most shared receive contexts.
    pub max_ep_srx_ctx: usize,
    /// Optimal number of counters.
    pub cntr_cnt: usize,
    /// Most pieces of memory in one region.
    pub mr_iov_limit: usize,
    /// Capabilities of the domain itself; from version 1.5 on.
    pub caps: u64,
    /// Modes of the domain itself.
    pub mode: u64,
    /// Authorization key, owned by the info. It should be at least 16 random bytes, because an eavesdropper on the
    /// handshake of a connection can guess shorter keys offline. fi_freeinfo wipes it.
    pub auth_key: *mut u8,
    /// Bytes of the key, or FI_AV_AUTH_KEY.
    pub auth_key_size: usize,
    /// Most bytes of detail in an error entry.
    pub max_err_data: usize,
    /// How many regions can be registered.
    pub mr_cnt: usize,
    /// FI_TC_*; from version 1.9 on.
    pub tclass: u32,
    /// Most authorization keys of one endpoint; from version 1.20 on.
    pub max_ep_auth_key: usize,
    /// Most groups within an address vector; from version 2.0 on.
    pub max_group_id: u32,
    /// Largest value of a counter; from version 2.5 on.
    pub max_cntr_value: u64,
    /// Largest number of failures of a counter; from version 2.5 on.
    pub max_err_cntr_value: u64,
    // since 2.7
    /// How many contexts of devices can be open; 0: none. Output only. fi_xpu(3)
    pub max_xpu_ctx_cnt: usize,
}

/// A fabric. fi_fabric(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_fabric_attr {
    /// An open fabric that hints ask for.
    pub fabric: *mut fid_fabric,
    /// Name of the network; owned by the info.
    pub name: *mut c_char,
    /// Provider; layers are joined by ';'. In hints, a leading '^' excludes the provider.
    pub prov_name: *mut c_char,
    /// Version of the provider, FI_VERSION().
    pub prov_version: u32,
    /// Version that the application gave to fi_getinfo.
    pub api_version: u32,
}

/// A set of attributes that a provider offers, or that hints request. It owns its strings and
/// addresses. fi_getinfo(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_info {
    /// The next entry of the list, in order of preference, or NULL.
    pub next: *mut fi_info,
    /// Capabilities; 0 in hints: all that the provider offers without a request.
    pub caps: u64,
    /// Duties of the application; in hints the duties that it can fulfil.
    pub mode: u64,
    /// FI_SOCKADDR, FI_ADDR_STR, ...
    pub addr_format: u32,
    /// Bytes of src_addr.
    pub src_addrlen: usize,
    /// Bytes of dest_addr.
    pub dest_addrlen: usize,
    /// Local address, or NULL.
    pub src_addr: *mut c_void,
    /// Address of the peer, or NULL.
    pub dest_addr: *mut c_void,
    /// With FI_CONNREQ: the request, for fi_endpoint or fi_reject. Also an endpoint whose resources are
    /// shared.
    pub handle: fid_t,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    /// The network device, or NULL; from version 1.7 on.
    pub nic: *mut fid_nic,
}

/// A network device. Strings are owned by the NIC. fi_nic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_device_attr {
    pub name: *mut c_char,
    pub device_id: *mut c_char,
    pub device_version: *mut c_char,
    pub vendor_id: *mut c_char,
    pub driver: *mut c_char,
    pub firmware: *mut c_char,
}

/// A place on the PCI bus. fi_nic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_pci_attr {
    pub domain_id: u16,
    pub bus_id: u8,
    pub device_id: u8,
    pub function_id: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_bus_attr_attr {
    /// With FI_BUS_PCI.
    pub pci: fi_pci_attr,
}

/// A place on a bus. fi_nic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_bus_attr {
    pub bus_type: fi_bus_type,
    pub attr: fi_bus_attr_attr,
}

/// A link. fi_nic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_link_attr {
    /// Its address as text.
    pub address: *mut c_char,
    /// Largest packet, bytes.
    pub mtu: usize,
    /// Bits per second.
    pub speed: usize,
    pub state: fi_link_state,
    /// "Ethernet", "InfiniBand", ...
    pub network_type: *mut c_char,
}

/// Operations of every object. fi_fabric(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops {
    /// Bytes of the table in the version that filled it.
    pub size: usize,
    /// fi_close; -FI_EBUSY while objects made from it are open.
    pub close: Option<unsafe extern "C" fn(fid: *mut fid) -> c_int>,
    /// fi_ep_bind and the other bind calls.
    pub bind: Option<unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int>,
    /// fi_control.
    pub control:
        Option<unsafe extern "C" fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int>,
    /// fi_open_ops.
    pub ops_open: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    >,
    /// Prints the object for fi_tostr; returns bytes.
    pub tostr: Option<unsafe extern "C" fn(fid: *const fid, buf: *mut c_char, len: usize) -> c_int>,
    /// fi_set_ops.
    pub ops_set: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    >,
}

/// The first member of every object. fi_fabric(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid {
    /// FI_CLASS_*.
    pub fclass: usize,
    /// Context that the application passed when it opened the object.
    pub context: *mut c_void,
    /// Operations.
    pub ops: *mut fi_ops,
}

/// Operations of a fabric. fi_fabric(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub passive_ep: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            pep: *mut *mut fid_pep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub eq_open: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_eq_attr,
            eq: *mut *mut fid_eq,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub wait_open: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_wait_attr,
            waitset: *mut *mut fid_wait,
        ) -> c_int,
    >,
    pub trywait: Option<
        unsafe extern "C" fn(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int,
    >,
    pub domain2: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
}

/// A fabric: domains that can communicate with each other. fi_fabric(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    /// Version that the application gave to fi_getinfo.
    pub api_version: u32,
}

/// A network device. fi_nic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    /// Further attributes, in a type of the provider.
    pub prov_attr: *mut c_void,
}

/// Argument of FI_ALIAS. fi_control(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_alias {
    /// Out: the second handle.
    pub fid: *mut *mut fid,
    /// FI_TRANSMIT or FI_RECV with the flags of the handle.
    pub flags: u64,
}

/// Argument of FI_GET_VAL and FI_SET_VAL. fi_control(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_fid_var {
    pub name: c_int,
    pub val: *mut c_void,
}

/// Argument of FI_GET_RAW_MR. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_raw_attr {
    /// 0.
    pub flags: u64,
    /// Out: base address that peers add to offsets.
    pub base_addr: *mut u64,
    /// Out: the key.
    pub raw_key: *mut u8,
    /// In and out: bytes.
    pub key_size: *mut usize,
}

/// Argument of FI_MAP_RAW_MR. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_map_raw {
    pub flags: u64,
    pub base_addr: u64,
    pub raw_key: *mut u8,
    pub key_size: usize,
    /// Out: the 64-bit key to use instead.
    pub key: *mut u64,
}

// since 2.7
/// Argument of FI_GET_MR_XPU_DESC. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_xpu_desc {
    /// Room for the descriptor.
    pub buf: *mut c_void,
    /// In: bytes of room; out: bytes of the descriptor.
    pub len: *mut usize,
    /// 0, FI_XPU.
    pub flags: u64,
    pub ctx: *mut fid_xpu_ctx,
}

/// A setting. Strings are owned by the list. fi_fabric(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_param {
    /// Its environment variable.
    pub name: *const c_char,
    pub r#type: fi_param_type,
    /// Its help text.
    pub help_string: *const c_char,
    /// Its value as text, or NULL if it is not set.
    pub value: *const c_char,
}

/// Memory of the application that a provider uses while an operation is pending (FI_CONTEXT). Its
/// content is private to the provider. fi_getinfo(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_context {
    pub internal: [*mut c_void; 4],
}

/// The same for FI_CONTEXT2. fi_getinfo(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

/// A context together with the endpoint it belongs to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_recv_context {
    pub ep: *mut fid_ep,
    pub context: *mut c_void,
}
