// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of AMD devices: the HSA runtime of ROCm (ROCr) and its extensions for facts about addresses.
//!
//! The program uses the same library, mostly through HIP. hsa_init is not called here: it counts its callers, and its
//! first call opens the devices, which is the program's decision. Before that call the runtime returns
//! `NOT_INITIALIZED`, so no address belongs to a device.
//!
//! hsa_memory_copy uses queues of the runtime, not those of the program's kernels, page-locks host memory while it
//! copies, and returns when the bytes have arrived. So nothing is kept between copies.
//!
//! Trusted with: calling functions of the runtime by the signatures of AMD's headers.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null;
use std::path::Path;
use std::sync::OnceLock;

use sys::shared_object::SharedObject;

use crate::driver::Driver;
use crate::faults::Fault;
use crate::health::Health;
use crate::kind::Kind;

/// The runtime. Several threads may call it at the same time.
pub struct Rocr {
    calls: Calls,
    health: Health,
}

/// hsa_status_t: 0 and 1 are no errors.
type Status = u32;

/// hsa_agent_t: a processor or device.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Agent {
    handle: u64,
}

/// hsa_amd_pointer_info_t. Later releases of the runtime append members.
#[repr(C)]
struct PointerInfo {
    /// Bytes of this struct; afterwards those that the runtime knows.
    size: u32,
    kind: u32,
    agent_base: usize,
    host_base: usize,
    len: usize,
    user_data: usize,
    owner: Agent,
    global_flags: u32,
}

/// The functions of the runtime that are used here.
struct Calls {
    /// hsa_amd_pointer_info: address, result, and three places for a list of agents, which may be NULL.
    pointer_info: unsafe extern "C" fn(
        *const c_void,
        *mut PointerInfo,
        *const c_void,
        *mut u32,
        *mut *mut Agent,
    ) -> Status,
    /// hsa_agent_get_info: agent, attribute, place of the result.
    agent_info: unsafe extern "C" fn(Agent, u32, *mut c_void) -> Status,
    /// hsa_iterate_agents: function, its argument.
    agents:
        unsafe extern "C" fn(extern "C" fn(Agent, *mut c_void) -> Status, *mut c_void) -> Status,
    /// hsa_memory_copy: destination, source, bytes.
    copy: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> Status,
    /// hsa_status_string.
    status_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}

/// hsa_amd_pointer_type_t.
const HSA: u32 = 1;
const IPC: u32 = 4;
const VIRTUAL: u32 = 6;
/// HSA_AGENT_INFO_DEVICE, and its value for a device.
const DEVICE_TYPE: u32 = 17;
const GPU: u32 = 1;

const NOT_INITIALIZED: i32 = 0x100b;
/// hsa_status_t after which a device, or the runtime, can no longer be used: an exception of a kernel, a failed
/// runtime, and AMD's errors of kernels that have accessed foreign memory.
const FATAL: [i32; 6] = [0x1016, 0x1025, 0x1026, 41, 42, 43];

/// Device memory behind an address.
struct Place {
    owner: Agent,
    /// Bytes from the address to the end of the allocation, at least one.
    left: usize,
}

impl Calls {
    /// `None` if one is missing.
    fn of(library: &SharedObject) -> Option<Calls> {
        // SAFETY: the runtime's functions have these names and types; the caller keeps the library open.
        unsafe {
            Some(Calls {
                pointer_info: library.function(c"hsa_amd_pointer_info")?,
                agent_info: library.function(c"hsa_agent_get_info")?,
                agents: library.function(c"hsa_iterate_agents")?,
                copy: library.function(c"hsa_memory_copy")?,
                status_string: library.function(c"hsa_status_string")?,
            })
        }
    }

    fn is_gpu(&self, agent: Agent) -> bool {
        let mut kind = 0_u32;
        // SAFETY: the runtime has named the agent; the attribute is an enumeration of four bytes.
        let status = unsafe { (self.agent_info)(agent, DEVICE_TYPE, (&raw mut kind).cast()) };
        status == 0 && kind == GPU
    }
}

/// Adds an agent to a list if it is a device: for hsa_iterate_agents.
extern "C" fn list(agent: Agent, listed: *mut c_void) -> Status {
    // SAFETY: `gpus` passes this, and waits.
    let (calls, gpus) = unsafe { &mut *listed.cast::<(&Calls, Vec<Agent>)>() };
    if calls.is_gpu(agent) {
        gpus.push(agent);
    }
    0
}

impl Rocr {
    /// Returns the runtime of this machine, which is opened at the first call and stays open; `None` if there is none.
    pub fn driver() -> Option<&'static Rocr> {
        static DRIVER: OnceLock<Option<Rocr>> = OnceLock::new();
        DRIVER.get_or_init(Rocr::open).as_ref()
    }

    fn open() -> Option<Rocr> {
        let names = ["libhsa-runtime64.so.1", "libhsa-runtime64.so"];
        let library = names
            .iter()
            .find_map(|name| SharedObject::open(Path::new(name)).ok())?;
        let calls = Calls::of(&library)?;
        library.keep();
        Some(Rocr {
            calls,
            health: Health::default(),
        })
    }

    /// Returns the devices that the program may use.
    fn gpus(&self) -> Result<Vec<Agent>, Fault> {
        self.health.check(NOT_INITIALIZED)?;
        let mut listed = (&self.calls, Vec::new());
        // SAFETY: `list` gets `listed`, which stays during the call.
        self.check(unsafe { (self.calls.agents)(list, (&raw mut listed).cast()) })?;
        self.health.start();
        Ok(listed.1)
    }

    /// Returns the device memory behind an address; `None` if it is the host's.
    fn place(&self, address: usize) -> Option<Place> {
        if !self.health.is_here() {
            return None;
        }
        let mut info = PointerInfo {
            size: size_of::<PointerInfo>() as u32,
            kind: 0,
            agent_base: 0,
            host_base: 0,
            len: 0,
            user_data: 0,
            owner: Agent { handle: 0 },
            global_flags: 0,
        };
        let nothing = core::ptr::null_mut();
        // SAFETY: the runtime accepts any address, and writes to `info` no more than the size that it has.
        let status = unsafe {
            (self.calls.pointer_info)(
                address as *const c_void,
                &raw mut info,
                null(),
                nothing,
                nothing.cast(),
            )
        };
        if status != 0 {
            return None;
        }
        self.health.start();
        let is_device = match (info.kind, info.owner.handle) {
            // Another process has the memory on a device that this process does not see. It sees all processors.
            (IPC, 0) => true,
            (_, 0) => false,
            (HSA | IPC | VIRTUAL, _) => self.calls.is_gpu(info.owner),
            _ => false,
        };
        let end = info.agent_base.checked_add(info.len)?;
        let left = end
            .checked_sub(address)
            .filter(|&left| is_device && left > 0)?;
        Some(Place {
            owner: info.owner,
            left,
        })
    }

    fn check(&self, status: Status) -> Result<(), Fault> {
        let code = status.cast_signed();
        if matches!(code, 0 | 1) {
            return Ok(());
        }
        if FATAL.contains(&code) {
            self.health.end(code);
        }
        Err(Fault { code })
    }
}

impl Driver for Rocr {
    fn kind(&self) -> Kind {
        Kind::Rocr
    }

    fn devices(&self) -> Result<u32, Fault> {
        Ok(self.gpus()?.len() as u32)
    }

    fn owns(&self, address: usize) -> bool {
        self.place(address).is_some()
    }

    /// The runtime does not number devices; this is the position among them.
    fn device_of(&self, address: usize) -> u64 {
        let owner = self.place(address).map(|place| place.owner);
        let gpus = self.gpus().unwrap_or_default();
        let found = gpus.iter().position(|&gpu| Some(gpu) == owner);
        found.unwrap_or(0) as u64
    }

    /// Copies the part of each allocation alone: the runtime would take memory that reaches beyond one for the host's.
    unsafe fn copy(&self, _device: usize, from: usize, to: usize, len: usize) -> Result<(), Fault> {
        self.health.check(NOT_INITIALIZED)?;
        // The memory may have been freed.
        let freed = Fault { code: 0 };
        let left_at = |at| self.place(at).map(|place| place.left);
        let mut left = [from, to].map(left_at);
        if left == [None, None] {
            return Err(freed);
        }
        let mut done = 0;
        loop {
            let left_here = left.iter().flatten();
            let part = left_here.fold(len - done, |part, &left| part.min(left));
            let (to_here, from_here) = ((to + done) as *mut c_void, (from + done) as *const c_void);
            // SAFETY: the caller's promise for the host's side; the other is device memory of this length.
            self.check(unsafe { (self.calls.copy)(to_here, from_here, part) })?;
            done += part;
            if done == len {
                return Ok(());
            }
            for (left, at) in left.iter_mut().zip([from, to]) {
                if left.is_some() {
                    *left = Some(left_at(at + done).ok_or(freed)?);
                }
            }
        }
    }

    /// The text of the runtime is a name, a colon and an explanation.
    fn name_of(&self, fault: Fault) -> Option<String> {
        let mut text = null();
        // SAFETY: the place is written during the call; texts are constant strings.
        unsafe {
            let status = (self.calls.status_string)(fault.code.cast_unsigned(), &raw mut text);
            let known = status == 0 && !text.is_null();
            let text = known.then(|| CStr::from_ptr(text).to_string_lossy())?;
            text.split(':').next().map(str::to_owned)
        }
    }

    fn release(&self) {}
}
