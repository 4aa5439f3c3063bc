// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the engine keeps for one domain, under the domain's lock, and how operations complete: fi_cq(3), fi_cntr(3).
#![forbid(unsafe_code)]

mod coll;

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use slab::Slab;

use crate::abi::*;
use crate::base::{Error, IoVec, Result};
use crate::engine::av::AvTable;
use crate::engine::cntr::Counter;
use crate::engine::cq_ring::Ring;
use crate::engine::ep_state::{EpState, Event};
use crate::engine::mr::MrTable;
use crate::engine::signal::Signal;
use crate::engine::srx::{Claimed, Envelope, Filled, Outcome, RecvOp, Srx, Unfilled};
use crate::engine::transport::Address;
use crate::engine::trigger::Triggers;
use crate::engine::wait::Wait;
use crate::ffi::ops::cq::CqErr;
use crate::ffi::ops::transfer::{Rx, What};
use crate::hmem::{Host, Memory};

/// The regions of a domain; a counter may be bound to each.
pub type Regions = MrTable<Arc<Counter>>;

/// One completion queue.
pub struct CqState {
    pub ring: Ring,
    pub wait: Arc<Wait>,
    pub signal: Signal,
    /// Keeps `err_data` of the last error that was read.
    pub last_error: Option<CqErr>,
}

/// An operation of the initiator, to be completed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TxOp {
    pub what: What,
    /// When it began to wait, as the transport counts.
    pub since: u16,
    /// The endpoint it was posted to, or the transmit context of one: by number in `Core::eps`.
    pub ep: u32,
    /// FI_COMPLETION says whether success is reported.
    pub flags: u64,
    pub context: usize,
    pub len: usize,
}

impl TxOp {
    #[inline]
    pub const fn ep(&self) -> usize {
        self.ep as usize
    }
}

pub struct Core<A, M: Memory = Host> {
    pub cqs: Slab<CqState>,
    pub avs: Slab<AvTable<A>>,
    pub eps: Slab<EpState>,
    pub srxs: Slab<Srx<M>>,
    pub mrs: Regions,
    /// Who may sleep on the transport's descriptor without a word: wait objects, event queues, the progress thread. While
    /// there is none, what is ready need not show on it.
    pub watchers: usize,
    /// Wait objects among them.
    waits: usize,
    /// Wait objects that somebody sleeps on, or may without saying so.
    armed: Arc<AtomicUsize>,
    /// Other threads may wait for the lock.
    pub contended: bool,
    /// A thread of ours makes progress.
    pub auto: bool,
    /// Operations that wait for counters.
    pub triggers: Triggers<M>,
    outcomes: VecDeque<Outcome<M>>,
    /// While a peer is lost: what that does to operations.
    pub loss: Option<Loss>,
}

/// What the errors of operations say that fail with a peer, and how many there are.
pub struct Loss {
    pub why: Arc<CStr>,
    pub failed: usize,
}

/// Who sent what has arrived.
pub struct Sender<'a, A> {
    /// In the endpoint's address vector, or FI_ADDR_NOTAVAIL.
    pub fi_addr: u64,
    /// What an address vector would take, where it is known.
    pub addr: Option<&'a A>,
}

/// What a completion says of a message.
pub struct Parts {
    pub what: What,
    pub len: u64,
    pub tag: u64,
    pub data: Option<u64>,
}

impl Parts {
    /// What matching is told of it. `token` is the transport's name for the connection.
    #[inline]
    pub fn envelope(&self, source: u64, ep: usize, token: u64) -> Envelope {
        Envelope {
            what: self.what,
            source,
            token,
            ep,
            tag: self.tag,
            len: self.len,
            data: self.data,
            note: 0,
        }
    }
}

/// Where the messages of a peer go, looked up once for many of them.
pub struct Inlet<'a, M: Memory = Host> {
    srx: &'a mut Srx<M>,
    cq: Option<&'a mut CqState>,
    cntr: Option<&'a Counter>,
    takes_tagged: bool,
    /// `EpState::rx_implied`.
    implied: u64,
    /// What completions call the peer.
    name: u64,
}

impl<M: Memory> Inlet<'_, M> {
    /// A message of the peer that matching calls `source`: `fill` puts it into the plain receive that has room for it, if there
    /// is one; else nothing has happened.
    #[inline(always)]
    pub fn take(
        &mut self,
        message: &Parts,
        source: u64,
        fill: impl FnOnce(&IoVec<M>),
    ) -> core::result::Result<(), Unfilled> {
        if message.what == What::Tagged && !self.takes_tagged {
            return Err(Unfilled::Special);
        }
        let filled = self.srx.fill(message, source, fill)?;
        if (filled.flags | self.implied) & FI_COMPLETION != 0
            && let Some(cq) = &mut self.cq
        {
            cq.push(&words_of(&filled, message, 0), self.name);
        }
        if let Some(cntr) = self.cntr {
            cntr.succeeded(message.len as usize);
        }
        Ok(())
    }

    /// Keeps a message that is unexpected; `copy` appends its bytes. False if so many bytes are kept already.
    #[inline(never)]
    pub fn keep(
        &mut self,
        envelope: Envelope,
        most: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.srx.has_room(envelope.token, envelope.len, most) {
            return false;
        }
        self.srx.keep_whole(envelope, copy);
        true
    }
}

impl What {
    /// Completion flags at the initiator, and the counter.
    const fn sent(self) -> (u64, Event) {
        match self {
            What::Msg => (FI_MSG | FI_SEND, Event::Send),
            What::Tagged => (FI_TAGGED | FI_SEND, Event::Send),
            What::Write => (FI_RMA | FI_WRITE, Event::Write),
            What::Read => (FI_RMA | FI_READ, Event::Read),
            What::Atomic => (FI_ATOMIC | FI_WRITE, Event::Write),
            What::AtomicFetch => (FI_ATOMIC | FI_READ, Event::Read),
        }
    }

    const fn received(self) -> u64 {
        match self {
            What::Tagged => FI_TAGGED | FI_RECV,
            _ => FI_MSG | FI_RECV,
        }
    }
}

/// Endpoints of a queue stop taking messages from the wire when it holds this many times what it was made for, and at
/// least `BRIM` entries: an application that does not read its queue costs memory up to there, not without end.
const BRIM_FACTOR: usize = 4;
const BRIM: usize = 65536;

impl CqState {
    #[inline(always)]
    fn is_over(&self) -> bool {
        let entries = self.ring.len();
        entries >= BRIM && entries >= self.ring.capacity().saturating_mul(BRIM_FACTOR)
    }

    // On the path of every message: a call of its own would cost each of them some instructions.
    #[inline(always)]
    fn push(&mut self, words: &[u64; 6], source: u64) {
        self.ring.push(words, source);
        self.wait.notify();
    }

    #[cold]
    fn push_error(&mut self, error: CqErr) {
        self.ring.push_err(error);
        self.wait.notify();
    }
}

impl<A: Address, M: Memory> Core<A, M> {
    pub fn new(mrs: Regions) -> Core<A, M> {
        Core {
            cqs: Slab::new(),
            avs: Slab::new(),
            eps: Slab::new(),
            srxs: Slab::new(),
            mrs,
            watchers: 0,
            contended: false,
            auto: false,
            waits: 0,
            armed: Arc::default(),
            triggers: Triggers::default(),
            outcomes: VecDeque::new(),
            loss: None,
        }
    }

    /// A wait object that belongs to the domain from now on.
    pub fn add_wait(&mut self, wait: Wait) -> Wait {
        let sleeps = usize::from(wait.can_sleep());
        self.watchers += sleeps;
        self.waits += sleeps;
        wait.counted(self.armed.clone())
    }

    pub fn remove_wait(&mut self, can_sleep: bool) {
        self.watchers -= usize::from(can_sleep);
        self.waits -= usize::from(can_sleep);
    }

    /// Whether somebody may be asleep who counts on the transport's descriptor.
    pub fn may_sleep(&self) -> bool {
        // Relaxed: whoever arms does so under the lock, and has looked before.
        self.watchers > self.waits || self.armed.load(Ordering::Relaxed) > 0
    }

    /// Whether the application learns what becomes of an operation, or a thread of ours sees to it.
    pub fn hears_of(&self, op: &TxOp) -> bool {
        let (_, event) = op.what.sent();
        self.auto || op.flags & FI_COMPLETION != 0 || self.eps[op.ep()].bound(event).is_some()
    }

    /// An operation of the initiator has succeeded.
    #[inline(always)]
    pub fn sent(&mut self, id: usize, op: &TxOp) {
        let (flags, event) = op.what.sent();
        // First, so that less is kept for afterwards; nobody sees the queue before the lock is given back.
        if let Some(cntr) = self.eps[id].cntr(event)
            && !cntr.count(op.len)
        {
            self.count_watched(id, event, op.flags, op.len);
        }
        if op.flags & FI_COMPLETION != 0
            && let Some(cq) = self.eps[id].tx_cq
        {
            self.cqs[cq].push(&[op.context as u64, flags, 0, 0, 0, 0], FI_ADDR_NOTAVAIL);
        }
    }

    /// An operation of the initiator has failed.
    #[cold]
    pub fn send_failed(&mut self, id: usize, op: &TxOp, error: Error) {
        let why = self.blame();
        let ep = &self.eps[id];
        let (flags, event) = op.what.sent();
        if let Some(cq) = ep.tx_cq {
            self.cqs[cq].push_error(CqErr {
                context: op.context,
                flags,
                err: error.code(),
                prov_errno: error.code(),
                src_addr: FI_ADDR_NOTAVAIL,
                why,
                ..CqErr::default()
            });
        }
        self.count_failed(id, event, op.flags);
    }

    /// An operation fails: what its error says.
    fn blame(&mut self) -> Option<Arc<CStr>> {
        let loss = self.loss.as_mut()?;
        loss.failed += 1;
        Some(loss.why.clone())
    }

    /// What completions of an endpoint call a source: what the application calls it, if it does.
    #[inline]
    fn named(&self, ep: &EpState, source: u64) -> u64 {
        match (ep.user_ids, ep.av) {
            (true, Some(av)) => self.avs[av].user_id(source),
            _ => source,
        }
    }

    /// A message is in its receive.
    pub fn received(
        &mut self,
        ep: usize,
        recv: &RecvOp<M>,
        envelope: &Envelope,
        sender: &Sender<'_, A>,
    ) {
        if envelope.len > recv.len as u64 {
            return self.truncated(ep, recv, envelope, sender.fi_addr);
        }
        let release = match recv.multi {
            None => 0,
            Some(_) => recv.release(),
        };
        let filled = Filled {
            base: recv.base,
            context: recv.context,
            flags: recv.flags,
        };
        if !self.reports_origin(ep, sender.fi_addr) {
            let parts = Parts {
                what: envelope.what,
                len: envelope.len,
                tag: envelope.tag,
                data: envelope.data,
            };
            return self.filled(ep, &filled, &parts, release, sender.fi_addr);
        }
        // fi_endpoint(3), FI_SELECTIVE_COMPLETION: only what succeeds can be suppressed.
        let flags = envelope.what.received() | release;
        let entry = entry_of(envelope, recv.context, flags, recv.base);
        self.stranger(ep, entry, sender);
        self.count(ep, Event::Recv, recv.flags, envelope.len as usize);
    }

    /// FI_SOURCE_ERR: whether what arrives from this sender is an entry with the sender's address.
    #[inline]
    pub fn reports_origin(&self, ep: usize, fi_addr: u64) -> bool {
        fi_addr == FI_ADDR_NOTAVAIL && self.eps[ep].caps & FI_SOURCE_ERR != 0
    }

    /// fi_cq(3), FI_EADDRNOTAVAIL: all went well, but the sender is not in the address vector. `entry` is what would have
    /// been reported.
    #[cold]
    fn stranger(&mut self, ep: usize, entry: CqErr, sender: &Sender<'_, A>) {
        // With FI_AV_AUTH_KEY: the handle of the key that it has proved.
        let av = self.eps[ep].av.map(|av| &self.avs[av]);
        let key = av
            .zip(sender.addr)
            .and_then(|(av, addr)| av.key_of_stranger(addr));
        if let Some(cq) = self.eps[ep].rx_cq {
            self.cqs[cq].push_error(CqErr {
                err: Error::ADDRNOTAVAIL.code(),
                prov_errno: Error::ADDRNOTAVAIL.code(),
                err_data: sender.addr.map(|addr| addr.to_bytes().into_boxed_slice()),
                src_addr: key.unwrap_or(FI_ADDR_NOTAVAIL),
                ..entry
            });
        }
    }

    /// Where the messages of a peer go that are here as a whole; nothing if each of them has to be looked at for itself, or
    /// none may come.
    #[inline(always)]
    pub fn inlet(&mut self, id: usize, fi_addr: u64) -> Option<Inlet<'_, M>> {
        if self.reports_origin(id, fi_addr) || !self.may_receive(id) {
            return None;
        }
        let ep = &self.eps[id];
        let cntr = ep.cntr(Event::Recv);
        if cntr.is_some_and(|cntr| cntr.is_watched()) {
            return None;
        }
        Some(Inlet {
            takes_tagged: ep.caps & FI_TAGGED != 0,
            implied: ep.rx_implied,
            name: self.named(ep, fi_addr),
            srx: &mut self.srxs[ep.srx],
            cq: ep.rx_cq.map(|cq| &mut self.cqs[cq]),
            cntr: cntr.map(|cntr| &**cntr),
        })
    }

    /// As `received`, for a message that had room. `release` is FI_MULTI_RECV if a buffer is given back.
    #[inline(always)]
    pub fn filled(&mut self, id: usize, recv: &Filled, message: &Parts, release: u64, source: u64) {
        let ep = &self.eps[id];
        let source = self.named(ep, source);
        if ((recv.flags | ep.rx_implied) & FI_COMPLETION != 0 || release != 0)
            && let Some(cq) = ep.rx_cq
        {
            self.cqs[cq].push(&words_of(recv, message, release), source);
        }
        if let Some(cntr) = ep.cntr(Event::Recv)
            && !cntr.count(message.len as usize)
        {
            self.count_watched(id, Event::Recv, recv.flags, message.len as usize);
        }
    }

    /// The message was longer than the receive: fi_cq(3), FI_ETRUNC.
    #[cold]
    fn truncated(&mut self, ep: usize, recv: &RecvOp<M>, envelope: &Envelope, source: u64) {
        let len = recv.len;
        let source = self.named(&self.eps[ep], source);
        let error = CqErr {
            len,
            olen: (envelope.len - len as u64) as usize,
            buf: recv.base,
            flags: envelope.data.map_or(0, |_| FI_REMOTE_CQ_DATA),
            data: envelope.data.unwrap_or(0),
            tag: envelope.tag,
            src_addr: source,
            err: Error::TRUNC.code(),
            ..CqErr::default()
        };
        self.receive_error(ep, recv, envelope.what, error);
    }

    /// A receive will not be filled.
    #[cold]
    pub fn receive_failed(&mut self, ep: usize, recv: &RecvOp<M>, what: What, error: Error) {
        let error = CqErr {
            err: error.code(),
            src_addr: FI_ADDR_NOTAVAIL,
            why: self.blame(),
            ..CqErr::default()
        };
        self.receive_error(ep, recv, what, error);
    }

    fn receive_error(&mut self, id: usize, recv: &RecvOp<M>, what: What, error: CqErr) {
        let ep = &self.eps[id];
        let release = recv.release();
        if let Some(cq) = ep.rx_cq {
            self.cqs[cq].push_error(CqErr {
                context: recv.context,
                flags: error.flags | what.received() | release,
                prov_errno: error.err,
                ..error
            });
        }
        self.count_failed(id, Event::Recv, recv.flags);
    }

    /// A peer has written to a region of ours, with or without data for the queue. `kind` is FI_RMA or FI_ATOMIC.
    pub fn written(
        &mut self,
        ep: usize,
        kind: u64,
        len: u64,
        data: Option<u64>,
        sender: &Sender<'_, A>,
    ) {
        if let (Some(data), Some(cq)) = (data, self.eps[ep].rx_cq) {
            let flags = kind | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
            if self.reports_origin(ep, sender.fi_addr) {
                let entry = CqErr {
                    flags,
                    len: len as usize,
                    data,
                    ..CqErr::default()
                };
                self.stranger(ep, entry, sender);
            } else {
                let source = self.named(&self.eps[ep], sender.fi_addr);
                self.cqs[cq].push(&[0, flags, len, 0, data, 0], source);
            }
        }
        self.count(ep, Event::RemoteWrite, 0, len as usize);
    }

    /// A peer has read from a region of ours.
    pub fn read_by_peer(&mut self, ep: usize, len: u64) {
        self.count(ep, Event::RemoteRead, 0, len as usize);
    }

    /// Whether an operation with a completion may be posted: there is room in the queue and among the operations
    /// under way.
    #[inline(always)]
    pub fn may_post(&self, ep: usize) -> Result {
        let ep = &self.eps[ep];
        if ep.tx_pending >= ep.tx_size {
            return Err(Error::AGAIN);
        }
        match ep.tx_cq {
            Some(cq) if self.cqs[cq].is_over() => Err(Error::AGAIN),
            _ => Ok(()),
        }
    }

    /// Whether the endpoint may take messages from the wire: its queue has not run over.
    #[inline]
    pub fn may_receive(&self, ep: usize) -> bool {
        let ep = &self.eps[ep];
        let has_room = match ep.rx_cq {
            Some(cq) => !self.cqs[cq].is_over(),
            None => true,
        };
        has_room && (ep.contexts.is_empty() || self.contexts_may_receive(ep))
    }

    #[cold]
    fn contexts_may_receive(&self, ep: &EpState) -> bool {
        let queues = ep.contexts.iter().filter_map(|&ep| self.eps[ep].rx_cq);
        queues.into_iter().all(|cq| !self.cqs[cq].is_over())
    }

    /// All places where the messages of an endpoint's peers are: its receive context, and those that it has beyond it.
    pub fn each_srx(&mut self, ep: usize, mut f: impl FnMut(&mut Srx<M>)) {
        let ep = &self.eps[ep];
        f(&mut self.srxs[ep.srx]);
        for &context in &ep.contexts {
            f(&mut self.srxs[self.eps[context].srx]);
        }
    }

    /// Posts a receive of an endpoint. What the transport has to bring comes back.
    #[inline]
    pub fn post_receive(
        &mut self,
        ep: usize,
        rx: &mut Rx<M>,
        source_of: impl Fn(&Envelope) -> u64,
        mut claim: impl FnMut(&mut Self, Claimed<M>),
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
        rx: &mut Rx<M>,
        source_of: impl Fn(&Envelope) -> u64,
        claim: &mut impl FnMut(&mut Self, Claimed<M>),
    ) -> Result {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let result = self.srxs[srx].post(rx, directed, &mut outcomes);
        while let Some(outcome) = outcomes.pop_front() {
            match outcome {
                Outcome::Done(recv, envelope, origin) => {
                    let addr = origin.and_then(|bytes| A::from_bytes(&bytes));
                    let sender = Sender {
                        fi_addr: source_of(&envelope),
                        addr: addr.as_ref(),
                    };
                    self.received(envelope.ep, &recv, &envelope, &sender);
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
        match (result, ep) {
            // fi_tagged(3): no such message is reported by the queue.
            (Err(Error::NOMSG), Some(ep)) => {
                self.not_found(ep, rx);
                Ok(())
            }
            (result, _) => result,
        }
    }

    #[cold]
    fn peeked(&mut self, ep: usize, rx: &Rx<M>, envelope: &Envelope, sender: &Sender<'_, A>) {
        let Some((cq, implied)) = self
            .eps
            .get(ep)
            .and_then(|ep| Some((ep.rx_cq?, ep.rx_implied)))
        else {
            return;
        };
        // A claimed message that is discarded: a receive like others.
        if rx.flags & FI_PEEK == 0 && (rx.flags | implied) & FI_COMPLETION == 0 {
            return;
        }
        let entry = entry_of(envelope, rx.context, rx.what.received(), 0);
        if self.reports_origin(ep, sender.fi_addr) {
            return self.stranger(ep, entry, sender);
        }
        let words = [
            entry.context as u64,
            entry.flags,
            envelope.len,
            0,
            entry.data,
            entry.tag,
        ];
        let source = self.named(&self.eps[ep], sender.fi_addr);
        self.cqs[cq].push(&words, source);
    }

    /// A claimed message whose sender has gone is to be received.
    #[cold]
    fn claim_lost(&mut self, ep: usize, recv: &RecvOp<M>, what: What) {
        if self.eps.contains(ep) {
            self.receive_failed(ep, recv, what, Error::CONNRESET);
        }
    }

    #[cold]
    fn not_found(&mut self, ep: usize, rx: &Rx<M>) {
        if let Some(cq) = self.eps[ep].rx_cq {
            self.cqs[cq].push_error(CqErr {
                context: rx.context,
                flags: rx.what.received(),
                tag: rx.tag,
                err: Error::NOMSG.code(),
                prov_errno: Error::NOMSG.code(),
                src_addr: FI_ADDR_NOTAVAIL,
                ..CqErr::default()
            });
        }
    }

    /// fi_cancel(3): the operation, if it had not started, is reported with FI_ECANCELED.
    pub fn cancel(&mut self, ep: usize, context: usize) -> Result {
        let srx = self.eps[ep].srx;
        let (recv, what) = self.srxs[srx].cancel(context).ok_or(Error::NOENT)?;
        self.receive_failed(ep, &recv, what, Error::CANCELED);
        Ok(())
    }
}

/// What a queue is told of a message that is in its receive: the words of an entry.
#[inline(always)]
fn words_of(recv: &Filled, message: &Parts, release: u64) -> [u64; 6] {
    let (with_data, data) = match message.data {
        Some(data) => (FI_REMOTE_CQ_DATA, data),
        None => (0, 0),
    };
    [
        recv.context as u64,
        message.what.received() | with_data | release,
        message.len,
        recv.base as u64,
        data,
        message.tag,
    ]
}

/// What a queue is told of a message.
fn entry_of(envelope: &Envelope, context: usize, flags: u64, buf: usize) -> CqErr {
    CqErr {
        context,
        flags: flags | envelope.data.map_or(0, |_| FI_REMOTE_CQ_DATA),
        len: envelope.len as usize,
        buf,
        data: envelope.data.unwrap_or(0),
        tag: envelope.tag,
        ..CqErr::default()
    }
}
