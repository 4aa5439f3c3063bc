// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_version`: fi_version(3).

use crate::abi::{FI_MAJOR_VERSION, FI_MINOR_VERSION};

/// The interface version of the library, major in the upper and minor in the lower 16 bits.
#[unsafe(no_mangle)]
pub extern "C" fn fi_version() -> u32 {
    FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION
}
symver!(fi_version @@ "FABRIC_1.0");
