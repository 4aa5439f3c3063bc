// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions of the driver that copies need, and those for memory of other processes. All return a CUresult, 0 for
//! success.

use core::ffi::{c_char, c_int, c_uint, c_void};

use sys::shared_object::SharedObject;

use crate::export::HANDLE;

/// CUcontext and CUstream.
pub type Object = *mut c_void;

pub struct Calls {
    /// cuDeviceGetCount.
    pub device_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    /// cuGetErrorName.
    pub error_name: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    /// cuCtxPushCurrent.
    pub push: unsafe extern "C" fn(Object) -> c_int,
    /// cuCtxPopCurrent.
    pub pop: unsafe extern "C" fn(*mut Object) -> c_int,
    /// cuDevicePrimaryCtxGetState: device; flags, whether it is active.
    pub primary_state: unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> c_int,
    /// cuDevicePrimaryCtxRetain.
    pub primary_retain: unsafe extern "C" fn(*mut Object, c_int) -> c_int,
    /// cuDevicePrimaryCtxRelease.
    pub primary_release: unsafe extern "C" fn(c_int) -> c_int,
    /// cuStreamCreate: place, flags.
    pub create: unsafe extern "C" fn(*mut Object, c_uint) -> c_int,
    /// cuStreamDestroy.
    pub destroy: unsafe extern "C" fn(Object) -> c_int,
    /// cuStreamSynchronize.
    pub wait: unsafe extern "C" fn(Object) -> c_int,
    /// cuMemcpyAsync: destination, source, bytes, stream.
    pub copy: unsafe extern "C" fn(u64, u64, usize, Object) -> c_int,
    /// cuMemHostRegister: address, bytes, flags; and cuMemHostUnregister.
    pub lock_pages: Option<(LockPages, UnlockPages)>,
    /// cuMemGetHandleForAddressRange: place of the descriptor, address, bytes, type, flags.
    pub buffer: Option<unsafe extern "C" fn(*mut c_int, u64, usize, c_int, u64) -> c_int>,
}

type LockPages = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int;
type UnlockPages = unsafe extern "C" fn(*mut c_void) -> c_int;

impl Calls {
    /// `None` if one is missing.
    pub fn of(library: &SharedObject) -> Option<Calls> {
        // SAFETY: the driver's functions have these names and types; names with _v2 are those of the present ABI. The
        // caller keeps the library open.
        unsafe {
            Some(Calls {
                device_count: library.function(c"cuDeviceGetCount")?,
                error_name: library.function(c"cuGetErrorName")?,
                push: library.function(c"cuCtxPushCurrent_v2")?,
                pop: library.function(c"cuCtxPopCurrent_v2")?,
                primary_state: library.function(c"cuDevicePrimaryCtxGetState")?,
                primary_retain: library.function(c"cuDevicePrimaryCtxRetain")?,
                primary_release: library.function(c"cuDevicePrimaryCtxRelease_v2")?,
                create: library.function(c"cuStreamCreate")?,
                destroy: library.function(c"cuStreamDestroy_v2")?,
                wait: library.function(c"cuStreamSynchronize")?,
                copy: library.function(c"cuMemcpyAsync")?,
                lock_pages: library
                    .function(c"cuMemHostRegister_v2")
                    .zip(library.function(c"cuMemHostUnregister")),
                buffer: library.function(c"cuMemGetHandleForAddressRange"),
            })
        }
    }
}

/// CUipcMemHandle. The driver takes it by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle(pub [u8; HANDLE]);

/// Functions for memory that processes share.
pub struct IpcCalls {
    /// cuDeviceGetUuid.
    pub name: unsafe extern "C" fn(*mut u8, c_int) -> c_int,
    /// cuIpcGetMemHandle.
    pub handle: unsafe extern "C" fn(*mut IpcHandle, u64) -> c_int,
    /// cuIpcOpenMemHandle: place of the address, handle, flags.
    pub open: unsafe extern "C" fn(*mut u64, IpcHandle, c_uint) -> c_int,
    /// cuIpcCloseMemHandle.
    pub close: unsafe extern "C" fn(u64) -> c_int,
}

impl IpcCalls {
    /// `None` if one is missing.
    pub fn of(library: &SharedObject) -> Option<IpcCalls> {
        // SAFETY: as in `Calls::of`.
        unsafe {
            Some(IpcCalls {
                name: library.function(c"cuDeviceGetUuid_v2")?,
                handle: library.function(c"cuIpcGetMemHandle")?,
                open: library.function(c"cuIpcOpenMemHandle_v2")?,
                close: library.function(c"cuIpcCloseMemHandle")?,
            })
        }
    }
}
