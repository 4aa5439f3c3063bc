// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posted receives. They fall into classes by what they leave open (ignore mask, any source or one); within a class a
//! message names its receives exactly, so one look into a hash table per class finds them, and the oldest of the finds
//! is the match.
#![forbid(unsafe_code)]

use super::line::Line;
use super::queues::{CLASSES, Key, Queues};
use super::{ANY, Wanted};

pub(super) struct Posted<R> {
    receives: Line<Receive<R>>,
    queues: Queues,
    classes: Vec<Class>,
    /// Bit per class that has receives.
    live: u64,
    /// The class of the last post: the next one is likely the same.
    recent: u8,
    by_key: Option<ByKey<R>>,
}

struct Receive<R> {
    wanted: Wanted,
    class: u8,
    recv: R,
}

#[derive(Clone, Copy)]
struct Class {
    ignore: u64,
    any: bool,
    len: u32,
}

/// An index by something that the receives carry, made by the first search for it.
struct ByKey<R> {
    key: fn(&R) -> u64,
    queues: Queues,
}

impl<R> Posted<R> {
    pub fn new() -> Self {
        Posted {
            receives: Line::new(),
            queues: Queues::new(),
            classes: Vec::new(),
            live: 0,
            recent: 0,
            by_key: None,
        }
    }

    #[inline]
    pub fn post(&mut self, wanted: Wanted, recv: R) -> u32 {
        let class = self.class_of(&wanted);
        let plain_key = self.by_key.as_ref().map(|by| (by.key)(&recv));
        let id = self.receives.push(Receive {
            wanted,
            class,
            recv,
        });
        self.queues.push(id, queue_of(class, &wanted));
        self.classes[class as usize].len += 1;
        self.live |= 1 << class;
        if let (Some(by), Some(key)) = (&mut self.by_key, plain_key) {
            by.queues.push(id, plain(key));
        }
        id
    }

    /// The oldest receive that accepts this message.
    #[inline]
    pub fn find(&self, source: u64, tag: u64) -> Option<u32> {
        let mut live = self.live;
        let mut oldest: Option<u32> = None;
        while live != 0 {
            let class = live.trailing_zeros() as u8;
            live &= live - 1;
            let found = if class == MIXED {
                self.find_mixed(source, tag)
            } else {
                let Class { ignore, any, .. } = self.classes[class as usize];
                let source = if any { ANY } else { source };
                let tag = tag & !ignore;
                self.queues.first(Key { class, source, tag })
            };
            oldest = match (oldest, found) {
                (Some(old), Some(new)) if self.receives.is_older(old, new) => Some(old),
                (old, new) => new.or(old),
            };
        }
        oldest
    }

    #[cfg(test)]
    pub fn find_by(&self, mut accepts: impl FnMut(&R) -> bool) -> Option<u32> {
        let mut all = self.receives.waiting();
        all.find(|(_, receive)| accepts(&receive.recv))
            .map(|(id, _)| id)
    }

    pub fn find_by_key(&mut self, key: fn(&R) -> u64, value: u64) -> Option<u32> {
        let receives = &self.receives;
        let by = self.by_key.get_or_insert_with(|| {
            let mut queues = Queues::new();
            for (id, receive) in receives.waiting() {
                queues.push(id, plain(key(&receive.recv)));
            }
            ByKey { key, queues }
        });
        by.queues.first(plain(value))
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut R {
        &mut self.receives.get_mut(id).recv
    }

    #[inline]
    pub fn take(&mut self, id: u32) -> R {
        let Receive { class, recv, .. } = self.receives.remove(id);
        self.queues.remove(id);
        let len = &mut self.classes[class as usize].len;
        *len -= 1;
        if *len == 0 {
            self.live &= !(1 << class);
        }
        if let Some(by) = &mut self.by_key {
            by.queues.remove(id);
        }
        recv
    }

    #[inline]
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.receives.len()
    }

    pub fn drain(&mut self) -> Vec<R> {
        self.queues.clear();
        for class in &mut self.classes {
            class.len = 0;
        }
        self.live = 0;
        if let Some(by) = &mut self.by_key {
            by.queues.clear();
        }
        let all = self.receives.drain();
        all.into_iter().map(|receive| receive.recv).collect()
    }

    fn find_mixed(&self, source: u64, tag: u64) -> Option<u32> {
        let mut mixed = self.queues.queue(MIXED_QUEUE);
        mixed.find(|&id| self.receives.get(id).wanted.accepts(source, tag))
    }

    #[inline]
    fn class_of(&mut self, wanted: &Wanted) -> u8 {
        match self.classes.get(self.recent as usize) {
            Some(class) if class.holds(wanted) && self.recent != MIXED => self.recent,
            _ => self.look_up_class(wanted),
        }
    }

    /// A class that is empty changes its meaning before another one is made.
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

/// The class of the receives that are one shape too many: one queue, searched from its oldest on.
const MIXED: u8 = 0;
const MIXED_QUEUE: Key = Key {
    class: MIXED,
    source: 0,
    tag: 0,
};
