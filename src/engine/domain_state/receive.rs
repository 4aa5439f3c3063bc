// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completions of messages and of peers' memory accesses at the target: fi_cq(3), fi_cntr(3).

use std::ffi::CStr;
use std::sync::Arc;

use crate::cntr::Counter;
use crate::ep_state::{EpState, Event};
use crate::srx::{Arrivals, Envelope, Fill, Filled, MessageInfo, RecvOp, Srx, Unfilled};
use crate::transport::Address;
use abi::*;
use base::flags::flags;
use base::{Caps, CompFlags, Error, OpFlags};

use object::ops::cq::CqErr;
use object::ops::transfer::What;
use object::peer::Loss;
use sync::stats::{Count, EpStats, Tally};

use super::{CqState, DomainState};

/// The sender of an arrived message or access.
pub struct Sender<'a, A> {
    /// Index in the endpoint's address vector, or FI_ADDR_NOTAVAIL.
    pub fi_addr: u64,
    /// The address to insert into an address vector, if it is known.
    pub addr: Option<&'a A>,
}

/// A receive that was posted to an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterReceive {
    pub context: usize,
    pub flags: OpFlags,
}

/// The report of an adapter about such a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterDone {
    pub len: usize,
    pub data: Option<u64>,
    pub is_write: bool,
}

/// The objects that receive the messages of one peer, looked up once for many messages.
pub struct RxPath<'a> {
    srx: &'a mut Srx,
    cq: Option<&'a mut CqState>,
    cntr: Option<&'a Counter>,
    stats: &'a EpStats,
    takes_tagged: bool,
    /// The receives belong to another provider, which may take messages now.
    is_passing: bool,
    /// `EpState::rx_implied`.
    implied: OpFlags,
    /// Source address of the peer in completions.
    name: u64,
}

impl RxPath<'_> {
    /// Delivers a message of the peer with the source `source`. If a plain receive with room matches, `fill` copies the
    /// message there; otherwise nothing has changed.
    ///
    /// `PASSING`: what `is_passing` says. The usual paths have no code for it, which would keep them from being
    /// inlined.
    #[inline(always)]
    pub fn take<const PASSING: bool>(
        &mut self,
        message: &MessageInfo,
        source: u64,
        fill: impl Fill,
    ) -> core::result::Result<(), Unfilled> {
        if message.what == What::Tagged && !self.takes_tagged {
            return Err(Unfilled::Special);
        }
        if PASSING {
            return self.pass_on(message, fill);
        }
        let filled = self.srx.fill(message, source, fill)?;
        // The message arrived in one record.
        self.stats.add_short(Tally::RECV, message.len as usize);
        if (filled.flags | self.implied).contains(OpFlags::COMPLETION)
            && let Some(cq) = &mut self.cq
        {
            cq.push(&words_of(&filled, message, CompFlags::empty()), self.name);
        }
        if let Some(cntr) = self.cntr {
            cntr.succeeded(message.len as usize);
        }
        Ok(())
    }

    /// Whether the receives belong to another provider, which may take messages now.
    #[inline(always)]
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// As `take`, for receives that belong to another provider.
    #[inline]
    fn pass_on(
        &mut self,
        message: &MessageInfo,
        fill: impl Fill,
    ) -> core::result::Result<(), Unfilled> {
        let name = address_of(self.name);
        match self.srx.pass_on(message, name, |iov| fill.fill(iov)) {
            true => {
                self.stats.add_short(Tally::RECV, message.len as usize);
                Ok(())
            }
            false => Err(Unfilled::Unexpected),
        }
    }

    /// Keeps an unexpected message; `copy` appends its bytes. Returns false if the limit on kept bytes is reached.
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

impl<A: Address> DomainState<A> {
    /// The source in completions of an endpoint: the application's identifier if it has set one.
    #[inline]
    pub(super) fn named(&self, ep: &EpState, source: u64) -> u64 {
        if ep.hides_source {
            return FI_ADDR_NOTAVAIL;
        }
        match (ep.user_ids, ep.av) {
            (true, Some(av)) => self.avs[av].user_id(source),
            _ => source,
        }
    }

    /// Completes a receive whose message has arrived.
    pub fn received(
        &mut self,
        ep: usize,
        recv: &RecvOp,
        envelope: &Envelope,
        sender: &Sender<'_, A>,
    ) {
        if envelope.len > recv.len as u64 {
            return self.truncated(ep, recv, envelope, sender.fi_addr);
        }
        let release = match recv.multi {
            None => CompFlags::empty(),
            Some(_) => recv.release(),
        };
        let filled = Filled {
            base: recv.base,
            context: recv.context,
            flags: recv.flags,
        };
        if hmem::faults::any()
            && let Some(fault) = hmem::faults::take(recv.base, recv.len)
        {
            return self.fill_failed(ep, &filled, &envelope.info(), release, fault);
        }
        self.filled_from(ep, &filled, envelope, release, sender);
    }

    /// Like `received`, for a message that fits into its receive. `release` as in `filled`.
    #[inline]
    pub(super) fn filled_from(
        &mut self,
        ep: usize,
        recv: &Filled,
        envelope: &Envelope,
        release: CompFlags,
        sender: &Sender<'_, A>,
    ) {
        match self.reports_origin(ep, sender.fi_addr) {
            false => self.filled(ep, recv, &envelope.info(), release, sender.fi_addr),
            true => self.received_from_stranger(ep, recv, envelope, release, sender),
        }
    }

    /// Completes a receive whose sender is in no address vector, for an endpoint that reports the addresses of such.
    #[cold]
    fn received_from_stranger(
        &mut self,
        ep: usize,
        recv: &Filled,
        envelope: &Envelope,
        release: CompFlags,
        sender: &Sender<'_, A>,
    ) {
        // fi_endpoint(3), FI_SELECTIVE_COMPLETION: only successful completions can be suppressed.
        let flags = envelope.what.received() | release;
        let entry = entry_of(envelope, recv.context, flags, recv.base);
        self.stranger(ep, entry, sender);
        let len = envelope.len as usize;
        self.eps[ep].stats.add(Tally::RECV, len);
        self.count(ep, Event::Recv, recv.flags, len);
    }

    /// FI_SOURCE_ERR: whether arrivals from this sender are reported as error entries with the sender's address.
    #[inline]
    pub fn reports_origin(&self, ep: usize, fi_addr: u64) -> bool {
        fi_addr == FI_ADDR_NOTAVAIL && self.eps[ep].caps.contains(Caps::SOURCE_ERR)
    }

    /// fi_cq(3), FI_EADDRNOTAVAIL: the receive succeeded, but the sender is not in the address vector. `entry` is the
    /// completion without this error.
    #[cold]
    pub(super) fn stranger(&mut self, ep: usize, entry: CqErr, sender: &Sender<'_, A>) {
        // With FI_AV_AUTH_KEY: the handle of the key that the sender has proved.
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

    /// Whether messages of this receive context belong to another provider, which may take them now.
    #[inline(always)]
    fn passes_on(&self, srx: usize) -> bool {
        self.srxs[srx].arrivals.is_some() && !self.peers.delivering
    }

    /// Passes a message that has arrived as a whole to the provider that has the receives of this context, if it has
    /// one for it. Always false for contexts of this provider.
    #[inline(always)]
    pub fn pass_on(
        &mut self,
        (ep, srx): (usize, usize),
        message: &MessageInfo,
        fi_addr: u64,
        payload: &[u8],
    ) -> bool {
        // By value, so that other messages need not be in memory for this.
        self.passes_on(srx) && self.pass_on_now(ep, *message, fi_addr, payload)
    }

    #[inline(never)]
    fn pass_on_now(
        &mut self,
        id: usize,
        message: MessageInfo,
        fi_addr: u64,
        payload: &[u8],
    ) -> bool {
        let ep = &self.eps[id];
        let from = address_of(self.named(ep, fi_addr));
        let has_passed = self.srxs[ep.srx].pass_on(&message, from, |iov| iov.fill(payload));
        if has_passed {
            ep.stats.add(Tally::RECV, message.len as usize);
        }
        has_passed
    }

    /// The receive path of a peer for messages that arrive as a whole. None if each message has to be checked, or none
    /// may be received now.
    #[inline(always)]
    pub fn inlet(&mut self, id: usize, fi_addr: u64) -> Option<RxPath<'_>> {
        if self.reports_origin(id, fi_addr) || !self.may_receive(id) {
            return None;
        }
        let ep = &self.eps[id];
        let cntr = ep.cntr(Event::Recv);
        if cntr.is_some_and(|cntr| cntr.is_watched()) {
            return None;
        }
        Some(RxPath {
            takes_tagged: ep.caps.contains(Caps::TAGGED),
            implied: ep.rx_implied,
            is_passing: self.passes_on(ep.srx),
            name: self.named(ep, fi_addr),
            srx: &mut self.srxs[ep.srx],
            cq: ep.rx_cq.map(|cq| &mut self.cqs[cq]),
            cntr: cntr.map(|cntr| &**cntr),
            stats: &ep.stats,
        })
    }

    /// Like `received`, for a message that fits into its receive, which is in the host's memory. `release` is
    /// FI_MULTI_RECV if the completion returns the buffer.
    #[inline(always)]
    pub fn filled(
        &mut self,
        id: usize,
        recv: &Filled,
        message: &MessageInfo,
        release: CompFlags,
        source: u64,
    ) {
        self.filled_by::<false>(id, recv, message, release, source);
    }

    /// Like `filled`, for a message that arrived in one piece.
    #[inline(always)]
    pub fn filled_whole(
        &mut self,
        id: usize,
        recv: &Filled,
        message: &MessageInfo,
        release: CompFlags,
        source: u64,
    ) {
        self.filled_by::<true>(id, recv, message, release, source);
    }

    #[inline(always)]
    fn filled_by<const WHOLE: bool>(
        &mut self,
        id: usize,
        recv: &Filled,
        message: &MessageInfo,
        release: CompFlags,
        source: u64,
    ) {
        let ep = &self.eps[id];
        let len = message.len as usize;
        match WHOLE {
            true => ep.stats.add_unsettled(Tally::RECV, len),
            false => ep.stats.add(Tally::RECV, len),
        }
        let source = self.named(ep, source);
        if ((recv.flags | ep.rx_implied).contains(OpFlags::COMPLETION) || !release.is_empty())
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

    /// Reports a message that was longer than its receive: fi_cq(3), FI_ETRUNC.
    #[cold]
    fn truncated(&mut self, ep: usize, recv: &RecvOp, envelope: &Envelope, source: u64) {
        let len = recv.len;
        let source = self.named(&self.eps[ep], source);
        let error = CqErr {
            len,
            olen: (envelope.len - len as u64) as usize,
            buf: recv.base,
            flags: with_data(envelope.data),
            data: envelope.data.unwrap_or(0),
            tag: envelope.tag,
            src_addr: source,
            err: Error::TRUNC.code(),
            ..CqErr::default()
        };
        self.receive_error(ep, recv, envelope.what, error);
    }

    /// The endpoint's only connection has ended: its posted receives fail, and later ones, too. Receives in a shared
    /// context stay, because messages of other endpoints may fill them.
    #[cold]
    pub fn end_receives(&mut self, ep: usize, error: Error) {
        let state = &mut self.eps[ep];
        let srx = state.srx;
        state.ended = Some(error);
        state.checks_receives = true;
        if self.srxs[srx].eps > 1 {
            return;
        }
        for (recv, what) in self.srxs[srx].drain_posted() {
            self.receive_failed(ep, &recv, what, error);
        }
    }

    /// Reports a receive that will not be filled.
    #[cold]
    pub fn receive_failed(&mut self, ep: usize, recv: &RecvOp, what: What, error: Error) {
        let error = CqErr {
            err: error.code(),
            src_addr: FI_ADDR_NOTAVAIL,
            why: self.losses.count(),
            ..CqErr::default()
        };
        self.receive_error(ep, recv, what, error);
    }

    /// Fails receives for messages of this peer only, whose host is silent; they would wait for ever. (A peer that
    /// ended its connection may connect again.)
    #[cold]
    pub fn fail_receives_from(&mut self, ep: usize, fi_addr: u64, error: Error) {
        self.lose_member_at(ep, fi_addr, error);
        for (ep, srx) in self.own_queues(ep) {
            let is_silent = true;
            self.tell_loss(ep, srx, fi_addr, Loss { error, is_silent });
            for (recv, what) in self.srxs[srx].drain_posted_from(fi_addr) {
                self.receive_failed(ep, &recv, what, error);
            }
        }
    }

    /// A connection to a peer has ended. If receives belong to another provider, that may wait for the peer.
    #[cold]
    pub fn connection_ended(&mut self, ep: usize, fi_addr: u64, error: Error) {
        self.lose_member_at(ep, fi_addr, error);
        for (ep, srx) in self.own_queues(ep) {
            let is_silent = false;
            self.tell_loss(ep, srx, fi_addr, Loss { error, is_silent });
        }
    }

    fn lose_member_at(&mut self, ep: usize, fi_addr: u64, error: Error) {
        let addr = self.eps[ep].av.and_then(|av| self.avs[av].get(fi_addr));
        if let (Some(addr), Some(losses)) = (addr, self.groups.losses_mut(ep)) {
            losses.push((addr.clone(), error));
        }
    }

    fn tell_loss(&self, ep: usize, srx: usize, fi_addr: u64, loss: Loss) {
        if let Some(arrivals) = &self.srxs[srx].arrivals {
            let name = self.named(&self.eps[ep], fi_addr);
            arrivals.owner.lost(name, loss);
        }
    }

    /// Whether a receive waits for messages of this peer only, and no other endpoint could deliver them, or a
    /// collective may wait for them.
    #[cold]
    pub fn awaits(&mut self, ep: usize, fi_addr: u64) -> bool {
        let addr = self.eps[ep].av.and_then(|av| self.avs[av].get(fi_addr));
        let lane = self.groups.lane(ep);
        if let (Some(addr), Some(lane)) = (addr, lane)
            && lane.has_member(addr)
        {
            return true;
        }
        let queues = self.own_queues(ep);
        let mut named = queues.into_iter();
        named.any(|(ep, srx)| {
            let name = self.named(&self.eps[ep], fi_addr);
            let srx = &mut self.srxs[srx];
            let of_owner = |arrivals: &Arrivals| arrivals.owner.awaits(name);
            srx.names(fi_addr) || srx.arrivals.as_deref().is_some_and(of_owner)
        })
    }

    /// The endpoint and its contexts, with the receive contexts that they do not share. Messages for shared ones may
    /// come through another endpoint.
    fn own_queues(&mut self, ep: usize) -> Vec<(usize, usize)> {
        let mut all = self.eps[ep].contexts.clone();
        all.push(ep);
        let queues = all.into_iter().map(|ep| (ep, self.eps[ep].srx));
        let queues: Vec<_> = queues.collect();
        let is_own = |&(_, srx): &(usize, usize)| {
            let srx = &self.srxs[srx];
            // The handle of a context that was opened counts, too. Each endpoint of a peer has one for itself.
            srx.eps <= 1 + usize::from(srx.arrivals.is_some())
        };
        queues.into_iter().filter(is_own).collect()
    }

    fn receive_error(&mut self, id: usize, recv: &RecvOp, what: What, error: CqErr) {
        // The receive fails anyway.
        if hmem::faults::any() {
            hmem::faults::take(recv.base, recv.len);
        }
        let ep = &self.eps[id];
        ep.stats.count(Count::ReceivesFailed);
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

    /// Completes a peer's write to our memory, with or without data for the queue. `kind` is `RMA` or `ATOMIC`.
    pub fn written(
        &mut self,
        ep: usize,
        kind: CompFlags,
        len: u64,
        data: Option<u64>,
        sender: &Sender<'_, A>,
    ) {
        self.eps[ep].stats.add(Tally::REMOTE_WRITE, len as usize);
        if let (Some(data), Some(cq)) = (data, self.eps[ep].rx_cq) {
            let flags = kind | CompFlags::REMOTE_WRITE | CompFlags::REMOTE_CQ_DATA;
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
                self.cqs[cq].push(&[0, flags.bits(), len, 0, data, 0], source);
            }
        }
        self.count(ep, Event::RemoteWrite, OpFlags::empty(), len as usize);
    }

    /// Completes a receive of an adapter: a message, or a peer's write with data, which uses up a receive.
    #[inline]
    pub fn received_there(&mut self, id: usize, receive: &AdapterReceive, done: &AdapterDone) {
        let ep = &self.eps[id];
        let with_data = with_data(done.data);
        let (flags, tally) = match done.is_write {
            false => (What::Msg.received() | with_data, Tally::RECV),
            true => (
                flags!(CompFlags: RMA | REMOTE_WRITE) | with_data,
                Tally::REMOTE_WRITE,
            ),
        };
        ep.stats.add(tally, done.len);
        // A write with data is always reported: fi_rma(3).
        let is_reported =
            done.is_write || (receive.flags | ep.rx_implied).contains(OpFlags::COMPLETION);
        if let (true, Some(cq)) = (is_reported, ep.rx_cq) {
            let data = done.data.unwrap_or(0);
            let words = [
                receive.context as u64,
                flags.bits(),
                done.len as u64,
                0,
                data,
                0,
            ];
            self.cqs[cq].push(&words, FI_ADDR_NOTAVAIL);
        }
    }

    /// Fails a receive of an adapter, with an error number of the provider and its explanation.
    #[cold]
    pub fn receive_failed_there(
        &mut self,
        id: usize,
        receive: &AdapterReceive,
        error: Error,
        number: i32,
        why: Arc<CStr>,
    ) {
        let ep = &self.eps[id];
        ep.stats.count(Count::ReceivesFailed);
        if let Some(cq) = ep.rx_cq {
            self.cqs[cq].push_error(CqErr {
                context: receive.context,
                flags: What::Msg.received(),
                err: error.code(),
                prov_errno: number,
                src_addr: FI_ADDR_NOTAVAIL,
                why: Some(why),
                ..CqErr::default()
            });
        }
    }

    /// Counts a peer's read of our memory.
    pub fn read_by_peer(&mut self, ep: usize, len: u64) {
        self.eps[ep].stats.add(Tally::REMOTE_READ, len as usize);
        self.count(ep, Event::RemoteRead, OpFlags::empty(), len as usize);
    }

    /// Whether the endpoint may take messages from the wire: its queue is not overrun, and the endpoint is not paused.
    #[inline]
    pub fn may_receive(&self, ep: usize) -> bool {
        let ep = &self.eps[ep];
        let has_room = match ep.rx_cq {
            Some(cq) => !self.cqs[cq].is_over(),
            None => true,
        };
        has_room && !ep.is_paused && (ep.contexts.is_empty() || self.contexts_may_receive(ep))
    }

    #[cold]
    fn contexts_may_receive(&self, ep: &EpState) -> bool {
        let queues = ep.contexts.iter().filter_map(|&ep| self.eps[ep].rx_cq);
        queues.into_iter().all(|cq| !self.cqs[cq].is_over())
    }
}

/// The words of the completion entry of a received message.
#[inline(always)]
fn words_of(recv: &Filled, message: &MessageInfo, release: CompFlags) -> [u64; 6] {
    let (with_data, data) = match message.data {
        Some(data) => (CompFlags::REMOTE_CQ_DATA, data),
        None => (CompFlags::empty(), 0),
    };
    [
        recv.context as u64,
        (message.what.received() | with_data | release).bits(),
        message.len,
        recv.base as u64,
        data,
        message.tag,
    ]
}

/// The address of a sender for another provider: FI_ADDR_UNSPEC for one that has none.
const fn address_of(name: u64) -> u64 {
    match name {
        FI_ADDR_NOTAVAIL => FI_ADDR_UNSPEC,
        name => name,
    }
}

fn with_data(data: Option<u64>) -> CompFlags {
    data.map_or(CompFlags::empty(), |_| CompFlags::REMOTE_CQ_DATA)
}

/// The completion entry of a message.
pub(super) fn entry_of(envelope: &Envelope, context: usize, flags: CompFlags, buf: usize) -> CqErr {
    CqErr {
        context,
        flags: flags | with_data(envelope.data),
        len: envelope.len as usize,
        buf,
        data: envelope.data.unwrap_or(0),
        tag: envelope.tag,
        ..CqErr::default()
    }
}
