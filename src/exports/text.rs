// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_tostr`, `fi_tostr_r`: fi_fabric(3); `fi_strerror`: fi_errno(3).

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use abi::*;
use base::text::{self, Text};

/// Returns the text of `data`, valid until the next call of the same thread. NULL without data, unless the type needs
/// none.
///
/// # Safety
/// `data` is NULL or points to a value of the type that fi_fabric(3) gives for `datatype`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_tostr(data: *const c_void, datatype: fi_type) -> *mut c_char {
    thread_local! {
        // One for each thread, so that threads do not overwrite each other's texts.
        static BUFFER: UnsafeCell<[c_char; BUFFER_SIZE]> = const { UnsafeCell::new([0; BUFFER_SIZE]) };
    }
    BUFFER.with(|buffer| {
        let buffer = buffer.get().cast::<c_char>();
        // SAFETY: the buffer belongs to this thread; this function's caller promises the rest.
        unsafe { fi_tostr_r(buffer, BUFFER_SIZE, data, datatype) }
    })
}
symver!(fi_tostr @@ "FABRIC_1.0");

/// Writes the text of `data` into the caller's buffer, cut if it is too long. Returns the buffer, or NULL without a
/// buffer or data.
///
/// # Safety
/// `buf` is NULL or has room for `len` bytes; `data` is NULL or points to a value of the type that fi_fabric(3) gives
/// for `datatype`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_tostr_r(
    buf: *mut c_char,
    len: usize,
    data: *const c_void,
    datatype: fi_type,
) -> *mut c_char {
    if buf.is_null() || len == 0 || (data.is_null() && datatype != FI_TYPE_VERSION) {
        return ptr::null_mut();
    }
    let mut text = Text::for_buffer(len);
    // SAFETY: `data` is not NULL if the type needs it, so the caller promises that it has that type.
    unsafe { text::write(&mut text, datatype, data) };
    let bytes = text.as_bytes();
    // SAFETY: `Text` stays below the size of its buffer, which leaves room for the zero.
    unsafe {
        buf.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        buf.add(bytes.len()).write(0);
    }
    buf
}
symver!(fi_tostr_r @@ "FABRIC_1.4");

/// Returns the text of an error number, with or without its minus sign.
#[unsafe(no_mangle)]
pub extern "C" fn fi_strerror(errnum: c_int) -> *const c_char {
    text::strerror(errnum)
}
symver!(fi_strerror @@ "FABRIC_1.0");

/// Bytes of the buffer; longer texts are cut.
const BUFFER_SIZE: usize = 8192;
