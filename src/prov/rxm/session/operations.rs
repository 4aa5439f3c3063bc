// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of this side, and the ends of operations below.

use super::flight::Kind;
use super::outgoing::Outgoing;
use super::{Cx, Session, Wire};
use crate::rxm::state::StateOf;
use base::{Error, Result};
use engine::domain_state::TxOp;
use engine::peer::handover::Handover;
use object::ops::atomic::Atomic;
use object::ops::transfer::{OneTx, Tx};

impl Session {
    /// Posts a copied message below at once. Returns false if nothing was done and `post` has to handle it.
    #[inline]
    pub fn post_short<W: Wire>(&mut self, cx: &mut Cx<'_, W>, ep: usize, tx: &OneTx) -> bool {
        self.outgoing.post_short(&self.link, cx, ep, tx)
    }

    /// Posts an operation, or keeps it until the connection is up. `context` is the receive context of the peer. Takes
    /// over `tx`'s memory only on success. FI_EAGAIN: there is no room, or no connection; see `refuse`.
    pub fn post<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        if !self.is_up() || self.outgoing.is_deferring() {
            self.outgoing.defer(cx, tx, op, context)?;
            self.connection.awaited_by_operation();
            return Ok(());
        }
        let sent = self.outgoing.post(&mut self.link, cx, tx, op, context)?;
        self.end_if_unsent(cx, sent);
        Ok(())
    }

    /// Like `post`, for a message of a collective. FI_EOPNOTSUPP if the peer takes part in none.
    pub fn post_of_group<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        match self.is_up() {
            true if self.link.has_groups() => self.post(cx, tx, op, context),
            true => Err(Error::OPNOTSUPP),
            false => Err(Error::AGAIN),
        }
    }

    pub fn post_atomic<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        // The answer comes in a packet that names the connection, so such an operation is not deferred.
        if !self.is_up() || self.outgoing.is_deferring() {
            return Err(Error::AGAIN);
        }
        self.outgoing.post_atomic(&mut self.link, cx, atomic, op)
    }

    /// Records that an operation was refused for lack of a connection.
    pub fn refuse(&mut self) {
        self.connection.refuse();
    }

    /// Gives the peer credits for posted receives.
    pub fn give_credits<W: Wire>(&mut self, cx: &mut Cx<'_, W>, count: u64) {
        if self.is_up() {
            self.outgoing.give_credits(&mut self.link, cx, count);
        }
    }

    /// Passes queued operations to the wire, as far as there is room.
    pub fn send_held<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        let sent = self.outgoing.send_held(&mut self.link, cx);
        self.end_if_unsent(cx, sent);
    }

    /// Handles the end of an operation below: continues or fails the operation that it belongs to.
    #[inline]
    pub fn landed<W: Wire>(&mut self, cx: &mut Cx<'_, W>, kind: Kind, error: Option<Error>) {
        let (link, out) = (&mut self.link, &mut self.outgoing);
        out.left();
        let sent = match kind {
            Kind::Fetched(at) if error.is_none() => self.incoming.read_one(link, out, cx, at),
            Kind::Written(msg) if error.is_none() => out.wrote_one(link, cx, msg),
            kind => return out.landed(cx.domain, kind, error),
        };
        self.end_if_unsent(cx, sent);
    }

    /// Handles the end of an operation whose connection below is closed.
    pub fn ended(&mut self, domain: &mut StateOf, kind: Kind, error: Option<Error>) {
        self.outgoing.left();
        self.outgoing.ended(domain, kind, error);
    }

    /// Removes an operation of which nothing was posted below.
    pub fn take_unsent<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        ep: usize,
        context: usize,
    ) -> Option<TxOp> {
        self.outgoing.take_unsent(cx, ep, context)
    }

    /// Returns the operations of this side.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// Drops the operations of a transmit context that have not started; the others get another context. Returns
    /// whether the connection has to end, because it may still use memory of the context.
    pub fn leave_transmits<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        handover: &mut Handover,
    ) -> bool {
        self.outgoing.leave_transmits(cx, handover)
    }

    /// Moves the groups of a closed context to the other one.
    pub fn transfer_groups(&mut self, handover: &mut Handover) {
        self.outgoing.transfer_groups(handover);
    }

    /// Drops the receives of a receive context. Returns whether the connection has to end, because operations below may
    /// still write to them.
    pub fn leave_receives(&mut self, ep: usize) -> bool {
        self.incoming.leave_receives(ep)
    }
}
