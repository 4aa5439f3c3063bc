// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages over several rails: docs/wire/lnx.md. In place of such a message its sender sends a note (`note`),
//! which keeps the order of messages and is matched in place of the message. The receiver reads the message in slices,
//! over all rails at the same time, and tells the sender when it is over.
//!
//! This is the state of both sides; `lanes` calls the rails.

use core::ops::Range;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use super::note::{self, Kind, Note};
use abi::fi_addr_t;
use base::{Error, IoVec, Result};
use client::layer::{Exposed, Lent};
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

/// One endpoint of a peer, as it is reached over one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub ep: usize,
    pub rail: usize,
    pub place: fi_addr_t,
}

pub struct Stripes {
    /// The random number in the names of this domain's endpoints.
    pub own: u32,
    outgoing: Slab<Outgoing>,
    incoming: Slab<Incoming>,
    /// The messages of each peer that are being read. They end in this order.
    reading: HashMap<Peer, VecDeque<usize>>,
    /// Distinguishes the messages that have the same place one after the other.
    count: u32,
    pub todo: VecDeque<Todo>,
    /// When to ask for outgoing messages next.
    pub next_ask: Option<Instant>,
}

/// Work that calls of the peers have left.
pub enum Todo {
    /// Go on with the messages of this peer.
    Read(Peer),
    Tell(Peer, Note),
    /// Close the regions of a message, and then complete it.
    Complete(Box<Outgoing>, Result),
}

/// A message of this side, which its receiver reads.
pub struct Outgoing {
    pub op: TxOp,
    pub to: Peer,
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
    /// Messages up to this number that fill a receive by themselves end before.
    after: u64,
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
    pub fn new(own: u32) -> Stripes {
        Stripes {
            own,
            outgoing: Slab::new(),
            incoming: Slab::new(),
            reading: HashMap::new(),
            count: 0,
            todo: VecDeque::new(),
            next_ask: None,
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

    /// The connection to a peer has ended, over which messages were offered.
    pub fn fail(&mut self, peer: &Peer, error: Error) {
        let offered = self.outgoing.iter();
        let offered = offered.filter(|(_, outgoing)| outgoing.to == *peer);
        let failed: Vec<usize> = offered.map(|(place, _)| place).collect();
        for place in failed {
            let outgoing = Box::new(self.outgoing.remove(place));
            self.todo.push_back(Todo::Complete(outgoing, Err(error)));
        }
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

    /// Begins to read a message into its receive. `after`: the number of the last message before that fills one by
    /// itself.
    pub fn begin(&mut self, number: usize, mut recv: RecvOp, after: u64) {
        let Some(incoming) = self.incoming.get_mut(number) else {
            return;
        };
        let len = usize::try_from(incoming.envelope.len).unwrap_or(usize::MAX);
        let wanted = len.min(recv.len);
        let each = wanted / (4 * incoming.lanes.len().max(1));
        incoming.reading = Some(Reading {
            after,
            lent: Lent::unregistered(recv.iov.take()),
            recv,
            wanted,
            slice: each.next_multiple_of(4096).clamp(SLICE.start, SLICE.end),
            next: 0,
            again: Vec::new(),
            error: None,
        });
        let queue = self.reading.entry(incoming.from).or_default();
        queue.push_back(number);
        self.todo.push_back(Todo::Read(incoming.from));
    }

    /// The memory that is read over a lane.
    pub fn lane(&self, number: usize, lane: usize) -> Option<&Lane> {
        self.incoming.get(number)?.lanes.get(lane)
    }

    /// The next slice to read from a peer, with the number of its message, if a lane has time for it.
    pub fn next_slice(&mut self, peer: &Peer) -> Option<(usize, Slice)> {
        let queue = self.reading.get(peer)?;
        let is_left = |&&number: &&usize| {
            let incoming = self.incoming.get(number);
            incoming.is_some_and(Incoming::has_slices)
        };
        let number = *queue.iter().find(is_left)?;
        Some((number, self.slice_of(number)?))
    }

    fn slice_of(&mut self, number: usize) -> Option<Slice> {
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

    /// A slice was read, or not. On FI_EAGAIN it is read later, on another error over another lane.
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

    /// A message has to be read on, or is over.
    pub fn go_on(&mut self, number: usize) {
        if let Some(incoming) = self.incoming.get(number) {
            self.todo.push_back(Todo::Read(incoming.from));
        }
    }

    /// Whether messages are read, or were read and wait for others.
    #[inline]
    pub fn is_reading(&self) -> bool {
        !self.reading.is_empty()
    }

    /// A message has ended for which others may wait.
    #[cold]
    pub fn look(&mut self) {
        let peers = self.reading.keys().copied();
        self.todo.extend(peers.map(Todo::Read));
    }

    /// Ends the peer's first message if that was read, or cannot be read any further, and tells the sender.
    /// `is_first`: whether no message of its sender up to this number fills a receive by itself.
    pub fn end(
        &mut self,
        peer: &Peer,
        is_first: impl FnOnce(&Envelope, u64) -> bool,
    ) -> Option<Over> {
        let queue = self.reading.get_mut(peer)?;
        let number = *queue.front()?;
        let incoming = self.incoming.get(number)?;
        let reading = incoming.reading.as_ref()?;
        let is_busy = incoming.lanes.iter().any(|lane| lane.busy > 0);
        let is_whole = reading.next == reading.wanted && reading.again.is_empty();
        if is_busy || !(is_whole || reading.error.is_some()) {
            return None;
        }
        if !is_first(&incoming.envelope, reading.after) {
            return None;
        }
        let result = reading.error.map_or(Ok(()), Err);
        queue.pop_front();
        if queue.is_empty() {
            self.reading.remove(peer);
        }
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
        self.reading.retain(|from, _| from.ep != ep);
        self.todo.retain(|todo| match todo {
            Todo::Tell(peer, _) => peer.ep != ep,
            Todo::Complete(outgoing, _) => outgoing.to.ep != ep,
            Todo::Read(_) => true,
        });
    }
}

impl Incoming {
    /// Whether there is something to read that no lane has begun.
    fn has_slices(&self) -> bool {
        let left = |reading: &Reading| reading.next < reading.wanted || !reading.again.is_empty();
        let reading = self.reading.as_ref();
        reading.is_some_and(|reading| reading.error.is_none() && left(reading))
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::OpFlags;
    use base::iovec::lent::TestMemory;
    use object::ops::transfer::What;

    const PEER: Peer = Peer {
        ep: 0,
        rail: 1,
        place: 5,
    };
    const KIB: usize = 1024;

    fn stripes() -> Stripes {
        Stripes::new(7)
    }

    fn lanes(count: usize) -> Vec<Lane> {
        let memory = |part| note::Lane {
            part,
            addr: 0,
            key: 0,
        };
        let lane = |rail: usize| Lane::new(rail, 5, memory(rail as u16));
        (1..=count).map(lane).collect()
    }

    fn offer(stripes: &mut Stripes, len: usize, count: usize, message: u64) -> usize {
        let note = Note {
            to: 7,
            from: 9,
            message,
            kind: Kind::Ask,
        };
        let envelope = Envelope {
            what: What::Tagged,
            source: 3,
            token: 1,
            ep: 0,
            tag: 1,
            len: len as u64,
            data: None,
            note: 0,
        };
        stripes.offered(PEER, &note, lanes(count), envelope)
    }

    fn recv(memory: &TestMemory) -> RecvOp {
        RecvOp {
            iov: memory.iov(0, memory.len()),
            base: 0,
            len: memory.len(),
            context: 0,
            flags: OpFlags::empty(),
            multi: None,
        }
    }

    fn told(stripes: &mut Stripes) -> Vec<Note> {
        let note = |todo| match todo {
            Todo::Tell(PEER, note) => Some(note),
            _ => None,
        };
        stripes.todo.drain(..).filter_map(note).collect()
    }

    fn over(stripes: &mut Stripes) -> Option<Result> {
        Some(stripes.end(&PEER, |_, after| after == 0)?.result)
    }

    #[test]
    fn a_message_is_read_in_slices_over_all_lanes() {
        let memory = TestMemory::new(vec![0; 1024 * KIB]);
        let mut stripes = stripes();
        let number = offer(&mut stripes, memory.len(), 2, 1);
        assert!(stripes.next_slice(&PEER).is_none());
        stripes.begin(number, recv(&memory), 0);
        let mut read = Vec::new();
        let mut lengths = [0; 2];
        loop {
            // Each lane has two slices at the same time.
            let now: Vec<_> = std::iter::from_fn(|| stripes.next_slice(&PEER)).collect();
            if now.is_empty() {
                break;
            }
            assert!(now.len() <= 2 * DEPTH);
            for (of, slice) in now {
                assert_eq!(of, number);
                assert!(over(&mut stripes).is_none());
                lengths[slice.lane] += slice.range.len();
                read.push(slice.range.clone());
                let range = slice.range.clone();
                let lane = slice.lane;
                drop(slice);
                stripes.slice_over(number, lane, range, Ok(()));
            }
        }
        read.sort_by_key(|range| range.start);
        assert!(read.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((read[0].start, read[read.len() - 1].end), (0, memory.len()));
        assert_eq!(lengths, [memory.len() / 2; 2]);
        assert_eq!(over(&mut stripes), Some(Ok(())));
        let [note] = &told(&mut stripes)[..] else {
            panic!("one answer");
        };
        assert_eq!(
            (note.to, note.from, note.message, &note.kind),
            (9, 7, 1, &Kind::Over(Ok(())))
        );
    }

    #[test]
    fn messages_of_a_peer_end_in_their_order() {
        let memory = TestMemory::new(vec![0; 64 * KIB]);
        let mut stripes = stripes();
        let numbers = [1, 2].map(|message| offer(&mut stripes, memory.len(), 1, message));
        for number in numbers {
            stripes.begin(number, recv(&memory), 0);
        }
        let slices: Vec<_> = std::iter::from_fn(|| stripes.next_slice(&PEER)).collect();
        let ranges: Vec<_> = slices
            .iter()
            .map(|(of, it)| (*of, it.range.clone()))
            .collect();
        assert_eq!(ranges, numbers.map(|number| (number, 0..memory.len())));
        drop(slices);
        stripes.slice_over(numbers[1], 0, 0..memory.len(), Ok(()));
        assert!(over(&mut stripes).is_none());
        stripes.slice_over(numbers[0], 0, 0..memory.len(), Ok(()));
        assert_eq!(
            [(); 3].map(|()| over(&mut stripes)),
            [Some(Ok(())), Some(Ok(())), None]
        );
    }

    #[test]
    fn another_lane_reads_what_one_could_not() {
        let memory = TestMemory::new(vec![0; 64 * KIB]);
        let mut stripes = stripes();
        let number = offer(&mut stripes, memory.len(), 2, 1);
        stripes.begin(number, recv(&memory), 0);
        for (error, wanted) in [
            (Error::AGAIN, None),
            (Error::CONNRESET, None),
            (Error::TIMEDOUT, Some(Err(Error::TIMEDOUT))),
        ] {
            let (_, slice) = stripes.next_slice(&PEER).unwrap();
            let (lane, range) = (slice.lane, slice.range.clone());
            drop(slice);
            stripes.slice_over(number, lane, range, Err(error));
            assert_eq!(over(&mut stripes), wanted);
        }
        let answers = told(&mut stripes);
        assert_eq!(answers[0].kind, Kind::Over(Err(Error::TIMEDOUT)));
    }

    #[test]
    fn only_what_fits_is_read() {
        let memory = TestMemory::new(vec![0; 10]);
        let mut stripes = stripes();
        let number = offer(&mut stripes, 1 << 40, 2, 1);
        stripes.begin(number, recv(&memory), 0);
        let (_, slice) = stripes.next_slice(&PEER).unwrap();
        assert_eq!(slice.range, 0..10);
        assert!(stripes.next_slice(&PEER).is_none());
    }

    #[test]
    fn questions_about_unknown_messages_are_answered() {
        let mut stripes = stripes();
        let number = offer(&mut stripes, 1, 1, 4);
        let ask = |message| Note {
            to: 7,
            from: 9,
            message,
            kind: Kind::Ask,
        };
        stripes.asked(PEER, &ask(4));
        assert!(told(&mut stripes).is_empty());
        stripes.asked(PEER, &ask(5));
        assert_eq!(
            told(&mut stripes)[0].kind,
            Kind::Over(Err(Error::CONNRESET))
        );
        // A discarded message is over.
        drop(stripes.drop_offer(number, Ok(())));
        assert_eq!(told(&mut stripes)[0].kind, Kind::Over(Ok(())));
        stripes.asked(PEER, &ask(4));
        assert_eq!(told(&mut stripes).len(), 1);
    }

    #[test]
    fn offers_are_over_once_and_for_their_receiver_only() {
        let memory = TestMemory::new(vec![0; 10]);
        let mut stripes = stripes();
        let op = TxOp {
            what: What::Msg,
            since: 0,
            ep: 0,
            flags: OpFlags::empty(),
            context: 0,
            len: 10,
        };
        let now = Instant::now();
        let lent = Lent::unregistered(memory.iov(0, 10));
        let message = stripes.add(op, (PEER, 9), (lent, Vec::new()), now);
        let other = Peer { place: 6, ..PEER };
        assert!(!stripes.complete_of(message, &other, Ok(())));
        assert!(!stripes.complete_of(message + (1 << 32), &PEER, Ok(())));
        // The receiver is asked when it has not read for long.
        stripes.ask(now);
        assert!(told(&mut stripes).is_empty());
        stripes.ask(now + PATIENCE);
        let asked = told(&mut stripes);
        assert_eq!(
            (asked[0].to, asked[0].message, &asked[0].kind),
            (9, message, &Kind::Ask)
        );
        assert!(stripes.complete_of(message, &PEER, Ok(())));
        assert!(!stripes.complete_of(message, &PEER, Ok(())));
        assert!(matches!(
            stripes.todo.pop_front(),
            Some(Todo::Complete(outgoing, Ok(()))) if outgoing.to == PEER
        ));
        stripes.ask(now + 3 * PATIENCE);
        assert_eq!(stripes.next_ask, None);
    }
}
