// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Records since when operations have been waiting, and warns of peers that stall them, for transports that are polled.

use core::mem;
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use super::{Report, Stall};
use crate::ages::Ages;
use crate::domain_state::DomainState;
use crate::report::gather::attend;
use crate::report::{Peer, dump};
use crate::transport::{Address, DomainStateOf, Transport};
use sync::stats::EpStats;

pub struct Clock {
    /// Operations record the number of a tick instead of the time.
    tick: u64,
    ages: Ages,
    ticked: Option<Instant>,
    stalls: Stalls,
}

/// Shortest length of a tick. Numbers repeat after nine hours, so an operation that waits longer seems younger.
const TICK: Duration = Duration::from_millis(500);

/// The peers that operations wait for.
#[derive(Default)]
struct Stalls {
    /// Time after which a stalled peer is reported; zero means never.
    limit: Duration,
    next_look: Option<Instant>,
    /// The peers that the last check found, by endpoint and address.
    peers: HashMap<(usize, String), Stall>,
}

/// Number of checks within the limit.
const LOOKS: u32 = 8;

impl Clock {
    pub fn new(limit: Duration) -> Clock {
        Clock {
            tick: 0,
            ages: Ages::default(),
            ticked: None,
            stalls: Stalls {
                limit,
                ..Stalls::default()
            },
        }
    }

    /// Returns the stamp for an operation that begins to wait.
    #[inline]
    pub const fn stamp(&self) -> u16 {
        self.tick as u16
    }

    /// Returns for how long, at least, an operation with this stamp has waited.
    pub fn age(&self, stamp: u16, now: Instant) -> Option<Duration> {
        let before = self.tick - u64::from(self.stamp().wrapping_sub(stamp));
        let since = self.ages.since(before)?;
        Some(now.saturating_duration_since(since))
    }

    fn note(&mut self, now: Instant) {
        let tick = TICK.min(self.stalls.apart());
        let is_early = |last| now.saturating_duration_since(last) < tick;
        if !self.ticked.is_some_and(is_early) {
            self.ticked = Some(now);
            self.tick += 1;
            self.ages.note(self.tick, now);
        }
    }

    /// Returns when a sleeping thread has to wake up for the next check.
    pub fn wakes<A: Address>(&self, domain: &DomainState<A>) -> Option<Instant> {
        let waits =
            !self.stalls.peers.is_empty() || domain.eps.iter().any(|(_, ep)| ep.tx_pending > 0);
        self.stalls.next_look.filter(|_| waits)
    }
}

/// Does the work of `attend`, checks for stalled peers, and starts a dump if one is requested. Called on the same
/// occasions.
#[cold]
pub fn attend_with<T: Transport>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    now: Instant,
    clock: impl Fn(&mut T) -> &mut Clock,
) {
    clock(transport).note(now);
    if clock(transport).stalls.is_due(now) {
        let mut stalls = mem::take(&mut clock(transport).stalls);
        stalls.tell(transport, domain, now);
        clock(transport).stalls = stalls;
    }
    if attend(transport, domain, now) {
        dump::request_dump_here();
    }
}

impl Stalls {
    fn apart(&self) -> Duration {
        match self.limit.is_zero() {
            true => Duration::MAX,
            false => (self.limit / LOOKS).max(Duration::from_millis(1)),
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.limit.is_zero() && self.next_look.is_none_or(|at| at <= now)
    }

    fn tell<T: Transport>(&mut self, transport: &T, domain: &DomainStateOf<T>, now: Instant) {
        let mut before = mem::take(&mut self.peers);
        for (id, ep) in domain.eps.iter() {
            for peer in transport.peers(id) {
                if self.is_news(&mut before, id, &peer) {
                    warn::<T>(&peer, &ep.stats);
                }
            }
        }
        self.next_look = Some(now + self.apart());
    }

    /// Returns true if operations have waited too long for this peer, and the last check has not reported that.
    fn is_news(
        &mut self,
        before: &mut HashMap<(usize, String), Stall>,
        ep: usize,
        peer: &Peer,
    ) -> bool {
        if peer.waits_count == 0 {
            return false;
        }
        let key = (ep, peer.address.clone());
        let mut stall = before.remove(&key).unwrap_or_default();
        let is_late = peer.oldest.is_some_and(|age| age >= self.limit);
        let begins = stall.check(is_late, peer.moved);
        self.peers.insert(key, stall);
        begins
    }
}

fn warn<T: Transport>(peer: &Peer, stats: &EpStats) {
    let Some(oldest) = peer.waits.iter().max_by_key(|wait| wait.age) else {
        return;
    };
    let report = Report {
        peer: &peer.address,
        count: peer.waits_count,
        what: &oldest.what,
        len: oldest.len,
        age: oldest.age.unwrap_or_default(),
        stage: Some(oldest.stage),
    };
    report.log(T::SOURCE, stats);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Wait;

    const LIMIT: Duration = Duration::from_secs(8);

    fn peer(age: u64, moved: u64) -> Peer {
        let mut peer = Peer {
            address: "there".to_owned(),
            moved,
            ..Peer::default()
        };
        peer.add(Wait {
            what: "send".to_owned(),
            len: 1,
            tag: None,
            stage: "",
            age: Some(Duration::from_secs(age)),
        });
        peer
    }

    /// Returns for each check whether it reports a peer in this state.
    fn told(looks: impl IntoIterator<Item = Option<Peer>>) -> Vec<bool> {
        let mut stalls = Clock::new(LIMIT).stalls;
        let look = |peer: Option<Peer>| {
            let mut before = mem::take(&mut stalls.peers);
            peer.is_some_and(|peer| stalls.is_news(&mut before, 0, &peer))
        };
        looks.into_iter().map(look).collect()
    }

    #[test]
    fn a_peer_that_stalls_operations_is_reported_once() {
        let all = [7, 8, 9].map(|age| Some(peer(age, 0)));
        assert_eq!(told(all), [false, true, false]);
        // Reported again, because nothing was waiting in between.
        let all = [Some(8), Some(9), None, Some(8), Some(9)].map(|age| Some(peer(age?, 0)));
        assert_eq!(told(all), [false, true, false, false, true]);
    }

    #[test]
    fn a_peer_for_which_nothing_waits_is_not_kept() {
        let mut stalls = Clock::new(LIMIT).stalls;
        let mut before = HashMap::new();
        assert!(!stalls.is_news(&mut before, 0, &Peer::default()));
        assert!(stalls.peers.is_empty());
        assert!(!stalls.is_news(&mut before, 0, &peer(9, 0)));
        assert_eq!(stalls.peers.len(), 1);
    }

    #[test]
    fn a_peer_that_makes_progress_is_not_reported() {
        assert_eq!(told((8..20).map(|age| Some(peer(age, age)))), [false; 12]);
    }

    #[test]
    fn no_age_is_too_long() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut clock = Clock::new(LIMIT);
        clock.note(at(0));
        let early = clock.stamp();
        assert_eq!(clock.age(early, at(100)), None);
        clock.note(at(400));
        clock.note(at(700));
        let late = clock.stamp();
        clock.note(at(2000));
        let age = |stamp| clock.age(stamp, at(3000)).map(|age| age.as_millis());
        assert_eq!((age(early), age(late)), (Some(2300), Some(1000)));
    }
}
