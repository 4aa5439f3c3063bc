// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What peers hold, and their calls: receives that they fill, messages that wait for a receive, and operations.

use core::ops::Range;
use std::collections::VecDeque;
use std::ffi::CString;

use slab::Slab;

use super::address::Addr;
use super::book::Book;
use super::note;
use super::rails::{ep_and_rail, number_of};
use super::stripes::{Over, Peer, Stripes};
use super::unsorted::{Coming, Unsorted};
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
    /// Messages so far that have filled a receive by themselves.
    filled: u64,
    /// By the numbers of entries.
    stages: Vec<Stage>,
    /// Senders of queued messages that are in no vector.
    pub(super) strangers: Vec<Stranger>,
    pub stripes: Stripes,
    /// Memory of notes that are sent.
    pub notes: Pool,
    /// The contexts at which messages arrive that may be notes; others of theirs wait.
    pub(super) unsorted: Vec<usize>,
    /// Messages of collectives that arrive, in order.
    pub(super) coming: VecDeque<Coming>,
    /// Number of calls of peers, to see whether a poll has brought anything.
    pub calls: u64,
}

/// A receive and its message.
struct Receive {
    /// Counts the messages that fill a receive by themselves.
    number: u64,
    recv: RecvOp,
    envelope: Envelope,
}

/// The state of an entry.
#[derive(Default)]
pub(super) enum Stage {
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

pub(super) struct Stranger {
    /// The endpoint and the rail at which its messages have arrived.
    pub number: usize,
    /// The source of its messages in matching.
    pub source: u64,
    pub who: Who,
}

/// A sender, as far as it is known.
pub(super) enum Who {
    /// The sender of the message of this entry, and its address in the rail's vector, if it has got there.
    Of(EntryId, Option<fi_addr_t>),
    /// Its address in the rail's vector.
    At(fi_addr_t),
    /// It was removed from the endpoint's vector.
    Removed(Addr),
}

/// The contexts of receives have this bit, which those of operations never have.
const RECEIVE: usize = 1 << 63;
/// The contexts of messages that may be notes have this one, too, and the number of the entry.
const NOTE: usize = 1 << 62;

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
            filled: 0,
            stages: Vec::new(),
            strangers: Vec::new(),
            stripes,
            notes,
            unsorted: Vec::new(),
            coming: VecDeque::new(),
            calls: 0,
        }
    }

    pub(super) fn stage(&mut self, entry: EntryId) -> &mut Stage {
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
        self.filled += 1;
        let number = self.receives.insert(Receive {
            number: self.filled,
            recv,
            envelope,
        });
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

    /// Takes a receive whose message has ended.
    #[inline]
    fn end_receive(&mut self, number: usize) -> Option<Receive> {
        if self.stripes.is_reading() {
            self.stripes.look();
        }
        self.receives.try_remove(number)
    }

    /// Begins to read a large message of a peer into its receive.
    pub fn begin_reading(&mut self, number: usize, recv: RecvOp) {
        self.stripes.begin(number, recv, self.filled);
    }

    /// Ends a large message that was read, after those of its sender that came before.
    pub fn end_reading(&mut self, peer: &Peer) -> Option<Over> {
        let receives = &self.receives;
        self.stripes.end(peer, |envelope, after| {
            let is_before = |receive: &Receive| {
                let theirs = &receive.envelope;
                receive.number <= after
                    && (theirs.ep, theirs.source) == (envelope.ep, envelope.source)
            };
            !receives.iter().any(|(_, receive)| is_before(receive))
        })
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
                    let Receive { recv, envelope, .. } = self.held.receives.remove(number);
                    self.held.stripes.look();
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
    pub(super) fn source(&mut self, ep: usize, rail: usize, from: fi_addr_t) -> Option<u64> {
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
        let Some(Receive {
            recv, mut envelope, ..
        }) = self.held.end_receive(number)
        else {
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
        let Some(Receive {
            recv, mut envelope, ..
        }) = self.held.end_receive(number)
        else {
            return;
        };
        if error.error == Error::TRUNC {
            // Providers differ in the lengths that they report; the message has come with its own before.
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
