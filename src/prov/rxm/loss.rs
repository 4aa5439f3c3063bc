// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fate of operations when a connection ends or its endpoint is closed.

use core::fmt;
use std::ffi::CString;

use super::SOURCE;
use super::conn::{Conn, Lane, Sink, State};
use super::flight::{Asked, Flight, Group, Kind, Post, Send};
use super::state::{Ending, Rxm, StateOf};
use abi::FI_ADDR_NOTAVAIL;
use base::log::{Subsys, log_info, log_warn};
use base::{Error, OpFlags};
use client::layer::close;
use engine::domain_state::{Loss, TxOp};
use engine::srx::RecvOp;
use object::ops::transfer::What;

impl Rxm {
    /// Ends a connection after the packets that have already arrived are handled.
    #[cold]
    pub fn end_later(&mut self, id: usize, error: Error) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        let arrival = conn.arrival;
        let is_there = conn.link.is_some() && conn.state != State::Over;
        if is_there && !self.ending.iter().any(|ending| ending.arrival == arrival) {
            self.ending.push(Ending { id, arrival, error });
            // Its remaining packets can be read to the end.
            self.resume(id);
        }
    }

    /// Ends connections that cannot deliver anything more.
    pub fn end_now(&mut self, domain: &mut StateOf) {
        for ending in std::mem::take(&mut self.ending) {
            let Ending { id, arrival, error } = ending;
            let Some(conn) = self.ending_conn(id, arrival) else {
                continue;
            };
            let (ep, fi_addr, was_up) = (conn.ep, conn.fi_addr, conn.state == State::Up);
            if !self.take_all(domain, ep) {
                self.ending.push(ending);
                continue;
            }
            // One of its last packets may have ended it already.
            if self.ending_conn(id, arrival).is_some() {
                self.lost(domain, id, error, &"ended");
            }
            if was_up && !is_silence(error) {
                self.look_for(domain, ep, fi_addr);
            }
        }
    }

    /// Returns a connection that has ended below, unless it is gone already and another one has its index.
    fn ending_conn(&self, id: usize, arrival: u64) -> Option<&Conn> {
        self.conns.get(id).filter(|conn| conn.arrival == arrival)
    }

    /// Ends a connection: everything that depended on it fails, with the fate of the peer as the reason.
    #[cold]
    pub fn lost(&mut self, domain: &mut StateOf, id: usize, error: Error, what: &dyn fmt::Display) {
        // An earlier packet may have ended it already.
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if conn.state == State::Over {
            return;
        }
        if matches!(conn.state, State::Connecting | State::Accepted) {
            self.connecting -= 1;
        }
        let was_up = conn.state == State::Up;
        conn.state = State::Over;
        let sentence = format!("{} {what}", conn.peer);
        let outer = domain.loss.replace(loss_of(&sentence));
        self.fail_all(domain, id, Some(error));
        if was_up && is_silence(error) {
            self.fail_receives(domain, id, error);
        }
        let loss = std::mem::replace(&mut domain.loss, outer);
        match loss.map_or(0, |loss| loss.failed) {
            0 if was_up => log_info!(&SOURCE, Subsys::EpData, "{sentence}"),
            0 => {}
            failed => log_warn!(
                &SOURCE,
                Subsys::EpData,
                "{sentence}: operations with it fail: {failed}"
            ),
        }
        self.ending.retain(|ending| ending.id != id);
        self.keep_source(domain, id);
        self.unlink_peer(id);
        self.unlink(domain, id);
        self.retire(id);
    }

    /// Fails the receives that name a peer whose host is silent.
    pub fn fail_receives(&mut self, domain: &mut StateOf, id: usize, error: Error) {
        let conn = &self.conns[id];
        if conn.fi_addr != FI_ADDR_NOTAVAIL && domain.find_ep(conn.ep).is_some() {
            domain.fail_receives_from(conn.ep, conn.fi_addr, error);
        }
    }

    /// Ends everything that depends on a connection. Without an error it ends silently.
    fn fail_all(&mut self, domain: &mut StateOf, id: usize, error: Option<Error>) {
        let token = id as u64;
        // Packets that arrived earlier are still delivered.
        self.deliver_rest(domain, id);
        let conn = &mut self.conns[id];
        let (held, coming) = (
            std::mem::take(&mut conn.held),
            std::mem::take(&mut conn.coming),
        );
        self.held.retain(|&other| other != id);
        self.stalled.retain(|&other| other != id);
        for post in held {
            drop(self.put_slots(post.loan));
            self.end(domain, post.flight.kind, error);
        }
        for (_, coming) in coming {
            let ended = match coming.sink {
                Sink::Recv(recv, envelope) => Some((*recv, envelope)),
                Sink::Dropped => None,
                Sink::Kept(srx, slot) => domain.rx_queue_mut(srx).lost(slot),
            };
            if let Some((recv, envelope)) = ended {
                end_receive(domain, envelope.ep, &recv, envelope.what, error);
            }
        }
        let of_it: Vec<usize> = self
            .sends
            .iter()
            .filter(|(_, s)| s.conn == id)
            .map(|(i, _)| i)
            .collect();
        for at in of_it {
            let send = self.sends.remove(at);
            drop(send.lent);
            end_transmit(domain, &send.op, error);
        }
        let of_it: Vec<usize> = self
            .asked
            .iter()
            .filter(|(_, a)| a.conn == id)
            .map(|(i, _)| i)
            .collect();
        for at in of_it {
            let asked = self.asked.remove(at);
            end_transmit(domain, &asked.op, error);
        }
        let fetches = self.fetches.iter().filter(|(_, fetch)| fetch.conn == id);
        let of_it: Vec<usize> = fetches.map(|(i, _)| i).collect();
        for at in of_it {
            let fetch = self.fetches.remove(at);
            drop(fetch.lent);
            let envelope = fetch.envelope;
            end_receive(domain, envelope.ep, &fetch.recv, envelope.what, error);
        }
        self.parked.retain(|_, parked| parked.conn != id);
        let ep = self.conns[id].ep;
        if domain.find_ep(ep).is_some() {
            domain.each_srx(ep, |srx| srx.forget(token));
        }
        // Operations in flight below end with their endpoint there; nothing waits for that.
    }

    /// Keeps packets that waited because the receive queue was full, without a limit: the peer sends no more.
    fn deliver_rest(&mut self, domain: &mut StateOf, id: usize) {
        let ep = self.conns[id].ep;
        for lane in Lane::ALL {
            for bytes in std::mem::take(&mut self.conns[id].inbox[lane as usize]) {
                self.release(id, lane, &bytes);
                if domain.find_ep(ep).is_some() {
                    self.take_last(domain, id, &bytes);
                }
            }
        }
    }

    fn end(&mut self, domain: &mut StateOf, kind: Kind, error: Option<Error>) {
        match kind {
            Kind::Op(op) => end_transmit(domain, &op, error),
            Kind::Part(group) => {
                let parts = &mut self.groups[group];
                parts.left -= 1;
                if parts.left == 0 {
                    let parts = self.groups.remove(group);
                    end_transmit(domain, &parts.op, error);
                } else {
                    parts.failed = parts.failed.or(error);
                }
            }
            // These go with the tables.
            Kind::Packet(_)
            | Kind::SharedPacket
            | Kind::SharedBlock
            | Kind::Control
            | Kind::Announce(_)
            | Kind::Fetched(_)
            | Kind::Written(_) => {}
        }
    }

    /// Closes the endpoint below as soon as it is not in use.
    pub fn unlink(&mut self, domain: &mut StateOf, id: usize) {
        let conn = &mut self.conns[id];
        conn.registrar = None;
        (conn.posted, conn.arrival, conn.is_paused) = (0, 0, false);
        if let Some(link) = conn.link.take() {
            self.by_link.remove(&link.number());
            let _ = link.shutdown();
            self.closing.push((link, id));
            self.close_ended(domain);
        }
    }

    /// Closes endpoints below that are over, and ends the operations in flight there.
    pub fn close_ended(&mut self, domain: &mut StateOf) {
        let mut at = 0;
        // The others stay in the list, because `retire` searches it.
        while at < self.closing.len() {
            let (link, id) = self.closing.remove(at);
            let endpoint = self.conns.get(id).and_then(|conn| self.endpoint(conn.ep));
            let cq = endpoint.map(|endpoint| endpoint.cq.clone());
            for pool in [&mut self.packets, &mut self.heads, &mut self.copies] {
                pool.forget(&link);
            }
            match close(link) {
                Ok(closed) => {
                    for (flight, loan) in self.ops.closed(closed, cq.as_deref()) {
                        self.received_one_of(&flight.kind, flight.ep);
                        match (&flight.kind, loan) {
                            (
                                Kind::Packet(_) | Kind::SharedPacket,
                                client::layer::Loan::Slot(slot, _),
                            ) => {
                                self.packets.put(slot);
                            }
                            (_, loan) => drop(self.put_slots(loan)),
                        }
                        let is_there = domain.find_ep(flight.ep).is_some();
                        self.end(domain, flight.kind, is_there.then_some(Error::CONNRESET));
                    }
                    self.retire(id);
                }
                Err((link, _)) => {
                    self.closing.insert(at, (link, id));
                    at += 1;
                }
            }
        }
    }

    fn received_one_of(&mut self, kind: &Kind, ep: usize) {
        if let Kind::SharedPacket | Kind::SharedBlock = kind
            && let Some(endpoint) = self.endpoint_mut(ep)
        {
            endpoint.posted -= 1;
        }
    }

    /// Removes a connection from the table if it is over and nothing of it is left below.
    pub fn retire(&mut self, id: usize) {
        let is_closing = self.closing.iter().any(|&(_, of)| of == id);
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let is_found = self
            .eps
            .get(conn.ep)
            .and_then(|ep| ep.as_deref())
            .is_some_and(|ep| {
                ep.by_addr.get(&conn.peer) == Some(&id) || ep.receive_only.contains(&id)
            });
        if !is_closing && !is_found && matches!(conn.state, State::Over | State::Idle) {
            self.conns.remove(id);
        }
    }

    /// Closes an endpoint: posted operations are dropped silently, as fi_endpoint(3) requires for fi_close.
    pub fn close_endpoint(&mut self, domain: &mut StateOf, ep: usize) {
        let of_it = |(id, conn): (usize, &super::conn::Conn)| (conn.ep == ep).then_some(id);
        let ours: Vec<usize> = self.conns.iter().filter_map(of_it).collect();
        for id in ours {
            let conn = &mut self.conns[id];
            if matches!(conn.state, State::Connecting | State::Accepted) {
                self.connecting -= 1;
            }
            conn.state = State::Over;
            self.fail_all(domain, id, None);
            self.unlink_peer(id);
            self.unlink(domain, id);
            self.retire(id);
        }
        let Some(endpoint) = self.eps.get_mut(ep).and_then(Option::take) else {
            return;
        };
        if let Some(context) = endpoint.shared_rx {
            self.closing.push((context, usize::MAX));
        }
        // No later poll reads this queue.
        self.ops.read_empty(&endpoint.cq);
        self.close_ended(domain);
    }

    /// Cancels an operation of which nothing was posted below; fi_cancel(3).
    pub fn cancel_held(&mut self, domain: &mut StateOf, ep: usize, context: usize) {
        if context == 0 {
            return;
        }
        let is_meant = |op: &TxOp| op.ep() == ep && op.context == context;
        for id in self.held.clone() {
            let Some(conn) = self.conns.get(id) else {
                continue;
            };
            let held = &conn.held;
            let of_it = |post: &Post| match post.flight.kind {
                Kind::Op(ref op) => is_meant(op),
                Kind::Announce(at) => is_meant(&self.sends[at].op),
                Kind::Part(group) => is_meant(&self.groups[group].op),
                _ => false,
            };
            let Some(kind) = held.iter().find(|post| of_it(post)).map(|p| &p.flight.kind) else {
                continue;
            };
            let op = match kind {
                Kind::Op(op) => *op,
                Kind::Announce(at) => self.sends[*at].op,
                Kind::Part(group) => {
                    let Group { op, left, .. } = &self.groups[*group];
                    if held.iter().filter(|post| of_it(post)).count() < *left {
                        return;
                    }
                    *op
                }
                _ => return,
            };
            let is_of_it: Vec<bool> = held.iter().map(of_it).collect();
            let mut is_of_it = is_of_it.into_iter();
            let all = std::mem::take(&mut self.conns[id].held);
            for post in all {
                if is_of_it.next() != Some(true) {
                    self.conns[id].held.push_back(post);
                    continue;
                }
                drop(self.put_slots(post.loan));
                match post.flight.kind {
                    Kind::Announce(at) => drop(self.sends.remove(at)),
                    Kind::Part(group) => drop(self.groups.try_remove(group)),
                    _ => {}
                }
            }
            return domain.fail_tx(&op, Error::CANCELED);
        }
    }

    /// Whether accepted operations without a completion have not left.
    pub fn owes_peers(&self, ep: Option<usize>) -> bool {
        // Operations may belong to a context of the endpoint.
        let of_it = |conn: usize| {
            let of = self.conns.get(conn).map(|conn| conn.ep);
            ep.is_none_or(|ep| of == Some(ep))
        };
        let unheard = |op: &TxOp| !op.flags.contains(OpFlags::COMPLETION);
        let below = |flight: &Flight| {
            let unheard = match &flight.kind {
                Kind::Op(op) => unheard(op),
                Kind::Part(group) => unheard(&self.groups[*group].op),
                Kind::Control => true,
                _ => false,
            };
            unheard && of_it(flight.conn)
        };
        let held = self.held.iter().filter_map(|&id| self.conns.get(id));
        let mut held = held.flat_map(|conn| &conn.held);
        let sent = |send: &Send| unheard(&send.op) && of_it(send.conn);
        let asked = |asked: &Asked| unheard(&asked.op) && of_it(asked.conn);
        self.sends.iter().any(|(_, send)| sent(send))
            || self.asked.iter().any(|(_, waiting)| asked(waiting))
            || self.ops.iter().any(below)
            || held.any(|post| below(&post.flight))
    }
}

pub fn loss_of(sentence: &str) -> Loss {
    Loss {
        why: CString::new(sentence).unwrap_or_default().into(),
        failed: 0,
    }
}

/// Whether the peer's host does not answer at all, not even with a refusal.
pub fn is_silence(error: Error) -> bool {
    matches!(error, Error::TIMEDOUT | Error::HOSTUNREACH)
}

fn end_transmit(domain: &mut StateOf, op: &TxOp, error: Option<Error>) {
    if let Some(error) = error
        && domain.find_ep(op.ep()).is_some()
    {
        domain.fail_tx(op, error);
    }
}

fn end_receive(domain: &mut StateOf, ep: usize, recv: &RecvOp, what: What, error: Option<Error>) {
    if let Some(error) = error
        && domain.find_ep(ep).is_some()
    {
        domain.receive_failed(ep, recv, what, error);
    }
}
