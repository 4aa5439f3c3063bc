// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections below: an endpoint for each attempt, which is closed when the attempt or the connection has ended.

use std::sync::Arc;

use super::posted::LEAST_COUNTED;
use super::queues::queue_of;
use super::{Flight, Lower, put_packet};
use crate::rxm::proto::{FlowControl, Request, Response};
use crate::rxm::session::{Ended, Place, put_slots};
use base::{Error, Result};
use client::layer::{Registrar, close};
use client::{Ep, Info, PeerCredits};
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
    /// Intended number of them.
    pub depth: usize,
    /// Credits of the peer, if the provider below counts.
    pub credits: Option<PeerCredits>,
    /// Set while there are too few; more are posted as soon as there is room.
    pub is_dry: bool,
    /// No receives are posted.
    pub is_paused: bool,
    /// FI_MORE has deferred operations below: the session is in `Lower::deferred`.
    pub is_deferred: bool,
    /// Number of endpoints below in `Lower::closing`.
    closing: u32,
}

impl Lower {
    /// Opens an endpoint below and connects it.
    pub(super) fn connect_to(
        &mut self,
        place: Place,
        own: &Addr,
        peer: &Addr,
        mut request: Request,
    ) -> Result<bool> {
        let mut from = *own;
        from.set_port(0);
        let below = self
            .domain
            .connecting(sys::addr::to_bytes(&from), peer.to_bytes())?;
        let counts = self.set_up(place, below.clone())?;
        request.flow = FlowControl::of_side(counts);
        below.connect(&peer.to_bytes(), &request.encode())?;
        Ok(counts)
    }

    /// Accepts a request with an answer. Returns whether that has announced that this side counts posted receives.
    pub fn accept(&mut self, place: Place, info: Info<'_>, mut answer: Response) -> Result<bool> {
        let below = Ep::open(&self.domain.domain, info)?;
        let counts = self.set_up(place, below.clone())?;
        answer.flow = FlowControl::of_side(counts);
        below.accept(&answer.encode())?;
        Ok(counts)
    }

    /// Refuses a request.
    pub fn reject(&self, ep: usize, info: Info<'_>, data: &[u8]) {
        if let Some(endpoint) = self.endpoint(ep) {
            let _ = endpoint.listener.reject(info, data);
        }
    }

    /// Binds an endpoint below and assigns it to the session. Returns whether it can count receives.
    fn set_up(&mut self, place: Place, below: Arc<Ep>) -> Result<bool> {
        let Place { arrival, id, ep } = place;
        let shared = self.shared_context()?;
        let endpoint = self.endpoint(ep).ok_or(Error::INVAL)?;
        let cq = queue_of(&self.queues, Some(ep)).ok_or(Error::INVAL)?;
        below.bind(&self.domain.eq, 0)?;
        if let Some(shared) = &shared {
            below.bind(shared, 0)?;
        }
        below.bind(cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        endpoint.accesses.bind_to(&below)?;
        below.enable()?;
        if self.domain.is_ours {
            // The segments of a message are posted together.
            let _ = below.setopt(OPT_MORE_FOLLOWS, 1u8);
            below.setopt(OPT_PEER_NUMBER, arrival as usize)?;
        }
        let credits = self.domain.credits.as_ref();
        let credits = credits.filter(|_| self.domain.receives >= LEAST_COUNTED);
        let credits = credits.and_then(|credits| credits.of_endpoint(&below));
        let counts = credits.is_some();
        let depth = self.depth(counts);
        let registrar = self.domain.registrar.of_endpoint(&below);
        let registrar = Some(endpoint.accesses.telling(registrar));
        self.by_link.insert(below.number(), id);
        if self.links.len() <= id {
            self.links.resize_with(id + 1, Link::default);
        }
        let link = &mut self.links[id];
        (link.ep, link.arrival, link.is_paused) = (ep, arrival, false);
        (link.below, link.registrar) = (Some(below), registrar);
        (link.credits, link.depth) = (credits, depth);
        self.post_own(id)?;
        Ok(counts)
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

    /// Records that FI_MORE has deferred operations of a session.
    #[cold]
    pub(super) fn defer(&mut self, id: usize) {
        if let Some(link) = self.links.get_mut(id)
            && !core::mem::replace(&mut link.is_deferred, true)
        {
            self.deferred.push(id);
        }
    }

    /// Starts the operations that FI_MORE has deferred.
    pub fn flush(&mut self) {
        for id in core::mem::take(&mut self.deferred) {
            let link = &mut self.links[id];
            link.is_deferred = false;
            if let Some(below) = &link.below {
                // A provider below that does not have the call starts its operations by itself.
                let _ = below.tx_flush();
            }
        }
    }

    /// Shuts the endpoint below of a session down. `close_ended` closes it, because one pass over the operations in
    /// flight then serves many endpoints.
    pub(super) fn unlink(&mut self, id: usize) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        (link.registrar, link.credits) = (None, None);
        (link.posted, link.arrival, link.is_paused) = (0, 0, false);
        if let Some(below) = link.below.take() {
            link.closing += 1;
            self.by_link.remove(&below.number());
            let _ = below.shutdown();
            self.closing.push((below, id));
            self.is_closing = true;
        }
    }

    /// Closes endpoints below that are over, and ends the operations in flight there.
    pub fn close_ended(&mut self) {
        self.is_closing = false;
        if self.closing.is_empty() {
            return;
        }
        let mut closed = Vec::new();
        for (below, id) in core::mem::take(&mut self.closing) {
            for pool in [&mut self.packets, &mut self.heads, &mut self.copies] {
                pool.forget(&below);
            }
            match close(below) {
                Ok(proof) => closed.push((proof, id)),
                Err((below, _)) => self.closing.push((below, id)),
            }
        }
        let ids: Vec<usize> = closed.iter().map(|&(_, id)| id).collect();
        let (queues, links) = (&self.queues, &self.links);
        let queue = |id: usize| {
            let ep = links.get(id).map(|link| link.ep);
            queue_of(queues, ep).map(|cq| &**cq)
        };
        let closed = closed.into_iter().map(|(proof, id)| (proof, queue(id)));
        for (flight, loan) in self.ops.closed(closed) {
            match flight {
                Flight::Operation(flight) => {
                    drop(put_slots(self, loan));
                    self.ended.push_back(Ended::Operation(flight));
                }
                Flight::SharedPacket | Flight::SharedBlock | Flight::Packet { .. } => {
                    put_packet(&mut self.packets, loan);
                }
            }
        }
        for id in ids {
            if let Some(link) = self.links.get_mut(id) {
                link.closing -= 1;
                self.ended.push_back(Ended::Closed(id));
            }
        }
    }

    /// Whether the end of a connection of this session is not complete.
    pub(super) fn has_closing(&self, id: usize) -> bool {
        self.links.get(id).is_some_and(|link| link.closing > 0)
    }
}
