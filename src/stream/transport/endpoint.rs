// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Closing of endpoints, and connections by address where the address vector of other processes has to be read first.

use crate::connector::Connector;
use crate::transport::{DomainOf, Stream};
use base::{Error, Result};
use engine::shared_av;

impl<N: Connector> Stream<N> {
    pub(super) fn close_endpoint(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        let ids = self.traffic.peers.ids_of_ep(ep);
        let Some(endpoint) = self.traffic.peers.remove_ep(ep) else {
            return;
        };
        domain.groups.forget(ep);
        if let Some(listener) = &endpoint.listener {
            self.traffic.poller.remove_fd(listener);
            if N::ALL_SHM {
                // Peers must not wait at this listener, which a forked child may hold, too; compare `close_link`.
                listener.shutdown();
            }
        }
        drop(endpoint);
        for id in ids {
            // fi_close has already waited for operations that were reported as sent; this writes the rest.
            let now = self.traffic.poller.now();
            self.traffic.last_flush(domain, id, now);
            self.settle(domain);
            self.traffic.discard(domain, id);
        }
        self.traffic
            .shm
            .drop_all_pending(&mut self.traffic.poller, ep);
        self.connector.ep_closed(&mut self.traffic.poller, ep);
    }

    /// Returns the connection for an address of the endpoint's vector; makes one if there is none.
    #[cold]
    pub(super) fn find_peer(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        dest: u64,
    ) -> Result<usize> {
        let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
        if domain.avs[av].get(dest).is_none() {
            shared_av::renew(self, domain, av)?;
        }
        self.traffic.peers.conn_for(domain, ep, dest)
    }
}
