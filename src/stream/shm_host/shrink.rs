// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Rings that are not used any more give their memory back: see `sync::ring`. While a ring of this process has long
//! laps, a timer visits the connections once a second. Without such rings there is no timer, and neither if peers do
//! not take what is in their rings.

use core::time::Duration;

use crate::connector::Connector;
use crate::peers::Peers;
use crate::poller::{Due, Poller};
use crate::shm_host::ShmHost;
use sync::ring::{Shrunk, growths};

/// Time without traffic after which a ring is made smaller.
const IDLE: Duration = Duration::from_secs(1);
/// Number of visits without any progress after which the timer ends.
const VISITS: u8 = 8;
/// Rings that one visit changes at most: each costs a system call.
const MOST: usize = 64;

/// Whether rings with long laps are being watched.
#[derive(Default)]
pub(super) struct Growth {
    /// The value of `growths` when the timer was started.
    seen: u32,
    is_scheduled: bool,
    /// Visits that are left.
    visits: u8,
}

impl ShmHost {
    /// Starts the timer if rings got longer laps.
    #[inline]
    pub(crate) fn watch_growth(&mut self, poller: &mut Poller) {
        let seen = growths();
        if self.growth.seen != seen && self.count > 0 {
            self.growth.seen = seen;
            self.growth.visits = VISITS;
            self.schedule_visit(poller);
        }
    }

    #[cold]
    fn schedule_visit(&mut self, poller: &mut Poller) {
        if !self.growth.is_scheduled {
            self.growth.is_scheduled = true;
            poller.schedule(poller.now() + IDLE, Due::Rings);
        }
    }

    /// Visits all rings, and makes those smaller that were not used since the last visit.
    #[cold]
    pub(crate) fn shrink_rings<N: Connector>(&mut self, peers: &mut Peers<N>, poller: &mut Poller) {
        self.growth.is_scheduled = false;
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
        if moved > 0 || waits && self.growth.visits > 0 {
            self.schedule_visit(poller);
        }
    }
}
