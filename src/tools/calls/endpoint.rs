// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! An endpoint that keeps as many messages in flight in each direction as its plan has: fi_endpoint(3), fi_msg(3),
//! fi_tagged(3), fi_cm(3). Accesses to the peer's memory are in `remote`.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use super::failure::{Failure, Result};
use abi::*;
use base::Error;
use client::{Av, AvAttr, Buffer, Completion, Cq, CqAttr, Domain, Ep, Eq, Info};

/// Parameters of an endpoint.
pub struct Plan {
    /// The longest message, in either direction.
    pub longest: usize,
    /// Send and receive tagged messages, all with this tag.
    pub tag: Option<u64>,
    /// Greatest number of outstanding operations, at least 1.
    pub window: usize,
    /// Access rights of the buffers that operations send from.
    pub access: u64,
    /// Send a message with inject if it is short enough.
    pub inject: bool,
}

pub struct Endpoint {
    pub(super) raw: Arc<Ep>,
    transmit: Arc<Cq>,
    receive: Arc<Cq>,
    peers: Option<Arc<Av>>,
    /// Buffers that the library does not use now.
    pub(super) outgoing: Vec<Buffer>,
    window: usize,
    /// The last message. `None` while the library uses the buffer.
    incoming: Option<Buffer>,
    /// Receive buffers that are posted in addition to `incoming`.
    spare: Vec<Buffer>,
    pub(super) peer: fi_addr_t,
    tag: Option<u64>,
    inject_size: usize,
    /// The length of a message that has arrived and was not taken yet.
    received: Option<usize>,
    /// Completions of the peer's writes with data.
    pub(super) announced: u64,
}

impl Endpoint {
    /// Opens an endpoint. `events` is for endpoints with connections; the others get an address vector.
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
        // Keys, in case the application has to choose them: even ones for send buffers, odd ones for receive buffers.
        let buffer = |access: u64, number: usize| {
            let key = FIRST_KEY + 2 * number as u64 + u64::from(access == FI_RECV);
            Buffer::new(domain, info, plan.longest, access, key).map_err(Failure::by("fi_mr_reg"))
        };
        let buffers = |access| {
            let all = (0..plan.window).map(|number| buffer(access, number));
            all.collect::<Result<Vec<Buffer>>>()
        };
        let mut spare = buffers(FI_RECV)?;
        let endpoint = Endpoint {
            raw,
            transmit: queue(domain)?,
            receive: queue(domain)?,
            peers,
            outgoing: buffers(plan.access)?,
            window: plan.window,
            incoming: spare.pop(),
            spare,
            peer: FI_ADDR_UNSPEC,
            tag: plan.tag,
            inject_size: match plan.inject {
                true => info.tx().map_or(0, |attr| attr.inject_size),
                false => 0,
            },
            received: None,
            announced: 0,
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

    /// Makes this address the target of all sends from now on.
    pub fn set_peer(&mut self, address: &[u8]) -> Result {
        if let Some(peers) = &self.peers {
            self.peer = peers.insert(address).map_err(Failure::by("fi_av_insert"))?;
        }
        Ok(())
    }

    /// Starts to connect. An event reports the result.
    pub fn connect(&self, address: &[u8]) -> Result {
        let connecting = self.raw.connect(address, &[]);
        connecting.map_err(Failure::by("fi_connect"))
    }

    /// Accepts the connection request that this endpoint was opened for. An event reports the result.
    pub fn accept(&self) -> Result {
        self.raw.accept(&[]).map_err(Failure::by("fi_accept"))
    }

    /// The buffer of the next `send`, to be filled by the caller.
    pub fn outgoing(&mut self) -> &mut [u8] {
        let buffer = self.outgoing.last_mut();
        buffer.expect("the library still reads it").bytes_mut()
    }

    /// The last message.
    pub fn incoming(&self) -> &[u8] {
        let buffer = self.incoming.as_ref();
        buffer.expect("the library may write to it").bytes()
    }

    /// Posts a send of `length` bytes. Returns false if the provider returned -FI_EAGAIN.
    pub fn send(&mut self, length: usize) -> Result<bool> {
        const DOING: &str = "posting a send";
        let buffer = self.outgoing.pop().expect("a buffer is free");
        if length + buffer.prefix() <= self.inject_size {
            let sent = match self.tag {
                Some(tag) => self.raw.tinject_buffer(&buffer, length, self.peer, tag),
                None => self.raw.inject_buffer(&buffer, length, self.peer),
            };
            self.outgoing.push(buffer);
            return posted(DOING, sent);
        }
        let sent = match self.tag {
            Some(tag) => self.raw.tsend_buffer(buffer, length, self.peer, tag),
            None => self.raw.send_buffer(buffer, length, self.peer),
        };
        posted(DOING, back(sent, |buffer| self.outgoing.push(buffer)))
    }

    /// Posts a receive. Returns false if the provider returned -FI_EAGAIN.
    pub fn receive(&mut self) -> Result<bool> {
        assert!(self.received.is_none());
        if let Some(spare) = self.spare.pop() {
            let first = self.incoming.replace(spare);
            if !self.receive_one()? {
                self.spare.extend(self.incoming.take());
                self.incoming = first;
                return Ok(false);
            }
            self.incoming = first;
            return self.receive();
        }
        self.receive_one()
    }

    fn receive_one(&mut self) -> Result<bool> {
        let buffer = self.incoming.take().expect("a buffer is free");
        let from = FI_ADDR_UNSPEC;
        let receiving = match self.tag {
            Some(tag) => self.raw.trecv_buffer(buffer, from, tag, 0),
            None => self.raw.recv_buffer(buffer, from),
        };
        posted(
            "posting a receive",
            back(receiving, |buffer| self.incoming = Some(buffer)),
        )
    }

    /// Calls `post` until the provider accepts the operation.
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

    /// Does the same as `progress`, but fails after `deadline`.
    pub fn progress_by(&mut self, deadline: Instant, otherwise: &str) -> Result {
        match Instant::now() > deadline {
            true => Err(Failure::new(otherwise, FI_ETIMEDOUT)),
            false => self.progress(),
        }
    }

    /// Reads completions.
    pub fn progress(&mut self) -> Result {
        // No further message is read until the caller has taken the last one.
        let come = match self.received {
            None => read(&self.receive)?,
            Some(_) => None,
        };
        if let Some(done) = come {
            if done.flags & FI_REMOTE_CQ_DATA != 0 && done.flags & FI_RMA != 0 {
                self.announced += 1;
                return Ok(());
            }
            let size = done.size();
            self.incoming = self.raw.reclaim(done.context);
            let prefix = self.incoming.as_ref().map_or(0, Buffer::prefix);
            self.received = Some(size.saturating_sub(prefix));
        } else if let Some(done) = read(&self.transmit)? {
            self.outgoing.extend(self.raw.reclaim(done.context));
        }
        Ok(())
    }

    /// Returns true if no send is outstanding.
    pub fn sent(&self) -> bool {
        self.outgoing.len() == self.window
    }

    /// Returns true if there is a buffer for one more operation.
    pub fn has_room(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns the length of the message that has arrived, once.
    pub fn take_received(&mut self) -> Option<usize> {
        self.received.take()
    }

    /// Returns true if there is a message for `take_received`.
    pub fn has_received(&self) -> bool {
        self.received.is_some()
    }
}

/// Smaller keys are used for other regions.
const FIRST_KEY: u64 = 16;

fn queue(domain: &Arc<Domain>) -> Result<Arc<Cq>> {
    let attr = CqAttr {
        format: FI_CQ_FORMAT_MSG,
        wait_obj: FI_WAIT_NONE,
        ..CqAttr::default()
    };
    Cq::open(domain, &attr).map_err(Failure::by("fi_cq_open"))
}

/// Reads the next completion, if there is one.
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

/// If the operation was not accepted, returns its buffer to `keep`.
pub(super) fn back(
    posted: core::result::Result<(), (Buffer, Error)>,
    keep: impl FnOnce(Buffer),
) -> core::result::Result<(), Error> {
    posted.map_err(|(buffer, error)| {
        keep(buffer);
        error
    })
}

/// Returns true if the provider accepted the operation, and false for -FI_EAGAIN.
pub(super) fn posted(doing: &str, posted: core::result::Result<(), Error>) -> Result<bool> {
    match posted {
        Ok(()) => Ok(true),
        Err(Error::AGAIN) => Ok(false),
        Err(error) => Err(Failure::of(doing, error)),
    }
}
