// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of NVIDIA devices: the CUDA Driver API, "Unified Addressing", "Memory Management", "Stream Management".
//!
//! The program uses the same driver library. It is not initialised here: in a program that has not initialised it, no
//! address belongs to a device. No context is made here either: copies use the context of the memory.
//!
//! Trusted with: calling functions of the driver by the signatures that its manual gives them.

mod calls;
mod context;
mod ipc;
mod lanes;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use sys::memory::page_size;
use sys::shared_object::SharedObject;

use self::calls::{Calls, IpcCalls};
use self::context::Current;
use self::lanes::{Lane, Lanes};
use crate::driver::{Driver, Ticket};
use crate::export::Export;
use crate::faults::Fault;
use crate::health::Health;
use crate::kind::Kind;

/// The driver. Several threads may call it at the same time.
pub struct Cuda {
    attribute: GetAttribute,
    range: GetRange,
    /// Functions for copies; a library may have only those for addresses.
    calls: Option<Calls>,
    /// Functions for memory of other processes.
    ipc: Option<IpcCalls>,
    lanes: Lanes,
    health: Health,
}

/// An allocation of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    pub base: usize,
    pub len: usize,
    /// Number of its device.
    pub ordinal: i32,
    /// The driver moves the memory between host and devices, and the processor may access it.
    pub managed: bool,
}

/// cuPointerGetAttribute: place of the result, attribute, address.
type GetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;
/// cuMemGetAddressRange: returns start and length of the allocation that contains an address.
type GetRange = unsafe extern "C" fn(*mut u64, *mut usize, u64) -> c_int;

/// CUpointer_attribute.
const CONTEXT: c_int = 1;
const MEMORY_TYPE: c_int = 2;
const BUFFER_ID: c_int = 7;
const IS_MANAGED: c_int = 8;
const DEVICE_ORDINAL: c_int = 9;
/// CU_MEMORYTYPE_DEVICE.
const DEVICE: u64 = 2;

/// CUresult: the driver is shut down, or an earlier error of a kernel or of the hardware has ended the context.
const FATAL: [c_int; 12] = [4, 214, 700, 702, 709, 714, 715, 716, 717, 718, 719, 999];
/// CUresult: invalid arguments, or no memory.
const PASSING: [c_int; 2] = [1, 2];
/// CU_MEMHOSTREGISTER_PORTABLE: the pages are locked for all contexts.
const PORTABLE: c_uint = 1;
/// CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE.
const DMA_BUF: c_int = 1;
const BY_PCIE: u64 = 1;
/// CUresult: the program may not do this; here a child of the process that uses the driver.
const NOT_PERMITTED: c_int = 800;

impl Cuda {
    /// Returns the driver of this machine, which is opened at the first call and stays open, or the reason why there is
    /// none.
    pub fn driver() -> Result<&'static Cuda, &'static str> {
        static DRIVER: OnceLock<Result<Cuda, String>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Cuda::open);
        driver.as_ref().map_err(String::as_str)
    }

    fn open() -> Result<Cuda, String> {
        let library = SharedObject::open(Path::new("libcuda.so.1"))?;
        // SAFETY: the functions of the driver have these names and types, and the library stays open until the process
        // ends.
        let functions = unsafe {
            let attribute = library.function::<GetAttribute>(c"cuPointerGetAttribute");
            let range = library.function::<GetRange>(c"cuMemGetAddressRange_v2");
            attribute.zip(range)
        };
        let (attribute, range) =
            functions.ok_or("libcuda.so.1 does not have the functions that tell of addresses")?;
        let calls = Calls::of(&library);
        let ipc = IpcCalls::of(&library);
        library.keep();
        Ok(Cuda {
            attribute,
            range,
            calls,
            ipc,
            lanes: Lanes::default(),
            health: Health::default(),
        })
    }

    /// Whether the library has the functions for copies.
    pub fn can_copy(&self) -> bool {
        self.calls.is_some()
    }

    /// Returns the unique number of the allocation that contains an address in device memory: no other allocation of
    /// this process ever has it. `None` for memory of the host, and for memory to which the driver gives no number.
    #[inline]
    pub fn device_memory(&self, address: usize) -> Option<u64> {
        match self.ask(MEMORY_TYPE, address)? {
            DEVICE => self.ask(BUFFER_ID, address),
            _ => None,
        }
    }

    /// Returns the allocation of an address in device memory.
    pub fn allocation(&self, address: usize) -> Option<Allocation> {
        let (mut base, mut len) = (0, 0);
        // SAFETY: the function accepts any address; both places are written during the call.
        let code = unsafe { (self.range)(&raw mut base, &raw mut len, address as u64) };
        if code != 0 {
            return None;
        }
        Some(Allocation {
            base: usize::try_from(base).ok()?,
            len,
            ordinal: self.ask(DEVICE_ORDINAL, address)? as i32,
            managed: self.ask(IS_MANAGED, address)? != 0,
        })
    }

    /// Returns an attribute of an address. Attributes have one to eight bytes in little-endian order.
    fn ask(&self, attribute: c_int, address: usize) -> Option<u64> {
        let mut value = [0_u8; 8];
        // SAFETY: the function accepts any address; no attribute that is read here is longer than `value`.
        let code =
            unsafe { (self.attribute)(value.as_mut_ptr().cast(), attribute, address as u64) };
        (code == 0).then(|| u64::from_le_bytes(value))
    }

    /// Returns the functions for copies, if the driver serves this process.
    fn calls(&self) -> Result<&Calls, Fault> {
        self.health.check(NOT_PERMITTED)?;
        self.health.start();
        self.calls.as_ref().ok_or(Fault { code: 0 })
    }

    fn check(&self, code: c_int) -> Result<(), Fault> {
        if code == 0 {
            return Ok(());
        }
        if FATAL.contains(&code) {
            self.health.end(code);
        }
        Err(Fault { code })
    }

    /// Makes any context that lives the thread's.
    fn enter_any<'a>(&'a self, calls: &'a Calls) -> Option<Current<'a>> {
        let used = self.lanes.contexts();
        let mut used = used.into_iter().map(|context| Current::of(calls, context));
        let count = self.devices().unwrap_or(0) as c_int;
        let mut primary = (0..count).map(|device| Current::primary(calls, device));
        used.find_map(Result::ok)
            .or_else(|| primary.find_map(Result::ok))
    }

    /// Makes the context of an address in device memory the thread's, until the result is dropped.
    fn enter<'a>(&'a self, calls: &'a Calls, address: usize) -> Result<Current<'a>, Fault> {
        let own = self.ask(CONTEXT, address).unwrap_or(0);
        let entered = match own {
            // Memory of a pool, or that the program has mapped itself.
            0 => {
                let ordinal = self.ask(DEVICE_ORDINAL, address).unwrap_or(0);
                Current::primary(calls, ordinal as c_int)
            }
            context => Current::of(calls, context as usize),
        };
        entered.map_err(|code| {
            let _ = self.check(code);
            Fault { code }
        })
    }
}

impl Driver for Cuda {
    fn kind(&self) -> Kind {
        Kind::Cuda
    }

    fn devices(&self) -> Result<u32, Fault> {
        let calls = self.calls()?;
        let mut count = 0;
        // SAFETY: the place is written during the call.
        self.check(unsafe { (calls.device_count)(&raw mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn owns(&self, address: usize) -> bool {
        self.ask(MEMORY_TYPE, address) == Some(DEVICE)
            && self.ask(IS_MANAGED, address).unwrap_or(0) & 0xff == 0
    }

    fn device_of(&self, address: usize) -> u64 {
        self.ask(DEVICE_ORDINAL, address).unwrap_or(0)
    }

    unsafe fn copy(&self, device: usize, from: usize, to: usize, len: usize) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        self.wait(unsafe { self.begin(device, from, to, len)? })
    }

    unsafe fn begin(
        &self,
        device: usize,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<Ticket, Fault> {
        let calls = self.calls()?;
        let current = self.enter(calls, device)?;
        let lane = self
            .lanes
            .take(calls, &current)
            .map_err(|code| Fault { code })?;
        // SAFETY: the caller's promise for the host's side; the driver checks that of the device. The stream belongs to
        // the current context, and both sides stay valid until it has finished.
        let begun = unsafe { (calls.copy)(to as u64, from as u64, len, lane.stream()) };
        let ticket = Ticket([lane.context, lane.stream]);
        if let Err(fault) = self.check(begun) {
            // Even then an earlier part may be under way.
            let _ = self.wait(ticket);
            return Err(fault);
        }
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket) -> Result<(), Fault> {
        let Ticket([context, stream]) = ticket;
        if stream == 0 {
            return Ok(());
        }
        let calls = self.calls()?;
        let lane = Lane { context, stream };
        let current = Current::of(calls, context).map_err(|code| {
            let _ = self.check(code);
            Fault { code }
        })?;
        // SAFETY: the stream is that of the copy.
        let ended = self.check(unsafe { (calls.wait)(lane.stream()) });
        drop(current);
        match ended {
            Ok(()) => self.lanes.put(lane),
            // Otherwise the driver may have destroyed the stream.
            Err(Fault { code }) if PASSING.contains(&code) => self.lanes.put(lane),
            Err(_) => {}
        }
        ended
    }

    fn lock_pages(&self, device: usize, at: usize, len: usize) -> bool {
        let Ok(calls) = self.calls() else {
            return false;
        };
        let (Some((lock, _)), Ok(_current)) = (calls.lock_pages, self.enter(calls, device)) else {
            return false;
        };
        // SAFETY: the pages belong to the caller, who unlocks them before they are freed.
        unsafe { lock(at as *mut c_void, len, PORTABLE) == 0 }
    }

    fn unlock_pages(&self, at: usize) {
        let Ok(calls) = self.calls() else {
            return;
        };
        // With its last context the driver has unlocked all pages.
        if let (Some((_, unlock)), Some(_current)) = (calls.lock_pages, self.enter_any(calls)) {
            // SAFETY: `lock_pages` has locked them.
            unsafe { unlock(at as *mut c_void) };
        }
    }

    fn shares(&self) -> bool {
        self.ipc.is_some()
    }

    fn number(&self, address: usize) -> Option<u64> {
        self.ask(BUFFER_ID, address)
    }

    fn export(&self, address: usize) -> Option<Export> {
        self.export_of(self.ipc.as_ref()?, address)
    }

    fn import(&self, export: &Export, near: Option<usize>) -> Result<(usize, usize), Fault> {
        let ipc = self.ipc.as_ref().ok_or(Fault { code: 0 })?;
        self.import_of(ipc, export, near)
    }

    fn close(&self, base: usize) {
        if let Some(ipc) = &self.ipc {
            self.close_import(ipc, base);
        }
    }

    fn buffer(&self, address: usize, len: usize) -> Option<(OwnedFd, u64)> {
        let calls = self.calls().ok()?;
        let get = calls.buffer?;
        let _current = self.enter(calls, address).ok()?;
        let page = page_size();
        let base = address - address % page;
        let len = (address - base + len).next_multiple_of(page);
        // Some devices need the mapping by PCIe, and older drivers do not know it.
        [BY_PCIE, 0]
            .into_iter()
            .find_map(|flags| {
                let mut fd = -1;
                // SAFETY: the place is written during the call, which checks the range.
                let code = unsafe { get(&raw mut fd, base as u64, len, DMA_BUF, flags) };
                // SAFETY: the driver has opened it for the caller.
                (code == 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
            })
            .map(|fd| (fd, (address - base) as u64))
    }

    fn name_of(&self, fault: Fault) -> Option<String> {
        let calls = self.calls.as_ref()?;
        let mut name: *const c_char = core::ptr::null();
        // SAFETY: the place is written during the call; names are constant strings.
        unsafe {
            let code = (calls.error_name)(fault.code, &raw mut name);
            let known = code == 0 && !name.is_null();
            known.then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    fn release(&self) {
        if let Ok(calls) = self.calls() {
            self.lanes.clear(calls);
        }
    }
}
