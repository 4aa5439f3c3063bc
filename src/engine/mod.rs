// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What providers share: queues, counters, address vectors, memory regions, matching, waiting, progress. The rules of
//! the man pages about these live here once.

// The domains and endpoints that use these come next.
#[allow(dead_code)]
pub mod av;
#[allow(dead_code)]
pub mod cq_ring;
#[allow(dead_code)]
pub mod matching;
#[allow(dead_code, unused_imports)]
pub mod mr;
//!
//! Tables and rings are plain data (`matching`, `av`, `mr`, `cq_ring`); `core` holds those of one domain, under its
//! lock; `domain` and `fabric` are the handles that C holds. A provider brings a `Transport`.

pub mod core;
pub mod cntr;
pub mod domain;
pub mod ep_state;
pub mod eq;
pub mod fabric;
pub mod srx;
pub mod transport;
pub mod wait;

use ::core::ffi::CStr;

/// Text for a provider's error code: ours are FI_ or system numbers.
pub fn strerror(code: i32) -> &'static CStr {
    crate::base::text::strerror(code)
}
