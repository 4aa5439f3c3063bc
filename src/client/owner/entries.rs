// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries that peers hold: `struct fi_peer_rx_entry` of fi_peer(3).

use core::ffi::c_void;
use core::ptr::{null_mut, with_exposed_provenance_mut, without_provenance_mut};

use slab::Slab;

use super::Arriving;
use crate::library::Library;
use abi::*;
use base::iovec::{IOV_LIMIT, IoVec};
use base::{Error, OpFlags, Piece};
use object::ops::transfer::What;

/// The entries of one owner. Entries that peers still hold when this is dropped are never freed.
#[derive(Default)]
pub struct Entries(Slab<Box<Cell>>);

/// The number of an entry. The numbers of freed entries are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId(pub usize);

#[repr(C)]
struct Cell {
    entry: fi_peer_rx_entry,
    iov: [iovec; IOV_LIMIT],
    desc: [*mut c_void; IOV_LIMIT],
    what: What,
    is_queued: bool,
    /// The memory of the receive. The peer may write it as long as the entry exists.
    memory: IoVec,
    /// The memory of a receive of the owner itself. The peer writes it until it reports the completion.
    own: Vec<u8>,
}

// SAFETY: the pointers are those of the application and of the peer; they are not followed here.
unsafe impl Send for Entries {}
// SAFETY: the same.
unsafe impl Sync for Entries {}

impl EntryId {
    /// # Safety
    /// An entry of `Entries` that was not freed.
    pub(super) unsafe fn of(entry: *mut fi_peer_rx_entry) -> EntryId {
        // SAFETY: the caller's promise.
        EntryId(unsafe { (*entry).owner_context.addr() })
    }
}

impl Entries {
    /// Makes an entry for a message. It has no buffers.
    pub(super) fn reserve(&mut self, srx: *mut fid_peer_srx, message: &Arriving) -> EntryId {
        let place = self.0.vacant_entry();
        let id = place.key();
        let nothing = iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        let flags = match message.what {
            What::Tagged => FI_TAGGED | FI_RECV,
            _ => FI_MSG | FI_RECV,
        };
        let cell = Box::new(Cell {
            entry: fi_peer_rx_entry {
                srx,
                addr: message.from,
                msg_size: message.len,
                tag: message.tag,
                cq_data: 0,
                flags,
                context: null_mut(),
                count: 0,
                desc: null_mut(),
                peer_context: null_mut(),
                owner_context: without_provenance_mut(id),
                iov: null_mut(),
            },
            iov: [nothing; IOV_LIMIT],
            desc: [null_mut(); IOV_LIMIT],
            what: message.what,
            is_queued: false,
            memory: IoVec::empty(),
            own: Vec::new(),
        });
        place.insert(cell);
        EntryId(id)
    }

    /// Gives the entry the memory of a receive, which the peer may write until it frees the entry. Completions have
    /// `context`.
    pub fn fill(&mut self, id: EntryId, iov: IoVec, flags: OpFlags, context: usize) {
        let Some(cell) = self.0.get_mut(id.0) else {
            return;
        };
        cell.entry.count = 0;
        for (at, span) in iov.spans().enumerate().take(IOV_LIMIT) {
            cell.iov[at] = iovec {
                iov_base: with_exposed_provenance_mut(span.start),
                iov_len: span.len,
            };
            cell.entry.count = at + 1;
        }
        cell.entry.iov = cell.iov.as_mut_ptr();
        cell.entry.desc = cell.desc.as_mut_ptr();
        cell.entry.context = without_provenance_mut(context);
        cell.entry.flags |= flags.bits();
        cell.memory = iov;
    }

    /// As `fill`, with memory of the entry itself.
    pub fn fill_own(&mut self, id: EntryId, len: usize, flags: OpFlags, context: usize) {
        let Some(cell) = self.0.get_mut(id.0) else {
            return;
        };
        cell.own = vec![0; len];
        // SAFETY: the memory is not moved as long as the entry exists, and not used before `take_own`.
        let piece = unsafe { Piece::new(cell.own.as_mut_ptr(), len) };
        self.fill(id, piece.into(), flags, context);
    }

    /// Takes the memory of `fill_own`, after the peer has reported the completion of the receive.
    pub fn take_own(&mut self, id: EntryId) -> Vec<u8> {
        match self.0.get_mut(id.0) {
            Some(cell) => {
                cell.entry.count = 0;
                cell.memory = IoVec::empty();
                core::mem::take(&mut cell.own)
            }
            None => Vec::new(),
        }
    }

    /// Takes back the memory of a receive that the peer has refused to start.
    pub fn take_back(&mut self, id: EntryId) -> IoVec {
        match self.0.get_mut(id.0) {
            Some(cell) => {
                cell.entry.count = 0;
                cell.memory.take()
            }
            None => IoVec::empty(),
        }
    }

    pub(super) fn remove(&mut self, id: EntryId) {
        self.0.try_remove(id.0);
    }

    pub(super) fn set_queued(&mut self, id: EntryId) {
        if let Some(cell) = self.0.get_mut(id.0) {
            cell.is_queued = true;
        }
    }

    /// Returns the entry of a message that is queued, and which it is from now on no more. None if it is of another
    /// context.
    pub(super) fn unqueue(
        &mut self,
        id: EntryId,
        srx: *mut fid_peer_srx,
    ) -> Option<(*mut fi_peer_rx_entry, What)> {
        let cell = self.0.get_mut(id.0)?;
        let is_here = cell.entry.srx == srx && core::mem::take(&mut cell.is_queued);
        is_here.then_some(((&raw mut **cell).cast(), cell.what))
    }

    /// Returns the number of entries that peers hold.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn raw(&mut self, id: EntryId) -> *mut fi_peer_rx_entry {
        match self.0.get_mut(id.0) {
            Some(cell) => (&raw mut **cell).cast(),
            None => null_mut(),
        }
    }

    /// As `raw`, for a message of this context that is queued.
    pub(super) fn raw_of(
        &mut self,
        id: EntryId,
        srx: *mut fid_peer_srx,
    ) -> Option<*mut fi_peer_rx_entry> {
        let cell = self.0.get_mut(id.0)?;
        (cell.entry.srx == srx && cell.is_queued).then_some((&raw mut **cell).cast())
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            (Library::get().unclosed)("receive context with messages", Error::BUSY);
            core::mem::forget(core::mem::take(&mut self.0));
        }
    }
}
