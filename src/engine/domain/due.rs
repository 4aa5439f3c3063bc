// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Starts operations whose counter has reached its threshold: fi_trigger(3).

use std::collections::VecDeque;

use super::State;
use super::ep::copy_operands;
use crate::domain_state::TxOp;
use crate::transport::Transport;
use crate::trigger::{Action, Pending};
use base::Error;

impl<T: Transport> State<T> {
    /// Must be called after a call that may have changed counters, when the transport is not in use any more.
    #[inline]
    pub fn run_triggers(&mut self) {
        if self.domain.triggers.is_due() {
            self.start_due();
        }
    }

    #[cold]
    fn start_due(&mut self) {
        loop {
            let mut started = false;
            // Operations of an endpoint whose queue is full keep their order; those of other endpoints go on.
            let mut full = Vec::new();
            let mut due = self.domain.triggers.take_due();
            let mut kept = VecDeque::new();
            while let Some(mut pending) = due.pop_front() {
                let ep = pending.action.ep();
                if ep.is_some_and(|ep| full.contains(&ep)) || !self.start(&mut pending) {
                    // All operations are of this endpoint, so none behind this one can start, and no element needs to
                    // move.
                    if ep.is_some() && !self.domain.triggers.is_mixed() {
                        due.push_front(pending);
                        kept = due;
                        break;
                    }
                    full.extend(ep);
                    kept.push_back(pending);
                    continue;
                }
                started = true;
                self.domain.triggers.started();
            }
            self.domain.triggers.put_back(kept);
            if started {
                self.transport.flush(&mut self.domain);
            }
            if !self.domain.triggers.goes_on(started) {
                return;
            }
        }
    }

    /// Returns false if the operation has to be tried again. Other failures are reported as completions of the
    /// operation.
    fn start(&mut self, pending: &mut Pending) -> bool {
        let ep = match &pending.action {
            Action::Change(held, edit) => {
                self.domain.change(held.counter(), *edit);
                return true;
            }
            Action::Transmit(place, _) | Action::Atomic(place, _) => place.ep,
            Action::Receive(ep, _) => *ep,
        };
        let Ok(number) = self.domain.triggers.begin(ep, &pending.work) else {
            return false;
        };
        let result = match &mut pending.action {
            Action::Transmit(place, out) => {
                let State { domain, transport } = self;
                out.post(number, |tx| {
                    transport.transmit_from(domain, place.port, ep, tx)
                })
            }
            Action::Atomic(place, out) => {
                let State { domain, transport } = self;
                out.post(number, |atomic| {
                    let copies = match T::FORWARDS_ATOMICS {
                        true => Ok((None, None)),
                        false => copy_operands(atomic),
                    };
                    if let Err(fault) = copies {
                        domain.refuse_copy(&TxOp::of_atomic(ep, atomic), fault);
                        return Ok(());
                    }
                    transport.atomic(domain, place.port, ep, atomic)
                })
            }
            Action::Receive(_, rx) => {
                let flags = rx.flags;
                rx.flags |= number;
                let result = self.receive(ep, rx);
                rx.flags = flags;
                result
            }
            Action::Change(..) => Ok(()),
        };
        match result {
            Ok(()) => true,
            Err(Error::AGAIN) => {
                self.domain.triggers.end(number);
                false
            }
            Err(error) => {
                self.domain.refuse(&pending.action, number, error);
                true
            }
        }
    }
}
