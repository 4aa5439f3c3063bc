// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The clock for deadlines. It is passed in, so that tests can set the time.

use std::time::Instant;

pub trait Clock: Send {
    fn now(&self) -> Instant;
}

/// The clock of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }
}
