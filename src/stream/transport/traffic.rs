// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Traffic over connections: reading, writing, and the requests of sessions that concern their own links.
//!
//! - `sockets` and `rings` poll; `read` reads sockets, `flush` writes what is queued. `post` has the short ways into a
//!   ring.
//! - `alive` detects silent hosts, `stall` reports operations that wait too long for a peer. `regions` closes
//!   registered memory that peers may be using.
//!
//! A session that ends stays until `Stream::settle` tears it down, because the end of one connection can end others and
//! begin new ones (a collective that fails).

mod alive;
mod flush;
mod post;
mod read;
mod regions;
mod rings;
mod sockets;
mod stall;

use std::collections::VecDeque;

use super::{DomainOf, Traffic};
use crate::conn::Conn;
use crate::connector::Connector;
use crate::lines::Lines;
use crate::session::common::Todo;
use crate::session::{Cx, Ending, Session, State};

impl<N: Connector> Traffic<N> {
    /// Whether there are connections over shared memory.
    #[inline(always)]
    pub(super) fn has_shm(&self) -> bool {
        N::ALL_SHM || N::MAY_SHARE && self.shm.count() > 0
    }

    /// Returns the connections with the parts that poll them.
    pub(super) fn lines(&mut self) -> Lines<'_, N> {
        Lines {
            peers: &mut self.peers,
            poller: &mut self.poller,
            shm: &mut self.shm,
            poll: self.common.polls,
        }
    }

    /// Returns the session of a peer and the parts that it needs. The caller must call `serve` or `Stream::settle`
    /// afterwards.
    #[inline(always)]
    pub(super) fn at<'a>(
        &'a mut self,
        domain: &'a mut DomainOf<N>,
        id: usize,
    ) -> (&'a mut Session<N::Addr>, Cx<'a, N::Addr>) {
        let Conn { session, link, .. } = &mut self.peers[id];
        let cx = Cx {
            id,
            domain,
            link,
            common: &mut self.common,
        };
        (session, cx)
    }

    /// Calls the session of a peer.
    pub(super) fn with<R>(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        call: impl FnOnce(&mut Session<N::Addr>, &mut Cx<'_, N::Addr>) -> R,
    ) -> R {
        let (session, mut cx) = self.at(domain, id);
        let result = call(session, &mut cx);
        self.serve();
        result
    }

    /// Ends a session.
    #[cold]
    fn end(&mut self, id: usize, ending: Ending) {
        let session = &mut self.peers[id].session;
        if !session.is_over() {
            session.ending = Some(Box::new(ending));
            self.common.todo.push_back((id, Todo::End));
        }
    }

    /// Carries out the requests of sessions that concern their own links. The others stay.
    #[inline(always)]
    fn serve(&mut self) {
        if !self.common.todo.is_empty() {
            self.serve_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_all(&mut self) {
        let mut others = VecDeque::new();
        while let Some((id, todo)) = self.common.todo.pop_front() {
            if let Some(other) = self.carry_out(id, todo) {
                others.push_back((id, other));
            }
        }
        self.common.todo = others;
    }

    /// Carries out a request of a session, unless it concerns more than the session's link.
    #[cold]
    pub(super) fn carry_out(&mut self, id: usize, todo: Todo) -> Option<Todo> {
        match todo {
            Todo::WatchPeers => self.watch_peers(),
            Todo::WatchWaits => self.arm_waits(),
            Todo::Collectives(_) | Todo::End | Todo::Retire | Todo::KeptOpen | Todo::Reopened => {
                return Some(todo);
            }
            // The loss of one peer may have ended the session of another.
            _ if !self.peers.contains(id) => {}
            Todo::Blocked => self.lines().blocked(id),
            Todo::CannotSend(error) => {
                let source = self.common.source;
                self.peers[id].report_unsent(source, &error);
            }
            Todo::PauseRead => self.lines().pause_read(id),
            Todo::ResumeRead => self.lines().resume_read(id),
            Todo::Poll => self.lines().poll_ring(id),
        }
        None
    }

    /// Retries held operations after a poll, because the operations that they wait for may have completed.
    #[cold]
    pub(super) fn retry_held(&mut self, domain: &mut DomainOf<N>) {
        for id in self.common.held.take() {
            let up = |conn: &Conn<N>| conn.session.state == State::Up && !conn.session.is_over();
            if self.peers.get(id).is_some_and(up) {
                self.with(domain, id, |session, cx| {
                    session.tx.send_waiting(cx, session.agreed)
                });
            }
        }
    }

    /// Drops all operations of a connection without a completion, because the endpoint is closed: fi_endpoint(3),
    /// fi_close.
    pub(super) fn discard(&mut self, domain: &mut DomainOf<N>, id: usize) {
        self.lines().close(id);
        let conn = &mut self.peers[id];
        let ep = conn.session.peer.ep;
        if let Some((srx, slot)) = conn.session.rx.slot() {
            domain.srxs[srx].lost(slot);
        }
        domain.forget_claims(ep, id);
        self.common.stalled.remove(id);
        self.peers.remove(domain, id);
    }
}
