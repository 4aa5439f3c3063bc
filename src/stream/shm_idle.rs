// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Quiet peers that share memory. They are left to their doorbells, so that an empty poll costs the same with a
//! thousand peers as with a few.
//!
//! A doorbell costs the sender a system call, so a peer that sends now and then has to be polled. A peer that rings
//! soon after it was left to its doorbell is polled eight times as long the next time. Reading messages counts nothing;
//! instead the polls that call epoll compare the positions in the rings.

use crate::net::Net;
use crate::transport::Stream;
use sys::barrier;

/// Up to this number of connections all rings are polled: a peer whose ring is polled needs no fence behind a record.
const ALWAYS: usize = 32;
/// This many peers that were active last are always polled.
const KEPT: usize = 8;

impl<N: Net> Stream<N> {
    /// Number of this poll; it wraps around after 2^32 polls.
    fn poll_number(&self) -> u32 {
        self.common.polls as u32
    }

    /// Starts to poll the peer.
    pub(super) fn begin_polling(&mut self, id: usize) {
        let poll = self.poll_number();
        if let Some(shm) = self.peers[id].link.shm_mut() {
            shm.idle.begin(poll);
        }
    }

    /// Leaves peers that have been quiet for long to their doorbells.
    pub(super) fn leave_quiet_peers(&mut self) {
        if self.shared <= ALWAYS || self.polled.len() <= KEPT {
            return;
        }
        let poll = self.poll_number();
        let mut quiet = Vec::new();
        for &id in &self.polled {
            if let Some(shm) = self.peers[id].link.shm_mut() {
                let (_, taken) = shm.moved();
                shm.idle.update(taken, poll);
                if shm.idle.is_quiet(poll) {
                    quiet.push((poll.wrapping_sub(shm.idle.since), id));
                }
            }
        }
        let busy = self.polled.len() - quiet.len();
        if busy < KEPT {
            // The peers that were quiet longest come first.
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
            let Some(shm) = self.peers[id].link.shm_mut() else {
                continue;
            };
            shm.idle.is_left = shm.leave_to_doorbell();
            if !shm.idle.is_left {
                // A record came before the peer saw the doorbell armed.
                self.arm_where_asleep(id);
            }
        }
        let conns = &self.peers;
        self.polled.retain(|&id| {
            let shm = conns[id].link.shm();
            shm.is_none_or(|shm| !shm.idle.is_left)
        });
    }

    /// Prepares for rings that are not polled: clears the word that tells peers that this side always polls.
    #[inline]
    pub(super) fn expect_sleep(&mut self) {
        if !self.expects_sleep {
            self.announce_sleep();
        }
    }

    #[cold]
    fn announce_sleep(&mut self) {
        self.expects_sleep = true;
        let polled = self.peers.iter().filter_map(|(_, conn)| conn.link.shm());
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
