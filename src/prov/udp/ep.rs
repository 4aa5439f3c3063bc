// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One endpoint: its socket, and how datagrams become messages.
//!
//! A read goes straight to the next posted receive, which is taken afterwards; this works because receives cannot name
//! a source here. Datagrams that no receive waits for are taken out of the socket: left there it would be ready all
//! the time, a sleeper would be woken for nothing, and posting a receive would have to tell the transport. Once no
//! more is kept, the socket is not watched until a receive has taken something.
//!
//! Senders that no vector has get numbers while messages of them are kept, so that one who is inserted before the
//! receive is posted is named by its completion.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::info::{MAX_MESSAGE, QUEUE};
use crate::abi::*;
use crate::base::info::Info;
use crate::base::iovec::IOV_LIMIT;
use crate::base::{Error, Result};
use crate::engine::address::ip::Addr;
use crate::engine::domain_state::{DomainState, MessageInfo, Sender};
use crate::engine::srx::Envelope;
use crate::ffi::ops::transfer::{Tx, What};
use crate::sys::addr;
use crate::sys::datagram::{DatagramSocket, MAX_DATAGRAM};
use crate::sys::io_list::{GatherList, ScatterList};
use crate::sys::resolve::source_for;

pub struct Ep {
    /// The number in `domain.eps`.
    id: usize,
    pub socket: DatagramSocket,
    pub local: SocketAddr,
    strangers: Strangers,
}

/// Who sent datagrams that are kept, and is in no address vector so far: matching knows them by numbers until they are.
#[derive(Default)]
struct Strangers {
    numbers: HashMap<Addr, u64>,
    last: u64,
}

/// What became of a look at the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    Datagram,
    Nothing,
    /// Datagrams have to wait in the socket: there is no room for one, or for what tells of it.
    Full,
}

impl Ep {
    pub fn open(id: usize, info: &Info) -> Result<Ep> {
        check(info)?;
        let given = |bytes: &Option<Vec<u8>>| match bytes {
            None => Ok(None),
            Some(bytes) => addr::from_bytes(bytes).map(Some).ok_or(Error::INVAL),
        };
        let (local, dest) = (given(&info.src_addr)?, given(&info.dest_addr)?);
        let local = local.or_else(|| source_for(&dest?));
        let any = match info.addr_format == FI_SOCKADDR_IN6 {
            true => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        };
        let socket = DatagramSocket::bound(local.unwrap_or(any))?;
        let local = socket.local()?;
        Ok(Ep {
            id,
            socket,
            local,
            strangers: Strangers::default(),
        })
    }

    /// Another address of the same family; if that cannot be had, it keeps the one it has.
    pub fn rename(&mut self, bytes: &[u8]) -> Result {
        let wanted = addr::from_bytes(bytes).filter(|addr| addr.is_ipv6() == self.local.is_ipv6());
        let wanted = wanted.ok_or(Error::INVAL)?;
        if wanted != self.local {
            self.socket = DatagramSocket::bound(wanted)?;
            self.local = self.socket.local()?;
        }
        Ok(())
    }

    /// Sends a message at once. The kernel has a copy then, which is all that an unreliable endpoint promises
    /// (fi_cq(3), FI_TRANSMIT_COMPLETE). `AGAIN`: the socket's buffer is full.
    pub fn send(&self, domain: &DomainState<Addr>, tx: &Tx<'_>) -> Result {
        let av = domain.ep(self.id).av.ok_or(Error::INVAL)?;
        let to = domain.av(av).get(tx.dest).ok_or(Error::INVAL)?;
        let mut bytes = GatherList::new();
        tx.iov.append_to(&mut bytes, usize::MAX);
        match self.socket.send(&bytes, to)? {
            true => Ok(()),
            false => Err(Error::AGAIN),
        }
    }

    /// Takes one datagram from the socket. Its bytes go to the receive that is next, those that it has no room for to
    /// `rest`. All go there where no receive is posted, and are kept.
    pub fn receive(&mut self, domain: &mut DomainState<Addr>, rest: &mut [u8]) -> Received {
        let ep = domain.ep(self.id);
        if !ep.enabled {
            return Received::Nothing;
        }
        let rx_queue = domain.rx_queue_mut(ep.srx);
        let mut list = ScatterList::new();
        let room = rx_queue.next_room();
        let (is_posted, placed) = match room {
            Some(room) => (true, room.append_to(&mut list, usize::MAX)),
            None => (false, 0),
        };
        let has_room =
            is_posted || rx_queue.has_room(self.id as u64, MAX_DATAGRAM as u64, MAX_KEPT);
        if !has_room || !domain.may_receive(self.id) {
            return Received::Full;
        }
        list.push(&mut rest[..MAX_DATAGRAM.saturating_sub(placed)]);
        // An error of a socket without a connection is one of the kernel, and gone with this call.
        let Ok(Some((len, from))) = self.socket.receive(&list) else {
            return Received::Nothing;
        };
        let from = addr::canonical(from);
        match is_posted {
            true => self.fill(domain, len, &from),
            false => self.keep(domain, &rest[..len.min(MAX_DATAGRAM)], &from),
        }
        Received::Datagram
    }

    /// The next receive has the bytes of a datagram.
    fn fill(&self, domain: &mut DomainState<Addr>, len: usize, from: &Addr) {
        let sender = Sender {
            fi_addr: self.index_of(domain, from).unwrap_or(FI_ADDR_NOTAVAIL),
            addr: Some(from),
        };
        let envelope = self.envelope(len, sender.fi_addr);
        let rx_queue = domain.rx_queue_mut(domain.ep(self.id).srx);
        if let Some(recv) = rx_queue.accept(&envelope) {
            domain.received(self.id, &recv, &envelope, &sender);
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
        let slot = rx_queue.keep_whole(envelope, |kept| kept.extend_from_slice(bytes));
        if reports_origin {
            rx_queue.note_origin(slot, addr::to_bytes(from));
        }
    }

    fn index_of(&self, domain: &DomainState<Addr>, addr: &Addr) -> Option<u64> {
        domain.av(domain.ep(self.id).av?).find(addr)
    }

    fn envelope(&self, len: usize, source: u64) -> Envelope {
        let message = MessageInfo {
            what: What::Msg,
            len: len as u64,
            tag: 0,
            data: None,
        };
        // All peers share what may be kept: anybody can send as many.
        message.envelope(source, self.id, self.id as u64)
    }

    /// The number of a sender that no vector has.
    fn stranger(&mut self, domain: &DomainState<Addr>, from: &Addr) -> u64 {
        let Strangers { numbers, last } = &mut self.strangers;
        if domain.rx_queue(domain.ep(self.id).srx).unexpected_len() == 0 {
            numbers.clear();
        }
        if numbers.len() == MAX_STRANGERS {
            return FI_ADDR_NOTAVAIL;
        }
        *numbers.entry(*from).or_insert_with(|| {
            *last += 1;
            STRANGER | *last
        })
    }

    /// This address is in the vector from now on: so is whoever sent what is kept from there.
    pub fn inserted(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        if let Some(number) = self.strangers.numbers.remove(addr) {
            domain.each_srx(self.id, |srx| srx.rename_source(number, index));
        }
    }
}

/// What a completion calls the source that matching knows.
#[inline]
pub fn fi_addr_of(source: u64) -> u64 {
    match source & STRANGER {
        0 => source,
        _ => FI_ADDR_NOTAVAIL,
    }
}

fn check(info: &Info) -> Result {
    match fi_ep_type(info.ep.ep_type) {
        FI_EP_DGRAM => {}
        FI_EP_MSG | FI_EP_RDM => return Err(Error::NOSYS),
        _ => return Err(Error::INVAL),
    }
    let fits = info.handle == 0
        && info.tx.size.max(info.rx.size) <= QUEUE
        && info.tx.inject_size <= MAX_MESSAGE
        && info.tx.iov_limit.max(info.rx.iov_limit) <= IOV_LIMIT;
    fits.then_some(()).ok_or(Error::INVAL)
}

/// The bit of the numbers that are no index of a vector. FI_ADDR_NOTAVAIL has it, too.
const STRANGER: u64 = 1 << 63;
/// Whoever comes after so many stays unknown: anybody can send from many addresses.
const MAX_STRANGERS: usize = 1024;

/// Bytes that datagrams without a receive take at most in a receive context. The socket's buffer holds more of them,
/// and then they are lost.
const MAX_KEPT: usize = 1 << 20;
