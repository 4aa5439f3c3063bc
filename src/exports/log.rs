// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_log`, `fi_log_enabled`, `fi_log_ready`: fi_provider(3). Providers that are loaded call them.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicU64;

use abi::{fi_log_level, fi_log_subsys, fi_provider};
use base::log::{self, Origin};
use sys::cformat;

/// Returns whether a line is wanted. Lines without a provider (NULL), or with numbers outside the enumerations, are
/// not.
///
/// # Safety
/// `prov` is NULL or a provider whose name is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_log_enabled(
    prov: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
) -> c_int {
    // SAFETY: this function's caller promises it.
    let Some(origin) = (unsafe { origin(prov) }) else {
        return 0;
    };
    c_int::from(log::has_waiter(
        &origin,
        level.0 as c_int,
        subsys.0 as c_int,
    ))
}
symver!(fi_log_enabled @@ "FABRIC_1.0");

/// As `fi_log_enabled`, for messages that may be frequent; `showtime` belongs to the message and begins with 0.
///
/// # Safety
/// As `fi_log_enabled`; `showtime` is NULL or points to a number that only this function changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_log_ready(
    prov: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    showtime: *mut u64,
) -> c_int {
    if showtime.is_null() {
        return 0;
    }
    // SAFETY: this function's caller promises it.
    let Some(origin) = (unsafe { origin(prov) }) else {
        return 0;
    };
    // SAFETY: not NULL, aligned as C aligns a uint64_t, and only this function uses it.
    let next = unsafe { AtomicU64::from_ptr(showtime) };
    c_int::from(log::ready(
        &origin,
        level.0 as c_int,
        subsys.0 as c_int,
        next,
    ))
}
symver!(fi_log_ready @@ "FABRIC_1.6");

/// Writes a line: `fmt` and the arguments after it are as for printf.
///
/// # Safety
/// `prov` is NULL or a provider; `func` and `fmt` are NULL or end with a zero; the arguments are those that `fmt`
/// names.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_log(
    _prov: *const fi_provider,
    _level: fi_log_level,
    _subsys: fi_log_subsys,
    _func: *const c_char,
    _line: c_int,
    _fmt: *const c_char,
) {
    va_start_stub!(log_va, fixed = 6)
}
symver!(fi_log @@ "FABRIC_1.0");

/// # Safety
/// As `fi_log`; `arguments` is a `va_list` with the arguments that `fmt` names.
unsafe extern "C" fn log_va(
    prov: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    func: *const c_char,
    line: c_int,
    fmt: *const c_char,
    arguments: *mut c_void,
) {
    // SAFETY: fi_log's caller promises it for all three.
    let (origin, func, fmt) = unsafe { (origin(prov), text(func), text(fmt)) };
    let Some(fmt) = fmt else { return };
    // SAFETY: the caller of fi_log passed arguments that fit its format; the stub made a list of them.
    let Some(message) = (unsafe { cformat::format(fmt, arguments) }) else {
        return;
    };
    let origin = origin.unwrap_or(Origin {
        provider: prov,
        name: NOBODY,
    });
    log::hand_on(
        &origin,
        level.0 as c_int,
        subsys.0 as c_int,
        func.unwrap_or(NOBODY).to_owned(),
        line,
        message,
        None,
    );
}

/// # Safety
/// `prov` is NULL or a provider that, like its name, does not change while the result is in use.
pub(super) unsafe fn origin<'a>(prov: *const fi_provider) -> Option<Origin<'a>> {
    // SAFETY: this function's caller promises it.
    let name = unsafe { text(prov.as_ref()?.name) };
    Some(Origin {
        provider: prov,
        name: name.unwrap_or(NOBODY),
    })
}

/// # Safety
/// `text` is NULL or ends with a zero, and does not change while the result is in use.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL, so this function's caller promises that it ends with a zero.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

const NOBODY: &CStr = c"(null)";
