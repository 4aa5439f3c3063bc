// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints: opening, naming. No bytes of frames.

use crate::tcp::bound::{any_address, bind, new_name, rebind};
use crate::tcp::net::Connections;
use crate::tcp::pep::take_bound;
use crate::tcp::request::Claim;
use crate::tcp::site::Site;
use abi::*;
use base::info::{Info, ip};
use base::iovec::IOV_LIMIT;
use base::log::{Subsys, log_info};
use base::{Caps, Error, Result};
use engine::address::ip::Addr;
use engine::auth::Key;
use stream::Connector;
use stream::ep::Ep;
use stream::poller::Poller;
use sys::addr;
use sys::socket::{BACKLOG, Socket};

/// State of an endpoint in addition to its peers.
pub struct Own {
    /// MSG: the destination of fi_connect without an address.
    pub dest: Option<Addr>,
    /// MSG: the request that this endpoint answers.
    pub request: Option<Claim>,
    /// MSG: a socket for the connection, bound to the source address that the application requested.
    pub bound: Option<Socket>,
    /// MSG: the application requested the port of the endpoint's address.
    pub has_port: bool,
    pub nodelay: bool,
    /// The handshake requests that peers do not connect to this endpoint.
    pub firewalled: bool,
    /// The endpoint may share memory with peers of this host.
    pub shares: bool,
    /// The authorization keys, if there are any: only peers with one of these keys can connect.
    pub keys: Option<Vec<Key>>,
    /// The keys are those of the address vector, in which each address has its own (FI_AV_AUTH_KEY).
    pub keys_of_av: bool,
}

/// Whether an endpoint sets TCP_NODELAY. Consecutive small messages are already gathered here (`pace`). Nagle's
/// algorithm would only delay the end of such a batch until the peer's kernel acknowledges its beginning, which takes
/// up to 40 ms. For this reason a traffic class for bulk data does not enable Nagle's algorithm either.
pub fn nodelay(site: &Site) -> bool {
    site.set.nodelay.unwrap_or(true)
}

impl Connections {
    pub(super) fn open_endpoint(&mut self, ep: usize, info: &Info) -> Result<Ep<Connections>> {
        let rdm = is_rdm(&self.site, info)?;
        check_limits(&self.site, info)?;
        let given = |bytes: &Option<Vec<u8>>| match bytes {
            None => Ok(None),
            Some(bytes) => addr::from_bytes(bytes).map(Some).ok_or(Error::INVAL),
        };
        let (size, key) = (info.ep.auth_key_size, info.ep.auth_key.as_deref());
        let key = Key::given(size, key, None, Connections::AUTH_KEY_SIZE)?;
        let v6 = info.addr_format == FI_SOCKADDR_IN6;
        let mut local = given(&info.src_addr)?;
        let dest = given(&info.dest_addr)?;
        if rdm && local.is_none() {
            local = ip::own_address(info, self.site.set.iface.as_deref());
        }
        let (mut request, mut bound) = (None, None);
        match info.handle {
            0 => {}
            _ if rdm => return Err(Error::INVAL),
            handle => match take_bound(handle) {
                Some(socket) => bound = Some(socket?),
                None => request = Some(Claim::new(handle)?),
            },
        }
        let own = Own {
            dest,
            nodelay: nodelay(&self.site),
            firewalled: self.site.set.firewall_addr,
            shares: self.site.set.shared_memory,
            request,
            has_port: bound.is_some(),
            bound,
            keys: key.map(|key| vec![key]),
            keys_of_av: false,
        };
        let local = local.unwrap_or_else(|| any_address(v6 || dest.is_some_and(|d| d.is_ipv6())));
        let mut endpoint: Ep<Connections> = Ep::new(own, rdm, local, None);
        match rdm {
            true => self.listen(&mut endpoint)?,
            false => take_port(&mut endpoint)?,
        }
        log_info!(
            self.site.source,
            Subsys::EpCtrl,
            "{} endpoint {ep} on {}",
            if rdm { "RDM" } else { "MSG" },
            endpoint.local
        );
        Ok(endpoint)
    }

    /// Opens the listener of an RDM endpoint. Listening reserves the port, so the name that peers get now stays valid.
    fn listen(&self, endpoint: &mut Ep<Connections>) -> Result {
        let listener = bind(&self.site, endpoint.local)?;
        listener.listen(BACKLOG)?;
        endpoint.local = listener.local()?;
        endpoint.listener = Some(listener);
        Ok(())
    }

    pub(super) fn rename_endpoint(&self, endpoint: &mut Ep<Connections>, bytes: &[u8]) -> Result {
        let addr = new_name(bytes, &endpoint.local)?;
        if endpoint.rdm {
            let listen = |addr| {
                let listener = bind(&self.site, addr)?;
                listener.listen(BACKLOG)?;
                Ok(listener)
            };
            return rebind(&mut endpoint.listener, &mut endpoint.local, addr, listen);
        }
        // An endpoint that accepts a request has the address at which the request arrived.
        if endpoint.own.request.is_some() || endpoint.conn().is_some() {
            return Err(Error::OPBADSTATE);
        }
        if addr.port() == 0 {
            (endpoint.own.bound, endpoint.own.has_port) = (None, false);
            endpoint.local = addr;
            return Ok(());
        }
        let bind = |addr| Ok(Socket::bound(addr, None, 0)?);
        rebind(&mut endpoint.own.bound, &mut endpoint.local, addr, bind)?;
        endpoint.own.has_port = true;
        Ok(())
    }

    /// Ends the handshakes that a closed endpoint has not finished.
    pub(super) fn send_away(&mut self, poller: &mut Poller, ep: usize) {
        let waiting: Vec<usize> = self
            .handshakes
            .iter()
            .filter(|(_, handshake)| handshake.ep == ep)
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.drop_handshake(poller, id);
        }
    }
}

/// A larger queue is treated as a mistake of the caller.
const MAX_QUEUE: usize = 1 << 24;
/// Whether the endpoint needs no connections of the application: an RDM endpoint, or a datagram endpoint of
/// `sockets`.
fn is_rdm(site: &Site, info: &Info) -> Result<bool> {
    match fi_ep_type(info.ep.ep_type) {
        FI_EP_RDM => Ok(true),
        FI_EP_MSG => Ok(false),
        FI_EP_DGRAM if site.datagrams => match info.caps.intersects(Caps::RMA | Caps::ATOMIC) {
            true => Err(Error::INVAL),
            false => Ok(true),
        },
        FI_EP_DGRAM => Err(Error::NOSYS),
        _ => Err(Error::INVAL),
    }
}

fn check_limits(site: &Site, info: &Info) -> Result {
    let iovs = [info.tx.iov_limit, info.tx.rma_iov_limit, info.rx.iov_limit];
    let fits = info.tx.size <= MAX_QUEUE
        && info.rx.size <= MAX_QUEUE
        && info.tx.inject_size <= site.set.max_inject
        && iovs.iter().all(|&limit| limit <= IOV_LIMIT);
    fits.then_some(()).ok_or(Error::INVAL)
}

/// Takes the name of a MSG endpoint: from the request that it answers, or from a socket with a port of its own.
fn take_port(endpoint: &mut Ep<Connections>) -> Result {
    if let Some(request) = &endpoint.own.request {
        endpoint.local = request.local();
        return Ok(());
    }
    if endpoint.own.bound.is_none() && endpoint.local.port() != 0 {
        endpoint.own.bound = Some(Socket::bound(endpoint.local, None, 0)?);
        endpoint.own.has_port = true;
    }
    if let Some(bound) = &endpoint.own.bound {
        endpoint.local = bound.local()?;
    }
    Ok(())
}
