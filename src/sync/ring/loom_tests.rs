// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Runs the ring on loom's atomics, in every order that a few steps of both sides can have. Bodies are cells that loom
//! watches: a read that is not ordered after the write is a failure.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::sync::{Arc, Notify};
use loom::thread;

use super::memory::Cells;
use super::*;
use crate::sleep_flag::SleepFlag;

struct Model {
    words: Vec<AtomicU32>,
    bodies: Vec<UnsafeCell<u64>>,
    head: AtomicU64,
    waiting: SleepFlag<AtomicU32>,
    limit: AtomicU32,
}

impl Cells for Arc<Model> {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    unsafe fn word(&self, at: usize) -> &AtomicU32 {
        &self.words[at / LINE]
    }

    fn head(&self) -> &AtomicU64 {
        &self.head
    }

    fn limit(&self) -> &AtomicU32 {
        &self.limit
    }

    fn provide(&self, _from: usize, _to: usize) -> bool {
        true
    }

    fn waiting(&self) -> &SleepFlag<AtomicU32> {
        &self.waiting
    }
}

fn ring(lines: usize) -> (Producer<Arc<Model>>, Consumer<Arc<Model>>) {
    ring_with_laps(lines, lines, lines)
}

/// A ring whose laps have `lap` lines at first and up to `most` later.
fn ring_with_laps(
    lines: usize,
    lap: usize,
    most: usize,
) -> (Producer<Arc<Model>>, Consumer<Arc<Model>>) {
    let model = Arc::new(Model {
        words: (0..lines).map(|_| AtomicU32::new(0)).collect(),
        bodies: (0..lines).map(|_| UnsafeCell::new(0)).collect(),
        head: AtomicU64::new(0),
        waiting: SleepFlag::over(AtomicU32::new(0)),
        limit: AtomicU32::new(0),
    });
    let (capacity, lap, most) = (lines * LINE, lap * LINE, most * LINE);
    let producer = Producer::over(model.clone(), capacity, lap, most).unwrap();
    (
        producer,
        Consumer::over(model, capacity, lap, most).unwrap(),
    )
}

/// The length of a body that takes this many lines.
const fn body(lines: usize) -> usize {
    lines * LINE - HEADER
}

/// Visits the bodies of the lines of a record.
fn each_line(model: &Model, at: usize, len: usize, mut visit: impl FnMut(&UnsafeCell<u64>)) {
    for line in 0..size_of_record(len as u32) / LINE {
        visit(&model.bodies[(at / LINE + line) % model.bodies.len()]);
    }
}

impl Producer<Arc<Model>> {
    fn send(&mut self, number: u64, len: usize) -> bool {
        if !self.find_room(len, 0).unwrap() {
            return false;
        }
        each_line(&self.memory, self.at(), len, |cell| {
            // SAFETY: loom finds any access that is not ordered before this one.
            cell.with_mut(|place| unsafe { *place = number });
        });
        self.publish(len as u32, number as u8 % KINDS);
        true
    }
}

impl Consumer<Arc<Model>> {
    /// Checks the next record and advances. `Some` if there was a record, with whether the producer has to be woken up.
    fn receive(&mut self, number: u64, len: usize) -> Option<bool> {
        let record = self.peek().unwrap()?;
        assert_eq!((record.len(), record.kind()), (len, number as u8 % KINDS));
        each_line(&self.memory, self.at(), len, |cell| {
            // SAFETY: as in `send`.
            assert_eq!(cell.with(|place| unsafe { *place }), number);
        });
        Some(self.advance(record))
    }
}

fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

/// Lets both sides poll until records of these lengths were transferred.
fn exchange(ring: (Producer<Arc<Model>>, Consumer<Arc<Model>>), lens: &'static [usize]) {
    let (mut producer, mut consumer) = ring;
    let other = thread::spawn(move || {
        for (i, &len) in lens.iter().enumerate() {
            while !producer.send(i as u64 + 1, len) {
                thread::yield_now();
            }
        }
    });
    for (i, &len) in lens.iter().enumerate() {
        while consumer.receive(i as u64 + 1, len).is_none() {
            let _ = consumer.release();
            thread::yield_now();
        }
    }
    assert_eq!(consumer.peek(), Ok(None));
    other.join().unwrap();
}

/// Wraps around the end of the ring, with records of one and two lines, so that the ring is full at times.
#[test]
fn loom_records_arrive_whole_once_and_in_order() {
    const LENS: &[usize] = &[body(1), body(2), body(1), body(2)];
    check(3, || exchange(ring(4), LENS));
}

/// As above with laps that are shorter than the ring, and with laps that get longer.
#[test]
fn loom_records_arrive_over_the_end_of_a_lap() {
    const LENS: &[usize] = &[body(1), body(2), body(1), body(1), body(2)];
    for most in [4, 8] {
        check(3, move || exchange(ring_with_laps(8, 4, most), LENS));
    }
}

/// Either side sleeps while it has nothing to do, and the other side wakes it up.
#[test]
fn loom_nobody_sleeps_for_ever() {
    check(3, || {
        let lens = [body(2), body(2), body(1)];
        let (mut producer, mut consumer) = ring(4);
        let flag = Arc::new(SleepFlag::over(AtomicU32::new(0)));
        let woken = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (consumer_flag, others) = (flag.clone(), woken.clone());
        let other = thread::spawn(move || {
            for (i, &len) in lens.iter().enumerate() {
                let number = i as u64 + 1;
                while !producer.send(number, len) {
                    producer.set_waiting(true);
                    let sent = producer.send(number, len);
                    if !sent {
                        others.0.wait();
                    }
                    producer.set_waiting(false);
                    if sent {
                        break;
                    }
                }
                if consumer_flag.is_set() {
                    others.1.notify();
                }
            }
        });
        for (i, &len) in lens.iter().enumerate() {
            let number = i as u64 + 1;
            let wake = loop {
                if let Some(wake) = consumer.receive(number, len) {
                    break wake;
                }
                if consumer.release() {
                    woken.0.notify();
                }
                flag.arm();
                let found = consumer.receive(number, len);
                if found.is_none() {
                    woken.1.wait();
                }
                flag.disarm();
                if let Some(wake) = found {
                    break wake;
                }
            };
            if wake {
                woken.0.notify();
            }
        }
        other.join().unwrap();
    });
}

/// A producer that waits for all the room is woken up, whether the consumer gives it back with a quarter of the ring
/// (two lines here) or because it found the ring empty.
#[test]
fn loom_room_that_is_given_back_late_is_seen() {
    for taken in [&[1][..], &[2], &[1, 1], &[2, 1]] {
        check(3, move || {
            let (mut producer, mut consumer) = ring(8);
            let notify = Arc::new(Notify::new());
            let woken = notify.clone();
            for (i, &lines) in taken.iter().enumerate() {
                assert!(producer.send(i as u64, body(lines)));
            }
            let last = taken.len() as u64;
            let other = thread::spawn(move || {
                producer.set_waiting(true);
                while !producer.send(last, body(7)) {
                    woken.wait();
                }
            });
            for (i, &lines) in taken.iter().enumerate() {
                if consumer.receive(i as u64, body(lines)).unwrap() {
                    notify.notify();
                }
            }
            if consumer.release() {
                notify.notify();
            }
            other.join().unwrap();
            assert!(consumer.receive(last, body(7)).is_some());
        });
    }
}
