// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Rings that are not used any more give their memory back: see `sync::ring`. While a ring of this process has long
//! laps, polls visit the connections once a second. Without such rings there are no visits, and neither if peers do not
//! take what is in their rings. No timer wakes a sleeping process for a visit: its rings shrink after it has woken.

use core::time::Duration;
use std::time::Instant;

use crate::connector::Connector;
use crate::peers::Peers;
use crate::poller::Poller;
use crate::shm_host::ShmHost;
use sync::ring::{Shrunk, growths};

/// Time without traffic after which a ring is made smaller.
const IDLE: Duration = Duration::from_secs(1);
/// Number of visits without any progress after which they end.
const VISITS: u8 = 8;
/// Rings that one visit changes at most: each costs a system call.
const MOST: usize = 64;

/// Whether rings with long laps are being watched.
#[derive(Default)]
pub(super) struct Growth {
    /// The value of `growths` when the visits were started.
    seen: u32,
    next_visit: Option<Instant>,
    /// Visits that are left.
    visits: u8,
}

impl ShmHost {
    /// Starts visits if rings got longer laps. Returns whether one is due.
    #[inline]
    pub(crate) fn is_visit_due(&mut self, poller: &Poller) -> bool {
        let seen = growths();
        if self.growth.seen != seen && self.count > 0 {
            self.growth.seen = seen;
            self.growth.visits = VISITS;
            self.growth.next_visit.get_or_insert(poller.now() + IDLE);
        }
        let next = self.growth.next_visit;
        next.is_some_and(|at| poller.now() >= at)
    }

    /// Visits all rings, and makes those smaller that were not used since the last visit.
    #[cold]
    pub(crate) fn shrink_rings<N: Connector>(&mut self, peers: &mut Peers<N>, poller: &Poller) {
        let (mut moved, mut waits) = (0, false);
        for (_, conn) in peers.iter_mut() {
            if !conn.session.tx.out.frames().is_empty() || conn.session.is_over() {
                continue;
            }
            match conn.link.shrink() {
                Shrunk::Short => {}
                Shrunk::Waits => waits = true,
                Shrunk::Used | Shrunk::Moved => moved += 1,
            }
            if moved >= MOST {
                break;
            }
        }
        self.growth.visits = match moved {
            0 => self.growth.visits.saturating_sub(1),
            _ => VISITS,
        };
        let goes_on = moved > 0 || waits && self.growth.visits > 0;
        self.growth.next_visit = goes_on.then(|| poller.now() + IDLE);
    }
}
