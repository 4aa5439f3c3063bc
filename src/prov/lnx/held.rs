// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What peers hold, and their calls: receives that they fill, messages that wait for a receive, and operations.

use core::ops::Range;
use std::collections::VecDeque;
use std::ffi::CString;

use slab::Slab;

use super::address::Addr;
use super::book::{Book, Way};
use super::note::{self, Kind, Note};
use super::rails::{ep_and_rail, number_of};
use super::stripes::{Lane, OFFERED, Peer, Stripes};
use abi::{
    FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC, FI_REMOTE_CQ_DATA, FI_REMOTE_WRITE, FI_RMA, fi_addr_t,
};
use base::log::{Subsys, log_warn};
use base::{CompFlags, Error, IoVec, OpFlags};
use client::layer::{Loan, Operations, Pool};
use client::owner::{Answer, Arriving, Entries, EntryId, Owner};
use client::{Completion, CqError};
use engine::domain_state::{DomainState, Sender, TxOp};
use engine::srx::{Bytes, Envelope, MessageInfo, RecvOp};
use engine::strangers::{fi_addr_of, new_source};
use object::ops::transfer::What;
use object::peer::{Loss, Whole};

use super::SOURCE;

pub type State = DomainState<Addr>;

pub struct Held {
    pub entries: Entries,
    pub ops: Operations<Flight>,
    pub book: Book,
    /// The ways of each endpoint to its peers, by the index of the destination.
    pub routes: Vec<Vec<Option<Route>>>,
    /// The sender of the last message, if its way is known in both directions.
    last: Option<Last>,
    /// Receives that peers fill.
    receives: Slab<Receive>,
    /// By the numbers of entries.
    stages: Vec<Stage>,
    /// Senders of queued messages that are in no vector.
    strangers: Vec<Stranger>,
    pub stripes: Stripes,
    /// Memory of notes that are sent.
    pub notes: Pool,
    /// The contexts at which messages arrive that may be notes; others of theirs wait.
    unsorted: Vec<usize>,
    /// Messages of collectives that arrive, in order.
    coming: VecDeque<Coming>,
    /// Number of calls of peers, to see whether a poll has brought anything.
    pub calls: u64,
}

/// A receive and its message.
struct Receive {
    recv: RecvOp,
    envelope: Envelope,
}

/// What is the matter with an entry.
#[derive(Default)]
enum Stage {
    #[default]
    Free,
    /// The peer is going to queue the message.
    Arrived(Envelope),
    /// The message is in a receive context.
    Queued { number: usize },
    /// The message fills this receive.
    Taken(usize),
    /// The message, which may be a note, fills memory of the entry.
    Note(Arriving),
    /// The message of a collective fills memory of the entry: `Held::coming`.
    OfGroup,
}

/// An operation below.
pub enum Flight {
    /// An operation of the application, to this destination.
    Of { op: TxOp, dest: u64 },
    /// A note; the number of the message that fails with it.
    Note(Option<u64>),
    /// A slice of an incoming message: `Stripes`.
    Slice {
        number: usize,
        lane: usize,
        range: Range<usize>,
    },
}

/// A sender: the endpoint and the rail at which its message has arrived, its address there, the number of removals from
/// vectors until then, and its index in the endpoint's vector.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Last {
    ep: usize,
    rail: usize,
    from: fi_addr_t,
    removals: u64,
    index: u64,
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub rail: usize,
    /// The peer in the rail's vector.
    pub place: fi_addr_t,
    /// Something has passed, in either direction.
    pub is_up: bool,
    /// Something has come from the peer, so it knows this endpoint.
    pub is_heard: bool,
}

struct Stranger {
    /// The endpoint and the rail at which its messages have arrived.
    number: usize,
    /// The source of its messages in matching.
    source: u64,
    who: Who,
}

/// What is known of a sender.
enum Who {
    /// The sender of the message of this entry, and its address in the rail's vector, if it has got there.
    Of(EntryId, Option<fi_addr_t>),
    /// Its address in the rail's vector.
    At(fi_addr_t),
    /// It was removed from the endpoint's vector.
    Removed(Addr),
}

/// A message that may be a note.
struct Unsorted {
    peer: Peer,
    what: What,
    tag: u64,
    data: Option<u64>,
}

/// A message of a collective that arrives.
struct Coming {
    entry: EntryId,
    message: Unsorted,
    /// Its bytes, if they have arrived before those of an earlier message.
    bytes: Option<Vec<u8>>,
}

impl Unsorted {
    fn of(message: &Arriving, data: Option<u64>) -> Unsorted {
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

/// The contexts of receives have this bit, which those of operations never have.
const RECEIVE: usize = 1 << 63;
/// Those of messages that may be notes, with the number of the entry.
const NOTE: usize = 1 << 62;

/// The tag of messages of collectives: docs/wire/collectives.md.
pub const GROUP_TAG: u64 = 0x4649_636f_6c6c_ec75;
/// Most bytes of such a message.
pub const MOST_OF_GROUP: usize = 4096;
/// Bytes of such messages that wait, at most.
const GROUP_LIMIT: usize = 1 << 20;

/// The state of the owner, for the calls of its peers.
pub struct Cx<'a> {
    pub held: &'a mut Held,
    pub domain: &'a mut State,
}

impl Held {
    pub fn new(ops: Operations<Flight>, rails: usize, stripes: Stripes, notes: Pool) -> Held {
        Held {
            entries: Entries::default(),
            ops,
            book: Book::new(rails),
            routes: Vec::new(),
            last: None,
            receives: Slab::new(),
            stages: Vec::new(),
            strangers: Vec::new(),
            stripes,
            notes,
            unsorted: Vec::new(),
            coming: VecDeque::new(),
            calls: 0,
        }
    }

    fn stage(&mut self, entry: EntryId) -> &mut Stage {
        let EntryId(at) = entry;
        if self.stages.len() <= at {
            self.stages.resize_with(at + 1, Stage::default);
        }
        &mut self.stages[at]
    }

    /// The number of the context at which the message of this entry waits.
    pub fn queued_at(&mut self, entry: EntryId) -> Option<usize> {
        match self.stage(entry) {
            Stage::Queued { number } => Some(*number),
            _ => None,
        }
    }

    /// Fills an entry with a receive.
    pub fn take(&mut self, entry: EntryId, mut recv: RecvOp, envelope: Envelope) {
        let iov = recv.iov.take();
        let number = self.receives.insert(Receive { recv, envelope });
        self.entries
            .fill(entry, iov, OpFlags::COMPLETION, RECEIVE | number);
        *self.stage(entry) = Stage::Taken(number);
        self.forget_sender(entry);
    }

    /// Takes the receive back that `take` has stored.
    pub fn take_back(&mut self, entry: EntryId) -> Option<RecvOp> {
        let Stage::Taken(number) = core::mem::take(self.stage(entry)) else {
            return None;
        };
        let mut receive = self.receives.try_remove(number)?;
        receive.recv.iov = self.entries.take_back(entry);
        Some(receive.recv)
    }

    /// Forgets a message that was discarded.
    pub fn forget(&mut self, entry: EntryId) {
        *self.stage(entry) = Stage::Free;
        self.forget_sender(entry);
    }

    fn forget_sender(&mut self, entry: EntryId) {
        if !self.strangers.is_empty() {
            let is_its = |who: &Who| matches!(who, Who::Of(of, _) if *of == entry);
            self.strangers.retain(|stranger| !is_its(&stranger.who));
        }
    }

    /// The way of an endpoint to a destination.
    #[inline]
    pub fn route(&mut self, ep: usize, dest: u64) -> Option<&mut Route> {
        self.routes
            .get_mut(ep)?
            .get_mut(usize::try_from(dest).ok()?)?
            .as_mut()
    }

    /// Forgets the ways of an endpoint that is closed.
    pub fn clear_routes(&mut self, ep: usize) {
        self.last = None;
        if let Some(routes) = self.routes.get_mut(ep) {
            routes.clear();
        }
    }

    pub fn set_route(&mut self, ep: usize, dest: usize, route: Option<Route>) {
        self.last = None;
        if self.routes.len() <= ep {
            self.routes.resize_with(ep + 1, Vec::new);
        }
        let routes = &mut self.routes[ep];
        if routes.len() <= dest {
            routes.resize(dest + 1, None);
        }
        routes[dest] = route;
    }

    /// Drops the receives that the peers of a closed endpoint, or of a context of it, did not complete.
    pub fn drop_receives(&mut self, domain: &State, ep: usize) {
        let of = |at: usize| domain.eps.get(at).map_or(at, |state| state.port(at));
        self.receives
            .retain(|_, receive| of(receive.envelope.ep) != ep);
        self.coming.retain(|one| one.message.peer.ep != ep);
    }

    /// The index of an endpoint's sender in the endpoint's vector, if it is there.
    #[inline]
    fn index_of(&mut self, domain: &State, ep: usize, rail: usize, place: u64) -> Option<u64> {
        let av = domain.eps[ep].av?;
        let known = self.book.sender(rail, place)?;
        if let Some((at, removals, index)) = known.found
            && at == av
            && removals == domain.removals
        {
            return Some(index);
        }
        let index = domain.avs[av].find(&known.addr)?;
        known.found = Some((av, domain.removals, index));
        Some(index)
    }

    /// Gives the messages of senders that have got into this vector their sources.
    pub fn name_strangers(&mut self, domain: &mut State, av: usize) {
        let mut strangers = core::mem::take(&mut self.strangers);
        strangers.retain(|stranger| {
            let (ep, rail) = ep_and_rail(stranger.number);
            if domain.eps.get(ep).is_none_or(|state| state.av != Some(av)) {
                return domain.eps.contains(ep);
            }
            let index = match &stranger.who {
                Who::Of(_, place) => place.and_then(|at| self.index_of(domain, ep, rail, at)),
                &Who::At(place) => self.index_of(domain, ep, rail, place),
                Who::Removed(addr) => domain.avs[av].find(addr),
            };
            if let Some(index) = index {
                domain.rename_source(ep, stranger.source, index);
            }
            index.is_none()
        });
        self.strangers = strangers;
    }

    /// The address at `index` has left the vector of this endpoint: its messages have no source until it is inserted
    /// again.
    pub fn unname(&mut self, domain: &mut State, ep: usize, index: u64, addr: &Addr) {
        let count = domain.unexpected_len(ep);
        self.strangers.retain(|stranger| {
            let is_here = ep_and_rail(stranger.number).0 == ep;
            count > 0 || !is_here || matches!(stranger.who, Who::Of(..))
        });
        if count == 0 {
            return;
        }
        let source = new_source();
        domain.forget_source(ep, index, source, addr);
        self.strangers.push(Stranger {
            number: number_of(ep, 0),
            source,
            who: Who::Removed(addr.clone()),
        });
    }

    /// Forgets the places on the rails of an address that is in no vector any more.
    pub fn forget_places(&mut self, places: &[Vec<fi_addr_t>], addr: &Addr) {
        for stranger in &mut self.strangers {
            let (_, rail) = ep_and_rail(stranger.number);
            if let Who::Of(_, Some(place)) | Who::At(place) = stranger.who
                && places
                    .get(rail)
                    .is_some_and(|places| places.contains(&place))
            {
                stranger.who = Who::Removed(addr.clone());
            }
        }
    }
}

impl Owner for Cx<'_> {
    #[inline]
    fn entries(&mut self) -> &mut Entries {
        &mut self.held.entries
    }

    fn arrived(&mut self, message: &Arriving, entry: EntryId) -> Answer {
        self.held.calls += 1;
        let (ep, rail) = ep_and_rail(message.srx);
        let Some(state) = self.domain.eps.get(ep) else {
            return Answer::Refused(Error::NOENT);
        };
        let srx = state.srx;
        if !self.domain.may_receive(ep) {
            return Answer::Refused(Error::AGAIN);
        }
        if self.held.unsorted.contains(&message.srx) {
            return Answer::Refused(Error::AGAIN);
        }
        let is_known = message.from != FI_ADDR_UNSPEC;
        let is_of_group = self.is_of_group(ep, message.what, message.tag, message.len);
        if is_of_group && self.is_group_full(ep) {
            return Answer::Refused(Error::AGAIN);
        }
        if is_known && (is_of_group || message.len == note::LEN) {
            let context = RECEIVE | NOTE | entry.0;
            let flags = OpFlags::COMPLETION;
            self.held
                .entries
                .fill_own(entry, message.len, flags, context);
            let stage = match is_of_group {
                true => {
                    let message = Unsorted::of(message, None);
                    self.held.coming.push_back(Coming {
                        entry,
                        message,
                        bytes: None,
                    });
                    Stage::OfGroup
                }
                false => {
                    self.held.unsorted.push(message.srx);
                    Stage::Note(*message)
                }
            };
            *self.held.stage(entry) = stage;
            return Answer::Matched;
        }
        let known = self.source(ep, rail, message.from);
        let (ep, srx) = match is_of_group {
            true => self.group_context(ep),
            false => (ep, srx),
        };
        let envelope = Envelope {
            what: message.what,
            source: known.unwrap_or_else(new_source),
            token: rail as u64,
            ep,
            tag: message.tag,
            len: message.len as u64,
            data: None,
            note: entry.0 as u64,
        };
        match self.domain.srxs[srx].accept(&envelope) {
            Some(recv) => {
                self.held.take(entry, recv, envelope);
                Answer::Matched
            }
            None => {
                *self.held.stage(entry) = Stage::Arrived(envelope);
                if known.is_none() {
                    let place = (message.from != FI_ADDR_UNSPEC).then_some(message.from);
                    self.held.strangers.push(Stranger {
                        number: message.srx,
                        source: envelope.source,
                        who: Who::Of(entry, place),
                    });
                }
                Answer::Unexpected
            }
        }
    }

    fn took(&mut self, srx: usize, message: &Whole, fill: &mut dyn FnMut(&IoVec)) -> bool {
        let (ep, rail) = ep_and_rail(srx);
        if !self.domain.eps.contains(ep) || !self.domain.may_receive(ep) {
            return false;
        }
        if self.held.unsorted.contains(&srx) {
            return false;
        }
        let len = message.len as usize;
        if len == note::LEN && message.from != FI_ADDR_UNSPEC {
            return self.took_note(ep, rail, message, fill);
        }
        if self.is_of_group(ep, message.what, message.tag, len) {
            let peer = Peer {
                ep,
                rail,
                place: message.from,
            };
            return message.from != FI_ADDR_UNSPEC
                && !self.is_group_full(ep)
                && self.held.coming.iter().all(|one| one.message.peer != peer)
                && self.took_note(ep, rail, message, fill);
        }
        let source = self
            .source(ep, rail, message.from)
            .unwrap_or(FI_ADDR_NOTAVAIL);
        let info = MessageInfo {
            what: message.what,
            len: message.len,
            tag: message.tag,
            data: message.data,
        };
        let context = self.domain.eps[ep].srx;
        let Ok(filled) = self.domain.srxs[context].fill(&info, source, fill) else {
            return false;
        };
        self.held.calls += 1;
        let release = CompFlags::empty();
        self.domain
            .filled_whole(ep, &filled, &info, release, source);
        true
    }

    #[cold]
    fn lost(&mut self, srx: usize, from: fi_addr_t, loss: Loss) {
        let (ep, rail) = ep_and_rail(srx);
        let peer = Peer {
            ep,
            rail,
            place: from,
        };
        self.held.stripes.fail(&peer, loss.error);
        if self.domain.eps.contains(ep)
            && let Some(index) = self.held.index_of(self.domain, ep, rail, from)
        {
            match loss.is_silent {
                true => self.domain.fail_receives_from(ep, index, loss.error),
                false => self.domain.connection_ended(ep, index, loss.error),
            }
        }
    }

    fn awaits(&mut self, srx: usize, from: fi_addr_t) -> bool {
        let (ep, rail) = ep_and_rail(srx);
        if !self.domain.eps.contains(ep) {
            return false;
        }
        let index = self.held.index_of(self.domain, ep, rail, from);
        index.is_some_and(|index| self.domain.awaits(ep, index))
    }

    fn queued(&mut self, entry: EntryId, data: Option<u64>) {
        let stage = self.held.stage(entry);
        let Stage::Arrived(envelope) = *stage else {
            return;
        };
        let port = self.domain.eps[envelope.ep].port(envelope.ep);
        let number = number_of(port, envelope.token as usize);
        *stage = Stage::Queued { number };
        let srx = self.domain.eps[envelope.ep].srx;
        self.domain.srxs[srx].keep(Envelope { data, ..envelope }, Bytes::There);
    }

    fn freed(&mut self, entry: EntryId) {
        match core::mem::take(self.held.stage(entry)) {
            Stage::Free => {}
            // The peer has lost it.
            Stage::Note(message) => self.held.unsorted.retain(|&srx| srx != message.srx),
            Stage::OfGroup => self.held.coming.retain(|one| one.entry != entry),
            Stage::Arrived(_) => self.held.forget(entry),
            Stage::Queued { number } => {
                self.held.forget(entry);
                let (ep, _) = ep_and_rail(number);
                if self.domain.eps.contains(ep) {
                    self.domain
                        .each_srx(ep, |srx| srx.forget_message(entry.0 as u64));
                }
            }
            Stage::Taken(number) => {
                // The completion came before, unless the peer has lost the message.
                let lost = |receive: &Receive| receive.envelope.note == entry.0 as u64;
                if self.held.receives.get(number).is_some_and(lost) {
                    let Receive { recv, envelope } = self.held.receives.remove(number);
                    self.domain
                        .receive_failed(envelope.ep, &recv, envelope.what, Error::IO);
                }
            }
        }
    }

    fn completed(&mut self, queue: usize, done: Completion) {
        self.held.calls += 1;
        let context = done.context.number();
        if context & RECEIVE != 0 {
            return match context & NOTE {
                0 => self.received(context & !RECEIVE, &done),
                _ => self.received_note(EntryId(context & !(RECEIVE | NOTE)), &done),
            };
        }
        let (flags, len, src, data) = (done.flags, done.size(), done.src, done.data);
        match self.held.ops.end(done.context) {
            Some((Flight::Of { op, dest }, _)) => {
                let (ep, _) = ep_and_rail(queue);
                if let Some(route) = self.held.route(ep, dest) {
                    route.is_up = true;
                }
                return self.domain.complete_tx(&op);
            }
            Some((flight, loan)) => return self.internal_over(flight, loan, Ok(())),
            None => {}
        }
        // A peer's write with data has no operation here.
        if flags & FI_REMOTE_WRITE != 0 {
            let (ep, rail) = ep_and_rail(queue);
            let sender = self.sender(ep, rail, src);
            let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(data);
            let kind = match flags & FI_RMA {
                0 => CompFlags::ATOMIC,
                _ => CompFlags::RMA,
            };
            let sender = Sender {
                fi_addr: sender,
                addr: None,
            };
            self.domain.written(ep, kind, len as u64, data, &sender);
        }
    }

    #[cold]
    fn failed(&mut self, _queue: usize, error: CqError) {
        self.held.calls += 1;
        let context = error.context.number();
        if context & NOTE != 0 && context & RECEIVE != 0 {
            // A message that has not arrived as a whole.
            return;
        }
        if context & RECEIVE != 0 {
            return self.receive_failed(context & !RECEIVE, &error);
        }
        match self.held.ops.end(error.context) {
            Some((Flight::Of { op, .. }, _)) => match error.words.map(CString::new) {
                Some(Ok(why)) => {
                    let number = error.prov_errno;
                    self.domain
                        .fail_tx_because(&op, error.error, number, why.into());
                }
                _ => self.domain.fail_tx(&op, error.error),
            },
            Some((flight, loan)) => self.internal_over(flight, loan, Err(error.error)),
            None => log_warn!(
                &SOURCE,
                Subsys::Cq,
                "an error of a provider below that belongs to no operation: {}",
                error.error
            ),
        }
    }

    fn senders_changed(
        &mut self,
        srx: usize,
        sender: &mut dyn FnMut(&mut Entries, EntryId) -> fi_addr_t,
    ) {
        let Held {
            strangers, entries, ..
        } = &mut *self.held;
        for stranger in strangers
            .iter_mut()
            .filter(|stranger| stranger.number == srx)
        {
            let Who::Of(entry, known) = &mut stranger.who else {
                continue;
            };
            let place = sender(entries, *entry);
            if place != FI_ADDR_UNSPEC {
                *known = Some(place);
            }
        }
    }
}

impl Cx<'_> {
    /// The sender of a message that has arrived. The answer takes the same way.
    #[inline]
    fn source(&mut self, ep: usize, rail: usize, from: fi_addr_t) -> Option<u64> {
        let removals = self.domain.removals;
        if let Some(last) = &self.held.last
            && (last.from, last.ep, last.rail, last.removals) == (from, ep, rail, removals)
        {
            return Some(last.index);
        }
        if from == FI_ADDR_UNSPEC {
            return None;
        }
        let index = self.held.index_of(self.domain, ep, rail, from)?;
        match self.held.route(ep, index) {
            Some(route) if route.is_heard => {
                self.held.last = Some(Last {
                    ep,
                    rail,
                    from,
                    removals,
                    index,
                });
            }
            Some(route) if route.is_up => route.is_heard = true,
            _ => {
                let route = Route {
                    rail,
                    place: from,
                    is_up: true,
                    is_heard: true,
                };
                self.held.set_route(ep, index as usize, Some(route));
            }
        }
        Some(index)
    }

    /// Delivers a message that may be a note, as `Owner::took`.
    #[cold]
    fn took_note(
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
    fn received_note(&mut self, entry: EntryId, done: &Completion) {
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
    fn is_of_group(&self, ep: usize, what: What, tag: u64, len: usize) -> bool {
        tag == GROUP_TAG
            && what == What::Tagged
            && len <= MOST_OF_GROUP
            && !self.domain.eps[ep].contexts.is_empty()
    }

    /// Whether messages of collectives wait, because those that have arrived were not handled.
    #[cold]
    fn is_group_full(&self, ep: usize) -> bool {
        let (_, srx) = self.group_context(ep);
        self.domain.srxs[srx].saved() > GROUP_LIMIT
    }

    /// The context of an endpoint's collectives, and its receives.
    fn group_context(&self, ep: usize) -> (usize, usize) {
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
            Some(recv) => self.held.stripes.begin(number, recv),
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

    /// An operation that is not the application's has ended.
    #[cold]
    fn internal_over(&mut self, flight: Flight, loan: Loan, result: Result<(), Error>) {
        let stripes = &mut self.held.stripes;
        match flight {
            Flight::Of { .. } => {}
            Flight::Note(about) => {
                if let Loan::Slot(slot, _) = loan {
                    self.held.notes.put(slot);
                }
                if let (Some(message), Err(error)) = (about, result) {
                    stripes.complete(message, Err(error));
                }
            }
            Flight::Slice {
                number,
                lane,
                range,
            } => {
                drop(loan);
                stripes.slice_over(number, lane, range, result);
                stripes.go_on(number);
            }
        }
    }

    fn sender(&mut self, ep: usize, rail: usize, place: fi_addr_t) -> u64 {
        let index = match place {
            FI_ADDR_NOTAVAIL => None,
            place => self.held.index_of(self.domain, ep, rail, place),
        };
        index.unwrap_or(FI_ADDR_NOTAVAIL)
    }

    #[inline]
    fn received(&mut self, number: usize, done: &Completion) {
        let Some(Receive { recv, mut envelope }) = self.held.receives.try_remove(number) else {
            return;
        };
        envelope.len = done.size() as u64;
        envelope.data = (done.flags & FI_REMOTE_CQ_DATA != 0).then_some(done.data);
        let sender = Sender {
            fi_addr: fi_addr_of(envelope.source),
            addr: None,
        };
        self.domain.received(envelope.ep, &recv, &envelope, &sender);
    }

    #[cold]
    fn receive_failed(&mut self, number: usize, error: &CqError) {
        let Some(Receive { recv, mut envelope }) = self.held.receives.try_remove(number) else {
            return;
        };
        if error.error == Error::TRUNC {
            // Providers differ in the lengths that they report; the length of the message was told before.
            envelope.data = (error.flags & FI_REMOTE_CQ_DATA != 0).then_some(error.data);
            let sender = Sender {
                fi_addr: fi_addr_of(envelope.source),
                addr: None,
            };
            return self.domain.received(envelope.ep, &recv, &envelope, &sender);
        }
        self.domain
            .receive_failed(envelope.ep, &recv, envelope.what, error.error);
    }
}
