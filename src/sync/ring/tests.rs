// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the ring on the heap, where both sides use the same address, so that the second half of the data need not be a
//! mapping of the first (and miri can run it); and on pages that are mapped twice, once for each side.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;

use super::memory::Cells;
use super::*;
use sys::mapping::{Mapping, Pages};

const CAPACITY: usize = 4096;

/// The parts of a ring in one allocation, zeroed.
#[repr(C, align(64))]
struct Heap {
    producer: [u8; LINE],
    consumer: [u8; LINE],
    data: [u8; 2 * CAPACITY],
}

/// Owns the memory and frees it after both sides are dropped.
struct Ring {
    heap: *mut Heap,
}

impl Ring {
    fn new() -> Ring {
        let heap = Box::into_raw(Box::new(Heap {
            producer: [0; LINE],
            consumer: [0; LINE],
            data: [0; 2 * CAPACITY],
        }));
        Ring { heap }
    }

    fn memory(&self) -> Memory {
        let heap = self.heap;
        // SAFETY: places within the box.
        unsafe {
            Memory {
                data: NonNull::new((&raw mut (*heap).data).cast()).unwrap(),
                producer: NonNull::new((&raw mut (*heap).producer).cast()).unwrap(),
                consumer: NonNull::new((&raw mut (*heap).consumer).cast()).unwrap(),
                pages: Pages::default(),
                _mapped: None,
            }
        }
    }

    fn sides(&self) -> (Producer, Consumer) {
        // SAFETY: the tests drop the sides before the ring, and make each side once.
        unsafe {
            (
                Producer::new(self.memory(), CAPACITY, CAPACITY).unwrap(),
                Consumer::new(self.memory(), CAPACITY, CAPACITY).unwrap(),
            )
        }
    }

    /// As `sides`, with laps of a quarter of the ring at first, which grow up to the smaller of the two limits.
    fn short_laps(&self, producer_most: usize, consumer_most: usize) -> (Producer, Consumer) {
        (
            Producer::over(self.memory(), CAPACITY, CAPACITY / 4, producer_most).unwrap(),
            Consumer::over(self.memory(), CAPACITY, CAPACITY / 4, consumer_most).unwrap(),
        )
    }

    /// Stores a word as a hostile peer could.
    fn set_word(&self, line: usize, word: u32) {
        let memory = self.memory();
        // SAFETY: a line of the ring.
        unsafe { memory.word(line * LINE) }.store(word, Ordering::Release);
    }

    fn set_head(&self, head: u64) {
        self.memory().head().store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and the sides are gone.
        drop(unsafe { Box::from_raw(self.heap) });
    }
}

fn send(producer: &mut Producer, bytes: &[u8], kind: u8) -> bool {
    let Some(mut body) = producer.reserve(bytes.len(), 0).unwrap() else {
        return false;
    };
    body.put(bytes);
    body.publish(kind);
    true
}

fn receive(consumer: &mut Consumer) -> Option<(u8, Vec<u8>)> {
    let record = consumer.peek().unwrap()?;
    consumer.prefetch_rest(&record);
    let mut bytes = vec![0; record.len()];
    consumer.copy(&record, 0, &mut bytes).unwrap();
    let kind = record.kind();
    let _ = consumer.advance(record);
    Some((kind, bytes))
}

/// A sequence of pseudo-random numbers, the same for both sides.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % below
    }

    /// Returns mostly short bodies, some of any length.
    fn body(&mut self, longest: usize) -> (u8, Vec<u8>) {
        let below = [60, 300, longest + 1][self.next(3)];
        let (len, start) = (self.next(below), self.next(256));
        (
            start as u8 % KINDS,
            (0..len).map(|i| (start + 7 * i) as u8).collect(),
        )
    }
}

#[test]
fn a_record_arrives_as_it_was_sent() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    assert_eq!(consumer.peek(), Ok(None));
    for (len, kind) in [(0, 0), (1, 127), (56, 1), (57, 2), (producer.longest(), 3)] {
        let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert!(send(&mut producer, &bytes, kind));
        assert_eq!(producer.is_empty(), Ok(false));
        assert_eq!(receive(&mut consumer), Some((kind, bytes)));
        assert_eq!(consumer.peek(), Ok(None));
        assert!(!consumer.release());
        assert_eq!(producer.is_empty(), Ok(true));
        assert_eq!(producer.position(), consumer.position());
        assert_eq!(producer.published(), consumer.taken());
    }
    // Skipped bytes do not count. Expected: a line for each of two short bodies, two for 57 bytes, and the longest
    // body.
    let longest = (producer.longest() + HEADER).next_multiple_of(LINE);
    assert_eq!(consumer.taken(), (5 * LINE + longest) as u64);
}

#[test]
fn a_short_body_lies_in_the_line_that_is_polled() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    assert!(send(&mut producer, &[9; 56], 0));
    let line = consumer.address_of_next();
    let record = consumer.peek().unwrap().unwrap();
    assert_eq!(consumer.body(&record).as_ptr() as usize, line as usize + 8);
    let _ = consumer.advance(record);
    assert_eq!(consumer.address_of_next() as usize, line as usize + LINE);
}

#[test]
fn parts_are_copied_out_within_the_record_only() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    assert!(send(&mut producer, &[1, 2, 3, 4], 0));
    let record = consumer.peek().unwrap().unwrap();
    let mut two = [0; 2];
    assert_eq!(consumer.copy(&record, 2, &mut two), Ok(()));
    assert_eq!(two, [3, 4]);
    assert_eq!(consumer.copy(&record, 4, &mut []), Ok(()));
    for (from, len) in [(3, 2), (4, 1), (5, 0), (0, 5), (usize::MAX, 1)] {
        let mut out = vec![0; len];
        assert_eq!(consumer.copy(&record, from, &mut out), Err(Garbage));
    }
}

/// A record has a length but no ring: a ring never copies from beyond its memory for the record of a larger ring.
#[test]
fn a_record_of_a_larger_ring_leads_nowhere() {
    let longest = longest_body(CAPACITY);
    let larger = Record::of_len(1 << 20);
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    assert!(send(&mut producer, &vec![7; longest], 0));
    assert_eq!(consumer.body(&larger).len(), longest);
    assert_eq!(consumer.body(&larger).behind(longest).len(), 0);
    let mut out = vec![0; longest + 1];
    assert_eq!(consumer.copy(&larger, 0, &mut out), Err(Garbage));
    assert_eq!(consumer.copy(&larger, longest, &mut [0]), Err(Garbage));
    // The next record still begins at a line of the ring.
    let _ = consumer.advance(larger);
    assert!(consumer.position().is_multiple_of(LINE as u64));
    let _ = consumer.peek();
}

#[test]
fn a_body_is_filled_piece_by_piece_and_may_end_early() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    let mut body = producer.reserve(100, 0).unwrap().unwrap();
    body.put(&[1, 2]);
    assert_eq!(body.room().len(), 98);
    body.put(&[3]);
    assert_eq!(body.left(), 97);
    body.put(&[]);
    body.publish_put(5);
    // A body that was reserved, partly filled and not published sends nothing.
    producer.reserve(500, 0).unwrap().unwrap().put(&[8; 300]);
    assert!(send(&mut producer, &[4], 6));
    assert_eq!(receive(&mut consumer), Some((5, vec![1, 2, 3])));
    assert_eq!(receive(&mut consumer), Some((6, vec![4])));
    assert_eq!(consumer.peek(), Ok(None));
}

#[test]
fn a_full_ring_takes_what_there_is_room_for() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    let lines = CAPACITY / LINE - 1;
    for i in 0..lines {
        let left = (lines - i) * LINE - HEADER;
        assert_eq!(producer.room(usize::MAX, 0), Ok(Some(left)));
        assert!(producer.reserve(left + 1, 0).unwrap().is_none());
        assert!(producer.reserve(usize::MAX, 0).unwrap().is_none());
        assert!(send(&mut producer, &[i as u8], 0));
    }
    assert_eq!(producer.room(usize::MAX, 0), Ok(None));
    assert!(!send(&mut producer, &[], 0));
    // Room comes back by quarters, or when `release` is called.
    let quarter = CAPACITY / LINE / 4;
    for i in 0..quarter {
        assert_eq!(producer.consumed(), Ok(0));
        assert_eq!(receive(&mut consumer), Some((0, vec![i as u8])));
    }
    assert_eq!(producer.consumed(), Ok((CAPACITY / 4) as u64));
    assert_eq!(receive(&mut consumer), Some((0, vec![quarter as u8])));
    assert_eq!(
        producer.room(usize::MAX, 0),
        Ok(Some(CAPACITY / 4 - HEADER))
    );
    assert!(!consumer.release());
    assert_eq!(
        producer.room(usize::MAX, 0),
        Ok(Some(CAPACITY / 4 + LINE - HEADER))
    );
    for i in quarter + 1..lines {
        assert_eq!(receive(&mut consumer), Some((0, vec![i as u8])));
    }
    assert_eq!(consumer.peek(), Ok(None));
}

#[test]
fn who_waits_for_room_is_reported_with_it() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    while send(&mut producer, &[0; 56], 0) {}
    producer.set_waiting(true);
    let quarter = CAPACITY / LINE / 4;
    for i in 1..=quarter {
        let record = consumer.peek().unwrap().unwrap();
        assert_eq!(consumer.advance(record), i == quarter);
    }
    assert!(!consumer.release());
    assert!(receive(&mut consumer).is_some());
    assert!(consumer.release());
    assert!(!consumer.release());
    producer.set_waiting(false);
    assert!(receive(&mut consumer).is_some());
    assert!(!consumer.release());
}

#[test]
fn a_word_that_no_producer_writes_is_garbage() {
    let ring = Ring::new();
    let (_, mut consumer) = ring.sides();
    let longest = consumer.longest() as u32;
    let lens = [
        longest + 2,
        CAPACITY as u32,
        1 << 23,
        LEN_MASK - 1,
        LEN_MASK,
    ];
    for kind in [0, 1, 0x40, 0x7f] {
        for len in lens {
            ring.set_word(0, kind << 24 | len);
            assert_eq!(consumer.peek(), Err(Garbage), "{kind} {len}");
        }
        ring.set_word(0, kind << 24 | (longest + 1));
        let record = consumer.peek().unwrap().unwrap();
        assert_eq!(record.len(), consumer.longest());
        // The body ends within the mapped memory, from any line.
        let mut out = vec![0; record.len()];
        assert_eq!(consumer.copy(&record, 0, &mut out), Ok(()));
        if kind != 0 {
            ring.set_word(0, kind << 24);
            assert_eq!(consumer.peek(), Err(Garbage));
        }
        // A word of another lap is old, whatever its other bits are.
        ring.set_word(0, LAP | kind << 24 | LEN_MASK);
        assert_eq!(consumer.peek(), Ok(None));
    }
}

/// One lap later, the words of old records and the bytes of old bodies are not taken for records, until they are
/// overwritten.
#[test]
fn what_is_left_of_the_lap_before_is_no_record() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    let lines = CAPACITY / LINE;
    // Bodies that look like words of either lap, in records of changing length.
    for (lap, record) in [1, 3, 2, 1, 5, 1].into_iter().enumerate() {
        for _ in 0..lines / record {
            let word = if lap % 2 == 0 { LAP | 9 } else { 9 };
            let bytes: Vec<u8> = (0..(record * LINE - HEADER) / 4)
                .flat_map(|_| u32::to_ne_bytes(word))
                .collect();
            assert!(send(&mut producer, &bytes, 0));
            assert_eq!(receive(&mut consumer), Some((0, bytes)));
            assert_eq!(consumer.peek(), Ok(None), "{lap}");
            let _ = consumer.release();
        }
    }
}

#[test]
fn the_longest_record_may_begin_at_the_last_line() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    for _ in 0..CAPACITY / LINE - 1 {
        assert!(send(&mut producer, &[1], 0));
        assert!(receive(&mut consumer).is_some());
        let _ = consumer.release();
    }
    let bytes = vec![7; producer.longest()];
    assert!(send(&mut producer, &bytes, 9));
    assert_eq!(receive(&mut consumer), Some((9, bytes)));
    let _ = consumer.release();
    assert!(send(&mut producer, &[2], 0));
    assert_eq!(receive(&mut consumer), Some((0, vec![2])));
}

#[test]
fn a_head_that_no_consumer_writes_is_garbage() {
    let ring = Ring::new();
    let (mut producer, _) = ring.sides();
    while send(&mut producer, &[0; 56], 0) {}
    let tail = producer.position();
    let line = LINE as u64;
    for head in [
        1,
        line - 1,
        tail + 1,
        tail + line,
        u64::MAX,
        0u64.wrapping_sub(line),
        1 << 63,
    ] {
        ring.set_head(head);
        assert_eq!(producer.room(usize::MAX, 0), Err(Garbage), "{head}");
        assert_eq!(producer.consumed(), Err(Garbage));
        assert_eq!(producer.is_empty(), Err(Garbage));
        assert!(producer.reserve(0, 0).is_err());
    }
    ring.set_head(4 * line);
    assert_eq!(producer.consumed(), Ok(4 * line));
    // A head that goes back is invalid.
    ring.set_head(3 * line);
    assert_eq!(producer.consumed(), Err(Garbage));
    ring.set_head(tail);
    assert_eq!(producer.is_empty(), Ok(true));
}

#[test]
fn only_some_sizes_are_capacities() {
    for bad in [
        0,
        1,
        64,
        128,
        4095,
        4097,
        12288,
        MAX_CAPACITY + 1,
        2 * MAX_CAPACITY,
    ] {
        assert!(!is_capacity(bad), "{bad}");
    }
    let mut good = 4096;
    while good <= MAX_CAPACITY {
        assert!(is_capacity(good));
        assert!(longest_body(good) as u32 + 1 < LEN_MASK);
        good *= 2;
    }
    let ring = Ring::new();
    // SAFETY: no side is made.
    assert!(unsafe { Producer::new(ring.memory(), CAPACITY + 1, 0) }.is_none());
    // SAFETY: as above.
    assert!(unsafe { Consumer::new(ring.memory(), 0, 0) }.is_none());
}

#[test]
fn laps_get_longer_with_use() {
    let quarter = CAPACITY / 4;
    let per_lap = quarter / LINE - 1;
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.short_laps(CAPACITY, CAPACITY);
    for i in 0..per_lap * (LAPS as usize + 1) {
        assert_eq!(producer.lap, quarter, "{i}");
        assert!(send(&mut producer, &[i as u8], 0));
        assert_eq!(receive(&mut consumer), Some((0, vec![i as u8])));
        assert!(!consumer.release());
    }
    assert_eq!(producer.laps, LAPS);
    // The record goes on behind the old end of the lap, in the longer lap.
    let tail = producer.position();
    assert!(send(&mut producer, &[1], 0));
    assert_eq!((producer.lap, producer.laps), (2 * quarter, 0));
    assert_eq!(producer.position(), tail + LINE as u64);
    assert_eq!(receive(&mut consumer), Some((0, vec![1])));
    while producer.lap < CAPACITY {
        assert!(!consumer.release());
        assert!(send(&mut producer, &[2; 56], 0));
        assert_eq!(receive(&mut consumer), Some((0, vec![2; 56])));
    }
    let _ = consumer.release();
    let longest = longest_body(CAPACITY);
    assert!(send(&mut producer, &vec![3; longest], 0));
    assert_eq!(receive(&mut consumer), Some((0, vec![3; longest])));
}

#[test]
fn small_records_that_are_answered_stay_in_short_laps() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.short_laps(CAPACITY, CAPACITY);
    let mut send = |len: usize, heard: u64| {
        let body = producer.reserve(len, heard).unwrap().unwrap();
        body.publish(0);
        let record = consumer.peek().unwrap().unwrap();
        let _ = consumer.advance(record);
        let _ = consumer.release();
        producer.lap
    };
    for i in 0..1000 {
        assert_eq!(send(8, i * LINE as u64), CAPACITY / 4);
    }
    for _ in 0..1000 {
        send(8, 0);
    }
    assert_eq!(send(8, 0), CAPACITY);
}

#[test]
fn laps_get_no_longer_than_both_sides_let_them() {
    let quarter = CAPACITY / 4;
    for (most, limit) in [
        (quarter, CAPACITY),
        (CAPACITY, quarter),
        (0, 0),
        (CAPACITY, 2 * quarter - 1),
    ] {
        let ring = Ring::new();
        let (mut producer, mut consumer) = ring.short_laps(most, limit);
        for i in 0..100 {
            let longest = producer.longest();
            // Behind a record as long as the lap, the next record waits until the rest of the ring is skipped.
            if !send(&mut producer, &vec![i; longest], 0) {
                assert_eq!(receive(&mut consumer), None);
                assert!(!consumer.release());
                assert!(send(&mut producer, &vec![i; longest], 0));
            }
            assert_eq!(producer.room(0, 0), Ok(None));
            assert!(!send(&mut producer, &[], 0));
            assert_eq!(receive(&mut consumer), Some((0, vec![i; longest])));
            assert_eq!(receive(&mut consumer), None);
            assert!(!consumer.release());
        }
        assert_eq!(producer.lap, quarter);
        assert_eq!(producer.is_empty(), Ok(true));
    }
}

#[test]
fn no_record_is_longer_than_a_lap_that_stays() {
    let ring = Ring::new();
    let (mut producer, _consumer) = ring.short_laps(0, 0);
    assert!(!send(
        &mut producer,
        &vec![0; CAPACITY / 4 - LINE - HEADER + 1],
        0
    ));
    assert!(send(
        &mut producer,
        &vec![0; CAPACITY / 4 - LINE - HEADER],
        0
    ));
}

/// Both sides of a ring of `capacity` bytes in shared memory, and its descriptor.
fn shared(capacity: usize) -> (Producer, Consumer, OwnedFd) {
    let control = 4096;
    let fd = Mapping::create_sparse(c"ring", control + 2 * capacity).unwrap();
    let memory = || {
        let all = Arc::new(Mapping::map_doubled(&fd, control, capacity).unwrap());
        let data = all.bytes(control, 2 * capacity).unwrap();
        Memory {
            data,
            producer: all.at(0).unwrap(),
            consumer: all.at(LINE).unwrap(),
            // SAFETY: the start of the data is mapped.
            pages: unsafe { Pages::new(&fd, control, data, FIRST_LAP).unwrap() },
            _mapped: Some(all),
        }
    };
    // SAFETY: fresh pages, which each side keeps mapped; one of each side.
    let sides = unsafe {
        (
            Producer::new(memory(), capacity, capacity).unwrap(),
            Consumer::new(memory(), capacity, capacity).unwrap(),
        )
    };
    (sides.0, sides.1, fd)
}

fn pages_of(fd: &OwnedFd) -> u64 {
    std::fs::File::from(fd.try_clone().unwrap())
        .metadata()
        .unwrap()
        .blocks()
        * 512
        / 4096
}

/// A burst before the consumer runs takes more memory at once, up to `QUICK_LAP`; answered messages take none.
#[test]
#[cfg_attr(miri, ignore)]
fn a_burst_gets_longer_laps_at_once() {
    let (mut producer, mut consumer, fd) = shared(1 << 20);
    for i in 0..10_000 {
        assert!(send(&mut producer, &[i as u8; 900], 0));
        assert_eq!(receive(&mut consumer), Some((0, vec![i as u8; 900])));
        let _ = consumer.release();
        // The bytes from the peer count as answers.
        producer.laps = 0;
    }
    assert_eq!(producer.lap, FIRST_LAP);
    assert_eq!(pages_of(&fd), 2);
    for _ in 0..2 {
        while send(&mut producer, &[7; 900], 0) {}
        while receive(&mut consumer).is_some() {}
        let _ = consumer.release();
    }
    assert_eq!(producer.lap, QUICK_LAP);
    assert!(send(&mut producer, &vec![1; RECORD], 0));
}

/// A record of 16 KiB, the longest that `stream` writes.
const RECORD: usize = 16 * 1024;

#[test]
#[cfg_attr(miri, ignore)]
fn a_long_record_gets_a_longer_lap_at_once() {
    let (mut producer, mut consumer, _fd) = shared(1 << 20);
    assert!(send(&mut producer, &[1; 60], 0));
    assert!(send(&mut producer, &vec![2; RECORD], 0));
    assert_eq!(receive(&mut consumer), Some((0, vec![1; 60])));
    assert_eq!(receive(&mut consumer), Some((0, vec![2; RECORD])));
    assert_eq!(producer.lap, QUICK_LAP);
}

/// Lets the laps of a used ring become short. The consumer only takes what is there, as one does that never heard of
/// shorter laps.
fn shrink(producer: &mut Producer, consumer: &mut Consumer) -> usize {
    let mut steps = 0;
    while producer.shrink().unwrap() != Shrunk::Short || producer.lap > FIRST_LAP {
        while let Some(record) = receive(consumer) {
            assert_eq!(record, (0, vec![]));
        }
        if consumer.is_due() {
            let _ = consumer.release();
        }
        steps += 1;
        assert!(steps < 10, "{:?} {}", producer.shrink(), producer.lap);
    }
    steps
}

#[test]
#[cfg_attr(miri, ignore)]
fn an_idle_ring_gives_its_memory_back() {
    let mut numbers = Numbers(5);
    for capacity in [1 << 15, 1 << 17] {
        let (mut producer, mut consumer, fd) = shared(capacity);
        for round in 0..40 {
            let mut total = 0;
            while total < 6 * capacity {
                let len = 2000 + numbers.next(3000);
                assert!(send(&mut producer, &vec![round; len], 0));
                assert_eq!(receive(&mut consumer), Some((0, vec![round; len])));
                total += len;
            }
            let _ = consumer.release();
            assert_eq!(producer.lap, capacity);
            assert!(pages_of(&fd) > 8);
            shrink(&mut producer, &mut consumer);
            assert_eq!(pages_of(&fd), 2);
            // The ring never stops for want of a head that the consumer does not publish: the consumer publishes only
            // what is due.
            for i in 0..numbers.next(400) {
                let bytes = vec![i as u8; numbers.next(1000)];
                assert!(send(&mut producer, &bytes, 0), "{i}");
                assert_eq!(receive(&mut consumer), Some((0, bytes)));
            }
            if consumer.is_due() {
                let _ = consumer.release();
            }
        }
    }
}

/// A ring that is used, or that the consumer does not read, stays as it is.
#[test]
#[cfg_attr(miri, ignore)]
fn a_ring_in_use_keeps_its_memory() {
    let (mut producer, mut consumer, _fd) = shared(1 << 16);
    while send(&mut producer, &[7; 900], 0) {}
    assert_eq!(producer.shrink(), Ok(Shrunk::Used));
    for _ in 0..5 {
        assert_eq!(producer.shrink(), Ok(Shrunk::Waits));
    }
    while receive(&mut consumer).is_some() {}
    let _ = consumer.release();
    assert_eq!(producer.shrink(), Ok(Shrunk::Moved));
    assert!(send(&mut producer, &[8; 100], 0));
    assert_eq!(producer.shrink(), Ok(Shrunk::Used));
    assert_eq!(receive(&mut consumer), Some((0, vec![])));
    assert_eq!(receive(&mut consumer), Some((0, vec![8; 100])));
    assert_eq!(producer.lap, QUICK_LAP);
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_lap_does_not_get_longer_where_there_is_no_memory() {
    let ring = Ring::new();
    let mut memory = ring.memory();
    // A descriptor that cannot provide more memory.
    let (end, _other) = std::io::pipe().unwrap();
    memory.pages = Pages::of_another_file(end.into());
    let mut producer = Producer::over(memory, CAPACITY, CAPACITY / 4, CAPACITY).unwrap();
    let mut consumer = Consumer::over(ring.memory(), CAPACITY, CAPACITY / 4, CAPACITY).unwrap();
    for i in 0..1000 {
        assert!(send(&mut producer, &[i as u8; 100], 0));
        assert_eq!(receive(&mut consumer), Some((0, vec![i as u8; 100])));
        let _ = consumer.release();
    }
    assert_eq!((producer.lap, producer.most), (CAPACITY / 4, CAPACITY / 4));
}

#[test]
fn an_empty_lap_or_another_word_without_a_length_is_garbage() {
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.short_laps(0, 0);
    ring.set_word(0, SKIP);
    assert_eq!(consumer.peek(), Err(Garbage));
    ring.set_word(0, 0);
    assert!(send(&mut producer, &[1], 0));
    assert!(receive(&mut consumer).is_some());
    for word in [2 * SKIP, 3 * SKIP, 127 * SKIP] {
        ring.set_word(1, word);
        assert_eq!(consumer.peek(), Err(Garbage), "{word:x}");
    }
    // The consumer looks at the next lap at once, and may find it empty.
    ring.set_word(0, 0);
    ring.set_word(1, SKIP);
    assert_eq!(consumer.peek(), Ok(None));
    assert_eq!(consumer.position(), CAPACITY as u64);
    ring.set_word(0, SKIP | LAP);
    assert_eq!(consumer.peek(), Err(Garbage));
}

/// Streams bodies of any length between two threads; the ring is full at times.
fn stream(mut producer: Producer, mut consumer: Consumer, records: usize) {
    let longest = producer.longest();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut numbers = Numbers(1);
            for _ in 0..records {
                let (kind, bytes) = numbers.body(longest);
                while !send(&mut producer, &bytes, kind) {
                    // Prefetching has no visible effect.
                    producer.prefetch_next();
                    thread::yield_now();
                }
                producer.prefetch_next();
            }
        });
        let mut numbers = Numbers(1);
        for i in 0..records {
            let expected = numbers.body(longest);
            let got = loop {
                match receive(&mut consumer) {
                    Some(got) => break got,
                    None => {
                        let _ = consumer.release();
                        thread::yield_now();
                    }
                }
            };
            assert!(got == expected, "record {i}");
        }
        assert_eq!(consumer.peek(), Ok(None));
    });
}

#[test]
fn a_stream_arrives_whole_and_in_order() {
    let ring = Ring::new();
    let (producer, consumer) = ring.sides();
    stream(producer, consumer, if cfg!(miri) { 60 } else { 20_000 });
}

#[test]
fn a_stream_arrives_whole_and_in_order_with_laps_of_any_length() {
    for most in [0, CAPACITY / 2, CAPACITY] {
        let ring = Ring::new();
        let (producer, consumer) = ring.short_laps(most, CAPACITY);
        stream(producer, consumer, if cfg!(miri) { 60 } else { 20_000 });
    }
}

/// Both sides sleep while they have nothing to do, as the users of a ring do.
#[test]
fn both_sides_sleep_and_are_woken() {
    const RECORDS: usize = if cfg!(miri) { 30 } else { 10_000 };
    let ring = Ring::new();
    let (mut producer, mut consumer) = ring.sides();
    let flag = crate::sleep_flag::SleepFlag::<core::sync::atomic::AtomicU32>::default();
    let flag = &flag;
    let limit = core::time::Duration::from_secs(20);
    let sleep = move || {
        let start = std::time::Instant::now();
        thread::park_timeout(limit);
        assert!(start.elapsed() < limit, "nobody woke this side");
    };
    let main = thread::current();
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let mut numbers = Numbers(2);
            for _ in 0..RECORDS {
                let (kind, bytes) = numbers.body(2000);
                while !send(&mut producer, &bytes, kind) {
                    producer.set_waiting(true);
                    if producer.room(usize::MAX, 0).unwrap() < Some(bytes.len()) {
                        sleep();
                    }
                    producer.set_waiting(false);
                }
                if flag.is_set() {
                    main.unpark();
                }
            }
        });
        let mut numbers = Numbers(2);
        let mut taken = 0;
        while taken < RECORDS {
            let Some(record) = consumer.peek().unwrap() else {
                if consumer.release() {
                    sender.thread().unpark();
                }
                flag.arm();
                if consumer.peek() == Ok(None) {
                    sleep();
                }
                flag.disarm();
                continue;
            };
            let (kind, bytes) = numbers.body(2000);
            assert_eq!((record.kind(), record.len()), (kind, bytes.len()));
            if consumer.advance(record) {
                sender.thread().unpark();
            }
            taken += 1;
        }
        let _ = consumer.release();
    });
}

/// As in use: each side has its own mapping of the pages, twice in a row.
#[test]
#[cfg_attr(miri, ignore)]
fn a_stream_crosses_pages_that_are_mapped_twice() {
    let control = 4096;
    let (lines, fd) = Mapping::create(c"ring", control + 2 * CAPACITY).unwrap();
    let (ours, theirs) = (
        Mapping::map_doubled(&fd, control, CAPACITY).unwrap(),
        Mapping::map_doubled(&fd, control, CAPACITY).unwrap(),
    );
    let memory = |data: &Mapping| Memory {
        data: data.bytes(control, 2 * CAPACITY).unwrap(),
        producer: lines.at(0).unwrap(),
        consumer: lines.at(LINE).unwrap(),
        pages: Pages::default(),
        _mapped: None,
    };
    // SAFETY: fresh pages, mapped until the end of the test; one of each side.
    let (producer, consumer) = unsafe {
        (
            Producer::new(memory(&ours), CAPACITY, CAPACITY).unwrap(),
            Consumer::new(memory(&theirs), CAPACITY, CAPACITY).unwrap(),
        )
    };
    stream(producer, consumer, 20_000);
}
