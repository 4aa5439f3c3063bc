// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations in flight below.

use core::mem;
use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use super::block::Block;
use super::contexts::Contexts;
use super::lent::Lent;
use super::loan::{Loan, Spans};
use super::pool::Slot;
use crate::library::Library;
use crate::{AtomicMessage, Context, Cq, Done, Ep, Info, Message, Operand, RmaMessage, Span};
use abi::*;
use base::iovec::IOV_LIMIT;
use base::{Error, Result};
use object::ops::atomic::Family;

/// Each operation holds its memory and its owner's data. All complete at queues of one domain below.
pub struct Operations<T> {
    /// `None`: the entry of an operation whose endpoint is closed.
    table: Slab<Option<Operation<T>>>,
    /// Entries of closed endpoints, with the queue that may still have their completions. They are not reused, because
    /// such a completion would be taken for that of the new operation.
    gone: Vec<Gone>,
    contexts: Contexts,
    /// Limit on the entries of the table.
    most: usize,
}

struct Gone {
    cq: usize,
    place: usize,
}

struct Operation<T> {
    /// Number of the endpoint (`Handle::number`).
    ep: usize,
    loan: Loan,
    what: T,
}

/// An operation that was not posted. FI_EAGAIN: retry after some progress.
pub struct Failed<T> {
    pub error: Error,
    pub loan: Loan,
    pub what: T,
}

/// An operation that was added and is to be posted.
pub struct Begun {
    ep: Arc<Ep>,
    number: usize,
    spans: Spans,
    /// Of an atomic operation.
    operands: Option<Box<[Arc<Lent>; 3]>>,
    context: Context,
}

/// The pieces of an operand, whose elements have `size` bytes.
fn elements(lent: &Lent, size: usize) -> Result<Vec<Operand>> {
    let mut spans = [const { Span::empty() }; IOV_LIMIT];
    let count = lent.spans(0, lent.len(), &mut spans).ok_or(Error::INVAL)?;
    let spans = spans.into_iter().take(count);
    let operand = |span: Span| {
        let count = span.len().checked_div(size).unwrap_or(0);
        // SAFETY: so many elements fit.
        unsafe { Operand::new(span, count) }
    };
    Ok(spans.map(operand).collect())
}

/// The call that posts an atomic operation: fi_atomic(3).
pub struct AtomicCall<'a> {
    pub family: Family,
    pub datatype: fi_datatype,
    pub op: fi_op,
    /// Bytes of an element.
    pub size: usize,
    pub remote: &'a [fi_rma_ioc],
    pub data: u64,
    pub flags: u64,
}

/// The call that posts an operation: fi_msg(3), fi_tagged(3), fi_rma(3). `flags` are those of the `..msg` forms.
pub enum Call<'a> {
    Send {
        tag: Option<u64>,
        data: Option<u64>,
        flags: u64,
    },
    Read {
        remote: &'a [fi_rma_iov],
        flags: u64,
    },
    Write {
        remote: &'a [fi_rma_iov],
        data: Option<u64>,
        flags: u64,
    },
}

impl Begun {
    /// Returns the number with which it can be withdrawn.
    pub fn number(&self) -> usize {
        self.number
    }

    /// As `post`, for an operation that was begun with `Loan::Operands`.
    pub fn post_atomic(self, peer: fi_addr_t, call: &AtomicCall<'_>) -> Result {
        let Some([operands, compare, result]) = self.operands.as_deref() else {
            return Err(Error::INVAL);
        };
        let list = |lent: &Lent| elements(lent, call.size);
        let mut operands = list(operands)?;
        let message = AtomicMessage {
            operands: &mut operands,
            addr: peer,
            remote: call.remote,
            datatype: call.datatype,
            op: call.op,
            context: self.context,
            data: call.data,
        };
        let (ep, flags) = (&self.ep, call.flags);
        match call.family {
            Family::Base => ep.atomic(message, flags),
            Family::Fetch => ep.fetch_atomic(message, &mut list(result)?, flags),
            Family::Compare => {
                ep.compare_atomic(message, &mut list(compare)?, &mut list(result)?, flags)
            }
        }
    }

    /// Calls the provider below. FI_EAGAIN: withdraw it, and retry after some progress.
    pub fn post(mut self, peer: fi_addr_t, call: &Call<'_>) -> Result {
        let (ep, spans, context) = (&self.ep, self.spans.as_mut_slice(), self.context);
        match *call {
            Call::Send {
                tag: Some(tag),
                data: None,
                flags: 0,
            } => ep.tsend(spans, peer, tag, context),
            Call::Send {
                tag: None,
                data: None,
                flags: 0,
            } => ep.send(spans, peer, context),
            Call::Send { tag, data, flags } => {
                let message = Message {
                    spans,
                    addr: peer,
                    context,
                    data: data.unwrap_or(0),
                    tag: tag.unwrap_or(0),
                    ignore: 0,
                };
                let flags = flags | has_data(data);
                match tag {
                    Some(_) => ep.tsend_msg(message, flags),
                    None => ep.send_msg(message, flags),
                }
            }
            Call::Read { remote, flags } => {
                ep.read_msg(rma(spans, peer, remote, None, context), flags)
            }
            Call::Write {
                remote,
                data,
                flags,
            } => {
                let message = rma(spans, peer, remote, data, context);
                ep.write_msg(message, flags | has_data(data))
            }
        }
    }
}

/// Proof that an endpoint is closed, so that the memory of its operations is not in use any more.
pub struct Closed(usize);

#[cfg(test)]
impl Closed {
    /// Returns the proof for an endpoint that is still open, for tests.
    pub fn of(ep: &Ep) -> Closed {
        Closed(ep.number())
    }
}

/// Closes an endpoint. Returns FI_EBUSY while other references to the handle exist.
pub fn close(ep: Arc<Ep>) -> core::result::Result<Closed, (Arc<Ep>, Error)> {
    let number = ep.number();
    ep.close().map(|()| Closed(number))
}

impl<T> Operations<T> {
    /// Creates a table for operations of endpoints that are opened with this entry, or one with the same mode.
    pub fn new(info: Info<'_>) -> Operations<T> {
        Operations {
            table: Slab::new(),
            gone: Vec::new(),
            contexts: Contexts::new(info),
            most: usize::MAX,
        }
    }

    /// Limits the operations in flight, because the completion queue below has only this many entries. A post beyond
    /// the limit returns FI_EAGAIN.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the number of operations in flight.
    pub fn len(&self) -> usize {
        self.table.len() - self.gone.len()
    }

    /// Does the same as `len`, including entries that wait until their completions are read.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.table.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let places = self.table.iter();
        places.filter_map(|(_, place)| Some(&place.as_ref()?.what))
    }

    /// Returns each operation, with whether it uses memory of the application.
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
                ([span], Some(data), 0) => ep.send_data(span, data, dest, context),
                (spans, data, flags) => {
                    let message = Message {
                        spans,
                        addr: dest,
                        context,
                        data: data.unwrap_or(0),
                        tag: 0,
                        ignore: 0,
                    };
                    ep.send_msg(message, flags | has_data(data))
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

    /// Receives messages until the block is full, which its last completion reports: FI_MULTI_RECV.
    pub fn recv_many(
        &mut self,
        ep: &Arc<Ep>,
        mut block: Block,
        src: fi_addr_t,
        what: T,
    ) -> core::result::Result<(), Failed<T>> {
        block.renew();
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
            ep.recv_msg(message, FI_MULTI_RECV)
        })
    }

    /// Returns the block of the receive that a completion belongs to. Callers must drop their reference before the
    /// receive ends.
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
        self.post(ep, loan, what, |spans, context| match (remote, flags) {
            (&[at], 0) => ep.read_from(spans, addr, at.addr, at.key, context),
            _ => ep.read_msg(rma(spans, addr, remote, None, context), flags),
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
            match (remote, data, flags) {
                (&[at], None, 0) => ep.write_to(spans, addr, at.addr, at.key, context),
                _ => {
                    let message = rma(spans, addr, remote, data, context);
                    ep.write_msg(message, flags | has_data(data))
                }
            }
        })
    }

    /// Ends an operation by its completion or error. Returns `None` if it is not an operation of this table.
    #[inline]
    pub fn end(&mut self, done: Done) -> Option<(T, Loan)> {
        let number = self.contexts.number(&done)?;
        let Operation { loan, what, .. } = self.table.get_mut(number)?.take()?;
        self.table.remove(number);
        Some((what, loan))
    }

    /// Returns the context below of the first operation that `is_it`, for `Ep::cancel`.
    pub fn context_of(&mut self, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        let found = |place: &Option<Operation<T>>| place.as_ref().is_some_and(|op| is_it(&op.what));
        let (number, _) = self.table.iter().find(|(_, place)| found(place))?;
        Some(self.contexts.of(number).0.addr())
    }

    /// Returns the operation of a completion without ending it.
    pub fn get(&self, done: &Done) -> Option<&T> {
        Some(&self.under_way(done)?.what)
    }

    #[inline]
    fn under_way(&self, done: &Done) -> Option<&Operation<T>> {
        self.table.get(self.contexts.number(done)?)?.as_ref()
    }

    /// Ends the operations in flight at closed endpoints, with one pass over the table. Each endpoint has its queue, if
    /// that is still read.
    pub fn closed<'a>(
        &mut self,
        endpoints: impl IntoIterator<Item = (Closed, Option<&'a Cq>)>,
    ) -> Vec<(T, Loan)> {
        let number = |cq: Option<&Cq>| cq.map_or(NOWHERE, |cq| cq.number());
        let endpoints = endpoints.into_iter();
        let queues: HashMap<usize, usize> =
            endpoints.map(|(Closed(ep), cq)| (ep, number(cq))).collect();
        let mut ended = Vec::new();
        for (place, operation) in &mut self.table {
            let Some(&cq) = operation
                .as_ref()
                .and_then(|operation| queues.get(&operation.ep))
            else {
                continue;
            };
            if let Some(Operation { loan, what, .. }) = operation.take() {
                ended.push((what, loan));
                self.gone.push(Gone { cq, place });
            }
        }
        self.forget_gone(NOWHERE);
        ended
    }

    /// Frees the entries of closed endpoints after the queue was read until empty and everything read was handled. Also
    /// called for a queue that will not be read any more.
    #[inline]
    pub fn read_empty(&mut self, cq: &Cq) {
        if !self.gone.is_empty() {
            self.forget_gone(cq.number());
        }
    }

    /// Whether entries wait for a queue to be empty. Each takes memory until then.
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
        post: impl FnOnce(&mut [Span], Context) -> Result,
    ) -> core::result::Result<(), Failed<T>> {
        let mut begun = self.begin(ep, loan, what)?;
        let number = begun.number;
        let posted = post(begun.spans.as_mut_slice(), begun.context);
        posted.map_err(|error| self.withdraw(number, error))
    }

    /// Adds an operation that the caller posts next, by `Begun::post`: the provider below may report it during that
    /// call, which does not borrow this table. If the call fails, it must be withdrawn.
    #[inline]
    pub fn begin(
        &mut self,
        ep: &Arc<Ep>,
        loan: Loan,
        what: T,
    ) -> core::result::Result<Begun, Failed<T>> {
        if self.table.len() >= self.most {
            let error = Error::AGAIN;
            return Err(Failed { error, loan, what });
        }
        let spans = match loan.spans(ep) {
            Ok(spans) => spans,
            Err(error) => return Err(Failed { error, loan, what }),
        };
        let operands = match &loan {
            Loan::Operands(operands) => Some(operands.clone()),
            _ => None,
        };
        let entry = self.table.vacant_entry();
        let number = entry.key();
        let context = self.contexts.of(number);
        // Inserted before the post, because the provider has the memory as soon as the call begins.
        entry.insert(Some(Operation {
            ep: ep.number(),
            loan,
            what,
        }));
        Ok(Begun {
            ep: ep.clone(),
            number,
            spans,
            operands,
            context,
        })
    }

    /// Takes back an operation that was begun and not posted.
    ///
    /// # Panics
    /// If the provider below has reported the operation although it did not accept it.
    #[cold]
    pub fn withdraw(&mut self, number: usize, error: Error) -> Failed<T> {
        let Some(Operation { loan, what, .. }) = self.table.remove(number) else {
            unreachable!("it was put there a moment ago");
        };
        Failed { error, loan, what }
    }
}

impl<T> Drop for Operations<T> {
    fn drop(&mut self) {
        if self.len() > 0 {
            // The provider may use their memory for an unlimited time.
            (Library::get().unclosed)("endpoint with operations under way", Error::BUSY);
            mem::forget(mem::take(&mut self.table));
            mem::forget(mem::replace(&mut self.contexts, Contexts::Numbers(0)));
        }
    }
}

/// A queue number that no queue has.
const NOWHERE: usize = 0;

fn rma<'a>(
    spans: &'a mut [Span],
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
