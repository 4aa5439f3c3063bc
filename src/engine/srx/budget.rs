// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The memory that unexpected messages may take, and how it is shared among peers.
//!
//! A message whose bytes stay with the sender counts, too. Connections that are not read are watched for their end:
//! then sends to the peer fail, and messages that the peer has sent wait for their receives (see `ended_unread`).

use super::Unexpected;
use crate::share::fits;

/// The memory used by unexpected messages, including the overhead of tables and heap.
#[derive(Default)]
pub(super) struct Budget {
    pub used: usize,
    /// Bytes used by each peer, indexed by the transport's number of the connection.
    pub shares: Vec<usize>,
}

impl Budget {
    /// Whether `cost` bytes more may be used for a peer.
    #[inline]
    pub fn has_room(&self, token: u64, cost: usize, limit: usize) -> bool {
        fits(self.share_of(token), self.used, cost, limit)
    }

    #[inline]
    pub fn share_of(&self, token: u64) -> usize {
        self.shares.get(token as usize).copied().unwrap_or(0)
    }

    #[inline]
    pub fn charge(&mut self, token: u64, cost: usize) {
        self.used += cost;
        match self.shares.get_mut(token as usize) {
            Some(share) => *share += cost,
            None => self.begin_share(token, cost),
        }
    }

    #[cold]
    fn begin_share(&mut self, token: u64, cost: usize) {
        let at = token as usize;
        self.shares.resize(at + 1, 0);
        self.shares[at] = cost;
    }

    #[inline]
    pub fn release(&mut self, message: &Unexpected) {
        self.give_back(message.envelope.token, message.charge);
    }

    #[inline]
    pub fn give_back(&mut self, token: u64, cost: usize) {
        self.used -= cost;
        self.shares[token as usize] -= cost;
    }
}
