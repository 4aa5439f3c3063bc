// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of one completion queue: fi_cq(3).
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::engine::cq_ring::Ring;
use crate::engine::signal::Signal;
use crate::engine::wait::Wait;
use crate::ffi::ops::cq::CqErr;
use crate::ffi::peer::PeerCq;
use crate::sys::probe;

/// One completion queue.
pub struct CqState {
    pub ring: Ring,
    pub wait: Arc<Wait>,
    pub signal: Signal,
    /// Keeps `err_data` of the last error that was read.
    pub last_error: Option<CqErr>,
    /// It stands for the queue of another provider, which takes all entries: fi_peer(3).
    pub owner: Option<Arc<PeerCq>>,
}

/// Endpoints of a queue stop taking messages from the wire when it holds this many times what it was made for, and at
/// least `HIGH_WATER` entries: an application that does not read its queue costs memory up to there, not without end.
const HIGH_WATER_FACTOR: usize = 4;
const HIGH_WATER: usize = 65536;

impl CqState {
    #[inline(always)]
    pub(super) fn is_over(&self) -> bool {
        let entries = self.ring.len();
        entries >= HIGH_WATER && entries >= self.ring.capacity().saturating_mul(HIGH_WATER_FACTOR)
    }

    // On the path of every message: a call of its own would cost each of them some instructions.
    #[inline(always)]
    pub(super) fn push(&mut self, words: &[u64; 6], source: u64) {
        probe::complete(words[0], 0, words[2]);
        self.ring.push(words, source);
        self.wait.notify();
    }

    #[cold]
    pub(super) fn push_error(&mut self, error: CqErr) {
        let (context, len) = (error.context as u64, error.len as u64);
        probe::complete(context, error.err.unsigned_abs().into(), len);
        self.ring.push_err(error);
        self.wait.notify();
    }
}
