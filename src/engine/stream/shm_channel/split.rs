// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages that receiver and sender copy together, as far as the channel knows of them.
//! `engine::stream::split_copy` says what becomes of the messages.
//!
//! Two processors copy 1.5 times (64 KiB) to nearly twice (1 MiB) as fast as one. Each takes half of what is left, so
//! both end at the same time after few calls; a fixed size costs a call for each.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::{Places, ShmChannel};
use crate::base::IoVec;
use crate::sync::ring::Garbage;
use crate::sync::segment::place_of;
use crate::sync::split_copy::{Progress, SplitCopy};

impl ShmChannel {
    /// Begins to fetch a message of so many bytes together with the other side, if that can help now.
    pub fn begin_share(&mut self, len: usize) -> Option<SplitCopy> {
        let sleeps = self.words.other().doorbell().is_armed();
        if sleeps || self.copies_alone || self.process.is_none() {
            return None;
        }
        // A side that does something else copies no part, and smaller parts are more calls.
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

    /// Fetches what the other side does not copy; false if something could not be.
    pub fn fetch_parts(
        &self,
        job: &mut SplitCopy,
        from: &Places,
        to: &IoVec,
    ) -> Result<bool, Garbage> {
        let parts = self.words.own_split(job);
        while let Some(part) = parts.take(job)? {
            if !self.copy_part(part, to.cursor(), *from, false) {
                parts.close(job);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How far a message has come that is fetched together.
    pub fn progress_of(&self, job: &SplitCopy) -> Result<Progress, Garbage> {
        self.words.own_split(job).progress(job)
    }

    /// The message is here, or the other side does no more for it.
    pub fn end_share(&mut self, job: &SplitCopy) {
        self.sharing[place_of(job)] = false;
        self.absent = match job.was_shared() {
            true => 0,
            false => self.absent.max(1),
        };
    }

    /// Takes back a message that is being fetched together: false if the other side does not let go of what it copies.
    #[cold]
    pub fn take_back(&self, job: &SplitCopy, patience: Duration) -> bool {
        let parts = self.words.own_split(job);
        let until = Instant::now() + patience;
        parts.close(job);
        while parts.progress(job) == Ok(Progress::Held) && self.is_alive() {
            if Instant::now() > until {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Copies one part of a message of ours that the other side fetches.
    pub fn help(&self, job: &mut SplitCopy, from: &IoVec, to: &Places) -> Result<Help, Garbage> {
        let parts = self.words.other_split(job);
        if self.process.is_none() {
            return Ok(Help::Over);
        }
        let Some(part) = parts.hold(job)? else {
            return Ok(Help::Over);
        };
        let copied = self.copy_part(part, from.cursor(), *to, true);
        Ok(match parts.give_back(job, copied) {
            true => Help::Last,
            false => Help::More,
        })
    }
}

/// A message of ours that the other side fetches, and where it goes.
pub struct Helping {
    pub index: u8,
    pub job: SplitCopy,
    pub to: Places,
}

/// What came of an attempt to help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Help {
    /// There may be more to do.
    More,
    /// The last part was done, and the other side may wait for the frame that says so.
    Last,
    /// There was nothing to do.
    Over,
}

/// Messages from this size on are copied by both.
pub const MIN_SHARED: usize = 64 * 1024;

/// From this size on the other side is always asked to copy parts. Below, if it copied none the last time, it is asked
/// for one message in `ASK_AGAIN`.
const LONG_WAY: usize = 512 * 1024;
const ASK_AGAIN: u32 = 8;
