// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_collective.h>` as symbols: fi_collective(3), fi_av_set(3).

use core::ffi::{c_int, c_void};

use super::slots::{fi_barrier, fi_join};
use abi::{FI_COLLECTIVE, fi_addr_t, fi_collective_addr, fid_av_set, fid_ep, fid_mc, ssize_t};
use object::slots::call_slot;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_join_collective(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    set: *const fid_av_set,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    let addr = fi_collective_addr { set, coll_addr };
    // SAFETY: as for fi_join; the address lives until it returns.
    unsafe {
        fi_join(
            ep,
            (&raw const addr).cast(),
            flags | FI_COLLECTIVE,
            mc,
            context,
        )
    }
}
symver!(fi_join_collective @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_barrier2(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> ssize_t {
    if flags == 0 {
        // SAFETY: the caller's promises for fi_barrier2 are those of fi_barrier.
        return unsafe { fi_barrier(ep, coll_addr, context) };
    }
    call_slot!(later (ep, coll_addr, flags, context) => fid_ep.collective.barrier2)
}
symver!(fi_barrier2 @@ "FABRIC_RS_1.0");
