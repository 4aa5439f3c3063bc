// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The C library's heap: for memory that a C program may free or replace piece by piece, such as an `fi_info`.

use core::ffi::c_void;
use core::ptr::NonNull;

/// At least one zeroed byte, so that an empty piece is still a pointer that can be freed; `None` when memory is out.
pub fn zeroed(len: usize) -> Option<NonNull<c_void>> {
    // SAFETY: calloc has no precondition and checks its product.
    NonNull::new(unsafe { libc::calloc(1, len.max(1)) })
}

/// A copy of `bytes`.
pub fn copy(bytes: &[u8]) -> Option<NonNull<c_void>> {
    let piece = zeroed(bytes.len())?;
    // SAFETY: `piece` has room for `bytes.len()` bytes and is new, so it overlaps nothing.
    unsafe {
        piece
            .as_ptr()
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
    };
    Some(piece)
}

/// Gives a piece back; null is fine.
///
/// # Safety
/// `piece` is null or came from the C library's heap, and nothing uses it any more.
pub unsafe fn release<T>(piece: *mut T) {
    // SAFETY: passed on from the caller.
    unsafe { libc::free(piece.cast()) }
}
