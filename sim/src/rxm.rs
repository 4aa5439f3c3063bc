// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A rank over ofi_rxm: its sessions, as the provider makes them, over ideal connections in place of the MSG endpoints
//! of tcp. A connection has a request and an answer, keeps the order of its bytes, has a window, and a queue of limited
//! depth. A rank accepts `ACCEPTS` connections for each poll, as tcp does.

mod transfer;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use self::transfer::{Key, Kind, Transfer};
use crate::endpoint::{Ended, Endpoint, Limits, Message, Outgoing, Purpose, Setup, Work, content};
use crate::heap::uncounted;
use crate::kernel::{Listener, OWN_FILES, PAUSE, Window};
use abi::FI_ADDR_UNSPEC;
use base::iovec::lent::TestMemory;
use base::{Error, OpFlags};
use engine::half_open::ACCEPTS;
use object::ops::transfer::{Context, Tx, What};
use prov::rxm::testing::{
    Answer, MOST_COPIES, Node, Out, Remote, TestWire, addr_of, id_of, place_of, settings_of,
};

/// Sizes of the transmit queue and of the completion queue that are left to the provider.
const TX_SIZE: usize = 2048;
const CQ_SIZE: usize = 1024;
/// Operations that a MSG endpoint of tcp queues.
const DEPTH: usize = 256;
/// Completions that one poll of the provider takes at most.
const MOST: usize = 64;
/// Time without a sign of the peer until its kernel is probed, and then until the peer counts as silent: of an attempt
/// that the peer's kernel has accepted, and of a connection (keepalive by FI_TCP_PEER_TIMEOUT).
const ATTEMPT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(4));
const STREAM: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(30));
/// Operations that an application has posted at most, so that their table does not grow.
const POSTED: usize = 64;

/// A connection below.
struct Conn {
    key: Key,
    peer: u32,
    /// The request of this side, until the kernel of the peer has accepted the connection.
    request: Option<Vec<u8>>,
    window: Window,
    /// Bytes that this side has taken.
    taken: usize,
    /// Operations that the kernel has not taken, with the number of those that complete then.
    queue: VecDeque<(Option<u64>, Kind)>,
    /// Packets that have arrived while the session is paused.
    held: VecDeque<Kind>,
    has_file: bool,
    /// The peer has answered the request, or this side has accepted it.
    is_up: bool,
    /// When something last came from the peer, and whether a probe was sent since.
    heard: Instant,
    is_probed: bool,
    /// The other side has ended the connection, or does not know it.
    is_ended: bool,
}

/// The purpose of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Session(usize),
    Probe(u64),
}

/// An event that comes from this rank's own provider below.
enum Local {
    Sent(u64),
    Established(u64),
    Closed(u64),
}

pub struct Rxm {
    own: u32,
    node: Node<Purpose>,
    /// Indices of the peers in the address vector.
    indices: HashMap<u32, u64>,
    listener: Listener<Key, Vec<u8>>,
    /// Connections by their numbers here, and the numbers of accepted ones.
    conns: BTreeMap<u64, Conn>,
    accepted: HashMap<Key, u64>,
    /// Connections that were paused when something arrived.
    paused: Vec<u64>,
    events: VecDeque<(u32, Transfer)>,
    local: VecDeque<Local>,
    /// Deadlines, and connections that wait for a descriptor.
    timers: BinaryHeap<Reverse<(Instant, Due)>>,
    wanted: VecDeque<(Instant, u64)>,
    out: Vec<Outgoing<Transfer>>,
    /// Messages that could not be posted, because the attempts to connect had failed before.
    refused: Vec<u32>,
    /// Peers with which this rank has tried to connect.
    tried: HashSet<u32>,
    files: usize,
    now: Instant,
    longest: usize,
    limits: Limits,
    retries: u64,
}

/// Connections below.
impl Rxm {
    fn put(&mut self, to: u32, key: Key, kind: Kind) {
        let load = Transfer::new(key, self.own, kind);
        self.out.push(Outgoing { to, load });
    }

    fn conn(&self, peer: u32, key: Key, request: Option<Vec<u8>>) -> Conn {
        Conn {
            key,
            peer,
            has_file: request.is_none(),
            is_up: request.is_none(),
            heard: self.now,
            is_probed: false,
            request,
            window: Window::new(self.limits.stream_bytes),
            taken: 0,
            queue: VecDeque::new(),
            held: VecDeque::new(),
            is_ended: false,
        }
    }

    /// Executes the requests of the sessions.
    fn execute(&mut self) {
        while !self.node.wire.out.is_empty() {
            for out in std::mem::take(&mut self.node.wire.out) {
                uncounted(|| self.carry_out(&out));
            }
        }
    }

    fn carry_out(&mut self, out: &Out) {
        match *out {
            Out::Timer { id, at } => self.timers.push(Reverse((at, Due::Session(id)))),
            Out::Connect {
                place,
                ref peer,
                ref request,
            } => {
                let peer = place_of(peer).unwrap_or(usize::MAX) as u32;
                let key = (self.own, place.arrival);
                let conn = self.conn(peer, key, Some(request.clone()));
                self.conns.insert(place.arrival, conn);
                self.retries += u64::from(!self.tried.insert(peer));
                self.connect(place.arrival);
            }
            Out::Close { arrival } => self.close_conn(arrival),
            Out::Send {
                arrival,
                op,
                ref bytes,
            } => self.post(arrival, op, Kind::Packet(bytes.clone())),
            Out::Read {
                arrival,
                op,
                ref remote,
            } => {
                let remote = remote.clone();
                self.post(arrival, None, Kind::Read { op, remote });
            }
            Out::Write {
                arrival,
                op,
                ref remote,
                ref bytes,
            } => {
                let (remote, bytes) = (remote.clone(), bytes.clone());
                self.post(arrival, None, Kind::Write { op, remote, bytes });
            }
        }
    }
}

impl Rxm {
    /// Starts an attempt, or waits for a descriptor.
    fn connect(&mut self, arrival: u64) {
        let Some(conn) = self.conns.get_mut(&arrival) else {
            return;
        };
        if self.files >= self.limits.descriptors {
            self.retries += 1;
            return self.wanted.push_back((self.now + PAUSE, arrival));
        }
        self.files += 1;
        conn.has_file = true;
        let (peer, key) = (conn.peer, conn.key);
        self.put(peer, key, Kind::Syn);
    }

    fn close_conn(&mut self, arrival: u64) {
        self.local.push_back(Local::Closed(arrival));
        let Some(conn) = self.conns.remove(&arrival) else {
            return;
        };
        self.files -= usize::from(conn.has_file);
        if conn.key.0 != self.own {
            self.accepted.remove(&conn.key);
        }
        // A kernel that has not answered yet is refused when it does.
        if conn.request.is_none() && !conn.is_ended {
            self.put(conn.peer, conn.key, Kind::End(Error::CONNRESET));
        }
    }

    /// Queues an operation. `op` completes when the kernel has it.
    fn post(&mut self, arrival: u64, op: Option<u64>, kind: Kind) {
        if let Some(conn) = self.conns.get_mut(&arrival) {
            conn.queue.push_back((op, kind));
            self.send_queued(arrival);
        }
    }

    /// Passes queued operations to the kernel, as far as its window has room.
    fn send_queued(&mut self, arrival: u64) {
        let Some(conn) = self.conns.get_mut(&arrival) else {
            return;
        };
        let (peer, key) = (conn.peer, conn.key);
        while conn.window.room() > 0
            && let Some((op, kind)) = conn.queue.pop_front()
        {
            conn.window.sent(kind.bytes());
            self.local.extend(op.map(Local::Sent));
            self.node.wire.left(arrival);
            let load = Transfer::new(key, self.own, kind);
            self.out.push(Outgoing { to: peer, load });
        }
    }

    /// Starts to check whether the peer's kernel is alive.
    fn watch(&mut self, arrival: u64) {
        if let Some(conn) = self.conns.get_mut(&arrival) {
            let (after, _) = if conn.is_up { STREAM } else { ATTEMPT };
            let at = self.now + after;
            self.timers.push(Reverse((at, Due::Probe(arrival))));
        }
    }

    /// Probes the peer's kernel if nothing has come for a while. Ends the connection if a probe was not answered.
    fn probe(&mut self, arrival: u64) {
        let Some(conn) = self.conns.get_mut(&arrival) else {
            return;
        };
        let (peer, key) = (conn.peer, conn.key);
        let (idle, silence) = if conn.is_up { STREAM } else { ATTEMPT };
        let idle_at = conn.heard + idle;
        if idle_at > self.now {
            return self.timers.push(Reverse((idle_at, Due::Probe(arrival))));
        }
        if std::mem::replace(&mut conn.is_probed, true) {
            let load = Transfer::new(key, peer, Kind::End(Error::TIMEDOUT));
            return self.events.push_back((peer, load));
        }
        let at = self.now + silence;
        self.timers.push(Reverse((at, Due::Probe(arrival))));
        self.put(peer, key, Kind::Probe);
    }

    fn arrival_of(&self, key: &Key) -> Option<u64> {
        let number = match key.0 == self.own {
            true => key.1,
            false => *self.accepted.get(key)?,
        };
        self.conns.contains_key(&number).then_some(number)
    }

    /// Takes connections from the listener. Returns their number.
    fn accept(&mut self) -> usize {
        for count in 0..ACCEPTS {
            let Some((key, request)) = uncounted(|| self.listener.accept()) else {
                return count;
            };
            self.files += 1;
            if let Some(request) = request {
                self.requested(key, &request);
                uncounted(|| drop(request));
            }
        }
        ACCEPTS
    }

    /// A request has come over an accepted connection.
    fn requested(&mut self, key: Key, request: &[u8]) {
        let peer = key.0;
        match self.node.requested(addr_of(peer as usize), request) {
            Answer::Ignored => self.files -= 1,
            Answer::Refused(data) => {
                self.files -= 1;
                self.answer(peer, key, &data, Kind::Refused);
            }
            Answer::Accepted(place, data) => {
                // The session may have ended its own attempt.
                self.execute();
                uncounted(|| {
                    let conn = self.conn(peer, key, None);
                    self.conns.insert(place.arrival, conn);
                    self.accepted.insert(key, place.arrival);
                    self.watch(place.arrival);
                    self.local.push_back(Local::Established(place.arrival));
                });
                self.answer(peer, key, &data, Kind::Answer);
            }
        }
    }

    fn answer(&mut self, peer: u32, key: Key, data: &[u8], kind: fn(Vec<u8>) -> Kind) {
        uncounted(|| self.put(peer, key, kind(data.to_vec())));
    }

    /// Handles what has come from another rank.
    fn take(&mut self, from: u32, transfer: Transfer) {
        let Transfer { key, kind, .. } = transfer;
        let Some(arrival) = self.arrival_of(&key) else {
            return self.take_unknown(from, key, kind);
        };
        if let Some(conn) = self.conns.get_mut(&arrival) {
            (conn.heard, conn.is_probed) = (self.now, false);
        }
        if self.node.wire.is_paused(arrival) && !matches!(kind, Kind::Window(_) | Kind::Alive) {
            return uncounted(|| self.hold(arrival, kind));
        }
        self.handle(arrival, &kind);
        uncounted(|| drop(kind));
    }

    /// Handles what came over a connection that this rank does not know, or not any more.
    fn take_unknown(&mut self, from: u32, key: Key, kind: Kind) {
        match kind {
            Kind::Request(request) => {
                if let Some(request) = uncounted(|| self.listener.greet(key, request)) {
                    self.requested(key, &request);
                    uncounted(|| drop(request));
                }
            }
            Kind::Accepted => uncounted(|| self.put(from, key, Kind::End(Error::CONNRESET))),
            Kind::End(_) if key.0 == from && uncounted(|| self.listener.withdraw(&key)) => {
                self.files -= 1;
            }
            kind => uncounted(|| drop(kind)),
        }
    }

    /// Keeps what has arrived until the session receives again.
    fn hold(&mut self, arrival: u64, kind: Kind) {
        if let Some(conn) = self.conns.get_mut(&arrival) {
            if conn.held.is_empty() {
                self.paused.push(arrival);
            }
            conn.held.push_back(kind);
        }
    }

    /// Takes what has arrived for sessions that receive again.
    fn take_held(&mut self) {
        let paused = std::mem::take(&mut self.paused);
        for &arrival in &paused {
            while !self.node.wire.is_paused(arrival)
                && let Some(conn) = self.conns.get_mut(&arrival)
                && let Some(kind) = uncounted(|| conn.held.pop_front())
            {
                self.handle(arrival, &kind);
                uncounted(|| drop(kind));
            }
            let left = self.conns.get(&arrival);
            if left.is_some_and(|conn| !conn.held.is_empty()) {
                uncounted(|| self.paused.push(arrival));
            }
        }
        uncounted(|| drop(paused));
    }

    fn handle(&mut self, arrival: u64, kind: &Kind) {
        let (id, now) = (id_of(arrival), self.now);
        // The session may have another connection by now.
        let is_its = self.node.wire.has(id, arrival);
        match *kind {
            Kind::Accepted => {
                self.node.wire.accepted(arrival);
                uncounted(|| self.send_request(arrival));
            }
            Kind::Refused(ref data) if is_its => {
                self.ended(arrival);
                let error = Error::CONNREFUSED;
                self.node.with(id, |session, cx| {
                    session.refused(cx, now, error, false, data);
                });
            }
            Kind::Answer(ref data) if is_its => {
                if let Some(conn) = self.conns.get_mut(&arrival) {
                    conn.is_up = true;
                }
                self.node
                    .with(id, |session, cx| session.connected(cx, now, data));
            }
            Kind::Packet(ref bytes) => self.node.arrived(arrival, bytes),
            Kind::Read { op, ref remote } if is_its => {
                uncounted(|| self.serve_read(arrival, op, remote));
            }
            Kind::Write {
                op,
                ref remote,
                ref bytes,
            } if is_its => uncounted(|| self.serve_write(arrival, op, remote, bytes)),
            Kind::Done { op, ref bytes } => {
                if let Some(bytes) = bytes {
                    self.node.wire.fill(op, bytes);
                }
                self.node.landed(op, None);
            }
            Kind::Window(bytes) => uncounted(|| self.acknowledged(arrival, bytes)),
            Kind::End(error) if is_its => {
                self.ended(arrival);
                let is_refused = error == Error::CONNREFUSED;
                self.node.with(id, |session, cx| match is_refused {
                    true => session.refused(cx, now, error, false, &[]),
                    false => session.end(cx, now, error),
                });
            }
            _ => {}
        }
        if kind.is_data() {
            uncounted(|| self.took(arrival, kind.bytes()));
        }
        self.execute();
    }

    fn ended(&mut self, arrival: u64) {
        if let Some(conn) = self.conns.get_mut(&arrival) {
            conn.is_ended = true;
        }
    }

    fn send_request(&mut self, arrival: u64) {
        if let Some(conn) = self.conns.get_mut(&arrival)
            && let Some(request) = conn.request.take()
        {
            let (peer, key) = (conn.peer, conn.key);
            self.put(peer, key, Kind::Request(request));
            self.watch(arrival);
        }
    }

    fn acknowledged(&mut self, arrival: u64, bytes: usize) {
        if let Some(conn) = self.conns.get_mut(&arrival) {
            conn.window.acknowledged(bytes);
            self.send_queued(arrival);
        }
    }

    /// Notifies the sender if enough bytes were taken.
    fn took(&mut self, arrival: u64, bytes: usize) {
        let Some(conn) = self.conns.get_mut(&arrival) else {
            return;
        };
        conn.taken += bytes;
        if let Some(bytes) = conn.window.notice(conn.taken) {
            let (peer, key) = (conn.peer, conn.key);
            self.put(peer, key, Kind::Window(bytes));
        }
    }

    fn serve_read(&mut self, arrival: u64, op: u64, remote: &[Remote]) {
        let bytes = remote.iter().flat_map(|at| self.node.read_at(at)).collect();
        let bytes = Some(bytes);
        self.reply(arrival, Kind::Done { op, bytes });
    }

    fn serve_write(&mut self, arrival: u64, op: Option<u64>, remote: &[Remote], bytes: &[u8]) {
        let mut rest = bytes;
        for at in remote {
            let (here, after) = rest.split_at(at.len);
            self.node.write_at(at, here);
            rest = after;
        }
        if let Some(op) = op {
            self.reply(arrival, Kind::Done { op, bytes: None });
        }
    }

    /// Sends the result of a peer's operation. It counts in the window, but does not wait for room.
    fn reply(&mut self, arrival: u64, kind: Kind) {
        if let Some(conn) = self.conns.get_mut(&arrival) {
            conn.window.sent(kind.bytes());
            let (peer, key) = (conn.peer, conn.key);
            self.put(peer, key, kind);
        }
    }

    fn take_local(&mut self, local: &Local) {
        let now = self.now;
        match *local {
            Local::Sent(op) => self.node.landed(op, None),
            Local::Established(arrival) => {
                let id = id_of(arrival);
                if self.node.wire.has(id, arrival) {
                    self.node
                        .with(id, |session, cx| session.connected(cx, now, &[]));
                }
            }
            Local::Closed(arrival) => self.node.wire.finish_close(arrival),
        }
        self.execute();
    }

    /// Handles deadlines of sessions, and starts attempts that had no descriptor.
    fn due(&mut self) {
        let now = self.now;
        while let Some(&Reverse((_, due))) = self.timers.peek().filter(|due| due.0.0 <= now) {
            uncounted(|| self.timers.pop());
            match due {
                Due::Session(id) => drop(self.node.with(id, |session, cx| session.due(cx, now))),
                Due::Probe(arrival) => uncounted(|| self.probe(arrival)),
            }
            self.execute();
        }
        while let Some(&(_, arrival)) = self.wanted.front().filter(|(at, _)| *at <= now) {
            uncounted(|| {
                self.wanted.pop_front();
                self.connect(arrival);
            });
        }
    }
}

impl Endpoint for Rxm {
    type Load = Transfer;

    fn open(setup: &Setup<'_>) -> Rxm {
        let settings = settings_of(setup.limits.packet);
        let seed = setup.seed ^ (setup.place as u64) << 32;
        let mut wire = TestWire::new(seed, settings.eager, MOST_COPIES, false);
        wire.depth = DEPTH;
        let memory = uncounted(|| TestMemory::new(vec![0; 8]));
        let life = setup.seed & 0xff;
        let sizes = (TX_SIZE, CQ_SIZE);
        let mut node = Node::with_queues(setup.place, life, settings, wire, memory, sizes);
        uncounted(|| node.posted.reserve(POSTED));
        let mut indices = uncounted(HashMap::new);
        for &peer in setup.peers {
            let index = node.insert(addr_of(peer as usize));
            uncounted(|| indices.insert(peer, index));
        }
        Rxm {
            own: setup.place as u32,
            node,
            indices,
            listener: Listener::new(setup.limits.backlog),
            conns: BTreeMap::new(),
            accepted: HashMap::new(),
            paused: Vec::new(),
            events: VecDeque::new(),
            local: VecDeque::new(),
            timers: BinaryHeap::new(),
            wanted: VecDeque::new(),
            out: Vec::new(),
            refused: Vec::new(),
            tried: HashSet::new(),
            files: OWN_FILES,
            now: Instant::now(),
            longest: setup.longest,
            limits: setup.limits.clone(),
            retries: 0,
        }
    }

    fn arrive(&mut self, _now: Instant, from: usize, load: Transfer) -> Option<Transfer> {
        let from = from as u32;
        match load.kind {
            Kind::Syn if !self.listener.arrive(load.key) => return Some(load),
            Kind::Syn => self.put(from, load.key, Kind::Accepted),
            Kind::Probe => self.put(from, load.key, Kind::Alive),
            _ => self.events.push_back((from, load)),
        }
        None
    }

    fn unreachable(&mut self, peer: usize) {
        let peer = peer as u32;
        let of_peer = self.conns.values().filter(|conn| conn.peer == peer);
        for conn in of_peer {
            let error = match conn.request {
                Some(_) => Error::CONNREFUSED,
                None => Error::CONNRESET,
            };
            let load = Transfer::new(conn.key, peer, Kind::End(error));
            uncounted(|| self.events.push_back((peer, load)));
        }
    }

    fn poll(&mut self, now: Instant, _room: usize) -> Work {
        self.now = now;
        let visits = self.node.sessions.common.stalled.len();
        self.node.begin_poll();
        self.execute();
        for _ in 0..self.local.len() {
            if let Some(local) = uncounted(|| self.local.pop_front()) {
                self.take_local(&local);
            }
        }
        self.take_held();
        let connects = self.accept();
        let taken = self.events.len().min(MOST);
        for _ in 0..taken {
            if let Some((from, transfer)) = uncounted(|| self.events.pop_front()) {
                self.take(from, transfer);
            }
        }
        self.due();
        self.node.end_poll(now);
        self.execute();
        self.node.wire.forget_lent();
        Work {
            taken,
            visits,
            connects,
        }
    }

    fn take_out(&mut self) -> Vec<Outgoing<Transfer>> {
        self.execute();
        std::mem::take(&mut self.out)
    }

    fn send(&mut self, now: Instant, message: &Message) -> bool {
        self.now = now;
        let (ep, dest) = (self.node.ep, self.indices[&message.to]);
        if self.node.domain.may_post(ep).is_err() {
            return false;
        }
        let known = self.node.sessions.usable(ep, dest);
        let id = match known.map_or_else(|| self.node.reach(now, dest), Ok) {
            Ok(id) => id,
            Err(Error::AGAIN) => return false,
            Err(_) => {
                uncounted(|| self.refused.push(message.to));
                return true;
            }
        };
        let memory = uncounted(|| content(message));
        let mut tx = Tx {
            what: What::Tagged,
            iov: memory.iov(0, memory.len()),
            flags: OpFlags::COMPLETION,
            dest,
            context: Context::default(),
            data: 0,
            tag: message.tag,
            target: &[],
        };
        let purpose = Purpose::SendTo(message.to);
        let posted = self.node.post(id, &mut tx, memory, purpose);
        self.execute();
        match posted {
            Ok(_) => true,
            Err((_, memory)) => {
                uncounted(|| drop(memory));
                false
            }
        }
    }

    fn receive(&mut self, _now: Instant, nth: u32) {
        let memory = uncounted(|| TestMemory::new(vec![0; self.longest]));
        self.node
            .receive_kind(What::Tagged, memory, Purpose::Receive(nth), FI_ADDR_UNSPEC);
        self.execute();
    }

    fn ended(&mut self) -> Vec<Ended> {
        let all = uncounted(|| self.node.completions());
        let refused = uncounted(|| std::mem::take(&mut self.refused));
        let mut ended = uncounted(|| Vec::with_capacity(all.len() + refused.len()));
        ended.extend(refused.iter().map(|&to| Ended::Failed { to }));
        for &(context, ref completion) in &all {
            let posted = self.node.posted.remove(context);
            ended.push(Ended::of(completion, posted.what, &posted.memory));
            uncounted(|| drop(posted));
        }
        uncounted(|| drop((all, refused)));
        ended
    }

    fn close(&mut self, now: Instant) -> bool {
        self.now = now;
        self.node.close();
        self.execute();
        true
    }

    fn release(&mut self) {
        self.node.posted.clear();
        self.node.posted.shrink_to_fit();
        self.node.memory = TestMemory::new(Vec::new());
        self.indices = HashMap::new();
        self.listener = Listener::new(0);
        self.conns = BTreeMap::new();
        self.accepted = HashMap::new();
        self.paused = Vec::new();
        self.events = VecDeque::new();
        self.local = VecDeque::new();
        self.timers = BinaryHeap::new();
        self.wanted = VecDeque::new();
        self.tried = HashSet::new();
    }

    fn has_input(&self) -> bool {
        let common = &self.node.sessions.common;
        let is_ready = common.has_matched && !common.stalled.is_empty();
        let has_events = !self.events.is_empty() || !self.local.is_empty();
        let has_turns = common.pacing.is_ready() || !common.ending.is_empty();
        is_ready || has_events || has_turns || self.listener.has_waiting()
    }

    fn is_blocked(&self) -> bool {
        !self.node.sessions.common.held.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|due| due.0.0);
        let wanted = self.wanted.front().map(|(at, _)| *at);
        timer.into_iter().chain(wanted).min()
    }

    fn connections(&self) -> usize {
        self.files - OWN_FILES
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}
