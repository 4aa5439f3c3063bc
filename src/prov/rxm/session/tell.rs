// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The snapshot of a session for reports: see `engine::report`.

use core::time::Duration;

use super::flight::Kind;
use super::{Session, State};
use abi::FI_ADDR_NOTAVAIL;
use engine::report::Peer;

impl Session {
    /// Describes the session. `below`: its operations in flight; `age` converts stamps of operations.
    pub fn snapshot<'a>(
        &'a self,
        below: impl Iterator<Item = &'a Kind>,
        age: impl Fn(u16) -> Option<Duration>,
    ) -> Peer {
        let mut peer = self.describe();
        self.outgoing.add_sent(&mut peer, &age);
        self.incoming.add_fetches(&mut peer, &age);
        self.outgoing.add_posted(&mut peer, below, &age);
        peer
    }

    fn describe(&self) -> Peer {
        let known = self.link.fi_addr() != FI_ADDR_NOTAVAIL;
        let (attempts, last_error) = self.connection.failures();
        let mut peer = Peer {
            address: self.link.peer().to_string(),
            fi_addr: known.then_some(self.link.fi_addr()),
            state: match self.state() {
                State::Idle => "not connected",
                State::Connecting => "connecting",
                State::Accepted => "waits for the end of its own connection request",
                State::Up => "connected",
                State::Over => "over",
            },
            is_up: self.state() == State::Up,
            is_opening: self.state().is_opening(),
            link: "the provider below",
            attempts,
            last_error: (attempts > 0).then_some(last_error.code()),
            ..Peer::default()
        };
        if self.outgoing.is_held() {
            peer.notes.push("takes no more operations below");
        }
        if !self.inbox.is_empty() {
            peer.notes
                .push("is not read: there is no room for its messages");
        }
        peer
    }
}
