// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Log callbacks that the application imported: `fi_import_log` in fi_provider(3).
//!
//! Trusted with: calling them. The caller of `install` promises that they stay valid.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::deferred;
use abi::{FI_LOG_PROV_FILTERED, fi_log_level, fi_log_subsys, fi_ops_log, fi_provider};

/// The application's functions, copied from its table. A missing function counts as "not wanted".
#[derive(Clone, Copy)]
pub struct Callbacks {
    ops: fi_ops_log,
}

impl Callbacks {
    /// # Safety
    /// The functions in `ops` have to stay callable, from any thread, until other callbacks are installed.
    pub unsafe fn new(ops: fi_ops_log) -> Callbacks {
        Callbacks { ops }
    }

    pub(super) fn enabled(
        &self,
        provider: *const fi_provider,
        level: c_int,
        subsys: c_int,
        filtered: bool,
    ) -> bool {
        let (level, subsys) = (fi_log_level(level as u32), fi_log_subsys(subsys as u32));
        // SAFETY: `new`: the functions are callable; `provider` is a `Source` or the pointer that the caller of fi_log
        // passed.
        self.ops.enabled.is_some_and(
            |enabled| unsafe { enabled(provider, level, subsys, flags(filtered)) } != 0,
        )
    }

    pub(super) fn ready(
        &self,
        provider: *const fi_provider,
        level: c_int,
        subsys: c_int,
        filtered: bool,
        next: &AtomicU64,
    ) -> bool {
        let (level, subsys) = (fi_log_level(level as u32), fi_log_subsys(subsys as u32));
        let mut time = next.load(Ordering::Relaxed);
        let Some(ready) = self.ops.ready else {
            return false;
        };
        // SAFETY: `new`: the functions are callable; `time` is a local, writable for the length of the call.
        let answer = unsafe { ready(provider, level, subsys, flags(filtered), &mut time) };
        next.store(time, Ordering::Relaxed);
        answer != 0
    }

    pub(super) fn log(
        &self,
        provider: *const fi_provider,
        level: c_int,
        subsys: c_int,
        function: &CStr,
        line: c_int,
        message: &CStr,
    ) {
        let (level, subsys) = (fi_log_level(level as u32), fi_log_subsys(subsys as u32));
        if let Some(log) = self.ops.log {
            // SAFETY: `new`: the functions are callable; both texts end with a zero and live for the call.
            unsafe {
                log(
                    provider,
                    level,
                    subsys,
                    function.as_ptr(),
                    line,
                    message.as_ptr(),
                )
            }
        }
    }
}

/// Installs callbacks, which then select and receive all lines; `None` makes the variables select them again.
pub fn install(callbacks: Option<Callbacks>) {
    let asked = callbacks.is_some();
    if asked {
        deferred::begin();
    }
    *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = callbacks;
    super::set_asking(asked);
}

/// Returns a copy, so that no lock is held while the application's code runs.
pub(super) fn callbacks() -> Option<Callbacks> {
    *INSTALLED.read().unwrap_or_else(PoisonError::into_inner)
}

fn flags(filtered: bool) -> u64 {
    if filtered { FI_LOG_PROV_FILTERED } else { 0 }
}

static INSTALLED: RwLock<Option<Callbacks>> = RwLock::new(None);
