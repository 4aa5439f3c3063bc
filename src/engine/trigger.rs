// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that wait until a counter reaches a threshold: fi_trigger(3). They are kept in the order in which they
//! start. A counter for which operations wait is *watched*, and code that changes it calls `changed`. Operations that
//! are due start when the call that changed the counter has done everything else. They start in a loop, because an
//! operation that completes at once may trigger the next.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use slab::Slab;

use crate::cntr::{Counter, Edit};
use base::{Error, OpFlags, Result};

use object::ops::transfer::Rx;
use object::ops::work::{Outgoing, OutgoingAtomic};
use sync::{Use, Uses};

/// The waiting operations of one domain, and its deferred work in flight.
#[derive(Default)]
pub struct Triggers {
    /// Queues by the address of the counter, which the queue keeps alive.
    queues: HashMap<usize, Queue, FxBuildHasher>,
    /// Counters that have reached a threshold.
    reached: Vec<usize>,
    /// Operations that start next, or could not start yet.
    ready: VecDeque<Pending>,
    /// `ready` has operations of several endpoints, or of none.
    is_mixed: bool,
    /// `reached` or `ready` is not empty.
    due: bool,
    /// Number of waiting operations.
    pending: usize,
    /// Number of operations posted so far.
    posted: u64,
    /// Deferred work in flight, by the number in its operation flags.
    running: Slab<Running>,
}

/// The operations that wait for one counter, ordered by threshold, then by call.
struct Queue {
    counter: Arc<Counter>,
    waiting: [BTreeMap<(u64, u64), Pending>; 2],
    /// The queue is in `Triggers::reached`.
    reached: bool,
}

/// The compared value: fi_trigger(3) includes errors only for deferred work.
#[derive(Clone, Copy)]
pub enum Measure {
    Value,
    ValueAndErrors,
}

const MEASURES: [Measure; 2] = [Measure::Value, Measure::ValueAndErrors];

/// The condition under which an operation starts.
pub struct Condition {
    pub counter: Held,
    pub threshold: u64,
    pub measure: Measure,
}

/// A counter, kept open.
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

    pub fn counter(&self) -> &Arc<Counter> {
        &self.counter
    }
}

/// The place where an operation is posted: the endpoint, and the endpoint itself or one of its transmit contexts.
#[derive(Clone, Copy)]
pub struct Place {
    pub port: usize,
    pub ep: usize,
}

/// An operation, and where it is posted.
pub enum Action {
    Transmit(Place, Outgoing),
    Receive(usize, Rx),
    Atomic(Place, OutgoingAtomic),
    Change(Held, Edit),
}

/// Data that only deferred work has.
pub struct Work {
    /// The name by which the application cancels it.
    pub name: usize,
    /// The counter of its completion.
    pub completion: Option<Held>,
}

/// An operation that waits, or may start now.
pub struct Pending {
    pub action: Action,
    pub work: Option<Work>,
    /// The counter for which the operation waits.
    counter: Held,
}

struct Running {
    ep: usize,
    completion: Option<Held>,
}

/// Most waiting operations of one domain, and most deferred work in flight.
const LIMIT: usize = 1 << 16;

/// The number of deferred work is in bits of its operation flags that no flag uses.
const NUMBER: u32 = 37;
const NUMBERS: u64 = (2 * LIMIT as u64 - 1) << NUMBER;

fn number_of(flags: OpFlags) -> Option<usize> {
    (((flags.bits() & NUMBERS) >> NUMBER) as usize).checked_sub(1)
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

impl Queue {
    fn has_due(&self) -> bool {
        MEASURES.iter().any(|&measure| {
            let first = self.waiting[measure as usize].first_key_value();
            first.is_some_and(|(&(threshold, _), _)| threshold <= measure.of(&self.counter))
        })
    }

    /// Takes the operations that are due, in order.
    fn take_due(&mut self, out: &mut VecDeque<Pending>) {
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

    fn retain(&mut self, keep: &mut impl FnMut(&Pending) -> bool) {
        let waiting = self.waiting.iter_mut();
        waiting.for_each(|waiting| waiting.retain(|_, pending| keep(pending)));
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(BTreeMap::is_empty)
    }
}

impl Action {
    pub fn ep(&self) -> Option<usize> {
        match self {
            Action::Transmit(place, _) | Action::Atomic(place, _) => Some(place.ep),
            Action::Receive(ep, _) => Some(*ep),
            Action::Change(..) => None,
        }
    }

    fn context(&self) -> Option<usize> {
        match self {
            Action::Transmit(_, out) => Some(out.context.number()),
            Action::Receive(_, rx) => Some(rx.context.number()),
            Action::Atomic(_, out) => Some(out.context.number()),
            Action::Change(..) => None,
        }
    }
}

impl Triggers {
    /// Returns FI_EAGAIN if too many operations wait already.
    pub fn add(&mut self, when: Condition, action: Action, work: Option<Work>) -> Result {
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

    /// Called when a watched counter has changed.
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

    /// Takes the operations that may start now, in order.
    pub fn take_due(&mut self) -> VecDeque<Pending> {
        for key in std::mem::take(&mut self.reached) {
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.reached = false;
                let before = self.ready.len();
                queue.take_due(&mut self.ready);
                let first = self.ready.front().and_then(|pending| pending.action.ep());
                let other = |pending: &Pending| pending.action.ep() != first;
                self.is_mixed |= self.ready.iter().skip(before).any(other);
            }
            self.forget_empty(key);
        }
        self.due = false;
        std::mem::take(&mut self.ready)
    }

    /// Counts a due operation that has started.
    pub fn started(&mut self) {
        self.pending -= 1;
    }

    /// Whether the ready operations belong to several endpoints, or to none.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Keeps operations that were due but could not start yet, in order.
    pub fn put_back(&mut self, kept: VecDeque<Pending>) {
        self.is_mixed &= !kept.is_empty();
        self.ready = kept;
    }

    /// Whether operations that have `started` triggered others. Otherwise ready operations wait for the next call.
    pub fn goes_on(&mut self, started: bool) -> bool {
        if started && !self.reached.is_empty() {
            return true;
        }
        self.due |= !self.ready.is_empty();
        false
    }

    fn forget_empty(&mut self, key: usize) {
        if self.queues.get(&key).is_some_and(Queue::is_empty)
            && let Some(queue) = self.queues.remove(&key)
        {
            queue.counter.watch(false);
        }
    }

    /// Drops all operations for which `keep` returns false.
    fn retain(&mut self, mut keep: impl FnMut(&Pending) -> bool) {
        let mut gone = 0;
        let mut counted = |pending: &Pending| {
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

    /// Drops the operations of an endpoint that is closed, without completions.
    pub fn forget_ep(&mut self, ep: usize) {
        if self.pending > 0 {
            self.retain(|pending| pending.action.ep() != Some(ep));
        }
        self.running.retain(|_, running| running.ep != ep);
    }

    /// FI_CANCEL_WORK: removes the oldest work with this name. FI_ENOENT if none waits.
    pub fn cancel_work(&mut self, name: usize) -> Result {
        let is_named = |pending: &Pending| {
            let work = pending.work.as_ref();
            work.is_some_and(|work| work.name == name)
        };
        if let Some(at) = self.ready.iter().position(is_named) {
            self.ready.remove(at);
        } else {
            let named = |(key, queue): (&usize, &Queue)| {
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

    /// FI_FLUSH_WORK: removes all waiting work, or that for one counter.
    pub fn flush_work(&mut self, held: Option<&Held>) {
        self.retain(|pending| {
            let other = |held: &Held| !Arc::ptr_eq(&held.counter, &pending.counter.counter);
            pending.work.is_none() || held.is_some_and(other)
        });
    }

    /// Removes a waiting operation with FI_TRIGGER.
    pub fn cancel(&mut self, ep: usize, context: usize) -> Option<Action> {
        if self.pending == 0 {
            return None;
        }
        let is_it = |pending: &Pending| {
            let (action, plain) = (&pending.action, pending.work.is_none());
            plain && action.ep() == Some(ep) && action.context() == Some(context)
        };
        let mut found = self.ready.iter().position(is_it);
        let mut found = found.take().and_then(|at| self.ready.remove(at));
        if found.is_none() {
            let named = |(key, queue): (&usize, &Queue)| {
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

    /// The flags of deferred work while it is in flight.
    pub fn begin(&mut self, ep: usize, work: &Option<Work>) -> Result<OpFlags> {
        let Some(work) = work else {
            return Ok(OpFlags::empty());
        };
        if self.running.len() >= LIMIT {
            return Err(Error::AGAIN);
        }
        let number = self.running.insert(Running {
            ep,
            completion: work.completion.clone(),
        });
        Ok(OpFlags::from_bits_retain((number as u64 + 1) << NUMBER))
    }

    /// Ends deferred work. Returns the counter of its completion, if it has one.
    pub fn end(&mut self, flags: OpFlags) -> Option<Option<Held>> {
        let running = self.running.try_remove(number_of(flags)?);
        Some(running.and_then(|running| running.completion))
    }
}
