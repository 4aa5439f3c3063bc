// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A multicast group that an endpoint has joined: fi_cm(3), fi_join.
//!
//! A socket of its own, bound to the group, receives messages to the group. The endpoint's socket is usually bound to
//! an address of this host and does not get them. The group is joined on the interface of that address.

use std::net::SocketAddr;

use base::{Caps, Error, OpFlags, Result};
use engine::address::ip::Addr;
use sys::datagram::DatagramSocket;
use sys::netif::index_of;

pub struct Group {
    addr: SocketAddr,
    /// `None` for a member that only sends.
    socket: Option<DatagramSocket>,
    may_send: bool,
}

impl Group {
    /// Joins a group. `own` is the endpoint's socket, `local` its address. A group without a port gets that of the
    /// endpoint.
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

    /// The socket that receives its messages.
    pub fn socket(&self) -> Option<&DatagramSocket> {
        self.socket.as_ref()
    }

    pub fn socket_mut(&mut self) -> Option<&mut DatagramSocket> {
        self.socket.as_mut()
    }

    /// Returns true if both groups would receive the same messages.
    pub fn repeats(&self, other: &Group) -> bool {
        self.addr == other.addr && self.socket.is_some() && other.socket.is_some()
    }

    /// The target of sends to the group.
    pub fn destination(&self) -> Result<&SocketAddr> {
        match self.may_send {
            true => Ok(&self.addr),
            false => Err(Error::ACCES),
        }
    }
}

/// The index of the interface with this address; 0 for any.
fn interface_of(local: &SocketAddr) -> u32 {
    match local {
        SocketAddr::V6(local) if local.scope_id() != 0 => local.scope_id(),
        local if local.ip().is_unspecified() => 0,
        local => index_of(local.ip()).unwrap_or(0),
    }
}

/// Returns the fi_addr of the `n`th group of a domain.
pub const fn address(n: u64) -> u64 {
    GROUP | n
}

/// Returns true if an operation is for a group. Inject calls have no flags, so the address is checked, too.
#[inline]
pub fn is_meant(dest: u64, flags: OpFlags) -> bool {
    flags.contains(OpFlags::MULTICAST) || dest >> 61 == GROUP >> 61
}

/// Greater than every index of an address vector; FI_ADDR_NOTAVAIL has further bits.
const GROUP: u64 = 1 << 61;
