// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a program asks fi_getinfo(3) for, and the entries it gets.

use core::ffi::c_char;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use std::ffi::{CStr, CString};

use super::exported;
use super::failure::{Failure, Result};
use super::text;
use crate::abi::*;

/// The API version that the programs are written for.
pub const API: u32 = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;

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
        let string =
            |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let hints = self.hints.as_ref().map_or(ptr::null(), Hints::as_ptr);
        let mut first = ptr::null_mut();
        // SAFETY: fi_getinfo(3): strings and hints are null or valid for the call; `first` is written on success.
        let code = unsafe {
            exported::fi_getinfo(
                API,
                string(&self.node),
                string(&self.service),
                self.flags,
                hints,
                &raw mut first,
            )
        };
        match code {
            0 => Ok(InfoList(first)),
            code => Err(Failure::new("fi_getinfo", code)),
        }
    }
}

/// A `fi_info` with all its parts, to be filled in.
pub struct Hints(NonNull<fi_info>);

impl Hints {
    pub fn new() -> Result<Hints> {
        // SAFETY: fi_getinfo(3): duplicating nothing allocates an empty one.
        let info = unsafe { exported::fi_dupinfo(ptr::null()) };
        NonNull::new(info)
            .map(Hints)
            .ok_or_else(|| Failure::new("fi_allocinfo", FI_ENOMEM))
    }

    pub fn as_ptr(&self) -> *const fi_info {
        self.0.as_ptr()
    }

    fn info(&mut self) -> &mut fi_info {
        // SAFETY: `new` allocated it, and it is ours alone until `drop`.
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
        unsafe { exported::fi_freeinfo(self.0.as_ptr()) }
    }
}

/// Strings in a `fi_info` belong to the C heap: fi_freeinfo frees them.
fn replace(slot: &mut *mut c_char, text: &CStr) {
    // SAFETY: the slot is null or holds such a string, to which nothing else points.
    unsafe {
        libc::free((*slot).cast());
        *slot = libc::strdup(text.as_ptr());
    }
}

/// The same for an address.
fn replace_bytes(slot: &mut *mut core::ffi::c_void, bytes: &[u8]) {
    // SAFETY: the slot is null or holds memory of the C heap, to which nothing else points; the new memory has the
    // length that is copied, and malloc's null is caught.
    unsafe {
        libc::free(*slot);
        *slot = libc::malloc(bytes.len().max(1));
        assert!(!slot.is_null(), "out of memory");
        ptr::copy_nonoverlapping(bytes.as_ptr(), (*slot).cast::<u8>(), bytes.len());
    }
}

/// What fi_getinfo answered.
pub struct InfoList(*mut fi_info);

impl InfoList {
    pub fn iter(&self) -> Infos<'_> {
        Infos {
            next: self.0,
            list: PhantomData,
        }
    }

    pub fn first(&self) -> Option<Info<'_>> {
        self.iter().next()
    }

    /// Takes over a list that the library allocated.
    ///
    /// # Safety
    /// `first` is null or such a list, and nobody else frees it.
    pub unsafe fn from_raw(first: *mut fi_info) -> InfoList {
        InfoList(first)
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the library allocated the list, and every `Info` borrows it.
            unsafe { exported::fi_freeinfo(self.0) }
        }
    }
}

pub struct Infos<'a> {
    next: *mut fi_info,
    list: PhantomData<&'a InfoList>,
}

impl<'a> Iterator for Infos<'a> {
    type Item = Info<'a>;

    fn next(&mut self) -> Option<Info<'a>> {
        // SAFETY: null at the end, else an entry of a list that lives as long as 'a.
        let info = unsafe { self.next.as_ref() }?;
        self.next = info.next;
        Some(Info(info))
    }
}

/// One entry.
#[derive(Clone, Copy)]
pub struct Info<'a>(&'a fi_info);

impl Info<'_> {
    /// For the calls that want a pointer; none of them writes to it.
    pub fn as_ptr(&self) -> *mut fi_info {
        ptr::from_ref(self.0).cast_mut()
    }

    pub fn raw(&self) -> &fi_info {
        self.0
    }

    fn fabric(&self) -> Option<&fi_fabric_attr> {
        // SAFETY: the parts of an entry are null or live as long as it.
        unsafe { self.0.fabric_attr.as_ref() }
    }

    pub fn domain(&self) -> Option<&fi_domain_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.domain_attr.as_ref() }
    }

    pub fn ep(&self) -> Option<&fi_ep_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.ep_attr.as_ref() }
    }

    pub fn tx(&self) -> Option<&fi_tx_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.tx_attr.as_ref() }
    }

    pub fn provider(&self) -> Option<String> {
        // SAFETY: the strings of an entry are null or live as long as it.
        self.fabric()
            .and_then(|a| unsafe { text::string(a.prov_name) })
    }

    pub fn fabric_name(&self) -> Option<String> {
        // SAFETY: as in `provider`.
        self.fabric().and_then(|a| unsafe { text::string(a.name) })
    }

    pub fn domain_name(&self) -> Option<String> {
        // SAFETY: as in `provider`.
        self.domain().and_then(|a| unsafe { text::string(a.name) })
    }

    pub fn provider_version(&self) -> u32 {
        self.fabric().map_or(0, |a| a.prov_version)
    }

    pub fn ep_type(&self) -> fi_ep_type {
        self.ep().map_or(FI_EP_UNSPEC, |a| a.r#type)
    }

    pub fn protocol(&self) -> u32 {
        self.ep().map_or(FI_PROTO_UNSPEC, |a| a.protocol)
    }

    /// All of it in words.
    pub fn text(&self) -> String {
        // SAFETY: this is a `fi_info`, and `Info` keeps it alive.
        unsafe { text::describe(self.as_ptr().cast(), FI_TYPE_INFO) }
    }
}
