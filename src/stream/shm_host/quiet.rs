// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Quiet peers that share memory. They are left to their doorbells, so that an empty poll costs the same with a
//! thousand peers as with a few.
//!
//! A doorbell costs the sender a system call, so a peer that sends now and then has to be polled. A peer that rings
//! soon after it was left to its doorbell is polled eight times as long the next time. Reading messages counts nothing;
//! instead the polls that call epoll compare the positions in the rings.

use crate::connector::Connector;
use crate::peers::Peers;
use crate::poller::Poller;
use crate::shm_host::ShmHost;

/// Up to this number of connections all rings are polled: a peer whose ring is polled needs no fence behind a record.
const ALWAYS: usize = 32;
/// This many peers that were active last are always polled.
const KEPT: usize = 8;

impl ShmHost {
    /// Leaves peers that have been quiet for long to their doorbells. `poll` is the number of this poll.
    pub(crate) fn leave_quiet_peers<N: Connector>(
        &mut self,
        peers: &mut Peers<N>,
        poller: &mut Poller,
        poll: u64,
    ) {
        if self.count() <= ALWAYS || self.polled_len() <= KEPT {
            return;
        }
        // The number wraps around after 2^32 polls.
        let poll = poll as u32;
        let mut quiet = Vec::new();
        for id in self.polled_ids() {
            if let Some(polls) = peers[id].link.quiet_polls(poll) {
                quiet.push((polls, id));
            }
        }
        let busy = self.polled_len() - quiet.len();
        if busy < KEPT {
            // The peers that were quiet longest come first.
            quiet.sort_unstable_by(|one, other| other.cmp(one));
            quiet.truncate((self.polled_len()).saturating_sub(KEPT));
        }
        if !quiet.is_empty() {
            self.leave_to_doorbells(peers, poller, &quiet);
        }
    }

    #[cold]
    fn leave_to_doorbells<N: Connector>(
        &mut self,
        peers: &mut Peers<N>,
        poller: &mut Poller,
        quiet: &[(u32, usize)],
    ) {
        self.expect_sleep(peers);
        for &(_, id) in quiet {
            match peers[id].link.rely_on_doorbell() {
                true => self.stop_polling(id),
                // A record came before the peer saw the doorbell armed.
                false => self.arm_where_asleep(peers, poller, id),
            }
        }
    }
}
