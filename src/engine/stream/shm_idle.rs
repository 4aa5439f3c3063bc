// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Quiet peers that share memory: they are left to their doorbells, so that an empty poll costs the same with a thousand
//! peers as with a few.
//!
//! A doorbell costs the sender a system call, so a peer that talks now and then has to be polled on. A peer that rings
//! soon after it was left is polled eight times as long the next time. Nothing is counted where messages are read: one
//! poll in so many compares the positions in the rings.
#![forbid(unsafe_code)]

use crate::engine::stream::net::Net;
use crate::engine::stream::transport::Stream;
use crate::sys::barrier;

/// Polls without a record before a peer is left to its doorbell: at first, and at most (26 ms of polls that find nothing).
const FIRST_PATIENCE: u32 = 32;
const MOST_PATIENCE: u32 = 1 << 18;
const GROWTH: u32 = 8;
/// With no more connections than this all are polled: a peer that nobody leaves needs no fence behind its records.
const ALWAYS: usize = 32;
/// The peers that had news last are polled however long they are quiet.
const KEPT: usize = 8;

/// Activity of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Bytes taken from its ring when that was looked at last.
    taken: u64,
    /// Number of the poll at which it had news last, as far as was looked.
    since: u32,
    /// Polls without news after which it is left to its doorbell.
    patience: u32,
    is_left: bool,
}

impl Default for Idle {
    fn default() -> Idle {
        Idle {
            taken: 0,
            since: 0,
            patience: FIRST_PATIENCE,
            is_left: false,
        }
    }
}

impl Idle {
    /// Looks at the ring at a poll.
    fn update(&mut self, taken: u64, poll: u32) {
        if self.taken != taken {
            (self.taken, self.since) = (taken, poll);
        }
    }

    /// The peer is polled from this poll on.
    fn begin(&mut self, poll: u32) {
        if self.is_left {
            self.is_left = false;
            let quiet = poll.wrapping_sub(self.since);
            let longer = self.patience * GROWTH;
            // Neither patience would have been long enough for a peer that was quiet for longer.
            self.patience = match quiet <= longer {
                true => longer.min(MOST_PATIENCE),
                false => (self.patience / GROWTH).max(FIRST_PATIENCE),
            };
        }
        self.since = poll;
    }

    fn is_quiet(&self, poll: u32) -> bool {
        poll.wrapping_sub(self.since) >= self.patience
    }
}

impl<N: Net> Stream<N> {
    /// Number of this poll; it begins anew after 2^32 polls.
    fn poll_number(&self) -> u32 {
        self.common.polls as u32
    }

    /// The peer is polled from now on.
    pub(super) fn begin_polling(&mut self, id: usize) {
        let poll = self.poll_number();
        if let Some(shm) = self.conns[id].link.shm_mut() {
            shm.idle.begin(poll);
        }
    }

    /// Leaves the peers to their doorbells that have been quiet for long.
    pub(super) fn leave_quiet_peers(&mut self) {
        if self.shared <= ALWAYS || self.polled.len() <= KEPT {
            return;
        }
        let poll = self.poll_number();
        let mut quiet = Vec::new();
        for &id in &self.polled {
            if let Some(shm) = self.conns[id].link.shm_mut() {
                let (_, taken) = shm.moved();
                shm.idle.update(taken, poll);
                if shm.idle.is_quiet(poll) {
                    quiet.push((poll.wrapping_sub(shm.idle.since), id));
                }
            }
        }
        let busy = self.polled.len() - quiet.len();
        if busy < KEPT {
            // The longest quiet ones come first.
            quiet.sort_unstable_by(|one, other| other.cmp(one));
            quiet.truncate((self.polled.len()).saturating_sub(KEPT));
        }
        if !quiet.is_empty() {
            self.leave_to_doorbells(&quiet);
        }
    }

    #[cold]
    fn leave_to_doorbells(&mut self, quiet: &[(u32, usize)]) {
        self.expect_sleep();
        for &(_, id) in quiet {
            let Some(shm) = self.conns[id].link.shm_mut() else {
                continue;
            };
            shm.idle.is_left = shm.leave_to_doorbell();
            if !shm.idle.is_left {
                // A record came before the peer saw the doorbell armed.
                self.arm_where_asleep(id);
            }
        }
        let conns = &self.conns;
        self.polled.retain(|&id| {
            let shm = conns[id].link.shm();
            shm.is_none_or(|shm| !shm.idle.is_left)
        });
    }

    /// Rings may be left to their doorbells from now on: peers that were told that this side only polls have to know it
    /// first.
    #[inline]
    pub(super) fn expect_sleep(&mut self) {
        if !self.expects_sleep {
            self.announce_sleep();
        }
    }

    #[cold]
    fn announce_sleep(&mut self) {
        self.expects_sleep = true;
        let polled = self.conns.iter().filter_map(|(_, conn)| conn.link.shm());
        let mut any = false;
        for shm in polled {
            shm.expect_sleep();
            any = true;
        }
        if any {
            barrier::on_all_processes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_quiet_after_its_patience() {
        let mut idle = Idle::default();
        idle.begin(100);
        idle.update(64, 128);
        assert!(!idle.is_quiet(128 + FIRST_PATIENCE - 1));
        assert!(idle.is_quiet(128 + FIRST_PATIENCE));
        // The number of polls begins anew.
        idle.begin(u32::MAX);
        assert!(!idle.is_quiet(1));
        assert!(idle.is_quiet(FIRST_PATIENCE));
    }

    #[test]
    fn a_peer_that_rings_soon_is_polled_longer() {
        let mut idle = Idle::default();
        let mut poll = 0;
        idle.begin(poll);
        for _ in 0..9 {
            idle.is_left = true;
            poll += idle.patience + 1;
            idle.begin(poll);
        }
        assert_eq!(idle.patience, MOST_PATIENCE);
        // A peer that is quiet for so long rings as often with less.
        idle.is_left = true;
        idle.begin(poll + 9 * MOST_PATIENCE);
        assert_eq!(idle.patience, MOST_PATIENCE / GROWTH);
    }
}
