// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Numbers for senders in no address vector. Matching identifies such a sender by a number that is no fi_addr. If the
//! sender is inserted before the receive is posted, the completion can therefore report its fi_addr.

use core::hash::Hash;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;

use abi::FI_ADDR_NOTAVAIL;

/// Senders of kept messages that are in no address vector so far.
///
/// While a connection is up it has a number of its own; these are numbers of connections that have ended.
pub struct UnknownSenders<A> {
    numbers: HashMap<A, u64>,
}

impl<A: Clone + Eq + Hash> UnknownSenders<A> {
    pub fn new() -> UnknownSenders<A> {
        UnknownSenders {
            numbers: HashMap::new(),
        }
    }

    /// The number of a sender in matching. If no messages are kept (`unexpected` is their number), earlier numbers are
    /// dropped. After `MAX` senders further ones get FI_ADDR_NOTAVAIL.
    pub fn number(&mut self, sender: &A, unexpected: usize) -> u64 {
        if unexpected == 0 {
            self.numbers.clear();
        }
        if let Some(&number) = self.numbers.get(sender) {
            return number;
        }
        if self.numbers.len() >= MAX {
            return FI_ADDR_NOTAVAIL;
        }
        let number = new_source();
        self.numbers.insert(sender.clone(), number);
        number
    }

    /// The connection of a sender has ended whose number was `number`. Returns the sender's number from now on, which
    /// differs if messages of an earlier connection are kept.
    pub fn disconnected(&mut self, sender: A, number: u64, unexpected: usize) -> u64 {
        if unexpected == 0 {
            self.numbers.clear();
            return number;
        }
        if self.numbers.len() >= MAX && !self.numbers.contains_key(&sender) {
            return FI_ADDR_NOTAVAIL;
        }
        *self.numbers.entry(sender).or_insert(number)
    }

    /// The sender was inserted into a vector. Returns the number of its kept messages.
    pub fn inserted(&mut self, sender: &A) -> Option<u64> {
        self.numbers.remove(sender)
    }
}

/// A new number for a sender without an address in the vector.
pub fn new_source() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers only have to be distinct.
    source_of(LAST.fetch_add(1, Ordering::Relaxed))
}

/// The number of a sender without an address in the vector, from a number of the transport.
#[inline]
pub const fn source_of(serial: u64) -> u64 {
    STRANGER | serial
}

/// The fi_addr that completions report for a source in matching.
#[inline]
pub fn fi_addr_of(source: u64) -> u64 {
    match source & STRANGER {
        0 => source,
        _ => FI_ADDR_NOTAVAIL,
    }
}

/// Set in all numbers that are no index of a vector. FI_ADDR_NOTAVAIL has this bit, too.
const STRANGER: u64 = 1 << 63;
/// Limit of numbers, because any host can send from many addresses.
const MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_keeps_its_number_while_messages_are_kept() {
        let mut strangers = UnknownSenders::new();
        let (x, y) = (strangers.number(&'x', 0), strangers.number(&'y', 1));
        assert_ne!(x, y);
        assert_eq!(
            [strangers.number(&'x', 2), strangers.number(&'y', 3)],
            [x, y]
        );
        // No message has the old numbers any more, but the next numbers still differ.
        assert!(![x, y].contains(&strangers.number(&'y', 0)));
        assert_eq!(strangers.inserted(&'x'), None);
    }

    #[test]
    fn who_is_inserted_is_no_stranger() {
        let mut strangers = UnknownSenders::new();
        let number = strangers.number(&'x', 0);
        assert_eq!(strangers.inserted(&'x'), Some(number));
        assert_eq!(strangers.inserted(&'x'), None);
    }

    #[test]
    fn messages_of_connections_that_have_ended_have_one_sender() {
        let mut strangers = UnknownSenders::new();
        let [first, second, other] = [(); 3].map(|()| new_source());
        // No messages of the sender are kept.
        assert_eq!(strangers.disconnected('x', first, 0), first);
        assert_eq!(strangers.inserted(&'x'), None);
        assert_eq!(strangers.disconnected('x', first, 1), first);
        assert_eq!(strangers.disconnected('x', second, 2), first);
        assert_eq!(strangers.disconnected('y', other, 3), other);
        assert_eq!(strangers.inserted(&'x'), Some(first));
        assert_eq!(strangers.inserted(&'y'), Some(other));
    }

    #[test]
    fn completions_know_no_numbers_but_those_of_vectors() {
        let number = UnknownSenders::new().number(&'x', 0);
        assert_eq!(fi_addr_of(number), FI_ADDR_NOTAVAIL);
        assert_eq!(fi_addr_of(FI_ADDR_NOTAVAIL), FI_ADDR_NOTAVAIL);
        assert_eq!([0, 7].map(fi_addr_of), [0, 7]);
    }

    #[test]
    fn many_senders_cost_no_memory() {
        let mut strangers = UnknownSenders::new();
        let known = (0..MAX).map(|who| strangers.number(&who, 1)).max();
        assert_ne!(known, Some(FI_ADDR_NOTAVAIL));
        assert_eq!(strangers.number(&MAX, 1), FI_ADDR_NOTAVAIL);
        // Senders that have a number keep it.
        assert_ne!(strangers.number(&0, 1), FI_ADDR_NOTAVAIL);
    }
}
