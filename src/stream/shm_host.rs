// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The shared memory of a domain: which rings are polled, which have no room, and whether peers have to ring the
//! doorbell. `connect` adds peers, `quiet` leaves quiet peers to their doorbells, `shrink` frees memory of idle rings.
//!
//! The channel itself is in the link of its connection, so the host names channels by the number of the connection.

pub mod connect;
mod quiet;
mod shrink;

use core::hint::spin_loop;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use self::shrink::Growth;
use crate::connector::Connector;
use crate::peers::Peers;
use crate::pending_peer::PendingPeer;
use crate::poller::Poller;
use crate::region_directory::RegionDirectory;
use crate::session::common::Limits;
use base::log::Source;
use engine::half_open::HalfOpen;
use engine::id_set::IdSet;
use engine::transport::MrRegion;

/// How long a poll waits for a record that is likely to come at once: a peer that also waits for this side answers in
/// half of it, even if it yields its processor in between. The clock is read after `LOOKS` polls.
const MOMENT: Duration = Duration::from_micros(2);
const LOOKS: usize = 16;

/// Result of a preview of the next poll.
pub(super) enum FastPoll {
    Nothing,
    /// Only this connection has records.
    NewsOf(usize),
    /// Only a full poll can find out.
    Unclear,
}

/// The part of a domain that serves peers over shared memory.
pub struct ShmHost {
    /// Log source of the provider.
    source: &'static Source,
    limits: Limits,
    /// Connections whose ring is polled directly.
    polled: IdSet,
    /// Connections whose ring has no room for the queued frames.
    full: IdSet,
    /// Number of connections over shared memory.
    count: usize,
    /// Connections whose hello message has not arrived yet.
    pending: HalfOpen<PendingPeer>,
    /// Directory of registered memory for peers; created for the first one.
    directory: Option<RegionDirectory>,
    /// Set while this process may sleep: peers must ring the doorbell after they write.
    is_armed: bool,
    /// Peers have seen that this side may sleep.
    expects_sleep: bool,
    growth: Growth,
}

impl ShmHost {
    pub(super) fn new(source: &'static Source, limits: Limits) -> ShmHost {
        ShmHost {
            source,
            limits,
            polled: IdSet::default(),
            full: IdSet::default(),
            count: 0,
            pending: HalfOpen::default(),
            directory: None,
            is_armed: true,
            expects_sleep: false,
            growth: Growth::default(),
        }
    }

    /// Returns the log source of the provider.
    pub(super) fn source(&self) -> &'static Source {
        self.source
    }

    /// Returns the number of connections over shared memory.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn has_pending(&self, id: usize) -> bool {
        self.pending.contains(id)
    }

    /// Starts to poll a connection whose link is shared memory from now on. `has_watchers`: threads may sleep.
    pub(super) fn add<N: Connector>(
        &mut self,
        peers: &mut Peers<N>,
        poller: &mut Poller,
        id: usize,
        has_watchers: bool,
        poll: u64,
    ) {
        if self.count == 0 {
            if !N::ALL_SHM {
                // A thread may sleep; the next poll finds out. From now on some polls call epoll, which serves the
                // sockets.
                self.is_armed = true;
                poller.demote_all(peers);
            }
            // No peer has seen the previous value.
            self.expects_sleep |= has_watchers;
        }
        self.count += 1;
        // A new channel is armed.
        if !self.is_armed {
            peers[id].link.disarm(self.expects_sleep);
        }
        begin_polling(peers, id, poll);
        self.polled.insert(id);
    }

    /// Forgets a connection whose channel is closed.
    pub(super) fn remove(&mut self, id: usize) {
        self.count -= 1;
        self.polled.remove(id);
        self.full.remove(id);
    }
}

/// Rings that are polled.
impl ShmHost {
    /// Returns a connection whose ring is polled, by its place in the list.
    #[inline(always)]
    pub(super) fn polled(&self, at: usize) -> Option<usize> {
        self.polled.ids().get(at).copied()
    }

    fn polled_len(&self) -> usize {
        self.polled.ids().len()
    }

    fn polled_ids(&self) -> impl Iterator<Item = usize> {
        self.polled.ids().iter().copied()
    }

    pub(super) fn stop_polling(&mut self, id: usize) {
        self.polled.remove(id);
    }

    /// Polls the ring directly.
    pub(super) fn promote<N: Connector>(
        &mut self,
        peers: &mut Peers<N>,
        poller: &mut Poller,
        id: usize,
        poll: u64,
    ) {
        if !self.polled.contains(id) {
            if !self.is_armed {
                peers[id].link.disarm(self.expects_sleep);
            }
            begin_polling(peers, id, poll);
            self.polled.insert(id);
            self.arm_where_asleep(peers, poller, id);
        }
    }

    /// Previews the next poll of the rings.
    #[inline(always)]
    pub(super) fn preview<N: Connector>(&self, peers: &Peers<N>) -> FastPoll {
        let mut news = FastPoll::Nothing;
        for &id in self.polled.ids() {
            let conn = peers.get(id);
            let Some((conn, shm)) = conn.and_then(|conn| Some((conn, conn.link.memory()?))) else {
                return FastPoll::Unclear;
            };
            if shm.has_events() {
                news = match news {
                    FastPoll::Nothing => FastPoll::NewsOf(id),
                    // Several peers have records; each gets its turn in a full poll.
                    _ => return FastPoll::Unclear,
                };
            } else if conn.session.exposed.was_written() || shm.ended || shm.broken {
                // Room has to be returned to the peer, or its end has to be handled.
                return FastPoll::Unclear;
            }
        }
        news
    }

    /// Waits for a record for up to `MOMENT`, or until `is_over` returns true. Returns the first peer with one.
    pub(super) fn wait_for_event<N: Connector>(
        &self,
        peers: &mut Peers<N>,
        now: impl Fn() -> Instant,
        is_over: impl Fn() -> bool,
    ) -> Option<usize> {
        for &id in self.polled.ids() {
            peers[id].link.prefetch_record();
        }
        let mut end = None;
        loop {
            for _ in 0..LOOKS {
                if let Some(&id) = self.polled.ids().iter().find(|&&id| has_events(peers, id)) {
                    return Some(id);
                }
                if is_over() {
                    return None;
                }
                spin_loop();
            }
            let now = now();
            if now >= *end.get_or_insert(now + MOMENT) {
                return None;
            }
        }
    }
}

/// Doorbells.
impl ShmHost {
    #[inline(always)]
    pub(super) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Makes peers ring the doorbell after each write from now on. The caller polls all rings once more for earlier
    /// records.
    pub(super) fn arm<N: Connector>(&mut self, peers: &Peers<N>) {
        self.expect_sleep(peers);
        self.is_armed = true;
        for &id in self.polled.ids() {
            peers[id].link.arm();
        }
        for &id in self.full.ids() {
            peers[id].link.set_waiting(true);
        }
    }

    /// Ends the use of doorbells, because no thread may sleep.
    pub(super) fn disarm<N: Connector>(&mut self, peers: &Peers<N>) {
        self.is_armed = false;
        for &id in self.polled.ids() {
            peers[id].link.disarm(self.expects_sleep);
        }
    }

    /// Arms a ring that is polled while another thread may be parked, as the other rings are, and ends that sleep if a
    /// record is in the ring.
    fn arm_where_asleep<N: Connector>(&self, peers: &Peers<N>, poller: &mut Poller, id: usize) {
        if self.is_armed {
            peers[id].link.arm();
            if peers[id].link.has_record() {
                poller.wake();
            }
        }
    }

    /// Ends a sleep that is starting if a peer has more records, or room for queued frames, after each had its turn.
    /// Finding the room while epoll is being called would stop the timer of that sleep.
    pub(super) fn stay_awake<N: Connector>(&self, peers: &mut Peers<N>, poller: &mut Poller) {
        let mut any = self.polled.ids().iter().any(|&id| has_events(peers, id));
        for &id in self.full.ids() {
            let conn = peers.get_mut(id);
            any |= conn.is_some_and(|conn| conn.link.may_continue());
        }
        if any {
            poller.wake();
        }
    }

    /// Prepares for rings that are not polled: clears the word that tells peers that this side always polls.
    #[inline]
    fn expect_sleep<N: Connector>(&mut self, peers: &Peers<N>) {
        if !self.expects_sleep {
            self.announce_sleep(peers);
        }
    }

    #[cold]
    fn announce_sleep<N: Connector>(&mut self, peers: &Peers<N>) {
        self.expects_sleep = true;
        let mut any = false;
        for (_, conn) in peers.iter() {
            any |= conn.link.expect_sleep();
        }
        if any {
            sys::barrier::on_all_processes();
        }
    }
}

/// Rings without room.
impl ShmHost {
    #[inline(always)]
    pub(super) fn has_full(&self) -> bool {
        !self.full.ids().is_empty()
    }

    #[inline(always)]
    pub(super) fn full_len(&self) -> usize {
        self.full.ids().len()
    }

    /// Handles a ring that has no room for all queued frames.
    #[cold]
    pub(super) fn ring_is_full<N: Connector>(
        &mut self,
        peers: &mut Peers<N>,
        poller: &mut Poller,
        id: usize,
    ) {
        self.full.insert(id);
        if self.is_armed {
            peers[id].link.set_waiting(true);
            if peers[id].link.may_continue() {
                poller.wake();
            }
        }
    }

    /// Returns the connections whose ring had no room, to be checked again.
    pub(super) fn take_full(&mut self) -> Vec<usize> {
        self.full.take()
    }

    /// Checks the connection again later.
    pub(super) fn check_again(&mut self, id: usize) {
        self.full.insert(id);
    }
}

/// Registered memory.
impl ShmHost {
    /// Shows a new region to peers.
    pub(super) fn region_opened(&mut self, region: &MrRegion) {
        if let Some(directory) = &mut self.directory {
            directory.publish(region);
        }
    }

    /// Withdraws a region from peers. Returns its place in the directory, which peers may still be using.
    pub(super) fn withdraw(&mut self, region: &Arc<MrRegion>) -> Option<usize> {
        self.directory.as_mut()?.withdraw(region)
    }

    /// Withdraws all regions. Returns the places that they had. Later peers get a new directory.
    pub(super) fn withdraw_all(&mut self) -> Vec<usize> {
        let directory = self.directory.take();
        directory.map_or_else(Vec::new, |mut directory| directory.withdraw_all())
    }
}

/// Starts to poll the peer with this poll.
fn begin_polling<N: Connector>(peers: &mut Peers<N>, id: usize, poll: u64) {
    // The number of a poll wraps around after 2^32 polls.
    peers[id].link.begin_polling(poll as u32);
}

fn has_events<N: Connector>(peers: &Peers<N>, id: usize) -> bool {
    peers[id].link.has_record()
}
