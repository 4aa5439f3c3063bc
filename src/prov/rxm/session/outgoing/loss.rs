// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fate of operations when their connection ends, or when the application cancels them.

use super::{Outgoing, put_slots};
use crate::rxm::session::flight::{Group, Kind, Post};
use crate::rxm::session::{Cx, Wire};
use crate::rxm::state::StateOf;
use base::Error;
use engine::domain_state::TxOp;

impl Outgoing {
    /// Ends all operations. Without an error they end silently. Those in flight below end with their connection there:
    /// `Wire::take_ended`.
    pub fn fail_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Option<Error>) {
        (self.is_listed, self.credits) = (false, 0);
        self.fail_deferred(cx.common, cx.domain, error);
        for post in std::mem::take(&mut self.held) {
            drop(put_slots(cx.wire, post.loan));
            self.ended(cx.domain, post.flight.kind, error);
        }
        for send in self.sends.take_all() {
            drop(send.lent);
            end_transmit(cx.domain, &send.op, error);
        }
        for asked in self.asked.take_all() {
            end_transmit(cx.domain, &asked.op, error);
        }
    }

    /// Handles the end of an operation whose connection below is closed, or that was not posted.
    pub fn ended(&mut self, domain: &mut StateOf, kind: Kind, error: Option<Error>) {
        match kind {
            Kind::Op(op) => end_transmit(domain, &op, error),
            Kind::Part(group) => {
                let parts = &mut self.groups[group];
                parts.left -= 1;
                if parts.left == 0 {
                    let parts = self.groups.remove(group);
                    end_transmit(domain, &parts.op, error);
                } else {
                    parts.failed = parts.failed.or(error);
                }
            }
            // These go with the tables.
            Kind::Control | Kind::Announce(_) | Kind::Fetched(_) | Kind::Written(_) => {}
        }
    }

    /// Removes an operation of which nothing was posted below.
    pub fn take_unsent<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        ep: usize,
        context: usize,
    ) -> Option<TxOp> {
        let deferred = self.take_deferred(cx.common, ep, context);
        if deferred.is_some() {
            return deferred;
        }
        let is_meant = |op: &TxOp| op.is_named(ep, context);
        let of_it = |post: &Post| match post.flight.kind {
            Kind::Op(ref op) => is_meant(op),
            Kind::Announce(msg) => self.sends.get(msg).is_some_and(|send| is_meant(&send.op)),
            Kind::Part(group) => is_meant(&self.groups[group].op),
            _ => false,
        };
        let held = &self.held;
        let post = held.iter().find(|post| of_it(post))?;
        let op = match &post.flight.kind {
            Kind::Op(op) => *op,
            Kind::Announce(msg) => self.sends.get(*msg)?.op,
            Kind::Part(group) => {
                let Group { op, left, .. } = &self.groups[*group];
                if held.iter().filter(|post| of_it(post)).count() < *left {
                    return None;
                }
                *op
            }
            _ => return None,
        };
        let is_of_it: Vec<bool> = held.iter().map(of_it).collect();
        let mut is_of_it = is_of_it.into_iter();
        for post in std::mem::take(&mut self.held) {
            if is_of_it.next() != Some(true) {
                self.held.push_back(post);
                continue;
            }
            drop(put_slots(cx.wire, post.loan));
            match post.flight.kind {
                Kind::Announce(msg) => drop(self.sends.remove(msg)),
                Kind::Part(group) => drop(self.groups.try_remove(group)),
                _ => {}
            }
        }
        Some(op)
    }

    /// Whether accepted operations without a completion have not left. See `is_unreported_below` for those in flight
    /// below.
    pub fn owes(&self) -> bool {
        self.sends.iter().any(|send| send.op.is_unreported())
            || self.asked.iter().any(|asked| asked.op.is_unreported())
            || self.deferred.iter().any(|waits| waits.op.is_unreported())
            || self
                .held
                .iter()
                .any(|post| self.is_unreported_below(&post.flight.kind))
    }

    /// Whether an operation below belongs to an operation without a completion, or is an answer.
    pub fn is_unreported_below(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Op(op) => op.is_unreported(),
            Kind::Part(group) => self.groups[*group].op.is_unreported(),
            Kind::Control => true,
            Kind::Announce(_) | Kind::Fetched(_) | Kind::Written(_) => false,
        }
    }
}

pub(super) fn end_transmit(domain: &mut StateOf, op: &TxOp, error: Option<Error>) {
    if let Some(error) = error
        && domain.eps.get(op.ep()).is_some()
    {
        domain.fail_tx(op, error);
    }
}
