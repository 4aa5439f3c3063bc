// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The application of a rank: sends the messages of its plan, keeps receives posted, and checks that each message
//! arrives once, whole and in order.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::endpoint::{Ended, Endpoint, Message};
use crate::events::Time;
use crate::heap::uncounted;

/// A message of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub to: u32,
    pub len: u32,
    /// Earliest time, and the number of messages that must have arrived before.
    pub start: Time,
    pub after: u32,
}

/// Messages from one sender.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// All messages with lower numbers have arrived, the last of them in this receive.
    next: u32,
    last: Option<u32>,
    /// Completed messages with higher numbers, and their receives: a short message may complete before a long one.
    early: BTreeMap<u32, u32>,
    expected: u32,
    /// The sender is dead. Only messages that were on their way may still arrive.
    is_ended: bool,
}

impl Lane {
    fn received(&self) -> u32 {
        self.next + self.early.len() as u32
    }

    /// A message has completed this receive. Returns false if it has come twice, or in a receive that is not later than
    /// those of earlier messages.
    fn take(&mut self, number: u32, receive: u32) -> bool {
        if number >= self.expected || number < self.next {
            return false;
        }
        if self.early.insert(number, receive).is_some() {
            return false;
        }
        while let Some(receive) = self.early.remove(&self.next) {
            if self.last >= Some(receive) {
                return false;
            }
            self.last = Some(receive);
            self.next += 1;
        }
        true
    }
}

#[derive(Default)]
pub struct App {
    plan: Vec<Planned>,
    /// Number of the plan's messages that were posted, and that have ended.
    posted: usize,
    ended: usize,
    lanes: HashMap<u32, Lane>,
    /// Numbers of the next message to each peer.
    numbers: HashMap<u32, u32>,
    expected: u32,
    received: u32,
    receives: u32,
    /// Number of the next receive.
    receive: u32,
    /// Messages in flight at most.
    window: usize,
    /// Peers to which messages have failed.
    pub failed: Vec<u32>,
    /// The first violation of the rules of delivery.
    pub fault: Option<String>,
    /// Receives that have failed: their senders died in the middle of a message.
    pub lost: usize,
}

/// Messages in flight, and receives that are posted, at most.
const WINDOW: usize = 32;
const RECEIVES: u32 = 16;

impl App {
    pub fn new() -> App {
        App {
            window: WINDOW,
            ..App::default()
        }
    }

    pub fn plan(&mut self, planned: Planned) {
        self.plan.push(planned);
    }

    pub fn expect(&mut self, from: u32) {
        self.lanes.entry(from).or_default().expected += 1;
        self.expected += 1;
    }

    /// Nothing more comes from a rank.
    pub fn expect_no_more(&mut self, from: u32) {
        if let Some(lane) = self.lanes.get_mut(&from) {
            self.expected -= lane.expected - lane.received();
            lane.is_ended = true;
        }
    }

    /// The ranks with which this one exchanges messages.
    pub fn peers(&self) -> Vec<u32> {
        let mut peers: Vec<u32> = self.plan.iter().map(|planned| planned.to).collect();
        peers.extend(self.lanes.keys());
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    pub fn messages(&self) -> usize {
        self.plan.len()
    }

    pub fn longest(&self) -> usize {
        let lens = self.plan.iter().map(|planned| planned.len as usize);
        lens.max().unwrap_or(0)
    }

    /// Whether everything was sent and received.
    pub fn is_done(&self) -> bool {
        self.ended == self.plan.len() && self.received == self.expected
    }

    /// When the next message of the plan may be posted, if only the time matters.
    pub fn next_start(&self) -> Option<Time> {
        let next = self.plan.get(self.posted)?;
        let is_free = self.posted - self.ended < self.window && next.after <= self.received;
        is_free.then_some(next.start)
    }

    /// Reads completions and posts what is due. Returns the number of calls.
    pub fn step<E: Endpoint>(&mut self, endpoint: &mut E, now: Instant, own: u32, at: Time) -> u64 {
        let ended = endpoint.ended();
        let mut calls = ended.len() as u64;
        for ended in &ended {
            uncounted(|| self.took(ended));
        }
        uncounted(|| drop(ended));
        while self.receives < RECEIVES.min(self.expected.saturating_sub(self.received)) {
            endpoint.receive(now, self.receive);
            self.receive += 1;
            self.receives += 1;
            calls += 1;
        }
        while self.next_start().is_some_and(|start| start <= at) {
            let Planned { to, len, .. } = self.plan[self.posted];
            let number = uncounted(|| self.numbers.entry(to).or_default());
            let tag = u64::from(own) << 32 | u64::from(*number);
            calls += 1;
            if !endpoint.send(now, &Message { to, len, tag }) {
                break;
            }
            *number += 1;
            self.posted += 1;
        }
        calls
    }

    fn took(&mut self, ended: &Ended) {
        match *ended {
            Ended::Sent => self.ended += 1,
            Ended::Failed { to } => {
                self.ended += 1;
                self.failed.push(to);
            }
            Ended::Lost => {
                self.receives -= 1;
                self.lost += 1;
            }
            Ended::Received { tag, len, nth } => {
                self.receives -= 1;
                self.received += 1;
                let (from, number) = ((tag >> 32) as u32, tag as u32);
                let lane = self.lanes.entry(from).or_default();
                if !(lane.take(number, nth) && len != u32::MAX) && self.fault.is_none() {
                    self.fault = Some(format!(
                        "message {number} of rank {from} in place of {} of {}, {len} bytes",
                        lane.next, lane.expected
                    ));
                }
                self.expected += u32::from(lane.is_ended);
            }
        }
    }

    /// Describes missing messages, for a report.
    pub fn missing(&self) -> String {
        format!(
            "{} of {} sent ({} posted), {} of {} received{}",
            self.ended,
            self.plan.len(),
            self.posted,
            self.received,
            self.expected,
            self.fault
                .as_ref()
                .map_or_else(String::new, |fault| format!(", {fault}"))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes messages with these numbers and receives. Returns whether the rules of delivery hold for each.
    fn take<const N: usize>(all: [(u32, u32); N]) -> [bool; N] {
        let mut lane = Lane {
            expected: 3,
            ..Lane::default()
        };
        all.map(|(number, receive)| lane.take(number, receive))
    }

    #[test]
    fn messages_match_receives_in_order_and_once() {
        assert_eq!(take([(0, 0), (1, 4), (2, 5)]), [true; 3]);
        assert_eq!(take([(2, 5), (0, 0), (1, 4)]), [true; 3]);
        assert_eq!(take([(1, 0), (0, 4)]), [true, false]);
        assert_eq!(take([(0, 0), (0, 1)]), [true, false]);
        assert_eq!(take([(1, 0), (1, 1)]), [true, false]);
        assert_eq!(take([(3, 0)]), [false]);
    }
}
