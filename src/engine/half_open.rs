// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Accepted sockets whose peers have not said who they are: how many there may be, who goes first, and which descriptors are
//! kept for peers that the application knows.
//!
//! A quarter of the descriptors at most is for sockets that have not said who they are; the last sixteenth is for
//! peers that an address vector has, and a request of another peer is refused there. Who is turned away tries again,
//! as after any failed attempt.
#![forbid(unsafe_code)]

use std::os::fd::RawFd;
use std::time::Instant;

use crate::sys::limits::descriptors;
use crate::sys::socket::Socket;

/// Whether there are so many of them that one has to go for another: `fd` is the newest.
pub fn is_crowded(count: usize, fd: RawFd) -> bool {
    count > most(descriptors()) || is_reserved(fd)
}

/// Whether the descriptor is one of the last of the process. The kernel gives the lowest one that is free.
pub fn is_reserved(fd: RawFd) -> bool {
    let limit = descriptors();
    usize::try_from(fd).is_ok_and(|fd| fd >= limit - reserve(limit))
}

/// The one that has been silent for the longest time, by its deadline. Who has sent something is about to be heard, and who has
/// just come (`newest`) has had no time to.
pub fn oldest_silent<'a>(
    sockets: impl Iterator<Item = (usize, &'a Socket, Instant)>,
    newest: Option<usize>,
) -> Option<usize> {
    let silent = sockets.filter(|&(id, socket, _)| Some(id) != newest && socket.unread() == 0);
    let oldest = silent.min_by_key(|&(_, _, deadline)| deadline);
    oldest.map(|(id, ..)| id)
}

fn most(limit: usize) -> usize {
    (limit / 4).clamp(16, 4096)
}

fn reserve(limit: usize) -> usize {
    (limit / 16).clamp(4, 256).min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_descriptors_of_the_process() {
        for (limit, half_open, kept) in [
            (0, 16, 0),
            (20, 16, 4),
            (1024, 256, 64),
            (1 << 20, 4096, 256),
            (usize::MAX, 4096, 256),
        ] {
            assert_eq!((most(limit), reserve(limit)), (half_open, kept), "{limit}");
        }
        assert!(!is_reserved(-1));
    }
}
