// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_tagged.h>` as symbols: fi_tagged(3).

use core::ffi::c_int;

#[unsafe(no_mangle)]
pub extern "C" fn fi_tag_mpi(tag: c_int, payload_id: u8) -> u64 {
    u64::from(payload_id) << 32 | u64::from(tag as u32)
}
symver!(fi_tag_mpi @@ "FABRIC_RS_1.0");
