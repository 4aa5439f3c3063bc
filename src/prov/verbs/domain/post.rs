// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posts operations as work requests: fi_msg(3), fi_rma(3), fi_atomic(3).

use super::super::ep::State;
use super::super::ticket::Kind;
use super::Domain;
use super::completions::{FLUSHED, explain};
use abi::*;
use base::flags::flags;
use base::{Error, IoVec, OpFlags, Result, Source};
use engine::address::mixed::Addr;
use engine::domain_state::{DomainState, TxOp};
use hmem::Desc;
use object::ops::atomic::{Atomic, Family};
use object::ops::credits::CREDIT_MESSAGE;
use object::ops::transfer::{OneTx, OneWrite, RemoteSeg, Tx, What};
use sys::io_list::GatherList;
use sys::verbs::{Destination, Opcode, Request, Status};

/// Flags of messages that need no special handling.
const PLAIN: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);

/// Completion levels that an adapter does not report. FI_DELIVERY_COMPLETE is reported by the peer's acknowledgement:
/// its adapter has then used a receive and has written the data.
const UNSUPPORTED: OpFlags = flags!(OpFlags: MATCH_COMPLETE | COMMIT_COMPLETE);

/// Most requests that FI_MORE defers.
const MOST_DEFERRED: usize = 32;

/// An operation on one buffer: a message, or a write to a target.
struct Short<'a> {
    piece: &'a Source,
    desc: &'a Desc,
    dest: Option<u64>,
    target: Option<&'a RemoteSeg>,
}

impl Domain {
    /// Sends a message of one buffer if nothing about it is special.
    #[inline]
    pub(super) fn send_short(
        &mut self,
        domain: &mut DomainState<Addr>,
        ep: usize,
        tx: &OneTx,
    ) -> bool {
        let short = Short {
            piece: &tx.piece,
            desc: &tx.desc,
            dest: Some(tx.dest),
            target: None,
        };
        tx.what == What::Msg && self.post_short(domain, &short, TxOp::of_one(ep, tx))
    }

    /// Writes one buffer if nothing about it is special.
    #[inline]
    pub(super) fn write_short(
        &mut self,
        domain: &mut DomainState<Addr>,
        ep: usize,
        write: &OneWrite,
    ) -> bool {
        let short = Short {
            piece: &write.piece,
            desc: &write.desc,
            dest: None,
            target: Some(&write.target),
        };
        write.target.len == write.piece.len()
            && self.post_short(domain, &short, TxOp::of_write(ep, write))
    }

    /// Posts one buffer, unless the general way has to decide. Inlined, because half of it depends on the operation.
    #[inline(always)]
    fn post_short(&mut self, domain: &mut DomainState<Addr>, short: &Short<'_>, op: TxOp) -> bool {
        let ep = op.ep();
        let (Some(Some(endpoint)), Some(state)) = (self.eps.get_mut(ep), domain.eps.get_mut(ep))
        else {
            return false;
        };
        let Some(Some(queue)) = self.queues.get_mut(endpoint.send_queue) else {
            return false;
        };
        let takes_receive = short.target.is_none();
        if !PLAIN.contains(op.flags)
            || !endpoint.batch.is_empty()
            || state.tx_pending >= state.tx_size
            || queue.is_full()
            || takes_receive && !endpoint.credits.may_send(false)
        {
            return false;
        }
        let Ok(pair) = endpoint.pair() else {
            return false;
        };
        if endpoint.state == State::Ended {
            return false;
        }
        let id = endpoint.ticket(Kind::Send, endpoint.sends.next());
        let mut request = match short.target {
            None => Request::new(id, Opcode::Send),
            Some(_) => Request::new(id, Opcode::Write),
        };
        if let Some(target) = short.target {
            request.remote(target.addr, target.key as u32);
        }
        if let Some(datagrams) = &endpoint.datagrams {
            let is_plain = !op.flags.contains(OpFlags::DELIVERY_COMPLETE);
            let dest = short.dest.filter(|_| is_plain);
            match dest.and_then(|dest| datagrams.known(domain, ep, dest)) {
                Some(to) => request.datagram(to),
                None => return false,
            }
        }
        let signals = op.flags.contains(OpFlags::COMPLETION) || endpoint.must_signal();
        if signals {
            request.signal();
        }
        let mut list = GatherList::new();
        let is_ready = if short.piece.len() <= endpoint.limits.inline as usize {
            short.piece.append_to(&mut list);
            request.inline(&list)
        } else {
            let key = short.desc.number();
            let key = key.filter(|_| !op.flags.contains(OpFlags::INJECT));
            let span = short.piece.span();
            key.is_some_and(|key| request.piece(span.start, span.len, key.get()))
        };
        // The general way finds the reason for a failure.
        if !is_ready || pair.post(&mut request).is_err() {
            return false;
        }
        if takes_receive {
            endpoint.credits.spend();
        }
        endpoint.signalled(signals);
        endpoint.sends.push(op);
        queue.used += 1;
        domain.eps[ep].tx_pending += 1;
        true
    }

    pub(super) fn send(
        &mut self,
        domain: &mut DomainState<Addr>,
        ep: usize,
        tx: &mut Tx<'_>,
    ) -> Result {
        let has_data = self.check_flags(tx.flags)?;
        let len = tx.iov.remaining();
        let opcode = match (tx.what, has_data) {
            (What::Msg, false) => Opcode::Send,
            (What::Msg, true) => Opcode::SendWithImmediate,
            (What::Write, false) => Opcode::Write,
            (What::Write, true) => Opcode::WriteWithImmediate,
            (What::Read, _) => Opcode::Read,
            _ => return Err(Error::NOSYS),
        };
        let to = self.destination(domain, ep, tx.dest)?;
        let op = TxOp::of(ep, tx, len);
        let mut request = Request::new(0, opcode);
        if has_data {
            request.immediate(tx.data as u32);
        }
        if tx.what != What::Msg {
            let target = one_target(tx.target, len)?;
            request.remote(target.addr, target.key as u32);
        }
        if tx.flags.contains(OpFlags::FENCE) && tx.what != What::Read {
            request.fence();
        }
        self.post(domain, &op, request, &tx.iov, to)?;
        tx.iov.take();
        Ok(())
    }

    pub(super) fn post_atomic(
        &mut self,
        domain: &mut DomainState<Addr>,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        let has_data = self.check_flags(atomic.flags)?;
        let op = TxOp::of_atomic(ep, atomic);
        let target = one_target(atomic.target, op.len)?;
        let key = target.key as u32;
        let (opcode, iov) = match (atomic.family, atomic.op) {
            (Family::Base, _) if has_data => (Opcode::WriteWithImmediate, &atomic.operands),
            (Family::Base, _) => (Opcode::Write, &atomic.operands),
            (Family::Fetch, FI_ATOMIC_READ) => (Opcode::Read, &atomic.result),
            (Family::Fetch, _) => (Opcode::FetchAndAdd, &atomic.result),
            (Family::Compare, _) => (Opcode::CompareAndSwap, &atomic.result),
        };
        let mut request = Request::new(0, opcode);
        if has_data {
            request.immediate(atomic.data as u32);
        }
        match opcode {
            Opcode::FetchAndAdd => request.operands(target.addr, key, word(&atomic.operands)?, 0),
            Opcode::CompareAndSwap => {
                let (compare, swap) = (word(&atomic.compare)?, word(&atomic.operands)?);
                request.operands(target.addr, key, compare, swap);
            }
            _ => request.remote(target.addr, key),
        }
        // Operations that read must not pass earlier ones. Writes do not.
        if opcode != Opcode::Write {
            request.fence();
        }
        self.post(domain, &op, request, iov, None)
    }

    /// Refuses flags that an adapter cannot honour. Returns whether the operation carries data.
    fn check_flags(&self, flags: OpFlags) -> Result<bool> {
        if flags.contains(OpFlags::TRIGGER) {
            return Err(Error::BADFLAGS);
        }
        let acknowledged = self.unconnected.is_none();
        if flags.intersects(UNSUPPORTED)
            || flags.contains(OpFlags::DELIVERY_COMPLETE) && !acknowledged
        {
            return Err(Error::OPNOTSUPP);
        }
        match flags.contains(OpFlags::REMOTE_CQ_DATA) {
            true if !self.adapter.has_immediate() => Err(Error::NOSYS),
            has_data => Ok(has_data),
        }
    }

    /// Posts a request, whose memory is `iov`, or defers it (FI_MORE).
    fn post(
        &mut self,
        domain: &mut DomainState<Addr>,
        op: &TxOp,
        mut request: Request<'static>,
        iov: &IoVec,
        to: Option<Destination>,
    ) -> Result {
        let ep = op.ep();
        if !self.is_usable(ep) {
            return Err(domain.eps[ep].again());
        }
        self.ep(ep)?.pair()?;
        let (queue, _) = self.queues_of(ep)?;
        if !self.has_room(domain, ep, queue) {
            // Completed requests make room.
            while self.poll_queue(domain, queue) {}
            if !self.has_room(domain, ep, queue) {
                return Err(domain.eps[ep].again());
            }
        }
        let len = iov.remaining();
        if len > self.longest_message() {
            return Err(Error::MSGSIZE);
        }
        if self.ep(ep)?.is_over() {
            cancel_send(domain, op);
            return Ok(());
        }
        let costs_credit = request.uses_receive();
        let has_credits = op.flags.contains(CREDIT_MESSAGE);
        if costs_credit && !self.ep(ep)?.credits.may_send(has_credits) {
            return Err(domain.eps[ep].again());
        }
        let brings = matches!(op.what, What::Read | What::AtomicFetch);
        let fits = len <= self.ep(ep)?.limits.inline as usize;
        let is_carried = !brings && fits && !iov.is_device();
        // Memory that the adapter writes to cannot be given back early, so the flag has no meaning there.
        if op.flags.contains(OpFlags::INJECT) && !is_carried && !brings {
            return Err(Error::INVAL);
        }
        if !is_carried {
            self.add_pieces(&mut request, iov, brings)?;
        }
        let endpoint = self.ep_mut(ep)?;
        let signals = domain.reports_completion(op) || endpoint.must_signal();
        if signals {
            request.signal();
        }
        request.set_id(endpoint.ticket(Kind::Send, endpoint.sends.next()));
        let mut list = GatherList::new();
        if is_carried {
            iov.append_to(&mut list, usize::MAX);
        }
        let carried = is_carried.then_some(&list);
        let more = op.flags.contains(OpFlags::MORE) && endpoint.batch.len() < MOST_DEFERRED;
        let is_deferred = more || !endpoint.batch.is_empty();
        match is_deferred {
            true => endpoint.batch.push(request, carried, to),
            false => endpoint.post_now(request, carried, to.as_ref())?,
        }
        if costs_credit {
            endpoint.credits.spend();
        }
        endpoint.signalled(signals);
        endpoint.sends.push(*op);
        domain.eps[ep].tx_pending += 1;
        if let Some(Some(queue)) = self.queues.get_mut(queue) {
            queue.used += 1;
        }
        match (is_deferred, more) {
            (true, true) => _ = self.holding.insert(ep),
            (true, false) => self.flush_ep(domain, ep),
            _ => {}
        }
        Ok(())
    }

    fn has_room(&self, domain: &DomainState<Addr>, ep: usize, queue: usize) -> bool {
        let queue = self.queues.get(queue).and_then(Option::as_ref);
        domain.may_post(ep).is_ok() && queue.is_some_and(|queue| !queue.is_full())
    }

    /// Adds registered memory to a request. `brings`: the adapter writes to it.
    fn add_pieces(&self, request: &mut Request<'static>, iov: &IoVec, brings: bool) -> Result {
        let common = iov.desc().number();
        for span in iov.spans() {
            let key = match common {
                Some(key) => key.get(),
                None if span.len == 0 => continue,
                None => self.key_of(span, brings).ok_or(Error::INVAL)?,
            };
            if !request.piece(span.start, span.len, key) {
                return Err(Error::INVAL);
            }
        }
        Ok(())
    }

    /// Posts the requests that were deferred. Those that the adapter refuses have failed.
    pub(super) fn flush_ep(&mut self, domain: &mut DomainState<Addr>, ep: usize) {
        self.holding.remove(ep);
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        if endpoint.batch.is_empty() {
            return;
        }
        let Err((count, error)) = endpoint.post_batch() else {
            return;
        };
        let queue = endpoint.send_queue;
        let newest = (0..count).filter_map(|_| endpoint.sends.pop_newest());
        let failed: Vec<TxOp> = newest.collect();
        if let Some(Some(queue)) = self.queues.get_mut(queue) {
            queue.used = queue.used.saturating_sub(failed.len());
        }
        for op in failed.iter().rev() {
            domain.fail_tx(op, error);
        }
    }
}

/// Reports that an operation cannot be posted any more, as adapters do. Soft iWARP reports nothing.
#[cold]
fn cancel_send(domain: &mut DomainState<Addr>, op: &TxOp) {
    let (error, why) = explain(Status::FLUSHED);
    domain.eps[op.ep()].tx_pending += 1;
    domain.fail_tx_because(op, error, FLUSHED, why);
}

/// An access has one target.
fn one_target(target: &[RemoteSeg], len: usize) -> Result<&RemoteSeg> {
    match target {
        [one] if one.len == len => Ok(one),
        _ => Err(Error::INVAL),
    }
}

/// An operand of 8 bytes.
fn word(iov: &IoVec) -> Result<u64> {
    let mut bytes = [0; 8];
    if iov.remaining() != bytes.len() {
        return Err(Error::INVAL);
    }
    iov.copy_to(&mut bytes);
    Ok(u64::from_ne_bytes(bytes))
}
