// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Device memory of other processes that this process has mapped. To map an allocation takes long, so the mapping stays
//! while it is used now and then. A mapping keeps the memory of an allocation that its owner has freed.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::driver::{self, Driver};
use crate::export::Export;
use crate::faults::Fault;
use crate::{address, kind::Kind};

/// Identifies a process; a later one with the same number has another identity.
pub type Owner = [u8; 16];

/// A mapping, which stays at least until this is dropped.
pub struct Import {
    driver: &'static dyn Driver,
    base: usize,
    len: usize,
}

struct Entry {
    owner: Owner,
    export: Export,
    /// Where the allocation begins in this process, and how long it is.
    base: usize,
    len: usize,
    users: u32,
    last_use: Instant,
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// FI_MR_CACHE_MAX_COUNT and FI_MR_CACHE_MAX_SIZE.
static MOST: AtomicUsize = AtomicUsize::new(DEFAULT_COUNT);
static MOST_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
const DEFAULT_COUNT: usize = 1024;
/// Mappings that were not used for this long are closed.
const IDLE: Duration = Duration::from_secs(10);

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits the mappings that stay, in number and bytes. Without a limit of bytes, all memory of the devices may stay
/// mapped.
pub fn limit(count: Option<usize>, bytes: Option<usize>) {
    MOST.store(count.unwrap_or(DEFAULT_COUNT), Ordering::Relaxed);
    MOST_BYTES.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
}

/// Kinds whose allocations of other processes this process can map, a bit for each.
pub fn kinds() -> u8 {
    driver::all()
        .filter(|driver| driver.shares())
        .fold(0, |bits, driver| bits | bit(driver.kind()))
}

/// The bit of a kind in `kinds`.
pub fn bit(kind: Kind) -> u8 {
    1 << kind as u32
}

/// Maps an allocation of another process. `near`: the address from or to which the bytes go, which may be the host's.
pub fn open(owner: Owner, export: &Export, near: *const u8) -> Result<Import, Fault> {
    let none = Fault { code: 0 };
    let driver = driver::of(export.kind).ok_or(none)?;
    let mut entries = entries();
    let now = Instant::now();
    let is_it = |one: &Entry| one.owner == owner && one.export == *export;
    // Earlier allocations of the owner at these addresses are freed by now.
    close_unused(&mut entries, |one| {
        let is_old = one.owner == owner && overlaps(&one.export, export);
        !is_it(one) && (is_old || now.saturating_duration_since(one.last_use) >= IDLE)
    });
    if let Some(entry) = entries.iter_mut().find(|one| is_it(one)) {
        entry.users += 1;
        entry.last_use = now;
        let (base, len) = (entry.base, entry.len);
        return Ok(Import { driver, base, len });
    }
    make_room(&mut entries, export.len);
    let near = match address::is_device(near) {
        true => Some(address::plain(near)),
        false => None,
    };
    let (base, len) = driver.import(export, near).or_else(|_| {
        // A mapping of freed memory may be in the way.
        close_unused(&mut entries, |one| one.owner == owner);
        driver.import(export, near)
    })?;
    entries.push(Entry {
        owner,
        export: *export,
        base,
        len,
        users: 1,
        last_use: now,
    });
    Ok(Import { driver, base, len })
}

fn overlaps(one: &Export, other: &Export) -> bool {
    one.kind == other.kind
        && one.base < other.base.saturating_add(other.len)
        && other.base < one.base.saturating_add(one.len)
}

/// Closes the mappings that fulfil a condition and that no copy uses.
fn close_unused(entries: &mut Vec<Entry>, is_meant: impl Fn(&Entry) -> bool) {
    entries.retain(|entry| {
        let stays = entry.users > 0 || !is_meant(entry);
        if !stays {
            close(entry);
        }
        stays
    });
}

fn close(entry: &Entry) {
    if let Some(driver) = driver::of(entry.export.kind) {
        driver.close(entry.base);
    }
}

/// Closes the mappings that were used least recently, so that one more of this size is within the limits.
fn make_room(entries: &mut Vec<Entry>, len: u64) {
    let (most, most_bytes) = (
        MOST.load(Ordering::Relaxed),
        MOST_BYTES.load(Ordering::Relaxed),
    );
    loop {
        let bytes = entries
            .iter()
            .fold(len, |sum, one| sum.saturating_add(one.export.len));
        if entries.len() < most && bytes <= most_bytes as u64 {
            return;
        }
        let unused = entries.iter().enumerate().filter(|(_, one)| one.users == 0);
        let Some((at, _)) = unused.min_by_key(|(_, one)| one.last_use) else {
            return;
        };
        close(&entries.swap_remove(at));
    }
}

/// Closes the mappings of a process that is gone, or with which there is no connection any more.
#[cold]
pub fn forget(owner: Owner) {
    close_unused(&mut entries(), |one| one.owner == owner);
}

/// Closes all mappings that no copy uses.
pub(super) fn close_all() {
    close_unused(&mut entries(), |_| true);
}

impl Import {
    /// Copies bytes of the mapping to memory of this process, which a device has if the address is marked. Returns when
    /// they have arrived.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable memory, and not used otherwise.
    pub unsafe fn copy_to(&self, from: usize, to: *mut u8, len: usize) -> Result<(), Fault> {
        let end = from.checked_add(len);
        if end.is_none_or(|end| end > self.len) {
            return Err(Fault { code: 0 });
        }
        if len == 0 {
            return Ok(());
        }
        let at = self.base + from;
        // SAFETY: the bytes are in the mapping, which stays; the caller's promise for `to`.
        unsafe { driver::copy_out(self.driver, at, to, len) }
    }

    /// Copies bytes of this process's memory, which a device has if the address is marked, to the mapping.
    ///
    /// # Safety
    /// `len` bytes at `from` are readable memory.
    pub unsafe fn copy_from(&self, to: usize, from: *const u8, len: usize) -> Result<(), Fault> {
        let end = to.checked_add(len);
        if end.is_none_or(|end| end > self.len) {
            return Err(Fault { code: 0 });
        }
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the bytes are in the mapping, which stays; the caller's promise for `from`.
        unsafe { driver::copy_into(self.driver, from, self.base + to, len) }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        let mut entries = entries();
        let is_own = |one: &Entry| one.base == self.base;
        if let Some(entry) = entries.iter_mut().find(|one| is_own(one)) {
            entry.users -= 1;
        }
        // Nothing stays without a cache.
        if MOST.load(Ordering::Relaxed) == 0 {
            close_unused(&mut entries, is_own);
        }
    }
}
