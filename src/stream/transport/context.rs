// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The contexts of scalable endpoints (fi_endpoint(3)). All contexts share the connections of their endpoint, the port.
//! An operation names its context for the completion. A frame names its receive context unless that is the first.
//!
//! An endpoint's number in the domain's table stands for where its operations complete (`TxOp::ep`, `Envelope::ep`);
//! connections belong to an endpoint of the transport. For ordinary endpoints both are the same. A frame for another
//! context than the first has an op of its own, which the path for whole messages leaves to the general one.

use crate::connector::Connector;
use crate::proto::MAX_CONTEXTS;
use crate::session::send::check_flags;
use crate::transport::{DomainOf, Stream};
use base::{Error, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Contexts;
use object::ops::transfer::Tx;

impl<N: Connector> Stream<N> {
    /// Does the same as `post`, for a transmit context `ep` of the endpoint `port` or for an endpoint itself. The
    /// destination may name one of the peer's receive contexts.
    #[inline(never)]
    pub(super) fn post_from(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
    ) -> Result {
        let state = domain.find_ep(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        if tx
            .flags
            .intersects(OpFlags::MATCH_COMPLETE | OpFlags::FENCE)
        {
            check_flags(tx.what, tx.flags, state)?;
        }
        domain.may_post(ep)?;
        let (dest, context) = domain.destination(port, tx.dest, MAX_CONTEXTS)?;
        let id = self.connection(domain, port, dest)?;
        let op = TxOp::of(ep, tx);
        self.post_to(domain, id, tx, op, context)
    }
}

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
        for id in self.traffic.peers.ids(|conn| conn.session.peer.ep == port) {
            // The session sends from copies what does not leave now.
            let now = self.traffic.poller.now();
            self.traffic.last_flush(domain, id, now);
            self.settle(domain);
            let Some(conn) = self.traffic.peers.get_mut(id) else {
                continue;
            };
            conn.link.revoke();
            let (over, left) = conn.session.bequeath(ep, successor);
            domain.ep_mut(ep).tx_pending -= over + left;
            domain.ep_mut(successor).tx_pending += left;
        }
    }

    /// Closes a receive context: from now on nothing is written to its buffers.
    fn close_rx_context(&mut self, domain: &mut DomainOf<N>, port: usize, ep: usize) {
        if self.is_inherited() {
            return;
        }
        for id in self.traffic.peers.ids(|conn| conn.session.peer.ep == port) {
            // A frame to one peer may have ended the connection to another.
            if self.traffic.peers.contains(id) {
                self.with(domain, id, |session, cx| session.leave_context(cx, ep));
            }
        }
    }
}
