// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Uncommon calls of an endpoint: operations with FI_TRIGGER (fi_trigger(3)), operations for which others wait, reduced
//! limits, peeks.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::{Ep, Shared};
use crate::domain::cntr::Cntr;
use crate::domain::{Engine, State};
use crate::srx::{Envelope, Filled};
use crate::transport::{DomainStateOf, Transport};
use crate::trigger::{Action, Condition, Held, Measure, Place};
use base::{Caps, Error, OpFlags, Result};
use object::ops::transfer::{Context, Rx, Tx};
use object::ops::work::Outgoing;

impl<T: Transport> Shared<T> {
    /// From now on each operation checks whether others wait for it.
    pub(super) fn watch(&self) {
        self.limits.watch();
    }

    /// Sets the default flags of calls without flags. If they include FI_TRIGGER, calls leave the fast path.
    pub(super) fn expect(&self, flags: OpFlags) {
        if flags.contains(OpFlags::TRIGGER) {
            self.limits.set_any();
        }
    }

    /// Sets the flags that all initiated operations have, besides those of the endpoint's order.
    pub(super) fn imply(&self, flags: OpFlags) {
        let all = flags | self.limits.implied();
        self.tx_implied.store(all.bits(), Ordering::Relaxed);
    }
}

impl<T: Transport> Ep<T> {
    /// The place where this endpoint's operations are posted, if it belongs to this domain.
    pub fn place_in(&self, engine: &Arc<Engine<T>>) -> Option<Place> {
        let (port, ep) = (self.port(), self.shared.id);
        self.is_of(engine).then_some(Place { port, ep })
    }

    /// Prepares the endpoint for deferred work.
    pub fn expect_work(&self, state: &mut State<T>) -> Result {
        self.shared.watch();
        state.domain.eps[self.shared.id].signal_work()
    }

    /// Handles an operation that the transport refused, unchanged, because of its flags. The engine itself implements
    /// FI_TRIGGER.
    #[cold]
    pub(super) fn post_refused(&self, tx: &mut Tx<'_>, error: Error) -> Result {
        match error == Error::BADFLAGS && tx.flags.contains(OpFlags::TRIGGER) {
            true => self.post_from(tx, |_| Ok(())),
            false => Err(error),
        }
    }

    /// FI_TRIGGER: keeps an operation until its counter reaches the threshold.
    pub(super) fn transmit_when(&self, state: &mut State<T>, tx: &mut Tx<'_>) -> Result {
        let place = Place {
            port: self.port(),
            ep: self.shared.id,
        };
        let outgoing = Outgoing::of(tx, tx.flags & !OpFlags::TRIGGER);
        self.post_when(state, &tx.context, Action::Transmit(place, outgoing))
    }

    /// Like `receive`, with FI_PEEK or FI_TRIGGER.
    #[cold]
    pub(super) fn receive_special(
        &self,
        mut rx: Rx,
        check: impl FnOnce(&State<T>) -> Result,
    ) -> Result {
        let engine = &*self.shared.engine;
        let id = self.shared.id;
        let mut guard = engine.lock()?;
        let state = &mut *guard;
        check(state)?;
        let result = match rx.flags.contains(OpFlags::TRIGGER) {
            false => {
                let result = state.receive(id, &mut rx);
                state.after_receive(&rx);
                result
            }
            true => {
                rx.flags &= !OpFlags::TRIGGER;
                let plain = rx.context.untriggered();
                let context = core::mem::replace(&mut rx.context, plain);
                self.post_when(state, &context, Action::Receive(id, rx))
            }
        };
        state.run_triggers();
        state.posted();
        result
    }

    /// Keeps an operation until the counter named in its context reaches the threshold.
    pub(super) fn post_when(
        &self,
        state: &mut State<T>,
        context: &Context,
        action: Action,
    ) -> Result {
        let ep = &state.domain.eps[self.shared.id];
        if !ep.caps.contains(Caps::TRIGGER) {
            return Err(Error::BADFLAGS);
        }
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        let (cntr, threshold) = context.condition()?;
        let cntr = cntr.downcast::<Cntr<T>>().ok_or(Error::INVAL)?;
        let counter = cntr.counter_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let when = Condition {
            counter: Held::new(counter, &cntr.uses),
            threshold,
            measure: Measure::Value,
        };
        state.domain.triggers.add(when, action, None)
    }
}

impl<T: Transport> State<T> {
    /// Completes a receive that `DomainState::post_one` has filled.
    #[inline(never)]
    pub(super) fn filled_one(&mut self, filled: &Filled, envelope: &Envelope) {
        self.domain
            .filled_one(filled, envelope, T::source(envelope));
        self.transport.room_again(&mut self.domain);
        self.run_triggers();
        self.posted();
    }

    /// Posts a receive of an endpoint.
    #[inline]
    pub fn receive(&mut self, id: usize, rx: &mut Rx) -> Result {
        let State { domain, transport } = self;
        let ep = &domain.eps[id];
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        let checks = ep.checks_receives;
        if checks {
            ep.check_receive(rx)?;
        }
        let srx = ep.srx;
        let saved = domain.srxs[srx].saved();
        domain.post_receive(
            id,
            rx,
            T::source,
            |domain: &mut DomainStateOf<T>, claimed| transport.claim(domain, claimed),
        )?;
        if domain.srxs[srx].saved() < saved {
            transport.room_again(domain);
        }
        if checks && let Some(error) = domain.eps[id].ended {
            domain.end_receives(id, error);
        }
        Ok(())
    }
}
