// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: a message is copied into the matching receive within the call that sends it, all under the lock of
//! the domain. A short message without a receive is kept by the receiver, a longer one waits with its sender.

use std::collections::BTreeMap;

use base::flags::flags;
use base::info::Info;
use base::log::Source;
use base::{Caps, Error, IoVec, OpFlags, Result};
use engine::clock::Monotonic;
use engine::domain_state::{DomainState, MessageInfo, Sender, TxOp};
use engine::peer::check;
use engine::reactor::Reactor;
use engine::srx::{Bytes, Claimed, Envelope, RecvOp, Slot};
use engine::strangers::{UnknownSenders, fi_addr_of};
use engine::transport::{
    Address, Addressing, Atomics, Batches, Connects, Contexts, Drains, Groups, Multicast, Prepares,
    Queues, SharedFd, Transport,
};
use object::ops::transfer::Tx;

use super::name::{Format, Name};
use super::{SOURCE, info};

type State = DomainState<Name>;

pub struct Domain {
    /// Its descriptor never becomes readable, because nothing happens outside the calls of the application.
    reactor: Reactor<()>,
    /// The endpoints, by their number in `domain.eps`.
    eps: BTreeMap<usize, Ep>,
    /// Messages that wait with their senders, by the `note` in their envelopes.
    waiting: BTreeMap<u64, Waiting>,
}

struct Ep {
    name: Name,
    /// Senders that are not in the endpoint's address vector.
    strangers: UnknownSenders<Name>,
}

/// A message that is complete only when a receive has taken it.
struct Waiting {
    op: TxOp,
    to: usize,
    slot: Slot,
    iov: IoVec,
    /// The bytes of an injected message, whose memory belongs to the application again.
    copy: Vec<u8>,
}

impl Domain {
    fn ep(&mut self, ep: usize) -> Result<&mut Ep> {
        self.eps.get_mut(&ep).ok_or(Error::INVAL)
    }

    /// Returns the endpoint with this address. A domain has few endpoints, so a search is fast enough here.
    fn find(&self, name: &Name) -> Option<usize> {
        let mut all = self.eps.iter();
        all.find(|(_, ep)| ep.name == *name).map(|(&id, _)| id)
    }

    /// Returns the source of messages from `sender` in matching, at the endpoint `to`.
    fn source(&mut self, domain: &State, to: usize, sender: &Name) -> Result<u64> {
        let state = &domain.eps[to];
        let known = state.av.and_then(|av| domain.avs[av].find(sender));
        let unexpected = domain.srxs[state.srx].unexpected_len();
        let ep = self.ep(to)?;
        Ok(known.unwrap_or_else(|| ep.strangers.number(sender, unexpected)))
    }

    /// Delivers a message to an endpoint, or leaves it there until a receive takes it.
    fn deliver(&mut self, domain: &mut State, op: TxOp, tx: &mut Tx<'_>, to: usize) -> Result {
        let sender = self.ep(op.ep())?.name.clone();
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let message = MessageInfo {
            what: tx.what,
            len: op.len as u64,
            tag: tx.tag,
            data: has_data.then_some(tx.data),
        };
        let source = self.source(domain, to, &sender)?;
        let mut envelope = message.envelope(source, to, op.ep() as u64);
        let rx_queue = &mut domain.srxs[domain.eps[to].srx];
        if let Some(recv) = rx_queue.accept(&envelope) {
            receive(domain, recv, &bytes_of(&tx.iov), envelope, &sender);
        } else if op.len <= SHORT
            && !op.flags.intersects(UNTIL_MATCHED)
            && rx_queue.has_room(envelope.token, envelope.len, MAX_KEPT)
        {
            rx_queue.keep_whole(envelope, |bytes| tx.iov.copy_out(bytes));
        } else {
            envelope.note = self
                .waiting
                .last_key_value()
                .map_or(0, |(note, _)| note + 1);
            let slot = rx_queue.keep(envelope, Bytes::There);
            domain.eps[op.ep()].tx_pending += 1;
            let (iov, copy) = match op.flags.contains(OpFlags::INJECT) {
                true => (IoVec::empty(), bytes_of(&tx.iov)),
                false => (tx.iov.take(), Vec::new()),
            };
            let waiting = Waiting {
                op,
                to,
                slot,
                iov,
                copy,
            };
            self.waiting.insert(envelope.note, waiting);
            return Ok(());
        }
        domain.sent(op.ep(), &op);
        Ok(())
    }
}

fn bytes_of(iov: &IoVec) -> Vec<u8> {
    let mut bytes = Vec::new();
    iov.copy_out(&mut bytes);
    bytes
}

/// Completes a receive. Bytes that have no room are dropped.
fn receive(domain: &mut State, mut recv: RecvOp, bytes: &[u8], envelope: Envelope, from: &Name) {
    recv.iov.copy_in(bytes);
    let sender = Sender {
        fi_addr: fi_addr_of(envelope.source),
        addr: Some(from),
    };
    domain.received(envelope.ep, &recv, &envelope, &sender);
}

impl Addressing for Domain {
    type Addr = Name;
    type Format = Format;
}

// Parts that the provider does not have. Their defaults return the errors of the man pages.
impl Connects for Domain {}
impl Contexts for Domain {}
impl Groups for Domain {}
impl Multicast for Domain {}
impl Atomics for Domain {}
impl Prepares for Domain {}
impl Queues for Domain {}
impl Batches for Domain {}
impl Drains for Domain {}

impl Transport for Domain {
    type Fabric = ();

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = info::CQ_DATA;

    /// A progress thread would have nothing to do.
    fn offers_auto_progress(_fabric: &()) -> bool {
        false
    }

    fn open(_fabric: &(), _info: &Info) -> Result<Domain> {
        Ok(Domain {
            reactor: Reactor::new(Monotonic)?,
            eps: BTreeMap::new(),
            waiting: BTreeMap::new(),
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }

    fn progress(&mut self, _domain: &mut State) {}

    fn open_ep(&mut self, _domain: &mut State, ep: usize, info: &Info) -> Result {
        info::check(info)?;
        let wanted = info.src_addr.as_deref();
        let wanted = wanted.map(|bytes| Name::from_bytes(bytes).ok_or(Error::INVAL));
        let name = Name::of_endpoint(wanted.transpose()?);
        if self.find(&name).is_some() {
            return Err(Error::ADDRINUSE);
        }
        let strangers = UnknownSenders::new();
        self.eps.insert(ep, Ep { name, strangers });
        Ok(())
    }

    fn enable_ep(&mut self, _domain: &mut State, _ep: usize) -> Result {
        Ok(())
    }

    /// Messages to the endpoint fail, and those from it that still wait are dropped with their operations.
    fn close_ep(&mut self, domain: &mut State, ep: usize) {
        self.waiting.retain(|_, Waiting { op, to, slot, .. }| {
            if op.ep() == ep {
                domain.srxs[domain.eps[*to].srx].lost(*slot);
            } else if *to == ep {
                domain.fail_tx(op, Error::CONNRESET);
            }
            op.ep() != ep && *to != ep
        });
        self.eps.remove(&ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(self.eps.get(&ep).ok_or(Error::INVAL)?.name.to_bytes())
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        let name = Name::from_bytes(addr).ok_or(Error::INVAL)?;
        if self.find(&name).is_some_and(|other| other != ep) {
            return Err(Error::ADDRINUSE);
        }
        self.ep(ep)?.name = name;
        Ok(())
    }

    fn transmit(&mut self, domain: &mut State, ep: usize, tx: &mut Tx<'_>) -> Result {
        // Flags of capabilities that are not offered are refused.
        check::flags(tx.flags, Caps::empty(), OpFlags::empty())?;
        let state = check::enabled(domain, ep)?;
        let av = state.av.ok_or(Error::INVAL)?;
        let peer = domain.avs[av].get(tx.dest).ok_or(Error::INVAL)?;
        domain.may_post(ep)?;
        let op = TxOp::of(ep, tx, tx.iov.remaining());
        match self.find(peer) {
            Some(to) if domain.eps[to].enabled && domain.may_receive(to) => {
                self.deliver(domain, op, tx, to)
            }
            Some(_) => Err(state.again()),
            None => {
                domain.send_failed(ep, &op, Error::CONNREFUSED);
                Ok(())
            }
        }
    }

    fn cancel(&mut self, domain: &mut State, ep: usize, context: usize) -> Option<TxOp> {
        let mut all = self.waiting.iter();
        let found = all.find(|(_, message)| message.op.is_named(ep, context));
        let (&note, &Waiting { op, to, slot, .. }) = found?;
        self.waiting.remove(&note);
        domain.srxs[domain.eps[to].srx].lost(slot);
        Some(op)
    }

    fn claim(&mut self, domain: &mut State, claimed: Claimed) {
        let Claimed { envelope, recv } = claimed;
        let Some(Waiting { op, iov, copy, .. }) = self.waiting.remove(&envelope.note) else {
            return;
        };
        if let (Some(recv), Some(sender)) = (recv, self.eps.get(&op.ep())) {
            let bytes = if iov.remaining() > 0 {
                bytes_of(&iov)
            } else {
                copy
            };
            receive(domain, recv, &bytes, envelope, &sender.name);
        }
        domain.complete_tx(&op);
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    /// Messages from a new address get its index as their source.
    fn av_inserted(&mut self, domain: &mut State, av: usize, index: u64) {
        let Some(name) = domain.avs[av].get(index).cloned() else {
            return;
        };
        for (&id, ep) in &mut self.eps {
            if domain.eps[id].av == Some(av)
                && let Some(number) = ep.strangers.inserted(&name)
            {
                domain.rename_source(id, number, index);
            }
        }
    }

    /// The index may be reused for another peer, so messages from the address get another source.
    fn av_removed(&mut self, domain: &mut State, av: usize, index: u64, name: &Name) {
        for (&id, ep) in &mut self.eps {
            let state = &domain.eps[id];
            if state.av == Some(av) {
                let unexpected = domain.srxs[state.srx].unexpected_len();
                let number = ep.strangers.number(name, unexpected);
                domain.forget_source(id, index, number, name);
            }
        }
    }
}

/// Completion levels that need a matching receive.
const UNTIL_MATCHED: OpFlags = flags!(OpFlags: DELIVERY_COMPLETE | MATCH_COMPLETE);
/// Longer messages wait, so that the queue of their sender limits their number.
const SHORT: usize = 16 * 1024;
/// Limit on the bytes of kept messages of one receive context. Further messages wait with their senders.
const MAX_KEPT: usize = 1 << 20;
