// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The C library's heap: for memory that a C program may free or replace piece by piece, such as an `fi_info`.

use core::ffi::c_void;
use core::ptr::NonNull;

/// Allocates at least one zeroed byte, so that an empty piece is still a pointer that can be freed; `None` if memory is
/// out.
pub fn zeroed(len: usize) -> Option<NonNull<c_void>> {
    // SAFETY: calloc has no precondition and checks its product.
    NonNull::new(unsafe { libc::calloc(1, len.max(1)) })
}

/// Allocates a copy of `bytes`.
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

/// Resizes a piece and zeroes it behind its first `known` bytes; the old pointer is invalid then. If memory is out,
/// returns `None` and changes nothing.
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

/// Returns the usable bytes of a piece, at least as many as were requested; 0 for null.
///
/// # Safety
/// `piece` is null or came from the C library's heap.
pub unsafe fn room<T>(piece: *mut T) -> usize {
    // SAFETY: passed on from the caller.
    unsafe { libc::malloc_usable_size(piece.cast()) }
}

/// Frees a piece, which may be null.
///
/// # Safety
/// `piece` is null or came from the C library's heap, and is not used any more.
pub unsafe fn release<T>(piece: *mut T) {
    // SAFETY: passed on from the caller.
    unsafe { libc::free(piece.cast()) }
}

/// Frees a piece whose first `len` bytes (or all, if it has fewer) are a secret, after wiping them. The piece may be
/// null.
///
/// # Safety
/// As for `release`.
pub unsafe fn release_wiped(piece: *mut u8, len: usize) {
    if piece.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the wipe stays within the piece, whatever length the application passed, and the
    // compiler does not drop that call.
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
            // SAFETY: from this heap, and without other users.
            unsafe { release_wiped(piece.as_ptr().cast(), len) };
        }
        // SAFETY: null.
        unsafe { release_wiped(core::ptr::null_mut(), 5) };
    }
}
