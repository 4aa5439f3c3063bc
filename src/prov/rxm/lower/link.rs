// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections below: an endpoint for each attempt, which is closed when the attempt or the connection has ended.

use std::sync::Arc;

use super::{Flight, Lower, put_packet};
use crate::rxm::session::{Ended, Place, put_slots};
use base::{Error, Result};
use client::layer::{Registrar, close};
use client::{Ep, Info};
use engine::address::ip::Addr;
use engine::transport::Address;
use object::ops::options::{OPT_MORE_FOLLOWS, OPT_PEER_NUMBER};

/// The connection of a session.
#[derive(Default)]
pub struct Link {
    /// Endpoint of rxm.
    pub ep: usize,
    pub below: Option<Arc<Ep>>,
    /// Registers memory for this connection.
    pub registrar: Option<Registrar>,
    /// Number by which completions below identify this connection; 0 means none.
    pub arrival: u64,
    /// Number of receives below that belong to this connection alone.
    pub posted: usize,
    /// Set while there are none; more are posted as soon as there is room.
    pub is_dry: bool,
    /// No receives are posted.
    pub is_paused: bool,
}

impl Lower {
    /// Opens an endpoint below and connects it.
    pub(super) fn connect_to(
        &mut self,
        place: Place,
        own: &Addr,
        peer: &Addr,
        request: &[u8],
    ) -> Result {
        let mut from = *own;
        from.set_port(0);
        let below = self
            .domain
            .connecting(sys::addr::to_bytes(&from), peer.to_bytes())?;
        self.set_up(place, below.clone())?;
        below.connect(&peer.to_bytes(), request)
    }

    /// Accepts a request with an answer.
    pub fn accept(&mut self, place: Place, info: Info<'_>, answer: &[u8]) -> Result {
        let below = Ep::open(&self.domain.domain, info)?;
        self.set_up(place, below.clone())?;
        below.accept(answer)
    }

    /// Refuses a request.
    pub fn reject(&self, ep: usize, info: Info<'_>, data: &[u8]) {
        if let Some(endpoint) = self.endpoint(ep) {
            let _ = endpoint.listener.reject(info, data);
        }
    }

    /// Binds an endpoint below and assigns it to the session.
    fn set_up(&mut self, place: Place, below: Arc<Ep>) -> Result {
        let Place { arrival, id, ep } = place;
        let endpoint = self.endpoint(ep).ok_or(Error::INVAL)?;
        below.bind(&self.domain.eq, 0)?;
        if let Some(shared) = &endpoint.shared_rx {
            below.bind(shared, 0)?;
        }
        below.bind(&endpoint.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        endpoint.accesses.bind_to(&below)?;
        below.enable()?;
        if self.domain.is_ours {
            // The segments of a message are posted together.
            let _ = below.setopt(OPT_MORE_FOLLOWS, 1u8);
            below.setopt(OPT_PEER_NUMBER, arrival as usize)?;
        }
        let registrar = self.domain.registrar.of_endpoint(&below);
        let registrar = Some(endpoint.accesses.telling(registrar));
        self.by_link.insert(below.number(), id);
        if self.links.len() <= id {
            self.links.resize_with(id + 1, Link::default);
        }
        let link = &mut self.links[id];
        (link.ep, link.arrival, link.is_paused) = (ep, arrival, false);
        (link.below, link.registrar) = (Some(below), registrar);
        self.post_own(id)
    }

    /// Returns the session of an endpoint below.
    pub fn session_of(&self, below: usize) -> Option<usize> {
        self.by_link.get(&below).copied()
    }

    /// Posts receives after a receive of this connection has ended.
    pub fn refill(&mut self, id: usize, arrival: u64) {
        if self
            .links
            .get(id)
            .is_some_and(|link| link.arrival == arrival)
        {
            let _ = self.post_own(id);
        }
    }

    /// Starts the operations of an endpoint that FI_MORE has deferred.
    pub fn flush(&self, ep: usize) {
        let links = self.links.iter().filter(|link| link.ep == ep);
        for below in links.filter_map(|link| link.below.as_ref()) {
            // A provider below that does not have the call starts its operations by itself.
            let _ = below.tx_flush();
        }
    }

    /// Closes the endpoint below of a session as soon as it is not in use.
    pub(super) fn unlink(&mut self, id: usize) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.registrar = None;
        (link.posted, link.arrival, link.is_paused) = (0, 0, false);
        if let Some(below) = link.below.take() {
            self.by_link.remove(&below.number());
            let _ = below.shutdown();
            self.closing.push((below, id));
            self.close_ended();
        }
    }

    /// Closes endpoints below that are over, and ends the operations in flight there.
    pub fn close_ended(&mut self) {
        let mut at = 0;
        while at < self.closing.len() {
            let (below, id) = self.closing.remove(at);
            let endpoint = self.links.get(id).and_then(|link| self.endpoint(link.ep));
            let cq = endpoint.map(|endpoint| endpoint.cq.clone());
            for pool in [&mut self.packets, &mut self.heads, &mut self.copies] {
                pool.forget(&below);
            }
            match close(below) {
                Ok(closed) => {
                    for (flight, loan) in self.ops.closed(closed, cq.as_deref()) {
                        match flight {
                            Flight::Operation(flight) => {
                                drop(put_slots(self, loan));
                                self.ended.push_back(Ended::Operation(flight));
                            }
                            Flight::SharedPacket { .. } | Flight::SharedBlock { .. } => {
                                self.received_one(&flight);
                                put_packet(&mut self.packets, loan);
                            }
                            Flight::Packet { .. } => put_packet(&mut self.packets, loan),
                        }
                    }
                    self.ended.push_back(Ended::Closed(id));
                }
                Err((below, _)) => {
                    self.closing.insert(at, (below, id));
                    at += 1;
                }
            }
        }
    }

    pub(super) fn has_closing(&self, id: usize) -> bool {
        self.closing.iter().any(|&(_, of)| of == id)
    }
}
