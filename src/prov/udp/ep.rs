// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One endpoint: its socket, the groups that it has joined, and the conversion of messages to datagrams.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::group::{self, Group};
use super::info::{MAX_MESSAGE, QUEUE};
use super::outbox::Outbox;
use super::params;
use super::payload::Payload;
use super::rx::{Received, Receiver, Spare, read_errors};
use abi::*;
use base::info::{Info, ip};
use base::iovec::IOV_LIMIT;
use base::{Caps, Error, OpFlags, Result};
use engine::address::ip::Addr;
use engine::domain_state::DomainState;
use engine::pace::Pace;
use sys::addr;
use sys::datagram::DatagramSocket;
use sys::io_list::GatherList;
use sys::resolve::source_for;

pub struct Ep {
    /// The number in `domain.eps`.
    id: usize,
    pub socket: DatagramSocket,
    pub local: SocketAddr,
    receiver: Receiver,
    pub outbox: Outbox,
    pace: Pace,
    /// Set while the last messages wait for the next post; true if no message was held back before them.
    burst: Option<bool>,
    /// The groups, by the fi_addr that operations use.
    pub groups: BTreeMap<u64, Group>,
}

/// The result of sending a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    Now,
    /// The message is held back.
    Later,
    /// The message is held back, and the next one is about to be posted (`OPT_MORE_FOLLOWS`).
    BeforeNext,
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
        let local = local.or_else(|| ip::own_address(info, params().iface.as_deref()));
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
            receiver: Receiver::new(id),
            outbox: Outbox::default(),
            pace: Pace::default(),
            burst: None,
            groups: BTreeMap::new(),
        })
    }

    /// Changes to another address of the same family. If that is not available, the endpoint keeps its address.
    pub fn rename(&mut self, bytes: &[u8]) -> Result {
        let wanted = addr::from_bytes(bytes).filter(|addr| addr.is_ipv6() == self.local.is_ipv6());
        let wanted = wanted.ok_or(Error::INVAL)?;
        if wanted != self.local {
            self.socket = DatagramSocket::bound(wanted)?;
            self.local = self.socket.local()?;
        }
        Ok(())
    }

    /// Sends a message, or holds it back to be sent with others; `poll` is the number of the application's last poll.
    /// The library or the kernel has a copy then, which is all that an unreliable endpoint promises (fi_cq(3),
    /// FI_TRANSMIT_COMPLETE). `AGAIN`: there is no room for the message.
    #[inline]
    pub fn send(
        &mut self,
        domain: &DomainState<Addr>,
        payload: &impl Payload,
        dest: u64,
        flags: OpFlags,
        poll: u64,
    ) -> Result<Sent> {
        let to = match group::is_meant(dest, flags) {
            false => {
                let av = domain.eps[self.id].av.ok_or(Error::INVAL)?;
                domain.avs[av].get(dest).ok_or(Error::INVAL)?
            }
            true => self.groups.get(&dest).ok_or(Error::INVAL)?.destination()?,
        };
        let len = payload.len();
        if len > MAX_MESSAGE {
            return Err(Error::MSGSIZE);
        }
        let is_alone = self.outbox.is_empty();
        let waits = len <= SMALL && flags.contains(OpFlags::MORE);
        if is_alone && !waits && (self.pace.writes(poll) || len > SMALL) {
            send_now(&self.socket, payload, to)?;
            self.pace.wrote();
            return Ok(Sent::Now);
        }
        if len > SMALL || !self.outbox.has_room(len) {
            // Earlier messages go first.
            self.outbox.flush(&self.socket);
            if !self.outbox.is_empty() {
                return Err(Error::AGAIN);
            }
            send_now(&self.socket, payload, to)?;
            return Ok(Sent::Now);
        }
        self.outbox.push(to, payload, self.socket.cuts());
        if waits && domain.eps[self.id].more_follows {
            self.burst.get_or_insert(is_alone);
            return Ok(Sent::BeforeNext);
        }
        self.pace.gather();
        let is_burst = self.burst.take() == Some(true);
        if self.pace.is_full() {
            self.flush();
        } else if is_burst && self.pace.writes(poll) && self.flush() {
            return Ok(Sent::Now);
        }
        Ok(Sent::Later)
    }

    /// Sends the messages that were held back. Returns true if all of them have left.
    pub fn flush(&mut self) -> bool {
        self.outbox.flush(&self.socket);
        self.pace.wrote();
        self.outbox.is_empty()
    }

    /// Joins a group, for which operations use `address` from now on. Returns the socket that receives its messages.
    pub fn join(
        &mut self,
        address: u64,
        group: &Addr,
        sides: Caps,
    ) -> Result<Option<&DatagramSocket>> {
        let group = Group::join(group, sides, &self.socket, &self.local)?;
        // Otherwise each message would arrive twice.
        if self.groups.values().any(|other| group.repeats(other)) {
            return Err(Error::ADDRINUSE);
        }
        let group = self.groups.entry(address).or_insert(group);
        Ok(group.socket())
    }

    /// Receives datagrams from all its sockets, a limited number from each, so that other endpoints get their turn.
    #[inline]
    pub fn receive(&mut self, domain: &mut DomainState<Addr>, spare: &mut Spare) -> Received {
        let mut received = self.receiver.receive(domain, &mut self.socket, spare);
        if self.groups.is_empty() {
            return received;
        }
        for socket in self.groups.values_mut().filter_map(Group::socket_mut) {
            match (received, self.receiver.receive(domain, socket, spare)) {
                (Received::Full, _) => return Received::Full,
                (Received::Nothing, other) => received = other,
                _ => {}
            }
        }
        received
    }

    /// Calls `receive` until no datagram is left, or until the limit after which other endpoints get their turn.
    pub fn receive_all(&mut self, domain: &mut DomainState<Addr>, spare: &mut Spare) -> Received {
        for _ in 0..BURST {
            match self.receive(domain, spare) {
                Received::Datagrams => {}
                other => return other,
            }
        }
        Received::Datagrams
    }

    /// Reads the errors about datagrams that were sent. Until then they keep the sockets ready.
    pub fn hear(&self) {
        for socket in self.sockets() {
            read_errors(socket);
        }
    }

    /// Handles an address that was added to the endpoint's vector.
    pub fn inserted(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        self.receiver.inserted(domain, addr, index);
    }

    /// Handles an address that was removed from the vector.
    pub fn removed(&mut self, domain: &mut DomainState<Addr>, addr: &Addr, index: u64) {
        self.receiver.removed(domain, addr, index);
    }

    /// All sockets that receive datagrams for this endpoint.
    pub fn sockets(&self) -> impl Iterator<Item = &DatagramSocket> {
        let groups = self.groups.values().filter_map(Group::socket);
        core::iter::once(&self.socket).chain(groups)
    }
}

/// Sends one datagram directly from the application's memory.
#[inline]
fn send_now(socket: &DatagramSocket, payload: &impl Payload, to: &SocketAddr) -> Result {
    match socket.send(&payload.list(), to) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::AGAIN),
        Err(error) => send_again(socket, &payload.list(), to, error),
    }
}

/// Repeats a send whose error may concern a datagram that was sent before.
#[cold]
fn send_again(
    socket: &DatagramSocket,
    list: &GatherList<'_>,
    to: &SocketAddr,
    mut error: io::Error,
) -> Result {
    for _ in 0..TRIES {
        if !read_errors(socket) {
            break;
        }
        match socket.send(list, to) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(Error::AGAIN),
            Err(again) => error = again,
        }
    }
    Err(error.into())
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

/// Longer messages are not held back, because copying them costs more than it saves.
const SMALL: usize = 4096;
/// Limit on consecutive errors that may concern earlier datagrams.
const TRIES: usize = 4;
/// Limit on consecutive reads of a socket.
const BURST: usize = 64;
