// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The exported functions that only the programs call: fi_provider(3), fi_errno(3).

use core::ffi::{c_char, c_int, c_void};

use abi::{fi_param, fi_type, fid};

unsafe extern "C" {
    pub fn fi_open(
        version: u32,
        name: *const c_char,
        attr: *mut c_void,
        attr_len: usize,
        flags: u64,
        fid: *mut *mut fid,
        context: *mut c_void,
    ) -> c_int;
    pub fn fi_getparams(params: *mut *mut fi_param, count: *mut c_int) -> c_int;
    pub fn fi_freeparams(params: *mut fi_param);
    pub fn fi_strerror(code: c_int) -> *const c_char;
    pub fn fi_tostr_r(
        buffer: *mut c_char,
        length: usize,
        data: *const c_void,
        kind: fi_type,
    ) -> *mut c_char;
}
