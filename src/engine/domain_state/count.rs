// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counts operations, and starts deferred work that waits for counters: fi_cntr(3), fi_trigger(3).

use std::sync::Arc;

use super::{DomainState, TxOp};
use crate::cntr::{Counter, Edit};
use crate::ep_state::Event;
use crate::srx::RecvOp;
use crate::transport::Address;
use crate::trigger::{Action, Held, Place};
use base::{Error, IoVec, OpFlags};

impl<A: Address> DomainState<A> {
    /// Counts an event of an endpoint.
    #[inline]
    pub fn count(&mut self, ep: usize, event: Event, flags: OpFlags, len: usize) {
        if let Some(cntr) = self.eps[ep].cntr(event)
            && !cntr.count(len)
        {
            self.count_watched(ep, event, flags, len);
        }
    }

    /// Like `count`, for a counter on which other operations wait.
    #[cold]
    pub fn count_watched(&mut self, ep: usize, event: Event, flags: OpFlags, len: usize) {
        match self.triggers.end(flags) {
            Some(Some(completion)) => {
                completion.counter().add(1);
                self.triggers.changed(completion.counter());
            }
            Some(None) => {}
            None => {
                if let Some(counter) = self.eps[ep].bound(event) {
                    counter.succeeded(len);
                    self.triggers.changed(counter);
                }
            }
        }
    }

    /// Counts a failed operation of an endpoint.
    #[cold]
    pub fn count_failed(&mut self, ep: usize, event: Event, flags: OpFlags) {
        let work = self.triggers.end(flags);
        let counter = match &work {
            Some(completion) => completion.as_ref().map(Held::counter),
            None => self.eps[ep].bound(event),
        };
        if let Some(counter) = counter {
            counter.failed();
            self.triggers.changed(counter);
        }
    }

    /// Adds to this counter what a provider below has counted.
    pub fn count_more(&mut self, counter: &Arc<Counter>, value: u64) {
        counter.add(value);
        if counter.is_watched() {
            self.triggers.changed(counter);
        }
    }

    /// Counts a write of a peer to the region that the counter is bound to.
    pub fn count_region(&mut self, counter: &Arc<Counter>, len: usize) {
        if !counter.count(len) {
            counter.succeeded(len);
            self.triggers.changed(counter);
        }
    }

    /// Changes a counter on behalf of the application or of deferred work.
    pub fn change(&mut self, counter: &Arc<Counter>, edit: Edit) {
        counter.edit(edit);
        if counter.is_watched() {
            self.triggers.changed(counter);
        }
    }

    /// fi_cancel(3): reports an operation that waits for a counter as cancelled. Returns false if there is none.
    pub fn cancel_triggered(&mut self, ep: usize, context: usize) -> bool {
        match self.triggers.cancel(ep, context) {
            Some(action) => {
                self.refuse(&action, OpFlags::empty(), Error::CANCELED);
                true
            }
            None => false,
        }
    }

    /// Reports an operation that did not start. `number`: the number of deferred work.
    pub fn refuse(&mut self, action: &Action, number: OpFlags, error: Error) {
        let operation = |place: &Place, what, flags: OpFlags, context, len| TxOp {
            since: 0,
            ep: place.ep as u32,
            what,
            flags: flags | number,
            context,
            len,
        };
        match action {
            Action::Transmit(place, out) => {
                let op = operation(
                    place,
                    out.what(),
                    out.flags,
                    out.context.number(),
                    out.len(),
                );
                self.send_failed(place.ep, &op, error);
            }
            Action::Atomic(place, out) => {
                let op = operation(
                    place,
                    out.what(),
                    out.flags,
                    out.context.number(),
                    out.len(),
                );
                self.send_failed(place.ep, &op, error);
            }
            Action::Receive(ep, rx) => {
                let recv = RecvOp {
                    iov: IoVec::empty(),
                    base: rx.iov.base(),
                    len: rx.iov.remaining(),
                    context: rx.context.number(),
                    flags: rx.flags | number,
                    multi: None,
                };
                self.receive_failed(*ep, &recv, rx.what, error);
            }
            Action::Change(..) => {}
        }
    }
}
