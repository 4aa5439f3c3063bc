// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A multicast group that an endpoint has joined: fi_cm(3), fi_join.
//!
//! What is sent to a group comes in by a socket of its own, bound to the group: that of the endpoint mostly has an
//! address of this host, and gets nothing else. The interface is the one of that address.
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use crate::base::{Caps, Error, OpFlags, Result};
use crate::engine::address::ip::Addr;
use crate::sys::datagram::DatagramSocket;
use crate::sys::netif::index_of;

pub struct Group {
    addr: SocketAddr,
    /// None for a member that only sends.
    socket: Option<DatagramSocket>,
    may_send: bool,
}

impl Group {
    /// `own` is the endpoint's socket, `local` its address. A group without a port has that of the endpoint.
    pub fn join(
        group: &Addr,
        sides: Caps,
        own: &DatagramSocket,
        local: &SocketAddr,
    ) -> Result<Group> {
        if !group.ip().is_multicast() || group.is_ipv6() != local.is_ipv6() {
            return Err(Error::INVAL);
        }
        let mut addr = *group;
        if addr.port() == 0 {
            addr.set_port(local.port());
        }
        if let SocketAddr::V6(addr) = &mut addr
            && addr.scope_id() == 0
        {
            addr.set_scope_id(interface_of(local));
        }
        let socket = match sides.contains(Caps::RECV) {
            true => Some(DatagramSocket::of_group(addr, local.ip(), own)?),
            false => None,
        };
        let may_send = sides.contains(Caps::SEND);
        if may_send {
            own.send_to_groups_from(local.ip(), addr)?;
        }
        Ok(Group {
            addr,
            socket,
            may_send,
        })
    }

    /// Where its messages come in.
    pub fn socket(&self) -> Option<&DatagramSocket> {
        self.socket.as_ref()
    }

    pub fn socket_mut(&mut self) -> Option<&mut DatagramSocket> {
        self.socket.as_mut()
    }

    /// Both would bring the same messages.
    pub fn repeats(&self, other: &Group) -> bool {
        self.addr == other.addr && self.socket.is_some() && other.socket.is_some()
    }

    /// Where operations send to.
    pub fn destination(&self) -> Result<&SocketAddr> {
        match self.may_send {
            true => Ok(&self.addr),
            false => Err(Error::ACCES),
        }
    }
}

/// The number of the interface that has this address, 0 for any.
fn interface_of(local: &SocketAddr) -> u32 {
    match local {
        SocketAddr::V6(local) if local.scope_id() != 0 => local.scope_id(),
        local if local.ip().is_unspecified() => 0,
        local => index_of(local.ip()).unwrap_or(0),
    }
}

/// What operations name the `n`th group of a domain by.
pub const fn address(n: u64) -> u64 {
    GROUP | n
}

/// Whether an operation is for a group. An inject call has no flags; what it names is enough.
#[inline]
pub fn is_meant(dest: u64, flags: OpFlags) -> bool {
    flags.contains(OpFlags::MULTICAST) || dest >> 61 == GROUP >> 61
}

/// No index of an address vector is that large, and FI_ADDR_NOTAVAIL has bits besides.
const GROUP: u64 = 1 << 61;
