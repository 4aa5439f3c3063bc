// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks posted operations and passes them to the sessions of their destinations.

use super::proto::{ATOMIC_HEADER, HEADER, MAX_CONTEXTS, MAX_PLACES};
use super::state::{Rxm, StateOf};
use base::flags::flags;
use base::{Caps, Error, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::ep_state::EpState;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{OneTx, RemoteSeg, Tx, What};

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

    /// Whether there is room for an operation. Drives progress if not, because a program may only send.
    fn may_post(&mut self, domain: &mut StateOf, ep: usize) -> Result {
        if domain.may_post(ep).is_err() {
            self.drive(domain);
        }
        domain.may_post(ep)
    }

    /// Posts an operation of an endpoint.
    pub fn post(&mut self, domain: &mut StateOf, ep: usize, tx: &mut Tx<'_>) -> Result {
        self.post_to(domain, ep, ep, tx, (tx.dest, 0))
    }

    /// Posts an operation of the endpoint `port`, or of its transmit context `ep`, to a peer and one of its receive
    /// contexts.
    pub fn post_to(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
        (dest, context): (u64, u8),
    ) -> Result {
        let state = domain.find_ep(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        if tx.flags.intersects(SPECIAL) {
            check_flags(tx.flags, state)?;
        }
        let mut op = TxOp::of(ep, tx);
        op.since = self.sessions.common.patience.stamp();
        if matches!(tx.what, What::Write | What::Read) {
            check_target(tx.target, op.len)?;
        }
        self.may_post(domain, ep)?;
        let id = match self.sessions.usable(port, dest) {
            Some(id) => id,
            None => self.approach(domain, port, dest)?,
        };
        let posted = self
            .sessions
            .with(domain, &mut self.lower, id, |session, cx| {
                session.post(cx, tx, op, context)
            });
        posted.unwrap_or(Err(Error::AGAIN))
    }

    pub fn post_atomic(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        let state = domain.find_ep(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        check_flags(atomic.flags, state)?;
        let (what, len) = match atomic.family {
            Family::Base => (What::Atomic, atomic.operands.remaining()),
            _ => (What::AtomicFetch, atomic.result.remaining()),
        };
        // The packet has no field for the data.
        if atomic.family == Family::Base && atomic.flags.contains(OpFlags::REMOTE_CQ_DATA) {
            return Err(Error::OPNOTSUPP);
        }
        let (operands, compare) = (atomic.operands.remaining(), atomic.compare.remaining());
        if ATOMIC_HEADER + operands + compare > self.sessions.common.settings.eager {
            return Err(Error::MSGSIZE);
        }
        self.may_post(domain, ep)?;
        // Memory belongs to the endpoint, whichever context the destination names.
        let (dest, _) = domain.destination(port, atomic.dest, MAX_CONTEXTS)?;
        let id = match self.sessions.usable(port, dest) {
            Some(id) => id,
            None => self.approach(domain, port, dest)?,
        };
        let op = TxOp {
            since: self.sessions.common.patience.stamp(),
            what,
            ep: ep as u32,
            flags: atomic.flags,
            context: atomic.context.number(),
            len,
        };
        let posted = self
            .sessions
            .with(domain, &mut self.lower, id, |session, cx| {
                session.post_atomic(cx, atomic, op)
            });
        posted.unwrap_or(Err(Error::AGAIN))
    }
}

/// Refuses flags that the endpoint does not support.
fn check_flags(flags: OpFlags, ep: &EpState) -> Result {
    let has = |flag| flags.contains(flag);
    // A triggered operation arrives here without its flag, unless the endpoint lacks the capability.
    if has(OpFlags::TRIGGER) || has(OpFlags::FENCE) && !ep.caps.contains(Caps::FENCE) {
        return Err(Error::BADFLAGS);
    }
    match has(OpFlags::MATCH_COMPLETE) {
        true => Err(Error::OPNOTSUPP),
        false => Ok(()),
    }
}

/// Checks the target of an access: as many bytes as the operation has, in a few segments.
fn check_target(target: &[RemoteSeg], len: usize) -> Result {
    let add = |total: usize, seg: &RemoteSeg| total.checked_add(seg.len);
    match target.iter().try_fold(0, add) {
        Some(total) if total == len && (1..=MAX_PLACES).contains(&target.len()) => Ok(()),
        _ => Err(Error::INVAL),
    }
}
