// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints: opening, naming, addresses of peers, closing. No bytes.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use crate::abi::*;
use crate::base::info::Info;
use crate::base::iovec::IOV_LIMIT;
use crate::base::log::{Subsys, log_info, log_warn};
use crate::base::{Error, Result};
use crate::engine::auth::Key;
use crate::engine::named_av;
use crate::engine::transport::Transport;
use crate::prov::tcp::SOURCE;
use crate::prov::tcp::addr::Addr;
use crate::prov::tcp::conn::Conn;
use crate::prov::tcp::params::Params;
use crate::prov::tcp::pep::{Accepted, take_bound};
use crate::prov::tcp::progress::listener_token;
use crate::prov::tcp::transport::{Core, Tcp, any_address};
use crate::sys::addr;
use crate::sys::socket::Socket;

/// An endpoint of either type.
pub struct Ep {
    pub rdm: bool,
    /// Where it is bound; RDM: where it listens.
    pub local: Addr,
    /// RDM only.
    pub listener: Option<Socket>,
    /// RDM: the connection to each address of the vector; `NONE` where there is none.
    pub peers: Vec<u32>,
    /// RDM: connections by the peer's listener.
    pub by_addr: HashMap<Addr, usize>,
    /// MSG: the connection, once one was begun.
    pub conn: Option<usize>,
    /// MSG: where fi_connect goes when it names no address.
    pub dest: Option<Addr>,
    /// MSG: the request that this endpoint answers.
    pub request: Option<Accepted>,
    /// MSG: the socket of a passive endpoint, to connect with.
    pub bound: Option<Socket>,
    pub nodelay: bool,
    /// Peers are told not to connect to us.
    pub firewalled: bool,
    /// The authorization keys, if it has any: only with peers that have one of them a connection is made.
    pub keys: Option<Vec<Key>>,
    /// They are those of its address vector, in which each address has its own (FI_AV_AUTH_KEY).
    pub keys_of_av: bool,
}

/// Endpoints by their number in `core.eps`: found by an index on every operation.
#[derive(Default)]
pub struct Eps(Vec<Option<Box<Ep>>>);

impl Eps {
    #[inline]
    pub fn get(&self, ep: usize) -> Option<&Ep> {
        self.0.get(ep)?.as_deref()
    }

    pub fn get_mut(&mut self, ep: usize) -> Option<&mut Ep> {
        self.0.get_mut(ep)?.as_deref_mut()
    }

    pub fn insert(&mut self, ep: usize, endpoint: Ep) {
        if self.0.len() <= ep {
            self.0.resize_with(ep + 1, || None);
        }
        self.0[ep] = Some(Box::new(endpoint));
    }

    pub fn remove(&mut self, ep: usize) -> Option<Box<Ep>> {
        self.0.get_mut(ep)?.take()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Ep)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(ep, endpoint)| Some((ep, endpoint.as_deref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Ep)> {
        let all = self.0.iter_mut().enumerate();
        all.filter_map(|(ep, endpoint)| Some((ep, endpoint.as_deref_mut()?)))
    }
}

pub const NONE: u32 = u32::MAX;

/// How a peer without address is called when messages are matched: no fi_addr has the top bit.
pub fn unknown_source(serial: u64) -> u64 {
    1 << 63 | serial
}

impl Ep {
    pub fn name(&self) -> Result<Vec<u8>> {
        Ok(addr::to_bytes(&self.local))
    }
}

/// A socket for a listener: bound, on a port of the range that the settings name.
pub fn bind(params: &Params, addr: SocketAddr) -> Result<Socket> {
    let ports = (params.port_low > 0 || params.port_high > 0)
        .then_some((params.port_low, params.port_high));
    let start = std::process::id() ^ (crate::prov::tcp::connect::process_id() >> 7);
    Socket::bound(addr, ports, start).map_err(|error| {
        log_warn!(&SOURCE, Subsys::EpCtrl, "cannot bind to {addr}: {error}");
        error.into()
    })
}

/// The address that fi_setname gives an endpoint of this name: of the same format, says fi_cm(3).
pub fn new_name(bytes: &[u8], local: &Addr) -> Result<Addr> {
    let addr = addr::from_bytes(bytes).ok_or(Error::INVAL)?;
    match addr.is_ipv6() == local.is_ipv6() {
        true => Ok(addr),
        false => Err(Error::INVAL),
    }
}

/// Gives an endpoint another address. Where that cannot be, it keeps the one it has.
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
        // It may be our own socket that is in the way: the same port at another address of this host.
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

/// What TCP_NODELAY is to be for an endpoint.
pub fn nodelay(params: &Params, info: &Info) -> bool {
    params.nodelay.unwrap_or(info.tx.tclass != FI_TC_BULK_DATA)
}

impl Tcp {
    pub(super) fn open_endpoint(&mut self, ep: usize, info: &Info) -> Result {
        let rdm = match fi_ep_type(info.ep.ep_type) {
            FI_EP_RDM => true,
            FI_EP_MSG => false,
            FI_EP_DGRAM => return Err(Error::NOSYS),
            _ => return Err(Error::INVAL),
        };
        let iovs = [info.tx.iov_limit, info.tx.rma_iov_limit, info.rx.iov_limit];
        if info.tx.size > MAX_QUEUE
            || info.rx.size > MAX_QUEUE
            || info.tx.inject_size > self.params.max_inject
            || iovs.iter().any(|&limit| limit > IOV_LIMIT)
        {
            return Err(Error::INVAL);
        }
        let given = |bytes: &Option<Vec<u8>>| match bytes {
            None => Ok(None),
            Some(bytes) => addr::from_bytes(bytes).map(Some).ok_or(Error::INVAL),
        };
        let (size, key) = (info.ep.auth_key_size, info.ep.auth_key.as_deref());
        let key = Key::given(size, key, None, Tcp::AUTH_KEY_SIZE)?;
        let v6 = info.addr_format == FI_SOCKADDR_IN6;
        let local = given(&info.src_addr)?;
        let dest = given(&info.dest_addr)?;
        let (mut request, mut bound) = (None, None);
        match info.handle {
            0 => {}
            _ if rdm => return Err(Error::INVAL),
            handle => match take_bound(handle) {
                Some(socket) => bound = Some(socket?),
                None => request = Some(Accepted::take(handle)?),
            },
        }
        let mut endpoint = Ep {
            rdm,
            local: local.unwrap_or_else(|| any_address(v6 || dest.is_some_and(|d| d.is_ipv6()))),
            listener: None,
            peers: Vec::new(),
            by_addr: HashMap::new(),
            conn: None,
            dest,
            nodelay: nodelay(&self.params, info),
            firewalled: self.params.firewall_addr,
            request,
            bound,
            keys: key.map(|key| vec![key]),
            keys_of_av: false,
        };
        if rdm {
            let listener = bind(&self.params, endpoint.local)?;
            // Listening reserves the port: the name that others get now stays ours.
            listener.listen()?;
            endpoint.local = listener.local()?;
            endpoint.listener = Some(listener);
        } else if let Some(request) = &endpoint.request {
            endpoint.local = request.local();
        } else if let Some(bound) = &endpoint.bound {
            endpoint.local = bound.local()?;
        }
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "{} endpoint {ep} on {}",
            if rdm { "RDM" } else { "MSG" },
            endpoint.local
        );
        self.eps.insert(ep, endpoint);
        Ok(())
    }

    pub(super) fn enable_endpoint(&mut self, ep: usize) -> Result {
        let endpoint = self.eps.get(ep).ok_or(Error::INVAL)?;
        if let Some(listener) = &endpoint.listener {
            self.epoll
                .add(listener.as_raw_fd(), listener_token(ep), true, false)?;
        }
        Ok(())
    }

    pub(super) fn rename_endpoint(&mut self, ep: usize, bytes: &[u8]) -> Result {
        let params = self.params.clone();
        let endpoint = self.ep_mut(ep)?;
        let addr = new_name(bytes, &endpoint.local)?;
        if endpoint.rdm {
            let listen = |addr| {
                let listener = bind(&params, addr)?;
                listener.listen()?;
                Ok(listener)
            };
            return rebind(&mut endpoint.listener, &mut endpoint.local, addr, listen);
        }
        // The name of one that answers a request is where the request came in.
        if endpoint.request.is_some() || endpoint.conn.is_some() {
            return Err(Error::OPBADSTATE);
        }
        if addr.port() == 0 {
            endpoint.bound = None;
            endpoint.local = addr;
            return Ok(());
        }
        let bind = |addr| Ok(Socket::bound(addr, None, 0)?);
        rebind(&mut endpoint.bound, &mut endpoint.local, addr, bind)
    }

    pub(super) fn peer_name(&self, ep: usize) -> Result<Vec<u8>> {
        let endpoint = self.ep(ep)?;
        if endpoint.rdm {
            return Err(Error::NOSYS);
        }
        let conn = endpoint.conn.ok_or(Error::NOTCONN)?;
        Ok(addr::to_bytes(&self.conns[conn].peer))
    }

    /// fi_tcp(7), FI_GET_FD. An RDM endpoint has a socket for each peer and none of its own to give.
    pub(super) fn socket_of(&self, ep: usize) -> Result<RawFd> {
        let endpoint = self.ep(ep)?;
        if endpoint.rdm {
            return Err(Error::NOSYS);
        }
        let conn = endpoint.conn.ok_or(Error::NOTCONN)?;
        let socket = self.conns[conn].socket.as_ref().ok_or(Error::NOTCONN)?;
        Ok(socket.as_raw_fd())
    }

    pub(super) fn close_endpoint(&mut self, core: &mut Core, ep: usize) {
        let Some(endpoint) = self.eps.remove(ep) else {
            return;
        };
        self.groups.forget(ep);
        if let Some(listener) = &endpoint.listener {
            self.epoll.remove(listener.as_raw_fd());
        }
        let ours: Vec<usize> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.ep == ep)
            .map(|(id, _)| id)
            .collect();
        let until = Instant::now() + LINGER;
        for id in ours {
            // What was reported as sent goes to the kernel before the socket is closed.
            self.last_flush(core, id, until);
            self.discard_conn(core, id);
        }
        let waiting: Vec<usize> = self
            .handshakes
            .iter()
            .filter(|(_, handshake)| handshake.ep == ep)
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.drop_handshake(id);
        }
    }

    /// The connection for an address of the endpoint's vector, made if there is none.
    #[cold]
    pub(super) fn find_peer(&mut self, core: &mut Core, ep: usize, dest: u64) -> Result<usize> {
        let av = core.eps[ep].av.ok_or(Error::NOAV)?;
        if core.avs[av].get(dest).is_none() {
            named_av::renew(self, core, av)?;
        }
        let peer = *core.avs[av].get(dest).ok_or(Error::INVAL)?;
        let endpoint = self.eps.get_mut(ep).ok_or(Error::INVAL)?;
        let id = match endpoint.by_addr.get(&peer) {
            Some(&id) => id,
            None => {
                let id = self.conns.insert(Conn::new(ep, peer, dest));
                endpoint.by_addr.insert(peer, id);
                id
            }
        };
        let at = dest as usize;
        if endpoint.peers.len() <= at {
            endpoint.peers.resize(at + 1, NONE);
        }
        endpoint.peers[at] = id as u32;
        Ok(id)
    }

    /// An address came into a vector: connections from it get its number.
    pub(super) fn learn_address(&mut self, core: &mut Core, av: usize, index: u64) {
        let Some(&peer) = core.avs[av].get(index) else {
            return;
        };
        let mut others = Vec::new();
        for (ep, endpoint) in self.eps.iter() {
            if core.eps.get(ep).is_none_or(|state| state.av != Some(av)) {
                continue;
            }
            let Some(&id) = endpoint.by_addr.get(&peer) else {
                continue;
            };
            // It is here with another authorization key than the one the address is for.
            let key = self.conns[id].key();
            if endpoint.keys_of_av && key.is_some() && key != core.avs[av].keys.of(index) {
                others.push(id);
                continue;
            }
            let conn = &mut self.conns[id];
            if conn.fi_addr == FI_ADDR_NOTAVAIL {
                let unknown = conn.source();
                core.each_srx(ep, |srx| srx.rename_source(unknown, index));
                conn.fi_addr = index;
            }
        }
        for id in others {
            self.lose(core, id, Error::KEYREJECTED);
        }
    }

    /// An address leaves a vector. The connection stays for the peer's sake (unless FI_AV_REMOVE_CLEANUP says
    /// otherwise); its messages have no source from now on.
    pub(super) fn forget_address(&mut self, core: &mut Core, av: usize, index: u64, peer: &Addr) {
        let mut cut = Vec::new();
        for (ep, endpoint) in self.eps.iter_mut() {
            if core.eps.get(ep).is_none_or(|state| state.av != Some(av)) {
                continue;
            }
            if let Some(slot) = endpoint.peers.get_mut(index as usize) {
                *slot = NONE;
            }
            if let Some(&id) = endpoint.by_addr.get(peer) {
                let conn = &mut self.conns[id];
                if conn.fi_addr == index {
                    conn.fi_addr = FI_ADDR_NOTAVAIL;
                    let unknown = conn.source();
                    core.each_srx(ep, |srx| srx.rename_source(index, unknown));
                }
                cut.push(id);
            }
        }
        if self.cleans_up_removed() {
            for id in cut {
                self.lose(core, id, Error::CANCELED);
            }
        }
    }
}

/// How long closing may wait for the kernel to take what was reported as sent.
pub const LINGER: Duration = Duration::from_secs(2);

/// More operations than this in one queue are a mistake of the caller.
const MAX_QUEUE: usize = 1 << 24;
