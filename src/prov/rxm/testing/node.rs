// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! An endpoint with its sessions, queue and memory, and an application that records its posted operations. It does what
//! the domain does with its events, over a wire that has no provider below.

use core::time::Duration;
use std::net::IpAddr;
use std::time::Instant;

use slab::Slab;

use super::wire::TestWire;
use crate::rxm::proto::{FlowControl, Reason, Request, reject};
use crate::rxm::session::{Common, Cx, Ending, Place, Session, Settings, State, is_silence};
use crate::rxm::sessions::{Reply, Sessions};
use crate::rxm::state::StateOf;
use abi::*;
use base::flags::flags;
use base::iovec::lent::TestMemory;
use base::{Access, Caps, Error, OpFlags, Result};
use engine::address::ip::Addr;
use engine::av::AvTable;
use engine::domain_state::TxOp;
use engine::peer::retry::Jitter;
use engine::peer::stall;
use engine::srx::Claimed;
use engine::testing::{Completion, read_queue};
use object::ops::transfer::{Context, Rx, Tx, What};

pub struct Posted<T> {
    pub memory: TestMemory,
    pub what: T,
}

/// `T`: data of the test about an operation.
pub struct Node<T> {
    pub domain: StateOf,
    pub sessions: Sessions,
    pub wire: TestWire,
    pub ep: usize,
    pub cq: usize,
    pub av: usize,
    pub life: u64,
    /// Posted operations by context.
    pub posted: Slab<Posted<T>>,
    /// Memory that peers read, write and operate on.
    pub memory: TestMemory,
}

/// The answer to a request to connect.
pub enum Answer {
    Ignored,
    Refused(Vec<u8>),
    Accepted(Place, Vec<u8>),
}

pub const KEY: u64 = 7;
const CAPS: Caps = flags!(Caps:
    MSG | TAGGED | DIRECTED_RECV | RMA | ATOMIC | SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE
);

pub fn common_of(settings: Settings, pid: u32) -> Common {
    let clock = stall::Clock::new(Duration::ZERO);
    Common::new(settings, clock, pid, Jitter::of_seed(pid.into()))
}

/// Returns the address of the endpoint at a place.
pub fn addr_of(place: usize) -> Addr {
    let bytes = (FIRST_ADDRESS + place as u32).to_be_bytes();
    Addr::from((bytes, 1000))
}

/// Returns the place of the endpoint with this address.
pub fn place_of(addr: &Addr) -> Option<usize> {
    let IpAddr::V4(ip) = addr.ip() else {
        return None;
    };
    Some(ip.to_bits().checked_sub(FIRST_ADDRESS)? as usize)
}

/// 10.0.0.1
const FIRST_ADDRESS: u32 = 0x0a00_0001;

/// Completion queue entries of an endpoint in tests. Few, so that the queue is often full.
const CQ_SIZE: usize = 64;

impl<T> Node<T> {
    pub fn new(
        place: usize,
        life: u64,
        settings: Settings,
        wire: TestWire,
        size: usize,
    ) -> Node<T> {
        let memory = TestMemory::new(vec![0; size]);
        Node::with_queues(place, life, settings, wire, memory, (32, CQ_SIZE))
    }

    /// Returns an endpoint that may have this many operations in flight, and whose queue has this many entries.
    pub fn with_queues(
        place: usize,
        life: u64,
        settings: Settings,
        wire: TestWire,
        memory: TestMemory,
        (tx_size, cq_size): (usize, usize),
    ) -> Node<T> {
        let (mut domain, cq, ep) = engine::testing::domain_with_queue(CAPS, tx_size, cq_size);
        let segments = vec![memory.registered()];
        domain
            .mrs
            .register(segments, Access::REMOTE, 0, KEY, 0)
            .unwrap();
        let av = domain.avs.insert(AvTable::new());
        domain.eps[ep].av = Some(av);
        let pid = (place as u32 + 1) << 12 | life as u32;
        let mut sessions = Sessions::new(common_of(settings, pid));
        sessions.add_port(ep);
        sessions.listen(ep, Some(addr_of(place)));
        Node {
            domain,
            sessions,
            wire,
            ep,
            cq,
            av,
            life,
            posted: Slab::new(),
            memory,
        }
    }

    /// Inserts the address of a peer into the vector. Returns its index.
    pub fn insert(&mut self, peer: Addr) -> u64 {
        let (index, is_new) = self.domain.avs[self.av].insert(peer);
        if is_new && !self.domain.address_inserted(self.av, index).is_empty() {
            self.sessions
                .learn_address(&mut self.domain, self.ep, index);
        }
        index
    }

    pub fn with<R>(
        &mut self,
        id: usize,
        call: impl FnOnce(&mut Session, &mut Cx<'_, TestWire>) -> R,
    ) -> Option<R> {
        self.sessions
            .with(&mut self.domain, &mut self.wire, id, call)
    }

    /// Returns the session of a destination, and connects if it is not up.
    pub fn reach(&mut self, now: Instant, dest: u64) -> Result<usize> {
        let id = self.sessions.find_peer(&mut self.domain, self.ep, dest)?;
        let peer = *self.sessions.get(id).unwrap().link().peer();
        if let Some(error) = self.sessions.take_error(self.ep, &peer, now) {
            return Err(error);
        }
        self.with(id, |session, cx| session.want(cx, now));
        match self.sessions.is_live(id) {
            true => Ok(id),
            false => {
                let error = self.sessions.take_error(self.ep, &peer, now);
                Err(error.unwrap_or(Error::AGAIN))
            }
        }
    }

    /// Returns the session of a destination, if it is up; otherwise connects and returns the reason.
    pub fn approach(&mut self, now: Instant, dest: u64) -> Result<usize> {
        if let Some(id) = self.sessions.usable(self.ep, dest) {
            return Ok(id);
        }
        let id = self.reach(now, dest)?;
        self.with(id, |session, _| session.refuse());
        Err(Error::AGAIN)
    }

    pub fn op(&self, what: What, flags: OpFlags, context: usize, len: usize) -> TxOp {
        TxOp {
            since: 0,
            what,
            ep: self.ep as u32,
            flags,
            context,
            len,
        }
    }

    /// Posts the operation `tx` on `memory` to a session. Returns its context, or the error and the memory.
    pub fn post(
        &mut self,
        id: usize,
        tx: &mut Tx<'_>,
        memory: TestMemory,
        what: T,
    ) -> core::result::Result<usize, (Error, TestMemory)> {
        let len = memory.len();
        let context = self.posted.insert(Posted { memory, what });
        tx.context = Context::of_test(context);
        let op = self.op(tx.what, tx.flags, context, len);
        match self.with(id, |session, cx| session.post(cx, tx, op, 0)) {
            Some(Ok(())) => Ok(context),
            Some(Err(error)) => Err((error, self.posted.remove(context).memory)),
            None => Err((Error::AGAIN, self.posted.remove(context).memory)),
        }
    }

    pub fn receive(&mut self, memory: TestMemory, what: T, src: u64) {
        self.receive_kind(What::Msg, memory, what, src);
    }

    /// Posts a receive for messages, or for tagged messages with any tag.
    pub fn receive_kind(&mut self, kind: What, memory: TestMemory, what: T, src: u64) {
        let iov = memory.iov(0, memory.len());
        let context = self.posted.insert(Posted { memory, what });
        let mut rx = Rx {
            what: kind,
            iov,
            flags: OpFlags::COMPLETION,
            src,
            context: Context::of_test(context),
            tag: 0,
            ignore: u64::MAX,
        };
        let mut claims: Vec<Claimed> = Vec::new();
        let source = |_: &_| FI_ADDR_NOTAVAIL;
        self.domain
            .post_receive(self.ep, &mut rx, source, |_, claimed| claims.push(claimed))
            .unwrap();
        for claimed in claims {
            self.sessions
                .claimed(&mut self.domain, &mut self.wire, claimed);
        }
    }

    /// Handles a request to connect.
    pub fn requested(&mut self, from: Addr, data: &[u8]) -> Answer {
        let (peer, request) = match self.sessions.check_request(Some(from), data) {
            Ok(checked) => checked,
            Err(_) => return Answer::Refused(reject(Reason::Refused).to_vec()),
        };
        let reply = self
            .sessions
            .requested(&mut self.domain, self.ep, (peer, None), &request);
        match reply {
            Reply::Ignore => Answer::Ignored,
            Reply::Reject => Answer::Refused(reject(Reason::Connected).to_vec()),
            Reply::Accept(id) => self.accept(id, &request),
            Reply::Replace(id) => {
                self.with(id, |session, cx| {
                    session.lost(cx, Error::CONNRESET, &"has begun anew")
                });
                let id = self
                    .sessions
                    .new_peer(&mut self.domain, self.ep, peer, false);
                self.accept(id, &request)
            }
        }
    }

    fn accept(&mut self, id: usize, request: &Request) -> Answer {
        let answer = self.with(id, |session, cx| session.accept(cx, request));
        let (place, mut answer) = answer.unwrap().unwrap();
        let counts = self.wire.link(place);
        answer.flow = FlowControl::of_side(counts);
        self.with(id, |session, _| session.set_counts(counts));
        Answer::Accepted(place, answer.encode().to_vec())
    }

    pub fn arrived(&mut self, arrival: u64, bytes: &[u8]) {
        self.wire.uses_receive(arrival);
        self.sessions
            .arrived(&mut self.domain, &mut self.wire, arrival, bytes);
        self.wire.post_receives(arrival);
    }

    /// Ends an operation below, unless it has ended.
    pub fn landed(&mut self, op: u64, error: Option<Error>) {
        if let Some(flight) = self.wire.end(op) {
            self.sessions
                .landed(&mut self.domain, &mut self.wire, flight, error);
        }
    }

    /// Does what each poll does: packets and operations that wait, and connections that have ended.
    pub fn poll(&mut self, now: Instant) {
        self.begin_poll();
        self.end_poll(now);
    }

    /// The part of a poll before packets are taken from the provider below.
    pub fn begin_poll(&mut self) {
        self.sessions.common.has_matched = false;
        self.sessions.take_waiting(&mut self.domain, &mut self.wire);
    }

    /// The part of a poll after packets and events were taken from the provider below.
    pub fn end_poll(&mut self, now: Instant) {
        self.sessions.give_credits(&mut self.domain, &mut self.wire);
        self.sessions.send_held(&mut self.domain, &mut self.wire);
        for ending in core::mem::take(&mut self.sessions.common.ending) {
            let Ending { id, arrival, error } = ending;
            let session = self.sessions.get(id);
            let Some(session) = session.filter(|session| session.link().arrival() == arrival)
            else {
                continue;
            };
            let (fi_addr, was_up) = (session.link().fi_addr(), session.state() == State::Up);
            self.with(id, |session, cx| session.lost(cx, error, &"ended"));
            if was_up && !is_silence(error) && fi_addr != FI_ADDR_NOTAVAIL {
                self.look_for(now, fi_addr);
            }
        }
        self.sessions.end_closed(&mut self.domain, &mut self.wire);
        let (domain, wire) = (&mut self.domain, &mut self.wire);
        self.sessions.take_turns(domain, wire, now);
    }

    fn look_for(&mut self, now: Instant, fi_addr: u64) {
        if self.domain.awaits(self.ep, fi_addr) {
            let id = self.sessions.find_peer(&mut self.domain, self.ep, fi_addr);
            self.with(id.unwrap(), |session, cx| session.look(cx, now));
        }
    }

    /// Closes the endpoint.
    pub fn close(&mut self) {
        self.sessions
            .close_port(&mut self.domain, &mut self.wire, self.ep);
    }

    /// Returns bytes of memory that a peer may read.
    pub fn read_at(&self, at: &fi_rma_iov) -> Vec<u8> {
        if at.key == KEY {
            return self.memory.bytes(at.addr as usize, at.len);
        }
        let Some((lent, offset)) = self.wire.lent_at(at) else {
            panic!("a peer reads memory of another endpoint");
        };
        let (mut place, mut bytes) = (lent.iov().cursor(), Vec::new());
        place.advance(offset);
        place.truncate(at.len);
        place.copy_out(&mut bytes);
        bytes
    }

    /// Writes to memory that a peer may write.
    pub fn write_at(&self, at: &fi_rma_iov, bytes: &[u8]) {
        if at.key == KEY {
            return self.memory.iov(at.addr as usize, at.len).fill(bytes);
        }
        let Some((lent, offset)) = self.wire.lent_at(at) else {
            panic!("a peer writes memory of another endpoint");
        };
        lent.write(offset, bytes);
    }

    /// Whether nothing of any operation or connection is left.
    pub fn assert_empty(&self) {
        let common = &self.sessions.common;
        assert!(self.sessions.is_empty(), "a session is left");
        assert!(self.wire.is_idle(), "memory or an operation is left");
        assert_eq!(common.connecting, 0);
        // `held` and `stalled` may name sessions that are over.
        assert!(common.ending.is_empty() && common.over.is_empty());
        assert!(common.waiting.iter().flatten().all(|&bytes| bytes == 0));
    }

    /// Reads all entries of the completion queue.
    pub fn completions(&mut self) -> Vec<(usize, Completion)> {
        read_queue(&mut self.domain.cqs[self.cq].ring)
    }
}
