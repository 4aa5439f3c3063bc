// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives: posted ones, buffers for several messages, and receives that have a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::arrivals::Lent;
use crate::matching::Put;
use base::{CompFlags, IoVec, OpFlags};

use object::ops::transfer::OneRx;

/// A posted receive.
#[derive(Default)]
pub(super) struct Posted {
    pub iov: IoVec,
    /// Bytes for which there is room when a message is copied at once: none in memory of devices, because the copy may
    /// fail.
    pub len: usize,
    pub context: usize,
    pub flags: OpFlags,
    pub multi: Option<Arc<Multi>>,
}

/// A multi-receive buffer: the completion of its last message returns it. Also used for a receive of another provider.
#[derive(Default)]
pub struct Multi {
    /// Messages that are being written to the buffer.
    pub(super) open: AtomicUsize,
    /// The buffer takes no more messages.
    pub(super) full: AtomicBool,
    /// Set if this is a receive of another provider, which takes one message.
    _lent: Option<Lent>,
}

impl Multi {
    pub(super) fn lent(lent: Lent) -> Multi {
        Multi {
            open: AtomicUsize::new(1),
            full: AtomicBool::new(false),
            _lent: Some(lent),
        }
    }
}

/// A receive that matched a message.
pub struct RecvOp {
    /// Destination of the message; a cursor.
    pub iov: IoVec,
    /// Address of the first byte, for the completion.
    pub base: usize,
    /// Size of the receive in bytes.
    pub len: usize,
    pub context: usize,
    pub flags: OpFlags,
    pub multi: Option<Arc<Multi>>,
}

/// The fields of a receive that its completion contains.
pub struct Filled {
    pub base: usize,
    pub context: usize,
    pub flags: OpFlags,
}

impl RecvOp {
    /// FI_MULTI_RECV if this completion returns the buffer. Must be called once, when the operation completes.
    pub fn release(&self) -> CompFlags {
        match &self.multi {
            Some(multi)
                if multi.open.fetch_sub(1, Ordering::Relaxed) == 1
                    && multi.full.load(Ordering::Relaxed) =>
            {
                CompFlags::MULTI_RECV
            }
            _ => CompFlags::empty(),
        }
    }
}

impl Put<Posted> for &mut OneRx {
    #[inline(always)]
    fn put(self, posted: &mut Posted) {
        posted.len = self.piece.len();
        posted.iov.set(self.piece.take(), self.desc);
        posted.context = self.context.number();
        posted.flags = self.flags;
        if posted.multi.is_some() {
            posted.multi = None;
        }
    }
}

impl Posted {
    /// Takes the whole buffer for a message.
    #[inline]
    pub fn whole(&mut self) -> RecvOp {
        RecvOp {
            base: self.iov.base(),
            len: match self.iov.is_device() {
                true => self.iov.remaining(),
                false => self.len,
            },
            iov: self.iov.take(),
            context: self.context,
            flags: self.flags,
            multi: self.multi.clone(),
        }
    }

    /// See `len`.
    pub fn room_of(iov: &IoVec) -> usize {
        match iov.is_device() {
            true => 0,
            false => iov.remaining(),
        }
    }

    /// Records that a message is in a multi-receive buffer. Returns FI_MULTI_RECV if its completion returns the buffer.
    pub fn filled(&self, is_full: bool) -> CompFlags {
        match &self.multi {
            Some(multi) if is_full => {
                multi.full.store(true, Ordering::Relaxed);
                match multi.open.load(Ordering::Relaxed) {
                    0 => CompFlags::MULTI_RECV,
                    _ => CompFlags::empty(),
                }
            }
            _ => CompFlags::empty(),
        }
    }

    /// Takes the next `len` bytes of a multi-receive buffer, or the rest if fewer are left. Also returns whether the
    /// buffer takes no more messages.
    pub fn piece(&mut self, len: u64, min: usize) -> (RecvOp, bool) {
        let left = self.iov.remaining();
        let used = usize::try_from(len).unwrap_or(usize::MAX).min(left);
        let recv = RecvOp {
            base: self.iov.address(),
            iov: self.iov.split_off(used),
            len: used,
            context: self.context,
            flags: self.flags,
            multi: self.multi.clone(),
        };
        let full = left - used < min.max(1);
        if let Some(multi) = &self.multi {
            multi.open.fetch_add(1, Ordering::Relaxed);
            multi.full.store(full, Ordering::Relaxed);
        }
        (recv, full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Piece;
    use hmem::Desc;
    use object::ops::transfer::{Context, What};

    #[test]
    fn a_receive_of_one_buffer_keeps_its_descriptor() {
        let desc = Desc::new(core::ptr::without_provenance_mut(7));
        let mut posted = Posted::default();
        let mut one = OneRx {
            what: What::Msg,
            piece: Piece::empty(),
            desc,
            flags: OpFlags::empty(),
            src: 0,
            context: Context::default(),
            tag: 0,
            ignore: 0,
        };
        (&mut one).put(&mut posted);
        assert_eq!(posted.whole().iov.desc(), desc);
    }
}
