// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Drivers of devices, as the rest of the library sees them.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::os::fd::OwnedFd;

use crate::address;
use crate::cuda::Cuda;
use crate::export::Export;
use crate::faults::Fault;
use crate::kind::Kind;
use crate::rocr::Rocr;
use crate::ze::Ze;
use crate::{import, own_copies, slots};

/// The driver of one kind of devices. Threads may call it at the same time.
pub trait Driver: Sync {
    fn kind(&self) -> Kind;
    /// The number of devices that the program may use.
    fn devices(&self) -> Result<u32, Fault>;
    /// Whether there is a device with this number of fi_mr(3), `device`.
    fn has_device(&self, number: i32) -> Result<bool, Fault> {
        let count = self.devices()?;
        Ok(u32::try_from(number).is_ok_and(|number| number < count))
    }
    /// Whether an address is in memory of a device that the processor cannot access. No address is while the program
    /// has not initialized the driver.
    fn owns(&self, address: usize) -> bool;
    /// The number of the device that has this address.
    fn device_of(&self, _address: usize) -> u64 {
        0
    }
    /// Copies bytes; one of the two addresses, `device`, is in memory of a device, and the other one may be. Returns
    /// when the bytes have arrived.
    ///
    /// # Safety
    /// The memory of the host's side is readable, or writable, and not used otherwise.
    unsafe fn copy(&self, device: usize, from: usize, to: usize, len: usize) -> Result<(), Fault>;
    /// Begins a copy as `copy` does it, and ends it at once or before `wait` returns.
    ///
    /// # Safety
    /// The conditions of `copy`, until then.
    unsafe fn begin(
        &self,
        device: usize,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<Ticket, Fault> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(device, from, to, len) }.map(|()| Ticket::default())
    }
    /// Waits for the end of a copy, and returns its result.
    fn wait(&self, _ticket: Ticket) -> Result<(), Fault> {
        Ok(())
    }
    /// Locks pages of the host's memory, so that copies between them and memory of the device with this address do not
    /// need the processor. Returns false if that is not possible.
    fn lock_pages(&self, _device: usize, _at: usize, _len: usize) -> bool {
        false
    }
    /// Ends what `lock_pages` has begun.
    fn unlock_pages(&self, _at: usize) {}
    /// Whether processes can map each other's allocations.
    fn shares(&self) -> bool {
        false
    }
    /// The number of the allocation with this address, which no other one of this process ever has.
    fn number(&self, _address: usize) -> Option<u64> {
        None
    }
    /// Returns the allocation with this address, if other processes can map it.
    fn export(&self, _address: usize) -> Option<Export> {
        None
    }
    /// Maps an allocation of another process for copies to or from this address in memory of a device; `None`: to or
    /// from the host. Returns where it begins, and its length.
    fn import(&self, _export: &Export, _near: Option<usize>) -> Result<(usize, usize), Fault> {
        Err(Fault { code: 0 })
    }
    /// Closes what `import` has returned.
    fn close(&self, _base: usize) {}
    /// Returns a dma-buf with these bytes of device memory, and their place in it. Adapters access the memory through
    /// it.
    fn buffer(&self, _address: usize, _len: usize) -> Option<(OwnedFd, u64)> {
        None
    }
    /// The driver's name of a failure.
    fn name_of(&self, fault: Fault) -> Option<String>;
    /// Gives back what copies have taken from the driver.
    fn release(&self);
}

/// A copy that has begun, for its driver.
#[derive(Default)]
pub struct Ticket(pub(super) [usize; 2]);

/// Kinds that may be used, a bit for each: FI_HMEM.
static ALLOWED: AtomicU32 = AtomicU32::new(0);
/// Domains whose operations may name device memory.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// Lets the library look for devices of the kinds of FI_HMEM. Before this call all memory is the host's.
pub fn allow(wanted: impl Fn(&str) -> bool) {
    let bits = Kind::ALL
        .into_iter()
        .filter(|kind| wanted(kind.name()))
        .fold(0, |bits, kind| bits | 1 << kind as u32);
    ALLOWED.store(bits, Ordering::Relaxed);
}

/// A domain whose operations may name device memory. With the last one the drivers get back what copies have taken.
pub struct User(());

impl User {
    /// `wanted`: see `allow`.
    pub fn new(wanted: impl Fn(&str) -> bool) -> User {
        allow(wanted);
        USERS.fetch_add(1, Ordering::Relaxed);
        User(())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if USERS.fetch_sub(1, Ordering::Relaxed) == 1 {
            import::close_all();
            slots::clear();
            all().for_each(Driver::release);
        }
    }
}

/// Returns the driver of a kind; `None` if there is none, or FI_HMEM excludes it. Its library is opened at the first
/// call.
pub fn of(kind: Kind) -> Option<&'static dyn Driver> {
    if ALLOWED.load(Ordering::Relaxed) & 1 << kind as u32 == 0 {
        return None;
    }
    match kind {
        Kind::Cuda => {
            let driver = Cuda::driver().ok().filter(|cuda| cuda.can_copy());
            driver.map(|cuda| cuda as &dyn Driver)
        }
        Kind::Rocr => Rocr::driver().map(|rocr| rocr as &dyn Driver),
        Kind::Ze => Ze::driver().map(|ze| ze as &dyn Driver),
        // No copies from Neuron, none at all with SynapseAI, are known.
        Kind::Host | Kind::Neuron | Kind::SynapseAi => None,
    }
}

/// The drivers of this process.
pub fn all() -> impl Iterator<Item = &'static dyn Driver> {
    Kind::ALL.into_iter().filter_map(of)
}

/// Returns the driver of the device that has this address, if a device has it.
#[cold]
pub fn owner(address: usize) -> Option<&'static dyn Driver> {
    all().find(|driver| driver.owns(address))
}

/// Copies bytes between device memory and memory of the host: `device`, a marked address, is one of the two.
///
/// # Safety
/// The conditions of `Driver::copy`.
#[cold]
pub(super) unsafe fn copy(
    device: *const u8,
    from: *const u8,
    to: *mut u8,
    len: usize,
) -> Result<(), Fault> {
    if len == 0 {
        return Ok(());
    }
    let at = address::plain(device);
    // The memory may have been freed.
    let driver = owner(at).ok_or(Fault { code: 0 });
    let (from, to) = (address::plain(from), address::plain(to));
    // SAFETY: the caller's promise.
    driver.and_then(|driver| unsafe {
        let own = own_copies::copy(driver, at, from, to, len);
        own.unwrap_or_else(|| driver.copy(at, from, to, len))
    })
}

/// Begins a copy as `Driver::begin` does it.
///
/// # Safety
/// The conditions of `Driver::begin`.
pub(super) unsafe fn begin(
    driver: &dyn Driver,
    device: usize,
    from: usize,
    to: usize,
    len: usize,
) -> Result<Ticket, Fault> {
    // SAFETY: the caller's promise.
    unsafe {
        match own_copies::copy(driver, device, from, to, len) {
            Some(copied) => copied.map(|()| Ticket::default()),
            None => driver.begin(device, from, to, len),
        }
    }
}

/// Copies bytes of device memory of this process to other memory, which a device has if the address is marked.
///
/// # Safety
/// `len` bytes at `to` are writable memory.
#[cold]
pub unsafe fn copy_within(from: usize, to: *mut u8, len: usize) -> Result<(), Fault> {
    let driver = owner(from).ok_or(Fault { code: 0 })?;
    // SAFETY: the caller's promise; the driver owns the source.
    unsafe { copy_out(driver, from, to, len) }
}

/// Copies bytes of a driver's device to memory that the host or a device of the same driver has: a driver takes memory
/// of another one's device for the host's.
///
/// # Safety
/// `len` bytes at `to` are writable memory. The driver owns `len` bytes at `from`.
pub(super) unsafe fn copy_out(
    driver: &dyn Driver,
    from: usize,
    to: *mut u8,
    len: usize,
) -> Result<(), Fault> {
    let at = address::plain(to);
    if address::is_device(to) && !driver.owns(at) {
        return Err(Fault { code: 0 });
    }
    // SAFETY: the caller's promise.
    unsafe { driver.copy(from, from, at, len) }
}

/// As `copy_within`, to device memory of this process.
///
/// # Safety
/// `len` bytes at `from` are readable memory.
#[cold]
pub unsafe fn copy_within_to(to: usize, from: *const u8, len: usize) -> Result<(), Fault> {
    let driver = owner(to).ok_or(Fault { code: 0 })?;
    // SAFETY: the caller's promise; the driver owns the target.
    unsafe { copy_into(driver, from, to, len) }
}

/// As `copy_out`, to memory of the driver's device.
///
/// # Safety
/// `len` bytes at `from` are readable memory. The driver owns `len` bytes at `to`.
pub(super) unsafe fn copy_into(
    driver: &dyn Driver,
    from: *const u8,
    to: usize,
    len: usize,
) -> Result<(), Fault> {
    let at = address::plain(from);
    if address::is_device(from) && !driver.owns(at) {
        return Err(Fault { code: 0 });
    }
    // SAFETY: the caller's promise.
    unsafe { driver.copy(to, at, to, len) }
}

/// Describes a failure for fi_cq_strerror.
pub fn words(fault: Fault) -> String {
    let name = all().find_map(|driver| driver.name_of(fault));
    match (name, fault.code) {
        (Some(name), code) => format!("a copy to or from device memory failed: {name} ({code})"),
        (None, code) if own_copies::any() => {
            format!("the program's function that copies device memory returned {code}")
        }
        (None, 0) => "no device has the memory any more".to_owned(),
        (None, code) => {
            format!("a copy to or from device memory failed: error {code} of its driver")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver of the addresses below 1000.
    struct Low;

    impl Driver for Low {
        fn kind(&self) -> Kind {
            Kind::Cuda
        }

        fn devices(&self) -> Result<u32, Fault> {
            Ok(2)
        }

        fn owns(&self, address: usize) -> bool {
            address < 1000
        }

        unsafe fn copy(&self, _: usize, _: usize, to: usize, _: usize) -> Result<(), Fault> {
            Err(Fault { code: to as i32 })
        }

        fn name_of(&self, _: Fault) -> Option<String> {
            None
        }

        fn release(&self) {}
    }

    #[test]
    fn a_driver_does_not_copy_to_the_device_of_another() {
        let copied = |to: *mut u8| {
            // SAFETY: this driver accesses nothing.
            unsafe { copy_out(&Low, 1, to, 1) }.unwrap_err().code
        };
        let at = |address: usize| core::ptr::without_provenance_mut(address);
        assert_eq!(copied(at(2000)), 2000);
        assert_eq!(copied(address::marked(at(999))), 999);
        assert_eq!(copied(address::marked(at(2000))), 0);
    }

    #[test]
    fn devices_are_numbered_from_0() {
        let there = [-1, 0, 1, 2].map(|number| Low.has_device(number).unwrap());
        assert_eq!(there, [false, true, true, false]);
    }
}
