// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Snapshots of connections for reports: see `engine::report`.

use core::time::Duration;
use std::collections::{BTreeMap, HashSet};

use super::conn::{Conn, State};
use super::flight::{Flight, Kind};
use super::state::{Due, Rxm, StateOf};
use abi::FI_ADDR_NOTAVAIL;
use engine::domain_state::TxOp;
use engine::report::patience::attend_with;
use engine::report::{Peer, Stage, Wait};
use object::ops::transfer::What;

impl Rxm {
    /// Describes the connections of an endpoint.
    pub fn tell_peers(&self, ep: usize) -> Vec<Peer> {
        let own = self.conns.iter().filter(|(_, conn)| conn.ep == ep);
        let mut peers: BTreeMap<usize, Peer> = own.map(|(id, conn)| (id, tell(conn))).collect();
        let now = self.reactor.now();
        let age = |stamp: u16| -> Option<Duration> { self.patience.age(stamp, now) };
        let mut add = |id: usize, wait: Wait| {
            if let Some(peer) = peers.get_mut(&id) {
                peer.add(wait);
            }
        };
        for (_, send) in &self.sends {
            let stage = match send.is_writing {
                true => Stage::Room,
                false => Stage::Match,
            };
            add(
                send.conn,
                Wait::of(&send.op, None, stage, age(send.op.since)),
            );
        }
        for (_, asked) in self
            .asked
            .iter()
            .filter(|(_, asked)| asked.result.is_some())
        {
            let (op, stage) = (&asked.op, Stage::Answer);
            add(asked.conn, Wait::of(op, None, stage, age(op.since)));
        }
        for (_, fetch) in &self.fetches {
            add(fetch.conn, Wait::receive(&fetch.envelope, age(fetch.since)));
        }
        let below = self.ops.iter().map(|flight| (flight, false));
        let held = self.conns.iter().flat_map(|(_, conn)| &conn.held);
        let held = held.map(|post| (&post.flight, true));
        let mut groups = HashSet::new();
        for (flight, is_held) in below.chain(held) {
            let is_first = |group: &usize| groups.insert(*group);
            if let Some(op) = self.op_of(flight, is_first) {
                let stage = match op.what {
                    _ if is_held => Stage::Turn,
                    What::Read => Stage::Answer,
                    _ => Stage::Room,
                };
                add(flight.conn, Wait::of(op, None, stage, age(op.since)));
            }
        }
        peers.into_values().collect()
    }

    /// Returns the operation that a flight belongs to, if it has no other flight or this is the first one.
    fn op_of<'a>(
        &'a self,
        flight: &'a Flight,
        mut is_first: impl FnMut(&usize) -> bool,
    ) -> Option<&'a TxOp> {
        match &flight.kind {
            Kind::Op(op) => Some(op),
            Kind::Part(group) if is_first(group) => Some(&self.groups[*group].op),
            _ => None,
        }
    }

    /// See `report::patience`.
    pub fn attend(&mut self, domain: &mut StateOf) {
        let now = self.reactor.now();
        attend_with(self, domain, now, |rxm| &mut rxm.patience);
    }

    /// Schedules a wake-up for the next check.
    pub fn arm_look(&mut self, domain: &StateOf) {
        if let Some(at) = self.patience.wakes(domain)
            && self.next_look.is_none()
        {
            self.next_look = Some(at);
            self.reactor.schedule(at, Due::Look);
        }
    }

    pub fn look_due(&mut self) {
        self.next_look = None;
    }
}

fn tell(conn: &Conn) -> Peer {
    let known = conn.fi_addr != FI_ADDR_NOTAVAIL;
    let mut peer = Peer {
        address: conn.peer.to_string(),
        fi_addr: known.then_some(conn.fi_addr),
        state: match conn.state {
            State::Idle => "not connected",
            State::Connecting => "connecting",
            State::Accepted => "waits for the end of its own connection request",
            State::Up => "connected",
            State::Over => "over",
        },
        is_up: conn.state == State::Up,
        is_opening: matches!(conn.state, State::Connecting | State::Accepted),
        link: "the provider below",
        attempts: conn.attempts,
        last_error: (conn.attempts > 0).then_some(conn.last_error.code()),
        ..Peer::default()
    };
    if !conn.held.is_empty() {
        peer.notes.push("takes no more operations below");
    }
    if conn.has_waiting() {
        peer.notes
            .push("is not read: there is no room for its messages");
    }
    peer
}
