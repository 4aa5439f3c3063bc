// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes packets and operations to the wire, with the memory that they need, and handles their completions.

mod announce;
mod atomic;
mod contexts;
mod credits;
mod deferred;
mod loss;
mod rma;
mod send;
mod tell;

use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;

use self::deferred::Deferred;
use super::flight::{Asked, Call, Flight, Group, Kind, Post, Send};
use super::link::Link;
use super::{Common, Cx, Posted, Settings, Wire};
use crate::rxm::HEAD_SIZE;
use crate::rxm::proto::short;
use crate::rxm::state::StateOf;
use base::{Error, OpFlags, Result};
use client::layer::{Lent, Loan, Slot};
use engine::peer::table::Table;
use object::ops::transfer::Tx;

/// Operations of this side, and packets that answer the peer.
#[derive(Default)]
pub struct Outgoing {
    /// Operations that the provider below had no room for.
    held: VecDeque<Post>,
    /// Operations that wait for the connection.
    deferred: VecDeque<Deferred>,
    /// Posted receives of which the peer does not know.
    credits: u64,
    /// Whether the session is in `Common::held` and wants to be.
    is_listed: bool,
    /// Number of operations in flight below.
    below: u32,
    /// Operations that need several below.
    groups: Slab<Group>,
    /// Messages that the peer reads, or for which it returns addresses to write to.
    sends: Table<Send, PLACE_BITS>,
    /// Atomic operations that wait for their answers.
    asked: Table<Asked, PLACE_BITS>,
}

/// Bits of a number in `sends` or `asked` that are the place there.
const PLACE_BITS: u32 = 32;

/// A packet that the peer needs could not be sent, because there is no memory for it. The session has to end.
pub enum Unsent {
    /// An answer, without which the peer would wait forever.
    Answer,
    /// The rest of a message.
    Rest(Error),
}

pub type Sent = core::result::Result<(), Unsent>;

impl Unsent {
    pub fn error(&self) -> Error {
        match *self {
            Unsent::Answer => Error::NOMEM,
            Unsent::Rest(error) => error,
        }
    }
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsent::Answer => "cannot be answered: no memory",
            Unsent::Rest(_) => "cannot be sent a message: no memory",
        })
    }
}

impl Settings {
    /// Flags for the operation below.
    fn flags_of(&self, flags: OpFlags) -> u64 {
        (flags & self.flags).bits()
    }

    /// Whether a message is copied: it must be, or the provider below does not accept it together with the header.
    fn copies(&self, tx: &Tx<'_>) -> bool {
        tx.flags.contains(OpFlags::INJECT)
            || self.wants_local
            || tx.iov.spans().count() >= self.pieces
    }
}

impl Outgoing {
    /// Whether operations wait for room below.
    #[inline]
    pub fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Sends a packet without a body: the bytes of a message were read, or written.
    pub fn send_short<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        msg: u64,
        read: bool,
    ) -> Sent {
        let packet = short(link.remote_name(), msg, read);
        self.send_packet(link, cx, &packet, &[])
    }

    /// Sends a control packet.
    pub fn send_packet<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        head: &[u8],
        rest: &[u8],
    ) -> Sent {
        let len = head.len() + rest.len();
        if len <= cx.common.settings.inject && self.held.is_empty() {
            let bytes = &mut cx.common.staging[..len];
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..].copy_from_slice(rest);
            if cx.wire.inject(link.id(), bytes) {
                return Ok(());
            }
        }
        let slot = match len <= HEAD_SIZE {
            true => cx.wire.take_head(),
            false => cx.wire.take_copy(),
        };
        let Ok(mut slot) = slot else {
            return Err(Unsent::Answer);
        };
        slot.bytes_mut()[..head.len()].copy_from_slice(head);
        slot.bytes_mut()[head.len()..len].copy_from_slice(rest);
        self.send_slot(link, cx, slot, len);
        Ok(())
    }

    /// Sends a packet that is in a slot.
    fn send_slot<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>, slot: Slot, len: usize) {
        let post = Post {
            call: Call::Send { flags: 0 },
            loan: Loan::Slot(slot, len),
            flight: Flight {
                id: link.id(),
                kind: Kind::Control,
            },
        };
        self.hand_down(link, cx, post);
    }

    /// Passes an operation to the wire, or queues it until there is room.
    pub fn hand_down<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>, post: Post) {
        if !self.held.is_empty() {
            return self.held.push_back(post);
        }
        if let Some(post) = self.try_post(link, cx, post) {
            self.held.push_back(post);
            self.list(link, cx.common);
        }
    }

    /// Schedules another try for the held operations.
    fn list(&mut self, link: &Link, common: &mut Common) {
        if !core::mem::replace(&mut self.is_listed, true) {
            common.held.push(link.id());
        }
    }

    /// Handles the end of an operation that was in flight below.
    #[inline]
    pub fn left(&mut self) {
        self.below = self.below.saturating_sub(1);
    }

    /// Whether operations are in flight below.
    pub fn is_below(&self) -> bool {
        self.below > 0
    }

    /// Returns the operation if there is no room.
    fn try_post<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        post: Post,
    ) -> Option<Post> {
        let announced = match post.flight.kind {
            Kind::Announce(msg) => Some(msg),
            _ => None,
        };
        match cx.wire.post(post) {
            Posted::Yes => {
                self.below += 1;
                if let Some(send) = announced.and_then(|msg| self.sends.get_mut(msg)) {
                    send.is_announced = true;
                }
                None
            }
            Posted::Later(post) => Some(post),
            Posted::Failed(post, error) => {
                drop(put_slots(cx.wire, post.loan));
                self.landed(cx.domain, post.flight.kind, Some(error));
                link.end_later(cx, error);
                None
            }
        }
    }

    /// Passes queued operations to the wire, as far as there is room.
    pub fn send_held<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>) -> Sent {
        if !core::mem::take(&mut self.is_listed) {
            return Ok(());
        }
        self.send_credits(link, cx);
        while let Some(post) = self.held.pop_front() {
            if let Some(post) = self.try_post(link, cx, post) {
                self.held.push_front(post);
                self.list(link, cx.common);
                return Ok(());
            }
        }
        self.send_deferred(link, cx)
    }

    /// Handles the end of an operation below, unless it was a part of an announced message.
    #[inline]
    pub fn landed(&mut self, domain: &mut StateOf, kind: Kind, error: Option<Error>) {
        match kind {
            Kind::Op(op) => match error {
                None => domain.complete_tx(&op),
                Some(error) => domain.fail_tx(&op, error),
            },
            Kind::Part(group) => {
                let parts = &mut self.groups[group];
                parts.left -= 1;
                parts.failed = parts.failed.or(error);
                if parts.left == 0 {
                    let parts = self.groups.remove(group);
                    match parts.failed {
                        None => domain.complete_tx(&parts.op),
                        Some(error) => domain.fail_tx(&parts.op, error),
                    }
                }
            }
            Kind::Control | Kind::Announce(_) | Kind::Fetched(_) | Kind::Written(_) => {}
        }
    }
}

/// Returns a slot for this many copied bytes of an operation.
fn slot_for<W: Wire>(wire: &mut W, len: usize) -> Result<Slot> {
    match len <= HEAD_SIZE {
        true => wire.take_head(),
        false if copies_left(wire) == 0 => Err(Error::AGAIN),
        false => wire.take_copy(),
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
        Loan::Nothing | Loan::Block(_) | Loan::Operands(_) => None,
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
fn take_back(lent: Arc<Lent>, tx: &mut Tx<'_>, error: Error) -> Error {
    if let Some(iov) = lent.take_back() {
        tx.iov = iov;
    }
    error
}
