// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The identity of this library: its version beside that of the interface, and the commit that it was built from. The
//! same text is in an ELF note, behind the symbol `ironfabric_version` and in the first line of the log; `fi_info
//! --version` prints it.
#![forbid(unsafe_code)]

/// `ironfabric VERSION (COMMIT), libfabric INTERFACE API`.
pub const TEXT: &str = concat!(
    "ironfabric ",
    env!("IRONFABRIC_VERSION"),
    " (",
    env!("IRONFABRIC_COMMIT"),
    "), libfabric ",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR"),
    " API"
);
