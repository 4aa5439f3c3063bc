// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Outgoing messages: in one packet, in segments, or announced; docs/wire/rxm.md.

use std::sync::Arc;

use super::Outgoing;
use super::{Sent, Unsent, copies_left, slot_for, take_back};
use crate::rxm::params::MAX_SEGMENT;
use crate::rxm::proto::{HEADER, Message, Part, Segment};
use crate::rxm::session::flight::{Call, Flight, Group, Kind, Post};
use crate::rxm::session::link::Link;
use crate::rxm::session::{Cx, Wire};
use abi::*;
use base::{Error, OpFlags, Result};
use client::layer::{Lent, Loan};
use engine::domain_state::TxOp;
use object::ops::transfer::{OneTx, Tx, What};

impl Outgoing {
    /// Posts a copied message below at once. Returns false if nothing was done and `post` has to handle it.
    #[inline]
    pub fn post_short<W: Wire>(
        &mut self,
        link: &Link,
        cx: &mut Cx<'_, W>,
        ep: usize,
        tx: &OneTx,
    ) -> bool {
        if !self.held.is_empty() || self.is_deferring() {
            return false;
        }
        let len = tx.piece.len();
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let message = Message {
            tagged: tx.what == What::Tagged,
            size: len as u64,
            data: has_data.then_some(tx.data),
            tag: tx.tag,
            context: 0,
        };
        let bytes = &mut cx.common.staging[..HEADER + len];
        bytes[..HEADER].copy_from_slice(&message.eager(link.remote_name()));
        tx.piece.cursor().copy_to(&mut bytes[HEADER..]);
        if !cx.wire.inject(link.id(), bytes) {
            return false;
        }
        cx.domain.sent(ep, &TxOp::of_one(ep, tx));
        true
    }

    /// Posts an operation. `context` is the receive context of the peer. Takes over `tx`'s memory only on success.
    pub fn post<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result<Sent> {
        match tx.what {
            What::Write | What::Read => self.post_access(link, cx, tx, op).map(Ok),
            _ => self.post_message(link, cx, tx, op, context),
        }
    }

    fn post_message<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result<Sent> {
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let message = Message {
            tagged: tx.what == What::Tagged,
            size: op.len as u64,
            data: has_data.then_some(tx.data),
            tag: if tx.what == What::Tagged { tx.tag } else { 0 },
            context,
        };
        let settings = &cx.common.settings;
        // Injected data is copied, so the peer cannot read it.
        let injected = tx.flags.contains(OpFlags::INJECT);
        if op.len <= settings.eager {
            self.send_whole(link, cx, tx, op, &message).map(Ok)
        } else if op.len <= settings.segmented || injected && settings.eager <= MAX_SEGMENT {
            self.send_segments(link, cx, tx, op, &message)
        } else if injected {
            Err(Error::MSGSIZE)
        } else {
            self.announce(link, cx, tx, op, &message).map(Ok)
        }
    }

    /// Sends a message in one packet.
    fn send_whole<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        message: &Message,
    ) -> Result {
        let settings = &cx.common.settings;
        let head = message.eager(link.remote_name());
        let flags = settings.flags_of(tx.flags);
        let len = HEADER + op.len;
        // Batching gains nothing for data that is copied anyway.
        if len <= settings.inject && flags & !FI_MORE == 0 && self.held.is_empty() {
            let bytes = &mut cx.common.staging[..len];
            bytes[..HEADER].copy_from_slice(&head);
            tx.iov.copy_to(&mut bytes[HEADER..]);
            if cx.wire.inject(link.id(), bytes) {
                cx.domain.sent(op.ep(), &op);
                return Ok(());
            }
        }
        let loan = match op.len == 0 || settings.copies(tx) {
            true => {
                let mut slot = slot_for(cx.wire, len)?;
                let bytes = slot.bytes_mut();
                bytes[..HEADER].copy_from_slice(&head);
                tx.iov.copy_to(&mut bytes[HEADER..]);
                Loan::Slot(slot, len)
            }
            false => {
                let lent = link.lend(cx, tx, FI_SEND)?;
                let mut slot = match cx.wire.take_head() {
                    Ok(slot) => slot,
                    Err(error) => return Err(take_back(lent, tx, error)),
                };
                slot.bytes_mut()[..HEADER].copy_from_slice(&head);
                Loan::Both(slot, HEADER, lent, 0..op.len)
            }
        };
        cx.domain.eps[op.ep()].tx_pending += 1;
        let flight = Flight {
            id: link.id(),
            kind: Kind::Op(op),
        };
        let call = Call::Send { flags };
        self.hand_down(link, cx, Post { call, loan, flight });
        Ok(())
    }

    /// Sends a message in packets of the same length; the last one may be shorter.
    fn send_segments<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        message: &Message,
    ) -> Result<Sent> {
        let settings = cx.common.settings;
        let size = settings.eager;
        let (msg, flags) = (
            cx.common.next_message(),
            settings.flags_of(tx.flags) & !FI_MORE,
        );
        let count = op.len.div_ceil(size);
        let copied = settings.copies(tx);
        // Reserve everything first, because a started message cannot be stopped.
        let left = match copied {
            true => copies_left(cx.wire),
            false => cx.wire.heads_left(),
        };
        if left < count {
            return Err(Error::AGAIN);
        }
        let lent = match copied {
            true => None,
            false => Some(link.lend(cx, tx, FI_SEND)?),
        };
        let group = self.groups.insert(Group {
            op,
            left: count,
            failed: None,
        });
        cx.domain.eps[op.ep()].tx_pending += 1;
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
            let loan = segment_loan(link, cx, tx, lent.as_ref(), at, message, &segment);
            let loan = match loan {
                Ok(loan) => loan,
                Err(error) => {
                    // The memory could not be registered. The segments that were sent cannot be taken back.
                    for _ in number..count {
                        self.landed(cx.domain, Kind::Part(group), Some(error));
                    }
                    return Ok(Err(Unsent::Rest(error)));
                }
            };
            at += len;
            let flight = Flight {
                id: link.id(),
                kind: Kind::Part(group),
            };
            // The provider below may hand the segments of a message to the kernel together.
            let flags = flags | if number + 1 < count { FI_MORE } else { 0 };
            let call = Call::Send { flags };
            self.hand_down(link, cx, Post { call, loan, flight });
        }
        Ok(Ok(()))
    }
}

/// Returns the memory of a segment that begins at `at`: a copy, or a header and a part of the lent memory.
fn segment_loan<W: Wire>(
    link: &Link,
    cx: &mut Cx<'_, W>,
    tx: &Tx<'_>,
    lent: Option<&Arc<Lent>>,
    at: usize,
    message: &Message,
    segment: &Segment,
) -> Result<Loan> {
    let len = usize::from(segment.len);
    let mut slot = match lent {
        None => cx.wire.take_copy()?,
        Some(_) => cx.wire.take_head()?,
    };
    let head = message.segment(link.remote_name(), segment);
    slot.bytes_mut()[..HEADER].copy_from_slice(&head);
    Ok(match lent {
        Some(lent) => Loan::Both(slot, HEADER, lent.clone(), at..at + len),
        None => {
            let mut part = tx.iov.cursor();
            part.advance(at);
            part.truncate(len);
            part.copy_to(&mut slot.bytes_mut()[HEADER..]);
            // The device does not give the bytes.
            if part.take_fault().is_some() {
                return Err(Error::IO);
            }
            Loan::Slot(slot, HEADER + len)
        }
    })
}
