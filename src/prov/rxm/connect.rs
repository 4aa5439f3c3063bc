// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections below: local attempts, requests of peers, and their results; fi_cm(3).

mod deadline;
mod verdict;

use core::time::Duration;
use std::time::Instant;

use self::verdict::{Known, Verdict, decide};
use super::SOURCE;
use super::conn::State;
use super::domain::random;
use super::loss::{is_silence, loss_of};
use super::proto::{ConnId, FlowControl, Reason, Request, Response, reason_of, reject};
use super::state::{Due, Rxm, StateOf};
use abi::FI_ADDR_NOTAVAIL;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use client::{EqError, Event, Info, InfoList};
use engine::address::ip::Addr;
use engine::transport::Address;
use object::ops::options::{OPT_MORE_FOLLOWS, OPT_PEER_NUMBER};

/// How long the provider tests for a peer whose connection has ended. The kernel tries three times in this period.
const LOOK: Duration = Duration::from_secs(5);

/// A kernel refuses a connection within this time if nothing listens.
const REFUSAL: Duration = Duration::from_secs(1);

/// Bits of `Conn::arrival` that hold the connection's index in the table.
const PLACE: u32 = 32;
/// Bits that hold a serial number: no arrival equals the source number of an unknown sender.
const SERIAL: u64 = (1 << 30) - 1;

impl Rxm {
    /// Starts an attempt to connect, unless it is too early for one.
    pub fn connect(&mut self, domain: &mut StateOf, id: usize) {
        let now = self.reactor.now();
        let mut limit = self.lower.params.conn_timeout;
        let conn = &mut self.conns[id];
        if conn.is_look {
            limit = limit.min(LOOK);
        }
        if conn.retry_at.is_some_and(|at| now < at) {
            return;
        }
        conn.clock.start(now, limit);
        conn.is_wanted = false;
        (conn.attempt_at, conn.retry_at) = (Some(now), None);
        conn.state = State::Connecting;
        self.connecting += 1;
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "connecting to {}, attempt {}",
            conn.peer,
            conn.attempts + 1
        );
        self.schedule_deadline(id);
        if let Err(error) = self.begin_connect(id) {
            self.attempt_failed(domain, id, error);
        }
    }

    fn begin_connect(&mut self, id: usize) -> Result {
        let (ep, peer) = (self.conns[id].ep, self.conns[id].peer);
        let endpoint = self.endpoint(ep).ok_or(Error::INVAL)?;
        let own = endpoint.own.ok_or(Error::OPBADSTATE)?;
        let mut from = own;
        from.set_port(0);
        let link = self
            .lower
            .connecting(sys::addr::to_bytes(&from), peer.to_bytes())?;
        self.set_up(id, link.clone())?;
        let request = Request {
            port: own.port(),
            flow: FlowControl::Off,
            eager: self.lower.params.eager as u32,
            depth: self.lower.receives as u32,
            id: self.conn_id(id)?,
        };
        link.connect(&peer.to_bytes(), &request.encode())
    }

    /// Returns a number for a connection's new endpoint below, which no earlier endpoint at that index had.
    fn next_arrival(&mut self, id: usize) -> u64 {
        self.links = self.links.wrapping_add(1);
        (u64::from(self.links) & SERIAL) << PLACE | id as u64
    }

    /// Binds an endpoint below and assigns it to the connection.
    fn set_up(&mut self, id: usize, link: std::sync::Arc<client::Ep>) -> Result {
        let ep = self.conns[id].ep;
        let arrival = self.next_arrival(id);
        let endpoint = self.endpoint(ep).ok_or(Error::INVAL)?;
        link.bind(&self.lower.eq, 0)?;
        if let Some(shared) = &endpoint.shared_rx {
            link.bind(shared, 0)?;
        }
        link.bind(&endpoint.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        endpoint.accesses.bind_to(&link)?;
        link.enable()?;
        if self.lower.is_ours {
            // The segments of a message are posted together.
            let _ = link.setopt(OPT_MORE_FOLLOWS, 1u8);
            link.setopt(OPT_PEER_NUMBER, arrival as usize)?;
        }
        let registrar = self.lower.registrar.of_endpoint(&link);
        let registrar = endpoint.accesses.telling(registrar);
        self.by_link.insert(link.number(), id);
        let conn = &mut self.conns[id];
        conn.registrar = Some(registrar);
        conn.link = Some(link);
        (conn.arrival, conn.is_paused) = (arrival, false);
        self.post_own(id)
    }

    /// Returns a new index by which the peer identifies the connection from now on.
    fn conn_id(&mut self, id: usize) -> Result<ConnId> {
        // Some peers treat it as a signed number.
        let index = (random()? & i32::MAX as u32).max(1);
        self.conns[id].name = index;
        Ok(ConnId {
            index,
            pid: self.pid,
        })
    }

    /// Returns the connection of a completion below.
    #[inline]
    pub fn arrived_over(&self, ep: usize, arrival: u64) -> Option<usize> {
        let id = (arrival & ((1 << PLACE) - 1)) as usize;
        let conn = self.conns.get(id)?;
        (conn.arrival == arrival && conn.ep == ep && conn.state != State::Over).then_some(id)
    }

    /// Handles one event from below. Returns `None` if there is none.
    pub fn take_event(&mut self, domain: &mut StateOf) -> Option<()> {
        match self.lower.eq.read() {
            Ok(Event::Request { pep, info, data }) => self.requested(domain, pep, &info, &data),
            Ok(Event::Connected { ep, data }) => self.connected(domain, ep, &data),
            Ok(Event::Shutdown { ep }) => {
                if let Some(&id) = self.by_link.get(&ep) {
                    self.ended(domain, id, Error::CONNRESET);
                }
            }
            Ok(_) => {}
            Err(Error::AVAIL) => {
                let failed = self.lower.eq.readerr().ok()?;
                self.refused(domain, &failed);
            }
            Err(_) => return None,
        }
        Some(())
    }

    /// Handles the end of a connection, or of an attempt.
    fn ended(&mut self, domain: &mut StateOf, id: usize, error: Error) {
        match self.conns[id].state {
            State::Connecting => self.attempt_failed(domain, id, error),
            _ => self.end_later(id, error),
        }
    }

    fn refused(&mut self, domain: &mut StateOf, failed: &EqError) {
        let Some(&id) = self.by_link.get(&failed.object) else {
            return;
        };
        let conn = &mut self.conns[id];
        if self.lower.is_ours && failed.prov_errno == Error::CONNRESET.code() {
            // The peer's kernel had accepted the attempt and then closed it.
            conn.clock.stop(self.reactor.now());
        }
        let is_refusal = failed.error == Error::CONNREFUSED && !failed.err_data.is_empty();
        if conn.state == State::Connecting && is_refusal {
            let reason = reason_of(&failed.err_data);
            match reason {
                // The peer has started its own attempt, or has not noticed the end of the last connection. Its request
                // or the next attempt resolves both cases.
                Reason::Connected => {}
                _ if conn.attempts == 0 => log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{} refuses to connect: it has another FI_OFI_RXM_BUFFER_SIZE than {}, or speaks otherwise",
                    conn.peer,
                    self.lower.params.eager
                ),
                _ => {}
            }
            log_debug!(&SOURCE, Subsys::EpCtrl, "{}: {reason:?}", conn.peer);
        }
        self.ended(domain, id, failed.error);
    }

    fn connected(&mut self, domain: &mut StateOf, link: usize, data: &[u8]) {
        let Some(&id) = self.by_link.get(&link) else {
            return;
        };
        let conn = &mut self.conns[id];
        match conn.state {
            State::Connecting => match Response::decode(data) {
                Some(response) => conn.remote = response.id,
                None => {
                    log_warn!(
                        &SOURCE,
                        Subsys::EpCtrl,
                        "{}: answers as something else than ofi_rxm",
                        conn.peer
                    );
                    return self.attempt_failed(domain, id, Error::CONNREFUSED);
                }
            },
            State::Accepted => {}
            _ => return,
        }
        self.connecting -= 1;
        let conn = &mut self.conns[id];
        let opened_here = conn.state == State::Connecting;
        conn.state = State::Up;
        conn.clock.reset();
        (conn.retry_at, conn.attempts) = (None, 0);
        conn.is_look = false;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "connected to {}, opened by {}",
            conn.peer,
            if opened_here { "us" } else { "the peer" }
        );
        if conn.has_waiting() {
            self.stall(id);
        }
    }

    /// Handles a peer's request to connect.
    fn requested(&mut self, domain: &mut StateOf, pep: usize, list: &InfoList, data: &[u8]) {
        let Some(info) = list.first() else { return };
        let is_meant = |ep: &Option<Box<super::endpoint::Endpoint>>| {
            ep.as_ref().is_some_and(|ep| ep.listener.number() == pep)
        };
        let Some(ep) = self.eps.iter().position(is_meant) else {
            return;
        };
        let from = info.dest_addr().and_then(|bytes| Addr::from_bytes(&bytes));
        let Some(mut peer) = from else {
            return self.refuse(ep, info, Reason::Refused, &"it has no address");
        };
        let request = match Request::decode(data) {
            Ok(request) => request,
            Err(why) => {
                return self.refuse(ep, info, Reason::Refused, &format_args!("{peer}: {why}"));
            }
        };
        peer.set_port(request.port);
        let own = self.lower.params.eager as u32;
        if request.eager != own {
            let why = format_args!(
                "{peer}: its FI_OFI_RXM_BUFFER_SIZE is {}, and ours {own}",
                request.eager
            );
            return self.refuse(ep, info, Reason::Refused, &why);
        }
        let Some(own) = self.endpoint(ep).and_then(|endpoint| endpoint.own) else {
            return;
        };
        let id = self
            .endpoint(ep)
            .and_then(|ep| ep.by_addr.get(&peer).copied());
        let known = id.map(|id| match self.conns[id].state {
            State::Idle | State::Over => Known::Idle,
            State::Connecting => Known::Asked,
            State::Accepted | State::Up => Known::Up(self.conns[id].remote.pid),
        });
        let verdict = decide(known.unwrap_or(Known::Idle), &own, &peer, request.id.pid);
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "{peer} wants to connect to {own}: {verdict:?}"
        );
        match (verdict, id) {
            (Verdict::Reject, _) => {
                let listener = self.endpoint(ep).map(|endpoint| endpoint.listener.clone());
                if let Some(listener) = listener {
                    let _ = listener.reject(info, &reject(Reason::Connected));
                }
            }
            (Verdict::AcceptBeside, _) => {
                let id = self.new_peer(domain, ep, peer, true);
                self.accept(domain, id, info, &request);
            }
            (Verdict::Accept, None) => {
                let id = self.new_peer(domain, ep, peer, false);
                self.accept(domain, id, info, &request);
            }
            (Verdict::Accept, Some(id)) => {
                match self.conns[id].state {
                    State::Connecting => self.drop_attempt(domain, id),
                    State::Idle => {}
                    _ => {
                        // Packets that the peer sent before its restart are delivered first.
                        self.resume(id);
                        self.take_all(domain, ep);
                        self.lost(domain, id, Error::CONNRESET, &"has begun anew");
                        let id = self.new_peer(domain, ep, peer, false);
                        return self.accept(domain, id, info, &request);
                    }
                }
                self.accept(domain, id, info, &request);
            }
        }
    }

    #[cold]
    fn refuse(&self, ep: usize, info: Info<'_>, reason: Reason, why: &dyn core::fmt::Display) {
        log_warn!(&SOURCE, Subsys::EpCtrl, "a connection is refused: {why}");
        if let Some(endpoint) = self.endpoint(ep) {
            let _ = endpoint.listener.reject(info, &reject(reason));
        }
    }

    fn accept(&mut self, domain: &mut StateOf, id: usize, info: Info<'_>, request: &Request) {
        let conn = &mut self.conns[id];
        conn.remote = request.id;
        conn.state = State::Accepted;
        self.connecting += 1;
        // The provider below reports whether the peer has taken the answer, so there is no time limit here.
        if let Err(error) = self.begin_accept(id, info) {
            self.lost(domain, id, error, &"could not be accepted");
        }
    }

    fn begin_accept(&mut self, id: usize, info: Info<'_>) -> Result {
        let link = client::Ep::open(&self.lower.domain, info)?;
        self.set_up(id, link.clone())?;
        let response = Response {
            id: self.conn_id(id)?,
            depth: self.lower.receives as u32,
            flow: FlowControl::Off,
        };
        link.accept(&response.encode())
    }

    /// Drops the current attempt; the connection stays for another one.
    fn drop_attempt(&mut self, domain: &mut StateOf, id: usize) {
        self.connecting -= 1;
        self.conns[id].state = State::Idle;
        self.conns[id].name = 0;
        self.unlink(domain, id);
    }

    /// Schedules another attempt after a failed one, or gives up.
    fn attempt_failed(&mut self, domain: &mut StateOf, id: usize, error: Error) {
        self.drop_attempt(domain, id);
        let now = self.reactor.now();
        let conn = &mut self.conns[id];
        conn.last_error = error;
        conn.attempts += 1;
        // A refusal by the kernel comes at once. If an attempt failed later, the peer's kernel had accepted it.
        let lasted = conn.attempt_at.filter(|&at| now - at >= REFUSAL);
        if let Some(begun) = lasted.filter(|_| !is_silence(error)) {
            conn.clock.stop(begun);
        }
        conn.clock.resume(now);
        let is_final = matches!(error, Error::INVAL | Error::ACCES | Error::MFILE);
        let is_seen = conn.is_look && !conn.is_wanted;
        let is_over = !conn.clock.is_started() || conn.clock.is_over(now);
        if is_final || is_seen || is_over || error == Error::CONNREFUSED && conn.clock.is_gone(now)
        {
            return self.give_up(domain, id, now);
        }
        let at = now + conn.pause();
        conn.retry_at = Some(at);
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "{}: attempt {} has come to nothing: {error:?}",
            conn.peer,
            conn.attempts
        );
        self.reactor.schedule(at, Due::Conn(id));
    }

    /// Ends the attempts to connect. The next operation for the peer reports the error, and the one after that connects
    /// again.
    #[cold]
    fn give_up(&mut self, domain: &mut StateOf, id: usize, now: Instant) {
        let conn = &self.conns[id];
        let (ep, peer, error, attempts) = (conn.ep, conn.peer, conn.last_error, conn.attempts);
        let (is_look, is_wanted) = (conn.is_look, conn.is_wanted);
        if is_look && is_silence(error) {
            let outer = domain
                .loss
                .replace(loss_of(&format!("{peer} does not answer")));
            self.fail_receives(domain, id, error);
            domain.loss = outer;
        }
        if is_look && !is_wanted {
            // The next operation starts its own attempt.
            self.unlink_peer(id);
            return self.retire(id);
        }
        log_warn!(
            &SOURCE,
            Subsys::EpCtrl,
            "no connection to {peer} after {} attempts: {:?}",
            attempts,
            std::io::Error::from_raw_os_error(error.code()).to_string()
        );
        let limit = self.lower.params.conn_timeout;
        if let Some(endpoint) = self.endpoint_mut(ep) {
            endpoint.unreachable.insert(peer, error, now, limit);
        }
        self.unlink_peer(id);
        self.retire(id);
    }

    /// Starts a test connection after a connection has ended below without a reason. Receives that name the peer stay
    /// posted if it may return. If the peer's host is silent, they would wait forever; an attempt to connect finds that
    /// out.
    #[cold]
    pub fn look_for(&mut self, domain: &mut StateOf, ep: usize, fi_addr: u64) {
        if fi_addr == FI_ADDR_NOTAVAIL
            || domain.find_ep(ep).is_none()
            || !domain.awaits(ep, fi_addr)
        {
            return;
        }
        // An address that was removed from the vector names no peer.
        let Ok(id) = self.find_peer(domain, ep, fi_addr) else {
            return;
        };
        let conn = &mut self.conns[id];
        if conn.state == State::Idle && !conn.is_wanted {
            conn.is_look = true;
            self.connect(domain, id);
        }
    }
}
