// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! An endpoint with its queue and memory, and an application that records its posted operations.

use std::time::Instant;

use slab::Slab;

use super::name::Name;
use super::socket::Socket;
use crate::rxd::port::Port;
use crate::rxd::session::{Cx, From, Ids, Session, Settings};
use abi::*;
use base::flags::flags;
use base::iovec::lent::TestMemory;
use base::{Access, Caps, IoVec, OpFlags, Result};
use engine::av::AvTable;
use engine::domain_state::{DomainState, TxOp};
use engine::srx::Claimed;
use engine::testing::{Completion, read_queue};
use engine::transport::Address;
use object::ops::atomic::Atomic;
use object::ops::transfer::{Context, Rx, Tx, What};

pub struct Posted<T> {
    pub memory: Option<TestMemory>,
    pub what: T,
}

/// `T`: data of the test about an operation.
pub struct Node<T> {
    pub domain: DomainState<Name>,
    pub port: Port<Name>,
    pub socket: Socket,
    pub ep: usize,
    pub cq: usize,
    /// Posted operations by context.
    pub posted: Slab<Posted<T>>,
    /// Memory that peers read, write and operate on.
    pub memory: TestMemory,
}

pub const KEY: u64 = 7;
const CAPS: Caps = flags!(Caps:
    MSG | TAGGED | DIRECTED_RECV | RMA | ATOMIC | SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE
);

/// Completion queue entries of an endpoint in tests. Few, so that the queue is often full.
const CQ_SIZE: usize = 64;

impl<T> Node<T> {
    pub fn new(
        place: usize,
        settings: Settings,
        mtu: usize,
        memory: Vec<u8>,
        seed: u64,
    ) -> Node<T> {
        Node::with_queue(place, settings, mtu, memory, seed, CQ_SIZE)
    }

    pub fn with_queue(
        place: usize,
        settings: Settings,
        mtu: usize,
        memory: Vec<u8>,
        seed: u64,
        cq_size: usize,
    ) -> Node<T> {
        let ids = Ids::new(&seed.to_ne_bytes(), false);
        let memory = TestMemory::new(memory);
        let (mut domain, cq, ep) = engine::testing::domain_with_queue(CAPS, 1024, cq_size);
        let segments = vec![memory.registered()];
        domain
            .mrs
            .register(segments, Access::REMOTE, 0, KEY, 0)
            .unwrap();
        Node {
            domain,
            port: Port::new(ep, Name::at(place).to_bytes(), settings, ids),
            socket: Socket {
                sent: Vec::new(),
                mtu,
                room: usize::MAX,
                routes: 0,
                unreachable: Vec::new(),
            },
            ep,
            cq,
            posted: Slab::new(),
            memory,
        }
    }

    /// Inserts peers into the address vector.
    pub fn insert(&mut self, peers: impl Iterator<Item = usize>) {
        let av = self.domain.avs.insert(AvTable::new());
        for peer in peers {
            self.domain.avs[av].insert(Name::at(peer));
        }
        self.domain.eps[self.ep].av = Some(av);
    }

    /// Notifies a peer that the endpoint closes. Returns false if the socket has no room.
    pub fn part(&mut self, now: Instant, id: usize) -> bool {
        self.port.part(&mut self.domain, &mut self.socket, now, id)
    }

    pub fn with<R>(
        &mut self,
        now: Instant,
        peer: usize,
        call: impl FnOnce(&mut Session<Name>, &mut Cx<'_, Name, Socket>) -> R,
    ) -> R {
        let (domain, wire) = (&mut self.domain, &mut self.socket);
        let id = self
            .port
            .session(domain, wire, now, &Name::at(peer))
            .unwrap();
        self.port.with(domain, wire, now, id, call).unwrap()
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

    /// Posts an operation on `memory`. `fill` sets the remaining fields of the operation.
    pub fn post(
        &mut self,
        now: Instant,
        peer: usize,
        memory: TestMemory,
        what: T,
        fill: impl FnOnce(&mut Tx<'_>),
    ) -> Result<usize> {
        let iov = memory.iov(0, memory.len());
        let len = memory.len();
        let context = self.posted.insert(Posted {
            memory: Some(memory),
            what,
        });
        let mut tx = Tx {
            what: What::Msg,
            iov,
            flags: OpFlags::COMPLETION,
            dest: 0,
            context: Context::of_test(context),
            data: 0,
            tag: 0,
            target: &[],
        };
        fill(&mut tx);
        let op = self.op(tx.what, tx.flags, context, len);
        self.domain.may_post(self.ep)?;
        self.with(now, peer, |session, cx| session.post(cx, &mut tx, op))?;
        Ok(context)
    }

    pub fn post_atomic(
        &mut self,
        now: Instant,
        peer: usize,
        what: T,
        result: TestMemory,
        fill: impl FnOnce(IoVec, usize) -> Atomic<'static>,
    ) -> Result<usize> {
        let (iov, len) = (result.iov(0, result.len()), result.len());
        let context = self.posted.insert(Posted {
            memory: Some(result),
            what,
        });
        let mut atomic = fill(iov, context);
        let op = self.op(What::AtomicFetch, OpFlags::COMPLETION, context, len);
        self.with(now, peer, |session, cx| {
            session.post_atomic(cx, &mut atomic, op)
        })?;
        Ok(context)
    }

    pub fn receive(&mut self, now: Instant, memory: TestMemory, what: T, tagged: bool) {
        let iov = memory.iov(0, memory.len());
        self.receive_by(now, iov, memory, what, tagged, FI_ADDR_UNSPEC);
    }

    /// Posts a receive for messages of one peer only.
    pub fn receive_from(&mut self, now: Instant, memory: TestMemory, what: T, source: u64) {
        let iov = memory.iov(0, memory.len());
        self.receive_by(now, iov, memory, what, false, source);
    }

    /// Posts a receive into a part of some memory.
    pub fn receive_into(&mut self, now: Instant, iov: IoVec, memory: TestMemory, what: T) {
        self.receive_by(now, iov, memory, what, false, FI_ADDR_UNSPEC);
    }

    fn receive_by(
        &mut self,
        now: Instant,
        iov: IoVec,
        memory: TestMemory,
        what: T,
        tagged: bool,
        src: u64,
    ) {
        let context = self.posted.insert(Posted {
            memory: Some(memory),
            what,
        });
        let mut rx = Rx {
            what: if tagged { What::Tagged } else { What::Msg },
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
            let (domain, wire) = (&mut self.domain, &mut self.socket);
            let id = claimed.envelope.token as usize;
            self.port.with(domain, wire, now, id, |session, cx| {
                session.deliver(cx, claimed)
            });
        }
    }

    pub fn take(&mut self, now: Instant, from: &From<Name>, bytes: &[u8]) {
        self.port
            .take(&mut self.domain, &mut self.socket, now, from, bytes);
    }

    pub fn settle(&mut self, now: Instant) {
        self.port.settle(&mut self.domain, &mut self.socket, now);
    }

    /// The same right after a packet, when more packets may follow.
    pub fn settle_busy(&mut self, now: Instant) {
        self.port.common.is_busy = true;
        self.settle(now);
        self.port.common.is_busy = false;
    }

    /// Reads all entries of the completion queue.
    pub fn completions(&mut self) -> Vec<(usize, Completion)> {
        read_queue(&mut self.domain.cqs[self.cq].ring)
    }
}
