// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How many operations the connections of an endpoint accept.

use super::Peers;
use crate::connector::Connector;
use crate::proto::{MAX_ATOMIC, MAX_HEADER};
use crate::session::State;
use crate::session::outbox::{OutFrame, STAGE_HIGH_WATER};
use crate::session::queue::RENDEZVOUS_LIMIT;
use crate::session::rma::ASKED;
use base::Caps;

impl<N: Connector> Peers<N> {
    /// Minimum of operations that any connection of the endpoint accepts now: announced large messages, or injected
    /// messages, which are copied into a ring or a staging buffer, or reads.
    pub(crate) fn room_of(&mut self, ep: usize, inject: usize, caps: Caps) -> usize {
        let frame = MAX_HEADER + inject;
        // Memory that a read or a fetching atomic operation costs the peer.
        let asks_most = match caps.contains(Caps::READ) {
            true if caps.contains(Caps::ATOMIC) => Some(size_of::<OutFrame>() + MAX_ATOMIC),
            true => Some(size_of::<OutFrame>()),
            false => None,
        };
        let most = match self.is_rdm(ep) {
            true => RENDEZVOUS_LIMIT,
            false => usize::MAX,
        };
        let conns = self.iter_mut().map(|(_, conn)| conn);
        let up = conns.filter(|conn| conn.session.ep == ep && conn.session.state == State::Up);
        up.fold(most, |least, conn| {
            let told = most.saturating_sub(conn.session.tx.rendezvous.len());
            let asked = match (asks_most, ASKED.checked_sub(conn.session.tx.asked)) {
                (None, _) => most,
                (_, None) => 0,
                (Some(cost), Some(left)) => 1 + left / cost,
            };
            let copied = match conn.link.gathers() {
                false if !conn.session.tx.out.is_empty() => 0,
                false => conn.link.room_for(frame),
                true => match STAGE_HIGH_WATER.checked_sub(conn.session.tx.out.staged()) {
                    None => 0,
                    Some(left) => 1 + left / frame,
                },
            };
            least.min(told).min(copied).min(asked)
        })
    }
}
