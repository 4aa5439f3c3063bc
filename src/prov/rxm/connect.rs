// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes connection events from below to the sessions, and ends sessions whose connection has ended.

use super::SOURCE;
use super::proto::{Reason, Request, reject};
use super::session::{Ending, Session, State, is_silence};
use super::sessions::Reply;
use super::state::{Rxm, StateOf};
use abi::FI_ADDR_NOTAVAIL;
use base::log::{Subsys, log_warn};
use base::{Error, Result};
use client::{EqError, Event, Info, InfoList};
use engine::address::ip::Addr;
use engine::shared_av;
use engine::transport::Address;

impl Rxm {
    /// Returns the session of a destination whose connection is not up, and connects. Returns the error of failed
    /// attempts that no operation has reported.
    #[cold]
    pub fn approach(&mut self, domain: &mut StateOf, ep: usize, dest: u64) -> Result<usize> {
        let id = self.find_peer(domain, ep, dest)?;
        let peer = *self.sessions.get(id).ok_or(Error::AGAIN)?.link().peer();
        let now = self.lower.now();
        if let Some(error) = self.sessions.take_error(ep, &peer, now) {
            return Err(error);
        }
        let lower = &mut self.lower;
        self.sessions
            .with(domain, lower, id, |session, cx| session.want(cx, now));
        if self.sessions.is_live(id) {
            return Ok(id);
        }
        let error = self.sessions.take_error(ep, &peer, now);
        Err(error.unwrap_or(Error::AGAIN))
    }

    /// Called for an operation that a session has refused. If the session is not up, drives progress, because the
    /// program may do nothing but retry. Returns the reason of the refusal, or `None` if the session is up now.
    #[cold]
    pub fn refusal(&mut self, domain: &mut StateOf, id: usize) -> Option<Error> {
        let Some(session) = self.sessions.get(id).filter(|session| !session.is_ready()) else {
            return Some(Error::AGAIN);
        };
        let (ep, peer) = (session.link().ep(), *session.link().peer());
        let lower = &mut self.lower;
        self.sessions
            .with(domain, lower, id, |session, _| session.refuse());
        self.poll(domain);
        let is_idle = |session: &Session| session.state() == State::Idle;
        if self.sessions.get(id).is_some_and(is_idle) {
            // The next attempt may be due.
            self.poll_events(domain, false);
        }
        let is_same = |session: &&Session| {
            session.link().ep() == ep && *session.link().peer() == peer && session.is_ready()
        };
        if self.sessions.get(id).filter(is_same).is_some() {
            return None;
        }
        let now = self.lower.now();
        let error = self.sessions.take_error(ep, &peer, now);
        Some(error.unwrap_or(Error::AGAIN))
    }

    /// Returns the session for an address of the endpoint's vector, and creates it if there is none.
    fn find_peer(&mut self, domain: &mut StateOf, ep: usize, dest: u64) -> Result<usize> {
        let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
        if domain.avs[av].get(dest).is_none() {
            shared_av::renew(self, domain, av)?;
        }
        self.sessions.find_peer(domain, ep, dest)
    }

    /// Handles one event from below. Returns `None` if there is none. `drives`: progress there is driven, too.
    pub fn take_event(&mut self, domain: &mut StateOf, drives: bool) -> Option<()> {
        let eq = &self.lower.domain.eq;
        match if drives { eq.read() } else { eq.read_ready() } {
            Ok(Event::Request { pep, info, data }) => self.requested(domain, pep, &info, &data),
            Ok(Event::Connected { ep, data }) => {
                let (id, now) = (self.lower.session_of(ep), self.lower.now());
                if let Some(id) = id {
                    self.sessions
                        .with(domain, &mut self.lower, id, |session, cx| {
                            session.connected(cx, now, &data)
                        });
                }
            }
            Ok(Event::Shutdown { ep }) => {
                let (id, now) = (self.lower.session_of(ep), self.lower.now());
                if let Some(id) = id {
                    self.sessions
                        .with(domain, &mut self.lower, id, |session, cx| {
                            session.end(cx, now, Error::CONNRESET)
                        });
                }
            }
            Ok(_) => {}
            Err(Error::AVAIL) => {
                let failed = self.lower.domain.eq.readerr().ok()?;
                self.refused(domain, &failed);
            }
            Err(_) => return None,
        }
        Some(())
    }

    fn refused(&mut self, domain: &mut StateOf, failed: &EqError) {
        let Some(id) = self.lower.session_of(failed.object) else {
            return;
        };
        let now = self.lower.now();
        let was_reset = failed.prov_errno == Error::CONNRESET.code();
        self.sessions
            .with(domain, &mut self.lower, id, |session, cx| {
                session.refused(cx, now, failed.error, was_reset, &failed.err_data)
            });
    }

    /// Handles a peer's request to connect.
    fn requested(&mut self, domain: &mut StateOf, pep: usize, list: &InfoList, data: &[u8]) {
        let Some(info) = list.first() else { return };
        let Some(ep) = self.lower.listening(pep) else {
            return;
        };
        let from = info.dest_addr().and_then(|bytes| Addr::from_bytes(&bytes));
        let (peer, request) = match self.sessions.check_request(from, data) {
            Ok(checked) => checked,
            Err(why) => {
                log_warn!(&SOURCE, Subsys::EpCtrl, "a connection is refused: {why}");
                return self.lower.reject(ep, info, &reject(Reason::Refused));
            }
        };
        self.look_up(domain, ep, &peer);
        let at = info
            .src_addr()
            .and_then(|bytes| sys::addr::from_bytes(&bytes));
        match self
            .sessions
            .requested(domain, ep, (peer, at.map(sys::addr::canonical)), &request)
        {
            Reply::Ignore => {}
            Reply::Reject => self.lower.reject(ep, info, &reject(Reason::Connected)),
            Reply::Accept(id) => self.accept(domain, id, info, &request),
            Reply::Replace(id) => {
                // Packets that the peer sent before its restart are delivered first.
                self.sessions
                    .with(domain, &mut self.lower, id, |session, cx| {
                        session.resume(cx)
                    });
                self.take_all(domain);
                self.sessions
                    .with(domain, &mut self.lower, id, |session, cx| {
                        session.lost(cx, Error::CONNRESET, &"has begun anew")
                    });
                let id = self.sessions.new_peer(domain, ep, peer, false);
                self.accept(domain, id, info, &request);
            }
        }
    }

    /// Looks for new addresses in a vector that processes share, if it does not have this one.
    fn look_up(&mut self, domain: &mut StateOf, ep: usize, peer: &Addr) {
        if let Some(av) = domain.eps.get(ep).and_then(|state| state.av)
            && domain.avs[av].find(peer).is_none()
        {
            // On failure, the address stays unknown.
            let _ = shared_av::renew(self, domain, av);
        }
    }

    fn accept(&mut self, domain: &mut StateOf, id: usize, info: Info<'_>, request: &Request) {
        let lower = &mut self.lower;
        let answer = self
            .sessions
            .with(domain, lower, id, |session, cx| session.accept(cx, request));
        let accepted = match answer {
            Some(Ok((place, answer))) => lower.accept(place, info, answer),
            Some(Err(error)) => Err(error),
            None => return,
        };
        self.sessions
            .with(domain, lower, id, |session, cx| match accepted {
                Ok(counts) => session.set_counts(counts),
                Err(error) => session.lost(cx, error, &"could not be accepted"),
            });
    }

    /// Ends connections that cannot deliver anything more. One look for remaining packets serves all of them.
    pub fn end_now(&mut self, domain: &mut StateOf) {
        if self.sessions.common.ending.is_empty() {
            return;
        }
        let mut all = core::mem::take(&mut self.sessions.common.ending);
        if !self.take_all(domain) {
            all.append(&mut self.sessions.common.ending);
            self.sessions.common.ending = all;
            return;
        }
        for Ending { id, arrival, error } in all {
            // One of its last packets may have ended it already.
            let is_its = |session: &&Session| session.link().arrival() == arrival;
            let Some(session) = self.sessions.get(id).filter(is_its) else {
                continue;
            };
            let link = session.link();
            let (ep, fi_addr, was_up) = (link.ep(), link.fi_addr(), session.is_up());
            self.sessions
                .with(domain, &mut self.lower, id, |session, cx| {
                    session.lost(cx, error, &"ended")
                });
            if was_up && !is_silence(error) {
                if domain.eps.contains(ep) {
                    domain.connection_ended(ep, fi_addr, error);
                }
                self.look_for(domain, ep, fi_addr);
            }
        }
    }

    /// Tests whether the host of a peer is alive, whose connection has ended below, if receives name the peer.
    #[cold]
    fn look_for(&mut self, domain: &mut StateOf, ep: usize, fi_addr: u64) {
        if fi_addr == FI_ADDR_NOTAVAIL
            || domain.eps.get(ep).is_none()
            || !domain.awaits(ep, fi_addr)
        {
            return;
        }
        // An address that was removed from the vector names no peer.
        let Ok(id) = self.find_peer(domain, ep, fi_addr) else {
            return;
        };
        let now = self.lower.now();
        self.sessions
            .with(domain, &mut self.lower, id, |session, cx| {
                session.look(cx, now)
            });
    }
}
