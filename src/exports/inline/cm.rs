// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_cm.h>` as symbols: fi_cm(3).

use abi::{FI_ADDR_NOTAVAIL, fi_addr_t, fid_mc};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mc_addr(mc: *mut fid_mc) -> fi_addr_t {
    // SAFETY: fi_cm(3): `mc` is an open group, or null, which is handled here.
    unsafe { mc.as_ref() }.map_or(FI_ADDR_NOTAVAIL, |mc| mc.fi_addr)
}
symver!(fi_mc_addr @@ "FABRIC_RS_1.0");
