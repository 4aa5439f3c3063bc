// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How datagrams become messages of an endpoint.
//!
//! A read goes straight to the next posted receives, which are taken afterwards; this works because receives cannot
//! name a source here. Behind each is memory for what it has no room for. Where the kernel joins datagrams, all go to
//! that memory first: nobody knows then which receive is whose.
//!
//! Datagrams that no receive waits for are taken out of the socket: left there it would be ready all the time, a
//! sleeper would be woken for nothing, and posting a receive would have to tell the transport. Once no more is kept,
//! the socket is not watched until a receive has taken something.
#![forbid(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::SOURCE;
use crate::abi::*;
use crate::base::log::{Subsys, log_misuse};
use crate::engine::address::ip::Addr;
use crate::engine::domain_state::{DomainState, MessageInfo, Sender};
use crate::engine::srx::Envelope;
use crate::engine::strangers::{Strangers, fi_addr_of};
use crate::ffi::ops::transfer::What;
use crate::sys::addr;
use crate::sys::datagram::{Arrival, DatagramSocket, MAX_DATAGRAM, ROW};
use crate::sys::io_list::ScatterList;

pub struct Receiver {
    /// The endpoint's number in `domain.eps`.
    id: usize,
    strangers: Strangers<Addr>,
    /// Who sent the last datagram of a sender that the vector has, and its index.
    last: Option<(Addr, u64)>,
    /// Reads in a row that have found something.
    streak: u8,
    /// The last read has found joined datagrams.
    is_joined: bool,
}

/// What became of a look at the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    Datagrams,
    Nothing,
    /// Datagrams have to wait in the socket: there is no room for one, or for what tells of it.
    Full,
}

/// Memory for what receives have no room for, a part for each place of a read. What is not used is not there.
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
            strangers: Strangers::new(),
            last: None,
            streak: 0,
            is_joined: false,
        }
    }

    /// Takes datagrams from a socket of the endpoint by one call of the kernel: one, or more where more are expected.
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

    /// As `receive`, for one place: mostly the next receive, and mostly there is nothing.
    #[inline]
    fn look(
        &mut self,
        domain: &mut DomainState<Addr>,
        socket: &mut DatagramSocket,
        spare: &mut Spare,
    ) -> Received {
        let ep = domain.ep(self.id);
        let room = match socket.joins() {
            false => domain.rx_queue(ep.srx).rooms().next(),
            true => None,
        };
        let (Some(room), true) = (room, ep.enabled && domain.may_receive(self.id)) else {
            return self.read::<1>(domain, socket, spare);
        };
        let mut list = ScatterList::new();
        room.append_to(&mut list, MAX_DATAGRAM);
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

    /// As `receive`, with `N` places at most.
    #[inline(never)]
    fn read<const N: usize>(
        &mut self,
        domain: &mut DomainState<Addr>,
        socket: &mut DatagramSocket,
        spare: &mut Spare,
    ) -> Received {
        let ep = domain.ep(self.id);
        if !ep.enabled {
            return Received::Nothing;
        }
        let srx = ep.srx;
        let rx_queue = domain.rx_queue(srx);
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
                    placed[place] = room.append_to(&mut lists[place], MAX_DATAGRAM);
                }
                // A datagram that no receive waits for is the last to be read.
                None if place > 0 => break,
                _ => {}
            }
            // A receive alone is enough where nothing can be behind its datagram.
            if !is_direct || socket.joins() {
                lists[place].push(&mut part[placed[place]..]);
            }
            places += 1;
        }
        drop(rooms);
        let mut arrivals = [NOTHING; N];
        let n = read_past_errors(socket, &lists[..places], &mut arrivals);
        // There is a stream of them.
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

    /// What came goes to its receives. `placed`: how many bytes of each place are those of a receive.
    fn settle(
        &mut self,
        domain: &mut DomainState<Addr>,
        spare: &mut Spare,
        arrivals: &[Arrival],
        placed: &[usize],
    ) {
        // Single datagrams for the first receives are where they belong.
        let in_place = arrivals.iter().zip(placed);
        let in_place = in_place
            .take_while(|(arrival, _)| arrival.is_single())
            .count();
        // The receives behind a joined row are not for what lies there.
        let rooms = domain.rx_queue(domain.ep(self.id).srx).rooms().zip(placed);
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

    /// The next receive has the bytes of a datagram.
    #[inline]
    fn fill(&mut self, domain: &mut DomainState<Addr>, len: usize, from: &Addr) {
        let fi_addr = self.index_of(domain, from).unwrap_or(FI_ADDR_NOTAVAIL);
        if let Some(mut path) = domain.inlet(self.id, fi_addr)
            && path.take(&message(len), fi_addr, |_| {}).is_ok()
        {
            return;
        }
        let envelope = self.envelope(len, fi_addr);
        let rx_queue = domain.rx_queue_mut(domain.ep(self.id).srx);
        if let Some(recv) = rx_queue.accept(&envelope) {
            let addr = Some(from);
            domain.received(self.id, &recv, &envelope, &Sender { fi_addr, addr });
        }
    }

    /// Datagrams of one sender, of `size` bytes each but for the last, go to receives, or are kept.
    fn deliver(&mut self, domain: &mut DomainState<Addr>, bytes: &[u8], size: usize, from: &Addr) {
        if bytes.is_empty() {
            return self.deliver_one(domain, bytes, from);
        }
        let source = self.index_of(domain, from).unwrap_or(FI_ADDR_NOTAVAIL);
        let mut datagrams = bytes.chunks(size).peekable();
        loop {
            // Most are all for plain receives that have room.
            if let Some(mut path) = domain.inlet(self.id, source) {
                while let Some(datagram) = datagrams.peek()
                    && path
                        .take(&message(datagram.len()), source, |room| room.fill(datagram))
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
        let rx_queue = domain.rx_queue_mut(domain.ep(self.id).srx);
        match rx_queue.accept(&envelope) {
            Some(mut recv) => {
                recv.iov.copy_in(bytes);
                domain.received(self.id, &recv, &envelope, &sender);
            }
            None => self.keep(domain, bytes, from),
        }
    }

    /// A datagram that no receive waits for.
    #[cold]
    fn keep(&mut self, domain: &mut DomainState<Addr>, bytes: &[u8], from: &Addr) {
        let index = self.index_of(domain, from);
        let source = index.unwrap_or_else(|| self.stranger(domain, from));
        let reports_origin = domain.reports_origin(self.id, fi_addr_of(source));
        let envelope = self.envelope(bytes.len(), source);
        let rx_queue = domain.rx_queue_mut(domain.ep(self.id).srx);
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
            rx_queue.note_origin(slot, addr::to_bytes(from));
        }
    }

    #[inline]
    fn index_of(&mut self, domain: &DomainState<Addr>, addr: &Addr) -> Option<u64> {
        match &self.last {
            Some((last, index)) if last == addr => Some(*index),
            _ => {
                let index = domain.av(domain.ep(self.id).av?).find(addr)?;
                self.last = Some((*addr, index));
                Some(index)
            }
        }
    }

    fn envelope(&self, len: usize, source: u64) -> Envelope {
        // All peers share what may be kept: anybody can send as many.
        message(len).envelope(source, self.id, self.id as u64)
    }

    /// The number of a sender that no vector has.
    fn stranger(&mut self, domain: &DomainState<Addr>, from: &Addr) -> u64 {
        let rx_queue = domain.rx_queue(domain.ep(self.id).srx);
        self.strangers.number(from, rx_queue.unexpected_len())
    }

    /// This address is in the vector from now on: so is whoever sent what is kept from there.
    pub fn inserted(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        if let Some(number) = self.strangers.inserted(addr) {
            domain.rename_source(self.id, number, index);
        }
    }

    /// This address has left the vector, whose index may be another peer's next: messages that are kept of the address
    /// get the number of a sender that no vector has.
    pub fn removed(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        self.last = None;
        let number = self.stranger(domain, addr);
        domain.forget_source(self.id, index, number, addr);
    }
}

impl Arrival {
    /// It is one datagram.
    fn is_single(&self) -> bool {
        self.size == self.len
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

/// How many places are filled. What is wrong with one datagram does not keep others from being read.
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

/// Mostly an error is about what was sent.
#[cold]
fn not_received(socket: &DatagramSocket, error: &io::Error) {
    if !hear_complaints(socket) {
        log_misuse!(&SOURCE, Subsys::EpData, "receiving: {error}");
    }
}

/// Logs what routers and hosts say about datagrams that were sent. Whether there was anything.
#[cold]
pub fn hear_complaints(socket: &DatagramSocket) -> bool {
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

/// Bytes that datagrams without a receive take at most in a receive context. The socket's buffer holds more of them,
/// and then they are lost.
const MAX_KEPT: usize = 1 << 20;
/// What one read may bring that is to be kept, with what keeping it costs.
const MOST_AT_ONCE: u64 = 2 * MAX_DATAGRAM as u64;
/// Places of a read where each brings many datagrams.
const JOINED: usize = 4;
/// So many reads in a row that find something are a stream: the next ones ask for more.
const STREAM: u8 = 2;
/// Errors in a row.
const TRIES: usize = 4;

const NOTHING: Arrival = Arrival {
    from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    len: 0,
    size: 0,
};
