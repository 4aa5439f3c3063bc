// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_version`: fi_version(3).

use abi::release;

/// Returns the interface version of the library, major in the upper and minor in the lower 16 bits.
#[unsafe(no_mangle)]
pub extern "C" fn fi_version() -> u32 {
    release::API
}
symver!(fi_version @@ "FABRIC_1.0");
