// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Since when operations wait, and a warning of peers that let them wait for long (FI_*_STALL_REPORT), for transports
//! that keep no ticks of their own. `stream::stall` has those.
#![forbid(unsafe_code)]

use core::mem;
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use super::gather::attend;
use super::{Peer, dump};
use crate::base::log::{Subsys, log_warn};
use crate::engine::ages::Ages;
use crate::engine::domain_state::DomainState;
use crate::engine::transport::{Address, DomainStateOf, Transport};
use crate::hmem::Memory;
use crate::sync::stats::Count;

pub struct Patience {
    /// Operations note the number of a tick, not the time.
    tick: u64,
    ages: Ages,
    ticked: Option<Instant>,
    stalls: Stalls,
}

/// A tick is no shorter. Numbers come again after nine hours: what has waited longer seems younger.
const TICK: Duration = Duration::from_millis(500);

/// The peers that let something wait.
#[derive(Default)]
struct Stalls {
    /// They are told of after that; zero: never.
    limit: Duration,
    next_look: Option<Instant>,
    /// By endpoint and address, those of the last look.
    peers: HashMap<(usize, String), Known>,
}

struct Known {
    moved: u64,
    is_told: bool,
}

/// So many looks are in the limit.
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

    /// What an operation notes that begins to wait.
    #[inline]
    pub const fn stamp(&self) -> u16 {
        self.tick as u16
    }

    /// How long an operation with this stamp has waited, at least.
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

    /// When a sleeper is to be woken for the next look.
    pub fn wakes<A: Address, M: Memory>(&self, domain: &DomainState<A, M>) -> Option<Instant> {
        let waits = !self.stalls.peers.is_empty() || domain.eps().any(|(_, ep)| ep.tx_pending > 0);
        self.stalls.next_look.filter(|_| waits)
    }
}

/// To be called as `attend` is; it does what that asks for.
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

    /// Whether a peer has let something wait for too long, and it was not told yet.
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
    use crate::engine::report::Wait;

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

    /// What is told at each look, of a peer as it is then.
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
        // And again, if nothing waited between.
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
