// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_endpoint.h>` as symbols: fi_endpoint(3), fi_msg(3).

use core::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use super::fabric::fi_alias;
use super::slots::{fi_control, fi_endpoint};
use abi::{FI_ENABLE, fi_info, fid_domain, fid_ep};
use object::slots::call_slot;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags == 0 {
        // SAFETY: the caller's promises for fi_endpoint2 are those of fi_endpoint.
        return unsafe { fi_endpoint(domain, info, ep, context) };
    }
    call_slot!(later (domain, info, ep, flags, context) => fid_domain.ops.endpoint2)
}
symver!(fi_endpoint2 @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_enable(ep: *mut fid_ep) -> c_int {
    // SAFETY: as for fi_control.
    unsafe { fi_control(ep.cast(), FI_ENABLE as c_int, null_mut()) }
}
symver!(fi_enable @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_ep_alias(
    ep: *mut fid_ep,
    alias_ep: *mut *mut fid_ep,
    flags: u64,
) -> c_int {
    let mut alias = null_mut();
    // SAFETY: as for fi_alias; `alias` lives until it returns.
    let answer = unsafe { fi_alias(ep.cast(), &raw mut alias, flags) };
    if answer == 0 {
        // SAFETY: fi_endpoint(3): `alias_ep` is writable.
        unsafe { alias_ep.write(alias.cast()) };
    }
    answer
}
symver!(fi_ep_alias @@ "FABRIC_RS_1.0");
