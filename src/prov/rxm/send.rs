// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Outgoing messages: in one packet, in segments, or announced; docs/wire/rxm.md.

use std::sync::Arc;

use super::HEAD_SIZE;
use super::flight::{Call, Flight, Group, Kind, Post};
use super::lower::SHORT;
use super::params::MAX_SEGMENT;
use super::proto::{HEADER, Message, Part, Segment, short};
use super::state::{Rxm, StateOf};
use abi::*;
use base::flags::flags;
use base::{Caps, Error, OpFlags, Result};
use client::layer::{Lent, Loan, Slot};
use engine::domain_state::TxOp;
use engine::ep_state::EpState;
use object::ops::transfer::{OneTx, RemoteSeg, Tx, What};

/// Flags of messages that the fast path does not handle.
const SPECIAL: OpFlags = flags!(OpFlags:
    DELIVERY_COMPLETE | TRANSMIT_COMPLETE | COMMIT_COMPLETE | MATCH_COMPLETE | FENCE | TRIGGER
);

impl Rxm {
    /// Posts a copied message below at once. Returns false if nothing was done and `post` has to handle it.
    #[inline]
    pub fn post_short(&mut self, domain: &mut StateOf, ep: usize, tx: &OneTx) -> bool {
        let len = tx.piece.len();
        if HEADER + len > self.lower.inject || tx.flags.intersects(SPECIAL) {
            return false;
        }
        let Some(id) = self.usable(ep, tx.dest) else {
            return false;
        };
        if domain.may_post(ep).is_err() {
            return false;
        }
        let conn = &self.conns[id];
        let Some(link) = conn.link.as_ref().filter(|_| conn.held.is_empty()) else {
            return false;
        };
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let message = Message {
            tagged: tx.what == What::Tagged,
            size: len as u64,
            data: has_data.then_some(tx.data),
            tag: tx.tag,
            context: 0,
        };
        let mut bytes = [0; SHORT];
        bytes[..HEADER].copy_from_slice(&message.eager(conn.remote.index));
        tx.piece.cursor().copy_to(&mut bytes[HEADER..]);
        if link.inject(&bytes[..HEADER + len], 0).is_err() {
            return false;
        }
        let op = TxOp {
            since: 0,
            what: tx.what,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context.number(),
            len,
        };
        domain.sent(ep, &op);
        true
    }

    /// Whether there is room for an operation. Drives progress if not, because a program may only send.
    pub fn may_post(&mut self, domain: &mut StateOf, ep: usize) -> Result {
        if domain.may_post(ep).is_err() {
            self.drive(domain);
        }
        domain.may_post(ep)
    }

    /// Posts an operation of an endpoint.
    pub fn post(&mut self, domain: &mut StateOf, ep: usize, tx: &mut Tx<'_>) -> Result {
        self.post_to(domain, ep, ep, tx, (tx.dest, 0))
    }

    /// Posts an operation of the endpoint `port`, or of its transmit context `ep`, to a peer and one of its receive
    /// contexts.
    pub fn post_to(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
        (dest, context): (u64, u8),
    ) -> Result {
        let state = domain.find_ep(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        if tx.flags.intersects(SPECIAL) {
            check_flags(tx.flags, state)?;
        }
        let mut op = TxOp::of(ep, tx);
        op.since = self.patience.stamp();
        if matches!(tx.what, What::Write | What::Read) {
            check_target(tx.target, op.len)?;
        }
        self.may_post(domain, ep)?;
        let id = match self.usable(port, dest) {
            Some(id) => id,
            None => self.approach(domain, port, dest)?,
        };
        match tx.what {
            What::Write | What::Read => self.post_access(domain, id, tx, op),
            _ => self.post_message(domain, id, tx, op, context),
        }
    }

    fn post_message(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let message = Message {
            tagged: tx.what == What::Tagged,
            size: op.len as u64,
            data: has_data.then_some(tx.data),
            tag: if tx.what == What::Tagged { tx.tag } else { 0 },
            context,
        };
        let params = self.lower.params;
        // Injected data is copied, so the peer cannot read it.
        let injected = tx.flags.contains(OpFlags::INJECT);
        if op.len <= params.eager {
            self.send_whole(domain, id, tx, op, &message)
        } else if op.len <= params.segmented() || injected && params.eager <= MAX_SEGMENT {
            self.send_segments(domain, id, tx, op, &message)
        } else if injected {
            Err(Error::MSGSIZE)
        } else {
            self.announce(domain, id, tx, op, &message)
        }
    }

    /// Sends a message in one packet.
    fn send_whole(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        message: &Message,
    ) -> Result {
        let conn = &self.conns[id];
        let head = message.eager(conn.remote.index);
        let flags = self.lower.flags_of(tx.flags);
        let len = HEADER + op.len;
        // Batching gains nothing for data that is copied anyway.
        if len <= self.lower.inject
            && flags & !FI_MORE == 0
            && conn.held.is_empty()
            && let Some(link) = &conn.link
        {
            let mut bytes = [0; SHORT];
            bytes[..HEADER].copy_from_slice(&head);
            tx.iov.copy_to(&mut bytes[HEADER..]);
            if link.inject(&bytes[..len], 0).is_ok() {
                domain.sent(op.ep(), &op);
                return Ok(());
            }
        }
        let loan = match op.len == 0 || self.copies_of(tx) {
            true => {
                let mut slot = self.slot_for(len)?;
                let bytes = slot.bytes_mut();
                bytes[..HEADER].copy_from_slice(&head);
                tx.iov.copy_to(&mut bytes[HEADER..]);
                Loan::Slot(slot, len)
            }
            false => {
                let lent = self.lend(id, tx, FI_SEND)?;
                let mut slot = match self.heads.take() {
                    Ok(slot) => slot,
                    Err(error) => return Err(take_back(lent, tx, error)),
                };
                slot.bytes_mut()[..HEADER].copy_from_slice(&head);
                Loan::Both(slot, HEADER, lent, 0..op.len)
            }
        };
        domain.ep_mut(op.ep()).tx_pending += 1;
        let flight = Flight {
            ep: op.ep(),
            conn: id,
            kind: Kind::Op(op),
        };
        let call = Call::Send { flags };
        self.hand_down(domain, Post { call, loan, flight });
        Ok(())
    }

    /// Whether a message is copied: it must be, or the provider below does not accept it together with the header.
    fn copies_of(&self, tx: &Tx<'_>) -> bool {
        tx.flags.contains(OpFlags::INJECT)
            || self.lower.registrar.wants_local()
            || tx.iov.spans().count() >= self.lower.pieces()
    }

    /// Returns a slot for this many copied bytes of an operation.
    pub fn slot_for(&mut self, len: usize) -> Result<Slot> {
        match len <= HEAD_SIZE {
            true => self.heads.take(),
            false if self.copies_left() == 0 => Err(Error::AGAIN),
            false => self.copies.take(),
        }
    }

    /// Returns the number of slots left for operations; the others are reserved for answers.
    pub fn copies_left(&self) -> usize {
        self.copies.left().saturating_sub(FOR_ANSWERS)
    }

    /// Whether there is a slot for an answer of this size.
    pub fn can_answer(&self, len: usize) -> bool {
        len <= HEAD_SIZE || self.copies.left() > 0
    }

    /// Lends the memory of an operation to operations below.
    pub fn lend(&self, id: usize, tx: &mut Tx<'_>, access: u64) -> Result<Arc<Lent>> {
        let registrar = self.conns[id].registrar.as_ref().ok_or(Error::AGAIN)?;
        Lent::new(registrar, tx.iov.take(), access).map_err(|(iov, error)| {
            tx.iov = iov;
            error
        })
    }

    /// Sends a message in packets of the same length; the last one may be shorter.
    fn send_segments(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        message: &Message,
    ) -> Result {
        let size = self.lower.params.eager;
        let name = self.conns[id].remote.index;
        let (msg, flags) = (
            self.next_message(),
            self.lower.flags_of(tx.flags) & !FI_MORE,
        );
        let count = op.len.div_ceil(size);
        let copied = self.copies_of(tx);
        // Reserve everything first, because a started message cannot be stopped.
        let left = match copied {
            true => self.copies_left(),
            false => self.heads.left(),
        };
        if left < count {
            return Err(Error::AGAIN);
        }
        let lent = match copied {
            true => None,
            false => Some(self.lend(id, tx, FI_SEND)?),
        };
        let group = self.groups.insert(Group {
            op,
            left: count,
            failed: None,
        });
        domain.ep_mut(op.ep()).tx_pending += 1;
        let mut at = 0;
        for number in 0..count {
            let len = size.min(op.len - at);
            let segment = Segment {
                msg,
                number: number as u32,
                len: len as u16,
                part: match number {
                    0 => Part::First,
                    _ if number + 1 == count => Part::Last,
                    _ => Part::Middle,
                },
            };
            let kind = Kind::Part(group);
            let slot = if copied {
                self.copies.take()
            } else {
                self.heads.take()
            };
            let mut slot = match slot {
                Ok(slot) => slot,
                Err(error) => {
                    // The memory could not be registered. The segments that were sent cannot be taken back.
                    let rest = (number..count).map(|_| Flight {
                        ep: op.ep(),
                        conn: id,
                        kind: Kind::Part(group),
                    });
                    let rest: Vec<Flight> = rest.collect();
                    rest.into_iter()
                        .for_each(|flight| self.landed(domain, flight, Some(error)));
                    self.lost(domain, id, error, &"cannot be sent a message: no memory");
                    return Ok(());
                }
            };
            slot.bytes_mut()[..HEADER].copy_from_slice(&message.segment(name, &segment));
            let loan = match &lent {
                Some(lent) => Loan::Both(slot, HEADER, lent.clone(), at..at + len),
                None => {
                    let mut part = tx.iov.cursor();
                    part.advance(at);
                    part.truncate(len);
                    part.copy_to(&mut slot.bytes_mut()[HEADER..]);
                    Loan::Slot(slot, HEADER + len)
                }
            };
            at += len;
            let flight = Flight {
                ep: op.ep(),
                conn: id,
                kind,
            };
            // The provider below may hand the segments of a message to the kernel together.
            let flags = flags | if number + 1 < count { FI_MORE } else { 0 };
            let call = Call::Send { flags };
            self.hand_down(domain, Post { call, loan, flight });
        }
        Ok(())
    }

    /// Returns a number for a message that no other message in flight has.
    pub fn next_message(&mut self) -> u64 {
        self.messages = self.messages.wrapping_add(1);
        u64::from(self.messages)
    }

    /// Sends a packet without a body: the bytes of a message were read, or written.
    pub fn tell(&mut self, domain: &mut StateOf, id: usize, msg: u64, read: bool) {
        let conn = &self.conns[id];
        let packet = short(conn.remote.index, msg, read);
        self.send_packet(domain, id, &packet, &[]);
    }

    /// Sends a control packet.
    pub fn send_packet(&mut self, domain: &mut StateOf, id: usize, head: &[u8], rest: &[u8]) {
        let conn = &self.conns[id];
        let len = head.len() + rest.len();
        if len <= self.lower.inject
            && conn.held.is_empty()
            && let Some(link) = &conn.link
        {
            let mut bytes = [0; SHORT];
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..len].copy_from_slice(rest);
            if link.inject(&bytes[..len], 0).is_ok() {
                return;
            }
        }
        let slot = match len <= HEAD_SIZE {
            true => self.heads.take(),
            false => self.copies.take(),
        };
        let Ok(mut slot) = slot else {
            // Otherwise the peer would wait forever.
            return self.lost(domain, id, Error::NOMEM, &"cannot be answered: no memory");
        };
        slot.bytes_mut()[..head.len()].copy_from_slice(head);
        slot.bytes_mut()[head.len()..len].copy_from_slice(rest);
        self.send_slot(domain, id, slot, len);
    }

    /// Sends a packet that is in a slot.
    pub fn send_slot(&mut self, domain: &mut StateOf, id: usize, slot: Slot, len: usize) {
        let ep = self.conns[id].ep;
        let post = Post {
            call: Call::Send { flags: 0 },
            loan: Loan::Slot(slot, len),
            flight: Flight {
                ep,
                conn: id,
                kind: Kind::Control,
            },
        };
        self.hand_down(domain, post);
    }
}

/// Slots for copies that are reserved for answers.
pub const FOR_ANSWERS: usize = 512;

/// Returns the memory to an operation that was not posted.
pub fn take_back(lent: Arc<Lent>, tx: &mut Tx<'_>, error: Error) -> Error {
    if let Some(iov) = lent.take_back() {
        tx.iov = iov;
    }
    error
}

/// Refuses flags that the endpoint does not support.
pub fn check_flags(flags: OpFlags, ep: &EpState) -> Result {
    let has = |flag| flags.contains(flag);
    // A triggered operation arrives here without its flag, unless the endpoint lacks the capability.
    if has(OpFlags::TRIGGER) || has(OpFlags::FENCE) && !ep.caps.contains(Caps::FENCE) {
        return Err(Error::BADFLAGS);
    }
    match has(OpFlags::MATCH_COMPLETE) {
        true => Err(Error::OPNOTSUPP),
        false => Ok(()),
    }
}

/// Checks the target of an access: as many bytes as the operation has, in a few segments.
fn check_target(target: &[RemoteSeg], len: usize) -> Result {
    let add = |total: usize, seg: &RemoteSeg| total.checked_add(seg.len);
    match target.iter().try_fold(0, add) {
        Some(total) if total == len && (1..=super::proto::MAX_PLACES).contains(&target.len()) => {
            Ok(())
        }
        _ => Err(Error::INVAL),
    }
}
