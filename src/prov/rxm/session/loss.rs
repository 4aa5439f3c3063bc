// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fate of operations when a connection ends, or when the application cancels them.

use core::fmt;
use std::ffi::CString;

use super::flight::{Group, Kind, Post};
use super::outgoing::put_slots;
use super::receive::Sink;
use super::{Cause, Cx, Over, Session, State, Wire};
use crate::rxm::SOURCE;
use crate::rxm::state::StateOf;
use base::log::{Subsys, log_info, log_warn};
use base::{Error, OpFlags};
use engine::domain_state::{Loss, TxOp};
use engine::srx::RecvOp;
use object::ops::transfer::What;

impl Session {
    /// Ends the connection after the packets that have already arrived are handled: `Common::ending`.
    #[cold]
    pub fn end_later<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error) {
        self.link.end_later(cx, error);
    }

    /// Resumes receiving from the peer.
    pub fn resume<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        self.link.resume(cx.wire);
    }

    /// Ends the session: everything that depended on the connection fails, with the fate of the peer as the reason.
    #[cold]
    pub fn lost<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error, what: &dyn fmt::Display) {
        // An earlier packet may have ended it already.
        if self.state() == State::Over {
            return;
        }
        let was_up = self.state() == State::Up;
        self.connection.set_state(cx.common, State::Over);
        let sentence = format!("{} {what}", self.link.peer());
        let outer = cx.domain.loss.replace(loss_of(&sentence));
        self.fail_all(cx, Some(error));
        if was_up && is_silence(error) {
            self.link.fail_receives(cx.domain, error);
        }
        let loss = std::mem::replace(&mut cx.domain.loss, outer);
        match loss.map_or(0, |loss| loss.failed) {
            0 if was_up => log_info!(&SOURCE, Subsys::EpData, "{sentence}"),
            0 => {}
            failed => log_warn!(
                &SOURCE,
                Subsys::EpData,
                "{sentence}: operations with it fail: {failed}"
            ),
        }
        let id = self.link.id();
        cx.common.ending.retain(|ending| ending.id != id);
        self.link.close(cx.wire);
        let cause = Cause::Lost;
        cx.common.over.push(Over { id, cause });
    }

    /// Ends the session silently, because its endpoint is closed.
    pub fn drop_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        if self.state() == State::Over {
            return;
        }
        self.connection.set_state(cx.common, State::Over);
        self.fail_all(cx, None);
        self.link.close(cx.wire);
        let (id, cause) = (self.link.id(), Cause::Closed);
        cx.common.over.push(Over { id, cause });
    }

    /// Ends everything that depends on the connection. Without an error it ends silently.
    fn fail_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Option<Error>) {
        // Packets that arrived earlier are still delivered.
        self.deliver_rest(cx);
        let id = self.link.id();
        cx.common.held.retain(|&other| other != id);
        cx.common.stalled.retain(|&other| other != id);
        for post in std::mem::take(&mut self.held) {
            drop(put_slots(cx.wire, post.loan));
            self.ended(cx.domain, post.flight.kind, error);
        }
        for (_, coming) in std::mem::take(&mut self.coming) {
            let ended = match coming.sink {
                Sink::Recv(recv, envelope) => Some((*recv, envelope)),
                Sink::Dropped => None,
                Sink::Kept(srx, slot) => cx.domain.rx_queue_mut(srx).lost(slot),
            };
            if let Some((recv, envelope)) = ended {
                end_receive(cx.domain, envelope.ep, &recv, envelope.what, error);
            }
        }
        for (_, send) in std::mem::take(&mut self.sends) {
            drop(send.lent);
            end_transmit(cx.domain, &send.op, error);
        }
        for (_, asked) in std::mem::take(&mut self.asked) {
            end_transmit(cx.domain, &asked.op, error);
        }
        for (_, fetch) in std::mem::take(&mut self.fetches) {
            drop(fetch.lent);
            let envelope = fetch.envelope;
            end_receive(cx.domain, envelope.ep, &fetch.recv, envelope.what, error);
        }
        self.parked.clear();
        let ep = self.link.ep();
        if cx.domain.find_ep(ep).is_some() {
            cx.domain.each_srx(ep, |srx| srx.forget(id as u64));
        }
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

    /// Cancels an operation of which nothing was posted below; fi_cancel(3). Returns whether the operation was found.
    pub fn cancel<W: Wire>(&mut self, cx: &mut Cx<'_, W>, ep: usize, context: usize) -> bool {
        let is_meant = |op: &TxOp| op.ep() == ep && op.context == context;
        let of_it = |post: &Post| match post.flight.kind {
            Kind::Op(ref op) => is_meant(op),
            Kind::Announce(at) => is_meant(&self.sends[at].op),
            Kind::Part(group) => is_meant(&self.groups[group].op),
            _ => false,
        };
        let held = &self.held;
        let Some(kind) = held.iter().find(|post| of_it(post)).map(|p| &p.flight.kind) else {
            return false;
        };
        let op = match kind {
            Kind::Op(op) => *op,
            Kind::Announce(at) => self.sends[*at].op,
            Kind::Part(group) => {
                let Group { op, left, .. } = &self.groups[*group];
                if held.iter().filter(|post| of_it(post)).count() < *left {
                    return true;
                }
                *op
            }
            _ => return true,
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
                Kind::Announce(at) => drop(self.sends.remove(at)),
                Kind::Part(group) => drop(self.groups.try_remove(group)),
                _ => {}
            }
        }
        if self.held.is_empty() {
            let id = self.link.id();
            cx.common.held.retain(|&other| other != id);
        }
        cx.domain.fail_tx(&op, Error::CANCELED);
        true
    }

    /// Whether accepted operations without a completion have not left. See `owes_below` for those in flight below.
    pub fn owes(&self) -> bool {
        self.sends.iter().any(|(_, send)| is_unreported(&send.op))
            || self.asked.iter().any(|(_, asked)| is_unreported(&asked.op))
            || self
                .held
                .iter()
                .any(|post| self.owes_below(&post.flight.kind))
    }

    /// Whether an operation below belongs to an operation without a completion, or is an answer.
    pub fn owes_below(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Op(op) => is_unreported(op),
            Kind::Part(group) => is_unreported(&self.groups[*group].op),
            Kind::Control => true,
            Kind::Announce(_) | Kind::Fetched(_) | Kind::Written(_) => false,
        }
    }
}

fn is_unreported(op: &TxOp) -> bool {
    !op.flags.contains(OpFlags::COMPLETION)
}

pub fn loss_of(sentence: &str) -> Loss {
    Loss {
        why: CString::new(sentence).unwrap_or_default().into(),
        failed: 0,
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

fn end_receive(domain: &mut StateOf, ep: usize, recv: &RecvOp, what: What, error: Option<Error>) {
    if let Some(error) = error
        && domain.find_ep(ep).is_some()
    {
        domain.receive_failed(ep, recv, what, error);
    }
}
