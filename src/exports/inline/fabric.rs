// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fabric.h>` as symbols: fi_control(3), fi_fabric(3).

use core::{
    ffi::{c_int, c_void},
    ptr::null,
};

use super::slots::fi_control;
use crate::exports::info::fi_dupinfo;
use abi::{FI_ALIAS, FI_GET_VAL, FI_SET_VAL, FI_TC_DSCP, fi_alias, fi_fid_var, fi_info, fid};

#[unsafe(no_mangle)]
pub extern "C" fn fi_tc_dscp_set(dscp: u8) -> u32 {
    FI_TC_DSCP | u32::from(dscp)
}
symver!(fi_tc_dscp_set @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub extern "C" fn fi_tc_dscp_get(tclass: u32) -> u8 {
    if tclass & FI_TC_DSCP != 0 {
        tclass as u8
    } else {
        0
    }
}
symver!(fi_tc_dscp_get @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_alias(fid: *mut fid, alias_fid: *mut *mut fid, flags: u64) -> c_int {
    let mut alias = fi_alias {
        fid: alias_fid,
        flags,
    };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(fid, FI_ALIAS as c_int, (&raw mut alias).cast()) }
}
symver!(fi_alias @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_get_val(fid: *mut fid, name: c_int, val: *mut c_void) -> c_int {
    let mut var = fi_fid_var { name, val };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(fid, FI_GET_VAL as c_int, (&raw mut var).cast()) }
}
symver!(fi_get_val @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_set_val(fid: *mut fid, name: c_int, val: *mut c_void) -> c_int {
    let mut var = fi_fid_var { name, val };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(fid, FI_SET_VAL as c_int, (&raw mut var).cast()) }
}
symver!(fi_set_val @@ "FABRIC_RS_1.0");

/// fi_getinfo(3): returns an entry with all its parts, set to zero.
#[unsafe(no_mangle)]
pub extern "C" fn fi_allocinfo() -> *mut fi_info {
    // SAFETY: fi_dupinfo accepts null.
    unsafe { fi_dupinfo(null()) }
}
symver!(fi_allocinfo @@ "FABRIC_RS_1.0");
