// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of peers: IPv4 and IPv6 socket addresses.

use core::ffi::c_void;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::base::{Error, Result};
use crate::engine::transport::Address;
use crate::sys::addr;

/// The address of a listener, in canonical form.
pub type Addr = SocketAddr;

impl Address for Addr {
    fn len_at(addr: *const c_void) -> usize {
        // SAFETY: fi_av(3) and fi_cm(3): an address of the provider's format, which starts with its family.
        unsafe { addr::len_at(addr.cast()) }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        let addr = addr::canonical(addr::from_bytes(bytes)?);
        (!addr.ip().is_unspecified()).then_some(addr)
    }

    fn to_bytes(&self) -> Vec<u8> {
        addr::to_bytes(self)
    }

    fn text(bytes: &[u8]) -> String {
        match addr::from_bytes(bytes) {
            Some(addr @ SocketAddr::V4(_)) => format!("fi_sockaddr_in://{addr}"),
            Some(addr @ SocketAddr::V6(_)) => format!("fi_sockaddr_in6://{addr}"),
            None => String::new(),
        }
    }

    fn resolve(node: &str, service: &str) -> Result<Addr> {
        let port: u16 = service.parse().map_err(|_| Error::INVAL)?;
        let mut found = (node, port).to_socket_addrs().map_err(|_| Error::INVAL)?;
        let addr = found.next().ok_or(Error::INVAL)?;
        Ok(addr::canonical(addr))
    }
}
