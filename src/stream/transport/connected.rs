// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls of the connector, and its actions. Connected endpoints: fi_connect, fi_accept, fi_shutdown and their events
//! (fi_cm(3)).

use core::ffi::c_void;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::conn::Conn;
use crate::connector::{Connector, Event};
use crate::desk::{Action, Desk};
use crate::ep::Ep;
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use abi::fid_pep;
use base::info::Info;
use base::log::{Subsys, log_info};
use base::{Error, Result};
use engine::fabric::FabricShared;
use engine::transport::{Address, Connects, Listener};
use object::ops::eq::EqErr;

impl<N: Connector> Stream<N> {
    /// Calls the connector, and carries out the actions that it has queued.
    pub(super) fn call_connector<R>(
        &mut self,
        domain: &mut DomainOf<N>,
        call: impl FnOnce(&mut N, &mut Desk<'_, N>) -> R,
    ) -> R {
        let mut actions = VecDeque::new();
        let mut desk = Desk {
            peers: &mut self.traffic.peers,
            poller: &mut self.traffic.poller,
            shm: &mut self.traffic.shm,
            domain,
            source: self.traffic.common.source,
            limits: self.traffic.common.limits,
            common: &mut self.traffic.common,
            birth: self.birth,
            actions: &mut actions,
        };
        let result = call(&mut self.connector, &mut desk);
        for action in actions {
            self.carry_out(domain, action);
        }
        result
    }

    /// Passes an event to the connector.
    pub(super) fn connector_event(&mut self, domain: &mut DomainOf<N>, event: Event<N>) {
        // More of the same kind is likely: other peers connect, and this one sends its next message.
        self.traffic.poller.call_epoll_next();
        self.call_connector(domain, |connector, desk| connector.handle(desk, event));
    }

    /// Starts to connect to the peer of `id`, unless an attempt is in progress. Returns the error if the attempt failed
    /// at once and ended the connection.
    pub(super) fn begin_connect(&mut self, domain: &mut DomainOf<N>, id: usize) -> Result {
        match self.has_turn(id) {
            true => self.connect_with_room(domain, id),
            false => Ok(()),
        }
    }

    /// Does the same for a connection whose turn it is.
    pub(super) fn connect_with_room(&mut self, domain: &mut DomainOf<N>, id: usize) -> Result {
        if !self.has_room_for(domain, id) {
            return Ok(());
        }
        self.connect_now(domain, id)
    }

    /// Does the same for a connection that has a descriptor.
    pub(super) fn connect_now(&mut self, domain: &mut DomainOf<N>, id: usize) -> Result {
        let begun = self.call_connector(domain, |connector, desk| connector.begin(desk, id));
        match self.traffic.peers.contains(id) {
            true => Ok(()),
            false => begun,
        }
    }

    fn carry_out(&mut self, domain: &mut DomainOf<N>, action: Action<N::Request>) {
        match action {
            // An earlier action may have removed the connection.
            _ if action
                .conn()
                .is_some_and(|id| !self.traffic.peers.contains(id)) => {}
            Action::Up(id) => {
                let limits = &self.traffic.common.limits;
                self.traffic.peers[id].log_protocol(self.traffic.common.source, limits.saved_size);
                self.traffic.lines().watch(id, true, false);
                self.traffic.lines().promote(id);
                self.with(domain, id, |session, cx| {
                    session.refused = session.refused.map(|_| session.tx.out.counter());
                    session.tx.send_waiting(cx, session.agreed)
                });
                self.member_up(domain, id);
                self.make_room(domain, id);
            }
            Action::Failed {
                id,
                error,
                is_passing,
            } => self.try_later(domain, id, error, is_passing),
            Action::Retire(id) => self.retire(domain, id),
            Action::End(id, error) => self.disconnect(domain, id, error),
            Action::Refused {
                id,
                error,
                cause,
                private,
            } => self.connect_failed(domain, id, (error, cause), private),
            Action::Event(id, number, data) => self.traffic.peers[id].report(domain, number, &data),
            Action::Readmit(request) => self.connector_event(domain, Event::Request(request)),
        }
    }

    /// Reports a failed fi_connect with an error event.
    fn connect_failed(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        (error, cause): (Error, Error),
        private: Vec<u8>,
    ) {
        let ep = self.traffic.peers[id].session.peer.ep;
        log_info!(
            self.traffic.common.source,
            Subsys::EpCtrl,
            "no connection to {}: error {}",
            self.traffic.peers[id].session.peer.addr,
            error.code()
        );
        self.traffic.lines().close(id);
        self.with(domain, id, |session, cx| session.fail_operations(cx, error));
        self.traffic.peers[id].session.state = State::Down;
        let state = &domain.eps[ep];
        if let Some(eq) = &state.eq {
            eq.error(EqErr {
                fid: state.fid,
                context: state.context,
                data: 0,
                err: error.code(),
                prov_errno: cause.code(),
                err_data: (!private.is_empty()).then(|| private.into_boxed_slice()),
            });
        }
    }
}

impl<N: Connector> Connects for Stream<N> {
    fn open_pep(
        fabric: &Arc<FabricShared<Stream<N>>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        N::open_pep(fabric, info, context)
    }

    fn peer(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(self
            .traffic
            .peers
            .only_conn(ep)?
            .session
            .peer
            .addr
            .to_bytes())
    }

    fn connect(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result {
        let endpoint = self.traffic.peers.ep(ep)?;
        if endpoint.conn().is_some() {
            return Err(Error::ISCONN);
        }
        let peer = N::destination(&endpoint.own, addr)?;
        let number = domain.eps[ep].peer_number;
        let mut conn = Conn::<N>::new(ep, peer, number);
        // Kept until the request is written.
        conn.session.rx.keep_request_data(param.to_vec());
        let id = self.traffic.peers.insert_only(ep, conn)?;
        self.call_connector(domain, |_, desk| desk.watch_attempt(id, param.len()));
        self.begin_connect(domain, id)
    }

    fn listener(&self, ep: usize) -> Listener {
        let conn = self.traffic.peers.find_ep(ep).and_then(Ep::conn);
        let Some(conn) = conn.and_then(|id| self.traffic.peers.get(id)) else {
            return Listener::Unknown;
        };
        match conn.session.state {
            State::Requested | State::Proving | State::Sharing => Listener::Accepted,
            State::Connecting if N::is_on_this_host(conn) => Listener::Silent,
            _ => Listener::Unknown,
        }
    }

    fn accept(&mut self, domain: &mut DomainOf<N>, ep: usize, param: &[u8]) -> Result {
        self.call_connector(domain, |connector, desk| connector.accept(desk, ep, param))
    }

    fn shutdown(&mut self, domain: &mut DomainOf<N>, ep: usize) -> Result {
        if !N::HAS_MSG {
            return Err(Error::NOSYS);
        }
        let id = self.traffic.peers.ep(ep)?.conn().ok_or(Error::NOTCONN)?;
        match self.traffic.peers[id].session.state {
            State::Up => {
                // The caller has waited for frames that were reported as sent; this flushes the rest.
                let now = self.traffic.poller.now();
                self.traffic.last_flush(domain, id, now);
                self.settle(domain);
                if let Some(socket) = self.traffic.peers[id].link.socket() {
                    socket.shutdown();
                }
                self.disconnect(domain, id, Error::CANCELED);
            }
            State::Down => {}
            _ => {
                self.traffic.lines().close(id);
                self.traffic.peers[id].session.state = State::Down;
            }
        }
        Ok(())
    }

    fn socket(&self, ep: usize) -> Result<BorrowedFd<'_>> {
        self.traffic
            .peers
            .only_conn(ep)?
            .link
            .fd()
            .ok_or(Error::NOTCONN)
    }
}
