// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers to which a connection failed while no operation was pending that could report the error. The next operation
//! for the peer reports it, if it comes soon; otherwise that operation connects again.

use core::hash::Hash;
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use base::Error;

/// The errors of an endpoint's failed connections.
pub struct Unreachable<A> {
    /// By peer: the error, and the time from which it is not reported any more.
    errors: HashMap<A, (Error, Instant)>,
    /// Number of errors from which those whose time is over are removed.
    purge_at: usize,
}

/// Least number of errors that are purged. Further purges follow when the number has doubled.
const FIRST_PURGE: usize = 16;

impl<A: Eq + Hash> Unreachable<A> {
    pub fn new() -> Unreachable<A> {
        Unreachable {
            errors: HashMap::new(),
            purge_at: FIRST_PURGE,
        }
    }

    /// Keeps an error for `limit` from now on. At times this removes the errors whose time is over, because the
    /// application may never send to those peers again.
    pub fn insert(&mut self, peer: A, error: Error, now: Instant, limit: Duration) {
        if self.errors.len() >= self.purge_at {
            self.errors.retain(|_, (_, end)| now < *end);
            self.purge_at = FIRST_PURGE.max(2 * self.errors.len());
        }
        self.errors.insert(peer, (error, now + limit));
    }

    /// Takes the error of a peer, if its time is not over.
    pub fn take(&mut self, peer: &A, now: Instant) -> Option<Error> {
        let (error, end) = self.errors.remove(peer)?;
        (now < end).then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_once_and_kept_for_a_limited_time() {
        let (begin, limit) = (Instant::now(), Duration::from_secs(1));
        let mut unreachable = Unreachable::new();
        for peer in 0..100 {
            let now = begin + peer * limit / 4;
            unreachable.insert(peer, Error::CONNREFUSED, now, limit);
            assert!(unreachable.errors.len() <= FIRST_PURGE);
        }
        let last = begin + 99 * limit / 4;
        assert_eq!(unreachable.take(&99, last), Some(Error::CONNREFUSED));
        assert_eq!(unreachable.take(&99, last), None);
        assert_eq!(unreachable.take(&98, last + limit), None);
        assert_eq!(unreachable.take(&0, last), None);
    }
}
