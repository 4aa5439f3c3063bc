// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions that create handles, of the libfabric.so.1 that the program runs with: fi_getinfo(3), fi_fabric(3).
//!
//! Functions with several versions are bound to the newest of libfabric 2.6, not to this library's newest, so that the
//! programs run there. Returned structs have the layout of the loaded library; later members are at the end of each,
//! and the programs do not read them.

use core::ffi::{c_char, c_int, c_void};

use abi::{fi_fabric_attr, fi_info, fid_fabric};
use client::library::Library;

use crate::failure::Failure;

unsafe extern "C" {
    #[link_name = "fi_getinfo@FABRIC_1.9"]
    pub fn fi_getinfo(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int;
    #[link_name = "fi_freeinfo@FABRIC_1.9"]
    pub fn fi_freeinfo(info: *mut fi_info);
    #[link_name = "fi_dupinfo@FABRIC_1.9"]
    pub fn fi_dupinfo(info: *const fi_info) -> *mut fi_info;
    pub fn fi_fabric(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int;
}

/// Makes the linked library the one that `client` calls.
pub fn install() {
    let linked = Library {
        getinfo: fi_getinfo,
        freeinfo: fi_freeinfo,
        fabric: fi_fabric,
        unclosed: |what, error| {
            let failure = Failure::of(format!("closing {what}"), error);
            eprintln!("[error] {failure}");
        },
    };
    // SAFETY: the functions of one library, which frees what it returns; the programs allocate no lists of their own.
    unsafe { linked.install() };
}
