// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_ext.h>` as symbols: fi_open(3).

use core::{
    ffi::{c_char, c_int, c_void},
    ptr::null_mut,
};

use super::slots::{fi_close, fi_control, fi_import_fid};
use crate::exports::open::fi_open;
use abi::{FI_CLASS_LOG, FI_EINVAL, FI_EXPORT_FID, fi_fid_export, fi_ops_log, fid, fid_logging};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_export_fid(
    fid: *mut fid,
    flags: u64,
    expfid: *mut *mut fid,
    context: *mut c_void,
) -> c_int {
    let mut exported = fi_fid_export {
        fid: expfid,
        flags,
        context,
    };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(fid, FI_EXPORT_FID as c_int, (&raw mut exported).cast()) }
}
symver!(fi_export_fid @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_import(
    version: u32,
    name: *const c_char,
    attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    fid: *mut fid,
    context: *mut c_void,
) -> c_int {
    let mut opened = null_mut();
    // SAFETY: the caller's promises for fi_import are those of fi_open; `opened` lives until it returns.
    let answer = unsafe {
        fi_open(
            version,
            name,
            attr,
            attr_len,
            flags,
            &raw mut opened,
            context,
        )
    };
    if answer != 0 {
        return answer;
    }
    // SAFETY: `opened` is open; the caller promises an object that can be bound to it.
    let answer = unsafe { fi_import_fid(opened, fid, flags) };
    // SAFETY: only this function has the object.
    unsafe { fi_close(opened) };
    answer
}
symver!(fi_import @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_import_log(
    version: u32,
    flags: u64,
    log_fid: *mut fid_logging,
) -> c_int {
    // SAFETY: fi_provider(3): null is handled here; otherwise the caller provides the struct and its table.
    let ops = unsafe { log_fid.as_ref() }.map_or(null_mut(), |log| log.ops);
    if ops.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: as above; fi_import uses the object and its context as fi_open requires.
    unsafe {
        (*log_fid).fid.fclass = FI_CLASS_LOG as usize;
        (*ops).size = size_of::<fi_ops_log>();
        let name = c"logging".as_ptr();
        fi_import(
            version,
            name,
            null_mut(),
            0,
            flags,
            log_fid.cast(),
            log_fid.cast(),
        )
    }
}
symver!(fi_import_log @@ "FABRIC_RS_1.0");
