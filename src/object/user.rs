// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of the caller that a call reads or fills: checked for NULL once, and bounded afterwards.

use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::ptr;

use base::{Error, Result};

/// A buffer of `len` bytes that the call may fill.
pub struct Room<'a> {
    base: *mut u8,
    len: usize,
    call: PhantomData<&'a mut [u8]>,
}

#[cfg(any(test, feature = "testing"))]
impl<'call> Room<'call> {
    /// Returns the room of a buffer, for tests of callees.
    pub fn of_test(buffer: &'call mut [u8]) -> Room<'call> {
        Room {
            base: buffer.as_mut_ptr(),
            len: buffer.len(),
            call: PhantomData,
        }
    }
}

impl Room<'_> {
    /// # Safety
    /// `base[..len]` must be writable during the call; `base` may be NULL only with `len` 0.
    pub unsafe fn new(base: *mut c_void, len: usize) -> Result<Self> {
        if base.is_null() && len > 0 {
            return Err(Error::INVAL);
        }
        Ok(Room {
            base: base.cast(),
            len,
            call: PhantomData,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies as much as fits; returns the number of bytes.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.len);
        // SAFETY: `n` is within the buffer that `new` was promised; it does not overlap memory of this library.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base, n) };
        n
    }
}

/// A buffer for entries of 64-bit words (completions, addresses), filled one after the other.
pub struct Words<'a> {
    at: *mut u8,
    left: usize,
    call: PhantomData<&'a mut [u64]>,
}

impl Words<'_> {
    /// # Safety
    /// `base` must have room for `words` 64-bit words during the call.
    #[inline]
    pub unsafe fn new(base: *mut c_void, words: usize) -> Self {
        Words {
            at: base.cast(),
            left: words,
            call: PhantomData,
        }
    }

    /// Copies what fits.
    #[inline]
    pub fn put(&mut self, words: &[u64]) {
        let n = words.len().min(self.left);
        let from = words.as_ptr().cast::<u8>();
        // SAFETY: bounded by the room that `new` was promised; the room need not be aligned, so bytes are copied.
        unsafe {
            match n {
                // One entry without a function call: the two longest formats.
                5 => ptr::copy_nonoverlapping(from, self.at, 5 * 8),
                6 => ptr::copy_nonoverlapping(from, self.at, 6 * 8),
                _ => ptr::copy_nonoverlapping(from, self.at, n * 8),
            }
            self.at = self.at.add(n * 8);
        }
        self.left -= n;
    }
}

/// Stores a result at a place of the caller, only on success.
///
/// # Safety
/// `out` must be NULL or writable.
pub unsafe fn store<T>(out: *mut T, result: impl FnOnce() -> Result<T>) -> Result {
    if out.is_null() {
        return Err(Error::INVAL);
    }
    let value = result()?;
    // SAFETY: not NULL, and writable by the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Returns bytes of the caller.
///
/// # Safety
/// `base[..len]` must be readable and unchanged for `'a`.
pub unsafe fn bytes<'a>(base: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (base.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::INVAL),
        // No object is this long.
        (false, _) if len > isize::MAX as usize => Err(Error::INVAL),
        // SAFETY: promised by the caller.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(base.cast(), len) }),
    }
}

/// Returns text of the caller; `None` for NULL.
///
/// # Safety
/// `text` must be NULL or a terminated string, unchanged for `'a`.
pub unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: terminated, by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Error::INVAL)
}

/// Returns a struct of the caller; `None` for NULL.
///
/// # Safety
/// `value` must be NULL or readable for `'a`.
pub unsafe fn opt<'a, T>(value: *const T) -> Option<&'a T> {
    // SAFETY: promised by the caller.
    unsafe { value.as_ref() }
}
