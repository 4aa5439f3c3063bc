// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Event queues: fi_eq(3), and the events of connections of fi_cm(3).

use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::fabric::Fabric;
use super::handle::Handle;
use super::info::InfoList;
use super::{ERR_DATA, count, is_own_errno, string, timeout};
use abi::*;
use base::{Error, Result};
use object::ops::eq::EQ_READY_ONLY;
use object::slots;

pub type Eq = Handle<fid_eq>;

/// `struct fi_eq_attr`.
#[derive(Clone, Copy, Default)]
pub struct EqAttr {
    /// 0: the provider's choice.
    pub size: usize,
    pub flags: u64,
    pub wait_obj: fi_wait_obj,
}

/// An event. [`Handle::number`] identifies the objects.
pub enum Event {
    /// A peer requests a connection to a passive endpoint; the entry is for the endpoint that accepts.
    Request {
        pep: usize,
        info: InfoList,
        data: Vec<u8>,
    },
    Connected {
        ep: usize,
        data: Vec<u8>,
    },
    Shutdown {
        ep: usize,
    },
    /// FI_MR_COMPLETE, FI_AV_COMPLETE, FI_JOIN_COMPLETE.
    Completed {
        kind: u32,
        object: usize,
        context: usize,
        data: u64,
    },
    Other {
        kind: u32,
        bytes: Vec<u8>,
    },
}

/// A failure.
#[derive(Debug)]
pub struct EqError {
    pub object: usize,
    pub context: usize,
    pub data: u64,
    pub error: Error,
    pub prov_errno: c_int,
    /// For example the peer's data in its refusal of a connection.
    pub err_data: Vec<u8>,
    /// The provider's text for `prov_errno`.
    pub words: Option<String>,
}

impl Eq {
    /// Opens a queue. A wait set as its wait object is not supported.
    pub fn open(fabric: &Arc<Fabric>, attr: &EqAttr) -> Result<Arc<Eq>> {
        if attr.wait_obj == FI_WAIT_SET {
            return Err(Error::INVAL);
        }
        let mut raw = fi_eq_attr {
            size: attr.size,
            flags: attr.flags,
            wait_obj: attr.wait_obj,
            signaling_vector: 0,
            wait_set: null_mut(),
        };
        let mut eq = null_mut();
        // SAFETY: the fabric is open and kept; the attributes are read during the call; `eq` is written on success.
        unsafe {
            let parent = fabric.as_ptr();
            let code = slots::fabric::eq_open(parent, &raw mut raw, &raw mut eq, null_mut());
            Handle::opened(code, eq, attr.wait_obj, vec![fabric.clone()])
        }
    }

    /// Returns the next event. FI_EAGAIN: there is none. FI_EAVAIL: `readerr` has an error.
    pub fn read(&self) -> Result<Event> {
        // SAFETY: the queue is open, and `event` passes the size of its buffer.
        self.event(|eq, kind, at, len| unsafe { slots::eq::read(eq, kind, at, len, 0) })
    }

    /// Does the same as `read`, but drives no progress: returns only an event that is in the queue already. Only for
    /// the built-in providers.
    pub fn read_ready(&self) -> Result<Event> {
        // SAFETY: as in `read`.
        self.event(|eq, kind, at, len| unsafe { slots::eq::read(eq, kind, at, len, EQ_READY_ONLY) })
    }

    /// Does the same as `read`, but waits for an event. FI_EAGAIN, FI_ETIMEDOUT: none came in time.
    pub fn sread(&self, limit: Option<Duration>) -> Result<Event> {
        // SAFETY: as in `read`.
        self.event(|eq, kind, at, len| unsafe {
            slots::eq::sread(eq, kind, at, len, timeout(limit), 0)
        })
    }

    /// Returns the descriptor to sleep on, if the queue was opened with FI_WAIT_FD.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.wait_fd(*self.more())
    }

    /// Returns all descriptors to sleep on, if it was opened with FI_WAIT_POLLFD.
    pub fn fds(&self) -> Result<Vec<BorrowedFd<'_>>> {
        self.wait_fds(*self.more())
    }

    /// `read` gets the queue, the place for the kind of event, the buffer for its entry, and the size of the buffer.
    fn event(
        &self,
        read: impl Fn(*mut fid_eq, *mut u32, *mut c_void, usize) -> ssize_t,
    ) -> Result<Event> {
        let mut kind = 0;
        let mut read_into = |entry: &mut [u64]| {
            let room = size_of_val(entry);
            let at = entry.as_mut_ptr().cast();
            let got = read(self.as_ptr(), &raw mut kind, at, room);
            // SAFETY: the queue has written this many bytes of the entry that goes with this kind.
            count(got).map(|got| unsafe { owned(kind, entry, got.min(room)) })
        };
        let mut event = read_into(&mut [0; ENTRY_WORDS]);
        let mut words = ENTRY_WORDS;
        // The event stays in the queue; its entry has unusually much data of a peer.
        while matches!(event, Err(Error::TOOSMALL)) && words < MAX_ENTRY_WORDS {
            words *= 4;
            event = read_into(&mut vec![0; words]);
        }
        event
    }

    /// Returns the error at the head. FI_EAGAIN: there is none.
    #[cold]
    pub fn readerr(&self) -> Result<EqError> {
        let mut detail = [0u8; ERR_DATA];
        // SAFETY: numbers and pointers, for which zeros are values.
        let mut entry: fi_eq_err_entry = unsafe { zeroed() };
        entry.err_data = detail.as_mut_ptr().cast();
        entry.err_data_size = detail.len();
        // SAFETY: the queue is open; the entry has the size of `err_data`.
        let got = unsafe { slots::eq::readerr(self.as_ptr(), &raw mut entry, 0) };
        if count(got)? == 0 {
            return Err(Error::AGAIN);
        }
        Ok(EqError {
            object: entry.fid.addr(),
            context: entry.context.addr(),
            data: entry.data,
            error: Error::new(entry.err.saturating_abs()),
            prov_errno: entry.prov_errno,
            err_data: match entry.err_data == detail.as_mut_ptr().cast() {
                true => detail[..entry.err_data_size.min(ERR_DATA)].to_vec(),
                // Lent by the provider; an old provider does not report its length.
                false => vec![],
            },
            words: self.words(&entry),
        })
    }

    fn words(&self, entry: &fi_eq_err_entry) -> Option<String> {
        if !is_own_errno(entry.prov_errno) {
            return None;
        }
        // SAFETY: number and data come from this queue. Without a buffer the text belongs to the provider and is valid
        // until the next read.
        unsafe {
            let (eq, code, data) = (self.as_ptr(), entry.prov_errno, entry.err_data);
            string(slots::eq::strerror(eq, code, data, null_mut(), 0))
        }
    }
}

/// Returns the event in `entry[..len]`.
///
/// # Safety
/// A queue has written this many bytes of the entry that belongs to `kind`.
unsafe fn owned(kind: u32, entry: &[u64], len: usize) -> Event {
    let at = entry.as_ptr();
    // SAFETY: `len` is not more than the room.
    let bytes = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), len) };
    let param = bytes.get(size_of::<fi_eq_cm_entry>()..).unwrap_or(&[]);
    match kind {
        FI_CONNREQ | FI_CONNECTED | FI_SHUTDOWN if len >= size_of::<fi_eq_cm_entry>() => {
            // SAFETY: fi_cm(3): these events begin with such an entry.
            let cm = unsafe { &*at.cast::<fi_eq_cm_entry>() };
            let (object, data) = (cm.fid.addr(), param.to_vec());
            match kind {
                FI_CONNREQ => Event::Request {
                    pep: object,
                    // SAFETY: fi_cm(3): the reader has to free the list.
                    info: unsafe { InfoList::from_raw(cm.info) },
                    data,
                },
                FI_CONNECTED => Event::Connected { ep: object, data },
                _ => Event::Shutdown { ep: object },
            }
        }
        FI_MR_COMPLETE | FI_AV_COMPLETE | FI_JOIN_COMPLETE if len >= size_of::<fi_eq_entry>() => {
            // SAFETY: fi_eq(3): these events consist of such an entry.
            let done = unsafe { &*at.cast::<fi_eq_entry>() };
            Event::Completed {
                kind,
                object: done.fid.addr(),
                context: done.context.addr(),
                data: done.data,
            }
        }
        _ => Event::Other {
            kind,
            bytes: bytes.to_vec(),
        },
    }
}

/// Room for an entry with the connection data that providers allow.
const ENTRY_WORDS: usize = 512 / 8;
/// Limit on the entry; no provider's data is longer.
const MAX_ENTRY_WORDS: usize = 64 * 1024 / 8;
