// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One of two sessions, with its domain and the few services of a stream that it needs.

mod parting;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::link::Link;
use crate::session::closing::Closing;
use crate::session::common::{Common, Limits, Todo};
use crate::session::read::Read;
use crate::session::{Cx, Ending, Session, State};
use abi::*;
use base::flags::flags;
use base::iovec::lent::TestMemory;
use base::log::Source;
use base::{Access, Caps, Error, OpFlags, Result};
use engine::domain_state::{DomainState, TxOp};
use engine::srx::Claimed;
use engine::testing;
use engine::transport::Address;
use object::ops::atomic::Atomic;
use object::ops::transfer::{Rx, Tx, What};

static SOURCE: Source = Source::new(c"test");

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Name(u8);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "side {}", self.0)
    }
}

impl Address for Name {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.first().map(|&name| Name(name))
    }
    fn to_bytes(&self) -> Vec<u8> {
        vec![self.0]
    }
}

/// A completion as read from the queue.
#[derive(Clone, Debug)]
pub struct Completion {
    pub flags: u64,
    pub len: usize,
    pub data: u64,
    pub tag: u64,
    /// 0 if it has succeeded.
    pub error: i32,
    pub olen: usize,
}

/// Features that both sessions and both ends of the link share.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    pub swap: bool,
    pub rendezvous: bool,
    pub extended: bool,
    pub saved_size: usize,
    pub saved_bytes: usize,
    pub keeps_offers: bool,
}

pub struct Side {
    pub domain: DomainState<Name>,
    pub session: Session<Name>,
    pub link: Link,
    pub common: Common,
    pub ep: usize,
    pub srx: usize,
    cq: usize,
    /// Why the session is over.
    pub lost: Option<String>,
    pub is_faulty: bool,
    is_read_paused: bool,
    /// Both sides have agreed to close the connection, and this side has closed it or has read its end.
    pub has_parted: bool,
    /// Completions in the order of the queue, each with its context.
    pub completions: Vec<(usize, Completion)>,
    pub by_context: HashMap<usize, usize>,
    /// Memory for the peer's reads, writes and atomic operations; its key is `KEY`, its first address 0.
    pub memory: TestMemory,
}

pub const KEY: u64 = 7;
/// Number of the session in the lists of `Common`.
const ID: usize = 0;
const CAPS: Caps = flags!(Caps:
    MSG | TAGGED | RMA | ATOMIC | SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE | FENCE
);

impl Side {
    pub fn new(name: u8, agreed: Agreed, link: Link, memory: Vec<u8>) -> Side {
        let memory = TestMemory::new(memory);
        let (mut domain, cq, ep) = testing::domain(CAPS, 1024);
        let srx = domain.eps[ep].srx;
        let access = Access::REMOTE;
        let segments = vec![memory.registered()];
        domain.mrs.register(segments, access, 0, KEY, 0).unwrap();
        let limits = Limits {
            saved_size: agreed.saved_size,
            saved_bytes: agreed.saved_bytes,
            no_progress_thread: true,
            keeps_offers: agreed.keeps_offers,
            answers_writes: false,
            copies: true,
            connect: Duration::ZERO,
            close: Duration::ZERO,
            op_timeout: Duration::ZERO,
            peer_timeout: Duration::ZERO,
            stall_report: Duration::ZERO,
            connections: 0,
            ring_size: None,
        };
        let mut session = Session::new(ep, Name(1 - name), u64::from(1 - name));
        session.state = State::Up;
        session.tx.out.set_swaps(agreed.swap);
        session.agreed.rendezvous = agreed.rendezvous;
        session.agreed.extended = agreed.extended;
        session.agreed.refuses = agreed.extended;
        session.closing = Closing::new(true);
        Side {
            domain,
            session,
            link,
            common: Common::new(&SOURCE, limits),
            ep,
            srx,
            cq,
            lost: None,
            is_faulty: false,
            is_read_paused: false,
            has_parted: false,
            completions: Vec::new(),
            by_context: HashMap::new(),
            memory,
        }
    }

    /// Calls the session, then carries out the requests that it left for a stream.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut Session<Name>, &mut Cx<'_, Name>) -> R) -> R {
        let mut cx = Cx {
            id: ID,
            domain: &mut self.domain,
            link: &mut self.link,
            common: &mut self.common,
        };
        let result = call(&mut self.session, &mut cx);
        self.settle();
        result
    }

    fn settle(&mut self) {
        while let Some((_, todo)) = self.common.todo.pop_front() {
            match todo {
                Todo::PauseRead => self.is_read_paused = true,
                Todo::ResumeRead if !self.session.rx.waits() => self.is_read_paused = false,
                Todo::End => {
                    if let Some(ending) = self.session.ending.take() {
                        self.end(*ending);
                    }
                }
                Todo::Retire => self.part(),
                Todo::Reopened => {
                    self.with(|session, cx| session.tx.send_waiting(cx, session.agreed));
                }
                // The test polls and ticks by itself and has no collectives.
                Todo::ResumeRead
                | Todo::Poll
                | Todo::KeptOpen
                | Todo::Blocked
                | Todo::CannotSend(_)
                | Todo::WatchPeers
                | Todo::WatchWaits
                | Todo::Collectives(_) => {}
            }
        }
    }

    /// Ends the session: its peer is gone or violates the protocol.
    pub fn end(&mut self, ending: Ending) {
        if self.lost.is_some() {
            return;
        }
        let is_reset = matches!(ending, Ending::Lost(Error::CONNRESET));
        if is_reset && self.session.closing.is_ready() && self.session.is_quiet() {
            return self.part();
        }
        self.lost = Some(match &ending {
            Ending::Fault(fault) => format!("{fault}"),
            Ending::Lost(error) => format!("{error:?}"),
            Ending::Late(what) => format!("{what}"),
        });
        self.is_faulty = matches!(ending, Ending::Fault(_));
        self.link.shutdown();
        self.session.state = State::Down;
        self.with(|session, cx| {
            if let Some(shm) = cx.link.memory() {
                shm.revoke();
            }
            session.fail_operations(cx, Error::CONNRESET);
        });
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

    pub fn post(&mut self, mut tx: Tx<'_>) -> Result {
        self.prepare();
        let op = self.op(tx.what, tx.flags, tx.context.number(), tx.iov.remaining());
        self.with(|session, cx| match tx.what {
            What::Write => session.post_write(cx, &mut tx, op),
            What::Read => session.post_read(cx, &mut tx, op),
            _ => session.post_message(cx, &mut tx, op),
        })
    }

    pub fn post_atomic(&mut self, atomic: &mut Atomic<'_>, what: What, len: usize) -> Result {
        self.prepare();
        let op = self.op(what, atomic.flags, atomic.context.number(), len);
        self.with(|session, cx| session.post_atomic(cx, atomic, op))
    }

    pub fn post_receive(&mut self, rx: &mut Rx) {
        let mut claims: Vec<Claimed> = Vec::new();
        let source = |_: &_| FI_ADDR_NOTAVAIL;
        self.domain
            .post_receive(self.ep, rx, source, |_, claimed| claims.push(claimed))
            .unwrap();
        for claimed in claims {
            self.with(|session, cx| session.deliver(cx, claimed));
        }
        if !self.common.stalled.is_empty() {
            self.with(|session, cx| session.retry_read(cx));
        }
    }

    /// Does the work of one poll of a stream; returns whether anything arrived.
    pub fn poll(&mut self) -> bool {
        self.common.polls += 1;
        if self.lost.is_some() || self.has_parted {
            return false;
        }
        self.flush();
        if !self.common.stalled.is_empty() {
            self.with(|session, cx| session.retry_read(cx));
        }
        if self.session.tx.out.is_blocked() {
            self.with(
                |session, cx| match cx.link.memory_mut().map(|shm| shm.has_room()) {
                    Some(Ok(false)) => {}
                    _ => session.unblocked(cx),
                },
            );
        }
        let any = match self.link.is_ring() {
            true => self.read_ring(),
            false => self.read_stream(),
        };
        if !self.common.held.take().is_empty() && self.lost.is_none() {
            self.with(|session, cx| session.tx.send_waiting(cx, session.agreed));
        }
        self.read_queue();
        any
    }

    /// Writes frames that were held back.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.common.dirty).is_empty() || self.lost.is_some() {
            return;
        }
        self.with(|session, cx| {
            session.tx.out.flush_marked(cx);
            session.go_on_helping(cx);
        });
    }

    fn read_stream(&mut self) -> bool {
        let mut any = false;
        let mut scratch = std::mem::take(&mut self.common.scratch);
        while self.lost.is_none()
            && !self.has_parted
            && !self.session.rx.waits()
            && !self.is_read_paused
        {
            let mut read = Read::Nothing;
            self.with(|session, cx| {
                let cx = Cx {
                    id: cx.id,
                    domain: cx.domain,
                    link: cx.link,
                    common: cx.common,
                };
                read = session.read_once(cx, &mut scratch);
            });
            match read {
                Read::Nothing => break,
                Read::Some | Read::All => any = true,
                Read::Ended => {
                    any = true;
                    if let Some(ending) = self.session.ending.take() {
                        self.end(*ending);
                    }
                }
            }
        }
        self.common.scratch = scratch;
        any
    }

    fn read_ring(&mut self) -> bool {
        let mut any = false;
        while self.lost.is_none() && !self.has_parted {
            if self.with(|session, cx| session.waits_for_sender(cx)) {
                break;
            }
            let left = self.with(|session, cx| session.take_messages(cx, 64));
            any |= left.taken > 0;
            let waits = self.session.rx.waits() || self.is_read_paused;
            let Some(shm) = self.link.memory_mut() else {
                break;
            };
            let Some(record) = shm.peek().unwrap() else {
                let is_due = self.session.exposed.take_written() | shm.is_due();
                let _ = is_due && shm.release();
                if shm.ended {
                    self.end(Ending::Lost(Error::CONNRESET));
                }
                break;
            };
            if waits {
                break;
            }
            any = true;
            if let Err(fault) = self.with(|session, cx| session.take_record(cx, &record)) {
                self.end(Ending::Fault(fault));
                break;
            }
            if let Some(shm) = self
                .link
                .memory_mut()
                .filter(|_| self.lost.is_none() && !self.has_parted)
            {
                let _ = shm.advance(record);
            }
        }
        any
    }

    /// Takes the entries of the completion queue.
    pub fn read_queue(&mut self) {
        loop {
            let cq = &mut self.domain.cqs[self.cq];
            let mut entries: Vec<[u64; 6]> = Vec::new();
            let n = cq.ring.read_into(
                64,
                &mut |words| entries.extend(words.as_chunks::<6>().0),
                None,
            );
            for [context, flags, len, _, data, tag] in entries {
                self.note(
                    context as usize,
                    Completion {
                        flags,
                        len: len as usize,
                        data,
                        tag,
                        error: 0,
                        olen: 0,
                    },
                );
            }
            if n > 0 {
                continue;
            }
            let Some(error) = self.domain.cqs[self.cq].ring.pop_err() else {
                return;
            };
            self.note(
                error.context,
                Completion {
                    flags: error.flags.bits(),
                    len: error.len,
                    data: error.data,
                    tag: error.tag,
                    error: error.err,
                    olen: error.olen,
                },
            );
        }
    }

    fn note(&mut self, context: usize, completion: Completion) {
        let at = self.completions.len();
        let before = self.by_context.insert(context, at);
        assert!(
            before.is_none(),
            "operation {context} completes twice: {completion:?}"
        );
        self.completions.push((context, completion));
    }
}
