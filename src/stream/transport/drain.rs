// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Delivery of accepted data for which the application gets no completion: injected operations, operations without a
//! completion, and frames that were reported as sent and are still queued here. They are delivered before an endpoint
//! or the process ends. While a peer is not connected yet, such operations are refused if only the application drives
//! the connection.

use core::time::Duration;

use crate::connector::Connector;
use crate::transport::{DomainOf, Stream};
use base::Error;
use engine::transport::{Drains, Transport};

impl<N: Connector> Drains for Stream<N> {
    fn close_limit(&self) -> Duration {
        self.traffic.common.limits.close
    }

    fn owes(&self, ep: Option<usize>, patient: bool) -> bool {
        self.is_at_home() && self.traffic.peers.owes(ep, patient)
    }

    #[cold]
    fn report_lost(&self, ep: Option<usize>) {
        let limit = self.traffic.common.limits.close;
        self.traffic
            .peers
            .log_lost(self.traffic.common.source, limit, ep);
    }

    /// Prepares for the end of the process: the application's memory may be gone, so nothing is written there any more.
    /// Data that is being received is discarded, and peers find no regions.
    #[cold]
    fn release_memory(&mut self, domain: &mut DomainOf<N>) {
        for (_, srx) in &mut domain.srxs {
            drop(srx.drain_posted());
        }
        let regions: Vec<_> = domain.mrs.iter().cloned().collect();
        for region in regions {
            // Do not wait for peers that are copying: a read changes nothing, and a write ends with this process.
            let _ = self.traffic.shm.withdraw(&region);
            domain.mrs.close(&region);
        }
        let ids = self.traffic.peers.ids(|_| true);
        for id in ids {
            let conn = &mut self.traffic.peers[id];
            conn.session
                .release_memory(&conn.link, self.traffic.common.source);
        }
    }
}

impl<N: Connector> Stream<N> {
    /// Refuses an operation without a completion for a peer that is not connected, because only the application can
    /// post the operation again. Returns `AGAIN`, or the error of the last failed connection.
    #[cold]
    pub(super) fn refuse_unheard(&mut self, domain: &mut DomainOf<N>, id: usize) -> Error {
        let conn = &mut self.traffic.peers[id];
        conn.session.refused = Some(conn.session.tx.out.counter());
        let (ep, peer) = (conn.session.peer.ep, conn.session.peer.addr.clone());
        // The program may do nothing but retry.
        self.progress(domain);
        let now = self.traffic.poller.now();
        let failed = self
            .traffic
            .peers
            .find_ep_mut(ep)
            .and_then(|ep| ep.unreachable.take(&peer, now));
        failed.unwrap_or(Error::AGAIN)
    }
}
