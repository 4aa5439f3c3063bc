// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that two processes of one host share in place of a socket: a ring in each direction, and flags by which each
//! says that it sleeps. docs/wire/shm.md.
//!
//! A peer that writes garbage there, stops, or dies at any instruction does harm to this connection only: see
//! `sync::ring` and `sys::mapping`. `sync::segment` knows where words and rings lie.
//!
//! Here: the channel, and how its sides sleep and wake each other. `send` and `receive` use the rings, `peer_memory`
//! copies from and to the other process, `split` shares the copy of a large message with it.
#![forbid(unsafe_code)]

mod peer_memory;
mod receive;
mod send;
mod split;
use std::io;
use std::os::fd::OwnedFd;

use crate::engine::stream::copy_mode::CopyMode;
use crate::engine::stream::idle::Idle;
use crate::engine::stream::process_probe::ProcessProbe;
use crate::sync::copy::Ways;
use crate::sync::doorbell::Rung;
use crate::sync::region_table::TableView;
use crate::sync::ring::{Consumer, Producer};
use crate::sync::segment::{SPLITS, Segment, Words};

pub use peer_memory::{Places, len_of};
pub use split::{Help, Helping, MIN_SHARED};

/// One side of a channel.
pub struct ShmChannel {
    tx: Producer,
    rx: Consumer,
    ways: Ways,
    copy_mode: CopyMode,
    /// The process at the other end, if its memory can be read and written.
    process: Option<i32>,
    probe: ProcessProbe,
    /// What it shows of its registered memory.
    directory: Option<TableView>,
    /// Bytes that there has to be room for before this side goes on to write.
    pub wants: usize,
    /// When the other side has written last.
    pub idle: Idle,
    /// The last sleep of the other side for which this side has rung its doorbell.
    rung: Rung,
    /// The other side is gone; what it has written can still be read.
    pub ended: bool,
    /// How far can be read then: one ring. What lies behind are old bytes, which a hostile peer presents as records.
    last: u64,
    /// The other side wrote what no correct peer writes.
    pub broken: bool,
    words: Words,
    /// Which of our split words are in use, and how many copies were split so far.
    sharing: [bool; SPLITS],
    shared: u32,
    /// A message of ours that the other side fetches, of which this side may copy parts.
    pub helping: Option<Helping>,
    /// Messages in a row of which the other side could have copied parts, and did not.
    absent: u32,
    /// The other side cannot write to our memory: it copies no parts.
    pub copies_alone: bool,
}

/// Bytes of one record at most: a message up to here goes in one.
pub const RECORD: usize = 16 * 1024;

impl ShmChannel {
    /// Memory with two rings of up to `ring` bytes each.
    pub fn make(ring: usize) -> io::Result<(ShmChannel, OwnedFd)> {
        let (segment, fd) = Segment::create(ring)?;
        Ok((ShmChannel::over(segment), fd))
    }

    /// The memory that a peer has made, of whose rings `most` bytes each are to be used.
    pub fn take(fd: &OwnedFd, ring: usize, most: usize) -> io::Result<ShmChannel> {
        Ok(ShmChannel::over(Segment::accept(fd, ring, most)?))
    }

    fn over(segment: Segment) -> ShmChannel {
        let Segment { tx, rx, words } = segment;
        // Before the other side can write: until this side polls, it is to be woken.
        words.own().doorbell().arm();
        ShmChannel {
            tx,
            rx,
            ways: Ways::default(),
            copy_mode: CopyMode::new(),
            process: None,
            probe: ProcessProbe::default(),
            directory: None,
            wants: MIN_SPLIT,
            idle: Idle::default(),
            rung: Rung::default(),
            ended: false,
            last: u64::MAX,
            broken: false,
            words,
            sharing: [false; SPLITS],
            shared: 0,
            helping: None,
            absent: 0,
            copies_alone: false,
        }
    }

    /// For the log: what the connection uses.
    pub fn words(&self) -> &'static str {
        match self.reaches() {
            true => "shared memory, large messages in one copy",
            false => "shared memory, large messages through the ring",
        }
    }

    /// Whether this side has to ring the doorbell for what it has written. True once for each sleep of the other side.
    #[inline(always)]
    pub fn must_ring(&mut self) -> bool {
        self.words.other().doorbell().must_ring(&mut self.rung)
    }

    /// This side may `arm` at some time. The caller runs a barrier on all processes afterwards.
    pub fn expect_sleep(&self) {
        self.words.own().doorbell().expect();
    }

    /// From now on the other side rings the doorbell. The caller polls once more for what came before.
    pub fn arm(&self) {
        self.words.own().doorbell().arm();
    }

    /// The doorbell was rung. If this side still sleeps, the next record rings again.
    pub fn arm_again(&self) {
        if self.words.own().doorbell().is_armed() {
            self.arm();
        }
    }

    /// Leaves this side's ring to its doorbell. False: something has come, and the ring is polled on. `expect_sleep`
    /// was called before.
    #[must_use]
    pub fn leave_to_doorbell(&self) -> bool {
        self.arm();
        let is_quiet = !self.has_news();
        if !is_quiet {
            self.disarm(true);
        }
        is_quiet
    }

    /// This side polls. `expected`: `expect_sleep` was called before.
    pub fn disarm(&self, expected: bool) {
        self.words.own().doorbell().disarm(expected);
    }

    /// Bytes of records written and taken, which are whole lines.
    pub fn moved(&self) -> (u64, u64) {
        (self.tx.published(), self.rx.taken())
    }

    /// The other side is gone.
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

/// Less room than this is no room for the parts of what goes in several records.
const MIN_SPLIT: usize = 2048;

#[cfg(test)]
mod tests;
