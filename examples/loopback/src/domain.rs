// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: a message is copied into the matching receive within the call that sends it, all under the lock of the
//! domain. A message without a receive is kept by the receiver if it is short; otherwise it waits with its sender.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, RawFd};

use base::flags::flags;
use base::info::Info;
use base::log::{Source, Subsys, log_info};
use base::{Error, IoVec, OpFlags, Result};
use engine::clock::Monotonic;
use engine::domain_state::{DomainState, MessageInfo, Sender, TxOp};
use engine::reactor::Reactor;
use engine::srx::{Bytes, Claimed, Envelope, RecvOp};
use engine::strangers::{Strangers, fi_addr_of};
use engine::transport::{
    Address, Addressing, Atomics, Batches, Connects, Contexts, Drains, Groups, Multicast, Prepares,
    Transport,
};
use hmem::Host;
use object::ops::transfer::Tx;

use super::name::{Format, Name};
use super::waiting::{Payload, WaitingList};
use super::{SOURCE, info};

pub struct Domain {
    /// Its descriptor never becomes readable, because nothing happens outside the calls of the application.
    reactor: Reactor<()>,
    /// The endpoints, by their number in `domain.eps`.
    eps: BTreeMap<usize, Ep>,
    numbers: HashMap<Name, usize>,
    waiting: WaitingList,
    /// Memory through which messages are copied.
    bounce: Box<[u8]>,
}

struct Ep {
    name: Name,
    /// Senders that are not in the endpoint's address vector.
    strangers: Strangers<Name>,
}

impl Domain {
    fn ep(&mut self, ep: usize) -> Result<&mut Ep> {
        self.eps.get_mut(&ep).ok_or(Error::INVAL)
    }

    /// Registers the address of an endpoint.
    fn claim_name(&mut self, ep: usize, name: &Name) -> Result {
        if self.numbers.contains_key(name) {
            return Err(Error::ADDRINUSE);
        }
        self.numbers.insert(name.clone(), ep);
        Ok(())
    }

    /// Returns the source of messages from `sender` in matching, at the endpoint `to`.
    fn source(&mut self, domain: &DomainState<Name>, to: usize, sender: &Name) -> Result<u64> {
        let state = domain.ep(to);
        let known = state.av.and_then(|av| domain.av(av).find(sender));
        let unexpected = domain.rx_queue(state.srx).unexpected_len();
        let strangers = &mut self.ep(to)?.strangers;
        Ok(known.unwrap_or_else(|| strangers.number(sender, unexpected)))
    }

    /// Delivers a message to an endpoint, or leaves it there until a receive takes it.
    fn deliver(
        &mut self,
        domain: &mut DomainState<Name>,
        op: &TxOp,
        tx: &mut Tx<'_>,
        to: usize,
    ) -> Result {
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
        let rx_queue = domain.rx_queue_mut(domain.ep(to).srx);
        if let Some(mut recv) = rx_queue.accept(&envelope) {
            copy(&tx.iov, &mut recv, &mut self.bounce);
            receive(domain, &recv, &envelope, &sender);
        } else if op.len <= SHORT && !op.flags.intersects(UNTIL_MATCHED) {
            if !rx_queue.has_room(envelope.token, envelope.len, MAX_KEPT) {
                return Err(domain.ep(op.ep()).again());
            }
            rx_queue.keep_whole(envelope, |bytes| tx.iov.copy_out(bytes));
        } else {
            envelope.note = self.waiting.add(*op, tx, to);
            rx_queue.keep(envelope, Bytes::There);
            domain.ep_mut(op.ep()).tx_pending += 1;
            return Ok(());
        }
        domain.sent(op.ep(), op);
        Ok(())
    }
}

/// Copies a message into its receive. Bytes that have no room are dropped.
fn copy(from: &IoVec, recv: &mut RecvOp, bounce: &mut [u8]) {
    let mut at = 0;
    let all = from.remaining().min(recv.len);
    while at < all {
        let mut part = from.cursor();
        part.advance(at);
        part.truncate(bounce.len().min(all - at));
        let bytes = &mut bounce[..part.remaining()];
        part.copy_to(bytes);
        recv.iov.copy_in(bytes);
        at += bytes.len();
    }
}

/// Completes a receive.
fn receive(domain: &mut DomainState<Name>, recv: &RecvOp, envelope: &Envelope, sender: &Name) {
    let sender = Sender {
        fi_addr: fi_addr_of(envelope.source),
        addr: Some(sender),
    };
    domain.received(envelope.ep, recv, envelope, &sender);
}

/// Refuses flags of capabilities that are not offered: fi_msg(3), fi_cq(3).
fn check_flags(flags: OpFlags) -> Result {
    if flags.intersects(OpFlags::FENCE | OpFlags::TRIGGER) {
        return Err(Error::BADFLAGS);
    }
    match flags.contains(OpFlags::COMMIT_COMPLETE) {
        true => Err(Error::OPNOTSUPP),
        false => Ok(()),
    }
}

impl Addressing for Domain {
    type Addr = Name;
    type Format = Format;
    type Memory = Host;
}

// Parts that the provider does not have. Their defaults return the errors of the man pages.
impl Connects for Domain {}
impl Contexts for Domain {}
impl Groups for Domain {}
impl Multicast for Domain {}
impl Atomics for Domain {}
impl Prepares for Domain {}
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
            numbers: HashMap::new(),
            waiting: WaitingList::default(),
            bounce: vec![0; BOUNCE].into(),
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> RawFd {
        self.reactor.as_raw_fd()
    }

    fn progress(&mut self, _domain: &mut DomainState<Name>) {}

    fn open_ep(&mut self, _domain: &mut DomainState<Name>, ep: usize, info: &Info) -> Result {
        info::check(info)?;
        let wanted = match &info.src_addr {
            None => None,
            Some(bytes) => Some(Name::from_bytes(bytes).ok_or(Error::INVAL)?),
        };
        let name = Name::of_endpoint(wanted);
        self.claim_name(ep, &name)?;
        log_info!(&SOURCE, Subsys::EpCtrl, "endpoint {ep} is {name}");
        let strangers = Strangers::new();
        self.eps.insert(ep, Ep { name, strangers });
        Ok(())
    }

    fn enable_ep(&mut self, _domain: &mut DomainState<Name>, _ep: usize) -> Result {
        Ok(())
    }

    /// Messages to the endpoint fail, and those from it that still wait are dropped with their operations.
    fn close_ep(&mut self, domain: &mut DomainState<Name>, ep: usize) {
        for message in self.waiting.take_of(ep) {
            if message.op.ep() != ep {
                domain.fail_tx(&message.op, Error::CONNRESET);
            } else if let Some(peer) = domain.find_ep(message.to) {
                let srx = peer.srx;
                domain.rx_queue_mut(srx).forget(ep as u64);
            }
        }
        self.eps.remove(&ep);
        self.numbers.retain(|_, number| *number != ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        let ep = self.eps.get(&ep).ok_or(Error::INVAL)?;
        Ok(ep.name.to_bytes())
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        let name = Name::from_bytes(addr).ok_or(Error::INVAL)?;
        if self.ep(ep)?.name != name {
            self.claim_name(ep, &name)?;
            let old = std::mem::replace(&mut self.ep(ep)?.name, name);
            self.numbers.remove(&old);
        }
        Ok(())
    }

    fn transmit(&mut self, domain: &mut DomainState<Name>, ep: usize, tx: &mut Tx<'_>) -> Result {
        check_flags(tx.flags)?;
        let state = domain.ep(ep);
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        let av = state.av.ok_or(Error::INVAL)?;
        let peer = domain.av(av).get(tx.dest).ok_or(Error::INVAL)?;
        domain.may_post(ep)?;
        let op = TxOp::of(ep, tx);
        match self.numbers.get(peer) {
            Some(&to) if domain.ep(to).enabled && domain.may_receive(to) => {
                self.deliver(domain, &op, tx, to)
            }
            Some(_) => Err(state.again()),
            None => {
                domain.send_failed(ep, &op, Error::CONNREFUSED);
                Ok(())
            }
        }
    }

    fn claim(&mut self, domain: &mut DomainState<Name>, claimed: Claimed) {
        let Some(message) = self.waiting.take(claimed.envelope.note) else {
            return;
        };
        let op = message.op;
        if let Some(mut recv) = claimed.recv
            && let Ok(sender) = self.ep(op.ep()).map(|ep| ep.name.clone())
        {
            match &message.payload {
                Payload::Here(iov) => copy(iov, &mut recv, &mut self.bounce),
                Payload::Copied(bytes) => {
                    recv.iov.copy_in(bytes);
                }
            }
            receive(domain, &recv, &claimed.envelope, &sender);
        }
        domain.complete_tx(&op);
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    /// Messages from a new address get its index as their source.
    fn av_inserted(&mut self, domain: &mut DomainState<Name>, av: usize, index: u64) {
        let Some(name) = domain.av(av).get(index).cloned() else {
            return;
        };
        for (&id, ep) in &mut self.eps {
            if domain.ep(id).av == Some(av)
                && let Some(number) = ep.strangers.inserted(&name)
            {
                domain.rename_source(id, number, index);
            }
        }
    }

    /// The index may be reused for another peer, so messages from the address get another source.
    fn av_removed(&mut self, domain: &mut DomainState<Name>, av: usize, index: u64, name: &Name) {
        for (&id, ep) in &mut self.eps {
            let state = domain.ep(id);
            if state.av == Some(av) {
                let unexpected = domain.rx_queue(state.srx).unexpected_len();
                let number = ep.strangers.number(name, unexpected);
                domain.forget_source(id, index, number, name);
            }
        }
    }
}

/// Completion levels that need a matching receive.
const UNTIL_MATCHED: OpFlags = flags!(OpFlags: DELIVERY_COMPLETE | MATCH_COMPLETE);
/// Longer messages are not copied before a receive takes them.
const SHORT: usize = 16 * 1024;
/// Limit on the bytes of kept messages of one receive context.
const MAX_KEPT: usize = 1 << 20;
/// Bytes that are copied at once.
const BOUNCE: usize = 64 * 1024;
