// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations whose counter has reached its value start: fi_trigger(3).
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::State;
use crate::base::Error;
use crate::engine::transport::Transport;
use crate::engine::trigger::{Action, Pending};

impl<T: Transport> State<T> {
    /// To be called when a call may have changed counters and is done with the transport.
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
            // An endpoint that takes no more keeps its order; others go on.
            let mut full = Vec::new();
            let mut due = self.domain.triggers.take_due();
            let mut kept = VecDeque::new();
            while let Some(mut pending) = due.pop_front() {
                let ep = pending.action.ep();
                if ep.is_some_and(|ep| full.contains(&ep)) || !self.start(&mut pending) {
                    // All are of this one: nothing behind it can start either, and nothing is moved.
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

    /// False if it has to be tried again. What goes wrong otherwise is reported as the operation's end.
    fn start(&mut self, pending: &mut Pending<T::Memory>) -> bool {
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
