// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A job that its owner and a helper in another process do part by part: who takes a part says so in one word that both see.
//!
//! The owner opens the job and tells the helper its number. Both take parts, each half of what nobody has taken, so that they
//! end at about the same time with few steps. The word also says that the helper is at work on a part, and whether one failed:
//! the job is over when all was taken and the helper has given back what it held. A helper that comes late finds another number,
//! or nothing to take.
//!
//! What a hostile process can do with the word: say that parts were taken, or that one is held for ever; the other side then does
//! not do them, or waits. A word that goes back, or changes so fast that nothing can be taken, is `Garbage`.
#![cfg_attr(not(loom), forbid(unsafe_code))]

use core::sync::atomic::{AtomicU64, Ordering};

use super::atomic::Exchange;
use super::ring::Garbage;

/// The word of one job at a time: from bit 32 on its number, then whether a part failed, whether the helper holds one, and how
/// many units were taken.
#[derive(Default)]
#[repr(transparent)]
pub struct Parts<A = AtomicU64>(A);

const NUMBER_SHIFT: u32 = 32;
const FAILED: u64 = 1 << 31;
const HELD: u64 = 1 << 30;
const TAKEN: u64 = HELD - 1;

/// Parts are of whole units, the last one apart.
const UNIT: usize = 4096;
/// Parts of less are not worth a call of the kernel, but that short jobs are for both, and who takes more is away for too long.
const LEAST: usize = 64 * 1024 / UNIT;
const MOST: usize = 1024 * 1024 / UNIT;
/// So often the other side may come first before it is taken for hostile: each time it has taken something.
const PATIENCE: u32 = 4096;

/// A job as one side knows it.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub number: u32,
    len: usize,
    /// Units that were taken, when it was last looked at, and how many of them by this side.
    taken: u64,
    own: u64,
}

/// Bytes of a job that who has it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub from: usize,
    pub len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is something to take.
    Open,
    /// The helper is at work.
    Held,
    /// All was done.
    Over,
    /// The helper could not do a part.
    Failed,
}

impl Job {
    /// Nothing for a length that no word can count.
    pub fn new(number: u32, len: usize) -> Option<Job> {
        let job = Job {
            number,
            len,
            taken: 0,
            own: 0,
        };
        (job.units() <= TAKEN).then_some(job)
    }

    /// Whether the other side has taken something, too; to be asked when all was taken.
    pub fn was_shared(&self) -> bool {
        self.own < self.units()
    }

    fn units(&self) -> u64 {
        self.len.div_ceil(UNIT) as u64
    }

    fn is_in(&self, word: u64) -> bool {
        word >> NUMBER_SHIFT == u64::from(self.number)
    }

    /// Half of what is left behind so many units, in units.
    fn half(&self, taken: u64) -> u64 {
        let left = self.units() - taken;
        let least = self.units().div_ceil(2).min(LEAST as u64);
        left.div_ceil(2).clamp(least, MOST as u64).min(left)
    }

    fn part(&self, from: u64, units: u64) -> Part {
        let from = from as usize * UNIT;
        Part {
            from,
            len: (units as usize * UNIT).min(self.len - from),
        }
    }
}

impl<A: Exchange> Parts<A> {
    /// Owner: the job begins. The helper of the one before has given back what it held.
    pub fn open(&self, job: &Job) {
        self.0
            .store(u64::from(job.number) << NUMBER_SHIFT, Ordering::Relaxed);
    }

    /// Owner: the next part, if one is left and none failed.
    pub fn take(&self, job: &mut Job) -> Result<Option<Part>, Garbage> {
        match self.take_as(job, 0)? {
            Some(part) => Ok(part),
            // Nobody but the owner gives numbers.
            None => Err(Garbage),
        }
    }

    /// Helper: as `take`; nothing if the job is another one by now. What was taken is to be given back.
    pub fn hold(&self, job: &mut Job) -> Result<Option<Part>, Garbage> {
        Ok(self.take_as(job, HELD)?.flatten())
    }

    /// Nothing at all: it is another job.
    fn take_as(&self, job: &mut Job, held: u64) -> Result<Option<Option<Part>>, Garbage> {
        for _ in 0..PATIENCE {
            let word = self.0.load(Ordering::Acquire);
            if !job.is_in(word) {
                return Ok(None);
            }
            let taken = word & TAKEN;
            if taken < job.taken || taken > job.units() {
                return Err(Garbage);
            }
            job.taken = taken;
            if taken == job.units() || word & FAILED != 0 {
                return Ok(Some(None));
            }
            let units = job.half(taken);
            if self.change(word, (word + units) | held) {
                job.taken = taken + units;
                job.own += units;
                return Ok(Some(Some(job.part(taken, units))));
            }
        }
        Err(Garbage)
    }

    /// Helper: it has done the part that it held, or could not. True: the owner may wait for word of that.
    pub fn give_back(&self, job: &Job, well: bool) -> bool {
        for _ in 0..PATIENCE {
            let word = self.0.load(Ordering::Relaxed);
            if !job.is_in(word) {
                return false;
            }
            let failed = if well { 0 } else { FAILED };
            // What was done was done before: pairs with the load in `progress`.
            if self.change(word, (word & !HELD) | failed) {
                return !well || word & TAKEN == job.units();
            }
        }
        true
    }

    /// Owner: how far the job has come.
    pub fn progress(&self, job: &Job) -> Result<Progress, Garbage> {
        let word = self.0.load(Ordering::Acquire);
        if !job.is_in(word) {
            return Err(Garbage);
        }
        Ok(match word {
            _ if word & HELD != 0 => Progress::Held,
            _ if word & FAILED != 0 => Progress::Failed,
            _ if word & TAKEN == job.units() => Progress::Over,
            _ => Progress::Open,
        })
    }

    /// Owner: nothing is taken any more.
    pub fn close(&self, job: &Job) {
        for _ in 0..PATIENCE {
            let word = self.0.load(Ordering::Relaxed);
            if !job.is_in(word) || self.change(word, (word & !TAKEN) | job.units()) {
                return;
            }
        }
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn begin(len: usize) -> (Parts, Job) {
        let (parts, job) = (Parts::default(), Job::new(7, len).unwrap());
        parts.open(&job);
        (parts, job)
    }

    fn set(parts: &Parts, word: u64) {
        parts.0.store(7 << NUMBER_SHIFT | word, Ordering::Relaxed);
    }

    #[test]
    fn the_parts_are_the_whole() {
        for len in [
            1,
            4095,
            65536,
            65537,
            131072,
            200_001,
            1 << 20,
            (5 << 20) + 3,
        ] {
            let (parts, mut own) = begin(len);
            let (mut its, mut at) = (own, 0);
            for turn in 0.. {
                let part = match turn % 2 {
                    0 => parts.take(&mut own).unwrap(),
                    _ => parts.hold(&mut its).unwrap(),
                };
                let Some(part) = part else {
                    break;
                };
                assert_eq!(part.from, at, "{len}");
                assert!(part.len > 0 && part.len <= MOST * UNIT, "{len}");
                assert!(
                    part.len >= (LEAST * UNIT).min(len / 2) || at + part.len == len,
                    "{len}"
                );
                at += part.len;
                if turn % 2 == 1 {
                    assert_eq!(parts.progress(&own), Ok(Progress::Held));
                    assert_eq!(parts.give_back(&its, true), at == len);
                }
            }
            assert_eq!(at, len);
            assert_eq!(parts.progress(&own), Ok(Progress::Over));
            assert_eq!(own.was_shared(), len > UNIT, "{len}");
        }
        assert!(Job::new(1, usize::MAX).is_none());
    }

    #[test]
    fn a_helper_that_comes_late_finds_nothing() {
        let (parts, mut job) = begin(100);
        let mut its = job;
        assert_eq!(parts.take(&mut job), Ok(Some(Part { from: 0, len: 100 })));
        assert_eq!(parts.hold(&mut its), Ok(None));
        let next = Job::new(8, 1000).unwrap();
        parts.open(&next);
        let mut its = Job::new(7, 100).unwrap();
        assert_eq!(parts.hold(&mut its), Ok(None));
        assert!(!parts.give_back(&its, false));
        assert_eq!(parts.progress(&next), Ok(Progress::Open));
        // Nobody but the owner gives numbers.
        assert_eq!(parts.take(&mut job), Err(Garbage));
        assert_eq!(parts.progress(&job), Err(Garbage));
    }

    #[test]
    fn a_part_that_fails_ends_the_job() {
        let (parts, mut job) = begin(1 << 20);
        let mut its = job;
        parts.hold(&mut its).unwrap().unwrap();
        assert!(parts.give_back(&its, false));
        assert_eq!(parts.take(&mut job), Ok(None));
        assert_eq!(parts.hold(&mut its), Ok(None));
        assert_eq!(parts.progress(&job), Ok(Progress::Failed));
    }

    #[test]
    fn of_a_closed_job_nothing_is_taken_and_what_is_held_is_waited_for() {
        let (parts, mut job) = begin(1 << 20);
        let mut its = job;
        parts.hold(&mut its).unwrap().unwrap();
        parts.close(&job);
        assert_eq!(parts.progress(&job), Ok(Progress::Held));
        assert_eq!(parts.take(&mut job), Ok(None));
        assert!(parts.give_back(&its, true));
        assert_eq!(parts.progress(&job), Ok(Progress::Over));
    }

    #[test]
    fn what_cannot_be_is_garbage() {
        let (parts, mut job) = begin(1 << 20);
        parts.take(&mut job).unwrap().unwrap();
        for word in [0, 1, 257, TAKEN] {
            set(&parts, word);
            assert_eq!(parts.take(&mut job.clone()), Err(Garbage), "{word}");
            assert_eq!(parts.hold(&mut job.clone()), Err(Garbage), "{word}");
        }
        // That it is held, or all was taken, may be.
        set(&parts, HELD | 256);
        assert_eq!(parts.take(&mut job.clone()), Ok(None));
        assert_eq!(parts.progress(&job), Ok(Progress::Held));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU64;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    use super::*;

    /// Parts are of 3, 2 and 1 of them.
    const BLOCKS: usize = 6;
    const BLOCK: usize = LEAST * UNIT / 2;

    struct Model {
        parts: Parts<AtomicU64>,
        blocks: Vec<UnsafeCell<u32>>,
        word: Notify,
    }

    impl Model {
        fn carry_out(&self, part: Part) {
            for block in part.from / BLOCK..(part.from + part.len) / BLOCK {
                // SAFETY: loom finds any access that nothing orders before this one.
                self.blocks[block].with_mut(|place| unsafe { *place += 1 });
            }
        }
    }

    /// The owner, which sleeps when it has to wait, finds each block done once.
    #[test]
    fn loom_two_share_a_job() {
        loom::model(|| {
            let job = Job::new(1, BLOCKS * BLOCK).unwrap();
            let model = Arc::new(Model {
                parts: Parts(AtomicU64::new(0)),
                blocks: (0..BLOCKS).map(|_| UnsafeCell::new(0)).collect(),
                word: Notify::new(),
            });
            model.parts.open(&job);
            let helper = {
                let (model, mut job) = (model.clone(), job);
                thread::spawn(move || {
                    while let Some(part) = model.parts.hold(&mut job).unwrap() {
                        model.carry_out(part);
                        if model.parts.give_back(&job, true) {
                            model.word.notify();
                        }
                    }
                })
            };
            let mut own = job;
            while let Some(part) = model.parts.take(&mut own).unwrap() {
                model.carry_out(part);
            }
            while model.parts.progress(&own) == Ok(Progress::Held) {
                model.word.wait();
            }
            assert_eq!(model.parts.progress(&own), Ok(Progress::Over));
            for block in &model.blocks {
                // SAFETY: as above.
                assert_eq!(block.with(|place| unsafe { *place }), 1);
            }
            helper.join().unwrap();
        });
    }
}
