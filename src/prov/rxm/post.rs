// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes posted operations to the sessions of their destinations.

use super::lower::Lower;
use super::proto::{ATOMIC_HEADER, HEADER, MAX_CONTEXTS, MAX_PLACES};
use super::session::{Cx, Session};
use super::state::{Rxm, StateOf};
use base::flags::flags;
use base::{Error, OpFlags, Result};
use engine::address::ip::Addr;
use engine::coll::messages::{Carries, Messages, Target};
use engine::domain_state::TxOp;
use engine::ep_state::Role;
use engine::peer::post::Posts;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{OneTx, Tx, What};

/// Flags of messages that the fast path does not handle.
const SPECIAL: OpFlags = flags!(OpFlags:
    DELIVERY_COMPLETE | TRANSMIT_COMPLETE | COMMIT_COMPLETE | MATCH_COMPLETE | FENCE | TRIGGER
);

impl Rxm {
    /// Posts a copied message below at once. Returns false if nothing was done and `post` has to handle it.
    #[inline]
    pub fn post_short(&mut self, domain: &mut StateOf, ep: usize, tx: &OneTx) -> bool {
        let most = self.sessions.common.settings.inject;
        if HEADER + tx.piece.len() > most || tx.flags.intersects(SPECIAL) {
            return false;
        }
        let Some(id) = self.sessions.usable(ep, tx.dest) else {
            return false;
        };
        if domain.may_post(ep).is_err() {
            return false;
        }
        let posted = self
            .sessions
            .with(domain, &mut self.lower, id, |session, cx| {
                session.post_short(cx, ep, tx)
            });
        posted == Some(true)
    }
}

impl Rxm {
    /// Posts an operation to a session, once more if the session refuses it and progress makes the connection ready.
    fn post_to(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        mut post: impl FnMut(&mut Session, &mut Cx<'_, Lower>) -> Result,
    ) -> Result {
        let lower = &mut self.lower;
        match self.sessions.with(domain, lower, id, &mut post) {
            None | Some(Err(Error::AGAIN)) => {}
            Some(result) => return result,
        }
        if let Some(error) = self.refusal(domain, id) {
            return Err(error);
        }
        let lower = &mut self.lower;
        let posted = self.sessions.with(domain, lower, id, post);
        posted.unwrap_or(Err(Error::AGAIN))
    }
}

impl Posts for Rxm {
    const LIMITED: OpFlags = OpFlags::MATCH_COMPLETE;
    const MOST_SEGMENTS: usize = MAX_PLACES;
    const MOST_CONTEXTS: usize = MAX_CONTEXTS;

    fn stamp(&self) -> u16 {
        self.sessions.common.stall_clock.stamp()
    }

    fn check_atomic(&self, atomic: &Atomic<'_>) -> Result {
        // The packet has no field for the data.
        if atomic.family == Family::Base && atomic.flags.contains(OpFlags::REMOTE_CQ_DATA) {
            return Err(Error::OPNOTSUPP);
        }
        let (operands, compare) = (atomic.operands.remaining(), atomic.compare.remaining());
        match ATOMIC_HEADER + operands + compare > self.sessions.common.settings.eager {
            true => Err(Error::MSGSIZE),
            false => Ok(()),
        }
    }

    fn poll_for_room(&mut self, domain: &mut StateOf) -> bool {
        self.poll(domain);
        true
    }

    fn session_for(&mut self, domain: &mut StateOf, port: usize, dest: u64) -> Result<usize> {
        match self.sessions.usable(port, dest) {
            Some(id) => Ok(id),
            None => self.approach(domain, port, dest),
        }
    }

    fn start(
        &mut self,
        domain: &mut StateOf,
        _port: usize,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        // Only the library itself posts messages of a receive context.
        let of_group = matches!(domain.eps[op.ep()].role, Role::Receive { .. });
        self.post_to(domain, id, |session, cx| match of_group {
            false => session.post(cx, tx, op, context),
            true => session.post_of_group(cx, tx, op, context),
        })
    }

    fn start_atomic(
        &mut self,
        domain: &mut StateOf,
        _port: usize,
        id: usize,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        self.post_to(domain, id, |session, cx| {
            session.post_atomic(cx, atomic, op)
        })
    }
}

impl Carries for Rxm {
    /// The application can have no second context.
    const TARGET: Target = Target {
        what: What::Msg,
        tag: 0,
        context: 1,
    };

    fn messages(&mut self) -> &mut Messages<Addr> {
        &mut self.messages
    }

    fn packet(&self) -> usize {
        self.sessions.common.settings.eager.saturating_sub(HEADER)
    }
}
