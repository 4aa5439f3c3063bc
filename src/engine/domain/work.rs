// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The deferred work of a domain: FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK (fi_trigger(3)).

use std::sync::Arc;

use crate::cntr::Edit;
use crate::domain::Engine;
use crate::domain::cntr::Cntr;
use crate::domain::ep::Ep;
use crate::ep_state::EpState;
use crate::transport::Transport;
use crate::trigger::{Action, Condition, Held, Measure, Place, Work};
use base::{Caps, Error, Result};
use object::Other;
use object::ops::transfer::What;
use object::ops::work::{WorkOp, WorkRequest};

pub fn queue<T: Transport>(engine: &Arc<Engine<T>>, request: WorkRequest<'_>) -> Result {
    let completion = match request.completion {
        None => None,
        Some(cntr) => Some(counter_of(engine, cntr)?),
    };
    let when = Condition {
        counter: counter_of(engine, request.trigger)?,
        threshold: request.threshold,
        measure: Measure::ValueAndErrors,
    };
    let change = |cntr, edit| {
        // fi_trigger(3): deferred changes of a counter have no completion counter.
        if completion.is_some() {
            return Err(Error::INVAL);
        }
        Ok(Action::Change(counter_of(engine, cntr)?, edit))
    };
    let mut worker = None;
    let mut endpoint = |ep| -> Result<(&Ep<T>, Place)> {
        let (ep, place) = endpoint_of(engine, ep)?;
        worker = Some(ep);
        Ok((ep, place))
    };
    let mut action = match request.op {
        WorkOp::Set(cntr, value) => change(cntr, Edit::Set(value))?,
        WorkOp::Add(cntr, value) => change(cntr, Edit::Add(value))?,
        WorkOp::Transmit(ep, work) => {
            let (ep, place) = endpoint(ep)?;
            Action::Transmit(place, work.read(ep)?)
        }
        WorkOp::Receive(ep, work) => {
            let (ep, place) = endpoint(ep)?;
            Action::Receive(place.ep, work.read(ep)?)
        }
        WorkOp::Atomic(ep, work) => {
            let (ep, place) = endpoint(ep)?;
            let has = |ep: &EpState| check(ep, ep.begins(What::Atomic));
            has(&engine.lock()?.domain.eps[place.ep])?;
            Action::Atomic(place, work.read(ep)?)
        }
    };
    if engine.takes_devices {
        match &mut action {
            Action::Transmit(_, out) => out.each_memory(|iov| engine.mark(iov))?,
            Action::Atomic(_, out) => out.each_memory(|iov| engine.mark(iov))?,
            Action::Receive(_, rx) => engine.mark(&mut rx.iov)?,
            Action::Change(..) => {}
        }
    }
    let work = Work {
        name: request.name,
        completion,
    };
    let mut guard = engine.lock()?;
    let state = &mut *guard;
    match &action {
        Action::Transmit(place, out) => {
            let ep = &state.domain.eps[place.ep];
            check(ep, ep.begins(out.what()))?;
        }
        Action::Receive(ep, rx) => {
            let ep = &state.domain.eps[*ep];
            check(ep, ep.takes(rx.what))?;
        }
        Action::Atomic(..) | Action::Change(..) => {}
    }
    if let Some(ep) = worker {
        ep.expect_work(state)?;
    }
    state.domain.triggers.add(when, action, Some(work))?;
    state.run_triggers();
    state.posted();
    Ok(())
}

/// Returns FI_ENOSYS for operations that the endpoint does not support.
fn check(ep: &EpState, has: bool) -> Result {
    if !ep.caps.contains(Caps::TRIGGER) {
        return Err(Error::INVAL);
    }
    match (has, ep.enabled) {
        (false, _) => Err(Error::NOSYS),
        (true, false) => Err(Error::OPBADSTATE),
        (true, true) => Ok(()),
    }
}

pub fn cancel<T: Transport>(engine: &Engine<T>, name: usize) -> Result {
    engine.lock()?.domain.triggers.cancel_work(name)
}

pub fn flush<T: Transport>(engine: &Arc<Engine<T>>, cntr: Option<Other<'_>>) -> Result {
    let counter = cntr.map(|cntr| counter_of(engine, cntr)).transpose()?;
    engine.lock()?.domain.triggers.flush_work(counter.as_ref());
    Ok(())
}

fn counter_of<T: Transport>(engine: &Arc<Engine<T>>, cntr: Other<'_>) -> Result<Held> {
    let cntr = cntr.downcast::<Cntr<T>>().ok_or(Error::INVAL)?;
    let counter = cntr.counter_in(engine).ok_or(Error::DOMAIN)?;
    Ok(Held::new(counter, &cntr.uses))
}

fn endpoint_of<'a, T: Transport>(
    engine: &Arc<Engine<T>>,
    ep: Other<'a>,
) -> Result<(&'a Ep<T>, Place)> {
    let ep = ep.downcast::<Ep<T>>().ok_or(Error::INVAL)?;
    let place = ep.place_in(engine).ok_or(Error::DOMAIN)?;
    Ok((ep, place))
}
