// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Texts made by the C library: formats with a variable number of arguments, and descriptions of errno values.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::ffi::CString;

/// Returns the text that `printf` would print; `None` if the C library refuses the format or memory is out.
///
/// # Safety
/// `arguments` is a `va_list` of the C library, started and not yet read, with the arguments that `format` names.
pub unsafe fn format(format: &CStr, arguments: *mut c_void) -> Option<CString> {
    let mut text: *mut c_char = ptr::null_mut();
    // SAFETY: the caller promises that format and arguments fit; on success `text` is a string from malloc.
    let length = unsafe { vasprintf(&mut text, format.as_ptr(), arguments) };
    if length < 0 || text.is_null() {
        return None;
    }
    // SAFETY: vasprintf succeeded, so the text ends with a zero.
    let copy = unsafe { CStr::from_ptr(text) }.to_owned();
    // SAFETY: the string is from malloc and has no other owner.
    unsafe { libc::free(text.cast()) };
    Some(copy)
}

/// Returns the description of an errno value. The text for a value unknown to the system is valid until the next call.
pub fn strerror(errno: c_int) -> *const c_char {
    // SAFETY: strerror takes any number and gives a string that ends with a zero.
    unsafe { libc::strerror(errno) }
}

unsafe extern "C" {
    /// Not in the libc crate: its last argument is a `va_list`, a type that Rust does not have yet. On the machines
    /// that this is built for, C passes it as a pointer.
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// Returns the description of an errno value as an owned text.
pub fn error_words(errno: c_int) -> String {
    let mut room = [0_u8; 256];
    // SAFETY: room of that length.
    let failed = unsafe { libc::strerror_r(errno, room.as_mut_ptr().cast(), room.len()) };
    let words = CStr::from_bytes_until_nul(&room).unwrap_or_default();
    match failed {
        0 => words.to_string_lossy().into_owned(),
        _ => format!("error {errno}"),
    }
}
