// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posts receives and removes them: a receive matches an unexpected message at once, looks for one (FI_PEEK), or is
//! cancelled.

use core::mem::take;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::receive::{Filled, Posted, RecvOp};
use super::{Bytes, Envelope, Srx};
use crate::av::without_context;
use crate::matching::{ANY, MsgId};
use base::flags::flags;
use base::{Error, OpFlags, Result};

use object::ops::transfer::{OneRx, Rx, What};

/// A receive and a message whose bytes the transport has to deliver. Without a receive the bytes are dropped.
pub struct Claimed {
    pub envelope: Envelope,
    pub recv: Option<RecvOp>,
}

/// Result of posting a receive. A multi-receive buffer may have several.
pub enum Outcome {
    /// The message is in the buffer. The last field is the sender's address, if it was recorded.
    Done(RecvOp, Envelope, Option<Box<[u8]>>),
    /// The transport delivers the message.
    Claimed(Claimed),
    /// The message was claimed, but its sender is gone.
    Lost(RecvOp, Envelope),
    /// FI_PEEK: there is such a message.
    Peeked(Envelope, Option<Box<[u8]>>),
}

/// Result of posting a plain receive of one buffer.
pub enum PostedOne {
    Posted,
    /// The message is in the buffer.
    Filled(Filled, Envelope),
    /// Nothing has happened; the receive needs `Srx::post`.
    Special,
}

impl Srx {
    /// Posts a plain receive of one buffer, the usual case.
    #[inline(always)]
    pub fn post_one(&mut self, rx: &mut OneRx, directed: bool) -> PostedOne {
        let lane = self.lane(rx.what);
        let plain = !rx
            .flags
            .intersects(flags!(OpFlags: PEEK | CLAIM | DISCARD | MULTI_RECV));
        if !plain {
            return PostedOne::Special;
        }
        let source = if directed { rx.src } else { ANY };
        let (tag, ignore) = accepted(rx.what, rx.tag, rx.ignore);
        let matcher = &mut lane.matcher;
        if matcher.unexpected_len() > 0
            && let Some(id) = matcher.find_unexpected(source, tag, ignore)
        {
            return self.meet_one(rx, id);
        }
        matcher.post_by(source, tag, ignore, rx);
        PostedOne::Posted
    }

    /// Copies a message to the receive that matches it, if all of its bytes are here, they fit, and only the usual
    /// completion is to be made.
    #[inline(always)]
    fn meet_one(&mut self, rx: &mut OneRx, id: MsgId) -> PostedOne {
        let matcher = &mut self.lane(rx.what).matcher;
        let message = matcher.unexpected(id);
        let Bytes::Here(bytes) = &mut message.bytes else {
            return PostedOne::Special;
        };
        if message.origin.is_some() || message.envelope.len > rx.piece.len() as u64 {
            return PostedOne::Special;
        }
        let piece = rx.piece.take();
        piece.fill_host(bytes);
        let (bytes, envelope, charge) = (take(bytes), message.envelope, message.charge);
        matcher.release_unexpected(id);
        self.budget.give_back(envelope.token, charge);
        self.let_go(bytes);
        let filled = Filled {
            base: piece.host_address(),
            context: rx.context.number(),
            flags: rx.flags,
        };
        PostedOne::Filled(filled, envelope)
    }

    /// Posts a receive and takes its memory. `directed`: the receive may name its source.
    pub fn post(&mut self, rx: &mut Rx, directed: bool, out: &mut VecDeque<Outcome>) -> Result {
        let source = if directed {
            self.source_named(rx.src)
        } else {
            ANY
        };
        if rx.flags.intersects(flags!(OpFlags: PEEK | CLAIM | DISCARD)) {
            return self.peek(rx, source, out);
        }
        let (tag, ignore) = accepted(rx.what, rx.tag, rx.ignore);
        let mut posted = Posted {
            len: Posted::room_of(&rx.iov),
            iov: rx.iov.take(),
            context: rx.context.number(),
            flags: rx.flags,
            multi: self.takes_many(rx).then(Arc::default),
        };
        let min = self.min_multi_recv;
        loop {
            let lane = self.lane(rx.what);
            if lane.matcher.unexpected_len() == 0 {
                break;
            }
            let Some(id) = lane.matcher.find_unexpected(source, tag, ignore) else {
                break;
            };
            if posted.multi.is_none() {
                let recv = posted.whole();
                self.meet(rx.what, id, recv, out);
                return Ok(());
            }
            let len = lane.matcher.unexpected(id).envelope.len;
            let (recv, full) = posted.piece(len, min);
            self.meet(rx.what, id, recv, out);
            if full {
                return Ok(());
            }
        }
        let matcher = &mut self.lane(rx.what).matcher;
        matcher.post_by(source, tag, ignore, posted);
        Ok(())
    }

    /// The sender that a receive names. Messages do not contain the context that sent them, so a receive that names a
    /// context of the sender (fi_rx_addr(3)) matches messages of all its contexts.
    #[inline]
    fn source_named(&self, src: u64) -> u64 {
        match self.context_bits {
            0 => src,
            _ if src == ANY => ANY,
            bits => without_context(src, bits),
        }
    }

    /// fi_tagged(3): FI_MULTI_RECV for tagged receives is a separate capability.
    #[inline]
    fn takes_many(&self, rx: &Rx) -> bool {
        rx.flags.contains(OpFlags::MULTI_RECV) && (rx.what == What::Msg || self.many_tagged)
    }

    /// Matches a receive with an unexpected message.
    fn meet(&mut self, what: What, id: MsgId, mut recv: RecvOp, out: &mut VecDeque<Outcome>) {
        let matcher = &mut self.lane(what).matcher;
        let message = matcher.unexpected(id);
        if let Bytes::Coming(_) = message.bytes {
            message.taker = Some(Box::new(recv));
            return self.hide_matched(what, id);
        }
        let message = matcher.take_unexpected(id);
        self.budget.release(&message);
        let envelope = message.envelope;
        match message.bytes {
            Bytes::Here(bytes) => {
                recv.iov.copy_in(&bytes);
                self.let_go(bytes);
                out.push_back(Outcome::Done(recv, envelope, message.origin));
            }
            // `Lost` cannot occur here: only claimed messages are lost, and `peek` handles those.
            _ => out.push_back(Outcome::Claimed(Claimed {
                envelope,
                recv: Some(recv),
            })),
        }
    }

    /// Hides a message that was taken while its bytes arrive, so that no other receive takes it. Its charge ends.
    fn hide_matched(&mut self, what: What, id: MsgId) {
        let matcher = &mut self.lane(what).matcher;
        matcher.hide(id);
        let message = matcher.unexpected(id);
        let (token, charge) = (message.envelope.token, take(&mut message.charge));
        self.budget.give_back(token, charge);
    }

    /// FI_PEEK, FI_CLAIM and FI_DISCARD of fi_tagged(3) and fi_msg(3).
    #[cold]
    fn peek(&mut self, rx: &mut Rx, source: u64, out: &mut VecDeque<Outcome>) -> Result {
        let (peek, claim, discard) = (
            rx.flags.contains(OpFlags::PEEK),
            rx.flags.contains(OpFlags::CLAIM),
            rx.flags.contains(OpFlags::DISCARD),
        );
        let (tag, ignore) = accepted(rx.what, rx.tag, rx.ignore);
        let lane = self.lane(rx.what);
        if !peek {
            if !claim {
                return Err(Error::INVAL);
            }
            // The same context claimed the message before.
            let id = lane
                .claims
                .remove(&rx.context.number())
                .ok_or(Error::INVAL)?;
            if discard {
                let message = lane.matcher.unexpected(id);
                let Envelope { source, ep, .. } = message.envelope;
                let origin = message.origin.take();
                self.discard(rx.what, id, out);
                let nothing = Envelope::nothing(rx, source, ep);
                out.push_back(Outcome::Peeked(nothing, origin));
                return Ok(());
            }
            let recv = Posted {
                len: rx.iov.remaining(),
                iov: rx.iov.take(),
                context: rx.context.number(),
                flags: rx.flags,
                multi: None,
            }
            .whole();
            self.meet_claimed(rx.what, id, recv, out);
            return Ok(());
        }
        if claim && discard {
            return Err(Error::INVAL);
        }
        let found = lane.matcher.find_unexpected(source, tag, ignore);
        let id = found.ok_or(Error::NOMSG)?;
        let message = lane.matcher.unexpected(id);
        let (envelope, origin) = (message.envelope, message.origin.clone());
        if claim {
            lane.matcher.hide(id);
            lane.claims.insert(rx.context.number(), id);
        } else if discard {
            self.discard(rx.what, id, out);
        }
        out.push_back(Outcome::Peeked(envelope, origin));
        Ok(())
    }

    /// Delivers a claimed message to its receive.
    pub(super) fn meet_claimed(
        &mut self,
        what: What,
        id: MsgId,
        recv: RecvOp,
        out: &mut VecDeque<Outcome>,
    ) {
        let matcher = &mut self.lane(what).matcher;
        if matches!(matcher.unexpected(id).bytes, Bytes::Lost) {
            let message = matcher.take_unexpected(id);
            self.budget.release(&message);
            return out.push_back(Outcome::Lost(recv, message.envelope));
        }
        self.meet(what, id, recv, out);
    }

    pub(super) fn discard(&mut self, what: What, id: MsgId, out: &mut VecDeque<Outcome>) {
        let matcher = &mut self.lane(what).matcher;
        let message = matcher.unexpected(id);
        if let Bytes::Coming(bytes) = &mut message.bytes {
            *bytes = Vec::new();
            message.discarded = true;
            return self.hide_matched(what, id);
        }
        let message = matcher.take_unexpected(id);
        self.budget.release(&message);
        match message.bytes {
            Bytes::Here(bytes) => self.let_go(bytes),
            Bytes::Lost => {}
            _ => out.push_back(Outcome::Claimed(Claimed {
                envelope: message.envelope,
                recv: None,
            })),
        }
    }

    /// fi_cancel(3): removes the receive with this context, if it is still posted.
    pub fn cancel(&mut self, context: usize) -> Option<(RecvOp, What)> {
        for what in [What::Msg, What::Tagged] {
            let matcher = &mut self.lane(what).matcher;
            let key = |posted: &Posted| posted.context as u64;
            if let Some(id) = matcher.find_posted_by_key(key, context as u64) {
                let mut posted = matcher.take_posted(id);
                if let Some(multi) = &posted.multi {
                    multi.open.fetch_add(1, Ordering::Relaxed);
                    multi.full.store(true, Ordering::Relaxed);
                }
                return Some((posted.whole(), what));
            }
        }
        None
    }

    /// Removes all posted receives, oldest first, because the endpoint can receive no more.
    pub fn drain_posted(&mut self) -> Vec<(RecvOp, What)> {
        let mut all = Vec::new();
        for what in [What::Msg, What::Tagged] {
            let posted = self.lane(what).matcher.drain_posted();
            all.extend(posted.into_iter().map(|mut posted| (posted.whole(), what)));
        }
        all
    }

    /// Whether a posted receive names this source.
    pub fn names(&mut self, source: u64) -> bool {
        let mut lanes = [What::Msg, What::Tagged].into_iter();
        lanes.any(|what| self.lane(what).matcher.names(source))
    }

    /// Removes the posted receives that name this source, which is gone.
    pub fn drain_posted_from(&mut self, source: u64) -> Vec<(RecvOp, What)> {
        let mut all = Vec::new();
        for what in [What::Msg, What::Tagged] {
            let posted = self.lane(what).matcher.drain_posted_from(source);
            all.extend(posted.into_iter().map(|mut posted| (posted.whole(), what)));
        }
        all
    }
}

/// Tag and ignored bits that a receive matches. An untagged receive matches any tag.
#[inline]
fn accepted(what: What, tag: u64, ignore: u64) -> (u64, u64) {
    match what {
        What::Tagged => (tag, ignore),
        _ => (0, u64::MAX),
    }
}
