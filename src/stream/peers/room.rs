// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How many operations the connections of an endpoint accept.

use super::Peers;
use crate::connector::Connector;
use crate::ep::Ep;
use crate::proto::{MAX_ATOMIC, MAX_HEADER};
use crate::session::State;
use crate::session::announced::LIMIT;
use crate::session::outbox::STAGE_HIGH_WATER;
use crate::session::reads::READ_COST;
use base::Caps;

impl<N: Connector> Peers<N> {
    /// Minimum of operations that any connection of the endpoint accepts now: announced large messages, or injected
    /// messages, which are copied into a ring or a staging buffer, or reads.
    pub(crate) fn room_of(&mut self, ep: usize, inject: usize, caps: Caps) -> usize {
        let frame = MAX_HEADER + inject;
        // Memory that a read or a fetching atomic operation costs the peer.
        let asks_most = match caps.contains(Caps::READ) {
            true if caps.contains(Caps::ATOMIC) => Some(READ_COST + MAX_ATOMIC),
            true => Some(READ_COST),
            false => None,
        };
        let rdm = self.is_rdm(ep);
        let most = match rdm {
            true => LIMIT,
            false => usize::MAX,
        };
        let ids = self.eps.get(ep).into_iter().flat_map(Ep::conns);
        ids.fold(most, |least, id| {
            let conn = &mut self.conns[id];
            if conn.session.state != State::Up {
                return least;
            }
            let tx = &conn.session.tx;
            let told = match rdm {
                true => tx.announced.room(),
                false => most,
            };
            let asked = asks_most.map_or(most, |cost| tx.reads.room(cost));
            let copied = match conn.link.gathers() {
                false if !tx.out.frames().is_empty() => 0,
                false => conn.link.room_for(frame),
                true => match STAGE_HIGH_WATER.checked_sub(tx.out.frames().staged()) {
                    None => 0,
                    Some(left) => 1 + left / frame,
                },
            };
            least.min(told).min(copied).min(asked)
        })
    }
}
