// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A slab whose entries also form a queue, oldest first. An entry can be set aside: it keeps its id and its age, but
//! moves to a second queue.

use slab::Slab;

pub(super) struct Line<T> {
    entries: Slab<Entry<T>>,
    waiting: Ends,
    aside: Ends,
    born: u64,
}

struct Entry<T> {
    age: u64,
    before: u32,
    after: u32,
    aside: bool,
    value: T,
}

struct Ends {
    first: u32,
    last: u32,
    len: usize,
}

impl<T> Line<T> {
    /// Bytes that one entry takes.
    pub const COST: usize = size_of::<Entry<T>>();

    pub const fn new() -> Self {
        Line {
            entries: Slab::new(),
            waiting: Ends::EMPTY,
            aside: Ends::EMPTY,
            born: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, value: T) -> u32 {
        let id = self.entries.insert(Entry {
            age: self.born,
            before: NIL,
            after: NIL,
            aside: false,
            value,
        });
        assert!(id < NIL as usize, "ids are 32 bits wide");
        self.born += 1;
        self.link(id as u32);
        id as u32
    }

    #[inline]
    pub fn remove(&mut self, id: u32) -> T {
        self.unlink(id);
        self.entries.remove(id as usize).value
    }

    /// Removes an entry and drops its value.
    #[inline]
    pub fn release(&mut self, id: u32) {
        self.unlink(id);
        drop(self.entries.remove(id as usize));
    }

    /// Moves an entry from the waiting queue to the queue of entries that are set aside.
    pub fn set_aside(&mut self, id: u32) {
        self.unlink(id);
        self.entries[id as usize].aside = true;
        self.link(id);
    }

    #[inline]
    pub fn is_aside(&self, id: u32) -> bool {
        self.entries[id as usize].aside
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.entries[id as usize].value
    }

    #[inline]
    pub fn is_older(&self, id: u32, other: u32) -> bool {
        self.entries[id as usize].age < self.entries[other as usize].age
    }

    /// Number of all entries, including the ones that are set aside.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub fn waiting_len(&self) -> usize {
        self.waiting.len
    }

    #[inline]
    pub fn waiting(&self) -> impl Iterator<Item = (u32, &T)> {
        self.walk(self.waiting.first)
    }

    fn aside(&self) -> impl Iterator<Item = (u32, &T)> {
        self.walk(self.aside.first)
    }

    /// All ids that `wanted` accepts, oldest first, whether set aside or not.
    pub fn select(&self, mut wanted: impl FnMut(&T) -> bool) -> Vec<u32> {
        let all = self.waiting().chain(self.aside());
        let mut ids: Vec<u32> = all
            .filter(|(_, value)| wanted(value))
            .map(|(id, _)| id)
            .collect();
        ids.sort_unstable_by_key(|&id| self.entries[id as usize].age);
        ids
    }

    /// Removes all entries from both queues and returns their values, oldest first.
    #[cfg(test)]
    pub fn drain(&mut self) -> Vec<T> {
        let mut all: Vec<Entry<T>> = self.entries.drain().collect();
        self.waiting = Ends::EMPTY;
        self.aside = Ends::EMPTY;
        all.sort_unstable_by_key(|entry| entry.age);
        all.into_iter().map(|entry| entry.value).collect()
    }

    #[inline]
    fn walk(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let mut id = first;
        std::iter::from_fn(move || {
            let entry = self.entries.get(id as usize)?;
            let item = (id, &entry.value);
            id = entry.after;
            Some(item)
        })
    }

    /// Appends an entry to its queue.
    #[inline]
    fn link(&mut self, id: u32) {
        let last = {
            let ends = self.ends(id);
            let last = std::mem::replace(&mut ends.last, id);
            if last == NIL {
                ends.first = id;
            }
            ends.len += 1;
            last
        };
        let entry = &mut self.entries[id as usize];
        entry.before = last;
        entry.after = NIL;
        if last != NIL {
            self.entries[last as usize].after = id;
        }
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let &Entry { before, after, .. } = &self.entries[id as usize];
        let ends = self.ends(id);
        ends.len -= 1;
        if before == NIL {
            ends.first = after;
        }
        if after == NIL {
            ends.last = before;
        }
        if before != NIL {
            self.entries[before as usize].after = after;
        }
        if after != NIL {
            self.entries[after as usize].before = before;
        }
    }

    #[inline]
    fn ends(&mut self, id: u32) -> &mut Ends {
        if self.entries[id as usize].aside {
            &mut self.aside
        } else {
            &mut self.waiting
        }
    }
}

impl Ends {
    const EMPTY: Ends = Ends {
        first: NIL,
        last: NIL,
        len: 0,
    };
}

/// Marks the end of a queue; no entry has this id.
const NIL: u32 = u32::MAX;
