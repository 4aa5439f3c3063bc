// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The contexts of scalable endpoints (fi_endpoint(3)). All contexts share the connections of their endpoint, the port.
//! An operation names its context for the completion. A frame names its receive context unless that is the first.
//!
//! An endpoint's number in the domain's table stands for where its operations complete (`TxOp::ep`, `Envelope::ep`);
//! connections belong to an endpoint of the transport. For ordinary endpoints both are the same. A frame for another
//! context than the first has an op of its own, which the path for whole messages leaves to the general one.

use crate::connector::Connector;
use crate::transport::{DomainOf, Stream};
use engine::peer::handover::Handover;
use engine::transport::Contexts;

impl<N: Connector> Contexts for Stream<N> {
    const OF_DATAGRAMS: bool = true;

    /// Closes a transmit context. Drops operations that have not started and would report a completion. The others are
    /// sent, from copies if the kernel does not take them in time, because the stream has to continue; they then belong
    /// to `successor`.
    fn close_tx_context(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        successor: usize,
    ) {
        if self.is_inherited() {
            return;
        }
        for id in self.traffic.peers.ids_of_ep(port) {
            // The session sends from copies what does not leave now.
            let now = self.traffic.poller.now();
            self.traffic.last_flush(domain, id, now);
            self.settle(domain);
            let Some(conn) = self.traffic.peers.get_mut(id) else {
                continue;
            };
            conn.link.revoke();
            let mut handover = Handover::new(ep, successor);
            conn.session.transfer_to_successor(&mut handover);
            handover.settle(domain);
        }
    }

    /// Closes a receive context: from now on nothing is written to its buffers.
    fn close_rx_context(&mut self, domain: &mut DomainOf<N>, port: usize, ep: usize) {
        if self.is_inherited() {
            return;
        }
        for id in self.traffic.peers.ids_of_ep(port) {
            // A frame to one peer may have ended the connection to another.
            if self.traffic.peers.contains(id) {
                self.with(domain, id, |session, cx| session.leave_context(cx, ep));
            }
        }
    }
}
