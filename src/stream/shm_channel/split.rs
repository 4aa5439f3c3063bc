// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The channel's part of large messages that receiver and sender copy together. `session::told` and
//! `session::announced` have the messages.
//!
//! Two processors copy 1.5 times (64 KiB) to nearly twice (1 MiB) as fast as one. Each side takes half of the rest, so
//! both finish at the same time after few calls; parts of a fixed size would cost a call for each.

use std::time::{Duration, Instant};

use super::{Places, ShmChannel};
use base::IoVec;
use sync::ring::Garbage;
use sync::segment::place_of;
use sync::split_copy::{Progress, SplitCopy};

impl ShmChannel {
    /// Starts to fetch a message of this size together with the other side, if that can help now.
    pub fn begin_share(&mut self, len: usize) -> Option<SplitCopy> {
        let sleeps = self.words.other().doorbell().is_armed();
        if sleeps || self.copies_alone || !self.process.can_write() {
            return None;
        }
        // A busy peer copies no part, and smaller parts need more calls.
        if self.absent > 0 && len < LONG_WAY {
            self.absent += 1;
            if !self.absent.is_multiple_of(ASK_AGAIN) {
                return None;
            }
        }
        let place = self.sharing.iter().position(|busy| !busy)?;
        self.shared = self.shared.wrapping_add(1);
        let job = SplitCopy::new(self.shared << 1 | place as u32, len)?;
        self.sharing[place] = true;
        self.words.own_split(&job).open(&job);
        Some(job)
    }

    /// Fetches the parts that the other side does not copy; returns false if one could not be fetched.
    pub fn fetch_parts(
        &self,
        job: &mut SplitCopy,
        from: &Places,
        to: &IoVec,
    ) -> Result<bool, Garbage> {
        let parts = self.words.own_split(job);
        while let Some(part) = parts.take(job)? {
            if !self.process.copy_part(part, to.cursor(), *from, false) {
                parts.close(job);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the progress of a message that both sides are copying.
    pub fn progress_of(&self, job: &SplitCopy) -> Result<Progress, Garbage> {
        self.words.own_split(job).progress(job)
    }

    /// Ends the job: the message is here, or the other side copies no more of it.
    pub fn end_share(&mut self, job: &SplitCopy) {
        self.sharing[place_of(job)] = false;
        self.absent = match job.was_shared() {
            true => 0,
            false => self.absent.max(1),
        };
    }

    /// Revokes a job of both sides. Returns false if the other side does not finish the part that it copies.
    #[cold]
    pub fn take_back(&self, job: &SplitCopy, patience: Duration) -> bool {
        let parts = self.words.own_split(job);
        let until = Instant::now() + patience;
        parts.close(job);
        while parts.progress(job) == Ok(Progress::Held) && self.process.is_alive() {
            if Instant::now() > until {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Copies one part of a local message that the other side fetches.
    pub fn help(&self, job: &mut SplitCopy, from: &IoVec, to: &Places) -> Result<Help, Garbage> {
        let parts = self.words.other_split(job);
        if !self.process.can_write() {
            return Ok(Help::Over);
        }
        let Some(part) = parts.hold(job)? else {
            return Ok(Help::Over);
        };
        let copied = self.process.copy_part(part, from.cursor(), *to, true);
        Ok(match parts.give_back(job, copied) {
            true => Help::Last,
            false => Help::More,
        })
    }
}

/// Result of an attempt to copy a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Help {
    /// There may be more to do.
    More,
    /// The last part was copied, and the other side may wait for the frame that reports it.
    Last,
    /// There was nothing to do.
    Over,
}

/// Messages from this size on are copied by both sides.
pub const MIN_SHARED: usize = 64 * 1024;

/// Messages from this size on are always offered to the other side for a split copy. Below it, after a message of which
/// the other side copied no part, only one message in `ASK_AGAIN` is.
const LONG_WAY: usize = 512 * 1024;
const ASK_AGAIN: u32 = 8;
