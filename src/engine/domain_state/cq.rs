// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of one completion queue: fi_cq(3).

use std::sync::Arc;

use crate::cq_ring::Ring;
use crate::signal::Signal;
use crate::wait::Wait;
use object::ops::cq::CqErr;
use object::peer::PeerCq;
use sys::probe;

/// One completion queue.
pub struct CqState {
    pub ring: Ring,
    pub wait: Arc<Wait>,
    pub signal: Signal,
    /// The last error that was read, because the application may still use its `err_data`.
    pub last_error: Option<CqErr>,
    /// The provider that owns the queue and takes all entries, if this queue is only a stand-in: fi_peer(3).
    pub owner: Option<Arc<PeerCq>>,
}

/// Endpoints of a queue stop reading messages from the wire when the queue holds this multiple of its size, and at
/// least `HIGH_WATER` entries. This limits the memory that an application costs that does not read its queue.
const HIGH_WATER_FACTOR: usize = 4;
const HIGH_WATER: usize = 65536;

impl CqState {
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        let entries = self.ring.len();
        entries >= HIGH_WATER && entries >= self.ring.capacity().saturating_mul(HIGH_WATER_FACTOR)
    }

    // Inlined: every message comes through here, and a call would cost some instructions.
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
