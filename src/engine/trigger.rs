// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that wait until a counter reaches a value: fi_trigger(3). They stand here in the order in which they start;
//! a counter that something waits for is *watched*, and who changes it says so. What is due starts when the call that
//! changed the counter is done with everything else, in a loop: an operation that completes at once may set off the next.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use slab::Slab;

use crate::base::{Error, IoVec, Result};
use crate::engine::cntr::{Counter, Edit};
use crate::engine::core::{Core, TxOp};
use crate::engine::domain::State;
use crate::engine::ep_state::Event;
use crate::engine::srx::RecvOp;
use crate::engine::transport::{Address, Transport};
use crate::ffi::ops::transfer::Rx;
use crate::ffi::ops::work::{Outgoing, OutgoingAtomic};
use crate::hmem::{Host, Memory};
use crate::sync::{Use, Uses};

/// What waits in one domain, and what deferred work is under way.
#[derive(Default)]
pub struct Triggers<M: Memory = Host> {
    /// By the address of the counter, which the queue keeps.
    queues: HashMap<usize, Queue<M>, FxBuildHasher>,
    /// Counters that have reached a value.
    reached: Vec<usize>,
    /// What starts next, or could not start yet.
    ready: VecDeque<Pending<M>>,
    /// It has operations of several endpoints, or some of none.
    is_mixed: bool,
    /// Something is in `reached` or `ready`.
    due: bool,
    /// How many wait.
    pending: usize,
    /// How many were ever posted.
    posted: u64,
    /// Deferred work that was started and has not completed, by the number in its operation flags.
    running: Slab<Running>,
}

/// What waits for one counter, by value and then in the order of the calls.
struct Queue<M> {
    counter: Arc<Counter>,
    waiting: [BTreeMap<(u64, u64), Pending<M>>; 2],
    /// In `Triggers::reached`.
    reached: bool,
}

/// What is compared: fi_trigger(3) lets only deferred work count errors.
#[derive(Clone, Copy)]
pub enum Measure {
    Value,
    ValueAndErrors,
}

const MEASURES: [Measure; 2] = [Measure::Value, Measure::ValueAndErrors];

/// When an operation starts.
pub struct Condition {
    pub counter: Held,
    pub threshold: u64,
    pub measure: Measure,
}

/// A counter that stays open for whoever holds this.
#[derive(Clone)]
pub struct Held {
    counter: Arc<Counter>,
    _use: Use,
}

impl Held {
    pub fn new(counter: &Arc<Counter>, uses: &Uses) -> Held {
        Held {
            counter: counter.clone(),
            _use: uses.take(),
        }
    }
}

/// Where an operation is posted: the endpoint, and the same or a transmit context of it.
#[derive(Clone, Copy)]
pub struct Place {
    pub port: usize,
    pub ep: usize,
}

/// An operation, and where it is posted.
pub enum Action<M = Host> {
    Transmit(Place, Outgoing<M>),
    Receive(usize, Rx<M>),
    Atomic(Place, OutgoingAtomic<M>),
    Change(Held, Edit),
}

/// What makes an operation deferred work.
pub struct Work {
    /// What the application cancels it by.
    pub name: usize,
    /// Counts its completion.
    pub completion: Option<Held>,
}

struct Pending<M> {
    action: Action<M>,
    work: Option<Work>,
    /// What it waits for.
    counter: Held,
}

struct Running {
    ep: usize,
    completion: Option<Held>,
}

/// Operations of one domain that may wait, and deferred work that may be under way.
const LIMIT: usize = 1 << 16;

/// Deferred work carries a number in bits of its operation flags that no flag has.
const NUMBER: u32 = 37;
const NUMBERS: u64 = (2 * LIMIT as u64 - 1) << NUMBER;

fn number_of(flags: u64) -> Option<usize> {
    (((flags & NUMBERS) >> NUMBER) as usize).checked_sub(1)
}

fn key_of(counter: &Arc<Counter>) -> usize {
    Arc::as_ptr(counter) as usize
}

impl Measure {
    fn of(self, counter: &Counter) -> u64 {
        match self {
            Measure::Value => counter.value(),
            Measure::ValueAndErrors => counter.value().saturating_add(counter.errors()),
        }
    }
}

impl<M: Memory> Queue<M> {
    fn has_due(&self) -> bool {
        MEASURES.iter().any(|&measure| {
            let first = self.waiting[measure as usize].first_key_value();
            first.is_some_and(|(&(threshold, _), _)| threshold <= measure.of(&self.counter))
        })
    }

    /// Takes out what is due, in its order.
    fn take_due(&mut self, out: &mut VecDeque<Pending<M>>) {
        let mut due = Vec::new();
        for measure in MEASURES {
            let now = measure.of(&self.counter);
            while let Some(entry) = self.waiting[measure as usize].first_entry()
                && entry.key().0 <= now
            {
                due.push(entry.remove_entry());
            }
        }
        due.sort_by_key(|&(place, _)| place);
        out.extend(due.into_iter().map(|(_, pending)| pending));
    }

    fn retain(&mut self, keep: &mut impl FnMut(&Pending<M>) -> bool) {
        let waiting = self.waiting.iter_mut();
        waiting.for_each(|waiting| waiting.retain(|_, pending| keep(pending)));
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(BTreeMap::is_empty)
    }
}

impl<M: Memory> Action<M> {
    fn ep(&self) -> Option<usize> {
        match self {
            Action::Transmit(place, _) | Action::Atomic(place, _) => Some(place.ep),
            Action::Receive(ep, _) => Some(*ep),
            Action::Change(..) => None,
        }
    }

    fn context(&self) -> Option<usize> {
        match self {
            Action::Transmit(_, out) => Some(out.context),
            Action::Receive(_, rx) => Some(rx.context),
            Action::Atomic(_, out) => Some(out.context),
            Action::Change(..) => None,
        }
    }
}

impl<M: Memory> Triggers<M> {
    /// FI_EAGAIN if too much waits already.
    pub fn add(&mut self, when: Condition, action: Action<M>, work: Option<Work>) -> Result {
        if self.pending >= LIMIT {
            return Err(Error::AGAIN);
        }
        let counter = when.counter.counter.clone();
        counter.watch(true);
        let queue = self
            .queues
            .entry(key_of(&counter))
            .or_insert_with(|| Queue {
                counter: counter.clone(),
                waiting: Default::default(),
                reached: false,
            });
        let pending = Pending {
            action,
            work,
            counter: when.counter,
        };
        queue.waiting[when.measure as usize].insert((when.threshold, self.posted), pending);
        self.posted += 1;
        self.pending += 1;
        self.changed(&counter);
        Ok(())
    }

    /// A counter that is watched has another value.
    pub fn changed(&mut self, counter: &Arc<Counter>) {
        let key = key_of(counter);
        if let Some(queue) = self.queues.get_mut(&key)
            && !queue.reached
            && queue.has_due()
        {
            queue.reached = true;
            self.reached.push(key);
            self.due = true;
        }
    }

    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// What may start now, in order.
    fn take_due(&mut self) -> VecDeque<Pending<M>> {
        for key in std::mem::take(&mut self.reached) {
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.reached = false;
                let before = self.ready.len();
                queue.take_due(&mut self.ready);
                let first = self.ready.front().and_then(|pending| pending.action.ep());
                let other = |pending: &Pending<M>| pending.action.ep() != first;
                self.is_mixed |= self.ready.iter().skip(before).any(other);
            }
            self.forget_empty(key);
        }
        self.due = false;
        std::mem::take(&mut self.ready)
    }

    fn forget_empty(&mut self, key: usize) {
        if self.queues.get(&key).is_some_and(Queue::is_empty)
            && let Some(queue) = self.queues.remove(&key)
        {
            queue.counter.watch(false);
        }
    }

    /// Takes out all that is not to be kept.
    fn retain(&mut self, mut keep: impl FnMut(&Pending<M>) -> bool) {
        let mut gone = 0;
        let mut counted = |pending: &Pending<M>| {
            let stays = keep(pending);
            gone += usize::from(!stays);
            stays
        };
        for queue in self.queues.values_mut() {
            queue.retain(&mut counted);
        }
        self.ready.retain(&mut counted);
        self.pending -= gone;
        let keys: Vec<usize> = self.queues.keys().copied().collect();
        keys.into_iter().for_each(|key| self.forget_empty(key));
    }

    /// An endpoint closes: what it had posted is gone without a word.
    pub fn forget_ep(&mut self, ep: usize) {
        if self.pending > 0 {
            self.retain(|pending| pending.action.ep() != Some(ep));
        }
        self.running.retain(|_, running| running.ep != ep);
    }

    /// FI_CANCEL_WORK: the work that was queued by this name first. FI_ENOENT if none waits.
    pub fn cancel_work(&mut self, name: usize) -> Result {
        let is_named = |pending: &Pending<M>| {
            let work = pending.work.as_ref();
            work.is_some_and(|work| work.name == name)
        };
        if let Some(at) = self.ready.iter().position(is_named) {
            self.ready.remove(at);
        } else {
            let named = |(key, queue): (&usize, &Queue<M>)| {
                let waiting = queue.waiting.iter().flatten();
                let mine = waiting.filter(|(_, pending)| is_named(pending));
                let first = mine.map(|(place, _)| *place).min_by_key(|place| place.1);
                first.map(|place| (place, *key))
            };
            let found = self.queues.iter().filter_map(named);
            let (place, key) = found.min_by_key(|(place, _)| place.1).ok_or(Error::NOENT)?;
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.waiting.iter_mut().for_each(|waiting| {
                    waiting.remove(&place);
                });
            }
            self.forget_empty(key);
        }
        self.pending -= 1;
        Ok(())
    }

    /// FI_FLUSH_WORK: all work that waits, or that for one counter.
    pub fn flush_work(&mut self, held: Option<&Held>) {
        self.retain(|pending| {
            let other = |held: &Held| !Arc::ptr_eq(&held.counter, &pending.counter.counter);
            pending.work.is_none() || held.is_some_and(other)
        });
    }

    /// An operation with FI_TRIGGER that waits.
    fn cancel(&mut self, ep: usize, context: usize) -> Option<Action<M>> {
        if self.pending == 0 {
            return None;
        }
        let is_it = |pending: &Pending<M>| {
            let (action, plain) = (&pending.action, pending.work.is_none());
            plain && action.ep() == Some(ep) && action.context() == Some(context)
        };
        let mut found = self.ready.iter().position(is_it);
        let mut found = found.take().and_then(|at| self.ready.remove(at));
        if found.is_none() {
            let named = |(key, queue): (&usize, &Queue<M>)| {
                let mut waiting = queue.waiting.iter().flatten();
                let mine = waiting.find(|(_, pending)| is_it(pending));
                mine.map(|(place, _)| (*key, *place))
            };
            let (key, place) = self.queues.iter().find_map(named)?;
            let queue = self.queues.get_mut(&key)?;
            let mut waiting = queue.waiting.iter_mut();
            found = waiting.find_map(|waiting| waiting.remove(&place));
            self.forget_empty(key);
        }
        self.pending -= 1;
        found.map(|pending| pending.action)
    }

    /// The flags that work carries while it is under way.
    fn begin(&mut self, ep: usize, work: &Option<Work>) -> Result<u64> {
        let Some(work) = work else {
            return Ok(0);
        };
        if self.running.len() >= LIMIT {
            return Err(Error::AGAIN);
        }
        let number = self.running.insert(Running {
            ep,
            completion: work.completion.clone(),
        });
        Ok((number as u64 + 1) << NUMBER)
    }

    /// Deferred work has come to its end: who counts it, if anybody.
    fn end(&mut self, flags: u64) -> Option<Option<Held>> {
        let running = self.running.try_remove(number_of(flags)?);
        Some(running.and_then(|running| running.completion))
    }
}

impl<A: Address, M: Memory> Core<A, M> {
    /// An event of an endpoint.
    #[inline]
    pub fn count(&mut self, ep: usize, event: Event, flags: u64, len: usize) {
        if let Some(cntr) = self.eps[ep].cntr(event)
            && !cntr.count(len)
        {
            self.count_watched(ep, event, flags, len);
        }
    }

    /// As `count`, when the counter said that something waits for it.
    #[cold]
    pub fn count_watched(&mut self, ep: usize, event: Event, flags: u64, len: usize) {
        match self.triggers.end(flags) {
            Some(Some(completion)) => {
                completion.counter.add(1);
                self.triggers.changed(&completion.counter);
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

    /// An operation of an endpoint has failed.
    #[cold]
    pub fn count_failed(&mut self, ep: usize, event: Event, flags: u64) {
        let work = self.triggers.end(flags);
        let counter = match &work {
            Some(completion) => completion.as_ref().map(|completion| &completion.counter),
            None => self.eps[ep].bound(event),
        };
        if let Some(counter) = counter {
            counter.failed();
            self.triggers.changed(counter);
        }
    }

    /// A peer has written to the region that the counter is bound to.
    pub fn count_region(&mut self, counter: &Arc<Counter>, len: usize) {
        if !counter.count(len) {
            counter.succeeded(len);
            self.triggers.changed(counter);
        }
    }

    /// The application changes a counter, at once or by deferred work.
    pub fn change(&mut self, counter: &Arc<Counter>, edit: Edit) {
        counter.edit(edit);
        if counter.is_watched() {
            self.triggers.changed(counter);
        }
    }

    /// fi_cancel(3): an operation that waits for a counter is reported as cancelled. False if there is none.
    pub fn cancel_triggered(&mut self, ep: usize, context: usize) -> bool {
        match self.triggers.cancel(ep, context) {
            Some(action) => {
                self.refuse(&action, 0, Error::CANCELED);
                true
            }
            None => false,
        }
    }

    /// Reports an operation that did not start. `number`: of deferred work.
    fn refuse(&mut self, action: &Action<M>, number: u64, error: Error) {
        let operation = |place: &Place, what, flags: u64, context, len| TxOp {
            since: 0,
            ep: place.ep as u32,
            what,
            flags: flags | number,
            context,
            len,
        };
        match action {
            Action::Transmit(place, out) => {
                let op = operation(place, out.what(), out.flags, out.context, out.len());
                self.send_failed(place.ep, &op, error);
            }
            Action::Atomic(place, out) => {
                let op = operation(place, out.what(), out.flags, out.context, out.len());
                self.send_failed(place.ep, &op, error);
            }
            Action::Receive(ep, rx) => {
                let recv = RecvOp {
                    iov: IoVec::empty(),
                    base: rx.iov.base(),
                    len: rx.iov.remaining(),
                    context: rx.context,
                    flags: rx.flags | number,
                    multi: None,
                };
                self.receive_failed(*ep, &recv, rx.what, error);
            }
            Action::Change(..) => {}
        }
    }
}

impl<T: Transport> State<T> {
    /// To be called when a call may have changed counters and is done with the transport.
    #[inline]
    pub fn run_triggers(&mut self) {
        if self.core.triggers.is_due() {
            self.start_due();
        }
    }

    #[cold]
    fn start_due(&mut self) {
        loop {
            let mut started = false;
            // An endpoint that takes no more keeps its order; others go on.
            let mut full = Vec::new();
            let mut due = self.core.triggers.take_due();
            let mut kept = VecDeque::new();
            while let Some(mut pending) = due.pop_front() {
                let ep = pending.action.ep();
                if ep.is_some_and(|ep| full.contains(&ep)) || !self.start(&mut pending) {
                    // All are of this one: nothing behind it can start either, and nothing is moved.
                    if ep.is_some() && !self.core.triggers.is_mixed {
                        due.push_front(pending);
                        kept = due;
                        break;
                    }
                    full.extend(ep);
                    kept.push_back(pending);
                    continue;
                }
                started = true;
                self.core.triggers.pending -= 1;
            }
            self.core.triggers.is_mixed &= !kept.is_empty();
            self.core.triggers.ready = kept;
            if started {
                self.transport.flush(&mut self.core);
            }
            let triggers = &mut self.core.triggers;
            if !started || triggers.reached.is_empty() {
                triggers.due |= !triggers.ready.is_empty();
                return;
            }
        }
    }

    /// False if it has to be tried again. What goes wrong otherwise is reported as the operation's end.
    fn start(&mut self, pending: &mut Pending<T::Memory>) -> bool {
        let ep = match &pending.action {
            Action::Change(held, edit) => {
                self.core.change(&held.counter, *edit);
                return true;
            }
            Action::Transmit(place, _) | Action::Atomic(place, _) => place.ep,
            Action::Receive(ep, _) => *ep,
        };
        let Ok(number) = self.core.triggers.begin(ep, &pending.work) else {
            return false;
        };
        let result = match &mut pending.action {
            Action::Transmit(place, out) => {
                let State { core, transport } = self;
                out.post(number, |tx| {
                    transport.transmit_from(core, place.port, ep, tx)
                })
            }
            Action::Atomic(place, out) => {
                let State { core, transport } = self;
                out.post(number, |atomic| {
                    transport.atomic(core, place.port, ep, atomic)
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
                self.core.triggers.end(number);
                false
            }
            Err(error) => {
                self.core.refuse(&pending.action, number, error);
                true
            }
        }
    }
}
