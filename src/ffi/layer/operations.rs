// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that are under way below.

use core::mem;
use std::sync::Arc;

use slab::Slab;

use super::block::Block;
use super::contexts::Contexts;
use super::loan::Loan;
use super::pool::Slot;
use crate::abi::*;
use crate::base::{Error, Result};
use crate::ffi::client::{Context, Cq, Done, Ep, Info, Message, RmaMessage, Span};
use crate::ffi::unclosed;

/// Each holds its memory, and what its owner knows of it. All of them complete at queues of one domain below.
pub struct Operations<T> {
    /// `None`: one of an endpoint that is closed.
    table: Slab<Option<Operation<T>>>,
    /// Those, with the queue where their completions may lie unread. No other operation gets such a place: it would be
    /// taken for what has completed.
    gone: Vec<Gone>,
    contexts: Contexts,
}

struct Gone {
    cq: usize,
    place: usize,
}

struct Operation<T> {
    /// The endpoint's number (`Handle::number`).
    ep: usize,
    loan: Loan,
    what: T,
}

/// An operation that was not posted. FI_EAGAIN: it can be after some progress.
pub struct Failed<T> {
    pub error: Error,
    pub loan: Loan,
    pub what: T,
}

/// An endpoint is closed: nobody uses the memory of its operations any more.
pub struct Closed(usize);

#[cfg(test)]
impl Closed {
    /// As if the endpoint were closed.
    pub fn of(ep: &Ep) -> Closed {
        Closed(ep.number())
    }
}

/// Closes an endpoint. FI_EBUSY while somebody else holds the handle.
pub fn close(ep: Arc<Ep>) -> core::result::Result<Closed, (Arc<Ep>, Error)> {
    let number = ep.number();
    ep.close().map(|()| Closed(number))
}

impl<T> Operations<T> {
    /// For operations of endpoints that are opened with this entry, or one with the same mode.
    pub fn new(info: Info<'_>) -> Operations<T> {
        Operations {
            table: Slab::new(),
            gone: Vec::new(),
            contexts: Contexts::new(info),
        }
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.table.len() - self.gone.len()
    }

    /// As `len`, with those that wait until their completions are read.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.table.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let places = self.table.iter();
        places.filter_map(|(_, place)| Some(&place.as_ref()?.what))
    }

    /// Each with whether it uses memory of the application.
    pub fn each(&mut self) -> impl Iterator<Item = (&mut T, bool)> {
        let places = self.table.iter_mut();
        let each = places.filter_map(|(_, place)| place.as_mut());
        each.map(|operation| (&mut operation.what, operation.loan.is_lent()))
    }

    /// Sends a message. `flags` are those of fi_sendmsg(3).
    #[inline]
    pub fn send(
        &mut self,
        ep: &Arc<Ep>,
        loan: Loan,
        dest: fi_addr_t,
        data: Option<u64>,
        flags: u64,
        what: T,
    ) -> core::result::Result<(), Failed<T>> {
        self.post(ep, loan, what, |spans, context| {
            match (spans, data, flags) {
                (spans, None, 0) => ep.send(spans, dest, context),
                (&[span], Some(data), 0) => ep.send_data(span, data, dest, context),
                (spans, data, flags) => {
                    let message = Message {
                        spans,
                        addr: dest,
                        context,
                        data: data.unwrap_or(0),
                        tag: 0,
                        ignore: 0,
                    };
                    ep.send_msg(&message, flags | has_data(data))
                }
            }
        })
    }

    /// Receives a message, at an endpoint or a shared context.
    #[inline]
    pub fn recv(
        &mut self,
        ep: &Arc<Ep>,
        slot: Slot,
        src: fi_addr_t,
        what: T,
    ) -> core::result::Result<(), Failed<T>> {
        let room = slot.room();
        self.post(ep, Loan::Slot(slot, room), what, |spans, context| {
            ep.recv(spans, src, context)
        })
    }

    /// Receives messages until the block is full, which the last of their completions says: FI_MULTI_RECV.
    pub fn recv_many(
        &mut self,
        ep: &Arc<Ep>,
        block: Block,
        src: fi_addr_t,
        what: T,
    ) -> core::result::Result<(), Failed<T>> {
        let loan = Loan::Block(Arc::new(block));
        self.post(ep, loan, what, |spans, context| {
            let message = Message {
                spans,
                addr: src,
                context,
                data: 0,
                tag: 0,
                ignore: 0,
            };
            ep.recv_msg(&message, FI_MULTI_RECV)
        })
    }

    /// The block of the receive that a completion is about. Who keeps it lets go of it before the receive ends.
    #[inline]
    pub fn block_of(&self, done: &Done) -> Option<&Arc<Block>> {
        match &self.under_way(done)?.loan {
            Loan::Block(block) => Some(block),
            _ => None,
        }
    }

    /// Reads memory of the peer: fi_readmsg of fi_rma(3).
    pub fn read(
        &mut self,
        ep: &Arc<Ep>,
        loan: Loan,
        addr: fi_addr_t,
        remote: &[fi_rma_iov],
        flags: u64,
        what: T,
    ) -> core::result::Result<(), Failed<T>> {
        self.post(ep, loan, what, |spans, context| {
            let data = None;
            let message = rma(spans, addr, remote, data, context);
            match (remote, flags) {
                (&[at], 0) => ep.read_from(spans, addr, at.addr, at.key, context),
                _ => ep.read_msg(&message, flags),
            }
        })
    }

    /// Writes memory of the peer: fi_writemsg of fi_rma(3).
    #[allow(clippy::too_many_arguments)]
    pub fn write(
        &mut self,
        ep: &Arc<Ep>,
        loan: Loan,
        addr: fi_addr_t,
        remote: &[fi_rma_iov],
        data: Option<u64>,
        flags: u64,
        what: T,
    ) -> core::result::Result<(), Failed<T>> {
        self.post(ep, loan, what, |spans, context| {
            let message = rma(spans, addr, remote, data, context);
            match (remote, data, flags) {
                (&[at], None, 0) => ep.write_to(spans, addr, at.addr, at.key, context),
                _ => ep.write_msg(&message, flags | has_data(data)),
            }
        })
    }

    /// What has completed, well or not. None: it is no operation of these.
    #[inline]
    pub fn end(&mut self, done: Done) -> Option<(T, Loan)> {
        let number = self.contexts.number(&done)?;
        let Operation { loan, what, .. } = self.table.get_mut(number)?.take()?;
        self.table.remove(number);
        Some((what, loan))
    }

    /// The operation that has completed, which stays.
    pub fn get(&self, done: &Done) -> Option<&T> {
        Some(&self.under_way(done)?.what)
    }

    #[inline]
    fn under_way(&self, done: &Done) -> Option<&Operation<T>> {
        self.table.get(self.contexts.number(done)?)?.as_ref()
    }

    /// What was under way at an endpoint that is closed. `cq`: where it completed, if that is still read.
    pub fn closed(&mut self, Closed(ep): Closed, cq: Option<&Cq>) -> Vec<(T, Loan)> {
        let mut ended = Vec::new();
        for (place, operation) in &mut self.table {
            if let Some(Operation { loan, what, .. }) = operation.take_if(|o| o.ep == ep) {
                ended.push((what, loan));
                let cq = cq.map_or(NOWHERE, |cq| cq.number());
                self.gone.push(Gone { cq, place });
            }
        }
        self.forget_gone(NOWHERE);
        ended
    }

    /// The queue was empty when it was read, and all was told that was read before: nothing is left there of endpoints
    /// that are closed. A queue that nobody reads any more is, too.
    #[inline]
    pub fn read_empty(&mut self, cq: &Cq) {
        if !self.gone.is_empty() {
            self.forget_gone(cq.number());
        }
    }

    /// Whether places wait for a queue to be seen empty. Each takes memory until then.
    #[inline]
    pub fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    #[cold]
    fn forget_gone(&mut self, queue: usize) {
        let table = &mut self.table;
        self.gone.retain(|gone| {
            if gone.cq == queue {
                table.remove(gone.place);
            }
            gone.cq != queue
        });
    }

    #[inline]
    fn post(
        &mut self,
        ep: &Arc<Ep>,
        loan: Loan,
        what: T,
        post: impl FnOnce(&[Span], Context) -> Result,
    ) -> core::result::Result<(), Failed<T>> {
        let spans = match loan.spans(ep) {
            Ok(spans) => spans,
            Err(error) => return Err(Failed { error, loan, what }),
        };
        let entry = self.table.vacant_entry();
        let number = entry.key();
        let context = self.contexts.of(number);
        // Before it is posted: the provider has the memory as soon as the call begins.
        entry.insert(Some(Operation {
            ep: ep.number(),
            loan,
            what,
        }));
        match post(spans.as_slice(), context) {
            Ok(()) => Ok(()),
            Err(error) => {
                let Some(Operation { loan, what, .. }) = self.table.remove(number) else {
                    unreachable!("it was put there a moment ago");
                };
                Err(Failed { error, loan, what })
            }
        }
    }
}

impl<T> Drop for Operations<T> {
    fn drop(&mut self) {
        if self.len() > 0 {
            // The provider may use their memory as long as it likes.
            unclosed("endpoint with operations under way", Error::BUSY);
            mem::forget(mem::take(&mut self.table));
            mem::forget(mem::replace(&mut self.contexts, Contexts::Numbers(0)));
        }
    }
}

/// The number of no queue.
const NOWHERE: usize = 0;

fn rma<'a>(
    spans: &'a [Span],
    addr: fi_addr_t,
    remote: &'a [fi_rma_iov],
    data: Option<u64>,
    context: Context,
) -> RmaMessage<'a> {
    RmaMessage {
        spans,
        addr,
        remote,
        context,
        data: data.unwrap_or(0),
    }
}

fn has_data(data: Option<u64>) -> u64 {
    match data {
        Some(_) => FI_REMOTE_CQ_DATA,
        None => 0,
    }
}
