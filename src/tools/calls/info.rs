// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The queries of the programs to fi_getinfo(3).

use core::ffi::c_char;
use core::ptr::{self, NonNull};
use std::ffi::{CStr, CString};

use super::failure::{Failure, Result};
use crate::linked;
use abi::*;
use client::{Info, InfoList, getinfo};

/// The API version that the programs use: the one for which they are written, or that of an older library.
pub fn api() -> u32 {
    // SAFETY: it has no arguments.
    let offered = unsafe { linked::fi_version() };
    (FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION).min(offered)
}

/// The arguments of one `fi_getinfo`.
#[derive(Default)]
pub struct Query {
    pub node: Option<CString>,
    pub service: Option<CString>,
    pub flags: u64,
    pub hints: Option<Hints>,
}

impl Query {
    pub fn ask(&self) -> Result<InfoList> {
        let (node, service) = (self.node.as_deref(), self.service.as_deref());
        let hints = self.hints.as_ref().map(Hints::as_info);
        linked::install();
        getinfo(api(), node, service, self.flags, hints).map_err(Failure::by("fi_getinfo"))
    }
}

/// A `fi_info` with all its parts, to be filled in.
pub struct Hints(NonNull<fi_info>);

impl Hints {
    pub fn new() -> Result<Hints> {
        // SAFETY: fi_getinfo(3): duplicating NULL allocates an empty one.
        let info = unsafe { (linked::functions().dupinfo)(ptr::null()) };
        NonNull::new(info)
            .map(Hints)
            .ok_or_else(|| Failure::new("fi_allocinfo", FI_ENOMEM))
    }

    fn as_info(&self) -> Info<'_> {
        // SAFETY: everything in it was allocated by the library or stored by `replace`.
        unsafe { Info::from_raw(self.0.as_ref()) }
    }

    fn info(&mut self) -> &mut fi_info {
        // SAFETY: `new` allocated it, and this value is its only owner until `drop`.
        unsafe { self.0.as_mut() }
    }

    pub fn caps(&mut self) -> &mut u64 {
        &mut self.info().caps
    }

    pub fn mode(&mut self) -> &mut u64 {
        &mut self.info().mode
    }

    pub fn addr_format(&mut self) -> &mut u32 {
        &mut self.info().addr_format
    }

    pub fn ep(&mut self) -> &mut fi_ep_attr {
        // SAFETY: an allocated `fi_info` has all its parts, and only `drop` frees them.
        unsafe { &mut *self.info().ep_attr }
    }

    pub fn tx(&mut self) -> &mut fi_tx_attr {
        // SAFETY: as in `ep`.
        unsafe { &mut *self.info().tx_attr }
    }

    pub fn domain(&mut self) -> &mut fi_domain_attr {
        // SAFETY: as in `ep`.
        unsafe { &mut *self.info().domain_attr }
    }

    fn fabric(&mut self) -> &mut fi_fabric_attr {
        // SAFETY: as in `ep`.
        unsafe { &mut *self.info().fabric_attr }
    }

    pub fn set_provider(&mut self, name: &CStr) {
        replace(&mut self.fabric().prov_name, name);
    }

    pub fn set_fabric_name(&mut self, name: &CStr) {
        replace(&mut self.fabric().name, name);
    }

    pub fn set_domain_name(&mut self, name: &CStr) {
        replace(&mut self.domain().name, name);
    }

    pub fn set_source(&mut self, address: &[u8]) {
        let info = self.info();
        replace_bytes(&mut info.src_addr, address);
        info.src_addrlen = address.len();
    }

    pub fn set_destination(&mut self, address: &[u8]) {
        let info = self.info();
        replace_bytes(&mut info.dest_addr, address);
        info.dest_addrlen = address.len();
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        // SAFETY: allocated by the library in `new`; its strings and addresses come from the C heap.
        unsafe { (linked::functions().freeinfo)(self.0.as_ptr()) }
    }
}

/// Replaces a string in a `fi_info`. It must be in the C heap, because fi_freeinfo frees it.
fn replace(slot: &mut *mut c_char, text: &CStr) {
    // SAFETY: the slot is null or has such a string, to which no other pointer exists.
    unsafe {
        libc::free((*slot).cast());
        *slot = libc::strdup(text.as_ptr());
    }
}

/// Replaces an address in a `fi_info`.
fn replace_bytes(slot: &mut *mut core::ffi::c_void, bytes: &[u8]) {
    // SAFETY: the slot is null or has memory of the C heap, to which no other pointer exists; the new memory has the
    // length that is copied, and a failed malloc is checked.
    unsafe {
        libc::free(*slot);
        *slot = libc::malloc(bytes.len().max(1));
        assert!(!slot.is_null(), "out of memory");
        ptr::copy_nonoverlapping(bytes.as_ptr(), (*slot).cast::<u8>(), bytes.len());
    }
}
