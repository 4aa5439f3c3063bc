// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posted receives. Receives are divided into classes by their wildcards (ignore mask, any source or one). Within a
//! class a message gives the exact key of its receives, so one hash lookup per class finds the candidates, and the
//! oldest candidate is the match. If messages arrive in the order of the receives, the oldest receive of all is the
//! match. It is therefore tried first, and the receives behind it are put into the hash tables only if it does not
//! match.

use super::queues::{CLASSES, Key, Queues};
use super::{ANY, Asked, Put, Wanted};

pub(super) struct Posted<R> {
    /// By id. A free place still holds its completed receive, which the next post overwrites.
    places: Vec<Place<R>>,
    /// The first free place, or `NONE`.
    free: u32,
    /// The ends of the list of all posted receives in order of age, or `NONE`.
    oldest: u32,
    youngest: u32,
    /// The oldest receive that has no queue and no class yet, or `NONE`; all younger receives have none either.
    unsorted: u32,
    queues: Queues,
    classes: Vec<Class>,
    /// Bit per class that has receives.
    live: u64,
    /// The class of the last post: the next one is likely the same.
    recent: u8,
    born: u64,
    by_key: Option<ByKey<R>>,
}

struct Place<R> {
    wanted: Wanted,
    age: u64,
    /// Neighbours in the list by age; `after` of a free place is the next free place.
    before: u32,
    after: u32,
    /// The class of the receive, or `UNSORTED`.
    class: u8,
    recv: R,
}

#[derive(Clone, Copy)]
struct Class {
    ignore: u64,
    any: bool,
    len: u32,
}

/// An index by a value that each receive has, built by the first search for that value.
struct ByKey<R> {
    key: fn(&R) -> u64,
    queues: Queues,
}

impl<R: Default> Posted<R> {
    pub fn new() -> Self {
        Posted {
            places: Vec::new(),
            free: NONE,
            oldest: NONE,
            youngest: NONE,
            unsorted: NONE,
            queues: Queues::new(),
            classes: Vec::new(),
            live: 0,
            recent: 0,
            born: 0,
            by_key: None,
        }
    }

    /// Posts a receive. `recv` overwrites a completed receive, or the default value.
    #[inline(always)]
    pub fn post(&mut self, wanted: Wanted, recv: impl Put<R>) -> u32 {
        let age = self.born;
        self.born += 1;
        let before = self.youngest;
        if self.free == NONE {
            self.add();
        }
        let id = self.free;
        let place = &mut self.places[id as usize];
        self.free = place.after;
        place.wanted = wanted;
        place.age = age;
        place.before = before;
        place.after = NONE;
        place.class = UNSORTED;
        recv.put(&mut place.recv);
        match self.places.get_mut(before as usize) {
            None => self.oldest = id,
            Some(before) => before.after = id,
        }
        self.youngest = id;
        if self.unsorted == NONE {
            self.unsorted = id;
        }
        if let Some(by) = &mut self.by_key {
            let key = (by.key)(&self.places[id as usize].recv);
            by.queues.push(id, plain(key));
        }
        id
    }

    /// Puts the receives that have no class yet into the hash tables.
    fn sort(&mut self) {
        let mut id = core::mem::replace(&mut self.unsorted, NONE);
        while id != NONE {
            let wanted = self.places[id as usize].wanted;
            let class = self.class_of(&wanted);
            self.queues.push(id, queue_of(class, &wanted));
            self.classes[class as usize].len += 1;
            self.live |= 1 << class;
            let place = &mut self.places[id as usize];
            place.class = class;
            id = place.after;
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self) {
        let id = u32::try_from(self.places.len()).expect("memory ends before");
        self.places.push(Place {
            wanted: Wanted::default(),
            age: 0,
            before: NONE,
            after: self.free,
            class: UNSORTED,
            recv: R::default(),
        });
        self.free = id;
    }

    /// Finds the oldest receive that accepts this message.
    #[inline(always)]
    pub fn find(&mut self, source: u64, tag: u64) -> Option<u32> {
        let oldest = self.places.get(self.oldest as usize)?;
        match oldest.wanted.accepts(source, tag) {
            true => Some(self.oldest),
            false => self.find_behind(source, tag),
        }
    }

    /// Does the same as `find`, if the oldest receive does not match.
    #[inline(never)]
    fn find_behind(&mut self, source: u64, tag: u64) -> Option<u32> {
        self.sort();
        let live = self.live;
        // In most cases all receives belong to one class.
        match live & live.wrapping_sub(1) {
            0 if live > 1 << MIXED => self.find_in(live.trailing_zeros() as u8, source, tag),
            _ => self.find_among(source, tag),
        }
    }

    #[inline(never)]
    fn find_among(&self, source: u64, tag: u64) -> Option<u32> {
        let mut live = self.live;
        let mut oldest: Option<u32> = None;
        while live != 0 {
            let class = live.trailing_zeros() as u8;
            live &= live - 1;
            let found = if class == MIXED {
                self.find_mixed(source, tag)
            } else {
                self.find_in(class, source, tag)
            };
            oldest = match (oldest, found) {
                (Some(old), Some(new)) if self.age(old) < self.age(new) => Some(old),
                (old, new) => new.or(old),
            };
        }
        oldest
    }

    #[inline]
    fn find_in(&self, class: u8, source: u64, tag: u64) -> Option<u32> {
        let Class { ignore, any, .. } = self.classes[class as usize];
        let source = if any { ANY } else { source };
        let tag = tag & !ignore;
        self.queues.first(Key { class, source, tag })
    }

    #[cfg(test)]
    pub fn find_by(&self, mut accepts: impl FnMut(&R) -> bool) -> Option<u32> {
        let mut all = self.by_age().into_iter();
        all.find(|&id| accepts(&self.places[id as usize].recv))
    }

    pub fn find_by_key(&mut self, key: fn(&R) -> u64, value: u64) -> Option<u32> {
        if self.by_key.is_none() {
            let mut queues = Queues::new();
            for id in self.by_age() {
                queues.push(id, plain(key(&self.places[id as usize].recv)));
            }
            self.by_key = Some(ByKey { key, queues });
        }
        self.by_key.as_ref()?.queues.first(plain(value))
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut R {
        &mut self.places[id as usize].recv
    }

    pub fn take(&mut self, id: u32) -> R {
        self.release(id);
        std::mem::take(&mut self.places[id as usize].recv)
    }

    // Inlined, as `find` is, because this is on the path of every message and a call would cost several instructions.
    #[inline(always)]
    pub fn release(&mut self, id: u32) {
        let free = self.free;
        let place = &mut self.places[id as usize];
        let (before, after, class) = (place.before, place.after, place.class);
        place.after = free;
        self.free = id;
        match self.places.get_mut(before as usize) {
            None => self.oldest = after,
            Some(before) => before.after = after,
        }
        match self.places.get_mut(after as usize) {
            None => self.youngest = before,
            Some(after) => after.before = before,
        }
        if class != UNSORTED {
            self.unsort(id, class);
        } else if self.unsorted == id {
            self.unsorted = after;
        }
        if let Some(by) = &mut self.by_key {
            by.queues.remove(id);
        }
    }

    #[inline(never)]
    fn unsort(&mut self, id: u32, class: u8) {
        self.queues.remove(id);
        let len = &mut self.classes[class as usize].len;
        *len -= 1;
        if *len == 0 {
            self.live &= !(1 << class);
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_age().len()
    }

    pub fn drain(&mut self) -> Vec<R> {
        let all = self.by_age();
        all.into_iter().map(|id| self.take(id)).collect()
    }

    /// Removes the receives that name this source and returns them, oldest first.
    pub fn drain_from(&mut self, source: u64) -> Vec<R> {
        let mut named = self.by_age();
        named.retain(|&id| self.places[id as usize].wanted.source == source);
        named.into_iter().map(|id| self.take(id)).collect()
    }

    /// Whether a posted receive names this source.
    pub fn names(&self, source: u64) -> bool {
        let is_named = |&id: &u32| self.places[id as usize].wanted.source == source;
        self.by_age().iter().any(is_named)
    }

    #[inline]
    fn age(&self, id: u32) -> u64 {
        self.places[id as usize].age
    }

    /// Iterates over all posted receives, oldest first.
    #[inline]
    pub fn each(&self) -> impl Iterator<Item = &R> {
        let place = |id: u32| self.places.get(id as usize);
        let next = move |at: &&Place<R>| place(at.after);
        std::iter::successors(place(self.oldest), next).map(|place| &place.recv)
    }

    /// Does the same as `each`, with source, tag and ignore mask of each receive.
    pub fn each_asked(&self) -> impl Iterator<Item = Asked<'_, R>> {
        let place = |id: u32| self.places.get(id as usize);
        let all = std::iter::successors(place(self.oldest), move |at| place(at.after));
        all.map(|place| Asked {
            source: place.wanted.source,
            tag: place.wanted.tag,
            ignore: place.wanted.ignore,
            before: place.age,
            recv: &place.recv,
        })
    }

    /// Number of receives that were posted so far.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// Ids of all posted receives, oldest first.
    fn by_age(&self) -> Vec<u32> {
        let place = |id: u32| self.places.get(id as usize).map(|_| id);
        std::iter::successors(place(self.oldest), |&id| {
            place(self.places[id as usize].after)
        })
        .collect()
    }

    fn find_mixed(&self, source: u64, tag: u64) -> Option<u32> {
        let mut mixed = self.queues.queue(MIXED_QUEUE);
        mixed.find(|&id| self.places[id as usize].wanted.accepts(source, tag))
    }

    #[inline]
    fn class_of(&mut self, wanted: &Wanted) -> u8 {
        match self.classes.get(self.recent as usize) {
            Some(class) if class.holds(wanted) && self.recent != MIXED => self.recent,
            _ => self.look_up_class(wanted),
        }
    }

    /// Finds or makes the class of a receive. An empty class is reused before a new one is made.
    fn look_up_class(&mut self, wanted: &Wanted) -> u8 {
        let class = Class {
            ignore: wanted.ignore,
            any: wanted.source == ANY,
            len: 0,
        };
        if self.classes.is_empty() {
            self.classes.push(class);
        }
        let mut named = self.classes.iter().skip(1);
        let at = if let Some(known) = named.position(|class| class.holds(wanted)) {
            known + 1
        } else if let Some(unused) = self.classes.iter().skip(1).position(|class| class.len == 0) {
            self.classes[unused + 1] = class;
            unused + 1
        } else if self.classes.len() < CLASSES {
            self.classes.push(class);
            self.classes.len() - 1
        } else {
            MIXED as usize
        };
        self.recent = at as u8;
        self.recent
    }

    #[cfg(test)]
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    #[cfg(test)]
    pub fn buckets(&self) -> usize {
        self.queues.buckets()
    }
}

impl Class {
    #[inline]
    fn holds(&self, wanted: &Wanted) -> bool {
        self.ignore == wanted.ignore && self.any == (wanted.source == ANY)
    }
}

#[inline]
fn queue_of(class: u8, wanted: &Wanted) -> Key {
    if class == MIXED {
        return MIXED_QUEUE;
    }
    let source = wanted.source;
    let tag = wanted.tag & !wanted.ignore;
    Key { class, source, tag }
}

fn plain(value: u64) -> Key {
    Key {
        class: 0,
        source: 0,
        tag: value,
    }
}

/// No place.
const NONE: u32 = u32::MAX;
/// No class: the receive is in no queue yet.
const UNSORTED: u8 = u8::MAX;

/// The class of all receives whose shape found no free class: one queue, searched from its oldest receive on.
const MIXED: u8 = 0;
const MIXED_QUEUE: Key = Key {
    class: MIXED,
    source: 0,
    tag: 0,
};
