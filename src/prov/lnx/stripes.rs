// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages over several rails: docs/wire/lnx.md. In place of such a message its sender sends a note (`note`),
//! which keeps the order of messages and is matched in place of the message. The receiver reads the message in slices,
//! over all rails at the same time, and tells the sender when it is over.
//!
//! This is the state of both sides; `lanes` calls the rails.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use super::note::{self, Kind, Note};
use abi::fi_addr_t;
use base::{Error, IoVec, Result};
use client::layer::{Exposed, Lent, Loan, Pool, Registrar, Slot};
use engine::domain_state::TxOp;
use engine::srx::{Envelope, RecvOp};

/// Messages whose number has this bit wait as offers; those of entries never have it.
pub const OFFERED: u64 = 1 << 63;
/// The time after which the sender asks whether the receiver still has its offer.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Slices that are read at the same time over one rail.
const DEPTH: usize = 2;
/// Bytes of a slice, at least and at most.
const SLICE: Range<usize> = 64 << 10..1 << 20;
/// Notes on the way at most.
const NOTES: usize = 1024;

/// One endpoint of a peer, as it is reached over one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub ep: usize,
    pub rail: usize,
    pub place: fi_addr_t,
}

pub struct Stripes {
    /// The random number in the names of this domain's endpoints.
    pub own: u32,
    pool: Pool,
    outgoing: Slab<Outgoing>,
    incoming: Slab<Incoming>,
    /// Distinguishes the messages that have the same place one after the other.
    count: u32,
    pub todo: VecDeque<Todo>,
    /// When to ask for outgoing messages next.
    pub next_ask: Option<Instant>,
}

/// What calls of the peers have left to do.
pub enum Todo {
    /// Go on with this incoming message.
    Read(usize),
    Tell(Peer, Note),
    /// Close the regions of a message, and then complete it.
    Complete(Box<Outgoing>, Result),
}

/// A message of this side, which its receiver reads.
pub struct Outgoing {
    pub op: TxOp,
    to: Peer,
    /// The random number in the receiver's name.
    nonce: u32,
    count: u32,
    /// The memory, registered with each rail.
    _memory: Vec<Exposed>,
    lent: Arc<Lent>,
    since: Instant,
}

/// A message of a peer.
pub struct Incoming {
    /// The sender, as the offer came.
    pub from: Peer,
    /// The random number in the sender's name.
    nonce: u32,
    message: u64,
    pub envelope: Envelope,
    lanes: Vec<Lane>,
    /// None until there is a receive.
    reading: Option<Reading>,
}

/// A rail over which an incoming message is read.
#[derive(Debug)]
pub struct Lane {
    pub rail: usize,
    pub place: fi_addr_t,
    pub memory: note::Lane,
    busy: usize,
    is_down: bool,
}

impl Lane {
    pub fn new(rail: usize, place: fi_addr_t, memory: note::Lane) -> Lane {
        Lane {
            rail,
            place,
            memory,
            busy: 0,
            is_down: false,
        }
    }
}

struct Reading {
    recv: RecvOp,
    lent: Arc<Lent>,
    /// Bytes to read.
    wanted: usize,
    slice: usize,
    next: usize,
    /// Slices to be read once more, because the first lane has failed.
    again: Vec<Range<usize>>,
    error: Option<Error>,
}

/// A slice to be read.
pub struct Slice {
    pub lane: usize,
    pub range: Range<usize>,
    pub lent: Arc<Lent>,
}

/// A message that was read.
pub struct Over {
    pub recv: RecvOp,
    pub envelope: Envelope,
    pub result: Result,
}

impl Stripes {
    pub fn new(own: u32, registrar: &Registrar) -> Stripes {
        Stripes {
            own,
            pool: Pool::new(registrar.clone(), note::LEN, abi::FI_SEND, NOTES),
            outgoing: Slab::new(),
            incoming: Slab::new(),
            count: 0,
            todo: VecDeque::new(),
            next_ask: None,
        }
    }

    pub fn note(&mut self, note: &Note) -> Result<Slot> {
        let mut slot = self.pool.take()?;
        note.write(slot.bytes_mut());
        Ok(slot)
    }

    /// A note has been sent, or will not be.
    pub fn put_back(&mut self, loan: Loan) {
        if let Loan::Slot(slot, _) = loan {
            self.pool.put(slot);
        }
    }

    /// Adds a message that will be offered. Returns its number.
    pub fn add(
        &mut self,
        op: TxOp,
        (to, nonce): (Peer, u32),
        (lent, memory): (Arc<Lent>, Vec<Exposed>),
        now: Instant,
    ) -> u64 {
        self.count = self.count.wrapping_add(1);
        let place = self.outgoing.insert(Outgoing {
            op,
            to,
            nonce,
            count: self.count,
            _memory: memory,
            lent,
            since: now,
        });
        self.next_ask.get_or_insert(now + PATIENCE);
        u64::from(self.count) << 32 | place as u64
    }

    fn outgoing_at(&self, message: u64) -> Option<usize> {
        let place = (message & u64::from(u32::MAX)) as usize;
        let found = self.outgoing.get(place)?;
        (u64::from(found.count) == message >> 32).then_some(place)
    }

    /// A message is over. Its regions cannot be closed during a call of a peer.
    pub fn complete(&mut self, message: u64, result: Result) {
        if let Some(outgoing) = self.take(message) {
            let complete = Todo::Complete(Box::new(outgoing), result);
            self.todo.push_back(complete);
        }
    }

    /// As `complete`, if the message was offered to this peer. Returns whether it was.
    pub fn complete_of(&mut self, message: u64, peer: &Peer, result: Result) -> bool {
        let place = self.outgoing_at(message);
        let is_its = place.is_some_and(|place| self.outgoing[place].to == *peer);
        if is_its {
            self.complete(message, result);
        }
        is_its
    }

    /// Takes a message that was not offered after all.
    pub fn take(&mut self, message: u64) -> Option<Outgoing> {
        let place = self.outgoing_at(message)?;
        Some(self.outgoing.remove(place))
    }

    /// Asks for the messages that have waited for long.
    pub fn ask(&mut self, now: Instant) {
        if self.next_ask.is_none_or(|at| at > now) {
            return;
        }
        for (place, outgoing) in &mut self.outgoing {
            if now - outgoing.since < PATIENCE {
                continue;
            }
            let note = Note {
                to: outgoing.nonce,
                from: self.own,
                message: u64::from(outgoing.count) << 32 | place as u64,
                kind: Kind::Ask,
            };
            self.todo.push_back(Todo::Tell(outgoing.to, note));
        }
        self.next_ask = (!self.outgoing.is_empty()).then(|| now + PATIENCE);
    }

    /// Adds the offer of a peer. Returns its number.
    pub fn offered(
        &mut self,
        from: Peer,
        note: &Note,
        lanes: Vec<Lane>,
        envelope: Envelope,
    ) -> usize {
        let entry = self.incoming.vacant_entry();
        let number = entry.key();
        entry.insert(Incoming {
            from,
            nonce: note.from,
            message: note.message,
            envelope: Envelope {
                note: OFFERED | number as u64,
                ..envelope
            },
            lanes,
            reading: None,
        });
        number
    }

    pub fn incoming(&self, number: usize) -> Option<&Incoming> {
        self.incoming.get(number)
    }

    /// Answers a question of a peer: nothing if the message is still there.
    pub fn asked(&mut self, from: Peer, note: &Note) {
        let is_it = |incoming: &Incoming| incoming.from == from && incoming.message == note.message;
        if !self.incoming.iter().any(|(_, incoming)| is_it(incoming)) {
            self.refuse(from, note);
        }
    }

    /// Tells the sender of a note that its message is lost.
    pub fn refuse(&mut self, from: Peer, note: &Note) {
        let answer = Note {
            to: note.from,
            from: self.own,
            message: note.message,
            kind: Kind::Over(Err(Error::CONNRESET)),
        };
        self.todo.push_back(Todo::Tell(from, answer));
    }

    /// Begins to read a message into its receive.
    pub fn begin(&mut self, number: usize, mut recv: RecvOp) {
        let Some(incoming) = self.incoming.get_mut(number) else {
            return;
        };
        let len = usize::try_from(incoming.envelope.len).unwrap_or(usize::MAX);
        let wanted = len.min(recv.len);
        let each = wanted / (4 * incoming.lanes.len().max(1));
        incoming.reading = Some(Reading {
            lent: Lent::unregistered(recv.iov.take()),
            recv,
            wanted,
            slice: each.next_multiple_of(4096).clamp(SLICE.start, SLICE.end),
            next: 0,
            again: Vec::new(),
            error: None,
        });
        self.todo.push_back(Todo::Read(number));
    }

    /// The memory that is read over a lane.
    pub fn lane(&self, number: usize, lane: usize) -> Option<&Lane> {
        self.incoming.get(number)?.lanes.get(lane)
    }

    /// The next slice to read, if a lane has time for it.
    pub fn next_slice(&mut self, number: usize) -> Option<Slice> {
        let Incoming { lanes, reading, .. } = self.incoming.get_mut(number)?;
        let reading = reading.as_mut().filter(|reading| reading.error.is_none())?;
        let usable = lanes.iter().enumerate();
        let usable = usable.filter(|(_, lane)| !lane.is_down && lane.busy < DEPTH);
        let (at, _) = usable.min_by_key(|(_, lane)| lane.busy)?;
        let range = match reading.again.pop() {
            Some(range) => range,
            None if reading.next < reading.wanted => {
                let start = reading.next;
                reading.next = reading.wanted.min(start + reading.slice);
                start..reading.next
            }
            None => return None,
        };
        lanes[at].busy += 1;
        Some(Slice {
            lane: at,
            range,
            lent: reading.lent.clone(),
        })
    }

    /// A slice was read. On FI_EAGAIN it is read later, on another error over another lane.
    pub fn slice_over(&mut self, number: usize, lane: usize, range: Range<usize>, result: Result) {
        let Some(Incoming { lanes, reading, .. }) = self.incoming.get_mut(number) else {
            return;
        };
        let (Some(at), Some(reading)) = (lanes.get_mut(lane), reading) else {
            return;
        };
        at.busy -= 1;
        if let Err(error) = result {
            reading.again.push(range);
            at.is_down |= error != Error::AGAIN;
            if lanes.iter().all(|lane| lane.is_down) {
                reading.error = Some(error);
            }
        }
    }

    /// Ends a message that was read, or cannot be read any further, and tells the sender.
    pub fn end(&mut self, number: usize) -> Option<Over> {
        let incoming = self.incoming.get(number)?;
        let reading = incoming.reading.as_ref()?;
        let is_busy = incoming.lanes.iter().any(|lane| lane.busy > 0);
        let is_whole = reading.next == reading.wanted && reading.again.is_empty();
        if is_busy || !(is_whole || reading.error.is_some()) {
            return None;
        }
        let result = reading.error.map_or(Ok(()), Err);
        let Incoming {
            envelope, reading, ..
        } = self.drop_offer(number, result)?;
        let Reading { recv, lent, .. } = reading?;
        drop(lent);
        Some(Over {
            recv,
            envelope,
            result,
        })
    }

    /// Forgets an offer, and tells its sender.
    pub fn drop_offer(&mut self, number: usize, result: Result) -> Option<Incoming> {
        let incoming = self.incoming.try_remove(number)?;
        let answer = Note {
            to: incoming.nonce,
            from: self.own,
            message: incoming.message,
            kind: Kind::Over(result),
        };
        self.todo.push_back(Todo::Tell(incoming.from, answer));
        Some(incoming)
    }

    /// Whether the endpoint has promised messages that are still being read.
    pub fn owes(&self, ep: Option<usize>) -> bool {
        let promised = |outgoing: &Outgoing| {
            ep.is_none_or(|ep| ep == outgoing.op.ep()) && outgoing.op.is_promised()
        };
        self.outgoing.iter().any(|(_, outgoing)| promised(outgoing))
    }

    /// Drops what belongs to an endpoint that is closed.
    pub fn close(&mut self, ep: usize) {
        self.outgoing.retain(|_, outgoing| outgoing.to.ep != ep);
        self.incoming.retain(|_, incoming| incoming.from.ep != ep);
        self.todo.retain(|todo| match todo {
            Todo::Tell(peer, _) => peer.ep != ep,
            Todo::Complete(outgoing, _) => outgoing.to.ep != ep,
            Todo::Read(_) => true,
        });
    }
}

impl Outgoing {
    /// The memory, which is not registered any more.
    pub fn into_memory(self) -> Option<IoVec> {
        let Outgoing { _memory, lent, .. } = self;
        drop(_memory);
        lent.take_back()
    }
}
