// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The parts of a domain that a connector uses during one call, and the actions that it queues for the stream.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::connector::Connector;
use crate::lines::Lines;
use crate::link::Link;
use crate::peers::Peers;
use crate::poller::{Due, Poller};
use crate::session::common::{Common, Limits};
use crate::session::{Attempt, Cx, State};
use crate::shm_channel::ShmChannel;
use crate::shm_host::ShmHost;
use crate::transport::DomainOf;
use abi::FI_ADDR_NOTAVAIL;
use base::log::Source;
use base::{Error, Result};
use sync::stats::Count;
use sys::fork::Birth;
use sys::probe;
use sys::socket::Socket;

/// If a listener of this host has not answered for this long, its queue is full.
const FULL_QUEUE: Duration = Duration::from_millis(200);

/// A request of a connector to the stream. Requests are carried out in their order.
pub enum Action<R> {
    /// The connection is up: queued operations are sent.
    Up(usize),
    /// An attempt has failed and is undone. It is repeated later, if that may help and there is time left.
    Failed {
        id: usize,
        error: Error,
        is_passing: bool,
    },
    /// The peer has closed the connection as agreed, and uses another one.
    Retire(usize),
    /// The connection is over: operations with the peer fail.
    End(usize, Error),
    /// MSG: fi_connect has failed. `cause` goes into `prov_errno`; `private` is the data of the peer's refusal.
    Refused {
        id: usize,
        error: Error,
        cause: Error,
        private: Vec<u8>,
    },
    /// MSG: the application gets this event.
    Event(usize, u32, Vec<u8>),
    /// The request comes back as an event, after the actions before this one.
    Readmit(Box<R>),
}

impl<R> Action<R> {
    /// Returns the connection that the action is about.
    pub(super) fn conn(&self) -> Option<usize> {
        match *self {
            Action::Up(id) | Action::Retire(id) | Action::End(id, _) => Some(id),
            Action::Event(id, ..) => Some(id),
            Action::Failed { id, .. } | Action::Refused { id, .. } => Some(id),
            Action::Readmit(_) => None,
        }
    }
}

/// The parts of a domain for one call of a connector.
pub struct Desk<'a, N: Connector> {
    pub peers: &'a mut Peers<N>,
    pub poller: &'a mut Poller,
    pub shm: &'a mut ShmHost,
    pub domain: &'a mut DomainOf<N>,
    /// Log source of the provider.
    pub source: &'static Source,
    pub limits: Limits,
    pub(super) common: &'a mut Common,
    pub(super) birth: Birth,
    pub(super) actions: &'a mut VecDeque<Action<N::Request>>,
}

impl<N: Connector> Desk<'_, N> {
    pub fn now(&self) -> Instant {
        self.poller.now()
    }

    /// Whether this is the process that opened the domain.
    pub fn is_at_home(&self) -> bool {
        self.birth.is_here()
    }

    pub fn act(&mut self, action: Action<N::Request>) {
        self.actions.push_back(action);
    }

    /// Queues the end of a connection.
    pub fn end(&mut self, id: usize, error: Error) {
        self.act(Action::End(id, error));
    }

    /// Completes a connection, whose link is in place.
    pub fn up(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        let session = &mut conn.session;
        session.state = State::Up;
        self.domain.eps[session.peer.ep]
            .stats
            .count(Count::Connected);
        probe::connect(session.peer.ep, id, session.peer.fi_addr);
        session.exposed.set_key(N::key(&conn.own).cloned());
        conn.clock.reset();
        conn.attempts = 0;
        self.act(Action::Up(id));
    }
}

/// Links.
impl<N: Connector> Desk<'_, N> {
    fn lines(&mut self) -> Lines<'_, N> {
        Lines {
            peers: self.peers,
            poller: self.poller,
            shm: self.shm,
            poll: self.common.polls,
        }
    }

    /// Sets the events that epoll watches for.
    pub fn rewatch(&mut self, id: usize, read: bool, write: bool) {
        self.lines().watch(id, read, write);
    }

    /// Watches a socket for data and makes it the link of a connection that has none.
    pub fn take_socket(&mut self, id: usize, socket: Socket) -> Result {
        self.poller.watch(id, &socket, true, false)?;
        self.peers[id].link = Link::Socket(socket);
        Ok(())
    }

    /// Takes the socket of a connection out of its link.
    pub fn set_aside(&mut self, id: usize) -> Option<Socket> {
        let Link::Socket(socket) = self.peers[id].link.take() else {
            return None;
        };
        self.poller.remove(id, Some(socket.as_fd()));
        Some(socket)
    }

    /// Switches the connection to shared memory; its socket becomes the doorbell.
    pub fn use_shm(&mut self, id: usize, shm: Box<ShmChannel>) {
        self.peers[id].link.upgrade(*shm);
        self.poll_ring(id);
    }

    /// Switches the connection to the memory that its peer has accepted.
    pub fn use_offered(&mut self, id: usize) {
        self.peers[id].link.accepted();
        self.poll_ring(id);
    }

    fn poll_ring(&mut self, id: usize) {
        let has_watchers = !self.domain.watchers.is_empty();
        let polls = self.common.polls;
        self.shm
            .add(self.peers, self.poller, id, has_watchers, polls);
    }

    /// Writes the messages that wait for the connection into the memory that was offered to the peer.
    pub fn send_early(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        let mut cx = Cx {
            id,
            domain: self.domain,
            link: &mut conn.link,
            common: self.common,
        };
        conn.session.tx.send_early(&mut cx);
    }

    pub fn close_link(&mut self, id: usize) {
        self.lines().close(id);
    }
}

/// Peers.
impl<N: Connector> Desk<'_, N> {
    /// Adds a connection for a peer that has begun to connect; its address may be in the vector.
    pub fn new_peer(&mut self, ep: usize, peer: N::Addr) -> usize {
        let fi_addr = self.number_of(ep, &peer);
        self.peers.insert(self.domain, ep, peer, fi_addr)
    }

    /// Adds a connection that only receives, in addition to the one that carries messages to the peer.
    pub fn new_receive_only(&mut self, ep: usize, peer: N::Addr) -> usize {
        let fi_addr = self.number_of(ep, &peer);
        self.peers
            .insert_receive_only(self.domain, ep, peer, fi_addr)
    }

    /// Returns the peer's index in the endpoint's vector, or FI_ADDR_NOTAVAIL.
    pub fn number_of(&mut self, ep: usize, peer: &N::Addr) -> u64 {
        let Some(av) = self.domain.eps[ep].av else {
            return FI_ADDR_NOTAVAIL;
        };
        if self.domain.avs[av].find(peer).is_none() {
            // If the vector cannot be read, the address counts as unknown.
            let Ok(ended) = self.peers.renew(self.domain, av) else {
                return FI_ADDR_NOTAVAIL;
            };
            for (id, error) in ended {
                self.end(id, error);
            }
        }
        let index = self.domain.avs[av].find(peer);
        index.unwrap_or(FI_ADDR_NOTAVAIL)
    }
}

/// Time limits.
impl<N: Connector> Desk<'_, N> {
    /// Schedules the next check of an attempt that the kernel is working on.
    pub fn schedule_attempt(&mut self, id: usize) {
        let conn = &self.peers[id];
        let at = match N::is_on_this_host(conn) {
            true => Some(self.now() + FULL_QUEUE),
            false => conn.clock.deadline(),
        };
        if let Some(at) = at {
            self.poller.schedule(at, Due::Conn(id));
        }
    }

    /// Records a connection attempt that the application waits for, with `len` bytes of private data.
    pub fn watch_attempt(&mut self, id: usize, len: usize) {
        let waits = &mut self.common.waits;
        let (since, len) = (waits.stamp(), len as u16);
        self.peers[id].session.attempt = Some(Attempt { since, len });
        if waits.arm() {
            let at = self.poller.now() + waits.interval();
            self.poller.schedule(at, Due::Waits);
        }
    }
}
