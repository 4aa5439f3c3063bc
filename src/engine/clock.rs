// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The time, for whoever has deadlines. It is handed in, so that a test can say how late it is.
#![forbid(unsafe_code)]

use std::time::Instant;

pub trait Clock: Send {
    fn now(&self) -> Instant;
}

/// The time of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }
}
