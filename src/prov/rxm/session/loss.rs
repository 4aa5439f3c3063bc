// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fate of operations when a connection ends, or when the application cancels them.

use core::fmt;

use super::flight::{Group, Kind, Post};
use super::outgoing::put_slots;
use super::{Cause, Cx, Ending, Over, Session, State, Wire};
use crate::rxm::SOURCE;
use crate::rxm::state::StateOf;
use abi::FI_ADDR_NOTAVAIL;
use base::Error;
use base::log::{Subsys, log_info, log_warn};
use engine::domain_state::TxOp;
use engine::peer::claim::Claim;

impl Session {
    /// Ends the connection after the packets that have already arrived are handled: `Common::ending`.
    #[cold]
    pub fn end_later<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error) {
        let (id, arrival) = (self.id, self.arrival);
        let is_there = arrival != 0 && self.state() != State::Over;
        let ending = &mut cx.common.ending;
        if is_there && !ending.iter().any(|ending| ending.arrival == arrival) {
            ending.push(Ending { id, arrival, error });
            // Its remaining packets can be read to the end.
            self.resume(cx);
        }
    }

    /// Ends the session: everything that depended on the connection fails, with the fate of the peer as the reason.
    #[cold]
    pub fn lost<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error, what: &dyn fmt::Display) {
        // An earlier packet may have ended it already.
        if self.state() == State::Over {
            return;
        }
        let was_up = self.state() == State::Up;
        self.set_over(cx);
        let sentence = format!("{} {what}", self.peer);
        let outer = cx.domain.begin_loss(&sentence);
        self.fail_all(cx, Some(error));
        if was_up && is_silence(error) {
            self.fail_receives(cx, error);
        }
        match cx.domain.end_loss(outer) {
            0 if was_up => log_info!(&SOURCE, Subsys::EpData, "{sentence}"),
            0 => {}
            failed => log_warn!(
                &SOURCE,
                Subsys::EpData,
                "{sentence}: operations with it fail: {failed}"
            ),
        }
        let id = self.id;
        cx.common.ending.retain(|ending| ending.id != id);
        self.close(cx);
        let cause = Cause::Lost;
        cx.common.over.push(Over { id, cause });
    }

    /// Ends the session silently, because its endpoint is closed.
    pub fn drop_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        if self.state() == State::Over {
            return;
        }
        self.set_over(cx);
        self.fail_all(cx, None);
        self.close(cx);
        let (id, cause) = (self.id, Cause::Closed);
        cx.common.over.push(Over { id, cause });
    }

    /// Fails the receives that name the peer, whose host is silent.
    pub(super) fn fail_receives<W>(&self, cx: &mut Cx<'_, W>, error: Error) {
        if self.fi_addr != FI_ADDR_NOTAVAIL && cx.domain.find_ep(self.ep).is_some() {
            cx.domain.fail_receives_from(self.ep, self.fi_addr, error);
        }
    }

    /// Ends everything that depends on the connection. Without an error it ends silently.
    fn fail_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Option<Error>) {
        // Packets that arrived earlier are still delivered.
        self.deliver_rest(cx);
        let id = self.id;
        cx.common.held.retain(|&other| other != id);
        cx.common.stalled.retain(|&other| other != id);
        for post in std::mem::take(&mut self.held) {
            drop(put_slots(cx.wire, post.loan));
            self.ended(cx.domain, post.flight.kind, error);
        }
        for (_, coming) in std::mem::take(&mut self.coming) {
            coming.claim.end(cx.domain, error);
        }
        for send in self.sends.take_all() {
            drop(send.lent);
            end_transmit(cx.domain, &send.op, error);
        }
        for asked in self.asked.take_all() {
            end_transmit(cx.domain, &asked.op, error);
        }
        for (_, fetch) in std::mem::take(&mut self.fetches) {
            drop(fetch.lent);
            Claim::of(Some(*fetch.recv), fetch.envelope).end(cx.domain, error);
        }
        self.parked.clear();
        cx.domain.forget_claims(self.ep, id);
        // Operations in flight below end with their connection there: `Wire::take_ended`.
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

    /// Shuts the connection below down.
    pub(super) fn close<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        self.inbox.reset_pause();
        if core::mem::take(&mut self.arrival) != 0 {
            cx.wire.close(self.id);
        }
    }

    /// Removes an operation of which nothing was posted below.
    pub fn take_unsent<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        ep: usize,
        context: usize,
    ) -> Option<TxOp> {
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
        if self.held.is_empty() {
            let id = self.id;
            cx.common.held.retain(|&other| other != id);
        }
        Some(op)
    }

    /// Whether accepted operations without a completion have not left. See `owes_below` for those in flight below.
    pub fn owes(&self) -> bool {
        self.sends.iter().any(|send| send.op.is_unreported())
            || self.asked.iter().any(|asked| asked.op.is_unreported())
            || self
                .held
                .iter()
                .any(|post| self.owes_below(&post.flight.kind))
    }

    /// Whether an operation below belongs to an operation without a completion, or is an answer.
    pub fn owes_below(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Op(op) => op.is_unreported(),
            Kind::Part(group) => self.groups[*group].op.is_unreported(),
            Kind::Control => true,
            Kind::Announce(_) | Kind::Fetched(_) | Kind::Written(_) => false,
        }
    }
}

/// Whether the peer's host does not answer at all, not even with a refusal.
pub fn is_silence(error: Error) -> bool {
    matches!(error, Error::TIMEDOUT | Error::HOSTUNREACH)
}

fn end_transmit(domain: &mut StateOf, op: &TxOp, error: Option<Error>) {
    if let Some(error) = error
        && domain.find_ep(op.ep()).is_some()
    {
        domain.fail_tx(op, error);
    }
}
