// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A rank over ofi_rxd: its sessions, as the provider makes them, over a datagram socket with a bounded buffer.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::endpoint::{Ended, Endpoint, Message, Outgoing, Purpose, Setup, Work, content};
use crate::heap::uncounted;
use crate::network::Load;
use base::iovec::lent::TestMemory;
use object::ops::transfer::What;
use prov::rxd::proto::Packet;
use prov::rxd::testing::{From, Name, Node, default_settings};

/// Largest packet of a network with an MTU of 1,500 bytes.
const MTU: usize = 1472;
/// Entries of a completion queue whose size is left to the provider.
const CQ_SIZE: usize = 1024;
/// Packets that one poll of the provider takes at most.
const MOST: usize = 256;
/// Copies of the notice that an endpoint closes.
const LAST_WORDS: usize = 3;

pub struct Datagram(Box<[u8]>);

impl Load for Datagram {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn flow(&self) -> Option<u64> {
        None
    }
}

/// Packets that were sent to a peer.
#[derive(Default)]
struct Sent {
    next: u64,
    greetings: u32,
}

pub struct Rxd {
    node: Node<Purpose>,
    arrived: VecDeque<(u32, Datagram)>,
    buffer: usize,
    longest: usize,
    sent: HashMap<u32, Sent>,
    retries: u64,
    /// Sessions that must still be notified of the end, and copies of the notice for the last one.
    closing: Option<Vec<(usize, usize)>>,
}

impl Rxd {
    /// Counts what was sent before.
    fn count(&mut self, to: u32, bytes: &[u8]) {
        let seq = match Packet::decode(bytes) {
            Ok(Packet::Rts(_)) => None,
            Ok(Packet::Op(head, ..) | Packet::Data(head, _) | Packet::Answer(head, _)) => {
                Some(head.seq)
            }
            _ => return,
        };
        let sent = self.sent.entry(to).or_default();
        let is_repeated = match seq {
            None => {
                sent.greetings += 1;
                sent.greetings > 1
            }
            Some(seq) => {
                let before = sent.next;
                sent.next = before.max(seq + 1);
                seq < before
            }
        };
        self.retries += u64::from(is_repeated);
    }
}

impl Endpoint for Rxd {
    type Load = Datagram;

    fn open(setup: &Setup<'_>) -> Rxd {
        let memory = uncounted(|| vec![0; 8]);
        let seed = setup.seed ^ setup.place as u64;
        let mut node =
            Node::with_queue(setup.place, default_settings(), MTU, memory, seed, CQ_SIZE);
        node.insert(setup.peers.iter().map(|&peer| peer as usize));
        Rxd {
            node,
            arrived: VecDeque::new(),
            buffer: setup.limits.socket_packets,
            longest: setup.longest,
            sent: HashMap::new(),
            retries: 0,
            closing: None,
        }
    }

    fn arrive(&mut self, _now: Instant, from: usize, load: Datagram) -> Option<Datagram> {
        if self.arrived.len() >= self.buffer {
            return Some(load);
        }
        self.arrived.push_back((from as u32, load));
        None
    }

    fn unreachable(&mut self, peer: usize) {
        uncounted(|| self.node.socket.unreachable.push(peer as u64));
    }

    fn poll(&mut self, now: Instant, room: usize) -> Work {
        self.node.socket.room = room;
        let visits = self.node.port.common.stalled.len();
        let count = self.arrived.len().min(MOST);
        for _ in 0..count {
            let Some((from, Datagram(bytes))) = uncounted(|| self.arrived.pop_front()) else {
                break;
            };
            let from = from as usize;
            let source = match self.node.port.knows(from as u64) {
                true => From::Route(from as u64),
                false => From::UnknownSender(Some(Name::at(from))),
            };
            self.node.take(now, &source, &bytes);
            uncounted(|| drop(bytes));
        }
        let is_due = self.node.port.deadline().is_some_and(|at| at <= now);
        match count > 0 {
            true => self.node.settle_busy(now),
            false if is_due || self.node.port.waits() => self.node.settle(now),
            false => {}
        }
        Work {
            taken: count,
            visits,
            connects: 0,
        }
    }

    fn take_out(&mut self) -> Vec<Outgoing<Datagram>> {
        let mut out = uncounted(|| Vec::with_capacity(self.node.socket.sent.len()));
        for (to, bytes) in std::mem::take(&mut self.node.socket.sent) {
            let to = to as u32;
            uncounted(|| self.count(to, &bytes));
            let load = uncounted(|| Datagram(Box::from(&bytes[..])));
            out.push(Outgoing { to, load });
        }
        out
    }

    fn send(&mut self, now: Instant, message: &Message) -> bool {
        let memory = uncounted(|| content(message));
        let (tag, to) = (message.tag, message.to);
        let purpose = Purpose::SendTo(to);
        let posted = self.node.post(now, to as usize, memory, purpose, |tx| {
            (tx.what, tx.tag) = (What::Tagged, tag);
        });
        posted.is_ok()
    }

    fn receive(&mut self, now: Instant, nth: u32) {
        let memory = uncounted(|| TestMemory::new(vec![0; self.longest]));
        self.node.receive(now, memory, Purpose::Receive(nth), true);
    }

    fn ended(&mut self) -> Vec<Ended> {
        let all = uncounted(|| self.node.completions());
        let mut ended = uncounted(|| Vec::with_capacity(all.len()));
        for &(context, ref completion) in &all {
            let posted = self.node.posted.remove(context);
            if let Some(memory) = &posted.memory {
                ended.push(Ended::of(completion, posted.what, memory));
            }
            uncounted(|| drop(posted));
        }
        uncounted(|| drop(all));
        ended
    }

    fn close(&mut self, now: Instant) -> bool {
        let ids = || {
            self.node
                .port
                .ids()
                .into_iter()
                .rev()
                .map(|id| (id, LAST_WORDS))
        };
        let mut left = match self.closing.take() {
            Some(left) => left,
            None => uncounted(|| ids().collect()),
        };
        while let Some((id, copies)) = left.last_mut() {
            if !self.node.part(now, *id) {
                self.closing = Some(left);
                return false;
            }
            *copies -= 1;
            if *copies == 0 {
                left.pop();
            }
        }
        uncounted(|| drop(left));
        true
    }

    fn release(&mut self) {
        self.node.posted.clear();
        self.node.socket.unreachable = Vec::new();
        self.arrived = VecDeque::new();
        self.sent = HashMap::new();
    }

    fn has_input(&self) -> bool {
        !self.arrived.is_empty()
    }

    fn is_blocked(&self) -> bool {
        self.node.port.is_blocked()
    }

    fn deadline(&self) -> Option<Instant> {
        self.node.port.deadline()
    }

    fn connections(&self) -> usize {
        self.node.port.sessions().count()
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}
