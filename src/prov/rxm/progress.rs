// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The progress loop: completions from below, operations that wait for them, connection events, deadlines.

use std::sync::Arc;

use super::lower::{Due, Flight, put_packet};
use super::session::put_slots;
use super::state::{Rxm, StateOf};
use abi::{FI_ADDR_NOTAVAIL, FI_MULTI_RECV, FI_RECV, FI_REMOTE_CQ_DATA, FI_REMOTE_WRITE};
use base::{CompFlags, Error};
use client::layer::{Block, Loan};
use client::{Completion, Cq, Done};
use engine::coll::messages;
use engine::domain_state::Sender;

/// Maximum of completions that one poll takes from a queue.
const MOST: usize = 64;
/// While no connection event is expected, one poll in this many checks for one.
const EVENTS_EVERY: u32 = 64;
/// While connections are being made, one poll in this many checks for requests of peers, which is a system call. The
/// read of the completion queue has already driven the progress of the other connection events.
const REQUESTS_EVERY: u32 = 8;
/// Number of polls between two checks for a pending report request: `peer::stall`. Each open endpoint adds one, because
/// a check visits all of them.
const ATTEND_EVERY: usize = 256;
/// Maximum of connection events that one poll handles. An accepted connection takes about 80 us.
const MOST_EVENTS: usize = 16;

impl Rxm {
    /// Polls everything that may have an event. Called also for an operation that waits for a connection or for room.
    pub fn poll(&mut self, domain: &mut StateOf) {
        self.polls = self.polls.wrapping_add(1);
        self.sessions.common.has_matched = false;
        if !self.sessions.common.stalled.is_empty() {
            self.sessions.take_waiting(domain, &mut self.lower);
        }
        for at in 0..self.lower.queues.len() {
            self.poll_queue(domain, at);
        }
        messages::poll(self, domain);
        if !self.lower.dry.is_empty() {
            self.lower.post_dry();
        }
        if self.lower.has_due() {
            self.sessions.give_credits(domain, &mut self.lower);
        }
        if !self.sessions.common.held.is_empty() {
            self.sessions.send_held(domain, &mut self.lower);
        }
        let common = &self.sessions.common;
        let is_changing = common.connecting > 0
            || common.pacing.is_ready()
            || !common.ending.is_empty()
            || self.lower.is_closing;
        if is_changing || self.polls.is_multiple_of(EVENTS_EVERY) {
            let drives = !self.lower.domain.is_ours || self.polls.is_multiple_of(REQUESTS_EVERY);
            self.poll_events(domain, drives);
        }
        if self.lower.is_counting {
            self.count(domain);
        }
        self.until_attend = match self.until_attend.checked_sub(1) {
            Some(left) => left,
            None => {
                self.attend(domain);
                ATTEND_EVERY + self.lower.open_eps()
            }
        };
    }

    /// `drives`: also drives the progress of the queue of events below, which accepts requests of peers.
    #[cold]
    pub fn poll_events(&mut self, domain: &mut StateOf, drives: bool) {
        for _ in 0..MOST_EVENTS {
            if self.take_event(domain, drives).is_none() {
                break;
            }
        }
        if self.lower.reactor.has_deadlines() {
            let now = self.lower.now();
            let mut any = false;
            while let Some(due) = self.lower.reactor.next_due(now) {
                any = true;
                match due {
                    Due::Session(id) => {
                        self.sessions
                            .with(domain, &mut self.lower, id, |session, cx| {
                                session.due(cx, now)
                            });
                    }
                    Due::Look => self.look_due(),
                }
            }
            if any {
                self.lower.reactor.set_timer();
            }
        }
        if self.lower.has_due() {
            self.sessions.give_credits(domain, &mut self.lower);
        }
        self.end_now(domain);
        self.close_ended(domain);
        if self.sessions.common.pacing.is_ready() {
            let now = self.lower.now();
            self.sessions.take_turns(domain, &mut self.lower, now);
            if self.sessions.common.pacing.is_ready() {
                // The application may sleep, and those that have begun may get no answer.
                self.lower.reactor.schedule(now, Due::Look);
            }
        }
    }

    /// Updates the application's counters of peers' accesses.
    #[cold]
    fn count(&mut self, domain: &mut StateOf) {
        if self.lower.read_counts() {
            self.take_all(domain);
        }
        self.lower.carry_counts(domain);
    }

    /// Closes connections below that are over.
    pub fn close_ended(&mut self, domain: &mut StateOf) {
        self.lower.close_ended();
        self.sessions.end_closed(domain, &mut self.lower);
    }

    /// Polls everything, events included.
    pub fn drive(&mut self, domain: &mut StateOf) {
        self.poll(domain);
        self.poll_events(domain, true);
        // Connections may have ended.
        messages::poll(self, domain);
    }

    /// Polls until nothing is ready.
    pub fn drive_all(&mut self, domain: &mut StateOf) {
        self.sessions.common.is_thorough = true;
        self.drive(domain);
        while !self.lower.may_sleep() {
            self.drive(domain);
        }
        self.sessions.take_waiting(domain, &mut self.lower);
        self.sessions.give_credits(domain, &mut self.lower);
        if self.lower.is_closing {
            self.close_ended(domain);
        }
        while self.lower.is_counting {
            self.count(domain);
            if self.lower.counts_may_sleep() {
                break;
            }
        }
        self.sessions.common.is_thorough = false;
    }

    #[inline]
    fn poll_queue(&mut self, domain: &mut StateOf, at: usize) {
        let mut batch = core::mem::take(&mut self.batch);
        let queue = &self.lower.queues[at];
        let mut read = queue.cq.read_from(&mut batch);
        if read == Err(Error::AGAIN) {
            self.lower.ops.read_empty(&queue.cq);
            self.batch = batch;
            return;
        }
        let (cq, ep) = (queue.cq.clone(), queue.ep);
        let (mut taken, mut block) = (0, None);
        loop {
            match read {
                Ok(count) => {
                    for done in &mut batch[..count] {
                        self.completed(domain, ep, done, &mut block);
                    }
                    taken += count;
                    if count < batch.len() || taken >= MOST {
                        break;
                    }
                }
                Err(Error::AVAIL) => self.failed(domain, &cq),
                Err(_) => break,
            }
            read = cq.read_from(&mut batch);
        }
        self.batch = batch;
        self.lower.grow_shared();
        // A failed post is retried after the next completion.
        let _ = self.lower.post_shared();
    }

    /// Takes all packets that have arrived, also those for which the provider below had no receive. Returns false if
    /// there may be packets without a slot.
    pub fn take_all(&mut self, domain: &mut StateOf) -> bool {
        (0..self.lower.queues.len()).all(|at| self.take_all_of(domain, at))
    }

    fn take_all_of(&mut self, domain: &mut StateOf, at: usize) -> bool {
        let posted = |rxm: &Rxm| rxm.lower.shared_receives().map_or(0, |(posted, _)| posted);
        let queue = &self.lower.queues[at];
        let (cq, ep) = (queue.cq.clone(), queue.ep);
        loop {
            let is_ready = self
                .lower
                .shared_receives()
                .is_none_or(|(posted, wanted)| posted >= wanted);
            let mut batch = core::mem::take(&mut self.batch);
            let read = cq.read_from(&mut batch);
            let mut block = None;
            match read {
                Ok(count) => {
                    for done in &mut batch[..count] {
                        self.completed(domain, ep, done, &mut block);
                    }
                }
                Err(Error::AVAIL) => self.failed(domain, &cq),
                Err(_) => {}
            }
            self.batch = batch;
            let is_empty = !matches!(read, Ok(_) | Err(Error::AVAIL));
            if is_empty && is_ready {
                return true;
            }
            let before = posted(self);
            let _ = self.lower.post_shared();
            let after = posted(self);
            if is_empty && before == after {
                return after > 0;
            }
        }
    }

    /// Handles a completion. `ep` is the endpoint of the queue, if it has only one; `block` caches the block of the
    /// previous completion.
    fn completed(
        &mut self,
        domain: &mut StateOf,
        ep: Option<usize>,
        done: &mut Completion,
        block: &mut Option<Arc<Block>>,
    ) {
        if let Some(its) = self.lower.ops.block_of(&done.context) {
            match block {
                Some(block) if Arc::ptr_eq(block, its) => {}
                _ => *block = Some(its.clone()),
            }
            return self.received_some(domain, done, block);
        }
        let context = core::mem::take(&mut done.context);
        let (flags, len) = (done.flags, done.size());
        let ended = self.lower.ops.end(context);
        let (ep, arrival) = match &ended {
            // The provider below may not report sources.
            Some((Flight::Packet { ep, arrival, .. }, _)) => (Some(*ep), *arrival),
            _ => (ep, done.src),
        };
        if flags & FI_REMOTE_WRITE != 0 {
            let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(done.data);
            self.written_by_peer(domain, ep, len, data, arrival);
        }
        let Some((flight, loan)) = ended else { return };
        let flight = match flight {
            Flight::Operation(flight) => {
                drop(put_slots(&mut self.lower, loan));
                return self.sessions.landed(domain, &mut self.lower, flight, None);
            }
            receive => receive,
        };
        self.lower.received_one(&flight);
        let Loan::Slot(slot, _) = loan else { return };
        // A write with data consumes a receive without a packet.
        if flags & FI_REMOTE_WRITE == 0 {
            let packet = &slot.bytes()[..len.min(slot.room())];
            self.sessions
                .arrived(domain, &mut self.lower, arrival, packet);
        }
        self.lower.packets.put(slot);
        if let Flight::Packet { id, arrival, .. } = flight {
            self.lower.refill(id, arrival);
        }
    }

    /// Handles one more packet of a receive that takes many, or the end of that receive.
    #[inline]
    fn received_some(
        &mut self,
        domain: &mut StateOf,
        done: &mut Completion,
        block: &mut Option<Arc<Block>>,
    ) {
        if done.flags & FI_RECV != 0
            && let Some(packet) = block.as_ref().and_then(|block| block.message(done))
        {
            self.sessions
                .arrived(domain, &mut self.lower, done.src, packet);
        }
        if done.flags & FI_MULTI_RECV != 0 {
            *block = None;
            self.block_ended(core::mem::take(&mut done.context));
        }
    }

    fn block_ended(&mut self, context: Done) {
        if let Some((flight, loan)) = self.lower.ops.end(context) {
            self.lower.received_one(&flight);
            if let Flight::SharedBlock = flight {
                self.lower.keep_block(loan);
            }
        }
    }

    /// Handles a write with CQ data by the peer of the connection that `arrival` names.
    fn written_by_peer(
        &mut self,
        domain: &mut StateOf,
        ep: Option<usize>,
        len: usize,
        data: Option<u64>,
        arrival: u64,
    ) {
        let peer = self.sessions.find(arrival);
        let Some(ep) = ep.or_else(|| Some(peer?.link().ep())) else {
            // The connection is gone, and its endpoint with it.
            return;
        };
        if domain.eps.get(ep).is_none() {
            return;
        }
        let sender = Sender {
            fi_addr: peer.map_or(FI_ADDR_NOTAVAIL, |session| session.link().fi_addr()),
            addr: peer.map(|session| session.link().peer()),
        };
        domain.written(ep, CompFlags::RMA, len as u64, data, &sender);
        self.lower.note_counted(ep, len);
    }

    /// Handles a failed operation below: its connection is over.
    #[cold]
    fn failed(&mut self, domain: &mut StateOf, cq: &Cq) {
        let Ok(failed) = cq.readerr() else { return };
        // This library cancels nothing below: the connection has ended.
        let error = match failed.error {
            Error::CANCELED => Error::CONNRESET,
            error => error,
        };
        if self.lower.ops.block_of(&failed.context).is_some() {
            // A packet was too long for any receive; its connection is unknown.
            if failed.flags & FI_MULTI_RECV != 0 || failed.error == Error::CANCELED {
                self.block_ended(failed.context);
            }
            return;
        }
        let Some((flight, loan)) = self.lower.ops.end(failed.context) else {
            return;
        };
        let flight = match flight {
            Flight::Operation(flight) => {
                drop(put_slots(&mut self.lower, loan));
                return self
                    .sessions
                    .landed(domain, &mut self.lower, flight, Some(error));
            }
            receive => receive,
        };
        self.lower.received_one(&flight);
        put_packet(&mut self.lower.packets, loan);
        // The session may have another connection below by now.
        if let Flight::Packet { id, arrival, .. } = flight
            && self.sessions.find(arrival).is_some()
        {
            self.sessions
                .with(domain, &mut self.lower, id, |session, cx| {
                    session.end_later(cx, error)
                });
        }
    }
}
