// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Records since when operations have been waiting, and warns of peers that stall them (FI_*_STALL_REPORT). For
//! transports without ticks of their own; `stream::stall` is for the others.

use core::mem;
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use super::gather::attend;
use super::{Peer, dump};
use crate::ages::Ages;
use crate::domain_state::DomainState;
use crate::transport::{Address, DomainStateOf, Transport};
use base::log::{Subsys, log_warn};

use sync::stats::Count;

pub struct Patience {
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
    peers: HashMap<(usize, String), Known>,
}

struct Known {
    moved: u64,
    is_told: bool,
}

/// Number of checks within the limit.
const LOOKS: u32 = 8;

impl Patience {
    pub fn new(limit: Duration) -> Patience {
        Patience {
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
        let waits = !self.stalls.peers.is_empty() || domain.eps().any(|(_, ep)| ep.tx_pending > 0);
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
    patience: impl Fn(&mut T) -> &mut Patience,
) {
    patience(transport).note(now);
    if patience(transport).stalls.is_due(now) {
        let mut stalls = mem::take(&mut patience(transport).stalls);
        stalls.tell(transport, domain, now);
        patience(transport).stalls = stalls;
    }
    if attend(transport, domain, now) {
        dump::ask_from_inside();
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
        for (id, ep) in domain.eps() {
            for peer in transport.peers(id) {
                if self.is_news(&mut before, id, &peer) {
                    ep.stats.count(Count::Stalls);
                    warn::<T>(&peer);
                }
            }
        }
        self.next_look = Some(now + self.apart());
    }

    /// Returns true if operations have waited too long for this peer, and the last check has not reported that.
    fn is_news(
        &mut self,
        before: &mut HashMap<(usize, String), Known>,
        ep: usize,
        peer: &Peer,
    ) -> bool {
        if peer.waits_count == 0 {
            return false;
        }
        let key = (ep, peer.address.clone());
        let known = before.remove(&key);
        let rests = known
            .as_ref()
            .is_some_and(|known| known.moved == peer.moved);
        let is_told = rests && peer.oldest.is_some_and(|age| age >= self.limit);
        let was_told = known.is_some_and(|known| known.is_told);
        let moved = peer.moved;
        self.peers.insert(key, Known { moved, is_told });
        is_told && !was_told
    }
}

fn warn<T: Transport>(peer: &Peer) {
    let Some(oldest) = peer.waits.iter().max_by_key(|wait| wait.age) else {
        return;
    };
    log_warn!(
        T::SOURCE,
        Subsys::EpData,
        "{}: operations that wait for it: {}; the oldest, a {} of {} bytes, for more than {} s: {}",
        peer.address,
        peer.waits_count,
        oldest.what,
        oldest.len,
        oldest.age.unwrap_or_default().as_secs_f32(),
        oldest.stage
    );
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
        let mut stalls = Patience::new(LIMIT).stalls;
        let look = |peer: Option<Peer>| {
            let mut before = mem::take(&mut stalls.peers);
            peer.is_some_and(|peer| stalls.is_news(&mut before, 0, &peer))
        };
        looks.into_iter().map(look).collect()
    }

    #[test]
    fn who_lets_something_wait_is_told_once() {
        let all = [7, 8, 9].map(|age| Some(peer(age, 0)));
        assert_eq!(told(all), [false, true, false]);
        // Reported again, because nothing was waiting in between.
        let all = [Some(8), Some(9), None, Some(8), Some(9)].map(|age| Some(peer(age?, 0)));
        assert_eq!(told(all), [false, true, false, false, true]);
    }

    #[test]
    fn who_goes_on_is_not_told() {
        assert_eq!(told((8..20).map(|age| Some(peer(age, age)))), [false; 12]);
    }

    #[test]
    fn no_age_is_too_long() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut patience = Patience::new(LIMIT);
        patience.note(at(0));
        let early = patience.stamp();
        assert_eq!(patience.age(early, at(100)), None);
        patience.note(at(400));
        patience.note(at(700));
        let late = patience.stamp();
        patience.note(at(2000));
        let age = |stamp| patience.age(stamp, at(3000)).map(|age| age.as_millis());
        assert_eq!((age(early), age(late)), (Some(2300), Some(1000)));
    }
}
