// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames that are held back until the next poll, for the thread that flushes them.

use std::sync::Arc;

use crate::connector::Connector;
use crate::transport::{DomainOf, Stream};
use engine::flusher::Held;
use engine::transport::Batches;

impl<N: Connector> Batches for Stream<N> {
    fn held_back(&self) -> Option<&Arc<Held>> {
        Some(&self.traffic.common.held_back)
    }

    fn end_holding(&self) {
        if !self.traffic.holds_back_frames() {
            self.traffic.common.held_back.end();
        }
    }

    #[inline]
    fn hold(&mut self) {
        if self.traffic.holds_back_frames() {
            self.traffic.common.hold();
        }
    }

    #[inline]
    fn must_flush(&self) -> bool {
        self.traffic.common.is_unserved && !self.traffic.common.dirty.is_empty()
    }

    #[inline]
    fn flush(&mut self, domain: &mut DomainOf<N>) {
        if !self.traffic.common.dirty.is_empty() {
            self.traffic.flush_dirty(domain);
            self.settle(domain);
            // A peer may have waited for this, and perhaps no event will make this side poll again.
            while !self.traffic.common.stalled.is_empty() {
                self.traffic.retry_stalled(domain);
                self.settle(domain);
                if self.traffic.common.dirty.is_empty() {
                    break;
                }
                self.traffic.flush_dirty(domain);
                self.settle(domain);
            }
            if !self.traffic.common.held.is_empty() {
                self.traffic.retry_held(domain);
                self.settle(domain);
            }
        }
    }

    #[inline]
    fn holds_back(&self) -> bool {
        !self.traffic.common.dirty.is_empty()
    }
}
