// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completion queues: fi_cq(3).

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::domain::Domain;
use super::handle::Handle;
use super::{ERR_DATA, count, is_own_errno, status, string, timeout};
use abi::*;
use base::{Error, Result};
use object::slots;

pub type Cq = Handle<fid_cq>;

/// `struct fi_cq_attr`.
#[derive(Clone, Copy, Default)]
pub struct CqAttr {
    /// 0: the provider's choice.
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub wait_cond: fi_cq_wait_cond,
}

/// Entry size and wait object of a queue.
pub struct Kind {
    /// 64-bit words of an entry.
    words: usize,
    wait_obj: fi_wait_obj,
    by_threshold: bool,
}

impl Kind {
    /// The kind of a queue whose entries are reported to its owner.
    pub(super) fn of_peer() -> Kind {
        Kind {
            words: MAX_WORDS,
            wait_obj: FI_WAIT_NONE,
            by_threshold: false,
        }
    }
}

/// The context of an operation that has ended. Only a queue creates one, once for each operation, so that it can be
/// traded for the buffer of the operation ([`Ep::reclaim`](super::Ep)).
#[derive(Debug, Default)]
pub struct Done(usize);

impl Done {
    /// The context that a peer has reported: fi_peer(3).
    pub(super) fn of(context: usize) -> Done {
        Done(context)
    }

    pub fn number(&self) -> usize {
        self.0
    }
}

/// A completion. Fields that the queue's format lacks are 0. Only a queue sets the place of a message, which
/// [`Block::message`](crate::layer::Block) relies on:
///
/// ```
/// fn tagged(mut done: client::Completion, tag: u64) -> client::Completion {
///     done.tag = tag;
///     done
/// }
/// ```
///
/// ```compile_fail,E0616
/// fn moved(mut done: client::Completion, buf: usize) -> client::Completion {
///     done.buf = buf;
///     done
/// }
/// ```
#[derive(Debug, Default)]
pub struct Completion {
    pub context: Done,
    pub flags: u64,
    pub(super) len: usize,
    /// With FI_MULTI_RECV: address of the message.
    pub(super) buf: usize,
    pub data: u64,
    pub tag: u64,
    /// FI_ADDR_NOTAVAIL if the source was not requested or is unknown.
    pub src: fi_addr_t,
    /// Number of the last block that was posted before the completion was read.
    pub(super) block: u64,
}

impl Completion {
    /// Returns the number of bytes of the message, 0 if the queue's format lacks it.
    #[inline]
    pub fn size(&self) -> usize {
        self.len
    }
}

/// Number of the last block that was posted for many messages.
static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of the next block. Completions that were read before this call have lower numbers.
pub(super) fn next_block() -> u64 {
    // Relaxed: the caller posts the block afterwards, and the provider orders that before the completions.
    BLOCKS.fetch_add(1, Ordering::Relaxed) + 1
}

/// An operation that failed.
#[derive(Debug)]
pub struct CqError {
    pub context: Done,
    pub flags: u64,
    pub len: usize,
    pub buf: usize,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub error: Error,
    pub prov_errno: c_int,
    pub err_data: Vec<u8>,
    pub src: fi_addr_t,
    /// The provider's text for `prov_errno`.
    pub words: Option<String>,
}

impl Cq {
    /// Opens a queue. Only the four formats known here are supported, and no wait set.
    pub fn open(domain: &Arc<Domain>, attr: &CqAttr) -> Result<Arc<Cq>> {
        let words = match attr.format {
            FI_CQ_FORMAT_CONTEXT => 1,
            FI_CQ_FORMAT_MSG => 3,
            FI_CQ_FORMAT_DATA => 5,
            FI_CQ_FORMAT_TAGGED => MAX_WORDS,
            _ => return Err(Error::INVAL),
        };
        if attr.wait_obj == FI_WAIT_SET || attr.flags & FI_PEER != 0 {
            return Err(Error::INVAL);
        }
        let mut raw = fi_cq_attr {
            size: attr.size,
            flags: attr.flags,
            format: attr.format,
            wait_obj: attr.wait_obj,
            signaling_vector: 0,
            wait_cond: attr.wait_cond,
            wait_set: null_mut(),
            xpu_ctx: null_mut(),
        };
        let kind = Kind {
            words,
            wait_obj: attr.wait_obj,
            by_threshold: attr.wait_cond == FI_CQ_COND_THRESHOLD,
        };
        let mut cq = null_mut();
        // SAFETY: the domain is open and kept; the attributes are read during the call; `cq` is written on success.
        unsafe {
            let parent = domain.as_ptr();
            let code = slots::domain::cq_open(parent, &raw mut raw, &raw mut cq, null_mut());
            Handle::opened(code, cq, kind, vec![domain.clone()])
        }
    }

    /// Reads available completions up to the room; returns their number. FI_EAVAIL: `readerr` has an error.
    pub fn read(&self, into: &mut [Completion]) -> Result<usize> {
        // SAFETY: the queue is open; `read_by` passes the size of its buffer.
        self.read_by(into, |cq, at, room, _| unsafe {
            slots::cq::read(cq, at, room)
        })
    }

    /// Does the same, with sources.
    pub fn read_from(&self, into: &mut [Completion]) -> Result<usize> {
        // SAFETY: as in `read`; there is room for as many sources.
        self.read_by(into, |cq, at, room, src| unsafe {
            slots::cq::readfrom(cq, at, room, src)
        })
    }

    /// Does the same as `read`, but waits for a completion.
    pub fn sread(&self, into: &mut [Completion], limit: Option<Duration>) -> Result<usize> {
        let cond = self.cond();
        // SAFETY: as in `read`; the condition is a number, or NULL.
        self.read_by(into, |cq, at, room, _| unsafe {
            slots::cq::sread(cq, at, room, cond, timeout(limit))
        })
    }

    /// Does the same as `read_from`, but waits for a completion.
    pub fn sread_from(&self, into: &mut [Completion], limit: Option<Duration>) -> Result<usize> {
        let cond = self.cond();
        // SAFETY: as in `read_from`; the condition is a number, or NULL.
        self.read_by(into, |cq, at, room, src| unsafe {
            slots::cq::sreadfrom(cq, at, room, src, cond, timeout(limit))
        })
    }

    /// Wakes up a thread in `sread`.
    pub fn signal(&self) -> Result {
        // SAFETY: the queue is open.
        status(unsafe { slots::cq::signal(self.as_ptr()) })
    }

    /// Returns the descriptor to sleep on, if the queue was opened with FI_WAIT_FD. It is open as long as the queue, so
    /// it is borrowed from the queue, as the descriptors of counters and event queues are:
    ///
    /// ```
    /// fn sleep(queue: client::Cq) {
    ///     let _ = sys::event::sleep_on(&[queue.fd().unwrap()], None);
    ///     drop(queue);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0505
    /// fn sleep(queue: client::Cq) {
    ///     let fd = queue.fd().unwrap();
    ///     drop(queue);
    ///     let _ = sys::event::sleep_on(&[fd], None);
    /// }
    /// ```
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.wait_fd(self.more().wait_obj)
    }

    /// Returns all descriptors to sleep on, if it was opened with FI_WAIT_POLLFD.
    pub fn fds(&self) -> Result<Vec<BorrowedFd<'_>>> {
        self.wait_fds(self.more().wait_obj)
    }

    /// Returns the error at the head. FI_EAGAIN: there is none.
    #[cold]
    pub fn readerr(&self) -> Result<CqError> {
        let mut detail = [0u8; ERR_DATA];
        // SAFETY: numbers and pointers, for which zeros are values.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        entry.err_data = detail.as_mut_ptr().cast();
        entry.err_data_size = detail.len();
        entry.src_addr = FI_ADDR_NOTAVAIL;
        // SAFETY: the queue is open; the entry has the size of `err_data`.
        let got = unsafe { slots::cq::readerr(self.as_ptr(), &raw mut entry, 0) };
        if count(got)? == 0 {
            return Err(Error::AGAIN);
        }
        Ok(CqError {
            context: Done(entry.op_context.addr()),
            flags: entry.flags,
            len: entry.len,
            buf: entry.buf.addr(),
            data: entry.data,
            tag: entry.tag,
            olen: entry.olen,
            error: Error::new(entry.err.saturating_abs()),
            prov_errno: entry.prov_errno,
            err_data: match entry.err_data == detail.as_mut_ptr().cast() {
                true => detail[..entry.err_data_size.min(ERR_DATA)].to_vec(),
                // Lent by the provider; an old provider does not report its length.
                false => vec![],
            },
            src: entry.src_addr,
            words: self.words(&entry),
        })
    }

    fn words(&self, entry: &fi_cq_err_entry) -> Option<String> {
        if !is_own_errno(entry.prov_errno) {
            return None;
        }
        // SAFETY: number and data come from this queue. Without a buffer the text belongs to the provider and is valid
        // until the next read.
        unsafe {
            let (cq, code, data) = (self.as_ptr(), entry.prov_errno, entry.err_data);
            string(slots::cq::strerror(cq, code, data, null_mut(), 0))
        }
    }

    fn cond(&self) -> *const c_void {
        match self.more().by_threshold {
            // One entry is enough.
            true => core::ptr::without_provenance(1),
            false => null(),
        }
    }

    /// `read` gets the queue, the buffer for entries, its size in entries, and the buffer for as many sources.
    #[inline]
    fn read_by(
        &self,
        into: &mut [Completion],
        read: impl FnOnce(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> ssize_t,
    ) -> Result<usize> {
        let words = self.more().words;
        // Before the entries: one that is there already belongs to an earlier block.
        let block = BLOCKS.load(Ordering::Relaxed);
        let room = into.len().min(BATCH);
        let mut entries = MaybeUninit::<[u64; MAX_WORDS * BATCH]>::uninit();
        let mut sources = [FI_ADDR_NOTAVAIL; BATCH];
        let at = entries.as_mut_ptr();
        let got = read(self.as_ptr(), at.cast(), room, sources.as_mut_ptr());
        // A queue that returns more than requested has already overwritten the stack; do not read on.
        let got = count(got)?.min(room);
        let at = at.cast::<u64>().cast_const();
        for (i, out) in into.iter_mut().take(got).enumerate() {
            let word = |n: usize| match n < words {
                // SAFETY: fi_cq(3): `got` entries of the queue's format were written.
                true => unsafe { *at.add(i * words + n) },
                false => 0,
            };
            *out = Completion {
                context: Done(word(0) as usize),
                flags: word(1),
                len: word(2) as usize,
                buf: word(3) as usize,
                data: word(4),
                tag: word(5),
                src: sources[i],
                block,
            };
        }
        Ok(got)
    }
}

/// Words of the longest entry.
const MAX_WORDS: usize = size_of::<fi_cq_tagged_entry>() / 8;
const _: () = {
    assert!(size_of::<fi_cq_entry>() == 8);
    assert!(size_of::<fi_cq_msg_entry>() == 3 * 8);
    assert!(size_of::<fi_cq_data_entry>() == 5 * 8);
};

/// Maximum of entries in one read.
const BATCH: usize = 16;
