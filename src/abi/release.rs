// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Version numbers of the libfabric release that this library replaces: fi_version(3), fi_provider(7). build.rs takes
//! them from releases.tsv. This module has no header.

/// Numbers of the default interface: FI_MAJOR_VERSION, FI_MINOR_VERSION.
pub const MAJOR: u32 = number(env!("FABRIC_MAJOR"));
pub const MINOR: u32 = number(env!("FABRIC_MINOR"));
/// The interface that fi_version returns, the newest that fi_getinfo serves, and the one that the library itself uses.
pub const API: u32 = MAJOR << 16 | MINOR;
/// The interface that providers and hooks declare. The plug-in declares 2.6, because a libfabric refuses a plug-in that
/// declares a newer interface than its own.
pub const PROVIDER_API: u32 = match cfg!(feature = "plugin") {
    true => 2 << 16 | 6,
    false => API,
};
/// Version of every provider and hook of the library: 207.0 at release 2.7.
pub const PROVIDER_VERSION: u32 = number(env!("FABRIC_PROVIDER")) << 16;

/// Returns the value of a decimal number; other text does not compile.
const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("src/abi/releases.tsv: a number is expected"),
    }
}
