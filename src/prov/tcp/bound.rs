// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sockets bound to an address: those of listeners, and of endpoints that connect from it. fi_setname in fi_cm(3).

use std::net::SocketAddr;

use crate::tcp::congestion;
use crate::tcp::exchange::process_id;
use crate::tcp::site::Site;
use base::log::{Subsys, log_warn};
use base::{Error, Result};
use engine::address::ip::Addr;
use sys::addr;
use sys::socket::Socket;

/// Returns a bound socket for a listener, with a port from the range of the settings.
pub fn bind(site: &Site, addr: SocketAddr) -> Result<Socket> {
    let params = &site.set;
    let ports = params.ports();
    let start = std::process::id() ^ (process_id() >> 7);
    let socket = Socket::bound(addr, ports, start).inspect_err(|error| {
        log_warn!(
            site.source,
            Subsys::EpCtrl,
            "cannot bind to {addr}: {error}"
        );
    })?;
    congestion::begin(&socket, params.congestion.as_deref());
    Ok(socket)
}

/// Checks a name for fi_setname: it must have the same address format (fi_cm(3)).
pub fn new_name(bytes: &[u8], local: &Addr) -> Result<Addr> {
    let addr = addr::from_bytes(bytes).ok_or(Error::INVAL)?;
    match addr.is_ipv6() == local.is_ipv6() {
        true => Ok(addr),
        false => Err(Error::INVAL),
    }
}

/// Binds an endpoint to another address. On failure it keeps the current one.
pub fn rebind(
    socket: &mut Option<Socket>,
    local: &mut Addr,
    wanted: Addr,
    bind: impl Fn(Addr) -> Result<Socket>,
) -> Result {
    if socket.is_some() && wanted == *local {
        return Ok(());
    }
    let bound = match bind(wanted) {
        // The endpoint's own socket may be the conflict: the same port at another address of this host.
        Err(Error::ADDRINUSE) if socket.is_some() && wanted.port() == local.port() => {
            *socket = None;
            bind(wanted).inspect_err(|_| *socket = bind(*local).ok())?
        }
        bound => bound?,
    };
    *local = bound.local()?;
    *socket = Some(bound);
    Ok(())
}

/// Returns the address that a wildcard listener of this kind binds to.
pub(crate) fn any_address(v6: bool) -> SocketAddr {
    match v6 {
        true => SocketAddr::from(([0u16; 8], 0)),
        false => SocketAddr::from(([0u8; 4], 0)),
    }
}
