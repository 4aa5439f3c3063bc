// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whether a driver can serve this process: not in a child of the process that has used the driver, and not after some
//! failures.

use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use sys::fork::Birth;

use crate::faults::Fault;

#[derive(Default)]
pub struct Health {
    /// The process that has used the driver first.
    user: OnceLock<Birth>,
    /// The failure after which the driver can no longer be used, or 0.
    dead: AtomicI32,
}

impl Health {
    /// Returns false in a child of the process that has used the driver. Its calls may hang there.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.user.get().is_none_or(Birth::is_here)
    }

    /// Records that this process uses the driver.
    #[inline]
    pub fn start(&self) {
        self.user.get_or_init(Birth::here);
    }

    /// Returns the failure with which a call has to end at once. `child`: the driver's number for a process that has
    /// not initialized it.
    pub fn check(&self, child: i32) -> Result<(), Fault> {
        let code = match self.is_here() {
            true => self.dead.load(Ordering::Relaxed),
            false => child,
        };
        match code {
            0 => Ok(()),
            code => Err(Fault { code }),
        }
    }

    /// Records that the driver can no longer be used.
    pub fn end(&self, code: i32) {
        self.dead.store(code, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fatal_failure_stays() {
        let health = Health::default();
        assert!(health.is_here() && health.check(9).is_ok());
        health.start();
        assert!(health.is_here() && health.check(9).is_ok());
        health.end(7);
        assert!(health.is_here());
        assert_eq!(health.check(9), Err(Fault { code: 7 }));
    }
}
