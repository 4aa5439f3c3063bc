// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_xpu.h>`: Devices that start transfers by themselves: fi_xpu(3). No provider here serves them.
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_int, c_void};

use super::fabric::fid;
use super::fi_domain::fi_hmem_iface;

/// For fi_xpu_ops.alloc: the memory is exported as a dma-buf, too.
pub const FI_XPU_ALLOC_DMABUF: u64 = 1u64;
/// For fi_xpu_ops.import: the address belongs to a device (BAR).
pub const FI_XPU_IMPORT_IOMEMORY: u64 = 1u64;
/// For fi_xpu_ops.import: programs of the device can use the result.
pub const FI_XPU_IMPORT_DEVICEMAP: u64 = 2u64;
/// Objects that the device can have: fi_xpu_ctx_attr.caps.
pub const FI_XPU_CAP_EP: u64 = 1u64;
pub const FI_XPU_CAP_CQ: u64 = 2u64;
pub const FI_XPU_CAP_CNTR: u64 = 4u64;
// since 2.8
pub const FI_XPU_CAP_WR: u64 = 8u64;
/// Groups of device threads that make a call together.
pub const FI_XPU_WORK_ITEM: u32 = 0;
pub const FI_XPU_SUBGROUP: u32 = 1;
pub const FI_XPU_WORK_GROUP: u32 = 2;
pub const FI_XPU_DEVICE: u32 = 3;

c_enum! {
    /// The provider whose code serves an exported object on the device.
    pub enum fi_xpu_provider {
        FI_XPU_PROV_EFA = 1,
    }
}

/// Functions of the application that manage the memory of a device. fi_xpu(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_xpu_ops {
    /// Bytes of this struct.
    pub size: usize,
    pub alloc: Option<
        unsafe extern "C" fn(
            device: u64,
            size: u64,
            alignment: u64,
            flags: u64,
            addr: *mut *mut c_void,
            fd: *mut c_int,
            offset: *mut u64,
        ) -> c_int,
    >,
    pub import: Option<
        unsafe extern "C" fn(
            device: u64,
            host_addr: *mut c_void,
            size: u64,
            flags: u64,
            dev_addr: *mut *mut c_void,
        ) -> c_int,
    >,
    // since 2.8
    /// Undoes an import of this address when the object that needed it closes. This member moved `free`: a
    /// struct of release 2.7 has 32 in `size` and `free` in this place; a struct with this member has 40.
    pub unimport: Option<unsafe extern "C" fn(device: u64, host_addr: *mut c_void) -> c_int>,
    pub free: Option<unsafe extern "C" fn(device: u64, addr: *mut c_void)>,
}

/// A device. fi_xpu(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_xpu_attr {
    pub iface: fi_hmem_iface,
    /// Its number.
    pub device: u64,
    /// NULL: the provider uses its own functions.
    pub ops: *mut fi_xpu_ops,
}

/// Attributes of the context of a device. fi_xpu(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_xpu_ctx_attr {
    /// FI_XPU_CAP_* bits.
    pub caps: u64,
    /// Bytes that fi_av_lookup2 writes.
    pub av_addr_size: usize,
    /// Bytes that fi_mr_get_xpu_desc writes.
    pub mr_desc_size: usize,
    // since 2.8
    /// Bytes of a request that sends, reads or writes, prepared for the device. A provider fills this and
    /// the next member only if the application asked fi_getinfo for version 2.8 or later.
    pub max_tx_wr_desc_size: usize,
    // since 2.8
    /// Bytes of a receive, prepared for the device.
    pub max_rx_wr_desc_size: usize,
}

/// Operations of a device's context. fi_xpu(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_xpu_ctx {
    pub size: usize,
    pub query:
        Option<unsafe extern "C" fn(ctx: *mut fid_xpu_ctx, attr: *mut fi_xpu_ctx_attr) -> c_int>,
}

/// The context of a device. fi_xpu(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_xpu_ctx {
    pub fid: fid,
    pub ops: *mut fi_ops_xpu_ctx,
}

/// An exported object on the device; it has no `struct fid`. fi_xpu(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_xpu {
    /// FI_CLASS_EP, FI_CLASS_CQ or FI_CLASS_CNTR.
    pub fclass: u32,
    /// FI_XPU_PROV_*.
    pub prov_id: u32,
    /// Private to the provider.
    pub prov_ctx: u64,
}

/// An endpoint on a device. fi_endpoint(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_xpu_ep {
    pub fid: fid_xpu,
}

/// A completion queue on a device. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_xpu_cq {
    pub fid: fid_xpu,
}

/// A counter on a device. fi_cntr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_xpu_cntr {
    pub fid: fid_xpu,
}
