// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of a completion queue, packed in the queue's format as fi_cq(3) defines it, so that a read takes one
//! copy or two. Errors are in a separate list but keep their place in the order: entries before an error are read
//! before it, entries after it only after the error was read.

use std::collections::VecDeque;

use object::ops::cq::CqErr;

pub struct Ring {
    /// Words of an entry, which determine the format: 1 context, 3 message, 5 data, 6 tagged.
    words: usize,
    /// Room for `mask + 1` entries.
    entries: Vec<u64>,
    /// One source per entry, or none at all.
    sources: Vec<u64>,
    mask: usize,
    /// Numbers of the next entry to read and to write, counted since the ring was last empty. `head & mask` is the
    /// place of the next to read.
    head: usize,
    tail: usize,
    /// The `tail` at the first error; `NEVER` if there is none.
    stop: usize,
    /// Each error with the `tail` at which it was added.
    errors: VecDeque<(usize, CqErr)>,
    capacity: usize,
}

/// A function that takes a slice of words, possibly several times.
pub type Out<'a> = &'a mut dyn FnMut(&[u64]);

/// State of the queue's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    Empty,
    /// Number of entries before the end or the next error.
    Entries(usize),
    Error,
}

impl Ring {
    /// `capacity` is rounded up to a power of two. It is no limit: the ring grows as entries accumulate.
    pub fn new(words: usize, capacity: usize, with_source: bool) -> Ring {
        assert!(matches!(words, 1 | 3 | 5 | 6), "formats of fi_cq(3)");
        let capacity = capacity.max(1).next_power_of_two();
        let room = capacity.min(FIRST_ROOM);
        Ring {
            words,
            entries: vec![0; room * words],
            sources: vec![0; if with_source { room } else { 0 }],
            mask: room - 1,
            head: 0,
            tail: 0,
            stop: NEVER,
            errors: VecDeque::new(),
            capacity,
        }
    }

    /// Stores the words of `entry` that the format has. No entry is ever dropped, because the ring grows.
    #[inline(always)]
    pub fn push(&mut self, entry: &[u64; 6], source: u64) {
        if self.tail - self.head > self.mask {
            self.grow();
        }
        let at = self.tail & self.mask;
        match self.words {
            1 => self.put::<1>(at, entry),
            3 => self.put::<3>(at, entry),
            5 => self.put::<5>(at, entry),
            _ => self.put::<6>(at, entry),
        }
        if let Some(place) = self.sources.get_mut(at) {
            *place = source;
        }
        self.tail += 1;
    }

    #[cold]
    pub fn push_err(&mut self, error: CqErr) {
        self.stop = self.stop.min(self.tail);
        self.errors.push_back((self.tail, error));
    }

    #[inline]
    pub fn ready(&self) -> Head {
        match self.tail.min(self.stop) - self.head {
            0 if self.stop == self.head => Head::Error,
            0 => Head::Empty,
            n => Head::Entries(n),
        }
    }

    /// Passes up to `max` entries to `out`, in one or two slices of whole entries, and their sources to `source_out`.
    /// Returns their number. Entries without a source have FI_ADDR_NOTAVAIL. Stops before an error.
    #[inline]
    pub fn read_into(
        &mut self,
        max: usize,
        out: &mut impl FnMut(&[u64]),
        source_out: Option<Out>,
    ) -> usize {
        let count = max.min(self.tail.min(self.stop) - self.head);
        let at = self.head & self.mask;
        let straight = count.min(self.mask + 1 - at);
        if count == 0 {
            return 0;
        }
        out(&self.entries[at * self.words..][..straight * self.words]);
        if straight < count {
            out(&self.entries[..(count - straight) * self.words]);
        }
        if let Some(out) = source_out {
            self.read_sources(at, straight, count, out);
        }
        self.head += count;
        self.rewind();
        count
    }

    /// Passes the next entry to `out`; there must be one.
    #[inline(always)]
    pub fn read_one(&mut self, out: impl FnOnce(&[u64])) {
        let at = self.head & self.mask;
        out(&self.entries[at * self.words..][..self.words]);
        self.head += 1;
        self.rewind();
    }

    /// The error at the head, if there is one.
    pub fn peek_err(&self) -> Option<&CqErr> {
        let (place, error) = self.errors.front()?;
        (*place == self.head).then_some(error)
    }

    pub fn pop_err(&mut self) -> Option<CqErr> {
        self.peek_err()?;
        let (_, error) = self.errors.pop_front()?;
        self.stop = self.errors.front().map_or(NEVER, |error| error.0);
        self.rewind();
        Some(error)
    }

    /// Number of entries and errors.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head + self.errors.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head && self.stop == NEVER
    }

    /// Whether there is an error, at the head or behind entries.
    pub fn has_error(&self) -> bool {
        self.stop != NEVER
    }

    /// The size with which the queue was created.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline(always)]
    fn put<const WORDS: usize>(&mut self, at: usize, entry: &[u64; 6]) {
        self.entries[at * WORDS..][..WORDS].copy_from_slice(&entry[..WORDS]);
    }

    /// An empty ring starts again at its beginning, where the memory is in the cache.
    #[inline]
    fn rewind(&mut self) {
        if self.is_empty() {
            self.head = 0;
            self.tail = 0;
        }
    }

    fn read_sources(&self, at: usize, straight: usize, count: usize, out: Out) {
        if self.sources.is_empty() {
            for from in (0..count).step_by(UNKNOWN.len()) {
                out(&UNKNOWN[..UNKNOWN.len().min(count - from)]);
            }
            return;
        }
        out(&self.sources[at..][..straight]);
        if straight < count {
            out(&self.sources[..count - straight]);
        }
    }

    /// Doubles the room. The old room is full: two slices. The new room splits neither, because its end is a multiple
    /// of the old one's.
    #[cold]
    fn grow(&mut self) {
        let room = self.mask + 1;
        let mask = 2 * room - 1;
        let (old, new) = (self.head & self.mask, self.head & mask);
        let rest = (new + room - old) & mask;
        let moved = |from: &[u64], words: usize| {
            let mut to = vec![0; 2 * from.len()];
            let (begin, end) = from.split_at(old * words);
            to[new * words..][..end.len()].copy_from_slice(end);
            to[rest * words..][..begin.len()].copy_from_slice(begin);
            to
        };
        self.entries = moved(&self.entries, self.words);
        self.sources = moved(&self.sources, usize::from(!self.sources.is_empty()));
        self.mask = mask;
    }
}

/// No `tail` reaches this value.
const NEVER: usize = usize::MAX;

/// Initial room in entries, unless the capacity is lower.
const FIRST_ROOM: usize = 256;

/// Sources of entries that have none (FI_ADDR_NOTAVAIL).
const UNKNOWN: [u64; 32] = [u64::MAX; 32];

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u64) -> [u64; 6] {
        std::array::from_fn(|word| n * 10 + word as u64)
    }

    fn error(n: u64) -> CqErr {
        CqErr {
            data: n,
            ..CqErr::default()
        }
    }

    /// Entries and sources of one read.
    fn read(ring: &mut Ring, max: usize) -> (Vec<u64>, Vec<u64>) {
        let (mut entries, mut sources) = (Vec::new(), Vec::new());
        let mut slices = 0;
        let mut out = |words: &[u64]| {
            slices += 1;
            entries.extend_from_slice(words);
        };
        let count = ring.read_into(max, &mut out, Some(&mut |s| sources.extend_from_slice(s)));
        assert!(slices <= 2);
        assert_eq!(entries.len(), count * ring.words);
        assert_eq!(sources.len(), count);
        (entries, sources)
    }

    /// The numbers of the entries of one read.
    fn numbers(ring: &mut Ring, max: usize) -> Vec<u64> {
        let (words, sources) = read(ring, max);
        let numbers: Vec<u64> = words
            .chunks(ring.words)
            .map(|entry| entry[0] / 10)
            .collect();
        for (words, &n) in words.chunks(ring.words).zip(&numbers) {
            assert_eq!(*words, entry(n)[..ring.words]);
        }
        let with_source = !ring.sources.is_empty();
        let expected = numbers
            .iter()
            .map(|n| if with_source { n + 7 } else { u64::MAX });
        assert!(expected.eq(sources));
        numbers
    }

    fn push(ring: &mut Ring, numbers: std::ops::Range<u64>) {
        for n in numbers {
            ring.push(&entry(n), n + 7);
        }
    }

    fn each_format(test: impl Fn(Ring)) {
        for words in [1, 3, 5, 6] {
            for with_source in [false, true] {
                test(Ring::new(words, 8, with_source));
            }
        }
    }

    #[test]
    fn entries_come_back_packed_in_every_format() {
        each_format(|mut ring| {
            assert_eq!(ring.ready(), Head::Empty);
            push(&mut ring, 0..5);
            assert_eq!(ring.ready(), Head::Entries(5));
            assert_eq!(numbers(&mut ring, 2), [0, 1]);
            assert_eq!(numbers(&mut ring, 0), []);
            assert_eq!(numbers(&mut ring, 100), [2, 3, 4]);
            assert_eq!(ring.ready(), Head::Empty);
            assert!(ring.is_empty());
        });
    }

    #[test]
    fn a_read_over_the_end_is_two_slices_in_order() {
        each_format(|mut ring| {
            push(&mut ring, 0..6);
            assert_eq!(numbers(&mut ring, 5), [0, 1, 2, 3, 4]);
            push(&mut ring, 6..13);
            assert_eq!(ring.mask, 7);
            assert_eq!(numbers(&mut ring, 6), [5, 6, 7, 8, 9, 10]);
            assert_eq!(numbers(&mut ring, 6), [11, 12]);
        });
    }

    #[test]
    fn a_full_ring_grows_wherever_its_first_entry_stands() {
        for skip in 0..24 {
            each_format(|mut ring| {
                // The ring must not become empty, which would reset it.
                push(&mut ring, 0..1);
                for n in 0..skip {
                    push(&mut ring, n + 1..n + 2);
                    assert_eq!(numbers(&mut ring, 1), [n]);
                }
                push(&mut ring, skip + 1..skip + 40);
                assert_eq!(ring.mask, 63);
                assert_eq!(ring.len(), 40);
                assert_eq!(numbers(&mut ring, 50), Vec::from_iter(skip..skip + 40));
            });
        }
    }

    #[test]
    fn capacity_is_a_power_of_two_and_counts_errors() {
        for (asked, given) in [(0, 1), (1, 1), (5, 8), (256, 256), (1000, 1024)] {
            let mut ring = Ring::new(3, asked, false);
            assert_eq!(ring.capacity(), given);
            push(&mut ring, 0..given as u64 - 1);
            assert!(ring.len() < ring.capacity());
            ring.push_err(error(1));
            assert!(ring.len() >= ring.capacity());
            push(&mut ring, 0..10);
            assert!(ring.len() >= ring.capacity());
            assert_eq!(ring.len(), given + 10);
        }
    }

    #[test]
    fn a_new_ring_takes_little_memory_whatever_its_capacity() {
        let ring = Ring::new(6, 1 << 40, true);
        assert_eq!(ring.entries.len(), 6 * FIRST_ROOM);
    }

    #[test]
    fn an_error_keeps_its_place_in_the_order() {
        each_format(|mut ring| {
            push(&mut ring, 0..3);
            ring.push_err(error(100));
            ring.push_err(error(101));
            push(&mut ring, 3..5);
            ring.push_err(error(102));
            assert_eq!(ring.len(), 8);
            assert_eq!(ring.ready(), Head::Entries(3));
            assert!(ring.peek_err().is_none() && ring.pop_err().is_none());
            assert_eq!(numbers(&mut ring, 9), [0, 1, 2]);
            for n in [100, 101] {
                assert_eq!(ring.ready(), Head::Error);
                assert_eq!(numbers(&mut ring, 9), []);
                assert_eq!(ring.peek_err().unwrap().data, n);
                assert_eq!(ring.pop_err().unwrap().data, n);
            }
            assert_eq!(ring.ready(), Head::Entries(2));
            assert!(ring.pop_err().is_none());
            assert_eq!(numbers(&mut ring, 9), [3, 4]);
            assert!(!ring.is_empty());
            assert_eq!(ring.pop_err().unwrap().data, 102);
            assert_eq!(ring.ready(), Head::Empty);
            assert!(ring.is_empty());
        });
    }

    #[test]
    fn an_error_alone_is_at_the_head() {
        let mut ring = Ring::new(1, 8, false);
        ring.push_err(error(1));
        assert_eq!(ring.ready(), Head::Error);
        push(&mut ring, 0..1);
        assert_eq!(ring.ready(), Head::Error);
        assert_eq!(ring.pop_err().unwrap().data, 1);
        assert_eq!(ring.ready(), Head::Entries(1));
    }

    #[test]
    fn random_calls_agree_with_a_plain_list() {
        let mut state = 1u64;
        let mut random = move |limit: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        for (words, with_source) in [(1, true), (3, false), (5, true), (6, false)] {
            let mut ring = Ring::new(words, 4, with_source);
            let mut model: VecDeque<(bool, u64)> = VecDeque::new();
            for n in 0..40_000 {
                // Fills for a while, then drains.
                let pushes = if n / 400 % 2 == 0 { 6 } else { 3 };
                match random(10) {
                    k if k < pushes => {
                        push(&mut ring, n..n + 1);
                        model.push_back((true, n));
                    }
                    9 if random(4) == 0 => {
                        ring.push_err(error(n));
                        model.push_back((false, n));
                    }
                    8 => {
                        let expected = model.pop_front_if(|item| !item.0).map(|item| item.1);
                        assert_eq!(ring.peek_err().map(|error| error.data), expected);
                        assert_eq!(ring.pop_err().map(|error| error.data), expected);
                    }
                    _ => {
                        let max = random(4) as usize;
                        let good = model.iter().take_while(|item| item.0).count();
                        let expected = model.drain(..good.min(max)).map(|item| item.1);
                        assert_eq!(numbers(&mut ring, max), Vec::from_iter(expected));
                    }
                }
                assert_eq!(ring.len(), model.len());
                assert_eq!(ring.is_empty(), model.is_empty());
                let good = model.iter().take_while(|item| item.0).count();
                let head = match (good, model.is_empty()) {
                    (0, true) => Head::Empty,
                    (0, false) => Head::Error,
                    (n, _) => Head::Entries(n),
                };
                assert_eq!(ring.ready(), head);
            }
            assert!(ring.mask > 15, "the ring never grew");
        }
    }
}
