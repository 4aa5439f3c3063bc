// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The progress loop: completions from below, operations that wait for them, connection events, deadlines.

use std::sync::Arc;

use super::flight::{Call, Flight, Kind, Post};
use super::state::{Due, Rxm, StateOf};
use abi::{FI_ADDR_NOTAVAIL, FI_MULTI_RECV, FI_RECV, FI_REMOTE_CQ_DATA, FI_REMOTE_WRITE};
use base::{CompFlags, Error};
use client::layer::{Block, Failed, Lent, Loan};
use client::{Completion, Cq, Done};
use engine::domain_state::Sender;

/// Maximum of completions that one poll takes from an endpoint.
const MOST: usize = 64;
/// While no connection event is expected, one poll in this many checks for one.
const EVENTS_EVERY: u32 = 64;
/// Number of polls between two checks for a pending report request: `report::patience`.
const ATTEND_EVERY: u32 = 256;

impl Rxm {
    /// Polls everything that may have an event.
    pub fn poll(&mut self, domain: &mut StateOf) {
        self.polls = self.polls.wrapping_add(1);
        self.has_matched = false;
        if !self.stalled.is_empty() {
            self.take_waiting(domain);
        }
        for ep in 0..self.eps.len() {
            self.poll_endpoint(domain, ep);
        }
        if !self.dry.is_empty() {
            self.post_dry();
        }
        if !self.held.is_empty() {
            self.send_held(domain);
        }
        if self.connecting > 0 || !self.ending.is_empty() || self.polls.is_multiple_of(EVENTS_EVERY)
        {
            self.poll_events(domain);
        }
        if self.is_counting {
            self.carry_counts(domain);
        }
        if self.polls.is_multiple_of(ATTEND_EVERY) {
            self.attend(domain);
        }
    }

    #[cold]
    fn poll_events(&mut self, domain: &mut StateOf) {
        while self.take_event(domain).is_some() {}
        if self.reactor.has_deadlines() {
            let now = self.reactor.now();
            let mut any = false;
            while let Some(due) = self.reactor.next_due(now) {
                any = true;
                match due {
                    Due::Conn(id) => self.conn_due(domain, id),
                    Due::Look => self.look_due(),
                }
            }
            if any {
                self.reactor.set_timer();
            }
        }
        self.end_now(domain);
        self.close_ended(domain);
    }

    /// Polls for an operation that waits for a connection or for room.
    pub fn drive(&mut self, domain: &mut StateOf) {
        self.poll(domain);
        self.poll_events(domain);
    }

    /// Polls until nothing is ready.
    pub fn drive_all(&mut self, domain: &mut StateOf) {
        self.is_thorough = true;
        self.drive(domain);
        for ep in 0..self.eps.len() {
            while let Some(endpoint) = self.endpoint(ep) {
                let (cq, eq) = (endpoint.cq.clone(), self.lower.eq.clone());
                // If `trywait` does not return -FI_EAGAIN, later events below signal this library's descriptor.
                if self.lower.fabric.trywait(&[&*cq, &*eq]) != Err(Error::AGAIN) {
                    break;
                }
                self.drive(domain);
            }
        }
        self.take_waiting(domain);
        if self.is_counting {
            self.settle_counts(domain);
        }
        self.is_thorough = false;
    }

    #[inline]
    fn poll_endpoint(&mut self, domain: &mut StateOf, ep: usize) {
        let Some(endpoint) = self.eps[ep].as_deref() else {
            return;
        };
        let mut batch = core::mem::take(&mut self.batch);
        let mut read = endpoint.cq.read_from(&mut batch);
        if read == Err(Error::AGAIN) {
            self.ops.read_empty(&endpoint.cq);
            self.batch = batch;
            return;
        }
        let cq = endpoint.cq.clone();
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
                Err(Error::AVAIL) => self.failed(domain, ep, &cq),
                Err(_) => break,
            }
            read = cq.read_from(&mut batch);
        }
        self.batch = batch;
        self.grow_shared(ep);
        // A failed post is retried after the next completion.
        let _ = self.post_shared(ep);
    }

    /// Takes all packets that have arrived, also those for which the provider below had no receive. Returns false if
    /// there may be packets without a slot.
    pub fn take_all(&mut self, domain: &mut StateOf, ep: usize) -> bool {
        loop {
            let Some(endpoint) = self.endpoint(ep) else {
                return true;
            };
            let (cq, wanted) = (
                endpoint.cq.clone(),
                endpoint.wanted.min(self.lower.most_receives()),
            );
            let is_ready = endpoint.shared_rx.is_none() || endpoint.posted >= wanted;
            let mut batch = core::mem::take(&mut self.batch);
            let read = cq.read_from(&mut batch);
            let mut block = None;
            match read {
                Ok(count) => {
                    for done in &mut batch[..count] {
                        self.completed(domain, ep, done, &mut block);
                    }
                }
                Err(Error::AVAIL) => self.failed(domain, ep, &cq),
                Err(_) => {}
            }
            self.batch = batch;
            let is_empty = !matches!(read, Ok(_) | Err(Error::AVAIL));
            if is_empty && is_ready {
                return true;
            }
            let before = self.endpoint(ep).map_or(0, |endpoint| endpoint.posted);
            let _ = self.post_shared(ep);
            let after = self.endpoint(ep).map_or(0, |endpoint| endpoint.posted);
            if is_empty && before == after {
                return after > 0;
            }
        }
    }

    /// Handles a completion. `block` caches the block of the previous one.
    fn completed(
        &mut self,
        domain: &mut StateOf,
        ep: usize,
        done: &mut Completion,
        block: &mut Option<Arc<Block>>,
    ) {
        if let Some(its) = self.ops.block_of(&done.context) {
            match block {
                Some(block) if Arc::ptr_eq(block, its) => {}
                _ => *block = Some(its.clone()),
            }
            return self.received_some(domain, ep, done, block);
        }
        let context = core::mem::take(&mut done.context);
        let (flags, len) = (done.flags, done.len);
        let ended = self.ops.end(context);
        let arrival = match &ended {
            // The provider below may not report sources.
            Some((flight, _)) => match flight.kind {
                Kind::Packet(arrival) => arrival,
                _ => done.src,
            },
            None => done.src,
        };
        if flags & FI_REMOTE_WRITE != 0 {
            let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(done.data);
            self.written_by_peer(domain, ep, len, data, arrival);
        }
        let Some((flight, loan)) = ended else { return };
        match flight.kind {
            Kind::SharedPacket | Kind::Packet(_) => {
                self.received_one(&flight);
                let Loan::Slot(slot, _) = loan else { return };
                // A write with data consumes a receive without a packet.
                if flags & FI_REMOTE_WRITE == 0 {
                    let packet = &slot.bytes()[..len.min(slot.room())];
                    self.arrived(domain, ep, arrival, packet);
                }
                self.packets.put(slot);
                if let Kind::Packet(_) = flight.kind
                    && let Some(id) = self.arrived_over(ep, arrival)
                {
                    let _ = self.post_own(id);
                }
            }
            _ => {
                let lent = self.put_slots(loan);
                drop(lent);
                self.landed(domain, flight, None);
            }
        }
    }

    /// Handles one more packet of a receive that takes many, or the end of that receive.
    #[inline]
    fn received_some(
        &mut self,
        domain: &mut StateOf,
        ep: usize,
        done: &mut Completion,
        block: &mut Option<Arc<Block>>,
    ) {
        if done.flags & FI_RECV != 0
            && let Some(packet) = block.as_ref().and_then(|block| block.message(done))
        {
            self.arrived(domain, ep, done.src, packet);
        }
        if done.flags & FI_MULTI_RECV != 0 {
            *block = None;
            self.block_ended(core::mem::take(&mut done.context));
        }
    }

    fn block_ended(&mut self, context: Done) {
        if let Some((flight, loan)) = self.ops.end(context) {
            self.received_one(&flight);
            self.keep_block(flight.ep, loan);
        }
    }

    /// Accounts for the end of a receive below.
    pub fn received_one(&mut self, flight: &Flight) {
        match flight.kind {
            Kind::SharedPacket | Kind::SharedBlock => {
                if let Some(endpoint) = self.endpoint_mut(flight.ep) {
                    endpoint.posted -= 1;
                }
            }
            Kind::Packet(arrival) => {
                if let Some(id) = self.arrived_over(flight.ep, arrival) {
                    self.conns[id].posted = self.conns[id].posted.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// Returns slots to their pools; memory lent by the application goes to the caller.
    pub fn put_slots(&mut self, loan: Loan) -> Option<Arc<Lent>> {
        match loan {
            Loan::Nothing | Loan::Block(_) => None,
            Loan::Slot(slot, _) => {
                self.put(slot);
                None
            }
            Loan::Lent(lent, _) => Some(lent),
            Loan::Both(slot, _, lent, _) => {
                self.put(slot);
                Some(lent)
            }
        }
    }

    fn put(&mut self, slot: client::layer::Slot) {
        match slot.room() {
            super::HEAD_SIZE => self.heads.put(slot),
            _ => self.copies.put(slot),
        }
    }

    /// Handles a write with CQ data by the peer of the connection that `arrival` names.
    fn written_by_peer(
        &mut self,
        domain: &mut StateOf,
        ep: usize,
        len: usize,
        data: Option<u64>,
        arrival: u64,
    ) {
        let id = self.arrived_over(ep, arrival);
        let peer = id.map(|id| (self.conns[id].fi_addr, self.conns[id].peer));
        let sender = Sender {
            fi_addr: peer.map_or(FI_ADDR_NOTAVAIL, |(fi_addr, _)| fi_addr),
            addr: peer.as_ref().map(|(_, addr)| addr),
        };
        if domain.find_ep(ep).is_some() {
            domain.written(ep, CompFlags::RMA, len as u64, data, &sender);
            self.note_counted(ep, len);
        }
    }

    /// Handles the end of an operation below: continues or fails the operation that it belongs to.
    pub fn landed(&mut self, domain: &mut StateOf, flight: Flight, error: Option<Error>) {
        match flight.kind {
            Kind::Packet(_)
            | Kind::SharedPacket
            | Kind::SharedBlock
            | Kind::Control
            | Kind::Announce(_) => {}
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
            Kind::Fetched(at) => {
                if error.is_none()
                    && let Some(fetch) = self.fetches.get_mut(at).filter(|f| f.conn == flight.conn)
                {
                    fetch.left -= 1;
                    if fetch.left == 0 {
                        self.fetched(domain, at);
                    }
                }
            }
            Kind::Written(at) => {
                if error.is_none()
                    && let Some(send) = self.sends.get_mut(at).filter(|s| s.conn == flight.conn)
                {
                    send.left -= 1;
                    if send.left == 0 {
                        self.wrote(domain, at);
                    }
                }
            }
        }
    }

    /// Handles a failed operation below: its connection is over.
    #[cold]
    fn failed(&mut self, domain: &mut StateOf, _ep: usize, cq: &Cq) {
        let Ok(failed) = cq.readerr() else { return };
        // This library cancels nothing below: the connection has ended.
        let error = match failed.error {
            Error::CANCELED => Error::CONNRESET,
            error => error,
        };
        if self.ops.block_of(&failed.context).is_some() {
            // A packet was too long for any receive; its connection is unknown.
            if failed.flags & FI_MULTI_RECV != 0 || failed.error == Error::CANCELED {
                self.block_ended(failed.context);
            }
            return;
        }
        let Some((flight, loan)) = self.ops.end(failed.context) else {
            return;
        };
        let id = flight.conn;
        match flight.kind {
            Kind::SharedPacket | Kind::Packet(_) => {
                self.received_one(&flight);
                if let Loan::Slot(slot, _) = loan {
                    self.packets.put(slot);
                }
                let Kind::Packet(arrival) = flight.kind else {
                    return;
                };
                // The connection may have another endpoint below by now.
                if self.arrived_over(flight.ep, arrival).is_none() {
                    return;
                }
            }
            _ => {
                drop(self.put_slots(loan));
                self.landed(domain, flight, Some(error));
            }
        }
        self.end_later(id, error);
    }

    /// Posts an operation below, or queues it until there is room.
    pub fn hand_down(&mut self, domain: &mut StateOf, post: Post) {
        let id = post.flight.conn;
        if self.conns[id].held.is_empty() {
            match self.try_post(post) {
                Ok(()) => return,
                Err((post, Error::AGAIN)) => return self.hold(id, post),
                Err((post, error)) => return self.not_posted(domain, post, error),
            }
        }
        self.hold(id, post);
    }

    fn hold(&mut self, id: usize, post: Post) {
        self.conns[id].held.push_back(post);
        if !self.held.contains(&id) {
            self.held.push(id);
        }
    }

    /// Fails an operation that could not be posted.
    pub fn not_posted(&mut self, domain: &mut StateOf, post: Post, error: Error) {
        let id = post.flight.conn;
        drop(self.put_slots(post.loan));
        self.landed(domain, post.flight, Some(error));
        self.end_later(id, error);
    }

    // The error is as large as the argument, and rare.
    #[allow(clippy::result_large_err)]
    fn try_post(&mut self, post: Post) -> Result<(), (Post, Error)> {
        let Post { call, loan, flight } = post;
        let announced = match flight.kind {
            Kind::Announce(at) => Some(at),
            _ => None,
        };
        let Some(link) = self.conns[flight.conn].link.as_ref() else {
            return Err((Post { call, loan, flight }, Error::NOTCONN));
        };
        let posted = match &call {
            Call::Send { flags } => self.ops.send(link, loan, 0, None, *flags, flight),
            Call::Read { remote, flags } => {
                self.ops.read(link, loan, 0, remote.list(), *flags, flight)
            }
            Call::Write {
                remote,
                data,
                flags,
            } => {
                let remote = remote.list();
                self.ops.write(link, loan, 0, remote, *data, *flags, flight)
            }
        };
        posted.map_err(|Failed { error, loan, what }| {
            let flight = what;
            (Post { call, loan, flight }, error)
        })?;
        if let Some(send) = announced.and_then(|at| self.sends.get_mut(at)) {
            send.is_announced = true;
        }
        Ok(())
    }

    /// Posts queued operations as far as there is room below.
    fn send_held(&mut self, domain: &mut StateOf) {
        for id in core::mem::take(&mut self.held) {
            while let Some(conn) = self.conns.get_mut(id)
                && let Some(post) = conn.held.pop_front()
            {
                match self.try_post(post) {
                    Ok(()) => {}
                    Err((post, Error::AGAIN)) => {
                        self.conns[id].held.push_front(post);
                        self.held.push(id);
                        break;
                    }
                    Err((post, error)) => self.not_posted(domain, post, error),
                }
            }
        }
    }
}
