// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that two processes of one host share instead of a socket: a ring in each direction, and flags by which each
//! side announces that it sleeps. docs/wire/shm.md.
//!
//! A peer that writes garbage there, stops, or dies at any instruction harms only this connection: see `sync::ring` and
//! `sys::mapping`. `sync::segment` defines the layout of words and rings.
//!
//! This file has the channel, and how its sides sleep and wake each other. `send` and `receive` use the rings,
//! `peer_process` copies from and to the memory of the other side, `peer_memory` permits that, and `split` shares the
//! copy of a large message.

mod peer_memory;
mod peer_process;
mod receive;
mod send;
mod split;
use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::copy_mode::CopyMode;
use crate::idle::Idle;
use sync::copy::Ways;
use sync::doorbell::Rung;
use sync::ring::{Consumer, Producer};
use sync::segment::{SPLITS, Segment, Words};

pub use peer_memory::{Places, len_of};
use peer_process::PeerProcess;
pub use split::{Help, MIN_SHARED};

/// One side of a channel.
pub struct ShmChannel {
    tx: Producer,
    rx: Consumer,
    ways: Ways,
    copy_mode: CopyMode,
    process: PeerProcess,
    /// Room in bytes that this side needs before it continues to write.
    pub wants: usize,
    /// Activity of the other side.
    pub idle: Idle,
    /// The last sleep of the other side for which this side has rung the doorbell.
    rung: Rung,
    /// The other side is gone; the records that it has written can still be read.
    pub ended: bool,
    /// Limit for reading after the end of the other side: one ring. Behind it are old bytes, which a hostile peer could
    /// present as records.
    last: u64,
    /// The other side has written what no correct peer writes.
    pub broken: bool,
    words: Words,
    /// Which of the local split words are in use, and how many copies were split so far.
    sharing: [bool; SPLITS],
    shared: u32,
    /// Consecutive messages of which the other side could have copied parts and did not.
    absent: u32,
    /// The other side cannot write to local memory, so it copies no parts.
    pub copies_alone: bool,
}

/// Maximum size of a record in bytes: a message up to this size fits into one.
pub const RECORD: usize = 16 * 1024;

impl ShmChannel {
    /// Creates memory with two rings of up to `ring` bytes each.
    pub fn make(ring: usize) -> io::Result<(ShmChannel, OwnedFd)> {
        let (segment, fd) = Segment::create(ring)?;
        Ok((ShmChannel::over(segment), fd))
    }

    /// Maps the memory that a peer has created; `most` bytes of each ring are used.
    pub fn take(fd: &OwnedFd, ring: usize, most: usize) -> io::Result<ShmChannel> {
        Ok(ShmChannel::over(Segment::accept(fd, ring, most)?))
    }

    fn over(segment: Segment) -> ShmChannel {
        let Segment { tx, rx, words } = segment;
        // Arm before the other side can write: it has to ring until this side polls.
        words.own().doorbell().arm();
        ShmChannel {
            tx,
            rx,
            ways: Ways::default(),
            copy_mode: CopyMode::new(),
            process: PeerProcess::default(),
            wants: MIN_SPLIT,
            idle: Idle::default(),
            rung: Rung::default(),
            ended: false,
            last: u64::MAX,
            broken: false,
            words,
            sharing: [false; SPLITS],
            shared: 0,
            absent: 0,
            copies_alone: false,
        }
    }

    /// Returns the process at the other end.
    #[inline]
    pub fn process(&self) -> &PeerProcess {
        &self.process
    }

    pub fn process_mut(&mut self) -> &mut PeerProcess {
        &mut self.process
    }

    /// Describes for the log how the connection copies data.
    pub fn words(&self) -> &'static str {
        match self.process.is_reached() {
            true => "shared memory, large messages in one copy",
            false => "shared memory, large messages through the ring",
        }
    }

    /// Whether this side has to ring the doorbell after a write. True once for each sleep of the other side.
    #[inline(always)]
    pub fn must_ring(&mut self) -> bool {
        self.words.other().doorbell().must_ring(&mut self.rung)
    }

    /// Announces that this side may call `arm` later. The caller runs a barrier on all processes afterwards.
    pub fn expect_sleep(&self) {
        self.words.own().doorbell().expect();
    }

    /// Makes the other side ring the doorbell from now on. The caller polls once more for earlier records.
    pub fn arm(&self) {
        self.words.own().doorbell().arm();
    }

    /// Handles a doorbell ring. If this side still sleeps, the next record rings again.
    pub fn arm_again(&self) {
        if self.words.own().doorbell().is_armed() {
            self.arm();
        }
    }

    /// Leaves this side's ring to its doorbell. Returns false if a record has come, so the ring is still polled. The
    /// caller has called `expect_sleep` before.
    #[must_use]
    pub fn rely_on_doorbell(&self) -> bool {
        self.arm();
        let is_quiet = !self.has_events();
        if !is_quiet {
            self.disarm(true);
        }
        is_quiet
    }

    /// Starts polling on this side. `expected`: `expect_sleep` was called before.
    pub fn disarm(&self, expected: bool) {
        self.words.own().doorbell().disarm(expected);
    }

    /// Returns the bytes of records written and taken, in whole cache lines.
    pub fn moved(&self) -> (u64, u64) {
        (self.tx.published(), self.rx.taken())
    }

    /// Ends the direct copies of a connection that is over: waits up to `CLOSE_TIMEOUT` for a copy in progress and
    /// permits no new one, because closing a region would not wait for it.
    #[cold]
    pub fn end_copies(&self) {
        // Do not wait a second time for the same peer.
        if self.words.own().in_use().has_left() {
            return;
        }
        self.leave();
        let until = Instant::now() + CLOSE_TIMEOUT;
        let others = self.words.other().in_use();
        while others.is_any() && self.process.is_alive() && Instant::now() < until {
            std::thread::yield_now();
        }
    }

    /// Handles the end of the other side.
    pub fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.last = self
                .rx
                .position()
                .saturating_add(self.longest_rest() as u64);
        }
    }
}

/// Time limit for a peer to finish a copy from or to a region that is being closed.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// With less room than this, no part of a frame that needs several records is written.
const MIN_SPLIT: usize = 2048;

#[cfg(test)]
mod tests;
