// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What connections need of the kernel: the queue of a listener, the window of a stream, descriptors.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// Descriptors of a rank without peers.
pub const OWN_FILES: usize = 32;
/// Pause before a connection is tried again for which there was no descriptor.
pub const PAUSE: Duration = Duration::from_millis(10);
/// Read bytes after which the sender's kernel is notified of the room.
const NOTICE: usize = 8 << 10;

/// Connections of a listener from their arrival until the peer has identified itself. `K` names a connection, `G` is
/// the content of the first message on it.
pub struct Listener<K, G> {
    backlog: VecDeque<K>,
    most: usize,
    /// Accepted connections without a message, and messages on connections that are not accepted.
    accepted: HashSet<K>,
    greetings: HashMap<K, G>,
}

impl<K: Copy + Eq + Hash, G> Listener<K, G> {
    pub fn new(most: usize) -> Listener<K, G> {
        Listener {
            backlog: VecDeque::new(),
            most,
            accepted: HashSet::new(),
            greetings: HashMap::new(),
        }
    }

    /// A connection arrives. Returns false if the queue is full.
    pub fn arrive(&mut self, key: K) -> bool {
        let has_room = self.backlog.len() < self.most;
        if has_room {
            self.backlog.push_back(key);
        }
        has_room
    }

    /// Accepts a connection. Returns its first message too, if that has arrived.
    pub fn accept(&mut self) -> Option<(K, Option<G>)> {
        let key = self.backlog.pop_front()?;
        let greeting = self.greetings.remove(&key);
        if greeting.is_none() {
            self.accepted.insert(key);
        }
        Some((key, greeting))
    }

    /// The first message of a connection arrives. Returns the message if the connection is accepted.
    pub fn greet(&mut self, key: K, greeting: G) -> Option<G> {
        if self.accepted.remove(&key) {
            return Some(greeting);
        }
        self.greetings.insert(key, greeting);
        None
    }

    /// The peer has closed a connection. Returns whether it was accepted and has no message.
    pub fn withdraw(&mut self, key: &K) -> bool {
        if self.accepted.remove(key) {
            return true;
        }
        self.greetings.remove(key);
        self.backlog.retain(|other| other != key);
        false
    }

    /// Whether connections wait to be accepted.
    pub fn has_waiting(&self) -> bool {
        !self.backlog.is_empty()
    }

    pub fn clear_backlog(&mut self) {
        self.backlog = VecDeque::new();
    }
}

/// Flow control of one direction of a stream at the sender, and of the other direction at the receiver.
pub struct Window {
    size: usize,
    /// Bytes that the peer has not taken yet.
    in_flight: usize,
    /// Taken bytes of which the peer was notified.
    notified: usize,
}

impl Window {
    pub fn new(size: usize) -> Window {
        Window {
            size,
            in_flight: 0,
            notified: 0,
        }
    }

    pub fn room(&self) -> usize {
        self.size.saturating_sub(self.in_flight)
    }

    pub fn sent(&mut self, bytes: usize) {
        self.in_flight += bytes;
    }

    pub fn acknowledged(&mut self, bytes: usize) {
        self.in_flight -= bytes;
    }

    /// Returns the bytes for a notice to the peer if there are enough. `taken`: all bytes that were taken here so far.
    pub fn notice(&mut self, taken: usize) -> Option<usize> {
        let new = taken - self.notified;
        (new >= NOTICE).then(|| {
            self.notified = taken;
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_needs_the_connection_and_its_message() {
        let mut listener: Listener<u32, &str> = Listener::new(2);
        assert_eq!(
            [1, 2, 3].map(|key| listener.arrive(key)),
            [true, true, false]
        );
        assert_eq!(listener.greet(1, "one"), None);
        assert_eq!(listener.accept(), Some((1, Some("one"))));
        assert_eq!(listener.accept(), Some((2, None)));
        assert_eq!(listener.greet(2, "two"), Some("two"));
        assert_eq!(listener.accept(), None);
        assert!(listener.arrive(4) && listener.arrive(5));
        assert_eq!(listener.accept(), Some((4, None)));
        assert!(listener.withdraw(&4));
        assert!(!listener.withdraw(&5));
        assert!(!listener.has_waiting());
    }

    #[test]
    fn a_window_opens_by_notices_for_many_bytes() {
        let mut window = Window::new(2 * NOTICE);
        window.sent(NOTICE + 1);
        assert_eq!(window.room(), NOTICE - 1);
        assert_eq!(window.notice(NOTICE - 1), None);
        assert_eq!(window.notice(NOTICE + 1), Some(NOTICE + 1));
        assert_eq!(window.notice(NOTICE + 2), None);
        window.acknowledged(NOTICE + 1);
        assert_eq!(window.room(), 2 * NOTICE);
    }
}
