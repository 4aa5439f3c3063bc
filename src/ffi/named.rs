// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The named functions of libfabric.so.1 that create handles: fi_getinfo(3), fi_fabric(3). The library uses its own;
//! programs use linked.rs instead.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::{fi_fabric_attr, fi_info, fid_fabric};

unsafe extern "C" {
    pub fn fi_getinfo(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int;
    pub fn fi_freeinfo(info: *mut fi_info);
    pub fn fi_fabric(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int;
}
