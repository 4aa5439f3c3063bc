// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes packets and operations to the wire, with the memory that they need, and handles their completions.

use std::sync::Arc;

use super::flight::{Call, Flight, Kind, Post};
use super::{Cx, Posted, Session, Settings, Wire};
use crate::rxm::HEAD_SIZE;
use crate::rxm::lower::SHORT;
use crate::rxm::proto::short;
use base::{Error, OpFlags, Result};
use client::layer::{Lent, Loan, Slot};
use object::ops::transfer::Tx;

impl Settings {
    /// Flags for the operation below.
    pub(super) fn flags_of(&self, flags: OpFlags) -> u64 {
        (flags & self.flags).bits()
    }

    /// Whether a message is copied: it must be, or the provider below does not accept it together with the header.
    pub(super) fn copies(&self, tx: &Tx<'_>) -> bool {
        tx.flags.contains(OpFlags::INJECT)
            || self.wants_local
            || tx.iov.spans().count() >= self.pieces
    }
}

impl Session {
    /// Returns a slot for this many copied bytes of an operation.
    pub(super) fn slot_for<W: Wire>(&mut self, cx: &mut Cx<'_, W>, len: usize) -> Result<Slot> {
        match len <= HEAD_SIZE {
            true => cx.wire.take_head(),
            false if copies_left(cx.wire) == 0 => Err(Error::AGAIN),
            false => cx.wire.take_copy(),
        }
    }

    /// Sends a packet without a body: the bytes of a message were read, or written.
    pub(super) fn send_short<W: Wire>(&mut self, cx: &mut Cx<'_, W>, msg: u64, read: bool) {
        let packet = short(self.link.remote_name(), msg, read);
        self.send_packet(cx, &packet, &[]);
    }

    /// Sends a control packet.
    pub(super) fn send_packet<W: Wire>(&mut self, cx: &mut Cx<'_, W>, head: &[u8], rest: &[u8]) {
        let len = head.len() + rest.len();
        if len <= cx.common.settings.inject && self.held.is_empty() {
            let mut bytes = [0; SHORT];
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..len].copy_from_slice(rest);
            if cx.wire.inject(self.link.id(), &bytes[..len]) {
                return;
            }
        }
        let slot = match len <= HEAD_SIZE {
            true => cx.wire.take_head(),
            false => cx.wire.take_copy(),
        };
        let Ok(mut slot) = slot else {
            // Otherwise the peer would wait forever.
            return self.lost(cx, Error::NOMEM, &"cannot be answered: no memory");
        };
        slot.bytes_mut()[..head.len()].copy_from_slice(head);
        slot.bytes_mut()[head.len()..len].copy_from_slice(rest);
        self.send_slot(cx, slot, len);
    }

    /// Sends a packet that is in a slot.
    pub(super) fn send_slot<W: Wire>(&mut self, cx: &mut Cx<'_, W>, slot: Slot, len: usize) {
        let post = Post {
            call: Call::Send { flags: 0 },
            loan: Loan::Slot(slot, len),
            flight: Flight {
                id: self.link.id(),
                kind: Kind::Control,
            },
        };
        self.hand_down(cx, post);
    }

    /// Passes an operation to the wire, or queues it until there is room.
    pub(super) fn hand_down<W: Wire>(&mut self, cx: &mut Cx<'_, W>, post: Post) {
        if !self.held.is_empty() {
            return self.held.push_back(post);
        }
        if let Some(post) = self.try_post(cx, post) {
            self.held.push_back(post);
            if !cx.common.held.contains(&self.link.id()) {
                cx.common.held.push(self.link.id());
            }
        }
    }

    /// Returns the operation if there is no room.
    fn try_post<W: Wire>(&mut self, cx: &mut Cx<'_, W>, post: Post) -> Option<Post> {
        let announced = match post.flight.kind {
            Kind::Announce(at) => Some(at),
            _ => None,
        };
        match cx.wire.post(post) {
            Posted::Yes => {
                if let Some(send) = announced.and_then(|at| self.sends.get_mut(at)) {
                    send.is_announced = true;
                }
                None
            }
            Posted::Later(post) => Some(post),
            Posted::Failed(post, error) => {
                drop(put_slots(cx.wire, post.loan));
                self.landed(cx, post.flight.kind, Some(error));
                self.link.end_later(cx, error);
                None
            }
        }
    }

    /// Passes queued operations to the wire, as far as there is room.
    pub fn send_held<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        while let Some(post) = self.held.pop_front() {
            if let Some(post) = self.try_post(cx, post) {
                self.held.push_front(post);
                return cx.common.held.push(self.link.id());
            }
        }
    }

    /// Handles the end of an operation below: continues or fails the operation that it belongs to.
    #[inline]
    pub fn landed<W: Wire>(&mut self, cx: &mut Cx<'_, W>, kind: Kind, error: Option<Error>) {
        match kind {
            Kind::Op(op) => match error {
                None => cx.domain.complete_tx(&op),
                Some(error) => cx.domain.fail_tx(&op, error),
            },
            Kind::Control | Kind::Announce(_) => {}
            Kind::Part(group) => {
                let parts = &mut self.groups[group];
                parts.left -= 1;
                parts.failed = parts.failed.or(error);
                if parts.left == 0 {
                    let parts = self.groups.remove(group);
                    match parts.failed {
                        None => cx.domain.complete_tx(&parts.op),
                        Some(error) => cx.domain.fail_tx(&parts.op, error),
                    }
                }
            }
            Kind::Fetched(at) => {
                if error.is_none()
                    && let Some(fetch) = self.fetches.get_mut(at)
                {
                    fetch.left -= 1;
                    if fetch.left == 0 {
                        self.fetched(cx, at);
                    }
                }
            }
            Kind::Written(at) => {
                if error.is_none()
                    && let Some(send) = self.sends.get_mut(at)
                {
                    send.left -= 1;
                    if send.left == 0 {
                        self.wrote(cx, at);
                    }
                }
            }
        }
    }
}

/// Slots for copies that are reserved for answers.
pub const FOR_ANSWERS: usize = 512;

/// Returns the number of copies left for operations; the others are reserved for answers.
pub fn copies_left<W: Wire>(wire: &W) -> usize {
    wire.copies_left().saturating_sub(FOR_ANSWERS)
}

/// Returns slots to the wire; memory lent by the application goes to the caller.
pub fn put_slots<W: Wire>(wire: &mut W, loan: Loan) -> Option<Arc<Lent>> {
    match loan {
        Loan::Nothing | Loan::Block(_) => None,
        Loan::Slot(slot, _) => {
            wire.put(slot);
            None
        }
        Loan::Lent(lent, _) => Some(lent),
        Loan::Both(slot, _, lent, _) => {
            wire.put(slot);
            Some(lent)
        }
    }
}

/// Returns the memory to an operation that was not posted.
pub fn take_back(lent: Arc<Lent>, tx: &mut Tx<'_>, error: Error) -> Error {
    if let Some(iov) = lent.take_back() {
        tx.iov = iov;
    }
    error
}
