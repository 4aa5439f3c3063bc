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

/// The piece at another length, zeroed behind its first `known` bytes; the old one is gone then. `None` when memory is
/// out: nothing has happened.
///
/// # Safety
/// `piece` came from the C library's heap with at least `known` bytes, and is not used any more.
pub unsafe fn resized(piece: *mut c_void, known: usize, whole: usize) -> Option<NonNull<c_void>> {
    // SAFETY: promised by the caller.
    let moved = NonNull::new(unsafe { libc::realloc(piece, whole.max(1)) })?;
    let rest = whole.saturating_sub(known);
    // SAFETY: the piece has `whole` bytes now.
    unsafe { moved.as_ptr().cast::<u8>().add(known).write_bytes(0, rest) };
    Some(moved)
}

/// Bytes that may be used of a piece; 0 for null. At least as many as were asked for.
///
/// # Safety
/// `piece` is null or came from the C library's heap.
pub unsafe fn room<T>(piece: *mut T) -> usize {
    // SAFETY: passed on from the caller.
    unsafe { libc::malloc_usable_size(piece.cast()) }
}

/// Gives a piece back; null is fine.
///
/// # Safety
/// `piece` is null or came from the C library's heap, and nothing uses it any more.
pub unsafe fn release<T>(piece: *mut T) {
    // SAFETY: passed on from the caller.
    unsafe { libc::free(piece.cast()) }
}

/// Gives a piece back whose first `len` bytes are a secret, or all where it has fewer; null is fine.
///
/// # Safety
/// As `release`.
pub unsafe fn release_wiped(piece: *mut u8, len: usize) {
    if piece.is_null() {
        return;
    }
    // SAFETY: the caller's promise; no more is written than the piece has, whatever a program says of its length, and
    // the compiler does not leave that call out.
    unsafe {
        libc::explicit_bzero(piece.cast(), len.min(room(piece)));
        libc::free(piece.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_not_wiped() {
        for len in [0, 1, 32, 1 << 20, usize::MAX] {
            let piece = copy(&[7; 32]).unwrap();
            // SAFETY: from this heap, and used by nobody else.
            unsafe { release_wiped(piece.as_ptr().cast(), len) };
        }
        // SAFETY: null.
        unsafe { release_wiped(core::ptr::null_mut(), 5) };
    }
}
