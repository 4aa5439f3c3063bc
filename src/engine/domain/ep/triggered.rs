// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls of an endpoint that are not the usual ones: operations with FI_TRIGGER (fi_trigger(3)), operations that may set
//! off others, lowered limits, peeks.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::{Ep, Shared};
use crate::abi::*;
use crate::base::{Error, Result};
use crate::engine::domain::cntr::Cntr;
use crate::engine::domain::{Engine, State};
use crate::engine::transport::Transport;
use crate::engine::trigger::{Action, Condition, Held, Measure};
use crate::ffi::ops::transfer::{Rx, Tx};
use crate::ffi::ops::work::{Outgoing, condition};

impl<T: Transport> Shared<T> {
    /// From now on it is asked after each operation whether that set off others.
    pub(super) fn watch(&self) {
        self.limits.special.store(true, Ordering::Relaxed);
    }
}

impl<T: Transport> Ep<T> {
    /// The number in `core.eps`, of an endpoint that is on this domain.
    pub fn id_in(&self, engine: &Arc<Engine<T>>) -> Option<usize> {
        self.is_of(engine).then_some(self.shared.id)
    }

    /// As `transmit`, of an endpoint that has to look closer.
    #[cold]
    pub(super) fn transmit_checked(&self, tx: &Tx<'_>) -> Result {
        self.shared.limits.check(tx)?;
        let engine = &*self.shared.engine;
        let id = self.shared.id;
        let mut guard = engine.lock();
        let state = &mut *guard;
        let result = match tx.flags & FI_TRIGGER {
            0 => state.transport.transmit(&mut state.core, id, tx),
            _ => {
                let outgoing = Outgoing::of(tx, tx.flags & !FI_TRIGGER);
                self.post_when(state, tx.context, Action::Transmit(id, outgoing))
            }
        };
        state.run_triggers();
        engine.posted(state);
        result
    }

    /// As `receive`, with FI_PEEK or FI_TRIGGER.
    #[cold]
    pub(super) fn receive_special(&self, rx: &Rx) -> Result {
        let engine = &*self.shared.engine;
        let id = self.shared.id;
        let mut guard = engine.lock();
        let state = &mut *guard;
        let result = match rx.flags & FI_TRIGGER {
            0 => state
                .before_receive(rx)
                .and_then(|()| state.receive(id, rx))
                .map(drop),
            _ => {
                let flags = rx.flags & !FI_TRIGGER;
                self.post_when(state, rx.context, Action::Receive(id, Rx { flags, ..*rx }))
            }
        };
        state.run_triggers();
        engine.posted(state);
        result
    }

    /// Keeps an operation until the counter that its context names has the value.
    pub(super) fn post_when(&self, state: &mut State<T>, context: usize, action: Action) -> Result {
        let ep = &state.core.eps[self.shared.id];
        if ep.caps & FI_TRIGGER == 0 {
            return Err(Error::BADFLAGS);
        }
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        let (cntr, threshold) = condition(context)?;
        let cntr = cntr.downcast::<Cntr<T>>().ok_or(Error::INVAL)?;
        let counter = cntr.counter_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let when = Condition {
            counter: Held::new(counter, &cntr.uses),
            threshold,
            measure: Measure::Value,
        };
        state.core.triggers.add(when, action, None)
    }
}
