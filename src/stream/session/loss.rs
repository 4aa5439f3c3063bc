// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Handles operations when the peer is lost, the endpoint or one of its contexts closes, or the application cancels
//! them; and finds out which of them have to leave before that.

use crate::link::Link;
use crate::session::receive_state::{At, ReceiveState, Sink};
use crate::session::{Cx, Session};
use base::log::Source;
use base::{Error, IoVec};
use engine::peer::handover::Handover;
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// Completes the operations posted to the peer, and those that the peer has started, in error.
    pub fn fail_operations(&mut self, cx: &mut Cx<'_, A>, error: Error) {
        let (ep, id) = (self.peer.ep, cx.id);
        self.tx.fail(cx.domain, error);
        self.tx.reads.end();
        self.exposed.take_written();
        let Cx { domain, common, .. } = cx;
        let rx = std::mem::replace(&mut self.rx, ReceiveState::new());
        match rx.at {
            At::Payload(incoming) | At::Stopped(incoming) => match incoming.into_sink() {
                Sink::Recv(recv, envelope) => {
                    domain.receive_failed(envelope.ep, &recv, envelope.what, error);
                }
                Sink::Slot(srx, slot) => {
                    if let Some((recv, envelope)) = domain.srxs[srx].lost(slot) {
                        domain.receive_failed(envelope.ep, &recv, envelope.what, error);
                    }
                }
                Sink::Read(read) => {
                    domain.fail_tx(&read.op, error);
                }
                Sink::Coll(part) => part.is_lost(domain, ep),
                Sink::Write { .. }
                | Sink::Atomic(_)
                | Sink::Gathered(_)
                | Sink::Drop
                | Sink::Refused(_) => {}
            },
            At::Header | At::Stalled(_) | At::Held(_) => {}
        }
        for (recv, envelope) in rx.told.into_receives() {
            domain.receive_failed(envelope.ep, &recv, envelope.what, error);
        }
        domain.forget_claims(ep, id);
        common.stalled.remove(id);
    }

    /// Stops writing to the application's memory, whatever the peer sends.
    pub fn release_memory(&mut self, link: &Link, source: &'static Source) {
        let told = &mut self.rx.told;
        told.take_back(link, &self.peer, source, |_| true);
        told.discard(|_| true);
        if let At::Payload(incoming) = &mut self.rx.at
            && incoming.sink.memory().is_some()
        {
            incoming.drop_rest();
            self.tx.reads.end();
        }
        for read in self.tx.reads.iter_mut() {
            read.iov = IoVec::empty();
        }
    }

    /// Whether accepted data has not left.
    pub fn owes(&self) -> bool {
        let collects = self.coll.as_ref().is_some_and(|frames| !frames.is_empty());
        self.tx.out.frames().staged() > 0 || collects || self.tx.promised().next().is_some()
    }

    /// Stops using the application's memory for operations of a transmit context. Operations that still wait for an
    /// answer move to the successor.
    pub fn transfer_to_successor(&mut self, handover: &mut Handover) {
        self.tx.transfer_to_successor(handover);
        if let At::Payload(incoming) = &mut self.rx.at
            && let Sink::Read(read) = &mut incoming.sink
            && handover.transfer(&mut read.op)
        {
            incoming.landing = None;
            read.iov = IoVec::empty();
        }
    }
}
