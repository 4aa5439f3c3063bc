// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_getinfo`, `fi_dupinfo` and `fi_freeinfo` for the headers of other releases than the default one: fi_getinfo(3).

use core::ffi::{c_char, c_int};

use super::super::info::{dupinfo, getinfo};
use abi::fi_info;
use base::info::{Layout, release};

/// Defines the two functions that read a caller's structs, for headers of one layout.
macro_rules! node {
    ($layout:ident, $node:literal, $getinfo:ident, $dupinfo:ident) => {
        /// # Safety
        /// fi_getinfo(3), with hints from headers of this node.
        unsafe extern "C" fn $getinfo(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int {
            // SAFETY: passed on from the caller.
            unsafe { getinfo(Layout::$layout, version, node, service, flags, hints, info) }
        }
        symver!($getinfo as fi_getinfo @ $node);

        /// # Safety
        /// fi_getinfo(3), with an entry from headers of this node.
        unsafe extern "C" fn $dupinfo(info: *const fi_info) -> *mut fi_info {
            // SAFETY: passed on from the caller.
            unsafe { dupinfo(Layout::$layout, info) }
        }
        symver!($dupinfo as fi_dupinfo @ $node);
    };
}

node!(FABRIC_1_0, "FABRIC_1.0", getinfo_1_0, dupinfo_1_0);
node!(FABRIC_1_1, "FABRIC_1.1", getinfo_1_1, dupinfo_1_1);
node!(FABRIC_1_2, "FABRIC_1.2", getinfo_1_2, dupinfo_1_2);
node!(FABRIC_1_3, "FABRIC_1.3", getinfo_1_3, dupinfo_1_3);
node!(FABRIC_1_7, "FABRIC_1.7", getinfo_1_7, dupinfo_1_7);
node!(FABRIC_1_8, "FABRIC_1.8", getinfo_1_8, dupinfo_1_8);
node!(FABRIC_1_9, "FABRIC_1.9", getinfo_1_9, dupinfo_1_9);
node!(FABRIC_1_11, "FABRIC_1.11", getinfo_1_11, dupinfo_1_11);

/// Lists are always in the newest layout, so one function serves all nodes.
///
/// # Safety
/// As `fi_freeinfo`.
unsafe extern "C" fn freeinfo(info: *mut fi_info) {
    // SAFETY: passed on from the caller.
    unsafe { release(info) }
}
symver!(freeinfo as fi_freeinfo @ "FABRIC_1.0", "FABRIC_1.1", "FABRIC_1.2", "FABRIC_1.3", "FABRIC_1.7", "FABRIC_1.8",
    "FABRIC_1.9", "FABRIC_1.11");
