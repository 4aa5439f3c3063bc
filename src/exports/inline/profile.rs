// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_profile.h>` as symbols: fi_profile(3).

use core::{
    ffi::{c_int, c_void},
    mem::offset_of,
    ptr::null_mut,
};

use super::slots::{fi_close, fi_open_ops};
use abi::{fid, fid_profile, ssize_t};
use object::slots::call_slot;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_profile_read_u64(
    prof_fid: *mut fid_profile,
    var_id: u32,
    data: *mut u64,
) -> ssize_t {
    let mut size = size_of::<u64>();
    // fi_profile(3): `data` has room for 64 bits.
    let (data, size) = (data.cast::<c_void>(), &raw mut size);
    let read: ssize_t =
        call_slot!(first (prof_fid, var_id, data, size) => fid_profile.ops.read_var);
    read.min(0)
}
symver!(fi_profile_read_u64 @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_profile_open(
    fid: *mut fid,
    flags: u64,
    prof_fid: *mut *mut fid_profile,
    context: *mut c_void,
) -> c_int {
    let mut ops = null_mut();
    // SAFETY: as for fi_open_ops; `ops` lives until it returns.
    let answer = unsafe {
        fi_open_ops(
            fid,
            c"fi_profile_ops".as_ptr(),
            flags,
            &raw mut ops,
            context,
        )
    };
    if answer == 0 {
        // SAFETY: fi_profile(3): `ops` points to the member `ops` of a profile object.
        unsafe { prof_fid.write(ops.byte_sub(offset_of!(fid_profile, ops)).cast()) };
    }
    answer
}
symver!(fi_profile_open @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_profile_close(prof_fid: *mut fid_profile) -> c_int {
    // SAFETY: as for fi_close.
    unsafe { fi_close(prof_fid.cast()) }
}
symver!(fi_profile_close @@ "FABRIC_RS_1.0");
