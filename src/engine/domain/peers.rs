// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls the owners of queues that this domain serves, with no lock held: fi_peer(3). The calling thread is always one
//! that drives progress for the application, because the owner then holds its own locks. Threads of the library never
//! call owners.

use std::sync::{Arc, Weak};

use super::{Engine, Locked, State};
use crate::domain_state::peers::{Arrival, Calls, Completion, Transfer};
use crate::eq::OwnersEvent;
use crate::transport::{DomainStateOf, Transport};
use abi::*;
use base::log::{Source, Subsys, log_warn};
use base::{Error, Result};
use object::peer::{Entry, Got, PeerEq, Served, Started};
use sync::Refused;

/// The kind of application call. Data-path calls are serialized if the application promised that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Data,
    Control,
}

impl<T: Transport> Engine<T> {
    fn lock_for(&self, caller: Caller) -> core::result::Result<Locked<'_, T>, Refused> {
        match caller {
            Caller::Data => self.lock_data(),
            Caller::Control => self.lock(),
        }
    }

    /// Calls owners until nothing is pending. Returns at once if another call does so already, perhaps the one from
    /// which the owner called us.
    #[cold]
    pub(super) fn deliver(&self, caller: Caller) {
        loop {
            let Ok(mut state) = self.lock_for(caller) else {
                return;
            };
            if state.domain.peers.delivering {
                return;
            }
            let calls = state.domain.take_calls(T::source);
            if calls.is_empty() {
                return;
            }
            state.domain.peers.delivering = true;
            drop(state);
            let all_told = self.call(calls, caller);
            let Ok(mut state) = self.lock_for(caller) else {
                return;
            };
            state.domain.peers.delivering = false;
            if !all_told {
                return;
            }
        }
    }

    /// Returns false if the owner failed to answer for a message.
    fn call(&self, calls: Calls, caller: Caller) -> bool {
        for (number, owner, completion) in calls.completions {
            match completion {
                Completion::Good(entry, source) => owner.write(&entry, source),
                Completion::Bad(error) => {
                    // For fi_cq_strerror, which the owner may call.
                    if let Ok(mut state) = self.lock_for(caller)
                        && let Some(cq) = state.domain.cqs.get_mut(number)
                    {
                        cq.last_error = Some(error.clone());
                    }
                    owner.write_err(&error);
                }
            }
        }
        for (owner, (good, bad)) in calls.counts {
            owner.count(good, bad);
        }
        for (owner, entry) in calls.over {
            owner.free(entry);
        }
        for (owner, event) in calls.events {
            tell_event(self.provider, &owner, event);
        }
        if !self.transfer(calls.transfers, caller) {
            return false;
        }
        let mut arrivals = calls.arrivals.into_iter();
        while let Some(arrival) = arrivals.next() {
            if self.announce(&arrival, caller).is_some() {
                continue;
            }
            // To keep the order of each sender's messages, those behind it wait, too.
            if let Ok(mut state) = self.lock_for(caller) {
                let again: Vec<Arrival> = core::iter::once(arrival).chain(arrivals).collect();
                for &srx in &state.domain.peers.srxs().to_vec() {
                    let mine = again.iter().filter(|arrival| arrival.srx == srx);
                    let queue = &mut state.domain.srxs[srx];
                    queue.put_back_untold(mine.map(|arrival| arrival.token));
                }
            }
            return false;
        }
        true
    }

    /// Lets owners move messages. Returns false if an owner has no room for more.
    fn transfer(&self, transfers: Vec<Transfer>, caller: Caller) -> bool {
        let mut transfers = transfers.into_iter();
        while let Some(transfer) = transfers.next() {
            let begun = transfer.owner.begin(&transfer.message);
            let error = match begun {
                Ok(()) => continue,
                Err(error) => error,
            };
            let Ok(mut guard) = self.lock_for(caller) else {
                return false;
            };
            let State { domain, transport } = &mut *guard;
            if error == Error::AGAIN {
                let first = core::iter::once(transfer);
                domain.peers.put_back(first.chain(transfers).collect());
                return false;
            }
            let (ep, number) = (transfer.ep, transfer.message.number);
            transport.transferred(domain, ep, number, Err(error));
        }
        true
    }

    /// Requests a receive for a message from the owner. None if the owner fails, for example without memory.
    fn announce(&self, arrival: &Arrival, caller: Caller) -> Option<()> {
        let Arrival {
            srx,
            token,
            what,
            tag,
            ..
        } = *arrival;
        match arrival.owner.get(what, arrival.addr, arrival.len, tag) {
            Got::Matched(entry) => {
                let _ = self.settle(srx, token, Some(entry), caller);
            }
            Got::Unexpected(mut entry) => {
                entry.note(token, arrival.data);
                let mut state = self.lock_for(caller).ok()?;
                let queueing = state.domain.srxs[srx].queue_arrival(token, entry);
                drop(state);
                // The message may have been dropped with its endpoint; then the entry is returned to the owner.
                if let Some(queueing) = queueing
                    && arrival.owner.queue(what, queueing).is_err()
                {
                    let mut state = self.lock_for(caller).ok()?;
                    state.domain.srxs[srx].unqueue(token);
                    return None;
                }
            }
            Got::Failed => return None,
        }
        Some(())
    }

    fn settle(&self, srx: usize, token: usize, entry: Option<Entry>, caller: Caller) -> Result {
        let mut guard = self.lock_for(caller)?;
        let State { domain, transport } = &mut *guard;
        let saved = domain.srxs[srx].saved();
        let claim = |domain: &mut DomainStateOf<T>, claimed| transport.claim(domain, claimed);
        let result = domain.settle(srx, token, entry, T::source, claim);
        if domain.srxs[srx].saved() < saved {
            transport.room_again(domain);
        }
        guard.run_triggers();
        guard.posted();
        result
    }
}

/// Writes an event to the queue of another provider. fi_eq_write(3) writes no errors: a join that fails is reported
/// with the error as data of its event.
fn tell_event(source: &'static Source, owner: &PeerEq, event: OwnersEvent) {
    let (number, bytes) = match event {
        OwnersEvent::Event(number, bytes) => (number, bytes),
        OwnersEvent::Error(error) => {
            let words = [error.fid as u64, error.context as u64, error.err as u64];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            log_warn!(
                source,
                Subsys::Eq,
                "a join has failed: {}",
                Error::new(error.err)
            );
            (FI_JOIN_COMPLETE, bytes.into())
        }
    };
    if let Err(error) = owner.write(number, &bytes) {
        log_warn!(
            source,
            Subsys::Eq,
            "the queue of another provider does not take an event: {error}"
        );
    }
}

/// A receive context as its owner calls it.
pub struct ServedSrx<T: Transport> {
    pub engine: Weak<Engine<T>>,
    pub id: usize,
}

impl<T: Transport> Served for ServedSrx<T> {
    fn start(&self, token: usize, started: Started) -> Result {
        let engine: Arc<Engine<T>> = self.engine.upgrade().ok_or(Error::INVAL)?;
        let entry = engine.lock_data()?.domain.srxs[self.id].take_queued(token);
        let entry = entry.ok_or(Error::INVAL)?;
        entry.take_back(started)?;
        engine.settle(self.id, token, Some(entry), Caller::Data)?;
        engine.deliver(Caller::Data);
        Ok(())
    }

    fn discard(&self, token: usize) -> Result {
        let engine = self.engine.upgrade().ok_or(Error::INVAL)?;
        // The owner frees the entry.
        let _ = engine.lock_data()?.domain.srxs[self.id].take_queued(token);
        engine.settle(self.id, token, None, Caller::Data)
    }

    fn address(&self, token: usize) -> u64 {
        let address = |engine: Arc<Engine<T>>| {
            let mut state = engine.lock().ok()?;
            Some(state.domain.address_of(self.id, token, T::source))
        };
        self.engine
            .upgrade()
            .and_then(address)
            .unwrap_or(FI_ADDR_UNSPEC)
    }
}
