// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages of the peer: whole ones, and those that arrive in segments. `rendezvous` transfers announced ones.

mod rendezvous;

use core::time::Duration;
use std::collections::HashMap;

use slab::Slab;

use super::flight::{Fetch, Parked};
use super::link::{Link, info_of};
use super::{Common, Cx};
use crate::rxm::proto::{Fault, Message, Part, Segment};
use crate::rxm::state::StateOf;
use base::{Caps, CompFlags, Error};
use engine::peer::claim::Claim;
use engine::report::{Peer, Wait};
use engine::srx::{Bytes, Envelope, RecvOp, Srx, Unfilled};

/// A message that arrives in segments.
struct Coming {
    claim: Claim,
    message: Message,
    /// Number of the next segment, and bytes received so far.
    number: u32,
    have: u64,
}

/// Result of handling a packet.
pub enum Taken {
    Yes,
    /// The receive queue has no room for it.
    Later,
}

impl Common {
    /// Whether `len` bytes of an unexpected message may be kept; otherwise it waits in its packet. A message behind one
    /// that has matched a receive waits for the next poll, so that the program sees the matched one first. MPICH probes
    /// here before it checks messages of a process to itself, and receives in the other order; a message that arrives
    /// before its first check would confuse it.
    pub(super) fn may_keep(&self, srx: &Srx, envelope: &Envelope, len: u64) -> bool {
        if self.is_forced {
            return true;
        }
        let waits = self.has_matched && !self.is_thorough;
        !waits && srx.has_room(envelope.token, len, self.settings.saved)
    }
}

impl<W> Cx<'_, W> {
    pub(super) fn may_receive(&self, ep: usize) -> bool {
        self.common.is_forced || self.domain.may_receive(ep)
    }

    fn complete_receive(&mut self, link: &Link, recv: &RecvOp, envelope: &Envelope) {
        self.domain
            .received(envelope.ep, recv, envelope, &link.sender());
        self.common.has_matched = true;
    }
}

/// Messages of the peer.
#[derive(Default)]
pub struct Incoming {
    /// Messages that arrive in segments, by the numbers of their senders.
    coming: HashMap<u64, Coming>,
    /// Messages that this side reads, or that the peer writes.
    fetches: Slab<Fetch>,
    /// Announced messages that have not matched a receive.
    parked: Slab<Parked>,
}

impl Incoming {
    /// Handles a segment of a message.
    pub fn segment<W>(
        &mut self,
        link: &Link,
        cx: &mut Cx<'_, W>,
        segment: &Segment,
        message: &Message,
        payload: &[u8],
    ) -> core::result::Result<Taken, Fault> {
        if segment.part == Part::First {
            let ep = link.ep();
            if !cx.may_receive(ep) {
                return Ok(Taken::Later);
            }
            check_tags(cx.domain, ep, message)?;
            if self.coming.contains_key(&segment.msg) {
                return Err(Fault("two messages of one name"));
            }
            let ep = link.target_of(cx.domain, message)?;
            let Some(claim) = self.claim_of(link, cx, ep, message) else {
                return Ok(Taken::Later);
            };
            let coming = Coming {
                claim,
                message: *message,
                number: 0,
                have: 0,
            };
            self.coming.insert(segment.msg, coming);
        }
        let Some(coming) = self.coming.get_mut(&segment.msg) else {
            return Err(Fault("a segment of no message"));
        };
        let have = coming.have + payload.len() as u64;
        let is_last = segment.part == Part::Last;
        if coming.number != segment.number || coming.message != *message {
            return Err(Fault("a segment that is not the next"));
        }
        if have > message.size || is_last != (have == message.size) {
            return Err(Fault("segments of another length than their message"));
        }
        if segment.part != Part::First && !cx.common.is_forced {
            let saved = cx.common.settings.saved;
            if !coming.claim.has_room(cx.domain, payload.len(), saved) {
                return Ok(Taken::Later);
            }
        }
        (coming.number, coming.have) = (coming.number + 1, have);
        let stored = coming.claim.put(cx.domain, payload);
        stored.map_err(|_| Fault("no memory for an unexpected message"))?;
        if is_last && let Some(coming) = self.coming.remove(&segment.msg) {
            cx.common.has_matched |= coming.claim.finish(cx.domain, &link.sender());
        }
        Ok(Taken::Yes)
    }

    /// Returns the claim on a message in segments, or `None` if there is no room.
    fn claim_of<W>(
        &self,
        link: &Link,
        cx: &mut Cx<'_, W>,
        ep: usize,
        message: &Message,
    ) -> Option<Claim> {
        let envelope = link.envelope(ep, message);
        let srx_id = cx.domain.eps[envelope.ep].srx;
        let srx = &mut cx.domain.srxs[srx_id];
        if let Some(recv) = srx.accept(&envelope) {
            return Some(Claim::of(Some(recv), envelope));
        }
        if !cx.common.may_keep(srx, &envelope, envelope.len) {
            return None;
        }
        let slot = srx.keep(envelope, Bytes::Coming(Vec::new()));
        link.record_origin(cx.domain, srx_id, slot);
        Some(Claim::Kept(srx_id, slot))
    }

    /// Drops the receives of a receive context. Returns whether the connection has to end, because operations below may
    /// still write to them.
    pub fn leave_receives(&mut self, ep: usize) -> bool {
        for coming in self.coming.values_mut() {
            coming.claim.leave(ep);
        }
        let before = self.fetches.len();
        self.fetches.retain(|_, fetch| fetch.envelope.ep != ep);
        self.fetches.len() < before
    }

    /// Ends all messages that have not arrived whole. Without an error they end silently.
    pub fn fail_all(&mut self, link: &Link, domain: &mut StateOf, error: Option<Error>) {
        for (_, coming) in std::mem::take(&mut self.coming) {
            coming.claim.end(domain, error);
        }
        for (_, fetch) in std::mem::take(&mut self.fetches) {
            drop(fetch.lent);
            Claim::of(Some(*fetch.recv), fetch.envelope).end(domain, error);
        }
        self.parked.clear();
        domain.forget_claims(link.ep(), link.id());
    }

    /// Adds the messages in transfer to a report.
    pub fn add_fetches(&self, peer: &mut Peer, age: &impl Fn(u16) -> Option<Duration>) {
        for (_, fetch) in &self.fetches {
            peer.add(Wait::receive(&fetch.envelope, age(fetch.since)));
        }
    }
}

/// Handles a complete message.
#[inline]
pub fn eager<W>(
    link: &Link,
    cx: &mut Cx<'_, W>,
    message: &Message,
    payload: &[u8],
) -> core::result::Result<Taken, Fault> {
    let (ep, fi_addr, source) = (link.ep(), link.fi_addr(), link.source());
    if !cx.may_receive(ep) {
        return Ok(Taken::Later);
    }
    check_tags(cx.domain, ep, message)?;
    let ep = link.target_of(cx.domain, message)?;
    let info = info_of(message);
    let srx_id = cx.domain.eps[ep].srx;
    if cx.domain.pass_on((ep, srx_id), &info, fi_addr, payload) {
        cx.common.has_matched = true;
        return Ok(Taken::Yes);
    }
    // FI_SOURCE_ERR requires a check of each message.
    let unfilled = match cx.domain.reports_origin(ep, fi_addr) {
        true => Unfilled::Special,
        false => {
            let srx = &mut cx.domain.srxs[srx_id];
            match srx.fill(&info, source, payload) {
                Ok(filled) => {
                    cx.common.has_matched = true;
                    cx.domain
                        .filled(ep, &filled, &info, CompFlags::empty(), fi_addr);
                    return Ok(Taken::Yes);
                }
                Err(unfilled) => unfilled,
            }
        }
    };
    let envelope = info.envelope(source, ep, link.id() as u64);
    let srx = &mut cx.domain.srxs[srx_id];
    let recv = match unfilled {
        Unfilled::Special => srx.accept(&envelope),
        Unfilled::Unexpected => None,
    };
    if let Some(mut recv) = recv {
        recv.iov.copy_in(payload);
        cx.domain.received(ep, &recv, &envelope, &link.sender());
        cx.common.has_matched = true;
        return Ok(Taken::Yes);
    }
    if !cx.common.may_keep(srx, &envelope, envelope.len) {
        return Ok(Taken::Later);
    }
    let slot = srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(payload));
    link.record_origin(cx.domain, srx_id, slot);
    Ok(Taken::Yes)
}

fn check_tags(domain: &StateOf, ep: usize, message: &Message) -> core::result::Result<(), Fault> {
    match message.tagged && !domain.eps[ep].caps.contains(Caps::TAGGED) {
        true => Err(Fault("a tagged message for an endpoint without tags")),
        false => Ok(()),
    }
}
