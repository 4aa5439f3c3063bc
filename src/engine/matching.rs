// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which receive gets which message: fi_msg(3), fi_tagged(3). Posted receives and unexpected messages, both indexed, so
//! that neither the number of them nor the order in which they are used up changes what a match costs.
//!
//! A receive (source, tag, ignore) accepts a message (s, t) if the source is `ANY` or s, and t equals tag in all bits
//! that ignore leaves. A message goes to the oldest posted receive that accepts it, a receive gets the oldest message
//! it accepts. What a receive or a message is, only the caller knows. Nothing is allocated per operation once the
//! tables have had their largest load.
#![forbid(unsafe_code)]

mod line;
mod posted;
mod queues;
#[cfg(test)]
mod tests;
mod unexpected;

use posted::Posted;
use unexpected::Unexpected;

/// The source of a receive that takes messages from everyone (FI_ADDR_UNSPEC).
pub const ANY: u64 = u64::MAX;

/// Names a posted receive until it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvId(u32);

/// Names an unexpected message until it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsgId(u32);

pub struct Matcher<R, U> {
    posted: Posted<R>,
    unexpected: Unexpected<U>,
}

/// What becomes a posted receive.
// Not a closure: the compiler makes a call of that, which costs each receive some instructions.
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
    /// Bytes that an unexpected message takes besides what it points to.
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

    /// `recv` is written over one that is over, or over the default.
    #[inline(always)]
    pub fn post_by(&mut self, source: u64, tag: u64, ignore: u64, recv: impl Put<R>) -> RecvId {
        let wanted = Wanted {
            source,
            tag,
            ignore,
        };
        RecvId(self.posted.post(wanted, recv))
    }

    /// The oldest posted receive that accepts a message. It stays posted (a multi-receive buffer takes many).
    ///
    /// A source that no receive can name is any number that no receive names, `ANY` too.
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

    /// Takes a receive of which the caller has what it needs.
    #[inline(always)]
    pub fn release_posted(&mut self, id: RecvId) {
        self.posted.release(id.0);
    }

    /// All posted receives, oldest first.
    #[inline]
    pub fn each_posted(&self) -> impl Iterator<Item = &R> {
        self.posted.each()
    }

    /// As `each_posted`, with what each asks for.
    pub fn each_asked(&self) -> impl Iterator<Item = Asked<'_, R>> {
        self.posted.each_asked()
    }

    /// How many receives were posted so far: the next one's `Asked::before`.
    pub fn posted_so_far(&self) -> u64 {
        self.posted.born()
    }

    /// The oldest posted receive of which `accepts` is true; compares one after the other.
    #[cfg(test)]
    pub fn find_posted_by(&self, accepts: impl FnMut(&R) -> bool) -> Option<RecvId> {
        self.posted.find_by(accepts).map(RecvId)
    }

    /// The oldest posted receive whose `key` has this value, found at once: for fi_cancel(3), which names a context.
    /// The first search indexes all receives by this key, so `key` must be the same function in every search, and what
    /// it reads must not change while the receive is posted.
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

    /// Stores a message that no posted receive accepts.
    #[inline]
    pub fn arrive(&mut self, source: u64, tag: u64, msg: U) -> MsgId {
        MsgId(self.unexpected.arrive(source, tag, msg))
    }

    /// The oldest message, other than hidden ones, that a receive accepts. It stays stored.
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

    /// FI_CLAIM: the message is no longer found; it stays until it is taken.
    pub fn hide(&mut self, id: MsgId) {
        self.unexpected.hide(id.0);
    }

    /// Gives all messages of a source another source, because the address of their sender has come into a vector or
    /// left it. Calls `renamed` for each. Hidden messages stay as they are: no receive looks for them by their source.
    pub fn rename_source(&mut self, from: u64, to: u64, renamed: impl FnMut(&mut U)) {
        self.unexpected.rename_source(from, to, renamed);
    }

    /// All messages, hidden ones too.
    #[inline]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }

    /// All messages but hidden ones, oldest first.
    pub fn each_unexpected(&self) -> impl Iterator<Item = &U> {
        self.unexpected.each()
    }

    /// Takes all messages that are `unwanted`, hidden ones too, oldest first.
    pub fn take_unexpected_if(&mut self, unwanted: impl FnMut(&U) -> bool) -> Vec<U> {
        self.unexpected.take_if(unwanted)
    }

    /// The same without hidden ones; asks for each of the others, oldest first.
    pub fn take_waiting_if(&mut self, unwanted: impl FnMut(&U) -> bool) -> Vec<U> {
        self.unexpected.take_waiting_if(unwanted)
    }

    /// Takes all messages, hidden ones too, oldest first.
    #[cfg(test)]
    pub fn drain_unexpected(&mut self) -> Vec<U> {
        self.unexpected.drain()
    }
}

/// A posted receive, for who looks on.
pub struct Asked<'a, R> {
    /// Or `ANY`.
    pub source: u64,
    pub tag: u64,
    pub ignore: u64,
    /// How many receives were posted before it.
    pub before: u64,
    pub recv: &'a R,
}

/// What a receive asks for.
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
