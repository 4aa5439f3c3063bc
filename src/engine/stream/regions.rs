// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registered memory that is closed, or that peers see no more: who uses it is waited for, or loses its connection.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::Caps;
use crate::base::flags::flags;
use crate::engine::ep_state::Event;
use crate::engine::stream::net::Net;
use crate::engine::stream::session::receive::Fault;
use crate::engine::stream::shm_channel::ShmChannel;
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::engine::transport::MrRegion;

impl<N: Net> Stream<N> {
    /// fi_mr(3), fi_close: a region is closed. Accesses to it that are under way end with their connections: no frame
    /// tells a peer that its access has failed.
    #[cold]
    pub(super) fn end_accesses(&mut self, domain: &mut DomainOf<N>, region: &Arc<MrRegion>) {
        // Accesses hold it, besides its handle. The table does not any more.
        if Arc::strong_count(region) == 1 {
            return;
        }
        let conns = self.conns.iter();
        let accessing: Vec<usize> = conns
            .filter(|(_, conn)| conn.session.accesses(region))
            .map(|(id, _)| id)
            .collect();
        for id in accessing {
            // The loss of one peer may have ended the connection to another.
            if self.conns.contains(id) {
                const CLOSED: Fault = Fault::Rule("a memory region was closed under its access");
                self.fault(domain, id, &CLOSED);
            }
        }
    }

    /// Whether peers may use registered memory through this endpoint without its knowing: it grants such accesses, and
    /// nothing counts them. (Only data for the queue makes an entry there, and goes by message.)
    pub fn may_be_reached(domain: &DomainOf<N>, ep: usize) -> bool {
        let ep = domain.ep(ep);
        let grants = flags!(Caps: RMA | REMOTE_READ | REMOTE_WRITE);
        let counts = [Event::RemoteRead, Event::RemoteWrite];
        ep.caps.contains(grants) && counts.iter().all(|&event| ep.bound(event).is_none())
    }

    /// Takes the domain's regions away from the peers that were shown them: from now on one of its endpoints counts
    /// accesses. Peers that come later are shown a new directory where the endpoint that they connect to counts none.
    pub(super) fn hide_regions(&mut self, domain: &mut DomainOf<N>) {
        if self.is_inherited() {
            return;
        }
        let Some(mut directory) = self.directory.take() else {
            return;
        };
        for at in directory.withdraw_all() {
            self.wait_for_users(domain, at);
        }
    }

    /// A region has been withdrawn from this place of the directory: who uses it is waited for, as long as that is
    /// reasonable.
    #[cold]
    pub(super) fn wait_for_users(&mut self, domain: &mut DomainOf<N>, at: usize) {
        let until = self.reactor.now() + CLOSE_TIMEOUT;
        let polled: Vec<usize> = self.conns.iter().map(|(id, _)| id).collect();
        for id in polled {
            while let Some(shm) = self.conns.get(id).and_then(|conn| conn.link.shm())
                && shm.is_using(at)
                && shm.is_alive()
            {
                if self.reactor.now() < until {
                    std::thread::yield_now();
                    continue;
                }
                shm.leave();
                const HELD: Fault = Fault::Rule("it does not let go of a region that is closed");
                self.fault(domain, id, &HELD);
            }
        }
    }
}

/// A connection is over. A copy that the peer makes from or to registered memory just now is waited for, as long as
/// that is reasonable, and no other begins: nobody would wait for it when the region is closed.
#[cold]
pub(super) fn end_copies(shm: &ShmChannel) {
    // Who was waited for already is not waited for again.
    if shm.has_left() {
        return;
    }
    shm.leave();
    let until = Instant::now() + CLOSE_TIMEOUT;
    while shm.is_using_any() && shm.is_alive() && Instant::now() < until {
        std::thread::yield_now();
    }
}

/// How long a peer may take to end a copy from or to a region that is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
