// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The agreement to close a connection, as a stream carries it out.

use super::Side;
use crate::link::Link;
use crate::session::closing::Closing;
use crate::session::{Session, State};

impl Side {
    /// Returns to the state before the connection, with the operations that wait for their turn.
    pub(super) fn part(&mut self) {
        self.has_parted = true;
        self.is_read_paused = false;
        let peer = &self.session.peer;
        let agreed = self.session.agreed;
        let swaps = self.session.tx.out.swaps();
        let mut next = Session::new(self.ep, peer.addr.clone(), peer.fi_addr);
        next.agreed = agreed;
        next.tx.out.set_swaps(swaps);
        let last = std::mem::replace(&mut self.session, next);
        self.session.continue_from(last);
        self.common.dirty.clear();
        self.common.stalled.take();
        self.common.held.take();
    }

    /// Describes the connection for a failed test.
    pub fn describe(&self) -> String {
        format!(
            "{:?}, {:?}, parted {}, lost {:?}, reading is paused {}, reads {}, frames {}",
            self.session.state,
            self.session.closing,
            self.has_parted,
            self.lost,
            self.is_read_paused,
            self.session.tx.reads.is_reading(),
            !self.session.tx.out.frames().is_empty(),
        )
    }

    /// Goes on over another connection.
    pub fn reopen(&mut self, link: Link) {
        self.has_parted = false;
        self.link = link;
        self.session.state = State::Up;
        self.session.closing = Closing::new(true);
        self.with(|session, cx| session.tx.send_waiting(cx, session.agreed));
    }

    /// Keeps the connection open, because an operation is about to be posted.
    pub(super) fn prepare(&mut self) {
        if self.session.state == State::Resting {
            self.with(|session, cx| session.withdraw_close(cx));
        }
    }
}
