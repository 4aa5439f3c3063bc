// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Prepared work requests (fi_wr(3)): which peer an index stands for, and messages whose header was encoded when they
//! were prepared.

use crate::connector::Connector;
use crate::proto::{MAX_CONTEXTS, MAX_MESSAGE_HEADER, Message, renumber};
use crate::session::outbox::TOGETHER;
use crate::session::send::{PLAIN, remote_data};
use crate::shm_channel::RECORD;
use crate::transport::{DomainOf, Stream};
use base::{Error, Result};
use engine::domain_state::TxOp;
use engine::shared_av;
use engine::transport::{Prepares, Queues};
use object::ops::transfer::{OneTx, Tx, What};
use object::ops::wr::record::{ROUTE_HEADER, Route};

const _: () = assert!(MAX_MESSAGE_HEADER == ROUTE_HEADER);

impl<N: Connector> Queues for Stream<N> {}

impl<N: Connector> Prepares for Stream<N> {
    fn route(&mut self, domain: &mut DomainOf<N>, port: usize, tx: &Tx<'_>) -> Result<Route> {
        let mut route = Route::to(self.generation(domain, port, tx.dest)?);
        let (_, context) = domain.destination(port, tx.dest, MAX_CONTEXTS)?;
        let is_message = matches!(tx.what, What::Msg | What::Tagged);
        if !is_message || context != 0 || tx.iov.pieces() != 1 || !PLAIN.contains(tx.flags) {
            return Ok(route);
        }
        let len = tx.iov.remaining();
        if len > self.traffic.common.limits.saved_size {
            return Ok(route);
        }
        if len <= RECORD - MAX_MESSAGE_HEADER {
            route.links |= Route::SHARED_MEMORY;
        }
        if len <= TOGETHER {
            route.links |= Route::SOCKET;
        }
        let message = Message {
            tagged: tx.what == What::Tagged,
            ack: false,
            data: remote_data(tx),
            tag: tx.tag,
            context: 0,
            payload: len as u64,
        };
        route.header_len = message.encode(0, false, &mut route.header) as u8;
        Ok(route)
    }

    fn generation(&mut self, domain: &mut DomainOf<N>, port: usize, addr: u64) -> Result<u32> {
        if !self.traffic.peers.ep(port)?.rdm {
            return Ok(0);
        }
        let (index, _) = domain.destination(port, addr, MAX_CONTEXTS)?;
        let av = domain.eps[port].av.ok_or(Error::NOAV)?;
        if domain.avs[av].get(index).is_none() {
            shared_av::renew(self, domain, av)?;
        }
        domain.avs[av].get(index).ok_or(Error::INVAL)?;
        Ok(domain.avs[av].generation(index))
    }

    fn is_current(&self, domain: &DomainOf<N>, port: usize, addr: u64, generation: u32) -> bool {
        let Some(endpoint) = self.traffic.peers.find_ep(port) else {
            return false;
        };
        let Ok((index, _)) = domain.destination(port, addr, MAX_CONTEXTS) else {
            return false;
        };
        let av = domain.eps[port].av.map(|av| &domain.avs[av]);
        !endpoint.rdm || av.is_some_and(|av| av.generation(index) == generation)
    }

    #[inline(always)]
    fn queue_short(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        tx: &OneTx,
        route: &Route,
    ) -> bool {
        if domain.may_post(ep).is_err() {
            return false;
        }
        let Some(endpoint) = self.traffic.peers.find_ep(ep) else {
            return false;
        };
        let id = match endpoint.slot(tx.dest) {
            Some(slot) if slot.generation() == route.generation => slot.conn_number(),
            None if !endpoint.rdm => match endpoint.conn {
                Some(id) => id,
                None => return false,
            },
            _ => return false,
        };
        let Some(conn) = self.traffic.peers.get_mut(id) else {
            return false;
        };
        let op = TxOp::of_one(ep, tx);
        let header_len = usize::from(route.header_len).min(ROUTE_HEADER);
        let mut header = route.header;
        // Lengths are checked again, because the caller can have overwritten the record.
        if N::ALL_SHM || N::MAY_SHARE && conn.link.is_ring() {
            let posted = route.links & Route::SHARED_MEMORY != 0
                && op.len <= RECORD - MAX_MESSAGE_HEADER
                && conn
                    .session
                    .post_encoded(&mut conn.link, &mut header, header_len, &tx.piece);
            if posted {
                domain.sent(ep, &op);
            }
            return posted;
        }
        if route.links & Route::SOCKET == 0 || op.len > TOGETHER {
            return false;
        }
        let (session, mut cx) = self.traffic.at(domain, id);
        let encode = |counter, out: &mut [u8; MAX_MESSAGE_HEADER]| {
            *out = header;
            renumber(out, counter);
            header_len
        };
        let payload = tx.piece.cursor();
        let posted = session.post_small(&mut cx, &payload, op, false, encode);
        self.settle(domain);
        posted
    }
}
