// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A rank over tcp: the provider's sessions over streams. Connections follow the rules of the provider, but not by its
//! code, which calls the kernel: `ACCEPTS` for each poll, one connection for a pair, and the lower rank's connection if
//! both ranks connect at once. `ConnectClock` and the protocol of the sessions are the provider's.

mod segment;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use slab::Slab;

use self::segment::{Segment, Stream};
use crate::endpoint::{Ended, Endpoint, Limits, Message, Outgoing, Purpose, Setup, Work, content};
use crate::heap::uncounted;
use crate::kernel::{Listener, OWN_FILES, PAUSE};
use abi::{FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC};
use base::flags::flags;
use base::iovec::lent::TestMemory;
use base::log::Source;
use base::{Caps, Error, OpFlags};
use engine::connect_clock::ConnectClock;
use engine::domain_state::{DomainState, TxOp};
use engine::half_open::ACCEPTS;
use engine::srx::Claimed;
use object::ops::transfer::{Context, Rx, Tx, What};
use prov::rxd::testing::Name;
use stream::link::Link;
use stream::link::sim::SimLink;
use stream::session::common::{self, Common, Todo};
use stream::session::read::Read;
use stream::session::{Agreed, Cx, Session, State};

static SOURCE: Source = Source::new(c"sim");
const CAPS: Caps = flags!(Caps: MSG | TAGGED | SEND | RECV);
const CQ_SIZE: usize = 1024;
/// Events that one poll takes from epoll.
const EVENTS: usize = 32;
/// FI_TCP_CONN_TIMEOUT and FI_TCP_MAX_SAVED_BYTES, unless they are set.
const CONNECT: Duration = Duration::from_secs(15);
const SAVED: usize = 64 << 20;

struct Conn {
    peer: u32,
    session: Session<Name>,
    link: Link,
    wires: Stream,
    /// The attempt of this side, while it has a descriptor.
    clock: ConnectClock,
}

struct Posted {
    memory: TestMemory,
    purpose: Purpose,
}

pub struct Tcp {
    own: u32,
    domain: DomainState<Name>,
    ep: usize,
    cq: usize,
    common: Common,
    conns: Slab<Conn>,
    by_peer: HashMap<u32, usize>,
    /// Connections of peers that have not identified themselves.
    listener: Listener<u32, ()>,
    events: VecDeque<(u32, Segment)>,
    /// Deadlines of attempts, and connections that wait for a descriptor.
    attempts: VecDeque<(Instant, u32)>,
    wanted: VecDeque<(Instant, u32)>,
    out: Vec<Outgoing<Segment>>,
    posted: Slab<Posted>,
    files: usize,
    longest: usize,
    limits: Limits,
    retries: u64,
}

fn session_limits() -> common::Limits {
    common::Limits {
        connections: 0,
        saved_size: usize::MAX,
        saved_bytes: SAVED,
        no_progress_thread: true,
        keeps_offers: false,
        answers_writes: false,
        copies: true,
        connect: CONNECT,
        close: Duration::ZERO,
        op_timeout: Duration::ZERO,
        peer_timeout: Duration::ZERO,
        stall_report: Duration::ZERO,
        ring_size: None,
    }
}

/// Connections.
impl Tcp {
    fn conn(&mut self, peer: u32) -> usize {
        if let Some(&id) = self.by_peer.get(&peer) {
            return id;
        }
        let (link, wires) = uncounted(|| Stream::new(self.limits.stream_bytes));
        let name = Name::at(peer as usize);
        let id = self.conns.insert(Conn {
            peer,
            session: Session::new(self.ep, name, u64::from(peer)),
            link: Link::Sim(uncounted(|| Box::<SimLink>::new(link))),
            wires,
            clock: ConnectClock::default(),
        });
        self.by_peer.insert(peer, id);
        id
    }

    fn put(&mut self, to: u32, kind: segment::Kind) {
        let load = Segment::new(self.own, to, kind);
        uncounted(|| self.out.push(Outgoing { to, load }));
    }

    /// Starts an attempt, or waits for a descriptor.
    fn connect(&mut self, now: Instant, id: usize) {
        let peer = self.conns[id].peer;
        if self.files >= self.limits.descriptors {
            self.retries += 1;
            uncounted(|| self.wanted.push_back((now + PAUSE, peer)));
            return;
        }
        self.files += 1;
        let conn = &mut self.conns[id];
        conn.session.state = State::Connecting;
        conn.clock.start(now, CONNECT);
        uncounted(|| self.attempts.push_back((now + CONNECT, peer)));
        self.put(peer, segment::Kind::Syn);
    }

    fn up(&mut self, id: usize) {
        let session = &mut self.conns[id].session;
        session.state = State::Up;
        session.agreed = Agreed {
            rendezvous: true,
            extended: true,
            refuses: true,
        };
        self.conns[id].clock.reset();
        self.with(id, |session, cx| {
            session.tx.send_waiting(cx, session.agreed)
        });
    }

    /// A peer has connected and identified itself.
    fn identified(&mut self, peer: u32) {
        let id = self.conn(peer);
        match self.conns[id].session.state {
            State::Connecting | State::Requested if self.own < peer => {
                self.files -= 1;
                return self.put(peer, segment::Kind::Busy);
            }
            // The attempt of this side ends.
            State::Connecting | State::Requested => self.files -= 1,
            _ => {}
        }
        self.put(peer, segment::Kind::Welcome);
        self.up(id);
    }

    /// A peer has sent its identity, perhaps before its connection was accepted.
    fn greeted(&mut self, peer: u32) {
        if self.listener.greet(peer, ()).is_some() {
            self.identified(peer);
        }
    }

    fn accept(&mut self) -> usize {
        for count in 0..ACCEPTS {
            let Some((peer, greeting)) = self.listener.accept() else {
                return count;
            };
            self.files += 1;
            if greeting.is_some() {
                self.identified(peer);
            }
        }
        ACCEPTS
    }

    fn lose(&mut self, id: usize, error: Error) {
        self.conns[id].session.state = State::Down;
        self.with(id, |session, cx| session.fail_operations(cx, error));
        let conn = self.conns.remove(id);
        self.by_peer.remove(&conn.peer);
        self.files -= 1;
        let Conn { link, wires, .. } = conn;
        uncounted(|| drop((link, wires)));
    }

    /// Ends attempts that nothing has answered, and repeats those that had no descriptor.
    fn due(&mut self, now: Instant) {
        while let Some(&(_, peer)) = self.attempts.front().filter(|(at, _)| *at <= now) {
            uncounted(|| self.attempts.pop_front());
            if let Some(&id) = self.by_peer.get(&peer)
                && self.conns[id].session.state != State::Up
                && self.conns[id].clock.is_over(now)
            {
                // The peer's own connection, which never came, had no descriptor here.
                self.files += usize::from(self.conns[id].session.state == State::Sharing);
                self.lose(id, Error::TIMEDOUT);
            }
        }
        while self.wanted.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, peer)) = uncounted(|| self.wanted.pop_front())
                && let Some(&id) = self.by_peer.get(&peer)
                && self.conns[id].session.state == State::Idle
            {
                self.connect(now, id);
            }
        }
    }
}

/// Sessions.
impl Tcp {
    fn with<R>(
        &mut self,
        id: usize,
        call: impl FnOnce(&mut Session<Name>, &mut Cx<'_, Name>) -> R,
    ) -> Option<R> {
        let conn = self.conns.get_mut(id)?;
        let mut cx = Cx {
            id,
            domain: &mut self.domain,
            link: &mut conn.link,
            common: &mut self.common,
        };
        let result = call(&mut conn.session, &mut cx);
        self.settle(id);
        Some(result)
    }

    /// Carries out what a session has requested, and passes its bytes to the network.
    fn settle(&mut self, id: usize) {
        let mut is_over = false;
        while let Some((other, todo)) = self.common.todo.pop_front() {
            is_over |= other == id && matches!(todo, Todo::End);
        }
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let (peer, bytes) = (conn.peer, conn.wires.take());
        if !bytes.is_empty() {
            let copy = uncounted(|| bytes.clone());
            drop(bytes);
            self.put(peer, segment::Kind::Data(copy));
        }
        if is_over {
            self.lose(id, Error::CONNRESET);
        }
    }

    fn flush(&mut self) {
        for id in std::mem::take(&mut self.common.dirty) {
            self.with(id, |session, cx| {
                session.tx.out.flush_marked(cx);
                session.go_on_helping(cx);
            });
        }
        for id in self.common.held.take() {
            self.with(id, |session, cx| {
                session.tx.send_waiting(cx, session.agreed)
            });
        }
    }

    fn read(&mut self, id: usize) {
        let mut scratch = std::mem::take(&mut self.common.scratch);
        while self
            .conns
            .get(id)
            .is_some_and(|conn| !conn.session.rx.waits())
        {
            let read = self.with(id, |session, cx| {
                let Cx {
                    id,
                    domain,
                    link,
                    common,
                } = cx;
                #[rustfmt::skip]
                let cx = Cx { id: *id, domain, link, common };
                session.read_once(cx, &mut scratch)
            });
            match read {
                Some(Read::Some | Read::All) => {}
                Some(Read::Nothing) | None => break,
                Some(Read::Ended) => {
                    if self.conns.contains(id) {
                        self.lose(id, Error::CONNRESET);
                    }
                    break;
                }
            }
        }
        self.common.scratch = scratch;
        if let Some(conn) = self.conns.get_mut(id)
            && let Some(bytes) = conn.wires.taken()
        {
            let peer = conn.peer;
            self.put(peer, segment::Kind::Window(bytes));
        }
    }

    fn take(&mut self, from: u32, segment: Segment) {
        use segment::Kind;
        let known = self.by_peer.get(&from).copied();
        match (segment.kind, known) {
            (Kind::Accepted, Some(id)) if self.conns[id].session.state == State::Connecting => {
                self.conns[id].session.state = State::Requested;
                self.put(from, Kind::Hello);
            }
            (Kind::Hello, _) => {
                self.greeted(from);
            }
            (Kind::Welcome, Some(id)) if self.conns[id].session.state == State::Requested => {
                self.up(id);
            }
            // The peer's own connection comes.
            (Kind::Busy, Some(id)) if self.conns[id].session.state == State::Requested => {
                self.files -= 1;
                self.conns[id].session.state = State::Sharing;
            }
            (Kind::Data(bytes), Some(id)) => {
                uncounted(|| self.conns[id].wires.arrive(bytes));
                self.read(id);
            }
            (Kind::Window(bytes), Some(id)) => {
                self.conns[id].wires.acknowledged(bytes);
                if self.conns[id].session.tx.out.is_blocked() {
                    self.with(id, |session, cx| session.unblocked(cx));
                }
            }
            (Kind::End, Some(id)) => self.lose(id, Error::CONNRESET),
            _ => {}
        }
    }

    fn op(&self, what: What, context: usize, len: usize) -> TxOp {
        TxOp {
            since: 0,
            what,
            ep: self.ep as u32,
            flags: OpFlags::COMPLETION,
            context,
            len,
        }
    }
}

impl Endpoint for Tcp {
    type Load = Segment;

    fn open(setup: &Setup<'_>) -> Tcp {
        let (domain, cq, ep) = engine::testing::domain_with_queue(CAPS, 1024, CQ_SIZE);
        Tcp {
            own: setup.place as u32,
            domain,
            ep,
            cq,
            common: Common::new(&SOURCE, session_limits()),
            conns: Slab::new(),
            by_peer: HashMap::new(),
            listener: Listener::new(setup.limits.backlog),
            events: VecDeque::new(),
            attempts: VecDeque::new(),
            wanted: VecDeque::new(),
            out: Vec::new(),
            posted: Slab::new(),
            files: OWN_FILES,
            longest: setup.longest,
            limits: setup.limits.clone(),
            retries: 0,
        }
    }

    fn arrive(&mut self, _now: Instant, from: usize, load: Segment) -> Option<Segment> {
        let from = from as u32;
        match load.kind {
            segment::Kind::Syn if !self.listener.arrive(from) => return Some(load),
            segment::Kind::Syn => self.put(from, segment::Kind::Accepted),
            _ => self.events.push_back((from, load)),
        }
        None
    }

    fn unreachable(&mut self, peer: usize) {
        let peer = peer as u32;
        let load = Segment::new(peer, self.own, segment::Kind::End);
        uncounted(|| self.events.push_back((peer, load)));
    }

    fn poll(&mut self, now: Instant, _room: usize) -> Work {
        self.common.polls += 1;
        let connects = self.accept();
        let taken = self.events.len().min(EVENTS);
        for _ in 0..taken {
            if let Some((from, segment)) = uncounted(|| self.events.pop_front()) {
                self.take(from, segment);
            }
        }
        self.due(now);
        let visits = self.common.stalled.len();
        for id in self.common.stalled.to_vec() {
            self.with(id, |session, cx| session.retry_read(cx));
            self.read(id);
        }
        self.flush();
        Work {
            taken,
            visits,
            connects,
        }
    }

    fn take_out(&mut self) -> Vec<Outgoing<Segment>> {
        self.flush();
        std::mem::take(&mut self.out)
    }

    fn send(&mut self, now: Instant, message: &Message) -> bool {
        let memory = uncounted(|| content(message));
        let id = self.conn(message.to);
        let len = message.len as usize;
        let mut tx = Tx {
            what: What::Tagged,
            iov: memory.iov(0, len),
            flags: OpFlags::COMPLETION,
            dest: 0,
            context: Context::of_test(self.posted.vacant_key()),
            data: 0,
            tag: message.tag,
            target: &[],
        };
        let op = self.op(What::Tagged, self.posted.vacant_key(), len);
        let purpose = Purpose::SendTo(message.to);
        uncounted(|| self.posted.insert(Posted { memory, purpose }));
        let posted = self.with(id, |session, cx| session.post_message(cx, &mut tx, op));
        if posted != Some(Ok(())) {
            uncounted(|| self.posted.remove(op.context));
            return false;
        }
        let is_idle = self
            .conns
            .get(id)
            .is_some_and(|conn| conn.session.state == State::Idle && !conn.clock.is_started());
        if is_idle && !self.wanted.iter().any(|(_, peer)| *peer == message.to) {
            self.connect(now, id);
        }
        true
    }

    fn receive(&mut self, _now: Instant, nth: u32) {
        let memory = uncounted(|| TestMemory::new(vec![0; self.longest]));
        let iov = memory.iov(0, self.longest);
        let purpose = Purpose::Receive(nth);
        let context = uncounted(|| self.posted.insert(Posted { memory, purpose }));
        let mut rx = Rx {
            what: What::Tagged,
            iov,
            flags: OpFlags::COMPLETION,
            src: FI_ADDR_UNSPEC,
            context: Context::of_test(context),
            tag: 0,
            ignore: u64::MAX,
        };
        let mut claims: Vec<Claimed> = Vec::new();
        let source = |_: &_| FI_ADDR_NOTAVAIL;
        let ep = self.ep;
        let posted = self
            .domain
            .post_receive(ep, &mut rx, source, |_, claimed| claims.push(claimed));
        debug_assert!(posted.is_ok());
        for claimed in claims {
            let id = claimed.envelope.token as usize;
            self.with(id, |session, cx| session.deliver(cx, claimed));
        }
    }

    fn ended(&mut self) -> Vec<Ended> {
        let ring = &mut self.domain.cqs[self.cq].ring;
        let all = uncounted(|| engine::testing::read_queue(ring));
        let mut ended = uncounted(|| Vec::with_capacity(all.len()));
        for &(context, ref completion) in &all {
            let posted = uncounted(|| self.posted.remove(context));
            ended.push(Ended::of(completion, posted.purpose, &posted.memory));
            uncounted(|| drop(posted));
        }
        uncounted(|| drop(all));
        ended
    }

    fn close(&mut self, _now: Instant) -> bool {
        let peers: Vec<u32> = uncounted(|| self.by_peer.keys().copied().collect());
        for &peer in &peers {
            self.put(peer, segment::Kind::End);
        }
        uncounted(|| drop(peers));
        true
    }

    fn release(&mut self) {
        self.posted.clear();
        self.events = VecDeque::new();
        self.listener.clear_backlog();
        self.attempts = VecDeque::new();
        self.wanted = VecDeque::new();
        for (_, conn) in &mut self.conns {
            drop(conn.link.take());
            conn.wires.release();
        }
    }

    fn has_input(&self) -> bool {
        !self.events.is_empty() || self.listener.has_waiting()
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        let attempts = self.attempts.front().map(|(at, _)| *at);
        let wanted = self.wanted.front().map(|(at, _)| *at);
        attempts.into_iter().chain(wanted).min()
    }

    fn connections(&self) -> usize {
        self.files - OWN_FILES
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}
