// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completion queues: fi_cq(3).

use core::mem::MaybeUninit;
use core::ptr;
use std::rc::Rc;

use super::fabric::Domain;
use super::failure::{Failure, Result};
use super::object::{Handle, entry};
use super::text;
use crate::abi::*;

pub struct Cq {
    pub(super) raw: Handle<fid_cq>,
    _domain: Rc<Domain>,
}

impl Cq {
    pub fn open(domain: &Rc<Domain>) -> Result<Cq> {
        let open = entry("fi_cq_open", domain.ops().cq_open)?;
        let mut attr = fi_cq_attr {
            size: 0,
            flags: 0,
            format: FI_CQ_FORMAT_MSG,
            wait_obj: FI_WAIT_NONE,
            signaling_vector: 0,
            wait_cond: FI_CQ_COND_NONE,
            wait_set: ptr::null_mut(),
        };
        let mut cq = ptr::null_mut();
        // SAFETY: the domain is open, the attributes are read during the call, `cq` is written on success.
        let raw = unsafe {
            let domain = domain.raw.as_ptr();
            let code = open(domain, &raw mut attr, &raw mut cq, ptr::null_mut());
            Handle::opened("fi_cq_open", code, cq)?
        };
        Ok(Cq {
            raw,
            _domain: domain.clone(),
        })
    }

    fn ops(&self) -> &fi_ops_cq {
        // SAFETY: an open completion queue has its table.
        unsafe { &*(*self.raw.as_ptr()).ops }
    }

    /// The next completion, if there is one.
    pub fn read(&self) -> Result<Option<fi_cq_msg_entry>> {
        let read = entry("fi_cq_read", self.ops().read)?;
        let mut entry = MaybeUninit::<fi_cq_msg_entry>::uninit();
        // SAFETY: the queue is open and has this format; there is room for one entry.
        let got = unsafe { read(self.raw.as_ptr(), entry.as_mut_ptr().cast(), 1) };
        const AGAIN: isize = -(FI_EAGAIN as isize);
        const AVAIL: isize = -(FI_EAVAIL as isize);
        match got {
            // SAFETY: one entry was written.
            1 => Ok(Some(unsafe { entry.assume_init() })),
            0 | AGAIN => Ok(None),
            AVAIL => Err(self.error()),
            code => Err(Failure::new("fi_cq_read", code as i32)),
        }
    }

    #[cold]
    fn error(&self) -> Failure {
        // SAFETY: zeros are valid for numbers and pointers.
        let mut entry: fi_cq_err_entry = unsafe { MaybeUninit::zeroed().assume_init() };
        let Some(read) = self.ops().readerr else {
            return Failure::new("fi_cq_readerr", FI_ENOSYS);
        };
        // SAFETY: the queue is open; the entry asks for no error data.
        let got = unsafe { read(self.raw.as_ptr(), &raw mut entry, 0) };
        if got < 0 {
            return Failure::new("fi_cq_readerr", got as i32);
        }
        let doing = match entry.flags & FI_RECV {
            0 => "sending",
            _ => "receiving",
        };
        let failure = Failure::new(doing, entry.err);
        let strerror = match self.ops().strerror {
            // A number of its own is what a provider may have more words for.
            Some(strerror) if entry.prov_errno.unsigned_abs() > FI_ERRNO_MAX as u32 => strerror,
            _ => return failure,
        };
        // SAFETY: number and data come from this queue; no buffer is given, so the text is the library's.
        let words = unsafe {
            let (queue, code, data) = (self.raw.as_ptr(), entry.prov_errno, entry.err_data);
            text::string(strerror(queue, code, data, ptr::null_mut(), 0))
        };
        match words {
            Some(words) => failure.detail(words),
            None => failure,
        }
    }
}
