// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The groups that an endpoint has closed, so that late frames for them can be told from early frames for groups that
//! it has yet to open.
//!
//! A frame is late if its collective was canceled or failed here, or if the peer began a collective after the group
//! was closed here. The peer sends no more frames of the first kind once it has received the error. Frames of the
//! second kind are an error of the application. So it is enough to remember the groups that were closed last. A frame
//! for an older one is saved like an early frame, within the limit on saved bytes, until its connection ends.

use std::collections::{HashSet, VecDeque};

/// Number of closed groups that an endpoint remembers: about 100 KB.
pub const MOST: usize = 4096;

/// The numbers of the groups that were closed last.
#[derive(Default)]
pub struct Closed {
    /// The oldest is at the front.
    order: VecDeque<u64>,
    numbers: HashSet<u64>,
}

impl Closed {
    pub fn add(&mut self, group: u64) {
        if !self.numbers.insert(group) {
            return;
        }
        self.order.push_back(group);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }

    pub fn contains(&self, group: u64) -> bool {
        self.numbers.contains(&group)
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.order.capacity().max(self.numbers.capacity())
    }
}
