// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Devices, and the attributes that they report: ibv_get_device_list(3), ibv_query_device(3), ibv_query_port(3).

use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use std::io;

use super::abi::*;
use super::api::{api, available};
use super::check_errno;

/// An open device. It stays open until the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device(NonNull<ibv_context>);

// SAFETY: the context is never closed, and the functions that take one may be called by any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// A global identifier: an address of a port.
pub type Gid = [u8; 16];

/// The kind of network of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// InfiniBand, or RoCE.
    InfiniBand,
    Iwarp,
    /// Devices that this library does not support.
    Other,
}

/// Returns whether there is a device whose vendor differs from `vendor`. Opens and closes devices until it finds one.
/// The connection manager is not called: it prints to stderr and keeps devices open.
pub fn has_devices(vendor: u32) -> bool {
    if available().is_err() {
        return false;
    }
    let mut count = 0;
    // SAFETY: `count` is writable.
    let list = unsafe { (api().ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        return false;
    }
    let is_meant = |i: usize| {
        // SAFETY: the list has `count` devices, which are valid until it is freed.
        let context = unsafe { (api().ibv_open_device)(*list.add(i)) };
        let Some(open) = NonNull::new(context) else {
            return false;
        };
        let attributes = Device(open).attributes();
        // SAFETY: opened above, and used no more.
        unsafe { (api().ibv_close_device)(context) };
        attributes.is_ok_and(|attributes| attributes.vendor_id != vendor)
    };
    let found = (0..usize::try_from(count).unwrap_or(0)).any(is_meant);
    // SAFETY: made above, and no device of it is used any more.
    unsafe { (api().ibv_free_device_list)(list) };
    found
}

/// Returns the devices that the connection manager has opened.
pub fn devices() -> Vec<Device> {
    if available().is_err() {
        return Vec::new();
    }
    let mut count = 0;
    // SAFETY: `count` is writable. The list is not freed, because newer libraries close its devices then.
    let list = unsafe { (api().rdma_get_devices)(&raw mut count) };
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: the list has `count` contexts; some may be null.
    let at = |i| NonNull::new(unsafe { *list.add(i) }).map(Device);
    (0..usize::try_from(count).unwrap_or(0))
        .filter_map(at)
        .collect()
}

impl Device {
    pub(super) fn of(context: *mut ibv_context) -> Option<Device> {
        NonNull::new(context).map(Device)
    }

    pub(super) fn raw(self) -> *mut ibv_context {
        self.0.as_ptr()
    }

    pub(super) fn ops(self) -> &'static ibv_context_ops {
        // SAFETY: the context is open until the process ends, and its functions do not change.
        unsafe { &(*self.raw()).ops }
    }

    fn device(self) -> *mut ibv_device {
        // SAFETY: the context is open.
        unsafe { (*self.raw()).device }
    }

    pub fn name(self) -> String {
        // SAFETY: the device of an open context; the name is a terminated string in it.
        let name = unsafe { CStr::from_ptr((api().ibv_get_device_name)(self.device())) };
        name.to_string_lossy().into_owned()
    }

    pub fn transport(self) -> Transport {
        // SAFETY: the device of an open context.
        match unsafe { (*self.device()).transport_type } {
            IBV_TRANSPORT_IB => Transport::InfiniBand,
            IBV_TRANSPORT_IWARP => Transport::Iwarp,
            _ => Transport::Other,
        }
    }

    /// Returns the number of interrupt vectors for completion queues.
    pub fn vectors(self) -> usize {
        // SAFETY: the context is open.
        usize::try_from(unsafe { (*self.raw()).num_comp_vectors }).unwrap_or(0)
    }

    pub fn attributes(self) -> io::Result<ibv_device_attr> {
        let mut attributes = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: writable.
        let result = unsafe { (api().ibv_query_device)(self.raw(), attributes.as_mut_ptr()) };
        super::check_number(result)?;
        // SAFETY: integers, which were zero before the call.
        Ok(unsafe { attributes.assume_init() })
    }

    /// Returns the attributes of a port; the first is number 1.
    pub fn port(self, port: u8) -> io::Result<ibv_port_attr> {
        let mut attributes = ibv_port_attr::default();
        let result = match self.extended_query_port() {
            // SAFETY: writable, of the size given.
            Some(query) => unsafe {
                query(
                    self.raw(),
                    port,
                    &raw mut attributes,
                    size_of::<ibv_port_attr>(),
                )
            },
            // SAFETY: writable; this function writes the first 48 bytes.
            None => unsafe { (api().ibv_query_port)(self.raw(), port, &raw mut attributes) },
        };
        super::check_number(result).map(|()| attributes)
    }

    /// Whether the device fetches pages when it accesses them.
    pub fn pages_on_demand(self) -> bool {
        const SUPPORTED: u64 = 1;
        let Some(query) = self.extended::<QueryDevice>(QUERY_DEVICE_BACK) else {
            return false;
        };
        let mut attributes = MaybeUninit::<ibv_device_attr_ex>::zeroed();
        let size = size_of::<ibv_device_attr_ex>();
        // SAFETY: writable, of the size given; without an input.
        let result = unsafe { query(self.raw(), ptr::null(), attributes.as_mut_ptr(), size) };
        // SAFETY: integers, which were zero before the call.
        result == 0 && unsafe { attributes.assume_init() }.odp_caps[0] & SUPPORTED != 0
    }

    fn extended_query_port(self) -> Option<QueryPort> {
        self.extended(QUERY_PORT_BACK)
    }

    /// A function in the extended table, as the inline functions of the headers find it. `F` is its type.
    fn extended<F: Copy>(self, back: usize) -> Option<F> {
        let context = self.raw();
        // SAFETY: the context is open.
        if unsafe { (*context).abi_compat }.addr() != EXTENDED {
            return None;
        }
        let table = context.cast::<u8>();
        // SAFETY: with this mark, the table is in front of the context, and its size directly in front.
        let size = unsafe { table.sub(SIZE_BACK).cast::<usize>().read() };
        if size < back + size_of::<ibv_context>() {
            return None;
        }
        // SAFETY: the table is long enough to have this member.
        unsafe { table.sub(back).cast::<Option<F>>().read() }
    }

    pub fn gid(self, port: u8, index: u32) -> io::Result<Gid> {
        let mut gid = [0; 16];
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        // SAFETY: writable.
        check_errno(unsafe { (api().ibv_query_gid)(self.raw(), port, index, &raw mut gid) })?;
        Ok(gid)
    }

    /// Returns a partition key as the library gives it: big-endian.
    pub fn pkey(self, port: u8, index: u16) -> io::Result<u16> {
        let mut pkey = 0;
        // SAFETY: writable.
        check_errno(unsafe {
            (api().ibv_query_pkey)(self.raw(), port, index.into(), &raw mut pkey)
        })?;
        Ok(pkey)
    }
}

impl ibv_device_attr {
    pub fn firmware(&self) -> String {
        let bytes = self.fw_ver.map(|byte| byte as u8);
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Returns the explanation of a completion status; valid until the process ends.
pub(super) fn status_text(status: u32) -> String {
    // SAFETY: the function takes any number.
    let text = unsafe { (api().ibv_wc_status_str)(status) };
    match ptr::NonNull::new(text.cast_mut()) {
        // SAFETY: a terminated string.
        Some(text) => unsafe { CStr::from_ptr(text.as_ptr()) }
            .to_string_lossy()
            .into_owned(),
        None => String::new(),
    }
}
