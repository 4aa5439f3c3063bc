// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! An endpoint with one message in each direction under way at most: fi_endpoint(3), fi_msg(3), fi_tagged(3), fi_cm(3).

use core::ptr;
use std::rc::Rc;
use std::time::Instant;

use super::buffer::Buffer;
use super::fabric::{self, Av, Domain, Eq};
use super::failure::{Failure, Result};
use super::info::Info;
use super::object::{Handle, check, entry};
use super::queue::Cq;
use crate::abi::*;

/// How to open an endpoint.
pub struct Plan {
    /// The longest message, in either direction.
    pub longest: usize,
    /// Send and receive tagged messages, all with this tag.
    pub tag: Option<u64>,
}

/// Fields are dropped in this order: the endpoint is closed first, then what it is bound to, then its memory.
pub struct Endpoint {
    raw: Handle<fid_ep>,
    transmit: Cq,
    receive: Cq,
    _events: Option<Rc<Eq>>,
    peers: Option<Rc<Av>>,
    outgoing: Buffer,
    incoming: Buffer,
    peer: fi_addr_t,
    tag: Option<u64>,
    inject_size: usize,
    sending: bool,
    receiving: bool,
    /// The length of a message that came and was not taken yet.
    received: Option<usize>,
}

impl Endpoint {
    /// `events` are for endpoints with connections; the others get an address vector.
    pub fn open(
        domain: &Rc<Domain>,
        info: &Info,
        events: Option<&Rc<Eq>>,
        plan: &Plan,
    ) -> Result<Endpoint> {
        let open = entry("fi_endpoint", domain.ops().endpoint)?;
        let mut ep = ptr::null_mut();
        // SAFETY: domain and entry are valid; `ep` is written on success.
        let raw = unsafe {
            let domain = domain.raw.as_ptr();
            let code = open(domain, info.as_ptr(), &raw mut ep, ptr::null_mut());
            Handle::opened("fi_endpoint", code, ep)?
        };
        let peers = match events {
            Some(_) => None,
            None => {
                let kind = info.domain().map_or(FI_AV_UNSPEC, |attr| attr.av_type);
                Some(Av::open(domain, kind)?)
            }
        };
        let endpoint = Endpoint {
            raw,
            transmit: Cq::open(domain)?,
            receive: Cq::open(domain)?,
            _events: events.cloned(),
            peers,
            outgoing: Buffer::new(domain, info, plan.longest, FI_SEND)?,
            incoming: Buffer::new(domain, info, plan.longest, FI_RECV)?,
            peer: FI_ADDR_UNSPEC,
            tag: plan.tag,
            inject_size: info.tx().map_or(0, |attr| attr.inject_size),
            sending: false,
            receiving: false,
            received: None,
        };
        endpoint.bind()?;
        Ok(endpoint)
    }

    fn bind(&self) -> Result {
        self.raw.bind(&self.transmit.raw, FI_TRANSMIT)?;
        self.raw.bind(&self.receive.raw, FI_RECV)?;
        if let Some(events) = &self._events {
            self.raw.bind(&events.raw, 0)?;
        }
        if let Some(peers) = &self.peers {
            self.raw.bind(&peers.raw, 0)?;
        }
        self.raw.control(FI_ENABLE, "fi_enable")
    }

    pub fn address(&self) -> Result<Vec<u8>> {
        fabric::address(self.cm(), self.raw.fid())
    }

    /// Sends go to this address from now on.
    pub fn set_peer(&mut self, address: &[u8]) -> Result {
        if let Some(peers) = &self.peers {
            self.peer = peers.insert(address)?;
        }
        Ok(())
    }

    /// Starts to connect; an event says when it is done.
    pub fn connect(&self, address: &[u8]) -> Result {
        let connect = entry("fi_connect", self.cm().connect)?;
        // SAFETY: the endpoint is open, the address has the format that the entry says; no private data.
        let code = unsafe { connect(self.raw.as_ptr(), address.as_ptr().cast(), ptr::null(), 0) };
        check("fi_connect", code)
    }

    /// Accepts the connection request that this endpoint was opened for; an event says when it is done.
    pub fn accept(&self) -> Result {
        let accept = entry("fi_accept", self.cm().accept)?;
        // SAFETY: the endpoint is open; no private data.
        check("fi_accept", unsafe {
            accept(self.raw.as_ptr(), ptr::null(), 0)
        })
    }

    /// The message that the next `send` sends, to be filled.
    pub fn outgoing(&mut self) -> &mut [u8] {
        assert!(!self.sending, "the library still reads it");
        // SAFETY: no send is under way.
        unsafe { self.outgoing.message() }
    }

    /// The message that came last.
    pub fn incoming(&mut self) -> &[u8] {
        assert!(!self.receiving, "the library may write to it");
        // SAFETY: no receive is under way.
        unsafe { self.incoming.message() }
    }

    /// Posts the send of `length` bytes, unless the provider wants to be asked again.
    pub fn send(&mut self, length: usize) -> Result<bool> {
        assert!(!self.sending && length <= self.outgoing().len());
        let length = length + self.outgoing.lengths().1;
        let inject = length <= self.inject_size;
        let code = match self.tag {
            Some(tag) => self.post_tagged_send(length, tag, inject)?,
            None => self.post_send(length, inject)?,
        };
        let posted = posted("posting a send", code)?;
        self.sending = posted && !inject;
        Ok(posted)
    }

    fn post_send(&self, length: usize, inject: bool) -> Result<isize> {
        let ops = self.msg();
        let (ep, data, peer) = (self.raw.as_ptr(), self.outgoing.start(), self.peer);
        let (desc, context) = (self.outgoing.descriptor(), self.outgoing.context());
        if inject {
            let inject = entry("fi_inject", ops.inject)?;
            // SAFETY: the endpoint is open, and the buffer as long.
            return Ok(unsafe { inject(ep, data, length, peer) });
        }
        let send = entry("fi_send", ops.send)?;
        // SAFETY: the endpoint is open; buffer and context stay untouched until the completion, see `outgoing`.
        Ok(unsafe { send(ep, data, length, desc, peer, context) })
    }

    fn post_tagged_send(&self, length: usize, tag: u64, inject: bool) -> Result<isize> {
        let ops = self.tagged();
        let (ep, data, peer) = (self.raw.as_ptr(), self.outgoing.start(), self.peer);
        let (desc, context) = (self.outgoing.descriptor(), self.outgoing.context());
        if inject {
            let inject = entry("fi_tinject", ops.inject)?;
            // SAFETY: as in `post_send`.
            return Ok(unsafe { inject(ep, data, length, peer, tag) });
        }
        let send = entry("fi_tsend", ops.send)?;
        // SAFETY: as in `post_send`.
        Ok(unsafe { send(ep, data, length, desc, peer, tag, context) })
    }

    /// Posts a receive, unless the provider wants to be asked again.
    pub fn receive(&mut self) -> Result<bool> {
        assert!(!self.receiving && self.received.is_none());
        let (ep, data) = (self.raw.as_ptr(), self.incoming.start());
        let (length, _) = self.incoming.lengths();
        let (desc, context) = (self.incoming.descriptor(), self.incoming.context());
        let from = FI_ADDR_UNSPEC;
        let code = match self.tag {
            Some(tag) => {
                let receive = entry("fi_trecv", self.tagged().recv)?;
                // SAFETY: the endpoint is open; buffer and context stay untouched until the completion, see `incoming`.
                unsafe { receive(ep, data, length, desc, from, tag, 0, context) }
            }
            None => {
                let receive = entry("fi_recv", self.msg().recv)?;
                // SAFETY: as above.
                unsafe { receive(ep, data, length, desc, from, context) }
            }
        };
        self.receiving = posted("posting a receive", code)?;
        Ok(self.receiving)
    }

    /// Calls `post` until the provider takes the operation.
    pub fn post_by(
        &mut self,
        deadline: Instant,
        post: impl Fn(&mut Endpoint) -> Result<bool>,
    ) -> Result {
        while !post(self)? {
            self.progress_by(deadline, "the provider takes no operation")?;
        }
        Ok(())
    }

    /// As `progress`; a failure if that time is over.
    pub fn progress_by(&mut self, deadline: Instant, otherwise: &str) -> Result {
        match Instant::now() > deadline {
            true => Err(Failure::new(otherwise, FI_ETIMEDOUT)),
            false => self.progress(),
        }
    }

    /// Reads what has completed.
    pub fn progress(&mut self) -> Result {
        if self
            .receive
            .read()?
            .map(|done| self.arrived(done.len))
            .is_some()
        {
            return Ok(());
        }
        if self.transmit.read()?.is_some() {
            self.sending = false;
        }
        Ok(())
    }

    fn arrived(&mut self, length: usize) {
        self.receiving = false;
        self.received = Some(length.saturating_sub(self.incoming.lengths().1));
    }

    /// Is no send under way?
    pub fn sent(&self) -> bool {
        !self.sending
    }

    /// The length of the message that came, once.
    pub fn take_received(&mut self) -> Option<usize> {
        self.received.take()
    }

    /// Is there a message for `take_received`?
    pub fn has_received(&self) -> bool {
        self.received.is_some()
    }

    fn cm(&self) -> &fi_ops_cm {
        // SAFETY: an open endpoint has its tables.
        unsafe { &*(*self.raw.as_ptr()).cm }
    }

    fn msg(&self) -> &fi_ops_msg {
        // SAFETY: as in `cm`.
        unsafe { &*(*self.raw.as_ptr()).msg }
    }

    fn tagged(&self) -> &fi_ops_tagged {
        // SAFETY: as in `cm`.
        unsafe { &*(*self.raw.as_ptr()).tagged }
    }
}

/// Did the provider take the operation? Being asked again is no failure.
fn posted(doing: &str, code: isize) -> Result<bool> {
    match code {
        0 => Ok(true),
        code if code == -(FI_EAGAIN as isize) => Ok(false),
        code => Err(Failure::new(doing, code as i32)),
    }
}
