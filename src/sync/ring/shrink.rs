// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Makes the laps of a ring short again that is not used any more, and gives its pages back to the system.
//!
//! The consumer polls the line behind the last record, so that line has to be among those that are kept. And it
//! publishes its head after a quarter of the lap that it has skipped last, so the last skip has to be in a short lap:
//! otherwise a producer with short laps could wait for a head that is not published. The producer therefore moves the
//! consumer to the start of the ring by a skip; an empty record and a second skip make the quarter short. (There are
//! more empty records if the consumer would not publish its head otherwise.) Each of these steps waits until the
//! consumer has followed. A ring that is used meanwhile keeps its laps.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use super::memory::Cells;
use super::{FIRST_LAP, Garbage, LINE, Producer};

/// State of making laps shorter.
#[derive(Default)]
pub struct Shrink {
    /// Number of bytes published or skipped when `shrink` last looked.
    tail: u64,
    /// Place of the last skip, by which the consumer knows the length of a lap.
    pub(super) skipped_at: usize,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrunk {
    /// Laps are short, or cannot be made shorter.
    Short,
    /// The ring is being used.
    Used,
    /// The consumer has not taken everything yet.
    Waits,
    /// The consumer has to take something, and may have to be woken up.
    Moved,
}

/// Number of times that rings of this process got longer laps. A change means that `Producer::shrink` has work.
pub fn growths() -> u32 {
    // Relaxed: only a hint.
    GROWTHS.load(Ordering::Relaxed)
}

pub(super) fn count_growth() {
    // Relaxed: only a hint.
    GROWTHS.fetch_add(1, Ordering::Relaxed);
}

static GROWTHS: AtomicU32 = AtomicU32::new(0);

impl<M: Cells> Producer<M> {
    /// Takes the next step towards short laps if nothing was published since the last call.
    pub fn shrink(&mut self) -> Result<Shrunk, Garbage> {
        if self.lap <= FIRST_LAP {
            return Ok(Shrunk::Short);
        }
        if self.tail != self.shrink.tail {
            self.shrink.tail = self.tail;
            return Ok(Shrunk::Used);
        }
        self.look_at_head()?;
        if self.seen != self.tail {
            return Ok(Shrunk::Waits);
        }
        let at = self.at();
        let is_near = at < FIRST_LAP - LINE;
        if is_near && self.shrink.skipped_at <= FIRST_LAP {
            return Ok(match self.memory.give_back(FIRST_LAP, self.lap) {
                true => self.use_short_laps(),
                false => Shrunk::Short,
            });
        }
        // The consumer publishes its head when it has moved by this much.
        let mut step = self.shrink.skipped_at.max(FIRST_LAP) / 4;
        if at > 0 {
            self.skip(self.mask + 1 - at);
            step = (at / 4).saturating_sub(self.mask + 1 - at);
        }
        self.free = self.untaken().min(self.rest_of_lap());
        // There is room for these records, because the consumer has taken everything up to the skip.
        let least = usize::from(at == 0 || !is_near);
        for _ in 0..step.div_ceil(LINE).max(least).min(self.free / LINE) {
            self.publish(0, 0);
        }
        self.shrink.tail = self.tail;
        Ok(Shrunk::Moved)
    }

    fn use_short_laps(&mut self) -> Shrunk {
        self.lap = FIRST_LAP;
        self.laps = 0;
        self.bodies.truncate(FIRST_LAP / LINE);
        self.free = self.untaken().min(self.rest_of_lap());
        Shrunk::Short
    }
}
