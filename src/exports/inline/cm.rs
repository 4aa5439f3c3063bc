// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_cm.h>` as symbols: fi_cm(3).

use core::ffi::{c_int, c_void};

use crate::abi::{FI_ADDR_NOTAVAIL, fi_addr_t, fid_ep, fid_mc, fid_pep, fid_t};

inline! {
    fn fi_setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int => (fid_ep) cm.setname;
    fn fi_getname(
        fid: fid_t, addr: *mut c_void, addrlen: *mut usize,
    ) -> c_int => (fid_ep) cm.getname;
    fn fi_getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int => cm.getpeer;
    fn fi_listen(pep: *mut fid_pep) -> c_int => cm.listen;
    fn fi_connect(
        ep: *mut fid_ep, addr: *const c_void, param: *const c_void, paramlen: usize,
    ) -> c_int => cm.connect;
    fn fi_accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int => cm.accept;
    fn fi_reject(
        pep: *mut fid_pep, handle: fid_t, param: *const c_void, paramlen: usize,
    ) -> c_int => cm.reject;
    fn fi_shutdown(ep: *mut fid_ep, flags: u64) -> c_int => cm.shutdown;
    fn fi_join(
        ep: *mut fid_ep, addr: *const c_void, flags: u64, mc: *mut *mut fid_mc,
        context: *mut c_void,
    ) -> c_int => cm.join optional;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mc_addr(mc: *mut fid_mc) -> fi_addr_t {
    // SAFETY: fi_cm(3): `mc` is null, answered here, or an open group.
    unsafe { mc.as_ref() }.map_or(FI_ADDR_NOTAVAIL, |mc| mc.fi_addr)
}
symver!(fi_mc_addr @@ "FABRIC_RS_1.0");
