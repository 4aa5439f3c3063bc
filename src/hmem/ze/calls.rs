// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions of Level Zero that are used here, and their structs. All functions return a ze_result_t, 0 for
//! success.

use core::ffi::c_void;
use core::ptr::null_mut;

use sys::shared_object::SharedObject;

/// The handle of a driver, device, context or command list: a pointer.
pub type Handle = usize;
/// ze_result_t.
pub type Outcome = i32;

pub struct Calls {
    /// zeDriverGet: number of drivers, the drivers or NULL.
    pub drivers: unsafe extern "C" fn(*mut u32, *mut Handle) -> Outcome,
    /// zeDeviceGet: driver, number of devices, the devices or NULL.
    pub devices: unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> Outcome,
    /// zeContextCreate.
    pub open_context: unsafe extern "C" fn(Handle, *const ContextDesc, *mut Handle) -> Outcome,
    /// zeContextDestroy.
    pub close_context: unsafe extern "C" fn(Handle) -> Outcome,
    /// zeMemGetAllocProperties: context, address, properties, device.
    pub properties:
        unsafe extern "C" fn(Handle, *const c_void, *mut Allocation, *mut Handle) -> Outcome,
    /// zeDeviceGetCommandQueueGroupProperties: device, number of groups, the groups or NULL.
    pub groups: unsafe extern "C" fn(Handle, *mut u32, *mut Group) -> Outcome,
    /// zeCommandListCreateImmediate: context, device, queue, list.
    pub open_list: unsafe extern "C" fn(Handle, Handle, *const QueueDesc, *mut Handle) -> Outcome,
    /// zeCommandListDestroy.
    pub close_list: unsafe extern "C" fn(Handle) -> Outcome,
    /// zeCommandListAppendMemoryCopy: list, destination, source, bytes; an event to signal, a number of events to wait
    /// for and those events.
    pub copy: unsafe extern "C" fn(
        Handle,
        *mut c_void,
        *const c_void,
        usize,
        Handle,
        u32,
        *const Handle,
    ) -> Outcome,
    /// zelCheckIsLoaderInTearDown, in newer loaders: the process ends, and no function may be called.
    pub is_ending: Option<unsafe extern "C" fn() -> bool>,
}

impl Calls {
    /// `None` if one is missing.
    pub fn of(library: &SharedObject) -> Option<Calls> {
        // SAFETY: the loader's functions have these names and types; the caller keeps the library open.
        unsafe {
            Some(Calls {
                drivers: library.function(c"zeDriverGet")?,
                devices: library.function(c"zeDeviceGet")?,
                open_context: library.function(c"zeContextCreate")?,
                close_context: library.function(c"zeContextDestroy")?,
                properties: library.function(c"zeMemGetAllocProperties")?,
                groups: library.function(c"zeDeviceGetCommandQueueGroupProperties")?,
                open_list: library.function(c"zeCommandListCreateImmediate")?,
                close_list: library.function(c"zeCommandListDestroy")?,
                copy: library.function(c"zeCommandListAppendMemoryCopy")?,
                is_ending: library.function(c"zelCheckIsLoaderInTearDown"),
            })
        }
    }
}

/// Returns what a call lists that first counts its results and then fills places for them, which begin as `empty`.
pub fn list<T: Clone>(
    empty: T,
    call: impl Fn(*mut u32, *mut T) -> Outcome,
) -> Result<Vec<T>, Outcome> {
    let mut count = 0;
    let mut all = match call(&raw mut count, null_mut()) {
        0 => vec![empty; count as usize],
        code => return Err(code),
    };
    // With a count of 0 the second call would only count again.
    if all.is_empty() {
        return Ok(all);
    }
    match call(&raw mut count, all.as_mut_ptr()) {
        0 => {
            all.truncate(count as usize);
            Ok(all)
        }
        code => Err(code),
    }
}

/// ze_context_desc_t.
#[repr(C)]
pub struct ContextDesc {
    stype: u32,
    next: *const c_void,
    flags: u32,
}

/// ze_memory_allocation_properties_t.
#[repr(C)]
pub struct Allocation {
    stype: u32,
    next: *mut c_void,
    /// ze_memory_type_t.
    pub kind: u32,
    id: u64,
    page_size: u64,
}

/// ze_command_queue_group_properties_t.
#[derive(Clone)]
#[repr(C)]
pub struct Group {
    stype: u32,
    next: *mut c_void,
    pub flags: u32,
    fill_size: usize,
    /// Number of engines.
    pub engines: u32,
}

/// ze_command_queue_desc_t.
#[repr(C)]
pub struct QueueDesc {
    stype: u32,
    next: *const c_void,
    group: u32,
    engine: u32,
    flags: u32,
    mode: u32,
    priority: u32,
}

/// ze_command_queue_mode_t: calls return when the device has executed their commands.
const SYNCHRONOUS: u32 = 1;

impl ContextDesc {
    pub fn new() -> ContextDesc {
        ContextDesc {
            stype: 0xd,
            next: null_mut(),
            flags: 0,
        }
    }
}

impl Allocation {
    pub fn new() -> Allocation {
        Allocation {
            stype: 0x17,
            next: null_mut(),
            kind: 0,
            id: 0,
            page_size: 0,
        }
    }
}

impl Group {
    pub fn new() -> Group {
        Group {
            stype: 6,
            next: null_mut(),
            flags: 0,
            fill_size: 0,
            engines: 0,
        }
    }
}

impl QueueDesc {
    /// A queue of an engine, whose calls return when their commands are done.
    pub fn synchronous(group: u32, engine: u32) -> QueueDesc {
        QueueDesc {
            stype: 0xe,
            next: null_mut(),
            group,
            engine,
            flags: 0,
            mode: SYNCHRONOUS,
            priority: 0,
        }
    }
}
