// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_getinfo`, `fi_dupinfo`, `fi_freeinfo`: fi_getinfo(3). These are the versions of the default release, for
//! programs that request no symbol version. The versions of other releases are in `compat`.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;

use abi::fi_info;
use base::info::{Hints, Layout, Query, duplicate, release, write_all};
use base::{Error, Result};

/// # Safety
/// fi_getinfo(3): `node` and `service` are null or terminated, `hints` is null or from fi_allocinfo or fi_dupinfo,
/// `info` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // No provider here reads the members that 2.7 added as hints, so they are not read from the caller. dlsym also
    // finds this version for programs with older headers, whose structs are shorter.
    // SAFETY: passed on from the caller.
    unsafe {
        getinfo(
            Layout::FABRIC_1_9,
            version,
            node,
            service,
            flags,
            hints,
            info,
        )
    }
}
symver!(fi_getinfo @@ "FABRIC_1.10");

/// # Safety
/// fi_getinfo(3): `info` is null or from fi_allocinfo, fi_dupinfo or fi_getinfo.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_dupinfo(info: *const fi_info) -> *mut fi_info {
    // SAFETY: passed on from the caller, whose headers are those of the default release.
    unsafe { dupinfo(Layout::FABRIC_1_10, info) }
}
symver!(fi_dupinfo @@ "FABRIC_1.10");

/// # Safety
/// fi_getinfo(3): `info` is null or a list from fi_getinfo, fi_dupinfo or fi_allocinfo that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_freeinfo(info: *mut fi_info) {
    // SAFETY: passed on from the caller; the list is in the newest layout, whatever symbol version returned it.
    unsafe { release(info) }
}
symver!(fi_freeinfo @@ "FABRIC_1.10");

/// fi_getinfo for a caller with headers of `layout`. On failure `info` is null.
///
/// # Safety
/// As [`fi_getinfo`], with hints of that layout.
pub(super) unsafe fn getinfo(
    layout: Layout,
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    if info.is_null() {
        return Error::INVAL.negative();
    }
    // SAFETY: passed on from the caller.
    let list = unsafe { find(layout, version, node, service, flags, hints) };
    let (status, list) = match list {
        Ok(list) => (0, list),
        Err(error) => (error.negative(), null_mut()),
    };
    // SAFETY: the caller's `info` is writable.
    unsafe { *info = list };
    status
}

/// # Safety
/// As [`getinfo`].
unsafe fn find(
    layout: Layout,
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
) -> Result<*mut fi_info> {
    let hints = if hints.is_null() {
        None
    } else {
        // SAFETY: the caller's hints have this layout.
        Some(unsafe { Hints::read(hints, layout)? })
    };
    let query = Query {
        version,
        // SAFETY: the caller's string is null or terminated, and unchanged during the call.
        node: unsafe { text(node) },
        // SAFETY: as above.
        service: unsafe { text(service) },
        flags,
        hints: hints.as_ref(),
    };
    write_all(&registry::getinfo(&query)?)
}

/// fi_dupinfo for a caller with headers of `layout`.
///
/// # Safety
/// As [`fi_dupinfo`], with an entry of that layout.
pub(super) unsafe fn dupinfo(layout: Layout, info: *const fi_info) -> *mut fi_info {
    // SAFETY: passed on from the caller.
    unsafe { duplicate(info, layout) }.unwrap_or(null_mut())
}

/// # Safety
/// `ptr` is null or a terminated string that stays unchanged as long as the result is used.
pub(super) unsafe fn text<'a>(ptr: *const c_char) -> Option<&'a CStr> {
    // SAFETY: passed on from the caller.
    (!ptr.is_null()).then(|| unsafe { CStr::from_ptr(ptr) })
}
