// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The endpoints that need a turn without a packet. All other endpoints cost a poll nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

use crate::rxd::endpoint::Endpoint;

#[derive(Default)]
pub struct Agenda {
    /// Endpoints for whose work no packet or deadline will come. A poll swaps the list with `turn`, which it goes
    /// through.
    waiting: Vec<usize>,
    turn: Vec<usize>,
    /// Deadlines of endpoints. An entry that its endpoint has replaced is skipped when it is due.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
}

/// The entries of an endpoint in the agenda.
#[derive(Default)]
pub struct Entry {
    waits: bool,
    due: Option<Instant>,
}

impl Agenda {
    /// Records what the endpoint needs, after a call of its port.
    #[inline]
    pub fn note(&mut self, id: usize, endpoint: &mut Endpoint) {
        let (port, entry) = (&endpoint.port, &mut endpoint.entry);
        if port.waits() && !std::mem::replace(&mut entry.waits, true) {
            self.waiting.push(id);
        }
        if let Some(at) = port.deadline()
            && entry.due.is_none_or(|due| at < due)
        {
            entry.due = Some(at);
            self.due.push(Reverse((at, id)));
        }
    }

    /// Returns the endpoints that need a turn now. `note` records again what they need after it.
    pub fn begin_turn(&mut self, eps: &mut BTreeMap<usize, Endpoint>, now: Instant) -> Vec<usize> {
        let mut turn = std::mem::take(&mut self.turn);
        std::mem::swap(&mut turn, &mut self.waiting);
        for id in &turn {
            if let Some(endpoint) = eps.get_mut(id) {
                endpoint.entry.waits = false;
            }
        }
        while let Some(&Reverse((at, id))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            if let Some(endpoint) = eps.get_mut(&id)
                && endpoint.entry.due == Some(at)
            {
                endpoint.entry.due = None;
                turn.push(id);
            }
        }
        turn
    }

    /// Takes back the list, so that the next turn allocates no memory.
    pub fn end_turn(&mut self, mut turn: Vec<usize>) {
        turn.clear();
        self.turn = turn;
    }

    /// The endpoints for whose work no packet or deadline will come.
    pub fn waiting(&self) -> &[usize] {
        &self.waiting
    }

    /// A time at which an endpoint may need a turn, none of which comes earlier.
    pub fn earliest(&self) -> Option<Instant> {
        self.due.peek().map(|&Reverse((at, _))| at)
    }
}
