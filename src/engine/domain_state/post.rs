// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posts receives and matches them with messages that are here: fi_msg(3), fi_tagged(3).

use super::DomainState;
use super::receive::{Sender, entry_of};
use crate::srx::{Claimed, Envelope, Filled, Outcome, PostedOne, RecvOp, Srx};
use crate::transport::Address;
use abi::*;
use base::{CompFlags, Error, OpFlags, Result};

use object::ops::cq::CqErr;
use object::ops::transfer::{OneRx, Rx, What};

impl<A: Address> DomainState<A> {
    /// Calls `f` for each receive context where messages of the endpoint's peers may be: its own, and those of its
    /// contexts.
    pub fn each_srx(&mut self, ep: usize, mut f: impl FnMut(&mut Srx)) {
        let ep = &self.eps[ep];
        f(&mut self.srxs[ep.srx]);
        for &context in &ep.contexts {
            f(&mut self.srxs[self.eps[context].srx]);
        }
    }

    /// Changes the source of a source's unexpected messages.
    pub fn rename_source(&mut self, ep: usize, from: u64, to: u64) {
        self.each_srx(ep, |srx| srx.change_source(from, to, None));
    }

    /// Called when the address at `index` has left the vector. Its unexpected messages get the source `unnamed`, and
    /// keep the address if completions report it (FI_SOURCE_ERR).
    pub fn forget_source(&mut self, ep: usize, index: u64, unnamed: u64, addr: &A) {
        let reports = self.reports_origin(ep, FI_ADDR_NOTAVAIL);
        let origin = reports.then(|| addr.to_bytes());
        self.each_srx(ep, |srx| {
            srx.change_source(index, unnamed, origin.as_deref());
        });
    }

    /// Number of unexpected messages in all receive contexts of the endpoint.
    pub fn unexpected_len(&mut self, ep: usize) -> usize {
        let mut sum = 0;
        self.each_srx(ep, |srx| sum += srx.unexpected_len());
        sum
    }

    /// Posts a plain receive of one buffer, the usual case. After `Special`, call `post_receive` with its checks. After
    /// `Filled`, call `filled_one`.
    #[inline(always)]
    pub fn post_one(&mut self, ep: usize, rx: &mut OneRx) -> PostedOne {
        let ep = &self.eps[ep];
        let directed = ep.directed(rx.what);
        match ep.enabled && !ep.checks_receives {
            true => self.srxs[ep.srx].post_one(rx, directed),
            false => PostedOne::Special,
        }
    }

    /// Completes a receive that `post_one` has filled.
    #[inline]
    pub fn filled_one(&mut self, filled: &Filled, envelope: &Envelope, fi_addr: u64) {
        let sender = Sender {
            fi_addr,
            addr: None,
        };
        self.filled_from(envelope.ep, filled, envelope, CompFlags::empty(), &sender);
    }

    /// Posts a receive of an endpoint. `claim` is called for messages that the transport has to deliver.
    #[inline]
    pub fn post_receive(
        &mut self,
        ep: usize,
        rx: &mut Rx,
        source_of: impl Fn(&Envelope) -> u64,
        mut claim: impl FnMut(&mut Self, Claimed),
    ) -> Result {
        let directed = self.eps[ep].directed(rx.what);
        let srx = self.eps[ep].srx;
        self.post_to(srx, directed, Some(ep), rx, source_of, &mut claim)
    }

    /// Posts a receive to a receive context; `ep` is the endpoint that the call named, if it named one.
    pub fn post_to(
        &mut self,
        srx: usize,
        directed: bool,
        ep: Option<usize>,
        rx: &mut Rx,
        source_of: impl Fn(&Envelope) -> u64,
        claim: &mut impl FnMut(&mut Self, Claimed),
    ) -> Result {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let result = self.srxs[srx].post(rx, directed, &mut outcomes);
        while let Some(outcome) = outcomes.pop_front() {
            match outcome {
                Outcome::Done(recv, envelope, origin) => {
                    self.done(&recv, &envelope, origin, &source_of);
                }
                Outcome::Claimed(claimed) => claim(self, claimed),
                Outcome::Lost(recv, envelope) => {
                    self.claim_lost(ep.unwrap_or(envelope.ep), &recv, envelope.what);
                }
                Outcome::Peeked(envelope, origin) => {
                    let addr = origin.and_then(|bytes| A::from_bytes(&bytes));
                    let sender = Sender {
                        fi_addr: source_of(&envelope),
                        addr: addr.as_ref(),
                    };
                    self.peeked(ep.unwrap_or(envelope.ep), rx, &envelope, &sender);
                }
            }
        }
        self.outcomes = outcomes;
        let reporter = || self.reporter(srx);
        match (result, ep) {
            // fi_tagged(3): the queue reports that there is no such message.
            (Err(Error::NOMSG), ep) if let Some(ep) = ep.or_else(reporter) => {
                self.not_found(ep, rx);
                Ok(())
            }
            (result, _) => result,
        }
    }

    /// Completes a receive that matched an unexpected message.
    pub(super) fn done(
        &mut self,
        recv: &RecvOp,
        envelope: &Envelope,
        origin: Option<Box<[u8]>>,
        source_of: &impl Fn(&Envelope) -> u64,
    ) {
        let addr = origin.and_then(|bytes| A::from_bytes(&bytes));
        let sender = Sender {
            fi_addr: source_of(envelope),
            addr: addr.as_ref(),
        };
        self.received(envelope.ep, recv, envelope, &sender);
    }

    #[cold]
    fn peeked(&mut self, ep: usize, rx: &Rx, envelope: &Envelope, sender: &Sender<'_, A>) {
        let Some((cq, implied)) = self
            .eps
            .get(ep)
            .and_then(|ep| Some((ep.rx_cq?, ep.rx_implied)))
        else {
            return;
        };
        // A claimed message that is discarded completes like other receives.
        if !rx.flags.contains(OpFlags::PEEK) && !(rx.flags | implied).contains(OpFlags::COMPLETION)
        {
            return;
        }
        let entry = entry_of(envelope, rx.context.number(), rx.what.received(), 0);
        if self.reports_origin(ep, sender.fi_addr) {
            return self.stranger(ep, entry, sender);
        }
        let words = [
            entry.context as u64,
            entry.flags.bits(),
            envelope.len,
            0,
            entry.data,
            entry.tag,
        ];
        let source = self.named(&self.eps[ep], sender.fi_addr);
        self.cqs[cq].push(&words, source);
    }

    /// Fails the receive of a claimed message whose sender is gone.
    #[cold]
    pub(super) fn claim_lost(&mut self, ep: usize, recv: &RecvOp, what: What) {
        if self.eps.contains(ep) {
            self.receive_failed(ep, recv, what, Error::CONNRESET);
        }
    }

    #[cold]
    fn not_found(&mut self, ep: usize, rx: &Rx) {
        if let Some(cq) = self.eps[ep].rx_cq {
            self.cqs[cq].push_error(CqErr {
                context: rx.context.number(),
                flags: rx.what.received(),
                tag: rx.tag,
                err: Error::NOMSG.code(),
                prov_errno: Error::NOMSG.code(),
                src_addr: FI_ADDR_NOTAVAIL,
                ..CqErr::default()
            });
        }
    }

    /// fi_cancel(3): reports the receive with FI_ECANCELED if it had not started.
    pub fn cancel(&mut self, ep: usize, context: usize) -> Result {
        let srx = self.eps[ep].srx;
        let (recv, what) = self.srxs[srx].cancel(context).ok_or(Error::NOENT)?;
        self.receive_failed(ep, &recv, what, Error::CANCELED);
        Ok(())
    }
}
