// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of fi_getinfo(3) in their C form.

use core::ffi::{CStr, c_void};
use core::marker::PhantomData;
use core::ptr;

use super::{status, string};
use crate::library::Library;
use abi::*;
use base::Result;

/// Returns the entries for these arguments.
pub fn getinfo(
    version: u32,
    node: Option<&CStr>,
    service: Option<&CStr>,
    flags: u64,
    hints: Option<Info<'_>>,
) -> Result<InfoList> {
    let text = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    let hints = hints.map_or(ptr::null(), |hints| hints.as_ptr().cast_const());
    let mut first = ptr::null_mut();
    // SAFETY: fi_getinfo(3): strings and hints are NULL or valid for the call; `first` is written on success.
    status(unsafe {
        let (node, service) = (text(node), text(service));
        (Library::get().getinfo)(version, node, service, flags, hints, &raw mut first)
    })?;
    Ok(InfoList(first))
}

/// A list of entries.
pub struct InfoList(*mut fi_info);

// SAFETY: only this value owns the list.
unsafe impl Send for InfoList {}
// SAFETY: the list is not changed while it is shared.
unsafe impl Sync for InfoList {}

impl InfoList {
    /// Takes over a list that a libfabric allocated.
    ///
    /// # Safety
    /// `first` is NULL or such a list, and only this value frees or changes it.
    pub unsafe fn from_raw(first: *mut fi_info) -> InfoList {
        InfoList(first)
    }

    pub fn iter(&self) -> Infos<'_> {
        Infos {
            next: self.0,
            list: PhantomData,
        }
    }

    pub fn first(&self) -> Option<Info<'_>> {
        self.iter().next()
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the list is a libfabric's, and every `Info` borrows it.
            unsafe { (Library::get().freeinfo)(self.0) }
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
        // SAFETY: NULL at the end, else an entry of a list that lives as long as 'a.
        let info = unsafe { self.next.as_ref() }?;
        self.next = info.next;
        Some(Info(info))
    }
}

/// One entry.
#[derive(Clone, Copy)]
pub struct Info<'a>(&'a fi_info);

impl<'a> Info<'a> {
    /// Makes a value for an entry that is not in an `InfoList`.
    ///
    /// # Safety
    /// Its pointers are NULL or valid for their types, and the data is unchanged for 'a.
    pub unsafe fn from_raw(info: &'a fi_info) -> Info<'a> {
        Info(info)
    }

    /// Returns a pointer for calls that take one; none of them writes to it.
    pub fn as_ptr(&self) -> *mut fi_info {
        ptr::from_ref(self.0).cast_mut()
    }

    pub fn raw(&self) -> &'a fi_info {
        self.0
    }

    fn fabric(&self) -> Option<&'a fi_fabric_attr> {
        // SAFETY: the parts of an entry are NULL or live as long as it.
        unsafe { self.0.fabric_attr.as_ref() }
    }

    pub fn domain(&self) -> Option<&'a fi_domain_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.domain_attr.as_ref() }
    }

    pub fn ep(&self) -> Option<&'a fi_ep_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.ep_attr.as_ref() }
    }

    pub fn tx(&self) -> Option<&'a fi_tx_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.tx_attr.as_ref() }
    }

    pub fn rx(&self) -> Option<&'a fi_rx_attr> {
        // SAFETY: as in `fabric`.
        unsafe { self.0.rx_attr.as_ref() }
    }

    /// Returns the address of the connecting peer, in an entry that came with its request.
    pub fn dest_addr(&self) -> Option<Vec<u8>> {
        // SAFETY: fi_getinfo(3): the address has this many bytes and lives as long as the entry.
        unsafe { address(self.0.dest_addr, self.0.dest_addrlen) }
    }

    /// Returns the local address at which the request came, in such an entry.
    pub fn src_addr(&self) -> Option<Vec<u8>> {
        // SAFETY: as in `dest_addr`.
        unsafe { address(self.0.src_addr, self.0.src_addrlen) }
    }

    pub fn provider(&self) -> Option<String> {
        // SAFETY: the strings of an entry are NULL or live as long as it.
        self.fabric().and_then(|a| unsafe { string(a.prov_name) })
    }

    pub fn fabric_name(&self) -> Option<String> {
        // SAFETY: as in `provider`.
        self.fabric().and_then(|a| unsafe { string(a.name) })
    }

    pub fn domain_name(&self) -> Option<String> {
        // SAFETY: as in `provider`.
        self.domain().and_then(|a| unsafe { string(a.name) })
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

    /// Whether memory of local operations must be registered.
    pub fn wants_local_mr(&self) -> bool {
        let mr_mode = self.domain().map_or(0, |attr| attr.mr_mode);
        mr_mode & FI_MR_LOCAL != 0 || self.0.mode & FI_LOCAL_MR != 0
    }

    /// Returns the number of bytes before a message that belong to the provider, in buffers with these rights of local
    /// operations. The mode of one side restricts them to that side.
    pub fn msg_prefix(&self, access: u64) -> usize {
        let tx = self.tx().is_some_and(|attr| attr.mode & FI_MSG_PREFIX != 0);
        let rx = self.rx().is_some_and(|attr| attr.mode & FI_MSG_PREFIX != 0);
        let has_prefix = match (tx, rx) {
            (false, false) => self.0.mode & FI_MSG_PREFIX != 0,
            _ => access & FI_SEND != 0 && tx || access & FI_RECV != 0 && rx,
        };
        let ep = self.ep().filter(|_| has_prefix);
        ep.map_or(0, |attr| attr.msg_prefix_size)
    }
}

/// Limit on an address; no provider's addresses are longer.
const MAX_ADDR: usize = 4096;

/// Returns a copy of an address, if there is one.
///
/// # Safety
/// An address that is not NULL has this many bytes.
unsafe fn address(at: *const c_void, len: usize) -> Option<Vec<u8>> {
    if at.is_null() || len > MAX_ADDR {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { core::slice::from_raw_parts(at.cast::<u8>(), len) }.to_vec())
}
