// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Closing of registered memory, and withdrawal from peers: waits for its users, or ends their connections.

use std::sync::Arc;

use crate::connector::Connector;
use crate::session::Ending;
use crate::session::receive::Fault;
use crate::shm_channel::CLOSE_TIMEOUT;
use crate::transport::Traffic;
use engine::transport::MrRegion;

impl<N: Connector> Traffic<N> {
    /// Handles the close of a region (fi_mr(3), fi_close). Accesses in progress end with their connections, because no
    /// frame reports a failed access to a peer.
    #[cold]
    pub(in crate::transport) fn end_accesses(&mut self, region: &Arc<MrRegion>) {
        // Besides the handle, only accesses hold a reference; the table has released its own.
        if Arc::strong_count(region) == 1 {
            return;
        }
        let accessing = self.peers.ids(|conn| conn.session.accesses(region));
        for id in accessing {
            const CLOSED: Fault = Fault::Rule("a memory region was closed under its access");
            self.end(id, Ending::Fault(CLOSED));
        }
    }

    /// Waits up to `CLOSE_TIMEOUT` for the users of a region that was withdrawn from this place of the directory, and
    /// then ends the connections of those that still use it.
    #[cold]
    pub(in crate::transport) fn wait_for_users(&mut self, at: usize) {
        let until = self.poller.now() + CLOSE_TIMEOUT;
        let polled = self.peers.ids(|_| true);
        for id in polled {
            while let Some(conn) = self.peers.get(id)
                && conn.link.is_using(at)
            {
                if self.poller.now() < until {
                    std::thread::yield_now();
                    continue;
                }
                conn.link.leave();
                const HELD: Fault = Fault::Rule("it does not let go of a region that is closed");
                self.end(id, Ending::Fault(HELD));
                break;
            }
        }
    }
}
