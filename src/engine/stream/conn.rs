// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One peer of an endpoint: its session, the link under it, and how the connection comes about and is watched.
//!
//! What is queued belongs to the peer and not to the socket, so that it survives losing a simultaneous connect. The
//! first operation to a peer starts the connection and is queued; it does not answer FI_EAGAIN.
#![forbid(unsafe_code)]

use std::time::Instant;

use crate::base::Error;
use crate::engine::connect_clock::ConnectClock;
use crate::engine::stream::link::Link;
use crate::engine::stream::net::Net;
use crate::engine::stream::session::Session;

/// The connection to a peer. What the application has posted outlives attempts to connect.
pub struct Conn<N: Net> {
    pub session: Session<N::Addr>,
    pub link: Link,
    /// We opened the connection that is up.
    pub opened_here: bool,
    /// Receives only: the second of two crossing connections, or the receiving half of one to this endpoint itself.
    pub receive_only: bool,
    /// Time that the peer has left to accept a connection.
    pub clock: ConnectClock,
    /// Attempts to connect that have failed.
    pub attempts: u32,
    /// The application was told to come again when it is up.
    pub is_wanted: bool,
    /// Why the last attempt failed.
    pub last_error: Option<Error>,
    /// The log says that operations wait for the peer.
    pub is_stalled: bool,
    /// What was under way at the last tick; see `stall`.
    pub transfer: u64,
    /// What epoll watches for.
    pub watch: Watch,
    /// Among those that are read without asking epoll first.
    pub hot: bool,
    /// Polls in a row that brought nothing.
    pub misses: u32,
    /// The connection that had news after this one had; a guess.
    pub next: usize,
    /// Polls that brought something since all was left to epoll.
    pub hits: u32,
    /// Since when bytes are under way of which the peer has acknowledged none.
    pub unanswered: Option<Instant>,
    /// What the provider keeps.
    pub own: N::Conn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watch {
    pub added: bool,
    pub read: bool,
    pub write: bool,
}

impl<N: Net> Conn<N> {
    pub fn new(ep: usize, peer: N::Addr, fi_addr: u64) -> Conn<N> {
        Conn {
            session: Session::new(ep, peer, fi_addr),
            link: Link::Down,
            opened_here: false,
            receive_only: false,
            clock: ConnectClock::default(),
            attempts: 0,
            is_wanted: false,
            last_error: None,
            is_stalled: false,
            transfer: 0,
            watch: Watch::default(),
            hot: false,
            misses: 0,
            hits: 0,
            unanswered: None,
            next: usize::MAX,
            own: N::Conn::default(),
        }
    }

    /// Whether something posted still depends on this peer.
    pub fn has_work(&self) -> bool {
        self.session.has_work() || self.is_wanted
    }
}
