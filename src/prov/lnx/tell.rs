// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The peers of an endpoint, for reports.

use super::domain::Linked;
use super::held::{Flight, Route};
use engine::report::{Peer, Stage, Wait};

impl Linked {
    /// The peers to which a way was chosen, each with the operations that are not complete.
    pub(super) fn report_peers(&self, ep: usize) -> Vec<Peer> {
        let routes = self.held.routes.get(ep).map_or(&[][..], |routes| routes);
        let chosen = routes.iter().zip(0..);
        let mut peers: Vec<Peer> = chosen
            .filter_map(|(route, index)| Some(self.describe(&route.as_ref().copied()?, index)))
            .collect();
        for flight in self.held.ops.iter() {
            if let Flight::Of { op, dest } = flight
                && op.ep() == ep
                && let Some(peer) = peers.iter_mut().find(|peer| peer.fi_addr == Some(*dest))
            {
                peer.add(Wait::of(op, None, Stage::Answer, None));
            }
        }
        peers
    }

    fn describe(&self, route: &Route, index: u64) -> Peer {
        let known = self.held.book.at(route.rail, route.place);
        let is_memory = self.rails[route.rail].is_shm;
        Peer {
            address: known
                .map(|known| known.addr.to_string())
                .unwrap_or_default(),
            fi_addr: Some(index),
            state: match route.is_up {
                true => "in use",
                false => "not reached yet",
            },
            is_up: route.is_up,
            link: match is_memory {
                true => "shared memory",
                false => "the network",
            },
            is_memory,
            ..Peer::default()
        }
    }
}
