// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A copy that two processes do together, part by part: its owner, and a helper in the other process. A side takes a
//! part by changing one shared word.
//!
//! The owner opens the copy and sends its number to the helper. Each side takes half of the units that are still free,
//! so that both finish at about the same time after few steps. The word also has a bit that is set while the helper
//! works on a part, and a bit for a failed part. The copy is over when all units were taken and the helper has given
//! back its part. A helper that comes late finds another number, or nothing to take.
//!
//! A hostile process can mark parts as taken, or keep one held for ever. The other side then does not copy those parts,
//! or waits. A word that goes back, or changes so fast that nothing can be taken, is `Garbage`.
#![cfg_attr(not(loom), forbid(unsafe_code))]

use core::sync::atomic::{AtomicU64, Ordering};

use super::atomic::Exchange;
use super::ring::Garbage;

/// The shared word of one copy at a time: its number in the upper 32 bits, then a bit for a failed part, a bit that is
/// set while the helper holds a part, and the number of units that were taken.
#[derive(Default)]
#[repr(transparent)]
pub struct SplitWord<A = AtomicU64>(A);

const NUMBER_SHIFT: u32 = 32;
const FAILED: u64 = 1 << 31;
const HELD: u64 = 1 << 30;
const TAKEN: u64 = HELD - 1;

/// All parts except the last consist of whole units.
const UNIT: usize = 4096;
/// Least and greatest size of a part, in units. A smaller part is not worth a system call, unless the whole copy is
/// short. A larger part would keep a side from its other work for too long.
const LEAST: usize = 64 * 1024 / UNIT;
const MOST: usize = 1024 * 1024 / UNIT;
/// Failed attempts to change the word after which the peer counts as hostile: each failure means that it took
/// something.
const MAX_RETRIES: u32 = 4096;

/// The view that one side has of a copy.
#[derive(Clone, Copy, Debug)]
pub struct SplitCopy {
    pub number: u32,
    len: usize,
    /// Units that were taken when the word was last read; `own`: units that this side has taken.
    taken: u64,
    own: u64,
}

/// A range of bytes that a side has taken and has to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub from: usize,
    pub len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There are free units.
    Open,
    /// The helper works on a part.
    Held,
    /// All parts were copied.
    Over,
    /// The helper failed to copy a part.
    Failed,
}

impl SplitCopy {
    /// Returns `None` for a length that the word cannot count.
    pub fn new(number: u32, len: usize) -> Option<SplitCopy> {
        let copy = SplitCopy {
            number,
            len,
            taken: 0,
            own: 0,
        };
        (copy.units() <= TAKEN).then_some(copy)
    }

    /// Returns true if the other side has taken parts, too. To be called when all units were taken.
    pub fn was_shared(&self) -> bool {
        self.own < self.units()
    }

    fn units(&self) -> u64 {
        self.len.div_ceil(UNIT) as u64
    }

    fn is_in(&self, word: u64) -> bool {
        word >> NUMBER_SHIFT == u64::from(self.number)
    }

    /// Returns half of the units behind the first `taken`, within the limits of a part.
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

impl<A: Exchange> SplitWord<A> {
    /// Owner: begins the copy. The helper of the previous copy has given back its part.
    pub fn open(&self, copy: &SplitCopy) {
        self.0
            .store(u64::from(copy.number) << NUMBER_SHIFT, Ordering::Relaxed);
    }

    /// Owner: takes the next part, if there is one and none failed.
    pub fn take(&self, copy: &mut SplitCopy) -> Result<Option<Part>, Garbage> {
        match self.take_as(copy, 0)? {
            Some(part) => Ok(part),
            // Only the owner sets the number.
            None => Err(Garbage),
        }
    }

    /// Helper: as `take`; `None` also if the word belongs to another copy by now. The helper must give the part back.
    pub fn hold(&self, copy: &mut SplitCopy) -> Result<Option<Part>, Garbage> {
        Ok(self.take_as(copy, HELD)?.flatten())
    }

    /// Takes a part with the bits `held`; the outer `None` means that the word belongs to another copy.
    fn take_as(&self, copy: &mut SplitCopy, held: u64) -> Result<Option<Option<Part>>, Garbage> {
        for _ in 0..MAX_RETRIES {
            let word = self.0.load(Ordering::Acquire);
            if !copy.is_in(word) {
                return Ok(None);
            }
            let taken = word & TAKEN;
            if taken < copy.taken || taken > copy.units() {
                return Err(Garbage);
            }
            copy.taken = taken;
            if taken == copy.units() || word & FAILED != 0 {
                return Ok(Some(None));
            }
            let units = copy.half(taken);
            if self.change(word, (word + units) | held) {
                copy.taken = taken + units;
                copy.own += units;
                return Ok(Some(Some(copy.part(taken, units))));
            }
        }
        Err(Garbage)
    }

    /// Helper: ends its part; `well`: the part was copied. Returns true if the owner may be waiting for this.
    pub fn give_back(&self, copy: &SplitCopy, well: bool) -> bool {
        for _ in 0..MAX_RETRIES {
            let word = self.0.load(Ordering::Relaxed);
            if !copy.is_in(word) {
                return false;
            }
            let failed = if well { 0 } else { FAILED };
            // Release: the part was copied before. Pairs with the load in `progress`.
            if self.change(word, (word & !HELD) | failed) {
                return !well || word & TAKEN == copy.units();
            }
        }
        true
    }

    /// Owner: returns how far the copy has come.
    pub fn progress(&self, copy: &SplitCopy) -> Result<Progress, Garbage> {
        let word = self.0.load(Ordering::Acquire);
        if !copy.is_in(word) {
            return Err(Garbage);
        }
        Ok(match word {
            _ if word & HELD != 0 => Progress::Held,
            _ if word & FAILED != 0 => Progress::Failed,
            _ if word & TAKEN == copy.units() => Progress::Over,
            _ => Progress::Open,
        })
    }

    /// Owner: keeps the helper from taking further parts.
    pub fn close(&self, copy: &SplitCopy) {
        for _ in 0..MAX_RETRIES {
            let word = self.0.load(Ordering::Relaxed);
            if !copy.is_in(word) || self.change(word, (word & !TAKEN) | copy.units()) {
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

    fn begin(len: usize) -> (SplitWord, SplitCopy) {
        let (split, copy) = (SplitWord::default(), SplitCopy::new(7, len).unwrap());
        split.open(&copy);
        (split, copy)
    }

    fn set(split: &SplitWord, word: u64) {
        split.0.store(7 << NUMBER_SHIFT | word, Ordering::Relaxed);
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
            let (split, mut own) = begin(len);
            let (mut its, mut at) = (own, 0);
            for turn in 0.. {
                let part = match turn % 2 {
                    0 => split.take(&mut own).unwrap(),
                    _ => split.hold(&mut its).unwrap(),
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
                    assert_eq!(split.progress(&own), Ok(Progress::Held));
                    assert_eq!(split.give_back(&its, true), at == len);
                }
            }
            assert_eq!(at, len);
            assert_eq!(split.progress(&own), Ok(Progress::Over));
            assert_eq!(own.was_shared(), len > UNIT, "{len}");
        }
        assert!(SplitCopy::new(1, usize::MAX).is_none());
    }

    #[test]
    fn a_helper_that_comes_late_finds_nothing() {
        let (split, mut copy) = begin(100);
        let mut its = copy;
        assert_eq!(split.take(&mut copy), Ok(Some(Part { from: 0, len: 100 })));
        assert_eq!(split.hold(&mut its), Ok(None));
        let next = SplitCopy::new(8, 1000).unwrap();
        split.open(&next);
        let mut its = SplitCopy::new(7, 100).unwrap();
        assert_eq!(split.hold(&mut its), Ok(None));
        assert!(!split.give_back(&its, false));
        assert_eq!(split.progress(&next), Ok(Progress::Open));
        // Only the owner sets the number.
        assert_eq!(split.take(&mut copy), Err(Garbage));
        assert_eq!(split.progress(&copy), Err(Garbage));
    }

    #[test]
    fn a_part_that_fails_ends_the_job() {
        let (split, mut copy) = begin(1 << 20);
        let mut its = copy;
        split.hold(&mut its).unwrap().unwrap();
        assert!(split.give_back(&its, false));
        assert_eq!(split.take(&mut copy), Ok(None));
        assert_eq!(split.hold(&mut its), Ok(None));
        assert_eq!(split.progress(&copy), Ok(Progress::Failed));
    }

    #[test]
    fn of_a_closed_job_nothing_is_taken_and_what_is_held_is_waited_for() {
        let (split, mut copy) = begin(1 << 20);
        let mut its = copy;
        split.hold(&mut its).unwrap().unwrap();
        split.close(&copy);
        assert_eq!(split.progress(&copy), Ok(Progress::Held));
        assert_eq!(split.take(&mut copy), Ok(None));
        assert!(split.give_back(&its, true));
        assert_eq!(split.progress(&copy), Ok(Progress::Over));
    }

    #[test]
    fn what_cannot_be_is_garbage() {
        let (split, mut copy) = begin(1 << 20);
        split.take(&mut copy).unwrap().unwrap();
        for word in [0, 1, 257, TAKEN] {
            set(&split, word);
            assert_eq!(split.take(&mut copy.clone()), Err(Garbage), "{word}");
            assert_eq!(split.hold(&mut copy.clone()), Err(Garbage), "{word}");
        }
        // These values are possible: the helper holds a part, and all units are taken.
        set(&split, HELD | 256);
        assert_eq!(split.take(&mut copy.clone()), Ok(None));
        assert_eq!(split.progress(&copy), Ok(Progress::Held));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU64;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    use super::*;

    /// Number of blocks. The parts have 3, 2 and 1 of them.
    const BLOCKS: usize = 6;
    const BLOCK: usize = LEAST * UNIT / 2;

    struct Model {
        split: SplitWord<AtomicU64>,
        blocks: Vec<UnsafeCell<u32>>,
        word: Notify,
    }

    impl Model {
        fn carry_out(&self, part: Part) {
            for block in part.from / BLOCK..(part.from + part.len) / BLOCK {
                // SAFETY: loom finds any access that is not ordered before this one.
                self.blocks[block].with_mut(|place| unsafe { *place += 1 });
            }
        }
    }

    /// The owner, which sleeps when it has to wait, finds that each block was copied once.
    #[test]
    fn loom_two_share_a_job() {
        loom::model(|| {
            let copy = SplitCopy::new(1, BLOCKS * BLOCK).unwrap();
            let model = Arc::new(Model {
                split: SplitWord(AtomicU64::new(0)),
                blocks: (0..BLOCKS).map(|_| UnsafeCell::new(0)).collect(),
                word: Notify::new(),
            });
            model.split.open(&copy);
            let helper = {
                let (model, mut copy) = (model.clone(), copy);
                thread::spawn(move || {
                    while let Some(part) = model.split.hold(&mut copy).unwrap() {
                        model.carry_out(part);
                        if model.split.give_back(&copy, true) {
                            model.word.notify();
                        }
                    }
                })
            };
            let mut own = copy;
            while let Some(part) = model.split.take(&mut own).unwrap() {
                model.carry_out(part);
            }
            while model.split.progress(&own) == Ok(Progress::Held) {
                model.word.wait();
            }
            assert_eq!(model.split.progress(&own), Ok(Progress::Over));
            for block in &model.blocks {
                // SAFETY: as above.
                assert_eq!(block.with(|place| unsafe { *place }), 1);
            }
            helper.join().unwrap();
        });
    }
}
