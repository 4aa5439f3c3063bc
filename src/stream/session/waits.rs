// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The operations of a session that wait for the peer, and their ages: `engine::peer::stall`.

use crate::session::receive_state::{At, Sink};
use crate::session::{Session, State};
use engine::domain_state::TxOp;
use engine::peer::stall::Ticks;
use engine::report::{Stage, Waiter};
use engine::srx::Envelope;
use object::ops::transfer::What;

/// The operation that has waited longest for a peer, and the number of waiting operations.
pub struct Oldest {
    pub age: u16,
    pub what: Waiter,
    pub len: u64,
    pub count: usize,
}

/// An operation that waits for a peer.
pub struct Wait {
    /// Tick at which it started to wait.
    pub since: u16,
    pub what: Waiter,
    pub len: u64,
    /// The tag, if it is still available.
    pub tag: Option<u64>,
    pub stage: Stage,
}

impl<A> Session<A> {
    /// Visits all operations that wait for the peer, and the connection attempt that the application waits for.
    pub fn each_wait(&self, mut note: impl FnMut(Wait)) {
        let mut sends = |op: &TxOp, tag: Option<u64>, stage: Stage| {
            note(Wait {
                since: op.since,
                what: Waiter::Transmit(op.what),
                len: op.len as u64,
                tag: tag.filter(|_| op.what == What::Tagged),
                stage,
            });
        };
        self.tx.each_wait(&mut sends);
        if let At::Payload(incoming) = &self.rx.at
            && let Sink::Read(read) = &incoming.sink
        {
            sends(&read.op, None, Stage::Bytes);
        }
        if let Some(attempt) = self.attempt
            && !matches!(self.state, State::Up | State::Down)
        {
            note(Wait {
                since: attempt.since,
                what: Waiter::Connection,
                len: u64::from(attempt.len),
                tag: None,
                stage: Stage::Answer,
            });
        }
        let mut receives = |since: u16, envelope: &Envelope| {
            note(Wait {
                since,
                what: Waiter::Receive,
                len: envelope.len,
                tag: (envelope.what == What::Tagged).then_some(envelope.tag),
                stage: Stage::Bytes,
            });
        };
        if let At::Payload(incoming) = &self.rx.at
            && let Sink::Recv(_, envelope) = &incoming.sink
        {
            receives(self.rx.since, envelope);
        }
        for requested in self.rx.told.requested() {
            if requested.recv.is_some() {
                receives(requested.since, &requested.envelope);
            }
        }
    }

    pub fn oldest(&self, ticks: &Ticks) -> Option<Oldest> {
        let mut oldest: Option<Oldest> = None;
        self.each_wait(|wait| {
            let age = ticks.age(wait.since);
            let count = oldest.as_ref().map_or(0, |oldest| oldest.count) + 1;
            match &mut oldest {
                Some(oldest) if oldest.age >= age => oldest.count = count,
                _ => {
                    oldest = Some(Oldest {
                        age,
                        what: wait.what,
                        len: wait.len,
                        count,
                    });
                }
            }
        });
        oldest
    }

    /// Returns a number that changes while the bytes of a long message move in either direction.
    pub fn transfer(&self) -> u64 {
        let incoming = match &self.rx.at {
            At::Payload(incoming) => incoming.remaining,
            _ => 0,
        };
        self.tx.out.frames().transfer() ^ incoming.rotate_left(32)
    }
}
