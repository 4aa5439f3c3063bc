// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_open`: services of the library by name: fi_provider(3), and fi_mr(3) for the registration cache.
//!
//! `logging` takes callbacks that get all log lines from then on. `mr_cache` takes a monitor that reports unmapped
//! memory to a registration cache. The only cache, that of verbs, notices changes by itself (`engine::mr::monitor`):
//! the monitor is never started, and its reports are ignored.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use abi::*;
use base::log::{self, Callbacks};
use base::{Error, Result};
use engine::domain::registered;
use object::handle::{self, Kind};
use object::ops::missing::Missing;

/// Opens a service of the library. Names are compared without regard to case.
///
/// # Safety
/// `name` is NULL or ends with a zero, `fid` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_open(
    version: u32,
    name: *const c_char,
    _attr: *mut c_void,
    attr_len: usize,
    flags: u64,
    fid: *mut *mut fid,
    context: *mut c_void,
) -> c_int {
    if name.is_null() || fid.is_null() {
        return Error::INVAL.negative();
    }
    // SAFETY: not NULL, so the application promises a string with a zero at its end (above).
    let name = unsafe { CStr::from_ptr(name) };
    match open(version, name.to_bytes(), attr_len, flags, context) {
        Ok(service) => {
            // SAFETY: not NULL, so the application promises a writable place (above).
            unsafe { fid.write(service) };
            0
        }
        Err(error) => error.negative(),
    }
}
symver!(fi_open @@ "FABRIC_1.5");

fn open(
    version: u32,
    name: &[u8],
    attr_len: usize,
    flags: u64,
    context: *mut c_void,
) -> Result<*mut fid> {
    let is_log = name.eq_ignore_ascii_case(b"logging");
    if !is_log && !name.eq_ignore_ascii_case(b"mr_cache") {
        return Err(Error::NOSYS);
    }
    // Neither service has attributes or flags; the call exists since 1.13.
    if version < FIRST_VERSION || attr_len != 0 {
        return Err(Error::INVAL);
    }
    if flags != 0 {
        return Err(Error::BADFLAGS);
    }
    if !is_log {
        return Ok(handle::open(MrCache, FI_CLASS_MR_CACHE, context, |head| {
            head
        }));
    }
    if imported().log.is_some() {
        return Err(Error::ALREADY);
    }
    Ok(handle::open(Logging, FI_CLASS_LOG, context, |head| head))
}

/// The service `logging`.
struct Logging;

impl Kind for Logging {
    type Head = fid;

    /// Imports a `struct fid_logging`; the last import counts.
    unsafe fn import(&self, log: *mut fid, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::INVAL);
        }
        // SAFETY: `import`'s caller promises that `log` is of the class that its head states.
        let callbacks = unsafe { read_logging(log) }?;
        let mut imported = imported();
        imported.log = Some(log.addr());
        if log::begin_to_defer() {
            registered::share_locks();
        }
        log::install(Some(callbacks));
        // SAFETY: `import`'s caller promises that it is writable. The application removes its callbacks by closing the
        // imported fid, so the fid gets a table with that call.
        unsafe { (*log).ops = ptr::from_ref(&LOG_OPS).cast_mut() };
        Ok(())
    }
}

/// # Safety
/// `fid` is not NULL and of the class that its head states.
unsafe fn read_logging(fid: *mut fid) -> Result<Callbacks> {
    // SAFETY: the caller of this function promises it. The class is read before the members after the head.
    let ops = unsafe {
        if (*fid).fclass != FI_CLASS_LOG as usize {
            return Err(Error::INVAL);
        }
        (*fid.cast::<fid_logging>()).ops
    };
    // SAFETY: fi_provider(3): the application's table begins with its size, and stays until the fid is closed; only one
    // that is complete is read as a whole.
    unsafe {
        if ops.is_null() || (*ops).size < size_of::<fi_ops_log>() {
            return Err(Error::INVAL);
        }
        // fi_provider(3): the callbacks stay valid until the imported fid is closed, or others are imported.
        Ok(Callbacks::new(*ops))
    }
}

/// The service `mr_cache`.
struct MrCache;

impl Kind for MrCache {
    type Head = fid;

    /// Imports a `struct fid_mem_monitor`, one at a time.
    unsafe fn import(&self, other: *mut fid, flags: u64) -> Result {
        let monitor = other.cast::<fid_mem_monitor>();
        // SAFETY: `import`'s caller promises that `other` is of the class that its head states; the application's table
        // begins with its size, as the header defines.
        unsafe {
            if flags != 0 || (*other).fclass != FI_CLASS_MEM_MONITOR as usize {
                return Err(Error::INVAL);
            }
            let ops = (*monitor).export_ops;
            if ops.is_null() || (*ops).size < size_of::<fi_ops_mem_monitor>() {
                return Err(Error::INVAL);
            }
        }
        let mut imported = imported();
        if imported.monitor.is_some() {
            return Err(Error::BUSY);
        }
        imported.monitor = Some(monitor.addr());
        // SAFETY: of this class, as checked above; `import`'s caller promises that it is writable.
        unsafe {
            (*monitor).import_ops = ptr::from_ref(&NOTIFY_OPS).cast_mut();
            (*monitor).fid.ops = ptr::from_ref(&MONITOR_OPS).cast_mut();
        }
        Ok(())
    }
}

/// The imports: the addresses of the application's fids.
struct Imported {
    log: Option<usize>,
    monitor: Option<usize>,
}

fn imported() -> MutexGuard<'static, Imported> {
    static IMPORTED: Mutex<Imported> = Mutex::new(Imported {
        log: None,
        monitor: None,
    });
    IMPORTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the table of an imported fid: closing the fid ends the import.
const fn imported_ops(close: unsafe extern "C" fn(*mut fid) -> c_int) -> fi_ops {
    fi_ops {
        close: Some(close),
        ..Missing::TABLE
    }
}

extern "C" fn close_log(fid: *mut fid) -> c_int {
    let mut imported = imported();
    // If there were several imports, only the last one is in use; closing an earlier one changes nothing.
    if imported.log == Some(fid.addr()) {
        imported.log = None;
        log::install(None);
    }
    0
}

extern "C" fn close_monitor(fid: *mut fid) -> c_int {
    let mut imported = imported();
    if imported.monitor == Some(fid.addr()) {
        imported.monitor = None;
    }
    0
}

extern "C" fn notify(_monitor: *mut fid_mem_monitor, _addr: *const c_void, _len: usize) {}

static LOG_OPS: fi_ops = imported_ops(close_log);
static MONITOR_OPS: fi_ops = imported_ops(close_monitor);
static NOTIFY_OPS: fi_ops_mem_notify = fi_ops_mem_notify {
    size: size_of::<fi_ops_mem_notify>(),
    notify: Some(notify),
};

/// Version 1.13, as FI_VERSION packs it.
const FIRST_VERSION: u32 = 1 << 16 | 13;
