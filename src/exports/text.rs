// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_tostr`, `fi_tostr_r`: fi_fabric(3); `fi_strerror`: fi_errno(3).

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use crate::abi::*;
use crate::base::text::{self, Text};

/// The text of `data`, valid until the same thread asks again. NULL without data, unless the type needs none.
///
/// # Safety
/// `data` is NULL or to what fi_fabric(3) says for `datatype`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_tostr(data: *const c_void, datatype: fi_type) -> *mut c_char {
    thread_local! {
        // One for each thread, so that threads at least do not disturb each other's texts.
        static BUFFER: UnsafeCell<[c_char; BUFFER_SIZE]> = const { UnsafeCell::new([0; BUFFER_SIZE]) };
    }
    BUFFER.with(|buffer| {
        let buffer = buffer.get().cast::<c_char>();
        // SAFETY: the buffer is this thread's; the rest is what this function's caller promises.
        unsafe { fi_tostr_r(buffer, BUFFER_SIZE, data, datatype) }
    })
}
symver!(fi_tostr @@ "FABRIC_1.0");

/// Writes the text of `data` into the caller's buffer, cut off where it does not fit; the buffer, or NULL without a
/// buffer or data.
///
/// # Safety
/// `buf` is NULL or has room for `len` bytes; `data` is NULL or to what fi_fabric(3) says for `datatype`.
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
    // SAFETY: `data` is not NULL where the type needs it, so the caller promises that it is what the type says.
    unsafe { text::write(&mut text, datatype, data) };
    let bytes = text.as_bytes();
    // SAFETY: `Text` keeps below the size that it was told, which leaves room for the zero.
    unsafe {
        buf.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        buf.add(bytes.len()).write(0);
    }
    buf
}
symver!(fi_tostr_r @@ "FABRIC_1.4");

/// What an error number means, whether it has its minus sign or not.
#[unsafe(no_mangle)]
pub extern "C" fn fi_strerror(errnum: c_int) -> *const c_char {
    text::strerror(errnum)
}
symver!(fi_strerror @@ "FABRIC_1.0");

/// Texts that are longer are cut off.
const BUFFER_SIZE: usize = 8192;
