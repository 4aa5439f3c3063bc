// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport of a domain: what the engine calls.

use core::fmt;
use std::sync::Arc;

use super::SOURCE;
use super::moved::Moved;
use abi::*;
use base::info::Info;
use base::log::Source;
use base::{Error, OpFlags, Result};
use engine::clock::Monotonic;
use engine::coll::Token;
use engine::coll::messages::{self, Carries, Messages, Target};
use engine::domain_state::{DomainState, TxOp};
use engine::peer::post::{Posts, post};
use engine::reactor::Reactor;
use engine::transport::*;
use object::AddrForm;
use object::ops::atomic::Atomic;
use object::ops::transfer::{Tx, What};
use object::peer::PeerTransfer;
use sync::Serialized;

pub type State = DomainState<Addr>;

/// An address: the index in the owner's address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addr(pub u64);

impl Address for Addr {
    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        bytes
            .first_chunk()
            .map(|&word| Addr(u64::from_ne_bytes(word)))
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_ne_bytes().to_vec()
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address {}", self.0)
    }
}

/// Programs insert addresses into the owner's vector, so there is no text form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Format;

impl AddressFormat for Format {
    type Addr = Addr;

    fn form(&self) -> AddrForm {
        AddrForm::Socket
    }
    fn text(&self, _bytes: &[u8]) -> String {
        String::new()
    }
    fn parse(&self, _text: &str) -> Option<Addr> {
        None
    }
    fn resolve(&self, _node: &str, _service: &str) -> Result<Addr> {
        Err(Error::NODATA)
    }
}

pub struct Offload {
    /// The engine sleeps on it; nothing makes it readable.
    reactor: Reactor<()>,
    messages: Messages<Addr>,
    /// By endpoint.
    pub(super) eps: Vec<Option<Moved>>,
}

impl Offload {
    pub(super) fn moved(&mut self, ep: usize) -> Option<&mut Moved> {
        self.eps.get_mut(ep)?.as_mut()
    }
}

impl Addressing for Offload {
    type Addr = Addr;
    type Format = Format;
}

impl Connects for Offload {}
impl Contexts for Offload {}
impl Multicast for Offload {}
impl Atomics for Offload {}
impl Prepares for Offload {}
impl Queues for Offload {
    const COUNTS: bool = false;
}
impl Batches for Offload {}
impl Drains for Offload {}

impl Groups for Offload {
    const COLLECTIVES: bool = true;
    const NAMELESS: bool = true;

    fn address_of(index: u64) -> Option<Addr> {
        (index < FI_ADDR_NOTAVAIL).then_some(Addr(index))
    }

    fn index_of(addr: &Addr) -> Option<u64> {
        Some(addr.0)
    }

    fn begin_join(
        &mut self,
        domain: &mut State,
        ep: usize,
        number: u64,
        alone: bool,
        token: Token,
    ) {
        messages::join(self, domain, ep, (number, alone), token);
    }

    fn groups_moved(&mut self, domain: &mut State, _ep: usize) {
        messages::poll(self, domain);
    }
}

/// Marks the tags of collectives. The other bits are zero, and ignored.
pub(super) const TAG: u64 = 1 << 63;

impl Carries for Offload {
    const TARGET: Target = Target {
        what: What::Tagged,
        tag: TAG,
        context: 1,
    };

    fn messages(&mut self) -> &mut Messages<Addr> {
        &mut self.messages
    }

    fn packet(&self) -> usize {
        base::Block::SIZE
    }
}

impl Posts for Offload {
    const LIMITED: OpFlags = OpFlags::all();
    const MOST_SEGMENTS: usize = 0;

    fn session_for(&mut self, _: &mut State, _port: usize, dest: u64) -> Result<usize> {
        usize::try_from(dest).map_err(|_| Error::INVAL)
    }

    fn start(
        &mut self,
        domain: &mut State,
        port: usize,
        dest: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        _context: u8,
    ) -> Result {
        let moved = self.moved(port).ok_or(Error::INVAL)?;
        moved.send(domain, port, dest as u64, tx, op)
    }

    fn start_atomic(
        &mut self,
        _: &mut State,
        _port: usize,
        _session: usize,
        _: &mut Atomic<'_>,
        _: TxOp,
    ) -> Result {
        Err(Error::OPNOTSUPP)
    }
}

impl Transport for Offload {
    type Fabric = ();

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const IS_PEER: bool = true;

    fn offers_auto_progress((): &()) -> bool {
        // Threads of the library do not call owners.
        false
    }

    fn open((): &(), _info: &Info, _: Serialized) -> Result<Offload> {
        Ok(Offload {
            reactor: Reactor::new(Monotonic)?,
            messages: Messages::default(),
            eps: Vec::new(),
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }

    fn progress(&mut self, domain: &mut State) {
        messages::poll(self, domain);
    }

    fn open_ep(&mut self, _domain: &mut State, _ep: usize, info: &Info) -> Result {
        match fi_ep_type(info.ep.ep_type) {
            FI_EP_RDM => Ok(()),
            FI_EP_MSG | FI_EP_DGRAM => Err(Error::NOSYS),
            _ => Err(Error::INVAL),
        }
    }

    fn lend_ep(&mut self, ep: usize, owner: &Arc<PeerTransfer>) {
        if self.eps.len() <= ep {
            self.eps.resize_with(ep + 1, || None);
        }
        self.eps[ep] = Some(Moved::new(owner.clone()));
    }

    fn transferred(
        &mut self,
        domain: &mut State,
        ep: usize,
        number: usize,
        result: Result<(usize, u64)>,
    ) {
        if let Some(moved) = self.moved(ep) {
            moved.ended(domain, ep, number, result);
        }
    }

    fn enable_ep(&mut self, domain: &mut State, ep: usize) -> Result {
        messages::open(self, domain, ep, KEPT)?;
        let moved = self.moved(ep).ok_or(Error::INVAL)?;
        moved.receive(domain, ep);
        Ok(())
    }

    fn close_ep(&mut self, domain: &mut State, ep: usize) {
        domain.peers.forget_transfers(ep);
        if let Some(place) = self.eps.get_mut(ep) {
            *place = None;
        }
        self.messages.abandon(domain, ep);
    }

    fn name(&self, _ep: usize) -> Result<Vec<u8>> {
        Err(Error::NOSYS)
    }

    fn set_name(&mut self, _ep: usize, _addr: &[u8]) -> Result {
        Err(Error::NOSYS)
    }

    fn transmit(&mut self, domain: &mut State, ep: usize, tx: &mut Tx<'_>) -> Result {
        post(self, domain, ep, tx)
    }
}

/// Bytes of frames of collectives that have not begun here, at most.
const KEPT: usize = 16 << 20;
