// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Kinds of memory, and the copies to and from each kind: fi_mr(3), iface and fi_mr_desc. Each copy looks at its
//! address, which is marked if a device has the memory, and asks the driver of that device then.
//!
//! - `address`: marked addresses; `kind`: the kinds; `driver`: what a driver does; `cuda`: NVIDIA's;
//!   `rocr`: AMD's; `ze`: Intel's; `health`: whether a driver can still be used
//! - `own_copies`: functions of the program in place of a driver's
//! - `export`, `import`: memory that processes map from each other
//! - `faults`: copies that have failed
//! - `stage`, `slots`: host memory between devices and the kernel; `transit`: long messages on their way through it
//!
//! Trusted with: the addresses that its callers give.

pub mod address;
pub mod cuda;
pub mod driver;
pub mod export;
pub mod faults;
mod health;
pub mod import;
pub mod kind;
pub mod own_copies;
pub mod rocr;
pub mod slots;
pub mod stage;
pub mod transit;
pub mod ze;

use core::ffi::c_void;
use core::num::NonZero;

use sync::copy::{self, Ways};

use address::is_device;
pub use kind::Kind;

/// A descriptor from the application: NULL, or a result of fi_mr_desc(3), which is a number here. Only the transport
/// that gave the number can interpret it, and it must check what it finds, because programs may pass anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Desc(u32);

impl Desc {
    pub const NONE: Desc = Desc(0);

    /// Some programs pass the address of the region's handle, which is the descriptor with libfabric: it is none here,
    /// and the memory is looked up.
    #[inline(always)]
    pub fn new(desc: *mut c_void) -> Desc {
        Desc(u32::try_from(desc.addr()).unwrap_or(0))
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

/// Copies from the library's own memory to memory of any kind.
///
/// # Safety
/// `len` bytes at `to` must be writable memory, `len` bytes at `from` must be readable, and they must not overlap. The
/// copies below require the same. A marked address must be one of memory that a driver owned when it was marked.
#[inline(always)]
pub unsafe fn copy_to(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match is_device(to) {
            true => put(from, to, len),
            false => core::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies from memory of any kind to the library's own memory. Bytes that a device does not give are zero.
///
/// # Safety
/// The conditions of `copy_to`, with the sides exchanged.
#[inline(always)]
pub unsafe fn copy_from(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match is_device(from) {
            true => {
                get(from, to, len);
            }
            false => core::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Does the same as `copy_to`, from memory that is shared with another process.
///
/// # Safety
/// The conditions of `copy_to`.
#[inline(always)]
pub unsafe fn copy_to_from_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match is_device(to) {
            true => put(from, to, len),
            false => copy::copy_from_shared(from, to, len),
        }
    }
}

/// Does the same as `copy_from`, to memory that is shared with another process.
///
/// # Safety
/// The conditions of `copy_from`.
#[inline(always)]
pub unsafe fn copy_from_to_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match is_device(from) {
            true => {
                get(from, to, len);
            }
            false => copy::copy_to_shared(from, to, len),
        }
    }
}

/// Does the same as `copy_from_to_shared`, for many bytes.
///
/// # Safety
/// The conditions of `copy_from_to_shared`.
#[inline(always)]
pub unsafe fn copy_long_to_shared(from: *const u8, to: *mut u8, len: usize, ways: &mut Ways) {
    // SAFETY: the caller's promise.
    unsafe {
        match is_device(from) {
            true => {
                get(from, to, len);
            }
            false => ways.copy(from, to, len),
        }
    }
}

/// # Safety
/// `len` bytes at `from` must be readable.
#[cold]
#[inline(never)]
unsafe fn put(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    if let Err(fault) = unsafe { driver::copy(to, from, to, len) } {
        faults::note(address::plain(to), len, fault);
    }
}

/// # Safety
/// `len` bytes at `to` must be writable.
#[cold]
#[inline(never)]
unsafe fn get(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Err(fault) = driver::copy(from, from, to, len) {
            faults::note(address::plain(from), len, fault);
            to.write_bytes(0, len);
        }
    }
}

/// As `copy_from`, from device memory, for a caller that handles failures: it returns whether the device has given the
/// bytes.
///
/// # Safety
/// The conditions of `copy_from`.
#[cold]
pub unsafe fn read_device(from: *const u8, to: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { driver::copy(from, from, to, len).is_ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_moves_its_bytes_and_no_other() {
        type Copy = unsafe fn(*const u8, *mut u8, usize);
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
                unsafe { copy(from[1..].as_ptr(), to[1..].as_mut_ptr(), len) };
                assert_eq!(to[1..=len], from[1..=len], "{name} {len}");
                assert!(to[0] == 0 && to[len + 1..].iter().all(|&byte| byte == 0));
            }
        }
        let (mut ways, mut to) = (Ways::default(), vec![0; 2000]);
        // SAFETY: as above.
        unsafe { copy_long_to_shared(from.as_ptr(), to.as_mut_ptr(), 1900, &mut ways) };
        assert_eq!((&to[..1900], &to[1900..]), (&from[..1900], &[0; 100][..]));
    }

    #[test]
    fn memory_that_no_driver_owns_gives_nothing() {
        let (mut here, mut to) = ([7_u8; 8], [1_u8; 8]);
        let device = address::marked(here.as_mut_ptr());
        // SAFETY: `to` has the bytes; no driver owns the other address.
        unsafe { copy_from(device, to.as_mut_ptr(), 8) };
        assert_eq!(to, [0; 8]);
        assert_eq!(
            faults::take(here.as_ptr().addr(), 8),
            Some(faults::Fault { code: 0 })
        );
        // SAFETY: as above.
        unsafe { copy_to(to.as_ptr(), device, 8) };
        assert_eq!(here, [7; 8]);
        assert!(faults::take(here.as_ptr().addr(), 8).is_some());
    }
}
