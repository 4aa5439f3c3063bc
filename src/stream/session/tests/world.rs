// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two sessions, the link between them, and all posted operations. The world knows the expected result of each
//! operation, whatever the link does.

use std::sync::OnceLock;

use super::side::{Agreed, Completion, KEY, Side};
use crate::link::Link;
use crate::link::sim::SimLink;
use crate::process_probe::ProcessProbe;
use crate::session::Ending;
use crate::session::receive_state::At;
use crate::shm_channel::ShmChannel;
use abi::*;
use base::iovec::lent::TestMemory;
use base::{Error, IoVec, OpFlags};
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{Context, RemoteSeg, Rx, Tx, What};
use sys::process_memory::Process;
use sys::socket::Socket;

/// Pseudo-random numbers that depend only on the seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns true in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Returns the bytes of operation `id`.
fn content(id: usize, len: usize) -> Vec<u8> {
    let mut random = Random(id as u64);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns the content of the memory that the peer of `side` reads.
fn pattern(side: usize) -> &'static [u8] {
    static BOTH: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    &BOTH.get_or_init(|| [0, 1].map(|side| content(1_000_000 + side, READ)))[side]
}

struct Op {
    side: usize,
    what: What,
    flags: OpFlags,
    len: usize,
    memory: TestMemory,
    data: Option<u64>,
    /// Offset in the peer's memory, for a write or a read.
    at: usize,
    /// Counter of an atomic operation.
    counter: usize,
    /// For a message: its lane at the peer, and its position there.
    lane: usize,
    place: usize,
    is_cancelled: bool,
    is_done: bool,
}

struct Receive {
    side: usize,
    lane: usize,
    /// Position of the receive in its lane, without cancelled ones: it takes the message at the same position.
    place: usize,
    len: usize,
    memory: TestMemory,
    is_done: bool,
}

enum Posted {
    Op(Op),
    Receive(Receive),
}

#[derive(Default)]
struct Lane {
    messages: Vec<usize>,
    receives: usize,
}

/// Classes of tags; untagged messages have a lane of their own.
const CLASSES: usize = 3;
const LANES: usize = 1 + CLASSES;
/// Sizes of the areas in the peer's memory: read area, write area, counters.
const READ: usize = 32 * 1024;
const WRITE: usize = 28 * 1024;
const COUNTERS: usize = 8;
/// Maximum of polls until everything is over.
const ROUNDS: usize = 10_000;
const MEMORY: usize = READ + WRITE + 8 * COUNTERS;

pub struct World {
    pub random: Random,
    sides: [Side; 2],
    agreed: Agreed,
    /// Indexed by context.
    posted: Vec<Posted>,
    lanes: [[Lane; LANES]; 2],
    /// Tagged receives accept any tag.
    is_wild: bool,
    /// Offset of the next write, on each side.
    written: [usize; 2],
    /// Additions and fetching additions posted for each counter.
    added: [[u64; COUNTERS]; 2],
    is_cut: bool,
    may_fail: bool,
    pub over_ring: bool,
    /// Whether a message stopped in its payload because there was no room for the rest.
    pub has_stopped: bool,
    /// Number of connections that were closed in agreement, and reopened.
    pub reopened: usize,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let over_ring = random.one_in(3);
        let extended = !random.one_in(4);
        let agreed = Agreed {
            swap: !over_ring && random.one_in(8),
            rendezvous: over_ring || !random.one_in(3),
            extended: over_ring || extended,
            saved_size: random.of(&[64, 1024, 8192, usize::MAX]),
            saved_bytes: random.of(&[0, 2000, 20_000, 1 << 20]),
            keeps_offers: over_ring && random.one_in(2),
        };
        let [a, b] = links(&mut random, over_ring);
        let memory = |side: usize| {
            let mut bytes = pattern(side).to_vec();
            bytes.resize(MEMORY, 0);
            bytes
        };
        let mut sides = [
            Side::new(0, agreed, a, memory(0)),
            Side::new(1, agreed, b, memory(1)),
        ];
        for side in &mut sides {
            side.common.grace_from = random.of(&[1, 4096, u64::MAX]);
        }
        World {
            is_wild: random.one_in(3),
            random,
            sides,
            agreed,
            posted: Vec::new(),
            lanes: Default::default(),
            written: [0; 2],
            added: Default::default(),
            is_cut: false,
            may_fail: false,
            over_ring,
            has_stopped: false,
            reopened: 0,
        }
    }

    /// Executes one random event.
    pub fn step(&mut self) {
        let side = self.random.below(2);
        match self.random.below(24) {
            0..6 => self.post_message(side),
            6..9 => self.post_receive(side, None),
            9 => self.post_remote(side, What::Write),
            10 => self.post_remote(side, What::Read),
            11 => self.post_atomic(side),
            12 => self.arrive(side),
            13..17 => {
                self.arrive(side);
                self.sides[1 - side].poll();
            }
            17 => self.sides[side].flush(),
            18 => self.tick(),
            19 => self.change_limit(side),
            20..23 => drop(self.sides[side].with(|session, cx| session.request_close(cx))),
            _ => self.cancel(side),
        }
        self.reopen();
        for side in 0..2 {
            self.sides[side].read_queue();
            self.check_side(side);
            self.has_stopped |= matches!(self.sides[side].session.rx.at, At::Stopped(_));
        }
        self.verify_done();
    }

    /// Lets the peer of a side that has closed the connection read its end, and connects both after that.
    fn reopen(&mut self) {
        for side in 0..2 {
            if !self.sides[side].has_parted {
                continue;
            }
            match std::mem::take(&mut self.sides[side].link) {
                Link::Sim(sim) => {
                    sim.arrive(usize::MAX);
                    sim.shutdown();
                }
                Link::Shm(_) => {
                    if let Link::Shm(other) = &mut self.sides[1 - side].link {
                        other.channel.end();
                    }
                }
                Link::Socket(_) | Link::Offered(_) | Link::Down => {}
            }
            if self.is_cut {
                // The next attempt to connect fails.
                self.sides[side].has_parted = false;
                self.sides[side].end(Ending::Lost(Error::CONNREFUSED));
                self.sides[side].read_queue();
            }
        }
        if self.sides.iter().all(|side| side.has_parted) {
            self.reopened += 1;
            let links = links(&mut self.random, self.over_ring);
            for (side, link) in self.sides.iter_mut().zip(links) {
                side.reopen(link);
            }
        }
    }

    /// Changes the limit for unexpected messages, as if other peers used the room or freed it. A partly received
    /// message may stop then, and continues later.
    fn change_limit(&mut self, side: usize) {
        let limit = self.random.of(&[0, 2000, 20_000, 1 << 20]);
        self.sides[side].common.limits.saved_bytes = limit;
    }

    fn flags(&mut self, len: usize) -> OpFlags {
        let mut flags = OpFlags::COMPLETION;
        if len <= 64 && self.random.one_in(3) {
            flags |= OpFlags::INJECT;
        }
        if self.random.one_in(4) {
            flags |= OpFlags::MORE;
        }
        if self.random.one_in(12) {
            flags |= OpFlags::FENCE;
        }
        flags
    }

    fn len(&mut self) -> usize {
        let most = self
            .random
            .of(&[0, 1, 8, 64, 600, 4000, 5000, 20_000, 70_000]);
        match most {
            0 => 0,
            most => self.random.below(most) + 1,
        }
    }

    fn next_context(&self) -> usize {
        self.posted.len()
    }

    fn post_message(&mut self, side: usize) {
        let lane = self.random.below(LANES);
        let (tagged, len) = (lane > 0, self.len());
        let mut flags = self.flags(len);
        flags |= self.random.of(&[
            OpFlags::empty(),
            OpFlags::empty(),
            OpFlags::empty(),
            OpFlags::TRANSMIT_COMPLETE,
            OpFlags::DELIVERY_COMPLETE,
            OpFlags::MATCH_COMPLETE,
        ]);
        if flags.contains(OpFlags::MATCH_COMPLETE) && (!tagged || flags.contains(OpFlags::FENCE)) {
            flags &= !OpFlags::MATCH_COMPLETE;
        }
        let id = self.next_context();
        let data = self.random.one_in(3).then_some(id as u64 * 3);
        if data.is_some() {
            flags |= OpFlags::REMOTE_CQ_DATA;
        }
        let memory = TestMemory::new(content(id, len));
        let tx = Tx {
            what: if tagged { What::Tagged } else { What::Msg },
            iov: memory.iov(0, len),
            flags,
            dest: 0,
            context: Context::of_test(id),
            data: data.unwrap_or(0),
            tag: (lane as u64) | (id as u64) << 8,
            target: &[],
        };
        let what = tx.what;
        if !self.accepted(side, |side| side.post(tx)) {
            return;
        }
        if flags.contains(OpFlags::INJECT) {
            memory.iov(0, len).fill(&vec![0xee; len]);
        }
        let lane = if self.is_wild { lane.min(1) } else { lane };
        let messages = &mut self.lanes[1 - side][lane].messages;
        messages.push(id);
        let place = messages.len() - 1;
        self.posted.push(Posted::Op(Op {
            side,
            what,
            flags,
            len,
            memory,
            data,
            at: 0,
            counter: 0,
            lane,
            place,
            is_cancelled: false,
            is_done: false,
        }));
    }

    /// Posts an operation; returns false if it has to be retried later, or is not supported.
    fn accepted(&mut self, side: usize, post: impl FnOnce(&mut Side) -> base::Result) -> bool {
        if self.sides[side].lost.is_some() {
            return false;
        }
        match post(&mut self.sides[side]) {
            Ok(()) => true,
            Err(Error::AGAIN) => false,
            Err(Error::OPNOTSUPP) => {
                let all = self.agreed.extended && self.agreed.rendezvous && !self.agreed.swap;
                assert!(!all, "an operation is not served");
                false
            }
            Err(error) => panic!("a post fails: {error:?}"),
        }
    }

    fn post_receive(&mut self, side: usize, lane: Option<usize>) {
        let lanes = if self.is_wild { 2 } else { LANES };
        let lane = lane.unwrap_or_else(|| self.random.below(lanes));
        let len = match self.random.below(4) {
            0 => self.len(),
            _ => 70_000,
        };
        let id = self.next_context();
        let memory = TestMemory::new(vec![0; len]);
        let ignore = if self.is_wild { u64::MAX } else { !0xff };
        let mut rx = Rx {
            what: if lane > 0 { What::Tagged } else { What::Msg },
            iov: memory.iov(0, len),
            flags: OpFlags::COMPLETION,
            src: FI_ADDR_UNSPEC,
            context: Context::of_test(id),
            tag: lane as u64,
            ignore,
        };
        let place = self.lanes[side][lane].receives;
        self.lanes[side][lane].receives += 1;
        self.posted.push(Posted::Receive(Receive {
            side,
            lane,
            place,
            len,
            memory,
            is_done: false,
        }));
        self.sides[side].post_receive(&mut rx);
    }

    fn post_remote(&mut self, side: usize, what: What) {
        let (len, peer) = (1 + self.random.below(6000), 1 - side);
        let at = match what {
            What::Read => self.random.below(READ - len),
            _ => {
                let at = READ + self.written[peer];
                if at + len > READ + WRITE {
                    return;
                }
                at
            }
        };
        let mut flags = self.flags(len);
        if what == What::Read {
            flags &= !OpFlags::INJECT;
        } else {
            flags |= self.random.of(&[
                OpFlags::empty(),
                OpFlags::empty(),
                OpFlags::TRANSMIT_COMPLETE,
                OpFlags::DELIVERY_COMPLETE,
            ]);
        }
        let id = self.next_context();
        let memory = match what {
            What::Read => TestMemory::new(vec![0; len]),
            _ => TestMemory::new(content(id, len)),
        };
        let first = self.random.below(len + 1);
        let seg = |at: usize, len: usize| RemoteSeg {
            addr: at as u64,
            len,
            key: KEY,
        };
        let both = [seg(at, first), seg(at + first, len - first)];
        let target = match self.random.one_in(2) {
            true => &both[..],
            false => &[seg(at, len)],
        };
        let tx = Tx {
            what,
            iov: memory.iov(0, len),
            flags,
            dest: 0,
            context: Context::of_test(id),
            data: 0,
            tag: 0,
            target,
        };
        if !self.accepted(side, |side| side.post(tx)) {
            return;
        }
        if flags.contains(OpFlags::INJECT) {
            memory.iov(0, len).fill(&vec![0xee; len]);
        }
        if what == What::Write {
            self.written[peer] += len;
        }
        self.posted.push(Posted::Op(Op {
            side,
            what,
            flags,
            len,
            memory,
            data: None,
            at,
            counter: 0,
            lane: 0,
            place: 0,
            is_cancelled: false,
            is_done: false,
        }));
    }

    /// Adds one to a counter of the peer, perhaps with its previous value as the result.
    fn post_atomic(&mut self, side: usize) {
        let (id, peer) = (self.next_context(), 1 - side);
        let counter = self.random.below(COUNTERS);
        let fetches = self.random.one_in(2);
        let memory = TestMemory::new([1u64.to_ne_bytes(), [0; 8]].concat());
        let flags = self.flags(usize::MAX);
        let target = [RemoteSeg {
            addr: (READ + WRITE + 8 * counter) as u64,
            len: 8,
            key: KEY,
        }];
        let (family, what) = match fetches {
            true => (Family::Fetch, What::AtomicFetch),
            false => (Family::Base, What::Atomic),
        };
        let mut atomic = Atomic {
            family,
            datatype: FI_UINT64,
            op: FI_SUM,
            operands: memory.iov(0, 8),
            compare: IoVec::empty(),
            result: if fetches {
                memory.iov(8, 8)
            } else {
                IoVec::empty()
            },
            flags,
            dest: 0,
            context: Context::of_test(id),
            data: 0,
            target: &target,
        };
        if !self.accepted(side, |side| side.post_atomic(&mut atomic, what, 8)) {
            return;
        }
        self.added[peer][counter] += 1;
        self.posted.push(Posted::Op(Op {
            side,
            what,
            flags,
            len: 8,
            memory,
            data: None,
            at: 0,
            counter,
            lane: 0,
            place: 0,
            is_cancelled: false,
            is_done: false,
        }));
    }

    /// Delivers some of the bytes that one side has written.
    fn arrive(&mut self, side: usize) {
        let n = self.random.of(&[1, 10, 24, 100, 3000, 1 << 20]);
        if let Link::Sim(sim) = &self.sides[side].link {
            sim.arrive(n);
        }
    }

    fn tick(&mut self) {
        for side in &mut self.sides {
            side.common.waits.advance();
            let waits = side.session.oldest(&side.common.waits).is_some();
            assert!(
                !waits || side.lost.is_none(),
                "something waits for a peer that is gone"
            );
        }
    }

    fn cancel(&mut self, side: usize) {
        if self.posted.is_empty() {
            return;
        }
        let id = self.random.below(self.posted.len());
        let Posted::Op(op) = &mut self.posted[id] else {
            return;
        };
        let tx = &mut self.sides[side].session.tx;
        if op.side != side {
            return;
        }
        if let Some(taken) = tx.take_unsent(|op| op.context == id) {
            op.is_cancelled = true;
            if matches!(op.what, What::Atomic | What::AtomicFetch) {
                self.added[1 - side][op.counter] -= 1;
            }
            self.sides[side].domain.fail_tx(&taken, Error::CANCELED);
        }
    }

    /// Ends the link in the middle of the bytes in flight.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.may_fail = true;
        for side in 0..2 {
            let n = self.random.of(&[0, 1, 17, 100, 5000, 1 << 20]);
            match &mut self.sides[side].link {
                Link::Sim(sim) => sim.cut(n),
                Link::Shm(link) => link.channel.end(),
                Link::Socket(_) | Link::Offered(_) | Link::Down => {}
            }
        }
        self.reopen();
    }

    /// Checks what must always hold for a side.
    fn check_side(&self, side: usize) {
        let Side {
            lost, is_faulty, ..
        } = &self.sides[side];
        assert!(!is_faulty, "side {side} finds fault: {lost:?}");
        assert!(lost.is_none() || self.may_fail, "side {side}: {lost:?}");
    }

    /// Lets all posted operations complete.
    pub fn finish(&mut self) {
        for side in 0..2 {
            for lane in 0..LANES {
                let Lane { messages, receives } = &self.lanes[side][lane];
                let sent = messages
                    .iter()
                    .filter(|&&id| !self.is_cancelled(id))
                    .count();
                for _ in *receives..sent {
                    self.post_receive(side, Some(lane));
                }
            }
        }
        let (mut idle, mut rounds) = (0, 0);
        while idle < 8 {
            rounds += 1;
            assert!(rounds < ROUNDS, "the sessions never come to rest");
            let mut any = false;
            for side in 0..2 {
                if let Link::Sim(sim) = &self.sides[side].link {
                    any |= sim.arrive(1 << 20) > 0;
                }
                any |= self.sides[side].poll();
                self.check_side(side);
            }
            self.reopen();
            idle = if any { 0 } else { idle + 1 };
        }
        self.verify_done();
        for (id, posted) in self.posted.iter().enumerate() {
            let (side, is_done, what) = match posted {
                Posted::Op(op) => (
                    op.side,
                    op.is_done,
                    format!("{:?} of {} bytes", op.what, op.len),
                ),
                Posted::Receive(receive) => (receive.side, receive.is_done, "receive".to_owned()),
            };
            let is_op = matches!(posted, Posted::Op(_));
            let must = is_op || !self.is_cut && self.is_matched(posted);
            assert!(
                is_done || !must,
                "operation {id} of side {side}, {what}, does not complete: {}",
                [0, 1].map(|side| self.sides[side].describe()).join("; ")
            );
        }
        for side in 0..2 {
            self.check_rest(side);
        }
        if !self.is_cut {
            self.check_memory();
        }
    }

    fn is_cancelled(&self, id: usize) -> bool {
        matches!(&self.posted[id], Posted::Op(op) if op.is_cancelled)
    }

    /// Whether there is a message for a receive.
    fn is_matched(&self, posted: &Posted) -> bool {
        match posted {
            Posted::Receive(receive) => self.message_of(receive).is_some(),
            Posted::Op(_) => true,
        }
    }

    fn message_of(&self, receive: &Receive) -> Option<usize> {
        let messages = self.lanes[receive.side][receive.lane].messages.iter();
        let mut left = messages.filter(|&&id| !self.is_cancelled(id));
        left.nth(receive.place).copied()
    }

    /// Checks that no state is left of completed operations.
    fn check_rest(&self, side: usize) {
        let Side {
            session,
            domain,
            common,
            ep,
            srx,
            ..
        } = &self.sides[side];
        let tx = &session.tx;
        assert_eq!(
            domain.eps[*ep].tx_pending, 0,
            "side {side}: operations are pending"
        );
        assert!(!tx.has_work() && !tx.reads.is_reading());
        let left = [tx.out.frames().staged(), tx.out.frames().answers()];
        assert_eq!(left, [0; 2], "side {side}: staged, answers");
        assert_eq!(
            tx.reads.room(1),
            crate::session::reads::Reads::default().room(1),
            "side {side}"
        );
        assert!(session.oldest(&common.waits).is_none());
        if !self.is_cut {
            assert_eq!(domain.srxs[*srx].saved(), 0, "side {side} keeps messages");
        }
    }

    fn check_memory(&self) {
        for posted in &self.posted {
            if let Posted::Op(op) = posted
                && op.what == What::Write
                && !op.is_cancelled
            {
                let id = self.id_of(op);
                let there = self.sides[1 - op.side].memory.bytes(op.at, op.len);
                assert!(there == content(id, op.len), "write {id} has other bytes");
            }
        }
        for side in 0..2 {
            for (counter, &added) in self.added[side].iter().enumerate() {
                let bytes = self.sides[side].memory.bytes(READ + WRITE + 8 * counter, 8);
                let value = u64::from_ne_bytes(bytes.try_into().unwrap());
                assert_eq!(value, added, "counter {counter} of side {side}");
            }
        }
    }

    fn id_of(&self, op: &Op) -> usize {
        let is_it =
            |posted: &Posted| matches!(posted, Posted::Op(other) if std::ptr::eq(other, op));
        self.posted.iter().position(is_it).unwrap()
    }

    /// Checks the operations that have completed since the last call.
    fn verify_done(&mut self) {
        let all = [0, 1].map(|side| std::mem::take(&mut self.sides[side].completions));
        for (context, completion) in all.iter().flatten() {
            self.note_refused(*context, completion);
        }
        for (side, completions) in all.into_iter().enumerate() {
            for (context, completion) in completions {
                self.verify(side, context, &completion);
            }
        }
    }

    /// Handles an operation that was queued and then refused as unsupported: it counts as cancelled.
    fn note_refused(&mut self, id: usize, completion: &Completion) {
        let agreed = &self.agreed;
        let all = agreed.extended && agreed.rendezvous && !agreed.swap;
        if let Posted::Op(op) = &mut self.posted[id]
            && completion.error == FI_EOPNOTSUPP
        {
            assert!(!all, "operation {id} is not served");
            op.is_cancelled = true;
            if matches!(op.what, What::Atomic | What::AtomicFetch) {
                self.added[1 - op.side][op.counter] -= 1;
            }
        }
    }

    fn verify(&mut self, side: usize, id: usize, completion: &Completion) {
        match &self.posted[id] {
            Posted::Op(op) => {
                assert!(
                    op.side == side && !op.is_done,
                    "operation {id} completes twice"
                );
                self.verify_op(id, op, completion);
            }
            Posted::Receive(receive) => {
                assert!(
                    receive.side == side && !receive.is_done,
                    "receive {id} twice"
                );
                self.verify_receive(id, receive, completion);
            }
        }
        match &mut self.posted[id] {
            Posted::Op(op) => {
                op.is_done = true;
                if !matches!(op.what, What::Read | What::AtomicFetch) {
                    // The memory belongs to the application again, so it may change.
                    op.memory.iov(0, op.len).fill(&vec![0xdd; op.len]);
                }
            }
            Posted::Receive(receive) => receive.is_done = true,
        }
    }

    fn verify_op(&self, id: usize, op: &Op, completion: &Completion) {
        match completion.error {
            0 => {}
            error if error == FI_ECANCELED || error == FI_EOPNOTSUPP => {
                return assert!(op.is_cancelled, "operation {id}: error {error}");
            }
            error => {
                return assert!(self.is_cut, "operation {id} fails: error {error}");
            }
        }
        assert!(
            !op.is_cancelled,
            "operation {id} was cancelled and succeeds"
        );
        match op.what {
            What::Read => {
                let there = &pattern(1 - op.side)[op.at..][..op.len];
                let read = op.memory.bytes(0, op.len);
                assert!(read == there, "read {id} has other bytes");
            }
            What::AtomicFetch => {
                let before = u64::from_ne_bytes(op.memory.bytes(8, 8).try_into().unwrap());
                assert!(
                    before < self.added[1 - op.side][op.counter],
                    "fetch {id}: {before}"
                );
            }
            _ => {}
        }
        if op.flags.contains(OpFlags::MATCH_COMPLETE) {
            let lane = &self.lanes[1 - op.side][op.lane];
            let before = &lane.messages[..op.place];
            let place = before.iter().filter(|&&id| !self.is_cancelled(id)).count();
            assert!(
                lane.receives > place,
                "message {id} of {} bytes has matched no receive: {:?}, flags {:#x}, lane {}, place {place} of {}, wild {}, cut {}, ring {}",
                op.len,
                self.agreed,
                op.flags,
                op.lane,
                lane.receives,
                self.is_wild,
                self.is_cut,
                self.sides[0].link.is_ring()
            );
        }
        if op.flags.contains(OpFlags::FENCE) {
            for (other, posted) in self.posted[..id].iter().enumerate() {
                let open =
                    matches!(posted, Posted::Op(other) if other.side == op.side && !other.is_done);
                assert!(!open, "operation {id} passes {other} in spite of its fence");
            }
        }
    }

    fn verify_receive(&self, id: usize, receive: &Receive, completion: &Completion) {
        let message = self.message_of(receive);
        let truncated = completion.error == FI_ETRUNC;
        if completion.error != 0 && !truncated {
            return assert!(
                self.is_cut,
                "receive {id} fails: error {}",
                completion.error
            );
        }
        let Some(message) = message else {
            panic!("receive {id} takes a message that nobody has sent");
        };
        let Posted::Op(op) = &self.posted[message] else {
            unreachable!("lanes have messages alone");
        };
        let (len, data) = (op.len.min(receive.len), op.data.unwrap_or(0));
        assert_eq!(
            truncated,
            op.len > receive.len,
            "receive {id} of {} bytes",
            op.len
        );
        assert_eq!(completion.len, len, "receive {id}");
        assert_eq!(completion.olen, op.len - len, "receive {id}");
        assert_eq!(completion.data, data, "receive {id}");
        assert_eq!(completion.flags & FI_REMOTE_CQ_DATA != 0, op.data.is_some());
        if op.what == What::Tagged {
            assert_eq!(completion.tag >> 8, message as u64, "receive {id}");
        }
        let bytes = receive.memory.bytes(0, len);
        assert!(
            bytes == content(message, op.len)[..len],
            "receive {id} has other bytes"
        );
    }
}

/// Returns both ends of a link.
fn links(random: &mut Random, over_ring: bool) -> [Link; 2] {
    match over_ring {
        true => rings(random),
        false => {
            let room = random.of(&[200, 3000, 70_000, 1 << 20]);
            SimLink::pair(room).map(|sim| Link::Sim(Box::new(sim)))
        }
    }
}

/// Returns both ends of two rings in this process.
fn rings(random: &mut Random) -> [Link; 2] {
    let ring = 64 * 1024;
    let (mut there, fd) = ShmChannel::make(ring).unwrap();
    let mut back = ShmChannel::take(&fd, ring, ring).unwrap();
    // The other process is this one, so its memory may be reachable.
    if !random.one_in(3) {
        let process = Some(Process::own_as_other());
        there.process_mut().meet(process, &ProcessProbe::own());
        back.process_mut().meet(process, &ProcessProbe::own());
    }
    there.disarm(false);
    back.disarm(false);
    let (first, second) = Socket::pair().unwrap();
    let link = |channel, doorbell| {
        let mut link = Link::Socket(doorbell);
        link.upgrade(channel);
        link
    };
    [link(there, first), link(back, second)]
}
