// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Functions of the program that copy device memory in place of a driver: fi_domain(3), FI_SET_OPS_HMEM_OVERRIDE. Those
//! that were set last count, for the whole process and until their domain is closed.
//!
//! Trusted with: calling these functions as the man page says.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use abi::{fi_hmem_iface, iovec, ssize_t};

use crate::driver::Driver;
use crate::faults::Fault;

type From = unsafe extern "C" fn(
    *mut c_void,
    usize,
    fi_hmem_iface,
    u64,
    *const iovec,
    usize,
    u64,
) -> ssize_t;
type To = unsafe extern "C" fn(
    fi_hmem_iface,
    u64,
    *const iovec,
    usize,
    u64,
    *const c_void,
    usize,
) -> ssize_t;

/// Functions that copy from and to devices.
#[derive(Clone, Copy)]
pub struct Functions {
    pub from: From,
    pub to: To,
}

static ANY: AtomicBool = AtomicBool::new(false);
static SET: Mutex<Vec<(u64, Functions)>> = Mutex::new(Vec::new());

fn set() -> MutexGuard<'static, Vec<(u64, Functions)>> {
    SET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Functions that are used until this is dropped.
pub struct InUse(u64);

impl InUse {
    pub fn new(functions: Functions) -> InUse {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        set().push((number, functions));
        ANY.store(true, Ordering::Release);
        InUse(number)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut set = set();
        set.retain(|(number, _)| *number != self.0);
        ANY.store(!set.is_empty(), Ordering::Release);
    }
}

/// Whether a program copies itself.
#[inline]
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Copies with the program's functions, if there are some.
///
/// # Safety
/// The conditions of `Driver::copy`.
pub(super) unsafe fn copy(
    driver: &dyn Driver,
    device: usize,
    from: usize,
    to: usize,
    len: usize,
) -> Option<Result<(), Fault>> {
    if !any() {
        return None;
    }
    let (_, Functions { from: get, to: put }) = *set().last()?;
    let kind = fi_hmem_iface(driver.kind() as u32);
    let number = driver.device_of(device);
    let piece = iovec {
        iov_base: core::ptr::with_exposed_provenance_mut(device),
        iov_len: len,
    };
    let mut done = 0;
    while done < len {
        let (offset, left) = (done as u64, len - done);
        // SAFETY: the caller's promise; the functions stay set until the domain is closed.
        let n = unsafe {
            match device == from {
                true => {
                    let to = core::ptr::with_exposed_provenance_mut(to + done);
                    get(to, left, kind, number, &raw const piece, 1, offset)
                }
                false => {
                    let from = core::ptr::with_exposed_provenance(from + done);
                    put(kind, number, &raw const piece, 1, offset, from, left)
                }
            }
        };
        match usize::try_from(n) {
            Ok(n) if n > 0 && n <= left => done += n,
            _ => return Some(Err(Fault { code: n as i32 })),
        }
    }
    Some(Ok(()))
}
