// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Closing a transmit or receive context of a scalable endpoint: fi_endpoint(3).

use super::Sessions;
use crate::rxm::session::flight::Kind;
use crate::rxm::session::{Session, Wire};
use crate::rxm::state::StateOf;
use base::Error;
use engine::peer::handover::Handover;

impl Sessions {
    /// Closes a transmit context of the endpoint `port`. Operations that have not started are dropped; copied data is
    /// sent and completes at the other context. Memory that the provider below is using comes back only at the end of
    /// its connection, as when an endpoint is closed.
    pub fn leave_transmits<W: Wire>(
        &mut self,
        domain: &mut StateOf,
        wire: &mut W,
        port: usize,
        mut handover: Handover,
    ) {
        let mut over = Vec::new();
        for id in self.ids(port) {
            let is_over = self.with(domain, wire, id, |session, cx| {
                session.leave_transmits(cx, &mut handover)
            });
            if is_over == Some(true) {
                over.push(id);
            }
        }
        let table = &self.table;
        for (flight, is_lent) in wire.flights_mut() {
            let is_its = match &mut flight.kind {
                Kind::Op(op) => handover.transfer(op),
                kind => table
                    .get(flight.id)
                    .is_some_and(|session| session.outgoing().is_part_of(kind, &handover)),
            };
            if is_its && is_lent {
                over.push(flight.id);
            }
        }
        for id in self.ids(port) {
            if let Some(session) = self.table.get_mut(id) {
                session.transfer_groups(&mut handover);
            }
        }
        handover.settle(domain);
        self.end_all(domain, wire, over);
    }

    /// Closes a receive context of the endpoint `port`: from now on nothing is written to its buffers.
    pub fn leave_receives<W: Wire>(
        &mut self,
        domain: &mut StateOf,
        wire: &mut W,
        port: usize,
        ep: usize,
    ) {
        let mut over = Vec::new();
        for id in self.ids(port) {
            let session = self.table.get_mut(id);
            if session.is_some_and(|session: &mut Session| session.leave_receives(ep)) {
                over.push(id);
            }
        }
        self.end_all(domain, wire, over);
    }

    fn end_all<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W, over: Vec<usize>) {
        for id in over {
            let what = &"was about to use memory of a context that is closed";
            self.with(domain, wire, id, |session, cx| {
                session.lost(cx, Error::CONNRESET, what)
            });
        }
    }
}
