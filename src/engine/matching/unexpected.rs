// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that arrived before their receive. They form a queue. If a receive finds no match among the first messages,
//! an index is built for its shape (ignore mask, any source or one), which lives until the queue is empty.

use super::line::Line;
use super::queues::{Key, Queues};
use super::{ANY, Wanted};

pub(super) struct Unexpected<U> {
    messages: Line<Message<U>>,
    indexes: Vec<Index>,
    /// Whether any index is in use.
    indexed: bool,
    searches: u64,
}

struct Message<U> {
    source: u64,
    tag: u64,
    msg: U,
}

struct Index {
    ignore: u64,
    any: bool,
    /// Whether the index is in use. An index in use contains every message that is not set aside.
    used: bool,
    last_search: u64,
    queues: Queues,
}

impl<U> Unexpected<U> {
    /// Bytes that one message takes, including its entry in one index.
    pub const COST: usize = Line::<Message<U>>::COST + Queues::COST;

    pub const fn new() -> Self {
        Unexpected {
            messages: Line::new(),
            indexes: Vec::new(),
            indexed: false,
            searches: 0,
        }
    }

    #[inline]
    pub fn arrive(&mut self, source: u64, tag: u64, msg: U) -> u32 {
        let id = self.messages.push(Message { source, tag, msg });
        if self.indexed {
            for index in self.indexes.iter_mut().filter(|index| index.used) {
                index.queues.push(id, index.queue_of(source, tag));
            }
        }
        id
    }

    #[inline]
    pub fn find(&mut self, wanted: &Wanted) -> Option<u32> {
        if self.messages.waiting_len() == 0 {
            return None;
        }
        self.searches += 1;
        if self.indexed
            && let Some(index) = self.indexes.iter_mut().find(|index| index.serves(wanted))
        {
            index.last_search = self.searches;
            return index.first(wanted);
        }
        if let Some(id) = accepted(self.messages.waiting().take(NEAR), wanted) {
            return Some(id);
        }
        if self.messages.waiting_len() <= NEAR {
            return None;
        }
        self.find_far(wanted)
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut U {
        &mut self.messages.get_mut(id).msg
    }

    #[inline]
    pub fn take(&mut self, id: u32) -> U {
        if !self.messages.is_aside(id) {
            self.forget(id);
        }
        self.messages.remove(id).msg
    }

    /// Removes a message that is not set aside.
    #[inline]
    pub fn release(&mut self, id: u32) {
        self.forget(id);
        self.messages.release(id);
    }

    pub fn hide(&mut self, id: u32) {
        if !self.messages.is_aside(id) {
            self.forget(id);
            self.messages.set_aside(id);
        }
    }

    pub fn rename_source(&mut self, from: u64, to: u64, mut renamed: impl FnMut(&mut U)) {
        if from == to {
            return;
        }
        // Starts with the last message, so that each message is inserted directly before the younger messages of `to`.
        for id in self.sent_by(from).into_iter().rev() {
            let message = self.messages.get_mut(id);
            message.source = to;
            renamed(&mut message.msg);
            let tag = message.tag;
            for index in self.indexes.iter_mut().filter(|index| index.used) {
                if !index.any {
                    index.queues.remove(id);
                    let younger = |other| self.messages.is_older(id, other);
                    index.queues.insert(id, index.queue_of(to, tag), younger);
                }
            }
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Iterates over all messages that are not set aside, oldest first.
    pub fn each(&self) -> impl Iterator<Item = &U> {
        let waiting = self.messages.waiting();
        waiting.map(|(_, message)| &message.msg)
    }

    pub fn take_if(&mut self, mut unwanted: impl FnMut(&U) -> bool) -> Vec<U> {
        let ids = self.messages.select(|message| unwanted(&message.msg));
        ids.into_iter().map(|id| self.take(id)).collect()
    }

    pub fn take_waiting_if(&mut self, mut unwanted: impl FnMut(&U) -> bool) -> Vec<U> {
        let waiting = self.messages.waiting();
        let ids: Vec<u32> = waiting
            .filter(|(_, message)| unwanted(&message.msg))
            .map(|(id, _)| id)
            .collect();
        ids.into_iter().map(|id| self.take(id)).collect()
    }

    #[cfg(test)]
    pub fn drain(&mut self) -> Vec<U> {
        for index in self.indexes.iter_mut().filter(|index| index.used) {
            index.queues.clear();
            index.used = false;
        }
        self.indexed = false;
        let all = self.messages.drain();
        all.into_iter().map(|message| message.msg).collect()
    }

    /// Removes a message from all indexes. The last message that is removed ends the use of the indexes.
    #[inline]
    fn forget(&mut self, id: u32) {
        if !self.indexed {
            return;
        }
        let last = self.messages.waiting_len() == 1;
        for index in self.indexes.iter_mut().filter(|index| index.used) {
            index.queues.remove(id);
            index.used = !last;
        }
        self.indexed = !last;
    }

    #[cold]
    fn find_far(&mut self, wanted: &Wanted) -> Option<u32> {
        match self.make_index(wanted) {
            Some(index) => index.first(wanted),
            None => accepted(self.messages.waiting().skip(NEAR), wanted),
        }
    }

    /// Ids of the messages from one source that are not set aside, oldest first.
    fn sent_by(&mut self, source: u64) -> Vec<u32> {
        let all = Wanted {
            source,
            tag: 0,
            ignore: !0,
        };
        // An index cannot be searched for messages whose source equals the number that stands for any source.
        if source != ANY && self.messages.waiting_len() > NEAR {
            self.searches += 1;
            if !self.indexes.iter().any(|index| index.serves(&all)) {
                self.make_index(&all);
            }
            if let Some(index) = self.indexes.iter().find(|index| index.serves(&all)) {
                return index.queues.queue(index.queue_of(source, 0)).collect();
            }
        }
        let waiting = self.messages.waiting();
        let sent = waiting.filter(|(_, message)| message.source == source);
        sent.map(|(id, _)| id).collect()
    }

    /// Builds an index. Returns `None` if there are `INDEXES` already and all of them are needed. An index is replaced
    /// if the last searches, as many as there are messages, did not use it. So the cost of building indexes stays
    /// proportional to the number of searches.
    fn make_index(&mut self, wanted: &Wanted) -> Option<&mut Index> {
        let waiting_searches = self.messages.waiting_len() as u64;
        let at = match self.indexes.iter().position(|index| !index.used) {
            Some(unused) => unused,
            None if self.indexes.len() < INDEXES => {
                self.indexes.push(Index::new());
                self.indexes.len() - 1
            }
            None => {
                let idle = self.indexes.iter().enumerate();
                let (at, index) = idle.min_by_key(|(_, index)| index.last_search)?;
                if self.searches - index.last_search < waiting_searches {
                    return None;
                }
                at
            }
        };
        let index = &mut self.indexes[at];
        index.queues.clear();
        index.ignore = wanted.ignore;
        index.any = wanted.source == ANY;
        index.used = true;
        index.last_search = self.searches;
        for (id, message) in self.messages.waiting() {
            let queue = index.queue_of(message.source, message.tag);
            index.queues.push(id, queue);
        }
        self.indexed = true;
        Some(index)
    }

    #[cfg(test)]
    pub fn buckets(&self) -> usize {
        self.indexes
            .iter()
            .map(|index| index.queues.buckets())
            .sum()
    }
}

impl Index {
    fn new() -> Self {
        Index {
            ignore: 0,
            any: false,
            used: false,
            last_search: 0,
            queues: Queues::new(),
        }
    }

    #[inline]
    fn serves(&self, wanted: &Wanted) -> bool {
        self.used && self.ignore == wanted.ignore && self.any == (wanted.source == ANY)
    }

    #[inline]
    fn first(&self, wanted: &Wanted) -> Option<u32> {
        self.queues.first(self.queue_of(wanted.source, wanted.tag))
    }

    #[inline]
    fn queue_of(&self, source: u64, tag: u64) -> Key {
        Key {
            class: 0,
            source: if self.any { ANY } else { source },
            tag: tag & !self.ignore,
        }
    }
}

#[inline]
fn accepted<'a, U: 'a>(
    mut messages: impl Iterator<Item = (u32, &'a Message<U>)>,
    wanted: &Wanted,
) -> Option<u32> {
    messages
        .find(|(_, message)| wanted.accepts(message.source, message.tag))
        .map(|(id, _)| id)
}

/// Number of messages that are compared one by one before an index is built, because comparing so few costs less than
/// maintaining an index.
const NEAR: usize = 16;

/// Maximum of indexes, because each arrival is entered into every index in use.
const INDEXES: usize = 8;
