// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider below in tests and in the simulator: collects the requests of sessions for the network.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::rxm::HEAD_SIZE;
use crate::rxm::proto::{FlowControl, HEADER, Request};
use crate::rxm::session::flight::{Call, Flight, Post, iov_of};
use crate::rxm::session::{Ended, Place, Posted, Wire, id_of, put_slots, threshold_of};
use abi::fi_rma_iov;
use base::{Error, IoVec, Result};
use client::layer::{Lent, Loan, Slot};
use engine::address::ip::Addr;
use engine::testing::Random;
use engine::transport::Listener;
use object::ops::credits::CREDIT_MESSAGE;
use object::ops::transfer::RemoteSeg;

/// A request to the network, for the connection with the number `arrival`.
pub enum Out {
    Connect {
        place: Place,
        peer: Addr,
        request: Vec<u8>,
    },
    Close {
        arrival: u64,
    },
    /// `op`: the operation that completes then.
    Send {
        arrival: u64,
        op: Option<u64>,
        bytes: Vec<u8>,
    },
    Read {
        arrival: u64,
        op: u64,
        remote: Vec<fi_rma_iov>,
    },
    Write {
        arrival: u64,
        op: Option<u64>,
        remote: Vec<fi_rma_iov>,
        bytes: Vec<u8>,
    },
    Timer {
        id: usize,
        at: Instant,
    },
}

struct InFlight {
    arrival: u64,
    flight: Flight,
    loan: Loan,
}

/// The connection of a session.
struct Connection {
    arrival: u64,
    /// Operations that were accepted and have not left: `TestWire::left`.
    queued: usize,
    is_paused: bool,
    is_held: bool,
    /// Reaction of the peer's listener to the attempt.
    listener: Listener,
    /// Receives that are posted, and those of which the peer does not know: -1 for the one that it knows first.
    receives: usize,
    untold: isize,
    /// Messages that may be sent. `None`: any number.
    credits: Option<u64>,
    /// Credits that came before they were enabled.
    saved: u64,
}

pub struct TestWire {
    random: Random,
    eager: usize,
    /// Connections by session.
    links: BTreeMap<usize, Connection>,
    pub out: Vec<Out>,
    flying: BTreeMap<u64, InFlight>,
    last_op: u64,
    /// Connections whose end is not complete, with their sessions.
    closing: Vec<(u64, usize)>,
    ended: VecDeque<Ended>,
    /// Slots in use, and the most copies.
    heads: usize,
    copies: usize,
    most_copies: usize,
    /// Some attempts to connect fail at once.
    fails: bool,
    /// Receives of a connection if they are counted, otherwise 0.
    counted: usize,
    /// Operations that are accepted before the next turn.
    pub room: usize,
    /// Most operations of one connection that have not left.
    pub depth: usize,
    /// Memory that peers may read and write. The keys of its pieces are consecutive, from `FIRST_KEY`.
    lent: Vec<Weak<Lent>>,
}

/// The least key of memory that sessions lend; lower ones belong to the application.
const FIRST_KEY: u64 = 1 << 31;

impl TestWire {
    pub fn new(seed: u64, eager: usize, most_copies: usize, fails: bool) -> TestWire {
        TestWire {
            random: Random(seed),
            eager,
            links: BTreeMap::new(),
            out: Vec::new(),
            flying: BTreeMap::new(),
            last_op: 0,
            closing: Vec::new(),
            ended: VecDeque::new(),
            heads: 0,
            copies: 0,
            most_copies,
            fails,
            counted: 0,
            room: usize::MAX,
            depth: usize::MAX,
            lent: Vec::new(),
        }
    }

    /// Has connections with this number of receives, which are counted.
    pub fn with_receives(mut self, count: usize) -> TestWire {
        self.counted = count;
        self
    }

    /// Assigns a connection to a session. Returns whether its receives are counted.
    pub fn link(&mut self, place: Place) -> bool {
        let connection = Connection {
            arrival: place.arrival,
            queued: 0,
            is_paused: false,
            is_held: false,
            listener: Listener::Unknown,
            receives: self.counted,
            untold: self.counted as isize - 1,
            credits: None,
            saved: 0,
        };
        let before = self.links.insert(place.id, connection);
        assert!(before.is_none(), "a session has two connections");
        self.counted > 0
    }

    /// Posts no receives for a connection, although its session wants to receive.
    pub fn hold(&mut self, arrival: u64, on: bool) {
        if let Some(connection) = self.connection_mut(arrival) {
            connection.is_held = on;
        }
        self.post_receives(arrival);
    }

    /// Whether messages of any connection need credits.
    pub fn counts_messages(&self) -> bool {
        let mut all = self.links.values();
        all.any(|connection| connection.credits.is_some())
    }

    /// Returns the messages that may be sent; `None`: any number.
    pub fn credits_of(&self, arrival: u64) -> Option<u64> {
        self.links.get(&id_of(arrival))?.credits
    }

    /// A packet takes a receive of a connection.
    pub fn uses_receive(&mut self, arrival: u64) {
        let counted = self.counted;
        if let Some(connection) = self.connection_mut(arrival).filter(|_| counted > 0) {
            let is_known = connection.credits.is_some();
            assert!(
                !is_known || connection.receives > 0,
                "a packet finds no receive"
            );
            connection.receives = connection.receives.saturating_sub(1);
        }
    }

    /// Posts the missing receives of a connection.
    pub fn post_receives(&mut self, arrival: u64) {
        let counted = self.counted;
        if let Some(connection) = self.connection_mut(arrival)
            && !connection.is_paused
            && !connection.is_held
        {
            connection.untold += (counted - connection.receives) as isize;
            connection.receives = counted;
        }
    }

    fn arrival_of(&self, id: usize) -> Option<u64> {
        Some(self.links.get(&id)?.arrival)
    }

    fn connection_mut(&mut self, arrival: u64) -> Option<&mut Connection> {
        let connection = self.links.get_mut(&id_of(arrival))?;
        (connection.arrival == arrival).then_some(connection)
    }

    /// Whether a session has this connection.
    pub fn has(&self, id: usize, arrival: u64) -> bool {
        self.arrival_of(id) == Some(arrival)
    }

    /// Whether the session of this connection does not want to receive.
    pub fn is_paused(&self, arrival: u64) -> bool {
        let connection = self.links.get(&id_of(arrival));
        connection.is_some_and(|connection| connection.arrival == arrival && connection.is_paused)
    }

    /// The peer's kernel has accepted the connection.
    pub fn accepted(&mut self, arrival: u64) {
        if let Some(connection) = self.connection_mut(arrival) {
            connection.listener = Listener::Accepted;
        }
    }

    /// An operation of this connection has left its queue.
    pub fn left(&mut self, arrival: u64) {
        if let Some(connection) = self.connection_mut(arrival) {
            connection.queued -= 1;
        }
    }

    /// Frees the entries of memory that is not lent any more, as far as no later memory is.
    pub fn forget_lent(&mut self) {
        while self.lent.pop_if(|lent| lent.strong_count() == 0).is_some() {}
    }

    /// Takes an operation of a session, if there is room. Returns the number of the connection. `needs`: number of
    /// credits that there must be, one of which it costs.
    fn take(&mut self, id: usize, needs: u64) -> Option<u64> {
        let (room, depth) = (self.room, self.depth);
        self.room = self.room.saturating_sub(1);
        let connection = self.links.get_mut(&id)?;
        if room == 0 || connection.queued >= depth {
            return None;
        }
        if let Some(credits) = connection.credits.as_mut().filter(|_| needs > 0) {
            *credits = credits.checked_sub(needs)? + needs - 1;
        }
        connection.queued += 1;
        Some(connection.arrival)
    }

    /// Completes the end of a connection: its operations in flight end.
    pub fn finish_close(&mut self, arrival: u64) {
        let Some(at) = self.closing.iter().position(|&(of, _)| of == arrival) else {
            return;
        };
        let (_, id) = self.closing.remove(at);
        let ops: Vec<u64> = self.flying.keys().copied().collect();
        for op in ops {
            if self.flying[&op].arrival == arrival
                && let Some(flight) = self.end(op)
            {
                self.ended.push_back(Ended::Operation(flight));
            }
        }
        self.ended.push_back(Ended::Closed(id));
    }

    /// Ends an operation in flight. Returns `None` if it has ended already.
    pub fn end(&mut self, op: u64) -> Option<Flight> {
        let InFlight { flight, loan, .. } = self.flying.remove(&op)?;
        drop(put_slots(self, loan));
        Some(flight)
    }

    /// Writes the bytes that an operation has read to its memory.
    pub fn fill(&self, op: u64, bytes: &[u8]) {
        if let Some(InFlight {
            loan: Loan::Lent(lent, part),
            ..
        }) = self.flying.get(&op)
        {
            assert_eq!(part.len(), bytes.len());
            lent.write(part.start, bytes);
        }
    }

    /// Returns the memory that a session has lent to its peer, at an address. `None`: not lent here.
    pub fn lent_at(&self, at: &fi_rma_iov) -> Option<(Arc<Lent>, usize)> {
        let place = at.key.checked_sub(FIRST_KEY)? as usize;
        let lent = self.lent.get(place)?.upgrade();
        let lent = lent.expect("a peer uses memory that the application has got back");
        let mut skipped = 0;
        let spans: Vec<_> = lent.iov().spans().collect();
        for span in spans {
            let start = span.start as u64;
            if (start..start + span.len as u64).contains(&at.addr) {
                let offset = (at.addr - start) as usize;
                assert!(at.len <= span.len - offset);
                return Some((lent, skipped + offset));
            }
            skipped += span.len;
        }
        panic!("a peer uses an address that was not lent");
    }

    /// Whether nothing is in use.
    pub fn is_idle(&self) -> bool {
        let counts = [self.flying.len(), self.heads, self.copies, self.links.len()];
        let is_lent = self.lent.iter().any(|lent| lent.upgrade().is_some());
        counts == [0; 4] && self.closing.is_empty() && self.ended.is_empty() && !is_lent
    }

    fn bytes_of(loan: &Loan) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (slot, lent) = match loan {
            Loan::Slot(slot, len) => (Some((slot, *len)), None),
            Loan::Lent(lent, part) => (None, Some((lent, part.clone()))),
            Loan::Both(slot, len, lent, part) => (Some((slot, *len)), Some((lent, part.clone()))),
            Loan::Nothing | Loan::Operands(_) | Loan::Block(_) => (None, None),
        };
        if let Some((slot, len)) = slot {
            bytes.extend_from_slice(&slot.bytes()[..len]);
        }
        if let Some((lent, part)) = lent {
            let mut place = lent.iov().cursor();
            place.advance(part.start);
            place.truncate(part.len());
            place.copy_out(&mut bytes);
        }
        bytes
    }
}

impl Wire for TestWire {
    fn connect(
        &mut self,
        at: Place,
        _own: &Addr,
        peer: &Addr,
        mut request: Request,
    ) -> Result<bool> {
        let counts = self.link(at);
        request.flow = FlowControl::of_side(counts);
        self.out.push(Out::Connect {
            place: at,
            peer: *peer,
            request: request.encode().to_vec(),
        });
        match self.fails && self.random.one_in(20) {
            true => Err(Error::CONNREFUSED),
            false => Ok(counts),
        }
    }

    fn enable_credits(&mut self, id: usize) -> Result {
        let connection = self.links.get_mut(&id).ok_or(Error::NOTCONN)?;
        assert_eq!(connection.credits, None, "credits are enabled twice");
        connection.credits = Some(1 + connection.saved);
        Ok(())
    }

    fn add_credits(&mut self, id: usize, count: u64) {
        if let Some(connection) = self.links.get_mut(&id) {
            *connection.credits.as_mut().unwrap_or(&mut connection.saved) += count;
        }
    }

    fn take_due_credits(&mut self) -> Option<(usize, u64)> {
        let threshold = threshold_of(self.counted) as isize;
        let is_due = |connection: &&mut Connection| {
            connection.credits.is_some() && connection.untold >= threshold
        };
        let mut all = self.links.iter_mut();
        let (&id, connection) = all.find(|(_, connection)| is_due(connection))?;
        Some((id, core::mem::take(&mut connection.untold) as u64))
    }

    fn close(&mut self, id: usize) {
        let Some(Connection { arrival, .. }) = self.links.remove(&id) else {
            return;
        };
        self.out.push(Out::Close { arrival });
        self.closing.push((arrival, id));
        if self.random.one_in(2) {
            self.finish_close(arrival);
        }
    }

    fn is_closing(&self, id: usize) -> bool {
        self.closing.iter().any(|&(_, of)| of == id)
    }

    fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn has_reacted(&self, id: usize, least: Listener) -> Option<bool> {
        let listener = self.links.get(&id)?.listener;
        Some(listener as usize >= least as usize)
    }

    fn schedule(&mut self, id: usize, at: Instant) {
        self.out.push(Out::Timer { id, at });
    }

    fn pause(&mut self, id: usize, on: bool) {
        if let Some(connection) = self.links.get_mut(&id) {
            connection.is_paused = on;
            let arrival = connection.arrival;
            self.post_receives(arrival);
        }
    }

    fn random(&mut self) -> Result<u32> {
        Ok(self.random.draw() as u32)
    }

    fn inject(&mut self, id: usize, bytes: &[u8]) -> bool {
        let Some(arrival) = self.take(id, 2) else {
            return false;
        };
        self.out.push(Out::Send {
            arrival,
            op: None,
            bytes: bytes.to_vec(),
        });
        true
    }

    fn inject_write(
        &mut self,
        id: usize,
        bytes: &[u8],
        _data: Option<u64>,
        to: &RemoteSeg,
    ) -> bool {
        let Some(arrival) = self.take(id, 0) else {
            return false;
        };
        self.out.push(Out::Write {
            arrival,
            op: None,
            remote: vec![iov_of(to)],
            bytes: bytes.to_vec(),
        });
        true
    }

    fn post(&mut self, post: Post) -> Posted {
        let id = post.flight.id;
        if !self.links.contains_key(&id) {
            return Posted::Failed(post, Error::NOTCONN);
        }
        let needs = match post.call {
            Call::Send { flags } if flags & CREDIT_MESSAGE.bits() != 0 => 1,
            Call::Send { .. } => 2,
            Call::Read { .. } | Call::Write { .. } => 0,
        };
        let Some(arrival) = self.take(id, needs) else {
            return Posted::Later(post);
        };
        self.last_op += 1;
        let op = self.last_op;
        let Post { call, loan, flight } = post;
        let bytes = Self::bytes_of(&loan);
        self.out.push(match call {
            Call::Send { .. } => Out::Send {
                arrival,
                op: Some(op),
                bytes,
            },
            Call::Read { remote, .. } => Out::Read {
                arrival,
                op,
                remote: remote.list().to_vec(),
            },
            Call::Write { remote, .. } => Out::Write {
                arrival,
                op: Some(op),
                remote: remote.list().to_vec(),
                bytes,
            },
        });
        self.flying.insert(
            op,
            InFlight {
                arrival,
                flight,
                loan,
            },
        );
        Posted::Yes
    }

    fn flights_mut(&mut self) -> impl Iterator<Item = (&mut Flight, bool)> {
        let all = self.flying.values_mut();
        all.map(|flying| (&mut flying.flight, flying.loan.is_lent()))
    }

    fn flights(&self) -> impl Iterator<Item = &Flight> {
        self.flying.values().map(|flying| &flying.flight)
    }

    fn take_head(&mut self) -> Result<Slot> {
        self.heads += 1;
        Ok(Slot::alone(HEAD_SIZE))
    }

    fn take_copy(&mut self) -> Result<Slot> {
        if self.copies_left() == 0 {
            return Err(Error::AGAIN);
        }
        self.copies += 1;
        Ok(Slot::alone(HEADER + self.eager))
    }

    fn heads_left(&self) -> usize {
        usize::MAX
    }

    fn copies_left(&self) -> usize {
        self.most_copies - self.copies
    }

    fn put(&mut self, slot: Slot) {
        match slot.room() {
            HEAD_SIZE => self.heads -= 1,
            _ => self.copies -= 1,
        }
    }

    fn lend(
        &mut self,
        id: usize,
        iov: IoVec,
        _access: u64,
    ) -> core::result::Result<Arc<Lent>, (IoVec, Error)> {
        if !self.links.contains_key(&id) {
            return Err((iov, Error::AGAIN));
        }
        let first = FIRST_KEY + self.lent.len() as u64;
        let pieces = iov.pieces();
        let lent = Lent::alone(iov, first..first + pieces as u64);
        let end = self.lent.len() + pieces;
        self.lent.resize(end, Arc::downgrade(&lent));
        Ok(lent)
    }

    fn counts_reads(&self, _ep: usize) -> bool {
        false
    }
}
