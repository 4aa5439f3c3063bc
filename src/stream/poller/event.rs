// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a poll finds: descriptors with an event, and deadlines.

use engine::reactor::Token;
use sys::event::Ready;

/// Kinds of reactor tokens.
pub(super) const CONN: u32 = 1;
pub(super) const LISTENER: u32 = 2;
pub(super) const HANDSHAKE: u32 = 3;
pub(super) const PENDING: u32 = 4;

/// The purpose of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Due {
    Conn(usize),
    Handshake(usize),
    PendingPeer(usize),
    Listener(usize),
    /// Peers that have not acknowledged sent data.
    Peers,
    /// Operations that wait.
    Waits,
    /// Connections that wait for a descriptor.
    Room,
    /// Connections that wait for their turn.
    Turns,
}

/// The descriptor that has an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Polled {
    Timer,
    Conn(usize),
    Listener(usize),
    Handshake(usize),
    Pending(usize),
    Unknown,
}

impl Polled {
    pub(crate) fn of(ready: &Ready) -> Polled {
        let token = Token::of(ready);
        let id = token.id();
        match token.kind() {
            Token::TIMER => Polled::Timer,
            CONN => Polled::Conn(id),
            LISTENER => Polled::Listener(id),
            HANDSHAKE => Polled::Handshake(id),
            PENDING => Polled::Pending(id),
            _ => Polled::Unknown,
        }
    }
}
