// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes posted operations to the sessions of their destinations.

use super::{Rxd, State};
use crate::rxd::lower::Line;
use crate::rxd::proto::MAX_IOVS;
use base::flags::flags;
use base::{Error, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::peer::check;
use engine::peer::post::Posts;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::Tx;

impl Posts for Rxd {
    const LIMITED: OpFlags = flags!(OpFlags: MATCH_COMPLETE | COMMIT_COMPLETE);
    const HAS_FENCES: bool = false;
    const MOST_SEGMENTS: usize = MAX_IOVS;

    fn stamp(&self) -> u16 {
        self.stall_clock.stamp()
    }

    fn check_atomic(&self, atomic: &Atomic<'_>) -> Result {
        let len = match atomic.family {
            Family::Base => atomic.operands.remaining(),
            Family::Fetch | Family::Compare => atomic.result.remaining(),
        };
        check::target(atomic.target, len, MAX_IOVS)
    }

    fn poll_for_room(&mut self, domain: &mut State) -> bool {
        self.poll(domain);
        true
    }

    fn session_for(&mut self, domain: &mut State, port: usize, dest: u64) -> Result<usize> {
        let av = domain.eps[port].av.ok_or(Error::NOAV)?;
        let peer = *domain.avs[av].get(dest).ok_or(Error::INVAL)?;
        let endpoint = self.eps.get_mut(&port).ok_or(Error::INVAL)?;
        let mut line = Line {
            lower: &mut self.lower,
            ep: &endpoint.below,
        };
        let now = self.reactor.now();
        endpoint.port.session(domain, &mut line, now, &peer)
    }

    fn start(
        &mut self,
        domain: &mut State,
        port: usize,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        _context: u8,
    ) -> Result {
        self.check_reported(domain, port, id, &op)?;
        let posted = self.with(domain, port, id, |session, cx| session.post(cx, tx, op));
        self.posted(domain);
        posted.unwrap_or(Err(Error::INVAL))
    }

    fn start_atomic(
        &mut self,
        domain: &mut State,
        port: usize,
        id: usize,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        self.check_reported(domain, port, id, &op)?;
        let posted = self.with(domain, port, id, |session, cx| {
            session.post_atomic(cx, atomic, op)
        });
        self.posted(domain);
        posted.unwrap_or(Err(Error::INVAL))
    }
}

impl Rxd {
    /// An operation whose failure would not be reported is not queued for a peer that may be absent: -FI_EAGAIN until
    /// the peer has answered.
    fn check_reported(&mut self, domain: &mut State, port: usize, id: usize, op: &TxOp) -> Result {
        let endpoint = self.eps.get(&port).ok_or(Error::INVAL)?;
        if endpoint.port.is_up(id) || domain.reports_completion(op) {
            return Ok(());
        }
        let asked = self.with(domain, port, id, |session, cx| session.ask(cx));
        asked.unwrap_or(Ok(()))?;
        self.poll(domain);
        Err(Error::AGAIN)
    }
}
