// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The numbers that an endpoint gives its peers. They are keyed hashes (HMAC with a random key per endpoint), so a host
//! that never received a number cannot guess it.
//!
//! The first number of a peer is a hash of its address. An endpoint can therefore forget a peer that it has answered,
//! and still recognize the first packet that carries the answer: a flood of greetings from invented addresses makes it
//! forget, but costs no honest peer its connection.

use core::time::Duration;
use std::time::Instant;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Generates the numbers.
pub struct Ids {
    mac: Hmac<Sha256>,
    since: Option<Instant>,
    /// Numbers made by `another`.
    made: u64,
    by_place: bool,
}

impl Ids {
    /// `by_place`: the lower bits of a number are the session's place in the endpoint's table. This is for providers
    /// below that do not report the addresses of unknown sources.
    pub fn new(secret: &[u8], by_place: bool) -> Ids {
        Ids {
            mac: <Hmac<Sha256> as KeyInit>::new_from_slice(secret)
                .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length")),
            since: None,
            made: 0,
            by_place,
        }
    }

    /// The number for the first session with an address.
    pub fn first(&mut self, now: Instant, addr: &[u8], place: usize) -> u32 {
        let generation = self.generation(now);
        self.number(FIRST, generation, addr, place)
    }

    /// Whether `first` made this number for this address in the current or the previous generation. Always false if
    /// numbers contain places, because two addresses may have had the same place.
    pub fn is_first(&mut self, now: Instant, addr: &[u8], id: u32) -> bool {
        let generation = self.generation(now);
        let mut recent = generation.saturating_sub(1)..=generation;
        !self.by_place && recent.any(|generation| self.number(FIRST, generation, addr, 0) == id)
    }

    /// A number that was not used before.
    pub fn another(&mut self, addr: &[u8], place: usize) -> u32 {
        self.made += 1;
        self.number(ANOTHER, self.made, addr, place)
    }

    /// Whether numbers contain places.
    pub fn names_places(&self) -> bool {
        self.by_place
    }

    /// The place in a number, if numbers contain places.
    pub fn place(&self, id: u32) -> Option<usize> {
        let mask = (1 << PLACE_BITS) - 1;
        self.by_place.then_some((id & mask) as usize)
    }

    fn generation(&mut self, now: Instant) -> u64 {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        age.as_secs() / GENERATION.as_secs()
    }

    fn number(&self, kind: u8, serial: u64, addr: &[u8], place: usize) -> u32 {
        let mut mac = self.mac.clone();
        mac.update(&[kind]);
        mac.update(&serial.to_ne_bytes());
        mac.update(addr);
        let bytes: [u8; 32] = mac.finalize().into_bytes().into();
        let words = bytes.as_chunks::<4>().0.iter();
        let words = words.map(|word| u32::from_ne_bytes(*word));
        let mut numbers = words.map(|word| match self.by_place {
            true => word << PLACE_BITS | place as u32,
            false => word,
        });
        // 0 means no number. Eight zeros in a row do not occur.
        let usable = numbers.find(|&id| id >> PLACE_BITS != 0);
        usable.unwrap_or(1 << PLACE_BITS | place as u32)
    }
}

const FIRST: u8 = 0;
const ANOTHER: u8 = 1;
/// Time after which `first` returns other numbers. A session that was in use is kept longer than this, so that the
/// number of a forgotten session is not valid again.
pub const GENERATION: Duration = Duration::from_secs(64);

const PLACE_BITS: u32 = 20;
/// Most sessions of an endpoint.
pub const PLACES: usize = 1 << PLACE_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_an_address_can_be_made_again_for_a_while() {
        let mut ids = Ids::new(b"secret", false);
        let start = Instant::now();
        let id = ids.first(start, b"a", 1);
        assert_eq!(ids.first(start + GENERATION / 2, b"a", 2), id);
        assert!(ids.is_first(start + GENERATION * 3 / 2, b"a", id));
        assert!(!ids.is_first(start, b"b", id));
        assert!(!ids.is_first(start, b"a", id ^ 1));
        assert!(!ids.is_first(start + GENERATION * 2, b"a", id));
        let other = Ids::new(b"another secret", false).first(start, b"a", 1);
        assert_ne!(other, id);
    }

    #[test]
    fn later_numbers_differ() {
        let mut ids = Ids::new(b"secret", false);
        let first = ids.first(Instant::now(), b"a", 1);
        let later = ids.another(b"a", 1);
        assert_ne!(later, first);
        assert_ne!(ids.another(b"a", 1), later);
        assert!(!ids.is_first(Instant::now(), b"a", later));
    }

    #[test]
    fn places_are_named_only_on_request() {
        let mut ids = Ids::new(b"secret", true);
        let id = ids.first(Instant::now(), b"a", 77);
        assert_eq!(ids.place(id), Some(77));
        assert!(!ids.is_first(Instant::now(), b"a", id));
        assert_eq!(Ids::new(b"secret", false).place(id), None);
    }
}
