// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that are not the application's, or may not be: notes, which have a length of their own, and messages of
//! collectives, which have a tag of their own.

use super::SOURCE;
use super::book::Way;
use super::held::{Cx, Stage, Stranger, Who};
use super::note::{self, Kind, Note};
use super::rails::{ep_and_rail, number_of};
use super::stripes::{Lane, OFFERED, Peer};
use abi::FI_REMOTE_CQ_DATA;
use base::log::{Subsys, log_warn};
use base::{Error, IoVec};
use client::Completion;
use client::owner::{Arriving, EntryId};
use engine::domain_state::Sender;
use engine::srx::{Bytes, Envelope};
use engine::strangers::{fi_addr_of, new_source};
use object::ops::transfer::What;
use object::peer::Whole;

/// A message that may be a note.
pub struct Unsorted {
    pub peer: Peer,
    what: What,
    tag: u64,
    data: Option<u64>,
}

/// A message of a collective that arrives.
pub struct Coming {
    pub entry: EntryId,
    pub message: Unsorted,
    /// Its bytes, if they have arrived before those of an earlier message.
    pub bytes: Option<Vec<u8>>,
}

impl Unsorted {
    pub fn of(message: &Arriving, data: Option<u64>) -> Unsorted {
        let (ep, rail) = ep_and_rail(message.srx);
        Unsorted {
            peer: Peer {
                ep,
                rail,
                place: message.from,
            },
            what: message.what,
            tag: message.tag,
            data,
        }
    }
}

/// The tag of messages of collectives: docs/wire/collectives.md.
pub const GROUP_TAG: u64 = 0x4649_636f_6c6c_ec75;
/// Most bytes of such a message.
pub const MOST_OF_GROUP: usize = 4096;
/// Bytes of such messages that wait, at most.
const GROUP_LIMIT: usize = 1 << 20;

impl Cx<'_> {
    /// Delivers a message that may be a note, as `Owner::took`.
    #[cold]
    pub(super) fn took_note(
        &mut self,
        ep: usize,
        rail: usize,
        message: &Whole,
        fill: &mut dyn FnMut(&IoVec),
    ) -> bool {
        let mut bytes = vec![0; message.len as usize];
        IoVec::with_bytes(&mut bytes, fill);
        let what = Unsorted {
            peer: Peer {
                ep,
                rail,
                place: message.from,
            },
            what: message.what,
            tag: message.tag,
            data: message.data,
        };
        self.sort(&what, &bytes);
        self.held.calls += 1;
        true
    }

    /// As `took_note`, for a message that has arrived in pieces.
    #[cold]
    pub(super) fn received_note(&mut self, entry: EntryId, done: &Completion) {
        let message = match core::mem::take(self.held.stage(entry)) {
            Stage::Note(message) => message,
            Stage::OfGroup => return self.received_of_group(entry),
            _ => return,
        };
        let bytes = self.held.entries.take_own(entry);
        self.held.unsorted.retain(|&srx| srx != message.srx);
        let data = (done.flags & FI_REMOTE_CQ_DATA != 0).then_some(done.data);
        let what = Unsorted::of(&message, data);
        if self.domain.eps.contains(what.peer.ep) {
            self.sort(&what, &bytes);
        }
    }

    /// The bytes of a message of a collective have arrived. It is delivered after the earlier ones of its sender.
    #[cold]
    fn received_of_group(&mut self, entry: EntryId) {
        let bytes = self.held.entries.take_own(entry);
        let coming = &mut self.held.coming;
        let Some(one) = coming.iter_mut().find(|one| one.entry == entry) else {
            return;
        };
        one.bytes = Some(bytes);
        let peer = one.message.peer;
        while let Some(at) = self
            .held
            .coming
            .iter()
            .position(|one| one.message.peer == peer)
            && self.held.coming[at].bytes.is_some()
            && let Some(one) = self.held.coming.remove(at)
        {
            if self.domain.eps.contains(peer.ep) {
                self.sort(&one.message, &one.bytes.unwrap_or_default());
            }
        }
    }

    /// Whether a message belongs to a collective of the endpoint.
    #[inline]
    pub(super) fn is_of_group(&self, ep: usize, what: What, tag: u64, len: usize) -> bool {
        tag == GROUP_TAG
            && what == What::Tagged
            && len <= MOST_OF_GROUP
            && !self.domain.eps[ep].contexts.is_empty()
    }

    /// Whether messages of collectives wait, because those that have arrived were not handled.
    #[cold]
    pub(super) fn is_group_full(&self, ep: usize) -> bool {
        let (_, srx) = self.group_context(ep);
        self.domain.srxs[srx].saved() > GROUP_LIMIT
    }

    /// The context of an endpoint's collectives, and its receives.
    pub(super) fn group_context(&self, ep: usize) -> (usize, usize) {
        let via = self.domain.eps[ep].contexts[0];
        (via, self.domain.eps[via].srx)
    }

    /// Handles a message of the length of notes, or of a collective.
    fn sort(&mut self, message: &Unsorted, bytes: &[u8]) {
        let peer = message.peer;
        if self.is_of_group(peer.ep, message.what, message.tag, bytes.len()) {
            return self.deliver(message, bytes);
        }
        let note = match Note::read(bytes) {
            None => return self.deliver(message, bytes),
            Some(note) => note,
        };
        if note.to != self.held.stripes.own {
            log_warn!(
                &SOURCE,
                Subsys::EpData,
                "a note for an endpoint that had this address before, or data that looks like one"
            );
            if !matches!(note.kind, Kind::Over(_)) {
                self.held.stripes.refuse(peer, &note);
            }
            return;
        }
        match &note.kind {
            Kind::Offer { len, via, lanes } => {
                let lanes = self.lanes_of(&peer, *via, lanes);
                self.offered(message, *len, &note, lanes);
            }
            Kind::Over(result) => {
                let stripes = &mut self.held.stripes;
                if stripes.complete_of(note.message, &peer, *result)
                    && *result == Err(Error::CONNRESET)
                    && let Some(known) = self.held.book.sender(peer.rail, peer.place)
                {
                    known.is_stale = true;
                }
            }
            Kind::Ask => self.held.stripes.asked(peer, &note),
        }
    }

    /// The rails over which this endpoint reads a message.
    fn lanes_of(&mut self, peer: &Peer, via: usize, offered: &[note::Lane]) -> Vec<Lane> {
        let mut lanes = vec![Lane::new(peer.rail, peer.place, offered[via])];
        let known = self.held.book.at(peer.rail, peer.place);
        let ways = known.map_or(&[][..], |known| &known.ways);
        for (at, memory) in offered.iter().enumerate() {
            let leads = |way: &&Way| {
                way.part == usize::from(memory.part)
                    && lanes.iter().all(|lane| lane.rail != way.rail)
            };
            let ways = ways.iter().filter(leads);
            if at != via
                && let Some(way) = ways.max_by_key(|way| way.is_near)
            {
                lanes.push(Lane::new(way.rail, way.place, *memory));
            }
        }
        lanes
    }

    /// Matches an offer as the message that it stands for.
    fn offered(&mut self, message: &Unsorted, len: u64, note: &Note, lanes: Vec<Lane>) {
        let (envelope, is_known) = self.envelope(message, len);
        let stripes = &mut self.held.stripes;
        let number = stripes.offered(message.peer, note, lanes, envelope);
        let envelope = Envelope {
            note: OFFERED | number as u64,
            ..envelope
        };
        let srx = self.domain.eps[message.peer.ep].srx;
        match self.domain.srxs[srx].accept(&envelope) {
            Some(recv) => self.held.begin_reading(number, recv),
            None => {
                self.keep_stranger(message, &envelope, is_known);
                self.domain.srxs[srx].keep(envelope, Bytes::There);
            }
        }
    }

    /// Delivers a message of the application whose bytes are here.
    fn deliver(&mut self, message: &Unsorted, bytes: &[u8]) {
        let (envelope, is_known) = self.envelope(message, bytes.len() as u64);
        let port = message.peer.ep;
        let (ep, srx) = match self.is_of_group(port, message.what, message.tag, bytes.len()) {
            true => self.group_context(port),
            false => (port, self.domain.eps[port].srx),
        };
        let envelope = Envelope { ep, ..envelope };
        match self.domain.srxs[srx].accept(&envelope) {
            Some(recv) => {
                let part = bytes.len().min(recv.len);
                recv.iov.fill(&bytes[..part]);
                let sender = Sender {
                    fi_addr: fi_addr_of(envelope.source),
                    addr: None,
                };
                self.domain.received(ep, &recv, &envelope, &sender);
            }
            None => {
                self.keep_stranger(message, &envelope, is_known);
                let copy = |to: &mut Vec<u8>| to.extend_from_slice(bytes);
                self.domain.srxs[srx].keep_whole(envelope, copy);
            }
        }
    }

    fn envelope(&mut self, message: &Unsorted, len: u64) -> (Envelope, bool) {
        let Peer { ep, rail, place } = message.peer;
        let known = self.source(ep, rail, place);
        let envelope = Envelope {
            what: message.what,
            source: known.unwrap_or_else(new_source),
            token: rail as u64,
            ep,
            tag: message.tag,
            len,
            data: message.data,
            note: 0,
        };
        (envelope, known.is_some())
    }

    fn keep_stranger(&mut self, message: &Unsorted, envelope: &Envelope, is_known: bool) {
        let Peer { ep, rail, place } = message.peer;
        if !is_known {
            self.held.strangers.push(Stranger {
                number: number_of(ep, rail),
                source: envelope.source,
                who: Who::At(place),
            });
        }
    }
}
