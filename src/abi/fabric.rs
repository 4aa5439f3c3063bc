// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fabric.h>`: Objects, attributes, capabilities: fi_fabric(3), fi_getinfo(3), fi_control(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use super::fi_domain::fid_domain;
use super::fi_endpoint::{fid_ep, fid_pep};
use super::fi_eq::{fi_eq_attr, fi_wait_attr, fid_eq, fid_wait};

pub const FI_MAJOR_VERSION: u32 = 2;
pub const FI_MINOR_VERSION: u32 = 6;
pub const FI_REVISION_VERSION: u32 = 0;
pub const FI_NAME_MAX: u32 = 64;
pub const FI_ATOMIC_OP_LAST: u32 = 19;
pub const FI_DATATYPE_LAST: u32 = 14;
pub const FI_MSG: u64 = 1u64 << 1;
pub const FI_RMA: u64 = 1u64 << 2;
pub const FI_TAGGED: u64 = 1u64 << 3;
pub const FI_ATOMIC: u64 = 1u64 << 4;
pub const FI_ATOMICS: u64 = FI_ATOMIC;
pub const FI_MULTICAST: u64 = 1u64 << 5;
pub const FI_COLLECTIVE: u64 = 1u64 << 6;
pub const FI_READ: u64 = 1u64 << 8;
pub const FI_WRITE: u64 = 1u64 << 9;
pub const FI_RECV: u64 = 1u64 << 10;
pub const FI_SEND: u64 = 1u64 << 11;
pub const FI_TRANSMIT: u64 = FI_SEND;
pub const FI_REMOTE_READ: u64 = 1u64 << 12;
pub const FI_REMOTE_WRITE: u64 = 1u64 << 13;
pub const FI_MULTI_RECV: u64 = 1u64 << 16;
pub const FI_REMOTE_CQ_DATA: u64 = 1u64 << 17;
pub const FI_MORE: u64 = 1u64 << 18;
pub const FI_PEEK: u64 = 1u64 << 19;
pub const FI_TRIGGER: u64 = 1u64 << 20;
pub const FI_FENCE: u64 = 1u64 << 21;
pub const FI_COMPLETION: u64 = 1u64 << 24;
pub const FI_EVENT: u64 = FI_COMPLETION;
pub const FI_INJECT: u64 = 1u64 << 25;
pub const FI_INJECT_COMPLETE: u64 = 1u64 << 26;
pub const FI_TRANSMIT_COMPLETE: u64 = 1u64 << 27;
pub const FI_DELIVERY_COMPLETE: u64 = 1u64 << 28;
pub const FI_AFFINITY: u64 = 1u64 << 29;
pub const FI_COMMIT_COMPLETE: u64 = 1u64 << 30;
pub const FI_MATCH_COMPLETE: u64 = 1u64 << 31;
pub const FI_RESCAN: u64 = 1u64 << 35;
pub const FI_PEER_TRANSFER: u64 = 1u64 << 36;
pub const FI_AV_USER_ID: u64 = 1u64 << 41;
pub const FI_FIREWALL_ADDR: u64 = 1u64 << 42;
pub const FI_PEER: u64 = 1u64 << 43;
pub const FI_TAGGED_DIRECTED_RECV: u64 = 1u64 << 45;
pub const FI_TAGGED_MULTI_RECV: u64 = 1u64 << 46;
pub const FI_HMEM: u64 = 1u64 << 47;
pub const FI_EXACT_DIRECTED_RECV: u64 = 1u64 << 48;
pub const FI_RMA_PMEM: u64 = 1u64 << 49;
pub const FI_SOURCE_ERR: u64 = 1u64 << 50;
pub const FI_LOCAL_COMM: u64 = 1u64 << 51;
pub const FI_REMOTE_COMM: u64 = 1u64 << 52;
pub const FI_SHARED_AV: u64 = 1u64 << 53;
pub const FI_PROV_ATTR_ONLY: u64 = 1u64 << 54;
pub const FI_NUMERICHOST: u64 = 1u64 << 55;
pub const FI_RMA_EVENT: u64 = 1u64 << 56;
pub const FI_SOURCE: u64 = 1u64 << 57;
pub const FI_NAMED_RX_CTX: u64 = 1u64 << 58;
pub const FI_DIRECTED_RECV: u64 = 1u64 << 59;
pub const FI_CLAIM: u64 = 1u64 << 59;
pub const FI_DISCARD: u64 = 1u64 << 58;
pub const FI_AUTH_KEY: u64 = 1u64 << 57;
pub const FI_FORMAT_UNSPEC: u32 = 0;
pub const FI_SOCKADDR: u32 = 1;
pub const FI_SOCKADDR_IN: u32 = 2;
pub const FI_SOCKADDR_IN6: u32 = 3;
pub const FI_SOCKADDR_IB: u32 = 4;
pub const FI_ADDR_PSMX: u32 = 5;
pub const FI_ADDR_GNI: u32 = 6;
pub const FI_ADDR_BGQ: u32 = 7;
pub const FI_ADDR_MLX: u32 = 8;
pub const FI_ADDR_STR: u32 = 9;
pub const FI_ADDR_PSMX2: u32 = 10;
pub const FI_ADDR_IB_UD: u32 = 11;
pub const FI_ADDR_EFA: u32 = 12;
pub const FI_ADDR_PSMX3: u32 = 13;
pub const FI_ADDR_OPX: u32 = 14;
pub const FI_ADDR_CXI: u32 = 15;
pub const FI_ADDR_UCX: u32 = 16;
pub const FI_SOCKADDR_IP: u32 = 17;
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
pub const FI_SHARED_CONTEXT: usize = usize::MAX;
pub const FI_AV_AUTH_KEY: usize = usize::MAX;
pub const FI_MR_UNSPEC: c_int = 0;
pub const FI_MR_BASIC: c_int = 1;
pub const FI_MR_SCALABLE: c_int = 2;
pub const FI_MR_LOCAL: c_int = 4;
pub const FI_MR_RAW: c_int = 8;
pub const FI_MR_VIRT_ADDR: c_int = 16;
pub const FI_MR_ALLOCATED: c_int = 32;
pub const FI_MR_PROV_KEY: c_int = 64;
pub const FI_MR_MMU_NOTIFY: c_int = 128;
pub const FI_MR_RMA_EVENT: c_int = 256;
pub const FI_MR_ENDPOINT: c_int = 512;
pub const FI_MR_HMEM: c_int = 1024;
pub const FI_MR_COLLECTIVE: c_int = 2048;
pub const FI_ORDER_NONE: u64 = 0u64;
pub const FI_ORDER_RAR: u64 = 1u64 << 0;
pub const FI_ORDER_RAW: u64 = 1u64 << 1;
pub const FI_ORDER_RAS: u64 = 1u64 << 2;
pub const FI_ORDER_WAR: u64 = 1u64 << 3;
pub const FI_ORDER_WAW: u64 = 1u64 << 4;
pub const FI_ORDER_WAS: u64 = 1u64 << 5;
pub const FI_ORDER_SAR: u64 = 1u64 << 6;
pub const FI_ORDER_SAW: u64 = 1u64 << 7;
pub const FI_ORDER_SAS: u64 = 1u64 << 8;
pub const FI_ORDER_STRICT: c_int = 511;
pub const FI_ORDER_RMA_RAR: u64 = 1u64 << 32;
pub const FI_ORDER_RMA_RAW: u64 = 1u64 << 33;
pub const FI_ORDER_RMA_WAR: u64 = 1u64 << 34;
pub const FI_ORDER_RMA_WAW: u64 = 1u64 << 35;
pub const FI_ORDER_ATOMIC_RAR: u64 = 1u64 << 36;
pub const FI_ORDER_ATOMIC_RAW: u64 = 1u64 << 37;
pub const FI_ORDER_ATOMIC_WAR: u64 = 1u64 << 38;
pub const FI_ORDER_ATOMIC_WAW: u64 = 1u64 << 39;
pub const FI_ORDER_DATA: u64 = 1u64 << 16;
pub const FI_PROTO_UNSPEC: u32 = 0;
pub const FI_PROTO_RDMA_CM_IB_RC: u32 = 1;
pub const FI_PROTO_IWARP: u32 = 2;
pub const FI_PROTO_IB_UD: u32 = 3;
pub const FI_PROTO_PSMX: u32 = 4;
pub const FI_PROTO_UDP: u32 = 5;
pub const FI_PROTO_SOCK_TCP: u32 = 6;
pub const FI_PROTO_MXM: u32 = 7;
pub const FI_PROTO_IWARP_RDM: u32 = 8;
pub const FI_PROTO_IB_RDM: u32 = 9;
pub const FI_PROTO_GNI: u32 = 10;
pub const FI_PROTO_RXM: u32 = 11;
pub const FI_PROTO_RXD: u32 = 12;
pub const FI_PROTO_MLX: u32 = 13;
pub const FI_PROTO_NETWORKDIRECT: u32 = 14;
pub const FI_PROTO_PSMX2: u32 = 15;
pub const FI_PROTO_SHM: u32 = 16;
pub const FI_PROTO_MRAIL: u32 = 17;
pub const FI_PROTO_RSTREAM: u32 = 18;
pub const FI_PROTO_RDMA_CM_IB_XRC: u32 = 19;
pub const FI_PROTO_EFA: u32 = 20;
pub const FI_PROTO_PSMX3: u32 = 21;
pub const FI_PROTO_RXM_TCP: u32 = 22;
pub const FI_PROTO_OPX: u32 = 23;
pub const FI_PROTO_CXI: u32 = 24;
pub const FI_PROTO_XNET: u32 = 25;
pub const FI_PROTO_COLL: u32 = 26;
pub const FI_PROTO_UCX: u32 = 27;
pub const FI_PROTO_SM2: u32 = 28;
pub const FI_PROTO_CXI_RNR: u32 = 29;
pub const FI_PROTO_LPP: u32 = 30;
pub const FI_PROTO_LNX: u32 = 31;
pub const FI_TAG_BITS: u32 = 0;
pub const FI_TAG_MPI: u32 = 1;
pub const FI_TAG_CCL: u32 = 2;
pub const FI_TAG_MAX_FORMAT: u32 = 65536;
pub const FI_TC_UNSPEC: u32 = 0;
pub const FI_TC_DSCP: u32 = 256;
pub const FI_TC_LABEL: u32 = 512;
pub const FI_TC_BEST_EFFORT: u32 = 512;
pub const FI_TC_LOW_LATENCY: u32 = 513;
pub const FI_TC_DEDICATED_ACCESS: u32 = 514;
pub const FI_TC_BULK_DATA: u32 = 515;
pub const FI_TC_SCAVENGER: u32 = 516;
pub const FI_TC_NETWORK_CTRL: u32 = 517;
pub const FI_CONTEXT: u64 = 1u64 << 59;
pub const FI_MSG_PREFIX: u64 = 1u64 << 58;
pub const FI_ASYNC_IOV: u64 = 1u64 << 57;
pub const FI_RX_CQ_DATA: u64 = 1u64 << 56;
pub const FI_LOCAL_MR: u64 = 1u64 << 55;
pub const FI_CONTEXT2: u64 = 1u64 << 52;
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
pub const FI_SELECTIVE_COMPLETION: u64 = 1u64 << 59;
pub const FI_GETFIDFLAG: u32 = 0;
pub const FI_SETFIDFLAG: u32 = 1;
pub const FI_GETOPSFLAG: u32 = 2;
pub const FI_SETOPSFLAG: u32 = 3;
pub const FI_ALIAS: u32 = 4;
pub const FI_GETWAIT: u32 = 5;
pub const FI_ENABLE: u32 = 6;
pub const FI_BACKLOG: u32 = 7;
pub const FI_GET_RAW_MR: u32 = 8;
pub const FI_MAP_RAW_MR: u32 = 9;
pub const FI_UNMAP_KEY: u32 = 10;
pub const FI_QUEUE_WORK: u32 = 11;
pub const FI_CANCEL_WORK: u32 = 12;
pub const FI_FLUSH_WORK: u32 = 13;
pub const FI_REFRESH: u32 = 14;
pub const FI_DUP: u32 = 15;
pub const FI_GETWAITOBJ: u32 = 16;
pub const FI_GET_VAL: u32 = 17;
pub const FI_SET_VAL: u32 = 18;
pub const FI_EXPORT_FID: u32 = 19;
pub const FI_GET_FD: u32 = 20;
pub const FI_VARIABLE_MSG: u64 = 0u64;
pub const FI_NOTIFY_FLAGS_ONLY: u64 = 0u64;
pub const FI_RESTRICTED_COMP: u64 = 0u64;
pub const FI_EP_SOCK_STREAM: fi_ep_type = FI_EP_UNSPEC;

c_enum! {
    pub enum fi_av_type {
        FI_AV_UNSPEC = 0,
        FI_AV_MAP = 1,
        FI_AV_TABLE = 2,
    }
}

c_enum! {
    pub enum fi_progress {
        FI_PROGRESS_UNSPEC = 0,
        FI_PROGRESS_AUTO = 1,
        FI_PROGRESS_MANUAL = 2,
        FI_PROGRESS_CONTROL_UNIFIED = 3,
    }
}

c_enum! {
    pub enum fi_threading {
        FI_THREAD_UNSPEC = 0,
        FI_THREAD_SAFE = 1,
        FI_THREAD_FID = 2,
        FI_THREAD_DOMAIN = 3,
        FI_THREAD_COMPLETION = 4,
        FI_THREAD_ENDPOINT = 5,
    }
}

c_enum! {
    pub enum fi_resource_mgmt {
        FI_RM_UNSPEC = 0,
        FI_RM_DISABLED = 1,
        FI_RM_ENABLED = 2,
    }
}

c_enum! {
    pub enum fi_ep_type {
        FI_EP_UNSPEC = 0,
        FI_EP_MSG = 1,
        FI_EP_DGRAM = 2,
        FI_EP_RDM = 3,
    }
}

c_enum! {
    pub enum fi_bus_type {
        FI_BUS_UNSPEC = 0,
        FI_BUS_UNKNOWN = 0,
        FI_BUS_PCI = 1,
    }
}

c_enum! {
    pub enum fi_link_state {
        FI_LINK_UNKNOWN = 0,
        FI_LINK_DOWN = 1,
        FI_LINK_UP = 2,
    }
}

c_enum! {
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
    pub enum fi_param_type {
        FI_PARAM_STRING = 0,
        FI_PARAM_INT = 1,
        FI_PARAM_BOOL = 2,
        FI_PARAM_SIZE_T = 3,
    }
}

pub type fid_t = *mut fid;
pub type fi_addr_t = u64;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ep_attr {
    pub r#type: fi_ep_type,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_domain_attr_anonymous {
    pub data_progress: fi_progress,
    pub progress: fi_progress,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: fi_threading,
    pub control_progress: fi_progress,
    pub anonymous: fi_domain_attr_anonymous,
    pub resource_mgmt: fi_resource_mgmt,
    pub av_type: fi_av_type,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
    pub max_ep_auth_key: usize,
    pub max_group_id: u32,
    pub max_cntr_value: u64,
    pub max_err_cntr_value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: fid_t,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut fid_nic,
}

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
    pub pci: fi_pci_attr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_bus_attr {
    pub bus_type: fi_bus_type,
    pub attr: fi_bus_attr_attr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_link_attr {
    pub address: *mut c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: fi_link_state,
    pub network_type: *mut c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(fid: *mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int>,
    pub control:
        Option<unsafe extern "C" fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int>,
    pub ops_open: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub tostr: Option<unsafe extern "C" fn(fid: *const fid, buf: *mut c_char, len: usize) -> c_int>,
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

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

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

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_alias {
    pub fid: *mut *mut fid,
    pub flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_fid_var {
    pub name: c_int,
    pub val: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_raw_attr {
    pub flags: u64,
    pub base_addr: *mut u64,
    pub raw_key: *mut u8,
    pub key_size: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_map_raw {
    pub flags: u64,
    pub base_addr: u64,
    pub raw_key: *mut u8,
    pub key_size: usize,
    pub key: *mut u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_param {
    pub name: *const c_char,
    pub r#type: fi_param_type,
    pub help_string: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_context {
    pub internal: [*mut c_void; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_recv_context {
    pub ep: *mut fid_ep,
    pub context: *mut c_void,
}
