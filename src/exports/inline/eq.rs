// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_eq.h>` as symbols: fi_eq(3), fi_cq(3), fi_cntr(3), fi_poll(3).

use abi::{FI_ADDR_NOTAVAIL, fi_cq_err_entry, fid_cq, ssize_t};
use object::slots::call_slot;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_cq_readerr(
    cq: *mut fid_cq,
    buf: *mut fi_cq_err_entry,
    flags: u64,
) -> ssize_t {
    // SAFETY: fi_cq(3): `buf` is null or a writable entry.
    if let Some(entry) = unsafe { buf.as_mut() } {
        entry.src_addr = FI_ADDR_NOTAVAIL;
    }
    call_slot!(first (cq, buf, flags) => fid_cq.ops.readerr)
}
symver!(fi_cq_readerr @@ "FABRIC_RS_1.0");
