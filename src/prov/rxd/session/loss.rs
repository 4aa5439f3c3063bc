// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Ends operations when the peer is lost, or when the application cancels them.

use super::out::{Begin, End, Out};
use super::receive::GONE;
use super::send::SendState;
use super::sink::Sink;
use super::{Cx, Session, Wire};
use crate::rxd::SOURCE;
use base::log::{Subsys, log_failure, log_info};
use base::{Error, IoVec};
use engine::domain_state::TxOp;
use engine::peer::loss::OuterLoss;
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// The peer is lost: all operations in flight fail. The next operation starts a new handshake.
    #[cold]
    pub fn lose<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, error: Error, why: &str) {
        let outer = cx.domain.losses.begin(why);
        self.fail_all(cx, error);
        self.end_loss(cx, outer, why);
    }

    /// The same for a peer that stopped answering. Also fails receives that wait for a message of this peer only.
    #[cold]
    pub fn lose_silent<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, error: Error) {
        let why = "the peer does not answer";
        let outer = cx.domain.losses.begin(why);
        cx.domain.fail_receives_from(self.ep, self.source, error);
        self.fail_all(cx, error);
        self.end_loss(cx, outer, why);
    }

    /// Fails everything in flight with the peer, and forgets it.
    fn fail_all<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, error: Error) {
        let anew = SendState::new(cx.common.settings.window, self.own_id());
        let mut tx = std::mem::replace(&mut self.tx, anew);
        cx.common.answers -= tx.answer_bytes;
        for out in tx.outs {
            cx.common.promised -= usize::from(out.end.is_promised());
            if let End::Complete(op) = out.end {
                cx.domain.fail_tx(&op, error);
            }
        }
        for read in tx.reads.take_all() {
            cx.domain.fail_tx(&read.op, error);
        }
        let rx = self.end_receiving(cx);
        for sink in rx
            .incoming
            .map(|incoming| incoming.sink)
            .into_iter()
            .chain(rx.decided)
        {
            self.drop_sink(cx, sink, error);
        }
        cx.domain.forget_claims(self.ep, self.id);
        self.forget(cx);
    }

    fn end_loss<W>(&self, cx: &mut Cx<'_, A, W>, outer: OuterLoss, why: &str) {
        match cx.domain.losses.end(outer) {
            0 => log_info!(&SOURCE, Subsys::EpData, "{}: {why}", self.addr),
            failed => log_failure!(
                &SOURCE,
                Subsys::EpData,
                "{}: {why}; {failed} operations fail",
                self.addr
            ),
        }
    }

    /// Notifies a peer of this library, once, that the endpoint closes. Returns false if the wire has no room.
    pub fn part<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) -> bool {
        self.rx.refused = GONE;
        self.send_ack(cx)
    }

    /// Stops writing to memory of the application.
    pub fn release_memory(&mut self) {
        if let Some(incoming) = &mut self.rx.incoming {
            incoming.sink = Sink::Nothing;
        }
        if self.rx.decided.is_some() {
            self.rx.decided = Some(Sink::Nothing);
        }
        for read in self.tx.reads.iter_mut() {
            read.iov = IoVec::empty();
        }
    }

    /// Removes an operation of which no packet was sent.
    pub fn take_unsent(&mut self, ep: usize, context: usize) -> Option<TxOp> {
        let is_meant = |out: &Out| match &out.end {
            End::Complete(op) => op.is_named(ep, context),
            End::Nothing => false,
        };
        match self.tx.take_unsent(is_meant)?.end {
            End::Complete(op) => Some(op),
            End::Nothing => None,
        }
    }

    /// Fails atomics of several packets: peers of other libraries implement only those that fit in one packet.
    pub fn drop_long_atomics<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        if !self.is_foreign() {
            return;
        }
        while let Some(out) = self.tx.take_unsent(Out::is_long_atomic) {
            let request = match &out.begin {
                Begin::Op(op) => op.segments.map(|segments| segments.transaction),
                Begin::Answer(_) => None,
            };
            cx.common.promised -= usize::from(out.end.is_promised());
            if let End::Complete(op) = out.end {
                cx.domain.fail_tx(&op, Error::MSGSIZE);
            } else if let Some(read) =
                request.and_then(|number| self.tx.reads.remove(number.into()))
            {
                cx.domain.fail_tx(&read.op, Error::MSGSIZE);
            }
        }
    }

    /// Number of unsent operations that the application may consider done.
    pub fn promised(&self) -> usize {
        let outs = self.tx.outs.iter();
        outs.filter(|out| out.end.is_promised()).count()
    }

    /// Whether operations or answers are not acknowledged. Otherwise the session leaves the list of those that send.
    pub fn is_sending(&mut self) -> bool {
        self.listed.sending = !self.tx.outs.is_empty();
        self.listed.sending
    }
}
