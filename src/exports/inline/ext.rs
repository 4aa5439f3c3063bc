// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_ext.h>` as symbols: fi_open(3).

use core::ffi::{c_int, c_void};

use super::fabric::fi_control;
use crate::abi::{FI_EXPORT_FID, fi_fid_export, fid};

inline! {
    fn fi_import_fid(fid: *mut fid, expfid: *mut fid, flags: u64) -> c_int => ops.bind;
}

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
