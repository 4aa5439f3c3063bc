// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! An endpoint with one message in each direction under way at most: fi_endpoint(3), fi_msg(3), fi_tagged(3), fi_cm(3).
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use super::failure::{Failure, Result};
use crate::abi::*;
use crate::base::Error;
use crate::ffi::client::{Av, AvAttr, Buffer, Completion, Cq, CqAttr, Domain, Ep, Eq, Info};

/// How to open an endpoint.
pub struct Plan {
    /// The longest message, in either direction.
    pub longest: usize,
    /// Send and receive tagged messages, all with this tag.
    pub tag: Option<u64>,
}

pub struct Endpoint {
    raw: Arc<Ep>,
    transmit: Arc<Cq>,
    receive: Arc<Cq>,
    peers: Option<Arc<Av>>,
    /// Not here while the library has it.
    outgoing: Option<Buffer>,
    incoming: Option<Buffer>,
    peer: fi_addr_t,
    tag: Option<u64>,
    inject_size: usize,
    /// The length of a message that came and was not taken yet.
    received: Option<usize>,
}

impl Endpoint {
    /// `events` are for endpoints with connections; the others get an address vector.
    pub fn open(
        domain: &Arc<Domain>,
        info: Info<'_>,
        events: Option<&Arc<Eq>>,
        plan: &Plan,
    ) -> Result<Endpoint> {
        let raw = Ep::open(domain, info).map_err(Failure::by("fi_endpoint"))?;
        let peers = match events {
            Some(_) => None,
            None => {
                let attr = AvAttr {
                    av_type: info.domain().map_or(FI_AV_UNSPEC, |attr| attr.av_type),
                    count: 1,
                    ..AvAttr::default()
                };
                Some(Av::open(domain, &attr).map_err(Failure::by("fi_av_open"))?)
            }
        };
        // The access rights serve as key, since every buffer of a program has others.
        let buffer = |access| {
            Buffer::new(domain, info, plan.longest, access, access)
                .map_err(Failure::by("fi_mr_reg"))
        };
        let endpoint = Endpoint {
            raw,
            transmit: queue(domain)?,
            receive: queue(domain)?,
            peers,
            outgoing: Some(buffer(FI_SEND)?),
            incoming: Some(buffer(FI_RECV)?),
            peer: FI_ADDR_UNSPEC,
            tag: plan.tag,
            inject_size: info.tx().map_or(0, |attr| attr.inject_size),
            received: None,
        };
        endpoint.bind(events)?;
        Ok(endpoint)
    }

    fn bind(&self, events: Option<&Arc<Eq>>) -> Result {
        const TO_CQ: &str = "binding endpoint to completion queue";
        let ep = &self.raw;
        ep.bind(&self.transmit, FI_TRANSMIT)
            .map_err(Failure::by(TO_CQ))?;
        ep.bind(&self.receive, FI_RECV)
            .map_err(Failure::by(TO_CQ))?;
        if let Some(events) = events {
            ep.bind(events, 0)
                .map_err(Failure::by("binding endpoint to event queue"))?;
        }
        if let Some(peers) = &self.peers {
            ep.bind(peers, 0)
                .map_err(Failure::by("binding endpoint to address vector"))?;
        }
        ep.enable().map_err(Failure::by("fi_enable"))
    }

    pub fn address(&self) -> Result<Vec<u8>> {
        self.raw.name().map_err(Failure::by("fi_getname"))
    }

    /// Sends go to this address from now on.
    pub fn set_peer(&mut self, address: &[u8]) -> Result {
        if let Some(peers) = &self.peers {
            self.peer = peers.insert(address).map_err(Failure::by("fi_av_insert"))?;
        }
        Ok(())
    }

    /// Starts to connect; an event says when it is done.
    pub fn connect(&self, address: &[u8]) -> Result {
        let connecting = self.raw.connect(address, &[]);
        connecting.map_err(Failure::by("fi_connect"))
    }

    /// Accepts the connection request that this endpoint was opened for; an event says when it is done.
    pub fn accept(&self) -> Result {
        self.raw.accept(&[]).map_err(Failure::by("fi_accept"))
    }

    /// The message that the next `send` sends, to be filled.
    pub fn outgoing(&mut self) -> &mut [u8] {
        let buffer = self.outgoing.as_mut();
        buffer.expect("the library still reads it").bytes_mut()
    }

    /// The message that came last.
    pub fn incoming(&self) -> &[u8] {
        let buffer = self.incoming.as_ref();
        buffer.expect("the library may write to it").bytes()
    }

    /// Posts the send of `length` bytes, unless the provider wants to be asked again.
    pub fn send(&mut self, length: usize) -> Result<bool> {
        const DOING: &str = "posting a send";
        let buffer = self.outgoing.take().expect("no send is under way");
        if length + buffer.prefix() <= self.inject_size {
            let sent = match self.tag {
                Some(tag) => self.raw.tinject_buffer(&buffer, length, self.peer, tag),
                None => self.raw.inject_buffer(&buffer, length, self.peer),
            };
            self.outgoing = Some(buffer);
            return posted(DOING, sent);
        }
        let sent = match self.tag {
            Some(tag) => self.raw.tsend_buffer(buffer, length, self.peer, tag),
            None => self.raw.send_buffer(buffer, length, self.peer),
        };
        posted(DOING, back(&mut self.outgoing, sent))
    }

    /// Posts a receive, unless the provider wants to be asked again.
    pub fn receive(&mut self) -> Result<bool> {
        assert!(self.received.is_none());
        let buffer = self.incoming.take().expect("no receive is under way");
        let from = FI_ADDR_UNSPEC;
        let receiving = match self.tag {
            Some(tag) => self.raw.trecv_buffer(buffer, from, tag, 0),
            None => self.raw.recv_buffer(buffer, from),
        };
        posted("posting a receive", back(&mut self.incoming, receiving))
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
        if let Some(done) = read(&self.receive)? {
            self.incoming = self.raw.reclaim(done.context);
            let prefix = self.incoming.as_ref().map_or(0, Buffer::prefix);
            self.received = Some(done.len.saturating_sub(prefix));
        } else if let Some(done) = read(&self.transmit)? {
            self.outgoing = self.raw.reclaim(done.context);
        }
        Ok(())
    }

    /// Is no send under way?
    pub fn sent(&self) -> bool {
        self.outgoing.is_some()
    }

    /// The length of the message that came, once.
    pub fn take_received(&mut self) -> Option<usize> {
        self.received.take()
    }

    /// Is there a message for `take_received`?
    pub fn has_received(&self) -> bool {
        self.received.is_some()
    }
}

fn queue(domain: &Arc<Domain>) -> Result<Arc<Cq>> {
    let attr = CqAttr {
        format: FI_CQ_FORMAT_MSG,
        wait_obj: FI_WAIT_NONE,
        ..CqAttr::default()
    };
    Cq::open(domain, &attr).map_err(Failure::by("fi_cq_open"))
}

/// The next completion, if there is one.
fn read(cq: &Cq) -> Result<Option<Completion>> {
    let mut done = [Completion::default()];
    match cq.read(&mut done) {
        Ok(0) | Err(Error::AGAIN) => Ok(None),
        Ok(_) => Ok(done.into_iter().next()),
        Err(Error::AVAIL) => Err(match cq.readerr() {
            Ok(error) => {
                let doing = match error.flags & FI_RECV {
                    0 => "sending",
                    _ => "receiving",
                };
                Failure::of(doing, error.error).or_words(error.words)
            }
            Err(error) => Failure::of("fi_cq_readerr", error),
        }),
        Err(error) => Err(Failure::of("fi_cq_read", error)),
    }
}

/// An operation that was not taken gives its buffer back.
fn back(
    place: &mut Option<Buffer>,
    posted: core::result::Result<(), (Buffer, Error)>,
) -> core::result::Result<(), Error> {
    posted.map_err(|(buffer, error)| {
        *place = Some(buffer);
        error
    })
}

/// Did the provider take the operation? Being asked again is no failure.
fn posted(doing: &str, posted: core::result::Result<(), Error>) -> Result<bool> {
    match posted {
        Ok(()) => Ok(true),
        Err(Error::AGAIN) => Ok(false),
        Err(error) => Err(Failure::of(doing, error)),
    }
}
