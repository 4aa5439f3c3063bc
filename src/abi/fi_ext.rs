// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_ext.h>`: Extensions: imported logging and memory monitors, provider options.
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use super::fabric::fid;
use super::fi_log::{fi_log_level, fi_log_subsys};
use super::fi_prov::fi_provider;

/// Options from here on, negated, belong to the provider efa.
pub const FI_PROV_SPECIFIC_EFA: c_int = 251265024;
/// Options from here on, negated, belong to the provider tcp.
pub const FI_PROV_SPECIFIC_TCP: c_int = 130744320;
/// Options of the provider efa for fi_setopt and fi_getopt.
pub const FI_OPT_EFA_RNR_RETRY: c_int = -251265024;
pub const FI_OPT_EFA_EMULATED_READ: c_int = -251265023;
pub const FI_OPT_EFA_EMULATED_WRITE: c_int = -251265022;
pub const FI_OPT_EFA_EMULATED_ATOMICS: c_int = -251265021;
pub const FI_OPT_EFA_USE_DEVICE_RDMA: c_int = -251265020;
pub const FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES: c_int = -251265019;
pub const FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES: c_int = -251265018;
pub const FI_OPT_EFA_HOMOGENEOUS_PEERS: c_int = -251265017;
pub const FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV: c_int = -251265016;
/// For fi_ops_log: the provider is one that FI_PROVIDER leaves out.
pub const FI_LOG_PROV_FILTERED: u64 = 1u64 << 0;

/// Argument of FI_EXPORT_FID. fi_open(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_fid_export {
    pub fid: *mut *mut fid,
    pub flags: u64,
    pub context: *mut c_void,
}

/// A memory monitor of the application: the library calls these. fi_open(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_mem_monitor {
    pub size: usize,
    /// Begins to watch.
    pub start: Option<unsafe extern "C" fn(monitor: *mut fid_mem_monitor) -> c_int>,
    /// Stops watching.
    pub stop: Option<unsafe extern "C" fn(monitor: *mut fid_mem_monitor)>,
    /// Watches a range of memory.
    pub subscribe: Option<
        unsafe extern "C" fn(
            monitor: *mut fid_mem_monitor,
            addr: *const c_void,
            len: usize,
        ) -> c_int,
    >,
    /// Stops watching a range.
    pub unsubscribe: Option<
        unsafe extern "C" fn(monitor: *mut fid_mem_monitor, addr: *const c_void, len: usize),
    >,
    /// Whether the range still refers to the same memory.
    pub valid: Option<
        unsafe extern "C" fn(
            monitor: *mut fid_mem_monitor,
            addr: *const c_void,
            len: usize,
        ) -> bool,
    >,
}

/// Functions of the library that the monitor calls. fi_open(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_mem_notify {
    pub size: usize,
    /// Reports that the range was unmapped or remapped.
    pub notify: Option<
        unsafe extern "C" fn(monitor: *mut fid_mem_monitor, addr: *const c_void, len: usize),
    >,
}

/// A memory monitor; FI_CLASS_MEM_MONITOR. fi_open(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_mem_monitor {
    pub fid: fid,
    /// Filled by the application.
    pub export_ops: *mut fi_ops_mem_monitor,
    /// Filled by the library.
    pub import_ops: *mut fi_ops_mem_notify,
}

/// Log functions of the application, see fi_import_log. fi_provider(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_log {
    pub size: usize,
    /// Whether lines of this level and subsystem are logged.
    pub enabled: Option<
        unsafe extern "C" fn(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            flags: u64,
        ) -> c_int,
    >,
    /// The same for lines that repeat.
    pub ready: Option<
        unsafe extern "C" fn(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            flags: u64,
            showtime: *mut u64,
        ) -> c_int,
    >,
    /// Writes a line.
    pub log: Option<
        unsafe extern "C" fn(
            prov: *const fi_provider,
            level: fi_log_level,
            subsys: fi_log_subsys,
            func: *const c_char,
            line: c_int,
            msg: *const c_char,
        ),
    >,
}

/// Argument of fi_import_log. fi_provider(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_logging {
    pub fid: fid,
    pub ops: *mut fi_ops_log,
}
