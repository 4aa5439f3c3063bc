// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The connector of shm: see `stream::connector`.

use core::convert::Infallible;
use core::time::Duration;

use crate::shm::Desk;
use crate::shm::addr::{Format, Name};
use crate::shm::kind::{Kind, SHM as SOURCE};
use crate::shm::params::Params;
use base::info::Info;
use base::log::Source;
use base::{Error, Result};
use stream::Connector;
use stream::connector::Event;
use stream::ep::Ep;
use stream::session::State;
use stream::session::common::Limits;
use stream::shm_host::connect::HelloExchange;
use sys::fork::Birth;
use sys::local::{self, LocalName};
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

/// Establishes the connections of one domain.
pub struct Connections {
    pub(super) site: Site,
}

impl Connector for Connections {
    type Addr = Name;
    type Format = Format;
    type Params = Site;
    type Ep = ShmListener;
    type Conn = HelloExchange;
    type Request = Infallible;

    const SOURCE: &'static Source = &SOURCE;

    fn provider(site: &Site) -> &'static Source {
        site.kind.source()
    }

    const CQ_SIZE: usize = 1024;
    const ALL_SHM: bool = true;
    const FIRST_PAUSE: Duration = Duration::from_millis(1);

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
            // The kernel closes the socket of a process that has ended.
            peer_timeout: Duration::ZERO,
            connections: 0,
            ring_size: site.set.ring_size,
        }
    }

    fn open(site: &Site) -> Result<Connections> {
        Ok(Connections { site: site.clone() })
    }

    fn open_ep(&mut self, ep: usize, info: &Info) -> Result<Ep<Connections>> {
        self.open_endpoint(ep, info)
    }

    fn rename_ep(&mut self, endpoint: &mut Ep<Connections>, addr: &[u8]) -> Result {
        self.rename_endpoint(endpoint, addr)
    }

    fn looked_up(&self, addr: &Name) -> Vec<u8> {
        addr.looked_up(self.site.kind)
    }

    fn own_rank(local: &Name, members: &[Name]) -> Result<usize> {
        let rank = members.iter().position(|member| member == local);
        rank.ok_or(Error::INVAL)
    }

    fn identity(addr: &Name) -> Vec<u8> {
        addr.bare().as_bytes().to_vec()
    }

    fn begin(&mut self, desk: &mut Desk<'_>, id: usize) -> Result {
        self.connect_to(desk, id)
    }

    fn handle(&mut self, desk: &mut Desk<'_>, event: Event<Connections>) {
        match event {
            Event::Opening(id) => {
                if desk.peers[id].session.state == State::Requested {
                    self.answered(desk, id);
                }
            }
            Event::AttemptFailed(id, error) => self.shm_connect_failed(desk, id, error),
            Event::Incoming { ep, accepts } => {
                let endpoint = desk.peers.find_ep(ep);
                let listener = endpoint.and_then(|ep| ep.listener.as_ref());
                let said = listener
                    .map(|listener| desk.shm.accept_waiting(desk.poller, listener, ep, accepts))
                    .unwrap_or_default();
                for (pending, hello) in said {
                    self.admit(desk, pending, hello);
                }
            }
            Event::Hello((pending, hello)) => self.admit(desk, pending, hello),
            // All peers connect to the listener for shared memory.
            Event::Handshake(_) | Event::HandshakeDue(_) | Event::Request(_) => {}
        }
    }
}
