// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A large message that matches no receive stays in the socket for a moment: programs often post the receive
//! microseconds later, and it then gets the bytes without the two copies of an unexpected message.

use sys::clock::ticks;

/// The shortest such message.
pub const LEAST: u64 = 16 * 1024;
/// Ticks (20 to 60 us) and polls after which the message is read. The tests count polls only.
const TICKS: u64 = if cfg!(test) { u64::MAX / 2 } else { 1 << 16 };
const POLLS: u64 = if cfg!(test) { 4 } else { 256 };

/// The time for which a message is left in the socket.
#[derive(Clone, Copy)]
pub struct Grace {
    ticks: u64,
    polls: u64,
}

impl Grace {
    /// Starts at the poll with this number.
    pub fn new(polls: u64) -> Grace {
        Grace {
            ticks: ticks(),
            polls,
        }
    }

    /// Whether the time is over at the poll with this number.
    pub fn is_over(self, polls: u64) -> bool {
        polls.wrapping_sub(self.polls) > POLLS || ticks().wrapping_sub(self.ticks) > TICKS
    }
}
