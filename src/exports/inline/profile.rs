// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_profile.h>` as symbols: fi_profile(3).

use core::{
    ffi::{c_int, c_void},
    mem::offset_of,
    ptr::null_mut,
};

use super::fabric::{fi_close, fi_open_ops};
use crate::abi::{fi_profile_desc, fid, fid_profile, ssize_t};

/// fi_profile(3): what happened, its description, its data and their length, the context given on registration.
type Callback = Option<
    unsafe extern "C" fn(
        *mut fid_profile,
        *mut fi_profile_desc,
        *mut c_void,
        usize,
        *mut c_void,
    ) -> c_int,
>;

inline! {
    fn fi_profile_reset(prof_fid: *mut fid_profile, flags: u64) => ops.reset;
    fn fi_profile_query_vars(
        prof_fid: *mut fid_profile, varlist: *mut fi_profile_desc, count: *mut usize,
    ) -> ssize_t => ops.query_vars;
    fn fi_profile_query_events(
        prof_fid: *mut fid_profile, eventlist: *mut fi_profile_desc, count: *mut usize,
    ) -> ssize_t => ops.query_events;
    fn fi_profile_register_callback(
        prof_fid: *mut fid_profile, event_id: u32, callback: Callback, context: *mut c_void,
    ) -> c_int => ops.reg_callback;
    fn fi_profile_start_reads(prof_fid: *mut fid_profile, flags: u64) => ops.start_reads;
    fn fi_profile_end_reads(prof_fid: *mut fid_profile, flags: u64) => ops.end_reads;
}

slots! {
    fn read_var(
        prof_fid: *mut fid_profile, var_id: u32, data: *mut c_void, size: *mut usize,
    ) -> ssize_t => ops.read_var;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_profile_read_u64(
    prof_fid: *mut fid_profile,
    var_id: u32,
    data: *mut u64,
) -> ssize_t {
    let mut size = size_of::<u64>();
    // SAFETY: fi_profile(3): `data` has room for the 64 bits that `size` announces.
    unsafe { read_var(prof_fid, var_id, data.cast(), &raw mut size) }.min(0)
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
        // SAFETY: fi_profile(3): what was opened is the `ops` member of a profile object.
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
