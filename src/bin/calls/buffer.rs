// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that the library reads and writes while operations are under way, registered where a provider wants that:
//! fi_mr(3).

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use std::rc::Rc;

use super::fabric::Domain;
use super::failure::Result;
use super::info::Info;
use super::object::{Handle, entry};
use crate::abi::*;

/// Room for one message, after the bytes that belong to the provider (FI_MSG_PREFIX), and a context for its operation.
pub struct Buffer {
    /// Closed before the memory is freed.
    region: Option<Handle<fid_mr>>,
    memory: *mut [u8],
    prefix: usize,
    context: *mut MaybeUninit<fi_context2>,
    _domain: Rc<Domain>,
}

impl Buffer {
    pub fn new(domain: &Rc<Domain>, info: &Info, length: usize, access: u64) -> Result<Buffer> {
        let wants_prefix = info.raw().mode & FI_MSG_PREFIX != 0;
        let prefix = info.ep().filter(|_| wants_prefix);
        let prefix = prefix.map_or(0, |attr| attr.msg_prefix_size);
        let mut buffer = Buffer {
            region: None,
            memory: Box::into_raw(vec![0; prefix + length].into_boxed_slice()),
            prefix,
            context: Box::into_raw(Box::new(MaybeUninit::zeroed())),
            _domain: domain.clone(),
        };
        let mr_mode = info.domain().map_or(0, |attr| attr.mr_mode);
        if mr_mode & FI_MR_LOCAL != 0 || info.raw().mode & FI_LOCAL_MR != 0 {
            buffer.region = Some(buffer.register(domain, access)?);
        }
        Ok(buffer)
    }

    fn register(&self, domain: &Domain, access: u64) -> Result<Handle<fid_mr>> {
        // SAFETY: an open domain has its table of memory calls.
        let ops = unsafe { &*(*domain.raw.as_ptr()).mr };
        let register = entry("fi_mr_reg", ops.reg)?;
        let mut region = ptr::null_mut();
        // SAFETY: the memory stays until the region is closed; `region` is written on success. The access rights serve as
        // key, since every buffer of a program has others.
        unsafe {
            let code = register(
                domain.raw.fid(),
                self.start(),
                self.memory.len(),
                access,
                0,
                access,
                0,
                &raw mut region,
                ptr::null_mut(),
            );
            Handle::opened("fi_mr_reg", code, region)
        }
    }

    /// Where an operation begins, the provider's bytes included.
    pub(super) fn start(&self) -> *mut c_void {
        self.memory.cast::<c_void>()
    }

    /// The whole length, and what of it is before the message.
    pub(super) fn lengths(&self) -> (usize, usize) {
        (self.memory.len(), self.prefix)
    }

    pub(super) fn descriptor(&self) -> *mut c_void {
        match &self.region {
            // SAFETY: an open region has its descriptor.
            Some(region) => unsafe { (*region.as_ptr()).mem_desc },
            None => ptr::null_mut(),
        }
    }

    pub(super) fn context(&self) -> *mut c_void {
        self.context.cast()
    }

    /// The bytes of the message.
    ///
    /// # Safety
    /// No operation on this buffer is under way.
    pub(super) unsafe fn message(&mut self) -> &mut [u8] {
        // SAFETY: allocated in `new`; the caller promises that the library does not touch it meanwhile.
        unsafe { &mut (&mut *self.memory)[self.prefix..] }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: both came out of boxes in `new`; the endpoint that used them is closed before its buffers are dropped.
        unsafe {
            drop(Box::from_raw(self.memory));
            drop(Box::from_raw(self.context));
        }
    }
}
