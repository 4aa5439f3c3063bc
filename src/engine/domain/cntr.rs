// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of a counter: fi_cntr(3).

use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use crate::cntr::{Counter, Edit};
use crate::domain::Engine;
use crate::domain::peers::Caller;
use crate::fabric::wait_set;
use crate::transport::Transport;
use crate::wait::{Deadline, Member, Wait};
use abi::*;
use base::{Error, OpFlags, Result};
use object::handle;
use object::ops;
use object::ops::cntr::CntrCalls;
use object::ops::domain::CntrRequest;
use object::{Kind, WaitHandle};
use sync::{Backoff, Use, Uses};
use sys::event::sleep_on;

struct Shared<T: Transport> {
    engine: Arc<Engine<T>>,
    counter: Arc<Counter>,
    backoff: Backoff,
    /// The values belong to another provider.
    is_peer: bool,
}

pub struct Cntr<T: Transport> {
    shared: Arc<Shared<T>>,
    pub uses: Uses,
    _domain: Use,
    _set: Option<Use>,
}

impl<T: Transport> Cntr<T> {
    pub fn open(
        engine: &Arc<Engine<T>>,
        request: CntrRequest<'_>,
        context: *mut c_void,
    ) -> Result<*mut fid_cntr> {
        if request.flags & !FI_PEER != 0 {
            return Err(Error::BADFLAGS);
        }
        let owner = request.owner.map(Arc::new);
        // fi_peer(3): no thread blocks on such a counter.
        if owner.is_some() && request.wait_obj != FI_WAIT_NONE {
            return Err(Error::NOSYS);
        }
        let bytes = match request.events {
            FI_CNTR_EVENTS_COMP => false,
            // Owners count operations.
            FI_CNTR_EVENTS_BYTES if owner.is_none() => true,
            _ => return Err(Error::INVAL),
        };
        let (set, set_use) = wait_set(request.wait_set)?;
        let wait = Wait::new(request.wait_obj, set.clone(), &[engine.poll_fd().as_fd()])?;
        let wait = engine.lock()?.domain.watchers.add_wait(wait);
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            counter: Arc::new(Counter::new(wait, bytes)),
            backoff: Backoff::new(),
            is_peer: owner.is_some(),
        });
        if let Some(owner) = owner {
            let mut state = engine.lock()?;
            state.domain.peers.add_cntr(&shared.counter, owner);
        }
        if let Some(set) = set {
            let member: Weak<Shared<T>> = Arc::downgrade(&shared);
            set.join(member);
        }
        let cntr = Cntr {
            shared,
            uses: Uses::default(),
            _domain: engine.uses.take(),
            _set: set_use,
        };
        Ok(handle::open(cntr, FI_CLASS_CNTR, context, |fid| fid_cntr {
            fid,
            ops: core::ptr::from_ref(ops::cntr::table::<Cntr<T>>()).cast_mut(),
        }))
    }

    /// The counter, for an endpoint or a region of this domain.
    pub fn counter_in(&self, engine: &Arc<Engine<T>>) -> Option<&Arc<Counter>> {
        Arc::ptr_eq(engine, &self.shared.engine).then_some(&self.shared.counter)
    }
}

impl<T: Transport> Shared<T> {
    /// fi_peer(3): the counter of an owner has the values.
    fn own(&self) -> Result {
        match self.is_peer {
            true => Err(Error::NOSYS),
            false => Ok(()),
        }
    }

    /// fi_peer(3): makes progress, and counts at the owner.
    fn drive(&self) {
        self.poll();
        let owes = self
            .engine
            .lock_data()
            .is_ok_and(|state| state.domain.has_owner_calls());
        if owes {
            self.engine.deliver(Caller::Data);
        }
    }

    /// Makes progress. Does nothing in a child, which reads the values from before the fork.
    fn poll(&self) {
        if let Ok(mut state) = self.engine.lock_data() {
            state.progress();
            state.flush();
            self.engine.note_poll();
        }
    }

    /// Changes a value on behalf of the application. Operations may wait for that value.
    fn edit(&self, edit: Edit) -> Result {
        self.own()?;
        let mut guard = self.engine.lock()?;
        guard.domain.change(&self.counter, edit);
        guard.run_triggers();
        guard.posted();
        Ok(())
    }

    fn poll_before_sleep(&self) -> Result {
        let mut state = self.engine.lock_data()?;
        state.progress_all();
        state.flush();
        self.engine.note_poll();
        Ok(())
    }
}

impl<T: Transport> Drop for Shared<T> {
    fn drop(&mut self) {
        let sleeps = self.counter.wait.can_sleep();
        if let Ok(mut state) = self.engine.lock_to_close() {
            state.domain.watchers.remove_wait(sleeps);
            state.domain.peers.forget_cntr(&self.counter);
        }
    }
}

impl<T: Transport> Member for Shared<T> {
    /// Returns FI_EAGAIN if the counter has changed since the last call.
    fn trywait(&self) -> Result {
        drop(self.engine.lock()?);
        self.counter.wait.arm();
        self.poll_before_sleep()?;
        match self.counter.changed_for_wait() {
            true => Err(Error::AGAIN),
            false => Ok(()),
        }
    }
}

impl<T: Transport> Kind for Cntr<T> {
    type Head = fid_cntr;

    fn check_close(&self) -> Result {
        match self.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn wait_handle(&self) -> Result<WaitHandle> {
        self.shared.counter.wait.handle()
    }

    fn wait_obj(&self) -> Result<fi_wait_obj> {
        Ok(self.shared.counter.wait.obj())
    }

    fn trywait(&self) -> Result {
        self.shared.trywait()
    }

    fn poll(&self, ask: bool) -> Option<bool> {
        self.shared.poll();
        Some(ask && self.shared.counter.changed_for_poll())
    }

    /// fi_cntr(3): counters have default flags, but none is defined.
    fn op_flags(&self, _side: OpFlags) -> Result<OpFlags> {
        Ok(OpFlags::empty())
    }

    fn set_op_flags(&self, flags: OpFlags) -> Result {
        match flags.is_empty() {
            true => Ok(()),
            false => Err(Error::BADFLAGS),
        }
    }
}

impl<T: Transport> CntrCalls for Cntr<T> {
    fn read(&self) -> u64 {
        if self.shared.is_peer {
            self.shared.drive();
            return 0;
        }
        if self.shared.backoff.is_due() && self.shared.backoff.snooze() {
            self.shared.engine.note_pause();
        }
        let before = self.shared.counter.value();
        self.shared.poll();
        let value = self.shared.counter.value();
        match value == before {
            true => self.shared.backoff.count_empty(),
            false => self.shared.backoff.reset(),
        }
        value
    }

    fn read_err(&self) -> u64 {
        if self.shared.is_peer {
            return 0;
        }
        self.shared.poll();
        self.shared.counter.errors()
    }

    fn add(&self, value: u64) -> Result {
        self.shared.edit(Edit::Add(value))
    }

    fn add_err(&self, value: u64) -> Result {
        self.shared.edit(Edit::AddErrors(value))
    }

    fn set(&self, value: u64) -> Result {
        self.shared.edit(Edit::Set(value))
    }

    fn set_err(&self, value: u64) -> Result {
        self.shared.edit(Edit::SetErrors(value))
    }

    fn wait(&self, threshold: u64, timeout: c_int) -> Result {
        let counter = &self.shared.counter;
        self.shared.own()?;
        // Keeps the counter open while this thread waits for it.
        let _inside = self.uses.take();
        let deadline = Deadline::after(timeout);
        let errors = counter.errors();
        drop(self.shared.engine.lock()?);
        let mut sleeper = counter.wait.enter();
        let mut poll_wait = PollWait::new(&self.shared.engine);
        loop {
            let over = deadline.is_over();
            sleeper.arm();
            self.shared.engine.lock_data()?.take_ready();
            if counter.value() < threshold && counter.errors() == errors {
                self.shared.poll_before_sleep()?;
            }
            if counter.value() >= threshold {
                return Ok(());
            }
            if counter.errors() != errors {
                return Err(Error::AVAIL);
            }
            if over {
                return Err(Error::TIMEDOUT);
            }
            // Without a wait object nothing wakes this thread, so it polls.
            match counter.wait.can_sleep() {
                true => drop(sleeper.sleep(deadline)?),
                false => poll_wait.sleep(deadline)?,
            }
        }
    }
}

/// Waits for a counter without a wait object. Spins first, then blocks until the descriptor of the transport is
/// readable. Each sleep is limited, because changes by other threads do not show on that descriptor.
struct PollWait<'a, T: Transport> {
    engine: &'a Engine<T>,
    spins: u32,
}

/// Empty polls before the first sleep.
const SPINS: u32 = 256;
const SLEEP: Duration = Duration::from_millis(1);

impl<'a, T: Transport> PollWait<'a, T> {
    fn new(engine: &'a Engine<T>) -> PollWait<'a, T> {
        PollWait { engine, spins: 0 }
    }

    /// Returns `INTR` if a signal handler ended the sleep.
    fn sleep(&mut self, deadline: Deadline) -> Result {
        if self.spins < SPINS {
            std::thread::yield_now();
            self.spins += 1;
            if self.spins == SPINS {
                // From the next poll on, the descriptor becomes readable when something is ready.
                self.engine.lock()?.domain.watchers.add();
            }
            return Ok(());
        }
        let time = deadline.left().map_or(SLEEP, |left| left.min(SLEEP));
        sleep_on(&[self.engine.poll_fd().as_fd()], Some(time))?;
        Ok(())
    }
}

impl<T: Transport> Drop for PollWait<'_, T> {
    fn drop(&mut self) {
        if self.spins == SPINS
            && let Ok(mut state) = self.engine.lock()
        {
            state.domain.watchers.remove();
        }
    }
}
