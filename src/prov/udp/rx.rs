// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Delivers datagrams as messages to an endpoint.
//!
//! A read goes directly to the next posted receives, which are taken off the queue afterwards; this works because
//! receives cannot name a source here. Each receive is followed by spare memory for the bytes that exceed it. If the
//! kernel joins datagrams, all of them go to the spare memory first, because it is not known in advance which receive
//! gets which datagram.
//!
//! Datagrams without a matching receive are taken out of the socket. Otherwise the socket would be ready all the time,
//! a sleeping thread would be woken for nothing, and posting a receive would have to notify the transport. When the
//! limit on unexpected messages is reached, the socket is not watched until a receive has taken a message.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::SOURCE;
use abi::*;
use base::IoVec;
use base::log::{Subsys, log_misuse};
use engine::address::ip::Addr;
use engine::domain_state::{DomainState, MessageInfo, Sender};
use engine::srx::Envelope;
use engine::strangers::{UnknownSenders, fi_addr_of};
use object::ops::transfer::What;
use sys::addr;
use sys::datagram::{Arrival, DatagramSocket, MAX_DATAGRAM, ROW};
use sys::io_list::ScatterList;

pub struct Receiver {
    /// The endpoint's number in `domain.eps`.
    id: usize,
    strangers: UnknownSenders<Addr>,
    /// The address and index of the last sender that is in the vector, and the number of removals from vectors when the
    /// index was looked up.
    last: Option<(Addr, u64, u64)>,
    /// Number of consecutive reads that have found a datagram.
    streak: u8,
    /// Whether the last read found joined datagrams.
    is_joined: bool,
}

/// The result of reading the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    Datagrams,
    Nothing,
    /// Datagrams have to wait in the socket: there is no room for one, or for its completion.
    Full,
}

/// Memory for bytes that exceed a receive, one part for each buffer of a read. Parts that are not used need no pages.
pub struct Spare(Box<[u8]>);

impl Spare {
    pub fn new() -> Spare {
        Spare(vec![0; ROW * MAX_DATAGRAM].into())
    }
}

impl Receiver {
    pub fn new(id: usize) -> Receiver {
        Receiver {
            id,
            strangers: UnknownSenders::new(),
            last: None,
            streak: 0,
            is_joined: false,
        }
    }

    /// Takes datagrams from a socket of the endpoint by one system call: one, or several if more are expected.
    #[inline]
    pub fn receive(
        &mut self,
        domain: &mut DomainState<Addr>,
        socket: &mut DatagramSocket,
        spare: &mut Spare,
    ) -> Received {
        let received = match self.streak {
            0..STREAM => self.look(domain, socket, spare),
            _ if self.is_joined => self.read::<JOINED>(domain, socket, spare),
            _ => self.read::<ROW>(domain, socket, spare),
        };
        self.streak = match received {
            Received::Datagrams => self.streak.saturating_add(1),
            _ => 0,
        };
        received
    }

    /// Does the same as `receive`, with one buffer: usually that of the next receive. Usually there is no datagram.
    #[inline]
    fn look(
        &mut self,
        domain: &mut DomainState<Addr>,
        socket: &mut DatagramSocket,
        spare: &mut Spare,
    ) -> Received {
        let ep = &domain.eps[self.id];
        let room = match socket.joins() {
            false => domain.srxs[ep.srx].rooms().next(),
            true => None,
        };
        let (Some(room), true) = (room, ep.enabled && domain.may_receive(self.id)) else {
            return self.read::<1>(domain, socket, spare);
        };
        let mut list = ScatterList::new();
        room.scatter_to(&mut list, MAX_DATAGRAM);
        match socket.receive_one(&list) {
            Ok(None) => Received::Nothing,
            Ok(Some(arrival)) => {
                self.fill(domain, arrival.len, &addr::canonical(arrival.from));
                Received::Datagrams
            }
            Err(error) => {
                not_received(socket, &error);
                self.read::<1>(domain, socket, spare)
            }
        }
    }

    /// Does the same as `receive`, with at most `N` buffers.
    #[inline(never)]
    fn read<const N: usize>(
        &mut self,
        domain: &mut DomainState<Addr>,
        socket: &mut DatagramSocket,
        spare: &mut Spare,
    ) -> Received {
        let ep = &domain.eps[self.id];
        if !ep.enabled {
            return Received::Nothing;
        }
        let srx = ep.srx;
        let rx_queue = &domain.srxs[srx];
        let mut rooms = rx_queue.rooms().peekable();
        let is_posted = rooms.peek().is_some();
        let has_room = is_posted || rx_queue.has_room(self.id as u64, MOST_AT_ONCE, MAX_KEPT);
        if !has_room || !domain.may_receive(self.id) {
            return Received::Full;
        }
        let is_direct = is_posted && !self.is_joined;
        let mut lists: [_; N] = core::array::from_fn(|_| ScatterList::new());
        let mut placed = [0; N];
        let mut places = 0;
        for (place, part) in spare.0.chunks_exact_mut(MAX_DATAGRAM).take(N).enumerate() {
            match rooms.next() {
                Some(room) if is_direct => {
                    placed[place] = room.scatter_to(&mut lists[place], MAX_DATAGRAM);
                }
                // A datagram for which no receive is posted must be the last one of this read.
                None if place > 0 => break,
                _ => {}
            }
            // Without joining a buffer gets one datagram. So the receive alone is enough: excess bytes are cut off.
            if !is_direct || socket.joins() {
                lists[place].push(&mut part[placed[place]..]);
            }
            places += 1;
        }
        drop(rooms);
        let mut arrivals = [NOTHING; N];
        let n = read_past_errors(socket, &lists[..places], &mut arrivals);
        // All buffers were filled, so this is a stream of datagrams.
        if n > 1 && n == places && !socket.joins() {
            socket.join();
        }
        let placed = if is_direct { &placed[..n] } else { &[] };
        self.settle(domain, spare, &arrivals[..n], placed);
        match n {
            0 => Received::Nothing,
            _ => Received::Datagrams,
        }
    }

    /// Passes the datagrams to their receives. `placed`: number of bytes of each buffer that belong to a receive.
    fn settle(
        &mut self,
        domain: &mut DomainState<Addr>,
        spare: &mut Spare,
        arrivals: &[Arrival],
        placed: &[usize],
    ) {
        // Single datagrams in the first receives are in their final place.
        let in_place = arrivals.iter().zip(placed);
        let in_place = in_place
            .take_while(|(arrival, _)| arrival.is_single())
            .count();
        // The receives behind a joined row do not own the datagrams that lie in them.
        let rooms = domain.srxs[domain.eps[self.id].srx].rooms().zip(placed);
        let parts = spare.0.chunks_exact_mut(MAX_DATAGRAM).zip(arrivals);
        for ((part, arrival), (room, &placed)) in parts.zip(rooms).skip(in_place) {
            let mut bytes = room.cursor();
            bytes.truncate(arrival.len.min(placed));
            let len = bytes.remaining();
            bytes.copy_to(&mut part[..len]);
        }
        for arrival in &arrivals[..in_place] {
            self.fill(domain, arrival.len, &addr::canonical(arrival.from));
        }
        let parts = spare.0.chunks_exact(MAX_DATAGRAM).zip(arrivals);
        for (part, arrival) in parts.skip(in_place) {
            let bytes = &part[..arrival.len.min(MAX_DATAGRAM)];
            let from = addr::canonical(arrival.from);
            self.deliver(domain, bytes, arrival.size, &from);
        }
        self.is_joined = !arrivals.iter().all(Arrival::is_single);
    }

    /// Completes the next receive, which has the bytes of a datagram already.
    #[inline]
    fn fill(&mut self, domain: &mut DomainState<Addr>, len: usize, from: &Addr) {
        let fi_addr = self.index_of(domain, from).unwrap_or(FI_ADDR_NOTAVAIL);
        if let Some(mut path) = domain.inlet(self.id, fi_addr)
            && path
                .take::<false>(&message(len), fi_addr, |_: &IoVec| {})
                .is_ok()
        {
            return;
        }
        let envelope = self.envelope(len, fi_addr);
        let rx_queue = &mut domain.srxs[domain.eps[self.id].srx];
        if let Some(recv) = rx_queue.accept(&envelope) {
            let addr = Some(from);
            domain.received(self.id, &recv, &envelope, &Sender { fi_addr, addr });
        }
    }

    /// Passes datagrams of one sender, of `size` bytes each except the last, to receives, or saves them.
    fn deliver(&mut self, domain: &mut DomainState<Addr>, bytes: &[u8], size: usize, from: &Addr) {
        if bytes.is_empty() {
            return self.deliver_one(domain, bytes, from);
        }
        let source = self.index_of(domain, from).unwrap_or(FI_ADDR_NOTAVAIL);
        let mut datagrams = bytes.chunks(size).peekable();
        loop {
            // Usually all of them go to plain receives that have room.
            if let Some(mut path) = domain.inlet(self.id, source) {
                while let Some(datagram) = datagrams.peek()
                    && path
                        .take::<false>(&message(datagram.len()), source, *datagram)
                        .is_ok()
                {
                    datagrams.next();
                }
            }
            match datagrams.next() {
                Some(datagram) => self.deliver_one(domain, datagram, from),
                None => return,
            }
        }
    }

    fn deliver_one(&mut self, domain: &mut DomainState<Addr>, bytes: &[u8], from: &Addr) {
        let sender = Sender {
            fi_addr: self.index_of(domain, from).unwrap_or(FI_ADDR_NOTAVAIL),
            addr: Some(from),
        };
        let envelope = self.envelope(bytes.len(), sender.fi_addr);
        let rx_queue = &mut domain.srxs[domain.eps[self.id].srx];
        match rx_queue.accept(&envelope) {
            Some(mut recv) => {
                recv.iov.copy_in(bytes);
                domain.received(self.id, &recv, &envelope, &sender);
            }
            None => self.keep(domain, bytes, from),
        }
    }

    /// Saves a datagram without a matching receive.
    #[cold]
    fn keep(&mut self, domain: &mut DomainState<Addr>, bytes: &[u8], from: &Addr) {
        let index = self.index_of(domain, from);
        let source = index.unwrap_or_else(|| self.stranger(domain, from));
        let reports_origin = domain.reports_origin(self.id, fi_addr_of(source));
        let envelope = self.envelope(bytes.len(), source);
        let rx_queue = &mut domain.srxs[domain.eps[self.id].srx];
        if !rx_queue.has_room(envelope.token, envelope.len, MAX_KEPT) {
            log_misuse!(
                &SOURCE,
                Subsys::EpData,
                "a datagram of {from} is lost: {MAX_KEPT} bytes wait for receives"
            );
            return;
        }
        let slot = rx_queue.keep_whole(envelope, |kept| kept.extend_from_slice(bytes));
        if reports_origin {
            rx_queue.record_origin(slot, addr::to_bytes(from));
        }
        if source != FI_ADDR_NOTAVAIL {
            domain.keeps_messages(self.id, from);
        }
    }

    #[inline]
    fn index_of(&mut self, domain: &DomainState<Addr>, addr: &Addr) -> Option<u64> {
        match &self.last {
            Some((last, index, at)) if last == addr && *at == domain.removals => Some(*index),
            _ => {
                let index = domain.avs[domain.eps[self.id].av?].find(addr)?;
                self.last = Some((*addr, index, domain.removals));
                Some(index)
            }
        }
    }

    fn envelope(&self, len: usize, source: u64) -> Envelope {
        // All senders share one limit, because any program can use any number of addresses.
        message(len).envelope(source, self.id, self.id as u64)
    }

    /// Returns the number of a sender that no vector has.
    fn stranger(&mut self, domain: &DomainState<Addr>, from: &Addr) -> u64 {
        let rx_queue = &domain.srxs[domain.eps[self.id].srx];
        self.strangers.number(from, rx_queue.unexpected_len())
    }

    /// Handles an address that was added to the vector: saved messages from there get its index.
    pub fn inserted(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        if let Some(number) = self.strangers.inserted(addr) {
            domain.rename_source(self.id, number, index);
        }
    }

    /// Handles an address that was removed from the vector. Its index may be reused for another peer, so saved messages
    /// from the address get the number of a sender that no vector has.
    pub fn removed(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        let number = self.stranger(domain, addr);
        domain.forget_source(self.id, index, number, addr);
    }
}

fn message(len: usize) -> MessageInfo {
    MessageInfo {
        what: What::Msg,
        len: len as u64,
        tag: 0,
        data: None,
    }
}

/// Returns the number of filled buffers. An error about one datagram does not keep others from being read.
fn read_past_errors(
    socket: &DatagramSocket,
    lists: &[ScatterList<'_>],
    arrivals: &mut [Arrival],
) -> usize {
    for _ in 0..TRIES {
        match socket.receive(lists, arrivals) {
            Ok(n) => return n,
            Err(error) => not_received(socket, &error),
        }
    }
    0
}

/// Handles an error, which usually concerns a datagram that was sent.
#[cold]
fn not_received(socket: &DatagramSocket, error: &io::Error) {
    if !read_errors(socket) {
        log_misuse!(&SOURCE, Subsys::EpData, "receiving: {error}");
    }
}

/// Logs the errors of routers and hosts about datagrams that were sent. Returns true if there were any.
#[cold]
pub fn read_errors(socket: &DatagramSocket) -> bool {
    let mut heard = false;
    while let Some(complaint) = socket.complaint() {
        heard = true;
        let (to, error) = (complaint.to, complaint.error);
        log_misuse!(
            &SOURCE,
            Subsys::EpData,
            "a datagram to {to} is lost: {error}"
        );
    }
    heard
}

/// Limit on the bytes of unexpected datagrams in a receive context. Further ones stay in the socket's buffer, and are
/// lost when that is full.
const MAX_KEPT: usize = 1 << 20;
/// Greatest cost of the unexpected datagrams of one read, with their overhead.
const MOST_AT_ONCE: u64 = 2 * MAX_DATAGRAM as u64;
/// Number of buffers of a read if each of them gets many datagrams.
const JOINED: usize = 4;
/// After this many consecutive reads that found a datagram, the next ones use more buffers.
const STREAM: u8 = 2;
/// Limit on consecutive errors.
const TRIES: usize = 4;

const NOTHING: Arrival = Arrival {
    from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    len: 0,
    size: 0,
};
