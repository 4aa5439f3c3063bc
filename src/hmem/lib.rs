// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Kinds of memory, and the copies to and from each kind. A kind that needs more than loads and stores has a file of
//! its own; so far no such kind is supported for copies. `cuda` only inspects addresses. fi_mr(3), iface and
//! fi_mr_desc.
//!
//! Trusted with: the addresses that its callers give. Each copy matches on the kind, so the compiler requires every
//! copy to handle a new kind.

pub mod cuda;

use core::ffi::c_void;
use core::num::NonZero;

use sync::copy::{self, Ways};

/// The kind of memory, which determines how to copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Memory that the processor loads from and stores to.
    Host,
}

impl Kind {
    /// Converts a number of `enum fi_hmem_iface`; `None` for a kind that is not supported.
    pub fn of_iface(iface: u32) -> Option<Kind> {
        match iface {
            0 => Some(Kind::Host),
            _ => None,
        }
    }
}

/// A descriptor from the application: NULL, or a result of fi_mr_desc(3), which is a number here. Only the transport
/// that gave the number can interpret it, and it must check what it finds, because programs may pass anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Desc(u32);

impl Desc {
    pub const NONE: Desc = Desc(0);

    #[inline(always)]
    pub fn new(desc: *mut c_void) -> Desc {
        Desc(desc.addr() as u32)
    }

    /// Returns the number; `None` for NULL.
    pub fn number(self) -> Option<NonZero<u32>> {
        NonZero::new(self.0)
    }

    /// Returns the descriptor of memory with both descriptors: none if they differ.
    pub fn and(self, other: Desc) -> Desc {
        match self == other {
            true => self,
            false => Desc::NONE,
        }
    }
}

/// Copies from the library's own memory to memory of this kind.
///
/// # Safety
/// `len` bytes at `to` must be writable memory of this kind, `len` bytes at `from` must be readable, and they must not
/// overlap. The copies below require the same.
#[inline(always)]
pub unsafe fn copy_to(kind: Kind, from: *const u8, to: *mut u8, len: usize) {
    match kind {
        // SAFETY: the caller's promise.
        Kind::Host => unsafe { core::ptr::copy_nonoverlapping(from, to, len) },
    }
}

/// Copies from memory of this kind to the library's own memory.
///
/// # Safety
/// The conditions of `copy_to`, with the sides exchanged.
#[inline(always)]
pub unsafe fn copy_from(kind: Kind, from: *const u8, to: *mut u8, len: usize) {
    match kind {
        // SAFETY: the caller's promise.
        Kind::Host => unsafe { core::ptr::copy_nonoverlapping(from, to, len) },
    }
}

/// Does the same as `copy_to`, from memory that is shared with another process.
///
/// # Safety
/// The conditions of `copy_to`.
#[inline(always)]
pub unsafe fn copy_to_from_shared(kind: Kind, from: *const u8, to: *mut u8, len: usize) {
    match kind {
        // SAFETY: the caller's promise.
        Kind::Host => unsafe { copy::copy_from_shared(from, to, len) },
    }
}

/// Does the same as `copy_from`, to memory that is shared with another process.
///
/// # Safety
/// The conditions of `copy_from`.
#[inline(always)]
pub unsafe fn copy_from_to_shared(kind: Kind, from: *const u8, to: *mut u8, len: usize) {
    match kind {
        // SAFETY: the caller's promise.
        Kind::Host => unsafe { copy::copy_to_shared(from, to, len) },
    }
}

/// Does the same as `copy_from_to_shared`, for many bytes.
///
/// # Safety
/// The conditions of `copy_from_to_shared`.
#[inline(always)]
pub unsafe fn copy_long_to_shared(
    kind: Kind,
    from: *const u8,
    to: *mut u8,
    len: usize,
    ways: &mut Ways,
) {
    match kind {
        // SAFETY: the caller's promise.
        Kind::Host => unsafe { ways.copy(from, to, len) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_is_the_only_kind() {
        assert_eq!(Kind::of_iface(0), Some(Kind::Host));
        for iface in 1..16 {
            assert_eq!(Kind::of_iface(iface), None);
        }
    }

    #[test]
    fn every_copy_moves_its_bytes_and_no_other() {
        type Copy = unsafe fn(Kind, *const u8, *mut u8, usize);
        let copies: [(&str, Copy); 4] = [
            ("copy_to", copy_to),
            ("copy_from", copy_from),
            ("copy_to_from_shared", copy_to_from_shared),
            ("copy_from_to_shared", copy_from_to_shared),
        ];
        let from: Vec<u8> = (0..2000).map(|i| (i % 251) as u8 + 1).collect();
        for (name, copy) in copies {
            for len in [0, 1, 8, 17, 100, 511, 512, 1900] {
                let mut to = vec![0; 2000];
                // SAFETY: both have room for it behind the first byte.
                unsafe { copy(Kind::Host, from[1..].as_ptr(), to[1..].as_mut_ptr(), len) };
                assert_eq!(to[1..=len], from[1..=len], "{name} {len}");
                assert!(to[0] == 0 && to[len + 1..].iter().all(|&byte| byte == 0));
            }
        }
        let (mut ways, mut to) = (Ways::default(), vec![0; 2000]);
        // SAFETY: as above.
        unsafe { copy_long_to_shared(Kind::Host, from.as_ptr(), to.as_mut_ptr(), 1900, &mut ways) };
        assert_eq!((&to[..1900], &to[1900..]), (&from[..1900], &[0; 100][..]));
    }
}
