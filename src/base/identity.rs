// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The identity of this library: its version beside that of the interface, and the commit that it was built from. The
//! first line of the log, dumps and the counters for fi_top name it.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

static TEXT: OnceLock<&str> = OnceLock::new();

/// Returns the identity; "ironfabric" where no library has named itself, as in a test of one layer.
pub fn text() -> &'static str {
    TEXT.get().copied().unwrap_or("ironfabric")
}

/// Called by the library before its first line of the log. Later calls change nothing.
pub fn name(text: &'static str) {
    TEXT.get_or_init(|| text);
}
