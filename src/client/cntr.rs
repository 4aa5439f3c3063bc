// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters: fi_cntr(3).

use core::mem::offset_of;
use core::ptr::null_mut;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::domain::Domain;
use super::handle::Handle;
use super::{status, timeout};
use abi::*;
use base::{Error, Result};
use object::slots;

pub type Cntr = Handle<fid_cntr>;

/// `struct fi_cntr_attr`.
#[derive(Clone, Copy, Default)]
pub struct CntrAttr {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
}

impl Cntr {
    /// Opens a counter. A wait set as its wait object is not supported.
    pub fn open(domain: &Arc<Domain>, attr: &CntrAttr) -> Result<Arc<Cntr>> {
        if attr.wait_obj == FI_WAIT_SET {
            return Err(Error::INVAL);
        }
        let mut raw = fi_cntr_attr {
            events: attr.events,
            wait_obj: attr.wait_obj,
            wait_set: null_mut(),
            flags: 0,
            xpu_ctx: null_mut(),
        };
        let mut cntr = null_mut();
        // SAFETY: the domain is open and kept; the attributes are read during the call; `cntr` is written on success.
        unsafe {
            let parent = domain.as_ptr();
            let code = slots::domain::cntr_open(parent, &raw mut raw, &raw mut cntr, null_mut());
            Handle::opened(code, cntr, attr.wait_obj, vec![domain.clone()])
        }
    }

    pub fn read(&self) -> Result<u64> {
        self.serves(offset_of!(fi_ops_cntr, read))?;
        // SAFETY: the counter is open.
        Ok(unsafe { slots::cntr::read(self.as_ptr()) })
    }

    pub fn readerr(&self) -> Result<u64> {
        self.serves(offset_of!(fi_ops_cntr, readerr))?;
        // SAFETY: the counter is open.
        Ok(unsafe { slots::cntr::readerr(self.as_ptr()) })
    }

    pub fn add(&self, value: u64) -> Result {
        // SAFETY: the counter is open.
        status(unsafe { slots::cntr::add(self.as_ptr(), value) })
    }

    pub fn adderr(&self, value: u64) -> Result {
        // SAFETY: the counter is open.
        status(unsafe { slots::cntr::adderr(self.as_ptr(), value) })
    }

    pub fn set(&self, value: u64) -> Result {
        // SAFETY: the counter is open.
        status(unsafe { slots::cntr::set(self.as_ptr(), value) })
    }

    pub fn seterr(&self, value: u64) -> Result {
        // SAFETY: the counter is open.
        status(unsafe { slots::cntr::seterr(self.as_ptr(), value) })
    }

    /// Waits until the counter has reached `threshold`.
    pub fn wait(&self, threshold: u64, limit: Option<Duration>) -> Result {
        // SAFETY: the counter is open.
        status(unsafe { slots::cntr::wait(self.as_ptr(), threshold, timeout(limit)) })
    }

    /// Returns the descriptor to sleep on, if the counter was opened with FI_WAIT_FD.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.wait_fd(*self.more())
    }

    /// Returns all descriptors to sleep on, if it was opened with FI_WAIT_POLLFD.
    pub fn fds(&self) -> Result<Vec<BorrowedFd<'_>>> {
        self.wait_fds(*self.more())
    }

    /// Checks a slot, because the calls that return the value cannot report that they are missing.
    fn serves(&self, slot: usize) -> Result {
        // SAFETY: the counter is open, and its table, if any, begins with its size. Within the size there are only
        // slots.
        let is_there = unsafe {
            let table = (*self.as_ptr()).ops;
            !table.is_null()
                && (*table).size > slot
                && !table.byte_add(slot).cast::<*const ()>().read().is_null()
        };
        is_there.then_some(()).ok_or(Error::NOSYS)
    }
}
