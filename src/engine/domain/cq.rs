// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of a completion queue: fi_cq(3). The entries are in `domain_state`, under the domain's lock.

use core::ffi::{CStr, c_int, c_void};
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use crate::cq_ring::{Head, Ring};
use crate::domain::peers::Caller;
use crate::domain::{Engine, State};
use crate::domain_state::CqState;
use crate::fabric::wait_set;
use crate::signal::{Signal, Waiting};
use crate::transport::{NewQueue, Transport};
use crate::wait::{Deadline, Member, Wait};
use abi::*;
use base::{Caps, Error, Result};
use object::handle;
use object::ops;
use object::ops::cq::{CqCalls, CqErr};
use object::ops::domain::CqRequest;
use object::user::Words;
use object::{Kind, WaitHandle};
use sync::{Backoff, Use, Uses};

/// Shared by the handle and the wait set that may contain the queue.
struct Shared<T: Transport> {
    engine: Arc<Engine<T>>,
    id: usize,
    wait: Arc<Wait>,
    backoff: Backoff,
}

pub struct Cq<T: Transport> {
    shared: Arc<Shared<T>>,
    /// 64-bit words per entry.
    words: usize,
    threshold: bool,
    pub uses: Uses,
    _domain: Use,
    _set: Option<Use>,
}

impl<T: Transport> Cq<T> {
    pub fn open(
        engine: &Arc<Engine<T>>,
        request: CqRequest<'_>,
        context: *mut c_void,
    ) -> Result<*mut fid_cq> {
        if request.flags & !(FI_AFFINITY | FI_PEER) != 0 {
            return Err(Error::BADFLAGS);
        }
        let owner = request.owner.map(Arc::new);
        // fi_peer(3): no thread blocks on such a queue, and its entries are passed on with all fields.
        if owner.is_some() && request.wait_obj != FI_WAIT_NONE {
            return Err(Error::NOSYS);
        }
        let words = match request.format {
            _ if owner.is_some() => 6,
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => 1,
            FI_CQ_FORMAT_MSG => 3,
            FI_CQ_FORMAT_DATA => 5,
            FI_CQ_FORMAT_TAGGED => 6,
            _ => return Err(Error::INVAL),
        };
        let threshold = match (request.wait_cond, request.wait_obj) {
            (FI_CQ_COND_NONE, _) => false,
            // Without a wait object no thread waits, so the condition is unused.
            (_, FI_WAIT_NONE) => false,
            (FI_CQ_COND_THRESHOLD, _) => true,
            _ => return Err(Error::INVAL),
        };
        let (set, set_use) = wait_set(request.wait_set)?;
        let wait = Wait::new(request.wait_obj, set.clone(), &[engine.poll_fd().as_fd()])?;
        let wait = Arc::new(engine.lock()?.domain.watchers.add_wait(wait));
        let size = match request.size {
            0 => T::CQ_SIZE,
            size => size,
        };
        if size > MAX_SIZE {
            return Err(Error::INVAL);
        }
        let with_source = engine.info.caps.contains(Caps::SOURCE) || owner.is_some();
        let (table, context) = match owner {
            None => (ops::cq::table::<Cq<T>>(), context),
            // The context points to arguments that are invalid after this call.
            Some(_) => (ops::cq::driven_table::<Cq<T>>(), core::ptr::null_mut()),
        };
        let mut state = engine.lock()?;
        let id = state.domain.cqs.insert(CqState {
            ring: Ring::new(words, size, with_source),
            wait: wait.clone(),
            signal: Signal::default(),
            last_error: None,
            owner: owner.clone(),
        });
        let new = NewQueue {
            size,
            waits: wait.can_sleep(),
            vector: (request.flags & FI_AFFINITY != 0).then_some(request.vector),
        };
        if let Err(error) = state.transport.open_cq(id, &new) {
            state.domain.cqs.remove(id);
            state.domain.watchers.remove_wait(wait.can_sleep());
            return Err(error);
        }
        if owner.is_some() {
            state.domain.peers.add_cq(id);
        }
        drop(state);
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            id,
            wait,
            backoff: Backoff::new(),
        });
        if let Some(set) = set {
            let member: Weak<Shared<T>> = Arc::downgrade(&shared);
            set.join(member);
        }
        let cq = Cq {
            shared,
            words,
            threshold,
            uses: Uses::default(),
            _domain: engine.uses.take(),
            _set: set_use,
        };
        Ok(handle::open(cq, FI_CLASS_CQ, context, |fid| fid_cq {
            fid,
            ops: core::ptr::from_ref(table).cast_mut(),
        }))
    }

    /// The index in `domain.cqs`, for an endpoint of this domain.
    pub fn id_in(&self, engine: &Arc<Engine<T>>) -> Option<usize> {
        Arc::ptr_eq(engine, &self.shared.engine).then_some(self.shared.id)
    }
}

/// A larger size is treated as a mistake of the caller.
const MAX_SIZE: usize = 1 << 30;

/// Result of a look at the head of the queue.
enum Found {
    Entries(usize),
    Nothing,
    Error,
}

impl From<Found> for Result<usize> {
    #[inline(always)]
    fn from(found: Found) -> Result<usize> {
        match found {
            Found::Entries(n) => Ok(n),
            Found::Nothing => Err(Error::AGAIN),
            Found::Error => Err(Error::AVAIL),
        }
    }
}

impl<T: Transport> Shared<T> {
    /// Takes entries that are in the queue. Polls the transport first if there are none.
    #[inline(always)]
    fn read_locked(
        &self,
        state: &mut State<T>,
        max: usize,
        out: &mut Words<'_>,
        mut src: Option<&mut Words<'_>>,
    ) -> Found {
        // fi_cq(3): a read of no entries drives progress, whatever is unread.
        if state.domain.cqs[self.id].ring.is_empty() || max == 0 {
            state.progress_queue(self.id);
            self.engine.note_poll();
        }
        let cq = &mut state.domain.cqs[self.id];
        let there = match cq.ring.ready() {
            Head::Empty => {
                self.backoff.count_empty();
                if state.transport.holds_back() {
                    state.flush();
                }
                return Found::Nothing;
            }
            Head::Error => {
                state.transport.hold();
                return Found::Error;
            }
            Head::Entries(n) => {
                self.backoff.reset();
                n
            }
        };
        let n = match &mut src {
            None if there == 1 && max > 0 => {
                cq.ring.read_one(|words| out.put(words));
                1
            }
            None => cq.ring.read_into(max, &mut |words| out.put(words), None),
            Some(src) => cq.ring.read_into(
                max,
                &mut |words| out.put(words),
                Some(&mut |words| src.put(words)),
            ),
        };
        // The application has taken the last entry and may not call again soon, so pending packets are flushed.
        if state.transport.holds_back() {
            match cq.ring.is_empty() {
                true => state.flush(),
                false => state.transport.hold(),
            }
        }
        Found::Entries(n)
    }

    /// Receives of this queue's endpoints may belong to another provider, which is called first.
    #[cold]
    fn read_behind_owners(
        &self,
        max: usize,
        out: &mut Words<'_>,
        src: Option<&mut Words<'_>>,
    ) -> Result<usize> {
        self.engine.deliver(Caller::Data);
        let mut state = self.engine.lock_data()?;
        self.read_locked(&mut state, max, out, src).into()
    }

    fn entries(&self, state: &State<T>) -> usize {
        state.domain.cqs[self.id].ring.len()
    }

    fn stop_waiting(&self, state: &mut State<T>, waiting: Option<Waiting>) {
        if let Some(waiting) = waiting {
            state.domain.cqs[self.id].signal.leave(waiting);
        }
    }

    fn has_error(&self, state: &State<T>) -> bool {
        state.domain.cqs[self.id].ring.has_error()
    }
}

impl<T: Transport> Member for Shared<T> {
    fn trywait(&self) -> Result {
        let mut state = self.engine.lock_data()?;
        if self.entries(&state) == 0 {
            state.progress_all();
            self.engine.note_poll();
        }
        state.flush();
        if state.domain.has_owner_calls() {
            drop(state);
            self.engine.deliver(Caller::Data);
            return Err(Error::AGAIN);
        }
        let cq = &mut state.domain.cqs[self.id];
        if cq.signal.take() || !cq.ring.is_empty() {
            return Err(Error::AGAIN);
        }
        self.wait.arm();
        Ok(())
    }
}

impl<T: Transport> Drop for Shared<T> {
    fn drop(&mut self) {
        let Ok(mut state) = self.engine.lock_to_close() else {
            return;
        };
        state.transport.close_cq(self.id);
        state.domain.cqs.remove(self.id);
        state.domain.peers.forget_cq(self.id);
        state.domain.watchers.remove_wait(self.wait.can_sleep());
    }
}

impl<T: Transport> Kind for Cq<T> {
    type Head = fid_cq;

    fn check_close(&self) -> Result {
        match self.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn wait_handle(&self) -> Result<WaitHandle> {
        self.shared.wait.handle()
    }

    fn wait_obj(&self) -> Result<fi_wait_obj> {
        Ok(self.shared.wait.obj())
    }

    fn trywait(&self) -> Result {
        self.shared.trywait()
    }

    fn poll(&self, _ask: bool) -> Option<bool> {
        // A child reads an error from the queue.
        let Ok(mut state) = self.shared.engine.lock_data() else {
            return Some(true);
        };
        if self.shared.entries(&state) == 0 {
            state.progress();
            state.flush();
            self.shared.engine.note_poll();
        }
        Some(self.shared.entries(&state) > 0)
    }
}

impl<T: Transport> CqCalls for Cq<T> {
    #[inline]
    fn words(&self) -> usize {
        self.words
    }

    fn api_version(&self) -> u32 {
        self.shared.engine.api_version
    }

    // Without this attribute the compiler emits a call, which costs 15 instructions.
    #[inline(always)]
    fn read(&self, max: usize, mut out: Words<'_>, src: Option<Words<'_>>) -> Result<usize> {
        let shared = &*self.shared;
        if shared.backoff.is_due() && shared.backoff.snooze() {
            shared.engine.note_pause();
        }
        let mut state = shared.engine.lock_data()?;
        let mut src = src;
        match shared.read_locked(&mut state, max, &mut out, src.as_mut()) {
            Found::Nothing if state.domain.has_owner_calls() => {
                drop(state);
                shared.read_behind_owners(max, &mut out, src.as_mut())
            }
            // The arms are separate: otherwise the result is stored while the lock is released.
            Found::Nothing => {
                drop(state);
                Err(Error::AGAIN)
            }
            Found::Error => {
                drop(state);
                Err(Error::AVAIL)
            }
            Found::Entries(n) => {
                drop(state);
                Ok(n)
            }
        }
    }

    /// fi_peer(3): makes progress and passes new entries to the owner.
    fn drive(&self) -> Result {
        let engine = &*self.shared.engine;
        let mut state = engine.lock_data()?;
        state.progress();
        state.flush();
        engine.note_poll();
        let owes = state.domain.has_owner_calls();
        drop(state);
        if owes {
            engine.deliver(Caller::Data);
        }
        Ok(())
    }

    fn sread(
        &self,
        max: usize,
        mut out: Words<'_>,
        mut src: Option<Words<'_>>,
        cond: usize,
        timeout: c_int,
    ) -> Result<usize> {
        let shared = &*self.shared;
        // Keeps the queue open while this thread waits for it.
        let _inside = self.uses.take();
        if !shared.wait.can_sleep() || shared.wait.obj() == FI_WAIT_SET {
            return Err(Error::INVAL);
        }
        let wanted = match self.threshold {
            true => cond.clamp(1, max.max(1)),
            false => 1,
        };
        let deadline = Deadline::after(timeout);
        let mut waiting = None;
        let mut sleeper = None;
        loop {
            let mut state = shared.engine.lock_data()?;
            let over = deadline.is_over();
            if shared.entries(&state) < wanted {
                state.take_ready();
            }
            if shared.entries(&state) < wanted && !shared.has_error(&state) {
                state.progress_all();
                shared.engine.note_poll();
            }
            // An error ends the wait, wherever it is in the queue.
            let enough = shared.entries(&state) >= wanted || shared.has_error(&state);
            if enough || over {
                match shared.read_locked(&mut state, max, &mut out, src.as_mut()) {
                    Found::Nothing if !over => {}
                    found => {
                        shared.stop_waiting(&mut state, waiting);
                        return found.into();
                    }
                }
            }
            state.flush();
            if state.domain.has_owner_calls() {
                drop(state);
                shared.engine.deliver(Caller::Data);
                continue;
            }
            let signal = &mut state.domain.cqs[shared.id].signal;
            let entered = *waiting.get_or_insert_with(|| signal.enter());
            if signal.came(entered) || signal.take() {
                shared.stop_waiting(&mut state, waiting);
                return Err(Error::AGAIN);
            }
            let sleeper = sleeper.get_or_insert_with(|| shared.wait.enter());
            sleeper.arm();
            drop(state);
            // The top of the loop computes the remaining time again.
            if let Err(error) = sleeper.sleep(deadline) {
                shared.stop_waiting(&mut *shared.engine.lock()?, waiting);
                return Err(error);
            }
        }
    }

    fn read_err(&self, _flags: u64, take: &mut dyn FnMut(&CqErr)) -> Result {
        let mut state = self.shared.engine.lock_data()?;
        let cq = &mut state.domain.cqs[self.shared.id];
        let error = cq.ring.pop_err().ok_or(Error::AGAIN)?;
        take(cq.last_error.insert(error));
        Ok(())
    }

    fn why(&self, prov_errno: c_int) -> Option<Arc<CStr>> {
        let state = self.shared.engine.lock_data().ok()?;
        let error = state.domain.cqs[self.shared.id].last_error.as_ref()?;
        let why = error
            .why
            .as_ref()
            .filter(|_| error.prov_errno == prov_errno);
        why.cloned()
    }

    fn signal(&self) -> Result {
        if !self.shared.wait.can_sleep() {
            return Err(Error::NOSYS);
        }
        let mut state = self.shared.engine.lock()?;
        state.domain.cqs[self.shared.id].signal.give();
        self.shared.wait.notify();
        Ok(())
    }
}
