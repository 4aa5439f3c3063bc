// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decides which small frames of a connection are written at once, and which are collected and sent together.
//!
//! A system call costs as much as copying fifty frames, so frames that a program posts in a row are collected. But
//! whether another frame follows is unknown. So the first few frames of a row are written at once, and so is any frame
//! after a pause as long as a system call. After a long row the next one is expected to be long, too: only its first
//! frame is written at once then. `engine::flusher` limits how long a frame is held back.

use sys::clock::ticks;

/// Each connection has one, so the numbers are short. They may wrap around; then a frame is written too early or
/// collected without need.
#[derive(Default)]
pub struct Pace {
    /// The poll of the application in which the row began.
    poll: u32,
    /// End of the last write, in `UNIT`s. (A write may take longer than the pause that follows.)
    written: u32,
    /// Frames of the row that were not written at once.
    gathered: u16,
    /// Frames of the row that may still be written at once.
    left: u8,
}

/// Frames of a row that are written at once after the first.
const FEW: u8 = 7;
/// Collected frames that are written together, whatever their size.
const MANY: u16 = 256;
/// Length of a unit in ticks, as a power of two: about 0.2 to 1 us.
const UNIT: u32 = 10;
/// A pause, in units.
const PAUSE: u32 = 10;

impl Pace {
    /// Whether the next frame is written at once if no frame is waiting. `poll` is the number of the application's last
    /// poll.
    #[inline(always)]
    pub fn writes(&mut self, poll: u64) -> bool {
        let poll = poll as u32;
        if self.poll != poll {
            self.poll = poll;
            self.left = match self.gathered > FEW.into() {
                true => 0,
                false => FEW,
            };
            self.gathered = 0;
        } else if self.left > 0 {
            self.left -= 1;
        } else if now().wrapping_sub(self.written) < PAUSE {
            return false;
        }
        true
    }

    /// Records that something was written.
    #[inline(always)]
    pub fn wrote(&mut self) {
        self.written = now();
    }

    /// Records that a frame was held back.
    #[inline(always)]
    pub fn gather(&mut self) {
        self.gathered = self.gathered.wrapping_add(1);
    }

    /// Whether the collected frames should be written now. Called after each frame.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.gathered.is_multiple_of(MANY)
    }
}

#[inline(always)]
fn now() -> u32 {
    (ticks() >> UNIT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pace: &mut Pace, poll: u64, frames: usize) -> usize {
        let mut written = 0;
        for _ in 0..frames {
            // Prevents pauses, however slow the machine is.
            pace.wrote();
            match pace.writes(poll) {
                true => written += 1,
                false => pace.gather(),
            }
        }
        written
    }

    #[test]
    fn a_short_row_is_written_at_once() {
        let mut pace = Pace::default();
        for poll in 1..10 {
            assert_eq!(row(&mut pace, poll, 8), 8);
        }
    }

    #[test]
    fn a_long_row_gathers_and_the_next_one_sooner() {
        let mut pace = Pace::default();
        assert_eq!(row(&mut pace, 1, 64), 8);
        assert_eq!(row(&mut pace, 2, 64), 1);
        assert_eq!(row(&mut pace, 3, 2), 1);
        assert_eq!(row(&mut pace, 4, 64), 8);
    }

    #[test]
    fn after_a_pause_a_frame_is_written_at_once() {
        let mut pace = Pace::default();
        assert_eq!(row(&mut pace, 1, 64), 8);
        pace.written = now().wrapping_sub(PAUSE);
        assert!(pace.writes(1));
    }

    #[test]
    fn frames_leave_when_many_have_gathered() {
        let mut pace = Pace::default();
        let mut full = 0;
        for _ in 0..2 * MANY {
            pace.gather();
            full += u16::from(pace.is_full());
        }
        assert_eq!(full, 2);
    }
}
