// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collects, under the lock, the calls to owners of queues, which are made outside of the lock: fi_peer(3).
//!
//! An entry of the owner is returned when its receive is over, however the receive ends: the receive holds a `Lent`,
//! which records the entry when it is dropped. Entries are freed after the completions that were collected with them.

use std::sync::{Arc, Weak};

use super::{CqState, DomainState};
use crate::cntr::Counter;
use crate::cq_ring::Head;
use crate::eq::{EventQueue, OwnersEvent};
use crate::srx::{Claimed, Envelope, Outcome, Srx};
use crate::transport::Address;
use abi::*;
use base::Result;

use object::ops::cq::CqErr;
use object::ops::transfer::What;
use object::peer::{Entry, Message, PeerCntr, PeerCq, PeerEq, PeerSrx, PeerTransfer};

/// Objects of the domain that are stand-ins for those of other providers.
#[derive(Default)]
pub struct Peers {
    /// There is at least one such object.
    any: bool,
    /// There is one that is neither a completion queue nor a receive context.
    has_others: bool,
    /// Indexes in the domain's tables.
    cqs: Vec<usize>,
    srxs: Vec<usize>,
    cntrs: Vec<PeerCounter>,
    /// Event queues to which endpoints are bound.
    eqs: Vec<Weak<EventQueue>>,
    /// Messages that owners are to move.
    transfers: Vec<Transfer>,
    /// A thread is calling owners. It continues until no call is pending, which keeps the order.
    pub delivering: bool,
}

/// A message of an endpoint that the owner's endpoint is to move.
pub struct Transfer {
    pub ep: usize,
    pub owner: Arc<PeerTransfer>,
    pub message: Message,
}

/// A counter that stands in for an owner's.
struct PeerCounter {
    counter: Arc<Counter>,
    owner: Arc<PeerCntr>,
    /// The values that were passed to the owner.
    told: (u64, u64),
}

impl PeerCounter {
    /// How many operations have succeeded and failed that the owner does not know of.
    fn owes(&self) -> (u64, u64) {
        let (good, bad) = self.told;
        (self.counter.value() - good, self.counter.errors() - bad)
    }
}

impl Peers {
    pub fn add_cntr(&mut self, counter: &Arc<Counter>, owner: Arc<PeerCntr>) {
        self.cntrs.push(PeerCounter {
            counter: counter.clone(),
            owner,
            told: (0, 0),
        });
        self.look();
    }

    pub fn forget_cntr(&mut self, counter: &Arc<Counter>) {
        if !self.cntrs.is_empty() {
            self.cntrs
                .retain(|other| !Arc::ptr_eq(&other.counter, counter));
            self.look();
        }
    }

    fn look(&mut self) {
        self.has_others =
            !self.cntrs.is_empty() || !self.eqs.is_empty() || !self.transfers.is_empty();
        self.any = !self.cqs.is_empty() || !self.srxs.is_empty() || self.has_others;
    }

    #[cold]
    fn others_have_calls(&self) -> bool {
        self.cntrs.iter().any(|cntr| cntr.owes() != (0, 0))
            || !self.transfers.is_empty()
            || self.queues().any(|queue| queue.has_events())
    }

    pub fn add_eq(&mut self, queue: &Arc<EventQueue>) {
        self.eqs.retain(|queue| queue.strong_count() > 0);
        self.eqs.push(Arc::downgrade(queue));
        self.look();
    }

    fn queues(&self) -> impl Iterator<Item = Arc<EventQueue>> {
        self.eqs.iter().filter_map(Weak::upgrade)
    }

    /// Queues messages that owners are to move.
    pub fn transfer(&mut self, transfers: impl IntoIterator<Item = Transfer>) {
        self.transfers.extend(transfers);
        self.look();
    }

    /// Queues messages again, in front of others, because the owner had no room.
    pub fn put_back(&mut self, mut transfers: Vec<Transfer>) {
        transfers.append(&mut self.transfers);
        self.transfers = transfers;
        self.look();
    }

    /// Drops the messages of an endpoint that is closed.
    pub fn forget_transfers(&mut self, ep: usize) {
        self.transfers.retain(|transfer| transfer.ep != ep);
    }

    pub fn add_cq(&mut self, cq: usize) {
        self.cqs.push(cq);
        self.any = true;
    }

    pub fn add_srx(&mut self, srx: usize) {
        self.srxs.push(srx);
        self.any = true;
    }

    pub fn forget_cq(&mut self, cq: usize) {
        self.cqs.retain(|&other| other != cq);
        self.look();
    }

    pub fn forget_srx(&mut self, srx: usize) {
        self.srxs.retain(|&other| other != srx);
        self.look();
    }

    pub fn srxs(&self) -> &[usize] {
        &self.srxs
    }
}

/// Calls to owners, in the order in which they are made.
#[derive(Default)]
pub struct Calls {
    /// With the number of the queue.
    pub completions: Vec<(usize, Arc<PeerCq>, Completion)>,
    /// Operations that have succeeded and failed.
    pub counts: Vec<(Arc<PeerCntr>, (u64, u64))>,
    /// Entries of receives that are over. Their completions came before.
    pub over: Vec<(Arc<PeerSrx>, Entry)>,
    pub arrivals: Vec<Arrival>,
    pub events: Vec<(Arc<PeerEq>, OwnersEvent)>,
    pub transfers: Vec<Transfer>,
}

/// An entry of a queue.
pub enum Completion {
    Good([u64; 6], u64),
    Bad(CqErr),
}

/// A message for which there may be a receive.
pub struct Arrival {
    pub srx: usize,
    pub token: usize,
    pub owner: Arc<PeerSrx>,
    pub what: What,
    pub addr: u64,
    pub len: u64,
    pub tag: u64,
    pub data: Option<u64>,
}

impl Calls {
    pub fn is_empty(&self) -> bool {
        self.completions.is_empty()
            && self.counts.is_empty()
            && self.over.is_empty()
            && self.arrivals.is_empty()
            && self.events.is_empty()
            && self.transfers.is_empty()
    }
}

impl CqState {
    /// Takes all entries out of the queue of an owner.
    fn drain(
        &mut self,
        number: usize,
        owner: &Arc<PeerCq>,
        out: &mut Vec<(usize, Arc<PeerCq>, Completion)>,
    ) {
        loop {
            let completion = match self.ring.ready() {
                Head::Empty => return,
                Head::Entries(_) => {
                    let (mut entry, mut source) = ([0; 6], FI_ADDR_NOTAVAIL);
                    let mut copy = |words: &[u64]| entry.copy_from_slice(words);
                    let mut from = |words: &[u64]| source = words[0];
                    self.ring.read_into(1, &mut copy, Some(&mut from));
                    Completion::Good(entry, source)
                }
                Head::Error => match self.ring.pop_err() {
                    Some(error) => Completion::Bad(error),
                    None => return,
                },
            };
            out.push((number, owner.clone(), completion));
        }
    }
}

impl<A: Address> DomainState<A> {
    /// Whether a call to an owner is pending.
    #[inline]
    pub fn has_owner_calls(&self) -> bool {
        self.peers.any && self.has_calls()
    }

    #[inline]
    fn has_calls(&self) -> bool {
        let has_entry = |&cq: &usize| self.cqs.get(cq).is_some_and(|cq| !cq.ring.is_empty());
        let owes = |&srx: &usize| self.srxs.get(srx).is_some_and(Srx::owes_owner);
        self.peers.cqs.iter().any(has_entry)
            || self.peers.srxs.iter().any(owes)
            || self.peers.has_others && self.peers.others_have_calls()
    }

    /// Takes the pending calls to owners.
    pub fn take_calls(&mut self, source_of: impl Fn(&Envelope) -> u64) -> Calls {
        let mut calls = Calls::default();
        for &number in &self.peers.cqs {
            let cq = &mut self.cqs[number];
            if let Some(owner) = cq.owner.clone() {
                cq.drain(number, &owner, &mut calls.completions);
            }
        }
        for cntr in &mut self.peers.cntrs {
            let (good, bad) = cntr.owes();
            if (good, bad) != (0, 0) {
                cntr.told = (cntr.told.0 + good, cntr.told.1 + bad);
                calls.counts.push((cntr.owner.clone(), (good, bad)));
            }
        }
        for srx in self.peers.srxs.clone() {
            let untold = self.srxs[srx].take_unreported();
            let Some(arrivals) = &self.srxs[srx].arrivals else {
                continue;
            };
            let owner = &arrivals.owner;
            let over = arrivals.take_over().into_iter();
            calls.over.extend(over.map(|entry| (owner.clone(), entry)));
            let told = untold.into_iter().map(|(token, envelope)| Arrival {
                srx,
                token,
                owner: owner.clone(),
                what: envelope.what,
                addr: self.name_of(&envelope, source_of(&envelope)),
                len: envelope.len,
                tag: envelope.tag,
                data: envelope.data,
            });
            calls.arrivals.extend(told);
        }
        for queue in self.peers.queues() {
            if let Some(owner) = &queue.owner {
                let events = queue.take_all().into_iter();
                calls
                    .events
                    .extend(events.map(|event| (owner.clone(), event)));
            }
        }
        calls.transfers = std::mem::take(&mut self.peers.transfers);
        calls
    }

    fn name_of(&self, envelope: &Envelope, source: u64) -> u64 {
        let ep = self.eps.get(envelope.ep);
        ep.map_or(FI_ADDR_UNSPEC, |ep| self.named(ep, source))
    }

    /// Owners to notify, outside of the lock, about new addresses in a vector.
    pub fn owners_of_receives(&self) -> Vec<Arc<PeerSrx>> {
        let arrivals = |&srx: &usize| self.srxs[srx].arrivals.as_ref();
        let imported = self.peers.srxs.iter().filter_map(arrivals);
        imported.map(|arrivals| arrivals.owner.clone()).collect()
    }

    /// The address by which the owner knows the sender of a message.
    pub fn address_of(
        &mut self,
        srx: usize,
        token: usize,
        source_of: impl Fn(&Envelope) -> u64,
    ) -> u64 {
        match self.srxs[srx].arrival(token) {
            Some(envelope) => self.name_of(&envelope, source_of(&envelope)),
            None => FI_ADDR_UNSPEC,
        }
    }

    /// Continues a message with the receive of the owner; `None`: the message is discarded.
    pub fn settle(
        &mut self,
        srx: usize,
        token: usize,
        entry: Option<Entry>,
        source_of: impl Fn(&Envelope) -> u64,
        mut claim: impl FnMut(&mut Self, Claimed),
    ) -> Result {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let result = match entry {
            Some(entry) => self.srxs[srx].start(token, entry, &mut outcomes),
            None => self.srxs[srx].discard_arrival(token, &mut outcomes),
        };
        while let Some(outcome) = outcomes.pop_front() {
            match outcome {
                Outcome::Done(recv, envelope, origin) => {
                    self.done(&recv, &envelope, origin, &source_of);
                }
                Outcome::Claimed(claimed) => claim(self, claimed),
                Outcome::Lost(recv, envelope) => {
                    self.claim_lost(envelope.ep, &recv, envelope.what);
                }
                Outcome::Peeked(..) => {}
            }
        }
        self.outcomes = outcomes;
        result
    }
}
