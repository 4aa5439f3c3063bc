// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives the library's log in place of its printed lines: `fi_import_log` of fi_provider(3).

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::ptr;
use std::sync::Mutex;

use super::exported;
use super::failure::{Failure, Result};
use super::info::api;
use abi::*;
use client::string;

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    pub provider: String,
    pub level: fi_log_level,
    pub text: String,
}

/// Makes the library pass its lines, up to level info, to this module, which keeps them for `take`.
pub fn import() -> Result {
    let mut opened = ptr::null_mut();
    // SAFETY: fi_open reads the name and writes the object on success; there are no attributes.
    let code = unsafe {
        exported::fi_open(
            api(),
            c"logging".as_ptr(),
            ptr::null_mut(),
            0,
            0,
            &raw mut opened,
            ptr::null_mut(),
        )
    };
    if code != 0 {
        return Err(Failure::new("fi_open of \"logging\"", code));
    }
    // SAFETY: an open object has its table; the bound object is static, so it outlives its use by the library. The
    // opened object is closed once.
    let code = unsafe {
        let ops = &*(*opened).ops;
        let code = match ops.bind {
            Some(bind) => bind(opened, LOGGING.0.get().cast(), 0),
            None => -FI_ENOSYS,
        };
        ops.close.map(|close| close(opened));
        code
    };
    match code {
        0 => Ok(()),
        code => Err(Failure::new("import of a log object", code)),
    }
}

/// Returns the lines since the last call.
pub fn take() -> Vec<Line> {
    std::mem::take(&mut LINES.lock().expect("no holder of this lock panics"))
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// An object that the library may write to.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: this program never accesses the content; it only passes the address to the library.
unsafe impl<T> Sync for Shared<T> {}

static LOGGING: Shared<fid_logging> = Shared(UnsafeCell::new(fid_logging {
    fid: fid {
        fclass: FI_CLASS_LOG as usize,
        context: ptr::null_mut(),
        ops: ptr::null_mut(),
    },
    ops: OPS.0.get(),
}));

static OPS: Shared<fi_ops_log> = Shared(UnsafeCell::new(fi_ops_log {
    size: size_of::<fi_ops_log>(),
    enabled: Some(enabled),
    ready: Some(ready),
    log: Some(log),
}));

unsafe extern "C" fn enabled(
    _: *const fi_provider,
    level: fi_log_level,
    _: fi_log_subsys,
    _: u64,
) -> c_int {
    (level.0 <= FI_LOG_INFO.0).into()
}

unsafe extern "C" fn ready(
    _: *const fi_provider,
    level: fi_log_level,
    _: fi_log_subsys,
    _: u64,
    _: *mut u64,
) -> c_int {
    (level.0 <= FI_LOG_INFO.0).into()
}

unsafe extern "C" fn log(
    provider: *const fi_provider,
    level: fi_log_level,
    _: fi_log_subsys,
    _: *const c_char,
    _: c_int,
    message: *const c_char,
) {
    // SAFETY: fi_provider(3): the library passes its provider and a string, both valid during this call.
    let (name, message) = unsafe {
        let name = provider.as_ref().and_then(|provider| string(provider.name));
        (name, string(message))
    };
    let line = Line {
        provider: name.unwrap_or_default(),
        level,
        text: message.unwrap_or_default().trim_end().to_owned(),
    };
    if let Ok(mut lines) = LINES.lock() {
        lines.push(line);
    }
}
