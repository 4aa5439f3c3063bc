// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Matching of receives and messages: fi_msg(3), fi_tagged(3). Posted receives and unexpected messages are both
//! indexed, so that neither their number nor the order in which they are used changes the cost of a match.
//!
//! A receive (source, tag, ignore) matches a message (s, t) if the source is `ANY` or s, and t equals tag in all bits
//! not set in ignore. A message goes to the oldest matching posted receive, a receive gets the oldest matching message.
//! Receives and messages are opaque here. Once the tables have reached their largest size, operations allocate nothing.

mod line;
mod posted;
mod queues;
#[cfg(test)]
mod tests;
mod unexpected;

use posted::Posted;
use unexpected::Unexpected;

/// The source of a receive that takes messages of all sources (FI_ADDR_UNSPEC).
pub const ANY: u64 = u64::MAX;

/// Identifies a posted receive until it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvId(u32);

/// Identifies an unexpected message until it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsgId(u32);

pub struct Matcher<R, U> {
    posted: Posted<R>,
    unexpected: Unexpected<U>,
}

/// Writes a posted receive into its place in the table.
// A trait, because the compiler emits a call for a closure, which costs each receive several instructions.
pub trait Put<R> {
    fn put(self, place: &mut R);
}

impl<R> Put<R> for R {
    #[inline]
    fn put(self, place: &mut R) {
        *place = self;
    }
}

impl<R: Default, U> Default for Matcher<R, U> {
    fn default() -> Self {
        Matcher::new()
    }
}

impl<R: Default, U> Matcher<R, U> {
    /// Bytes of an unexpected message in the tables, without data that it points to.
    pub const MESSAGE_COST: usize = Unexpected::<U>::COST;

    pub fn new() -> Self {
        Matcher {
            posted: Posted::new(),
            unexpected: Unexpected::new(),
        }
    }

    #[cfg(test)]
    pub fn post(&mut self, source: u64, tag: u64, ignore: u64, recv: R) -> RecvId {
        self.post_by(source, tag, ignore, recv)
    }

    /// `recv` overwrites a finished receive, or the default.
    #[inline(always)]
    pub fn post_by(&mut self, source: u64, tag: u64, ignore: u64, recv: impl Put<R>) -> RecvId {
        let wanted = Wanted {
            source,
            tag,
            ignore,
        };
        RecvId(self.posted.post(wanted, recv))
    }

    /// Finds the oldest posted receive that matches a message. It stays posted (a multi-receive buffer takes several).
    ///
    /// A message whose source no receive can name has any number that no receive names, for example `ANY`.
    #[inline(always)]
    pub fn find_posted(&mut self, source: u64, tag: u64) -> Option<RecvId> {
        self.posted.find(source, tag).map(RecvId)
    }

    #[inline]
    pub fn posted(&mut self, id: RecvId) -> &mut R {
        self.posted.get_mut(id.0)
    }

    pub fn take_posted(&mut self, id: RecvId) -> R {
        self.posted.take(id.0)
    }

    /// Removes a receive after the caller has taken its fields.
    #[inline(always)]
    pub fn release_posted(&mut self, id: RecvId) {
        self.posted.release(id.0);
    }

    /// All posted receives, oldest first.
    #[inline]
    pub fn each_posted(&self) -> impl Iterator<Item = &R> {
        self.posted.each()
    }

    /// Like `each_posted`, with the match criteria of each.
    pub fn each_asked(&self) -> impl Iterator<Item = Asked<'_, R>> {
        self.posted.each_asked()
    }

    /// Number of receives posted so far: the next one's `Asked::before`.
    pub fn posted_so_far(&self) -> u64 {
        self.posted.born()
    }

    /// The oldest posted receive for which `accepts` returns true; a linear search.
    #[cfg(test)]
    pub fn find_posted_by(&self, accepts: impl FnMut(&R) -> bool) -> Option<RecvId> {
        self.posted.find_by(accepts).map(RecvId)
    }

    /// The oldest posted receive whose `key` has this value, by an index: for fi_cancel(3), which names a context. The
    /// first search indexes all receives by this key, so `key` must be the same function in every search, and its
    /// result must not change while the receive is posted.
    pub fn find_posted_by_key(&mut self, key: fn(&R) -> u64, value: u64) -> Option<RecvId> {
        self.posted.find_by_key(key, value).map(RecvId)
    }

    #[inline]
    #[cfg(test)]
    pub fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// Takes all posted receives, oldest first.
    pub fn drain_posted(&mut self) -> Vec<R> {
        self.posted.drain()
    }

    /// Takes the posted receives that name this source, oldest first.
    pub fn drain_posted_from(&mut self, source: u64) -> Vec<R> {
        self.posted.drain_from(source)
    }

    /// Whether a posted receive names this source.
    pub fn names(&self, source: u64) -> bool {
        self.posted.names(source)
    }

    /// Stores a message that matches no posted receive.
    #[inline]
    pub fn arrive(&mut self, source: u64, tag: u64, msg: U) -> MsgId {
        MsgId(self.unexpected.arrive(source, tag, msg))
    }

    /// Finds the oldest message that a receive matches, except hidden ones. It stays stored.
    #[inline]
    pub fn find_unexpected(&mut self, source: u64, tag: u64, ignore: u64) -> Option<MsgId> {
        let wanted = Wanted {
            source,
            tag,
            ignore,
        };
        self.unexpected.find(&wanted).map(MsgId)
    }

    #[inline]
    pub fn unexpected(&mut self, id: MsgId) -> &mut U {
        self.unexpected.get_mut(id.0)
    }

    #[inline]
    pub fn take_unexpected(&mut self, id: MsgId) -> U {
        self.unexpected.take(id.0)
    }

    /// Removes a message that is not hidden after the caller has taken its fields.
    #[inline]
    pub fn release_unexpected(&mut self, id: MsgId) {
        self.unexpected.release(id.0);
    }

    /// FI_CLAIM: hides the message from searches; it stays until it is taken.
    pub fn hide(&mut self, id: MsgId) {
        self.unexpected.hide(id.0);
    }

    /// Changes the source of all messages of a source, because the address of their sender was inserted into a vector
    /// or removed. Calls `renamed` for each. Hidden messages keep their source: no receive searches for them.
    pub fn rename_source(&mut self, from: u64, to: u64, renamed: impl FnMut(&mut U)) {
        self.unexpected.rename_source(from, to, renamed);
    }

    /// Number of all messages, including hidden ones.
    #[inline]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }

    /// All messages except hidden ones, oldest first.
    pub fn each_unexpected(&self) -> impl Iterator<Item = &U> {
        self.unexpected.each()
    }

    /// Takes all messages that are `unwanted`, including hidden ones, oldest first.
    pub fn take_unexpected_if(&mut self, unwanted: impl FnMut(&U) -> bool) -> Vec<U> {
        self.unexpected.take_if(unwanted)
    }

    /// The same without hidden ones. Calls `unwanted` for each of the others, oldest first.
    pub fn take_waiting_if(&mut self, unwanted: impl FnMut(&U) -> bool) -> Vec<U> {
        self.unexpected.take_waiting_if(unwanted)
    }

    /// Takes all messages, including hidden ones, oldest first.
    #[cfg(test)]
    pub fn drain_unexpected(&mut self) -> Vec<U> {
        self.unexpected.drain()
    }
}

/// A read-only view of a posted receive, for reports.
pub struct Asked<'a, R> {
    /// May be `ANY`.
    pub source: u64,
    pub tag: u64,
    pub ignore: u64,
    /// Number of receives that were posted before it.
    pub before: u64,
    pub recv: &'a R,
}

/// The match criteria of a receive.
#[derive(Clone, Copy, Default)]
struct Wanted {
    source: u64,
    tag: u64,
    ignore: u64,
}

impl Wanted {
    #[inline]
    fn accepts(&self, source: u64, tag: u64) -> bool {
        (self.source == ANY || self.source == source) && (tag ^ self.tag) & !self.ignore == 0
    }
}
