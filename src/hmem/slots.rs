// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Host memory for bytes on their way between a device and the network. Its pages are locked, so that the device copies
//! while the processor does other work. Slots that are free are used again.

use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::Driver;

/// Bytes of a slot.
pub const LEN: usize = 256 << 10;
const PAGE: usize = 4096;
/// Free slots that are kept.
const KEPT: usize = 32;

/// So many slots in use are enough: copies then take no more of them than they need (64 MiB).
const ENOUGH: usize = 256;

/// `LEN` bytes of host memory, which are free again when this is dropped.
pub struct Slot(Option<Memory>);

struct Memory {
    base: NonNull<u8>,
    /// The driver that has locked the pages.
    locked_by: Option<&'static dyn Driver>,
}

// SAFETY: the memory belongs to its owner alone.
unsafe impl Send for Memory {}

static FREE: Mutex<Vec<Memory>> = Mutex::new(Vec::new());
static IN_USE: AtomicUsize = AtomicUsize::new(0);

fn free() -> MutexGuard<'static, Vec<Memory>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn layout() -> Layout {
    match Layout::from_size_align(LEN, PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("not a layout"),
    }
}

/// Whether copies should do with as few slots as they can.
pub(super) fn are_scarce() -> bool {
    IN_USE.load(Ordering::Relaxed) >= ENOUGH
}

impl Slot {
    /// Returns a slot for copies of this driver, to or from this address in memory of its device.
    pub fn take(driver: &'static dyn Driver, device: usize) -> Slot {
        IN_USE.fetch_add(1, Ordering::Relaxed);
        let suits = |memory: &Memory| {
            let other = memory.locked_by.map(Driver::kind);
            other.is_none_or(|kind| kind == driver.kind())
        };
        let mut all = free();
        if let Some(at) = all.iter().position(suits) {
            return Slot(Some(all.swap_remove(at)));
        }
        drop(all);
        Slot(Some(Memory::new(driver, device)))
    }

    fn base(&self) -> NonNull<u8> {
        self.0
            .as_ref()
            .map_or(NonNull::dangling(), |memory| memory.base)
    }

    pub fn address(&self) -> usize {
        self.base().addr().get()
    }

    /// Returns the bytes. No copy of a device to or from the slot is under way.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a slot that was not dropped has `LEN` initialized bytes, and its owner waits for copies before.
        unsafe { slice::from_raw_parts(self.base().as_ptr(), LEN) }
    }

    /// As `bytes`, to write to them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the slot is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(self.base().as_ptr(), LEN) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
        let mut all = free();
        if all.len() < KEPT {
            all.extend(self.0.take());
        }
    }
}

impl Memory {
    fn new(driver: &'static dyn Driver, device: usize) -> Memory {
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc(layout()) });
        let base = base.unwrap_or_else(|| handle_alloc_error(layout()));
        // SAFETY: `LEN` bytes were allocated.
        unsafe { base.write_bytes(0, LEN) };
        // Without it copies are slower.
        let is_locked = driver.lock_pages(device, base.addr().get(), LEN);
        Memory {
            base,
            locked_by: is_locked.then_some(driver),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(driver) = self.locked_by {
            driver.unlock_pages(self.base.addr().get());
        }
        // SAFETY: allocated with this layout, and not used any more.
        unsafe { dealloc(self.base.as_ptr(), layout()) };
    }
}

/// Frees the slots that no copy uses.
pub(super) fn clear() {
    let all = core::mem::take(&mut *free());
    drop(all);
}
