// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_domain.h>`: Domains, address vectors, memory regions: fi_domain(3), fi_av(3), fi_mr(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use libc::{iovec, ssize_t};

use super::fabric::{fi_addr_t, fi_av_type, fi_info, fi_rx_attr, fi_tx_attr, fid};
use super::fi_atomic::fi_atomic_attr;
use super::fi_collective::{fi_collective_attr, fid_av_set};
use super::fi_endpoint::{fid_ep, fid_stx};
use super::fi_eq::{fi_cntr_attr, fi_cq_attr, fi_poll_attr, fid_cntr, fid_cq, fid_poll};
use super::fi_xpu::{fi_xpu_attr, fid_xpu_ctx};

/// For an address vector: each machine has the same number of endpoints, in the same order.
pub const FI_SYMMETRIC: u64 = 1u64 << 59;
/// For fi_av_insert: `context` is an array of int, one error for each address.
pub const FI_SYNC_ERR: u64 = 1u64 << 58;
/// For an address set: all addresses of the vector.
pub const FI_UNIVERSE: u64 = 1u64 << 57;
/// For an address set: the collectives that use it.
pub const FI_BARRIER_SET: u64 = 1u64 << 40;
pub const FI_BROADCAST_SET: u64 = 1u64 << 41;
pub const FI_ALLTOALL_SET: u64 = 1u64 << 42;
pub const FI_ALLREDUCE_SET: u64 = 1u64 << 43;
pub const FI_ALLGATHER_SET: u64 = 1u64 << 44;
pub const FI_REDUCE_SCATTER_SET: u64 = 1u64 << 45;
pub const FI_REDUCE_SET: u64 = 1u64 << 46;
pub const FI_SCATTER_SET: u64 = 1u64 << 47;
pub const FI_GATHER_SET: u64 = 1u64 << 48;
/// For fi_mr_regattr: the attribute has `dmabuf`, not `mr_iov`.
pub const FI_MR_DMABUF: u64 = 1u64 << 40;
/// For a region: the key is invalid after one access.
pub const FI_MR_SINGLE_USE: u64 = 1u64 << 41;
/// For a region: memory of the host, allocated by the functions of a device.
pub const FI_HMEM_HOST_ALLOC: u64 = 1u64 << 45;
/// For a region: memory that only the device reads and writes.
pub const FI_HMEM_DEVICE_ONLY: u64 = 1u64 << 46;
/// Values of FI_VOID and FI_NOOP.
pub const FI_COLLECTIVE_OFFSET: c_int = 256;
/// Deprecated. For fi_domain_bind: regions are registered asynchronously.
pub const FI_REG_MR: u64 = 1u64 << 59;

c_enum! {
    /// The interface that manages a piece of memory. fi_mr(3)
    pub enum fi_hmem_iface {
        /// Host memory.
        FI_HMEM_SYSTEM = 0,
        /// NVIDIA CUDA.
        FI_HMEM_CUDA = 1,
        /// AMD ROCm.
        FI_HMEM_ROCR = 2,
        /// Intel Level Zero.
        FI_HMEM_ZE = 3,
        /// AWS Neuron.
        FI_HMEM_NEURON = 4,
        /// Habana SynapseAI.
        FI_HMEM_SYNAPSEAI = 5,
    }
}

c_enum! {
    /// Types of elements. fi_atomic(3)
    pub enum fi_datatype {
        FI_INT8 = 0,
        FI_UINT8 = 1,
        FI_INT16 = 2,
        FI_UINT16 = 3,
        FI_INT32 = 4,
        FI_UINT32 = 5,
        FI_INT64 = 6,
        FI_UINT64 = 7,
        FI_FLOAT = 8,
        FI_DOUBLE = 9,
        FI_FLOAT_COMPLEX = 10,
        FI_DOUBLE_COMPLEX = 11,
        FI_LONG_DOUBLE = 12,
        FI_LONG_DOUBLE_COMPLEX = 13,
        FI_INT128 = 14,
        FI_UINT128 = 15,
        FI_FLOAT16 = 16,
        FI_BFLOAT16 = 17,
        FI_FLOAT8_E4M3 = 18,
        FI_FLOAT8_E5M2 = 19,
        /// No type: for FI_BARRIER and data that is only moved.
        FI_VOID = 256,
    }
}

c_enum! {
    /// Operations on two elements. fi_atomic(3)
    pub enum fi_op {
        FI_MIN = 0,
        FI_MAX = 1,
        FI_SUM = 2,
        FI_PROD = 3,
        /// Logical or. The prefix L means logical, B means bitwise.
        FI_LOR = 4,
        FI_LAND = 5,
        FI_BOR = 6,
        FI_BAND = 7,
        FI_LXOR = 8,
        FI_BXOR = 9,
        FI_ATOMIC_READ = 10,
        FI_ATOMIC_WRITE = 11,
        /// Writes if compare == target; the next ones !=, <=, <, >=, >.
        FI_CSWAP = 12,
        FI_CSWAP_NE = 13,
        FI_CSWAP_LE = 14,
        FI_CSWAP_LT = 15,
        FI_CSWAP_GE = 16,
        FI_CSWAP_GT = 17,
        /// Writes the bits that are set in compare.
        FI_MSWAP = 18,
        /// target - source.
        FI_DIFF = 19,
        /// Nothing: for collectives that only move data.
        FI_NOOP = 256,
    }
}

c_enum! {
    /// Collective operations. fi_collective(3)
    pub enum fi_collective_op {
        FI_BARRIER = 0,
        FI_BROADCAST = 1,
        FI_ALLTOALL = 2,
        FI_ALLREDUCE = 3,
        FI_ALLGATHER = 4,
        FI_REDUCE_SCATTER = 5,
        FI_REDUCE = 6,
        FI_SCATTER = 7,
        FI_GATHER = 8,
    }
}

/// An address vector. fi_av(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_av_attr {
    pub r#type: fi_av_type,
    /// Upper bits of an fi_addr_t that select a receive context, see fi_rx_addr.
    pub rx_ctx_bits: c_int,
    /// How many addresses are expected; 0: unknown.
    pub count: usize,
    /// How many endpoints share one network address; 0: unknown.
    pub ep_per_node: usize,
    /// Name of a vector that processes share, or NULL.
    pub name: *const c_char,
    /// In: processes that pass the same value share fi_addr_t values. Out, for a named vector: array of
    /// its fi_addr_t values.
    pub map_addr: *mut c_void,
    /// FI_READ for a shared vector that this process only reads, FI_SYMMETRIC, FI_AV_USER_ID, FI_PEER.
    pub flags: u64,
}

/// A set of addresses. fi_av_set(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_av_set_attr {
    /// How many addresses are expected.
    pub count: usize,
    /// First of a range, or FI_ADDR_NOTAVAIL for an empty set.
    pub start_addr: fi_addr_t,
    /// Last of the range.
    pub end_addr: fi_addr_t,
    /// Distance within the range, at least 1.
    pub stride: u64,
    /// Bytes of comm_key.
    pub comm_key_size: usize,
    /// A key that all members share.
    pub comm_key: *mut u8,
    /// FI_UNIVERSE, FI_*_SET.
    pub flags: u64,
}

/// Operations of an address vector. fi_av(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            addr: *const c_void,
            count: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub insertsvc: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            node: *const c_char,
            service: *const c_char,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub insertsym: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            node: *const c_char,
            nodecnt: usize,
            service: *const c_char,
            svccnt: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub remove: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: *mut fi_addr_t,
            count: usize,
            flags: u64,
        ) -> c_int,
    >,
    pub lookup: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            addr: *mut c_void,
            addrlen: *mut usize,
        ) -> c_int,
    >,
    pub straddr: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            addr: *const c_void,
            buf: *mut c_char,
            len: *mut usize,
        ) -> *const c_char,
    >,
    pub av_set: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            attr: *mut fi_av_set_attr,
            av_set: *mut *mut fid_av_set,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub insert_auth_key: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            auth_key: *const c_void,
            auth_key_size: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
        ) -> c_int,
    >,
    pub lookup_auth_key: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            auth_key: *mut c_void,
            auth_key_size: *mut usize,
        ) -> c_int,
    >,
    pub set_user_id: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            user_id: fi_addr_t,
            flags: u64,
        ) -> c_int,
    >,
    // since 2.7
    pub lookup2: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            buf: *mut c_void,
            len: *mut usize,
            flags: u64,
            ctx: *mut fid_xpu_ctx,
        ) -> c_int,
    >,
}

/// An address vector. fi_av(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

/// A memory region. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_mr {
    pub fid: fid,
    /// The `desc` argument of local operations.
    pub mem_desc: *mut c_void,
    /// The `key` that peers name the region by, or FI_KEY_NOTAVAIL.
    pub key: u64,
}

/// Device memory as a dma-buf. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_dmabuf {
    /// Its file descriptor.
    pub fd: c_int,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
    /// Its virtual address, or NULL.
    pub base_addr: *mut c_void,
}

/// A key for one region, with FI_AV_AUTH_KEY. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_auth_key {
    pub av: *mut fid_av,
    pub src_addr: fi_addr_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_mr_attr_anonymous {
    /// Pieces of memory. Peers address a region of several pieces as one range.
    pub mr_iov: *const iovec,
    /// With FI_MR_DMABUF.
    pub dmabuf: *const fi_mr_dmabuf,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_mr_attr_device {
    /// The number of the device, by `iface`.
    pub reserved: u64,
    pub cuda: c_int,
    /// From fi_hmem_ze_device.
    pub ze: c_int,
    pub neuron: c_int,
    pub synapseai: c_int,
    pub rocr: c_int,
}

/// A memory region. The struct grew at versions 1.5, 1.9, 1.19, 1.22 and 2.0; the library reads only
/// the members of the version that the application requested. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_attr {
    pub anonymous: fi_mr_attr_anonymous,
    /// Number of pieces.
    pub iov_count: usize,
    /// FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE.
    pub access: u64,
    /// 0.
    pub offset: u64,
    /// The key; ignored with FI_MR_PROV_KEY.
    pub requested_key: u64,
    /// Context of the region.
    pub context: *mut c_void,
    /// Bytes of auth_key; from version 1.5 on.
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    /// The interface that manages the memory; from version 1.9 on.
    pub iface: fi_hmem_iface,
    /// Which device.
    pub device: fi_mr_attr_device,
    /// Further attributes that depend on `iface`; from version 1.19 on.
    pub hmem_data: *mut c_void,
    /// Size of the pages, or 0; from version 1.22 on.
    pub page_size: usize,
    /// The region this one is a part of, or NULL; from version 2.0 on.
    pub base_mr: *const fid_mr,
    /// How many sub-regions of this region are expected.
    pub sub_mr_cnt: usize,
}

/// Argument of FI_REFRESH. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mr_modify {
    pub flags: u64,
    pub attr: fi_mr_attr,
}

/// Functions of the application that copy device memory, for fi_set_ops with
/// FI_SET_OPS_HMEM_OVERRIDE. They return the number of bytes. fi_domain(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_hmem_override_ops {
    pub size: usize,
    pub copy_from_hmem_iov: Option<
        unsafe extern "C" fn(
            dest: *mut c_void,
            size: usize,
            iface: fi_hmem_iface,
            device: u64,
            hmem_iov: *const iovec,
            hmem_iov_count: usize,
            hmem_iov_offset: u64,
        ) -> ssize_t,
    >,
    pub copy_to_hmem_iov: Option<
        unsafe extern "C" fn(
            iface: fi_hmem_iface,
            device: u64,
            hmem_iov: *const iovec,
            hmem_iov_count: usize,
            hmem_iov_offset: u64,
            src: *const c_void,
            size: usize,
        ) -> ssize_t,
    >,
}

/// Operations of a domain. fi_domain(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_av_attr,
            av: *mut *mut fid_av,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cq_open: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_cq_attr,
            cq: *mut *mut fid_cq,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub endpoint: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub scalable_ep: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            sep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cntr_open: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_cntr_attr,
            cntr: *mut *mut fid_cntr,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub poll_open: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_poll_attr,
            pollset: *mut *mut fid_poll,
        ) -> c_int,
    >,
    pub stx_ctx: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_tx_attr,
            stx: *mut *mut fid_stx,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub srx_ctx: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub query_atomic: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            datatype: fi_datatype,
            op: fi_op,
            attr: *mut fi_atomic_attr,
            flags: u64,
        ) -> c_int,
    >,
    pub query_collective: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            coll: fi_collective_op,
            attr: *mut fi_collective_attr,
            flags: u64,
        ) -> c_int,
    >,
    pub endpoint2: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
    // since 2.7
    pub xpu_ctx: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_xpu_attr,
            ctx: *mut *mut fid_xpu_ctx,
            context: *mut c_void,
        ) -> c_int,
    >,
}

/// Registration of memory; `fid` is the domain. fi_mr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            buf: *const c_void,
            len: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub regv: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            iov: *const iovec,
            count: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub regattr: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            attr: *const fi_mr_attr,
            flags: u64,
            mr: *mut *mut fid_mr,
        ) -> c_int,
    >,
}

/// A domain: one interface, or a set of them. fi_domain(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}
