// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of Intel devices: oneAPI Level Zero, "Memory" and "Command Lists".
//!
//! The program uses the same loader. zeInit is not called here: until the program has called it, zeDriverGet fails, so
//! no address belongs to a device.
//!
//! Questions about an address need a context, and no call names those of the program. So one context of each driver is
//! made when a domain with FI_HMEM first asks, and destroyed with the last such domain. Intel's driver finds memory of
//! all contexts of a driver with any of them; this has not been seen on a device.
//!
//! Trusted with: calling functions of the loader by the signatures of its header.

mod calls;
pub mod engine;
mod lists;

use core::ffi::c_void;
use core::ptr::null;
use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock};

use sys::shared_object::SharedObject;

use self::calls::{Allocation, Calls, ContextDesc, Handle, Outcome, list};
use self::lists::Lists;
use crate::driver::Driver;
use crate::faults::Fault;
use crate::health::Health;
use crate::kind::Kind;

/// The loader and what it has loaded. Several threads may call it at the same time.
pub struct Ze {
    calls: Calls,
    health: Health,
    /// Objects that were made; `None` before the program has initialized the drivers, and while no domain needs them.
    /// Calls hold it for reading, so that no object is destroyed during a call.
    opened: RwLock<Option<Opened>>,
}

struct Opened {
    platforms: Vec<Platform>,
    lists: Lists,
}

/// A driver.
struct Platform {
    /// `None` if the driver fails. The others keep their numbers then.
    context: Option<Handle>,
    devices: Vec<Handle>,
}

/// Device memory behind an address.
struct Place {
    context: Handle,
    device: Handle,
}

/// ze_memory_type_t: memory of a device. Shared memory moves between host and devices, and the processor may access it.
const DEVICE: u32 = 2;

const DEVICE_LOST: Outcome = 0x7000_0001;
const OUT_OF_HOST_MEMORY: Outcome = 0x7000_0002;
const OUT_OF_DEVICE_MEMORY: Outcome = 0x7000_0003;
const REQUIRES_RESET: Outcome = 0x7000_0006;
const UNINITIALIZED: Outcome = 0x7800_0001;

/// The results that copies may have.
const NAMES: [(Outcome, &str); 14] = [
    (DEVICE_LOST, "ZE_RESULT_ERROR_DEVICE_LOST"),
    (OUT_OF_HOST_MEMORY, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY"),
    (OUT_OF_DEVICE_MEMORY, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
    (REQUIRES_RESET, "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET"),
    (0x7000_0007, "ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE"),
    (UNINITIALIZED, "ZE_RESULT_ERROR_UNINITIALIZED"),
    (0x7800_0003, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE"),
    (0x7800_0004, "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    (0x7800_0005, "ZE_RESULT_ERROR_INVALID_NULL_HANDLE"),
    (0x7800_0007, "ZE_RESULT_ERROR_INVALID_NULL_POINTER"),
    (0x7800_0008, "ZE_RESULT_ERROR_INVALID_SIZE"),
    (0x7800_0009, "ZE_RESULT_ERROR_UNSUPPORTED_SIZE"),
    (0x7800_001a, "ZE_RESULT_ERROR_OVERLAPPING_REGIONS"),
    (0x7fff_fffe, "ZE_RESULT_ERROR_UNKNOWN"),
];

impl Platform {
    fn new(calls: &Calls, driver: Handle) -> Platform {
        // SAFETY: the loader has named the driver.
        let devices = list(0, |count, all| unsafe {
            (calls.devices)(driver, count, all)
        });
        let desc = ContextDesc::new();
        let mut context = 0;
        // SAFETY: as above; the place is written during the call.
        let code = unsafe { (calls.open_context)(driver, &raw const desc, &raw mut context) };
        Platform {
            context: (code == 0).then_some(context),
            devices: devices.unwrap_or_default(),
        }
    }

    /// Returns the device memory behind an address; `None` if it is not that of this driver.
    fn place(&self, calls: &Calls, address: usize) -> Option<Place> {
        let context = self.context?;
        let (mut allocation, mut device) = (Allocation::new(), 0);
        // SAFETY: the driver accepts any address; the places are written during the call.
        let code = unsafe {
            (calls.properties)(
                context,
                address as *const c_void,
                &raw mut allocation,
                &raw mut device,
            )
        };
        (code == 0 && allocation.kind == DEVICE).then_some(Place { context, device })
    }
}

impl Opened {
    /// Makes a context of each driver. Fails if the program has not initialized them.
    fn new(calls: &Calls) -> Result<Opened, Outcome> {
        // SAFETY: the places are written during the calls.
        let drivers = list(0, |count, all| unsafe { (calls.drivers)(count, all) })?;
        Ok(Opened {
            platforms: drivers.iter().map(|&it| Platform::new(calls, it)).collect(),
            lists: Lists::default(),
        })
    }

    fn close(&self, calls: &Calls) {
        self.lists.clear(calls);
        for context in self.platforms.iter().filter_map(|one| one.context) {
            // SAFETY: the context was made by `Platform::new`, and none of its objects is left.
            unsafe { (calls.close_context)(context) };
        }
    }

    /// Returns the device memory behind an address; `None` if it is the host's.
    fn place(&self, calls: &Calls, address: usize) -> Option<Place> {
        let mut platforms = self.platforms.iter();
        platforms.find_map(|one| one.place(calls, address))
    }

    /// Returns the number of a device, as fi_hmem_ze_device makes it.
    fn number(&self, device: Handle) -> Option<u64> {
        let mut platforms = self.platforms.iter().zip(0..);
        platforms.find_map(|(one, driver): (_, u64)| {
            let at = one.devices.iter().position(|&other| other == device)?;
            Some(driver << 16 | at as u64)
        })
    }
}

impl Ze {
    /// Returns the loader of this machine, which is opened at the first call and stays open; `None` if there is none.
    pub fn driver() -> Option<&'static Ze> {
        static DRIVER: OnceLock<Option<Ze>> = OnceLock::new();
        DRIVER.get_or_init(Ze::open).as_ref()
    }

    fn open() -> Option<Ze> {
        let library = SharedObject::open(Path::new("libze_loader.so.1")).ok()?;
        let calls = Calls::of(&library)?;
        library.keep();
        Some(Ze {
            calls,
            health: Health::default(),
            opened: RwLock::default(),
        })
    }

    /// Calls with the drivers' objects, which are made if the program has initialized the drivers.
    fn with<R>(&self, call: impl Fn(&Opened) -> R) -> Result<R, Fault> {
        // A thread of the parent may have held the lock.
        if !self.health.is_here() {
            return Err(Fault {
                code: UNINITIALIZED,
            });
        }
        loop {
            let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(opened) = &*opened {
                return Ok(call(opened));
            }
            drop(opened);
            let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
            if opened.is_none() {
                *opened = Some(Opened::new(&self.calls).map_err(|code| Fault { code })?);
                self.health.start();
            }
        }
    }

    fn check(&self, code: Outcome) -> Result<(), Fault> {
        if code == 0 {
            return Ok(());
        }
        if matches!(code, DEVICE_LOST | REQUIRES_RESET) {
            self.health.end(code);
        }
        Err(Fault { code })
    }
}

/// Whether a list can be used after this result: the call has been refused, or memory is short.
fn keeps_list(code: Outcome) -> bool {
    matches!(code, 0 | OUT_OF_HOST_MEMORY | OUT_OF_DEVICE_MEMORY)
        || (0x7800_0002..0x7900_0000).contains(&code)
}

impl Driver for Ze {
    fn kind(&self) -> Kind {
        Kind::Ze
    }

    fn devices(&self) -> Result<u32, Fault> {
        self.health.check(UNINITIALIZED)?;
        let count = |opened: &Opened| -> usize {
            opened.platforms.iter().map(|one| one.devices.len()).sum()
        };
        self.with(|opened| count(opened) as u32)
    }

    /// fi_hmem_ze_device: a driver in the upper 16 bits, one of its devices in the lower.
    fn has_device(&self, number: i32) -> Result<bool, Fault> {
        self.health.check(UNINITIALIZED)?;
        let (driver, device) = (number >> 16, number & 0xffff);
        self.with(|opened| {
            let driver = usize::try_from(driver).ok();
            let platform = driver.and_then(|driver| opened.platforms.get(driver));
            platform.is_some_and(|platform| (device as usize) < platform.devices.len())
        })
    }

    fn device_of(&self, address: usize) -> u64 {
        let number = self.with(|opened| {
            let place = opened.place(&self.calls, address)?;
            opened.number(place.device)
        });
        number.ok().flatten().unwrap_or(0)
    }

    fn owns(&self, address: usize) -> bool {
        let place = self.with(|opened| opened.place(&self.calls, address).is_some());
        place.unwrap_or(false)
    }

    unsafe fn copy(&self, device: usize, from: usize, to: usize, len: usize) -> Result<(), Fault> {
        self.health.check(UNINITIALIZED)?;
        let code = self.with(|opened| {
            let place = opened.place(&self.calls, device);
            let Place { context, device } = place.ok_or(0)?;
            let list = opened.lists.take(&self.calls, context, device)?;
            // SAFETY: the caller's promise for the host's side; the driver checks that of the device. The list is this
            // call's alone, and synchronous: both sides stay valid until the bytes have arrived.
            let code = unsafe {
                let (to, from) = (to as *mut c_void, from as *const c_void);
                (self.calls.copy)(list.handle, to, from, len, 0, 0, null())
            };
            if keeps_list(code) {
                opened.lists.put(list);
            }
            Ok(code)
        })?;
        match code {
            Ok(code) => self.check(code),
            // The memory may have been freed.
            Err(0) => Err(Fault { code: 0 }),
            Err(code) => self.check(code),
        }
    }

    fn name_of(&self, fault: Fault) -> Option<String> {
        let named = NAMES.iter().find(|(code, _)| *code == fault.code);
        named.map(|(_, name)| (*name).to_owned())
    }

    fn release(&self) {
        // SAFETY: the function has no arguments.
        let is_ending = || self.calls.is_ending.is_some_and(|call| unsafe { call() });
        if self.health.check(UNINITIALIZED).is_err() || is_ending() {
            return;
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.take() {
            opened.close(&self.calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_refused_calls() {
        for code in [0, OUT_OF_DEVICE_MEMORY, 0x7800_0004] {
            assert!(keeps_list(code), "{code:x}");
        }
        for code in [DEVICE_LOST, REQUIRES_RESET, UNINITIALIZED, 0x7fff_fffe] {
            assert!(!keeps_list(code), "{code:x}");
        }
    }
}
