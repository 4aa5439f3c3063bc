// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The part of the stream transport that is specific to shm: see `stream::net`.

use core::time::Duration;

use crate::shm::Shm;
use crate::shm::addr::{Format, Name};
use crate::shm::kind::{Kind, SHM as SOURCE};
use crate::shm::params::Params;
use base::info::Info;
use base::log::Source;
use base::{Error, Result};
use stream::hello::{Hello, Verdict};
use stream::peers::Peers;
use stream::pending_peer::PendingPeer;
use stream::session::State;
use stream::session::common::Limits;
use stream::shm_connect::HelloExchange;
use stream::transport::DomainOf;
use stream::{Net, Stream};
use sys::fork::Birth;
use sys::local::{self, LocalName};
use sys::socket::Socket;
use sys::user::effective_uid;

/// The provider that a fabric belongs to, and its settings.
#[derive(Clone)]
pub struct Site {
    pub kind: Kind,
    pub set: Params,
    /// Only processes of this user may connect.
    pub uid: u32,
}

impl Site {
    pub fn new(kind: Kind, set: Params) -> Site {
        let uid = effective_uid();
        Site { kind, set, uid }
    }

    /// Returns the socket address of the endpoint with this name.
    pub fn shm_listener(&self, name: &Name) -> LocalName {
        match &self.set.folder {
            Some(folder) => LocalName::Path(name.socket_in(folder, self.kind, self.uid)),
            // `LocalName::Abstract` does not include the leading zero of such an address.
            None => LocalName::Abstract(name.socket(self.kind, self.uid).split_off(1)),
        }
    }
}

/// Socket address of an endpoint; a file is removed with the endpoint. A forked child leaves it to its parent.
pub struct ShmListener {
    place: LocalName,
    birth: Birth,
}

impl ShmListener {
    pub fn new(place: LocalName) -> ShmListener {
        let birth = Birth::here();
        ShmListener { place, birth }
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        if self.birth.is_here() {
            local::remove(&self.place);
        }
    }
}

impl Net for Shm {
    type Addr = Name;
    type Format = Format;
    type Params = Site;
    type Domain = ();
    type Ep = ShmListener;
    type Conn = HelloExchange;

    const SOURCE: &'static Source = &SOURCE;

    fn provider(site: &Site) -> &'static Source {
        site.kind.source()
    }

    const CQ_SIZE: usize = 1024;
    const ALL_SHM: bool = true;
    const FIRST_PAUSE: Duration = Duration::from_millis(1);
    const HMEM: bool = true;

    fn limits(site: &Site) -> Limits {
        Limits {
            saved_size: site.set.max_saved_size,
            saved_bytes: site.set.max_saved_bytes,
            no_progress_thread: site.set.disable_auto_progress,
            keeps_offers: true,
            answers_writes: false,
            copies: !site.set.disable_cma,
            connect: site.set.conn_timeout,
            close: site.set.close_timeout,
            op_timeout: site.set.op_timeout,
            stall_report: site.set.stall_report,
            ring_size: site.set.ring_size,
        }
    }

    fn open(_site: &Site) -> Result {
        Ok(())
    }

    fn open_ep(stream: &mut Stream<Shm>, ep: usize, info: &Info) -> Result {
        super::ep::open_endpoint(stream, ep, info)
    }

    fn enable_ep(stream: &mut Stream<Shm>, ep: usize) -> Result {
        super::listener::enable_endpoint(stream, ep)
    }

    fn close_ep(_stream: &mut Stream<Shm>, _ep: usize) {}

    fn set_name(stream: &mut Stream<Shm>, ep: usize, addr: &[u8]) -> Result {
        super::ep::rename_endpoint(stream, ep, addr)
    }

    fn looked_up(stream: &Stream<Shm>, addr: &Name) -> Vec<u8> {
        addr.looked_up(stream.params.kind)
    }

    fn own_rank(stream: &Stream<Shm>, ep: usize, members: &[Name]) -> Result<usize> {
        let own = &stream.peers.ep(ep)?.local;
        let rank = members.iter().position(|member| member == own);
        rank.ok_or(Error::INVAL)
    }

    fn identity(addr: &Name) -> Vec<u8> {
        addr.bare().as_bytes().to_vec()
    }

    fn begin_connect(stream: &mut Stream<Shm>, domain: &mut DomainOf<Shm>, id: usize) -> Result {
        super::listener::connect_to(stream, domain, id)
    }

    fn opening(stream: &mut Stream<Shm>, domain: &mut DomainOf<Shm>, id: usize) {
        if stream.peers[id].session.state == State::Requested {
            super::listener::answered(stream, domain, id);
        }
    }

    fn attempt_failed(
        stream: &mut Stream<Shm>,
        domain: &mut DomainOf<Shm>,
        id: usize,
        error: Error,
    ) {
        super::listener::shm_connect_failed(stream, domain, id, error);
    }

    fn accept_waiting(stream: &mut Stream<Shm>, ep: usize) {
        stream.let_in(ep);
    }

    fn shm_listener<'a>(_own: &'a (), peers: &'a Peers<Shm>, ep: usize) -> Option<&'a Socket> {
        peers.find_ep(ep)?.listener.as_ref()
    }

    fn hello_received(
        stream: &mut Stream<Shm>,
        domain: &mut DomainOf<Shm>,
        pending: PendingPeer,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        super::listener::admit(stream, domain, pending, hello);
    }

    fn watch_peers(stream: &mut Stream<Shm>) {
        // The kernel closes the socket of a process that has ended.
        stream.common.watches_peers = true;
    }

    fn check_peers(_stream: &mut Stream<Shm>, _core: &mut DomainOf<Shm>) {}
}
