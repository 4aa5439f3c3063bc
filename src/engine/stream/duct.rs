// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that two processes of one host share in place of a socket: a ring in each direction, and flags by which each says
//! that it sleeps. docs/wire/shm.md.
//!
//! A peer that writes garbage there, stops, or dies at any instruction does harm to this connection only: see `sync::ring` and
//! `sys::region`.
//!
//! Trusted with: where in the memory the rings lie, and that it stays mapped as long as they are used.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::abi::{FI_REMOTE_READ, FI_REMOTE_WRITE};
use crate::base::grow::reserve;
use crate::base::iovec::Cursor;
use crate::base::{IoList, IoVec, Piece};
use crate::engine::stream::board::{Using, View};
use crate::engine::stream::carry::Carrier;
use crate::engine::stream::proto::MAX_SEGS;
use crate::ffi::ops::transfer::RemoteSeg;
use crate::hmem::host::{Ways, copy_from_shared};
use crate::sync::doorbell::{Doorbell, Rung};
use crate::sync::parts::{Job, Part, Parts, Progress};
use crate::sync::ring::{
    Consumer, ConsumerLine, Garbage, HEADER, LINE, Memory, Producer, ProducerLine, Record,
    first_lap,
};
use crate::sys::region::{Region, Shared};
use crate::sys::{process_memory, random, region};

/// The first page of the memory: what the side that made it writes, then what the other does.
#[repr(C)]
struct Head {
    lines: [Lines; 2],
    shares: [Shares; 2],
}

/// The messages that this side fetches together with their sender; both write there.
#[repr(C)]
struct Shares {
    parts: [PartsLine; SHARES],
}

#[repr(C, align(64))]
struct PartsLine(Parts);

/// The lines that one side uses: of the ring to it and of the ring from it.
#[repr(C, align(64))]
struct Lines {
    producer: ProducerLine,
    consumer: ConsumerLine,
    /// Whether this side sleeps, or does not poll here: who writes to it rings the bell then.
    doorbell: DoorbellLine,
    epoch: Epoch,
    using: UsingLine,
}

/// Which entry of the other side's board this side uses.
#[repr(C, align(64))]
struct UsingLine(Using);

#[repr(C, align(64))]
struct DoorbellLine(Doorbell);

/// How often this side has taken back memory that it had offered.
#[repr(C, align(64))]
struct Epoch(AtomicU32);

// SAFETY: atomic numbers, all of whose values are allowed.
unsafe impl Shared for Head {}

// SAFETY: the lines belong to no thread; they are used through atomics alone.
unsafe impl Send for Duct {}

/// Which side of the memory this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// Made it.
    Connector,
    Acceptor,
}

/// One side of it.
pub struct Duct {
    tx: Producer,
    rx: Consumer,
    ways: Ways,
    carrier: Carrier,
    /// The process at the other end, if its memory can be read and written.
    process: Option<i32>,
    witness: Witness,
    /// What it shows of its registered memory.
    board: Option<View>,
    /// Bytes that there has to be room for before writing goes on.
    pub wants: usize,
    /// The sleep of the other side that it was woken from last.
    rung: Rung,
    /// The other side is gone; what it has written can still be read.
    pub ended: bool,
    /// Up to here, then: one ring. More are old bytes that somebody has left there on purpose.
    last: u64,
    /// The other side wrote what cannot be.
    pub broken: bool,
    /// The lines of this side and of the other, in `_head`.
    own: NonNull<Lines>,
    other: NonNull<Lines>,
    own_shares: NonNull<Shares>,
    other_shares: NonNull<Shares>,
    /// Which of our shares are in use, and how many there were.
    sharing: [bool; SHARES],
    shared: u32,
    /// A message of ours that the other side fetches, and that may be helped with.
    pub helping: Option<Helping>,
    /// Messages in a row that it could have helped with, and did not.
    absent: u32,
    /// The other side cannot write to our memory.
    pub copies_alone: bool,
    _head: Region,
    /// What the rings lie in.
    _rings: [Region; 2],
}

/// Bytes that a process shows to others so that they can see whether they read its memory, and where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Witness {
    pub address: u64,
    pub bytes: [u8; Witness::LEN],
}

impl Witness {
    pub const LEN: usize = 16;

    pub fn own() -> Witness {
        static BYTES: OnceLock<[u8; Witness::LEN]> = OnceLock::new();
        let bytes = BYTES.get_or_init(|| {
            let mut bytes = [0; Witness::LEN];
            // Without random numbers the witness proves less, and is as good as none if a peer's is the same.
            if let Ok(random) = random::unpredictable() {
                bytes.copy_from_slice(&random[..Witness::LEN]);
            }
            bytes
        });
        Witness {
            address: bytes.as_ptr() as u64,
            bytes: *bytes,
        }
    }
}

const NAME: &CStr = c"ironfabric";
/// The first page. (Of every kernel on the processors that we run on.)
const HEAD: usize = 4096;
const _: () = assert!(size_of::<Head>() <= HEAD);
/// Bytes of one record at most: a message up to here goes in one.
pub const RECORD: usize = 16 * 1024;
/// Messages that one side fetches together with their sender. The sender is at work on one of them at most: a second one is
/// fetched while its last part of the first is under way.
const SHARES: usize = 2;

impl Duct {
    /// Memory with two rings of up to `ring` bytes each.
    pub fn make(ring: usize) -> io::Result<(Duct, OwnedFd)> {
        let fd = Region::create_sparse(NAME, HEAD + 2 * ring)?;
        let duct = Duct::over(&fd, ring, ring, Side::Connector)?;
        Ok((duct, fd))
    }

    /// The memory that a peer has made, of whose rings `most` bytes each are to be used.
    pub fn take(fd: &OwnedFd, ring: usize, most: usize) -> io::Result<Duct> {
        Duct::over(fd, ring, most, Side::Acceptor)
    }

    fn over(fd: &OwnedFd, ring: usize, most: usize, side: Side) -> io::Result<Duct> {
        // Checks the whole before anything is done to it.
        drop(Region::attach(fd, HEAD + 2 * ring)?);
        let head = Region::attach(fd, HEAD)?;
        // What is used at first, whatever the other side has done about it.
        region::allocate(fd, 0, HEAD + first_lap(ring))?;
        region::allocate(fd, HEAD + ring, first_lap(ring))?;
        let rings = [
            Region::map_twice(fd, HEAD, ring)?,
            Region::map_twice(fd, HEAD + ring, ring)?,
        ];
        let page = head.at::<Head>(0).ok_or(io::ErrorKind::InvalidInput)?;
        let [own, other] = match side {
            Side::Connector => [0, 1],
            Side::Acceptor => [1, 0],
        };
        // SAFETY: `at` checked that the page has a `Head`, and `head` keeps it mapped; only addresses are made here.
        let lines = |which: usize| unsafe { &raw mut (*page.as_ptr()).lines[which] };
        let data = [&rings[0], &rings[1]].map(|twice| twice.bytes(0, 2 * ring));
        let [Some(first), Some(second)] = data else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let data = [first, second];
        // SAFETY: as above. A ring belongs to the side that writes it: its producer line is that side's, its consumer line the
        // other's.
        let memory = |from: usize, to: usize, file: Option<OwnedFd>| unsafe {
            Memory {
                data: data[from],
                producer: NonNull::from(&(*lines(from)).producer),
                consumer: NonNull::from(&(*lines(to)).consumer),
                file: file.map(|file| (file, HEAD + from * ring)),
            }
        };
        // No descriptor is kept for a ring that never uses more.
        let file = match most.min(ring) > first_lap(ring) {
            true => Some(fd.try_clone()?),
            false => None,
        };
        // SAFETY: the rings are mapped twice in a row and stay so with `_rings`, the lines with `head`; this process is the
        // only producer of the one and the only consumer of the other, as each side has its own.
        let (tx, rx) = unsafe {
            (
                Producer::new(memory(own, other, file), ring, most),
                Consumer::new(memory(other, own, None), ring, most),
            )
        };
        // SAFETY: as `lines`.
        let shares = |which: usize| unsafe { &raw mut (*page.as_ptr()).shares[which] };
        let (own_lines, other_lines) = (NonNull::new(lines(own)), NonNull::new(lines(other)));
        let (Some(own_lines), Some(other_lines)) = (own_lines, other_lines) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let own_shares = NonNull::new(shares(own)).ok_or(io::ErrorKind::InvalidInput)?;
        let other_shares = NonNull::new(shares(other)).ok_or(io::ErrorKind::InvalidInput)?;
        let (Some(tx), Some(rx)) = (tx, rx) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: as in `own`. Armed before the other side can write: until this side polls, it is to be woken.
        unsafe { own_lines.as_ref() }.doorbell.0.arm();
        Ok(Duct {
            tx,
            rx,
            ways: Ways::default(),
            carrier: Carrier::new(),
            process: None,
            witness: Witness::default(),
            board: None,
            wants: SHRED,
            rung: Rung::default(),
            ended: false,
            last: u64::MAX,
            broken: false,
            own: own_lines,
            other: other_lines,
            own_shares,
            other_shares,
            sharing: [false; SHARES],
            shared: 0,
            helping: None,
            absent: 0,
            copies_alone: false,
            _head: head,
            _rings: rings,
        })
    }

    /// The process at the other end is this one, as far as is known here: tries to reach its memory.
    pub fn meet(&mut self, process: Option<i32>, witness: &Witness) {
        self.process = process;
        self.witness = *witness;
        if !self.is_alive() {
            self.process = None;
        }
    }

    /// Whether the process at the other end is there and what it was: its memory can be read, and its witness is in it.
    pub fn is_alive(&self) -> bool {
        let mut seen = [0; Witness::LEN];
        let mut list = IoList::new();
        list.push_room(&mut seen);
        let place = [(self.witness.address as usize, Witness::LEN)];
        let read = self
            .process
            .map(|process| process_memory::read_from(process, &list, &place));
        matches!(read, Some(Ok(Witness::LEN))) && seen == self.witness.bytes
    }

    pub fn reaches(&self) -> bool {
        self.process.is_some()
    }

    /// Whether the other side can fetch a message, and that may be worth it.
    #[inline]
    pub fn fetches(&self, len: usize) -> bool {
        self.reaches() && len >= RECORD
    }

    /// Whether a message had better go through the ring than be fetched.
    #[inline]
    pub fn carries(&mut self, len: usize) -> bool {
        self.carrier.takes(len, self.tx.most(), &mut self.ways)
    }

    /// For the log: what a connection goes over.
    pub fn words(&self) -> &'static str {
        match self.reaches() {
            true => "shared memory, large messages in one copy",
            false => "shared memory, large messages through the ring",
        }
    }

    /// The other side shows its registered memory there.
    pub fn read_board(&mut self, fd: &OwnedFd) -> io::Result<()> {
        self.board = Some(View::new(fd)?);
        Ok(())
    }

    /// Whether registered memory of the other side can be used from here.
    #[inline]
    pub fn reaches_regions(&self) -> bool {
        self.process.is_some() && self.board.is_some()
    }

    /// Whether the other side uses this entry of our board.
    pub fn is_using(&self, at: usize) -> bool {
        // SAFETY: as in `own`.
        unsafe { self.other.as_ref() }.using.0.is(at)
    }

    /// Whether the other side uses some entry of our board.
    pub fn is_using_any(&self) -> bool {
        // SAFETY: as in `own`.
        unsafe { self.other.as_ref() }.using.0.is_any()
    }

    /// The connection ends: from now on the other side begins no copy from or to registered memory of ours.
    pub fn leave(&self) {
        self.own().using.0.leave();
    }

    /// Whether `leave` was called at this side.
    pub fn has_left(&self) -> bool {
        self.own().using.0.has_left()
    }

    /// Copies the next `len` bytes of `local` to registered memory of the other side, or from there; false if not all of it
    /// was copied.
    pub fn copy_region(&self, local: &mut Cursor<'_>, seg: &RemoteSeg, write: bool) -> bool {
        let (Some(process), Some(board)) = (self.process, &self.board) else {
            return false;
        };
        let need = if write {
            FI_REMOTE_WRITE
        } else {
            FI_REMOTE_READ
        };
        let part = board.find(seg.key, seg.addr, seg.len as u64, need);
        let Some(part) = part else {
            return false;
        };
        let Some(_word) = board.begin(&part, &self.own().using.0) else {
            return false;
        };
        let mut done = 0;
        while done < seg.len {
            // Who withdraws the region, or ends the connection, waits for this.
            // SAFETY: as in `own`.
            let has_left = unsafe { self.other.as_ref() }.using.0.has_left();
            if has_left || done > 0 && !board.shows(&part) {
                return false;
            }
            let mut list = IoList::new();
            let step = (seg.len - done).min(STEP);
            local.append_to(&mut list, step);
            let there = [(part.address.wrapping_add(done), step)];
            let moved = match write {
                true => process_memory::write_to(process, &list, &there),
                false => process_memory::read_from(process, &list, &there),
            };
            match moved {
                Ok(n) if n > 0 => {
                    local.advance(n);
                    done += n;
                }
                _ => return false,
            }
        }
        true
    }

    #[inline]
    fn own(&self) -> &Lines {
        // SAFETY: within the page, which `_head` keeps mapped; atomic numbers, which the peer may write at any time.
        unsafe { self.own.as_ref() }
    }

    /// Whether the other side is to be woken for what was written. True once for each of its sleeps.
    #[inline(always)]
    pub fn must_ring(&mut self) -> bool {
        // SAFETY: as in `own`.
        let other = unsafe { self.other.as_ref() };
        other.doorbell.0.must_ring(&mut self.rung)
    }

    /// This side may `arm` some time: to be followed by a barrier on all processes.
    pub fn expect_sleep(&self) {
        self.own().doorbell.0.expect();
    }

    /// From now on the other side rings the bell: what came before is to be looked for once more.
    pub fn arm(&self) {
        self.own().doorbell.0.arm();
    }

    /// The bell was rung for the sleep that this side is in, if it is in one: the next record is to ring again.
    pub fn arm_again(&self) {
        if self.own().doorbell.0.is_armed() {
            self.arm();
        }
    }

    /// Leaves this side's ring to its bell, unless something has come: then it is to be polled on. `expect_sleep` was said.
    #[must_use]
    pub fn leave_to_bell(&self) -> bool {
        self.arm();
        let is_quiet = !self.has_news();
        if !is_quiet {
            self.disarm(true);
        }
        is_quiet
    }

    /// This side polls. `expected`: `expect_sleep` was said.
    pub fn disarm(&self, expected: bool) {
        self.own().doorbell.0.disarm(expected);
    }

    /// The number of the offers that are made from now on.
    pub fn epoch(&self) -> u32 {
        self.own().epoch.0.load(Ordering::Relaxed)
    }

    /// The memory that was offered so far is not to be used any more: a peer that copied from it sees that it must not use the
    /// copy.
    pub fn revoke(&self) {
        // Before the memory is used for anything else: pairs with the fence in `is_revoked`.
        self.own().epoch.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the other side has taken back what it had offered then. To be asked after a copy was made.
    pub fn is_revoked(&self, epoch: u32) -> bool {
        fence(Ordering::SeqCst);
        // SAFETY: as in `own`.
        unsafe { self.other.as_ref() }
            .epoch
            .0
            .load(Ordering::Relaxed)
            != epoch
    }

    /// As `send_small`, for one buffer.
    #[inline(always)]
    pub fn send_one<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        payload: &Piece,
    ) -> Result<bool, Garbage> {
        if payload.len() > SHORT {
            return self.send(&header[..header_len], &payload.cursor(), payload.len());
        }
        // SAFETY: `write_short` gives room for `len` bytes, and the payload has them.
        let copy = |to| unsafe { payload.copy_to_raw(to) };
        self.write_short(header, header_len, payload.len(), copy)
    }

    /// One record; `copy` writes `len` bytes behind the header, where there is room for them.
    #[inline(always)]
    fn write_short<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        len: usize,
        copy: impl FnOnce(*mut u8),
    ) -> Result<bool, Garbage> {
        debug_assert!(len <= SHORT);
        let Some(mut body) = self.tx.reserve(header_len + len, self.rx.position())? else {
            return Ok(false);
        };
        match N <= LINE - HEADER {
            true => body.begin(header, header_len),
            false => body.put(&header[..header_len]),
        }
        copy(body.as_mut_ptr());
        body.publish(0);
        Ok(true)
    }

    /// Writes a frame with a small header in one piece; false if there is no room for it now.
    #[inline]
    pub fn send_small<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        payload: &IoVec,
        len: usize,
    ) -> Result<bool, Garbage> {
        if len > SHORT {
            return self.send(&header[..header_len], payload, len);
        }
        debug_assert_eq!(payload.remaining(), len);
        // SAFETY: as in `send_one`; all callers pass the length of the payload.
        let copy = |to| unsafe { payload.copy_to_raw(to) };
        self.write_short(header, header_len, len, copy)
    }

    /// Writes a frame in one piece; false if there is no room for it now. What is in the first line is written last: the other
    /// side polls that line, and would take it away while the rest is being copied.
    #[inline(never)]
    pub fn send(&mut self, header: &[u8], payload: &IoVec, len: usize) -> Result<bool, Garbage> {
        let Some(mut body) = self.tx.reserve(header.len() + len, self.rx.position())? else {
            return Ok(false);
        };
        debug_assert_eq!(payload.remaining(), len);
        let first = (LINE - HEADER).saturating_sub(header.len()).min(len);
        let (mut head, mut rest) = (payload.cursor(), payload.cursor());
        head.truncate(first);
        rest.advance(first);
        // SAFETY: room for header and payload, which has `len` bytes: all callers pass its length. `rest` are those behind
        // `first`, and `head` those before.
        unsafe {
            let to = body.as_mut_ptr().add(header.len() + first);
            rest.copy_long_to_raw(to, &mut self.ways);
            body.put(header);
            head.copy_to_raw(body.as_mut_ptr());
        }
        body.publish(0);
        Ok(true)
    }

    /// Copies from the other process as much as both have; false if that cannot be done, or was not to be done any more.
    pub fn fetch(&self, from: &Places, to: &IoVec, epoch: u32) -> bool {
        let all = Part {
            from: 0,
            len: len_of(from).min(to.remaining()),
        };
        self.copy_part(all, to.cursor(), *from, false) && !self.is_revoked(epoch)
    }

    /// Copies a part of `there`, in the other process, to the same part of `here`, or the other way.
    fn copy_part(&self, part: Part, mut here: Cursor<'_>, mut there: Places, write: bool) -> bool {
        let Some(process) = self.process else {
            return false;
        };
        here.advance(part.from);
        skip(&mut there, part.from);
        // The kernel holds on to all pages that it is told of, and that costs as much as to copy them.
        keep(&mut there, part.len);
        let mut left = part.len;
        while left > 0 {
            let mut list = IoList::new();
            here.append_to(&mut list, left);
            let moved = match write {
                true => process_memory::write_to(process, &list, &there),
                false => process_memory::read_from(process, &list, &there),
            };
            match moved {
                Ok(n) if n > 0 => {
                    left -= n.min(left);
                    here.advance(n);
                    skip(&mut there, n);
                }
                _ => return false,
            }
        }
        true
    }

    /// Begins to fetch a message of so many bytes together with the other side, if that can help now.
    pub fn begin_share(&mut self, len: usize) -> Option<Job> {
        // SAFETY: as in `own`.
        let sleeps = unsafe { self.other.as_ref() }.doorbell.0.is_armed();
        if sleeps || self.copies_alone || self.process.is_none() {
            return None;
        }
        // For a side that does something else only the calls would be more.
        if self.absent > 0 && len < LONG_WAY {
            self.absent += 1;
            if !self.absent.is_multiple_of(ASK_AGAIN) {
                return None;
            }
        }
        let place = self.sharing.iter().position(|busy| !busy)?;
        self.shared = self.shared.wrapping_add(1);
        let job = Job::new(self.shared << 1 | place as u32, len)?;
        self.sharing[place] = true;
        self.own_parts(&job).open(&job);
        Some(job)
    }

    /// Fetches what the other side does not copy; false if something could not be.
    pub fn fetch_parts(&self, job: &mut Job, from: &Places, to: &IoVec) -> Result<bool, Garbage> {
        let parts = self.own_parts(job);
        while let Some(part) = parts.take(job)? {
            if !self.copy_part(part, to.cursor(), *from, false) {
                parts.close(job);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How far a message has come that is fetched together.
    pub fn progress_of(&self, job: &Job) -> Result<Progress, Garbage> {
        self.own_parts(job).progress(job)
    }

    /// The message is here, or the other side does no more for it.
    pub fn end_share(&mut self, job: &Job) {
        self.sharing[place_of(job)] = false;
        self.absent = match job.was_shared() {
            true => 0,
            false => self.absent.max(1),
        };
    }

    /// Takes back a message that is being fetched together: false if the other side does not let go of what it copies.
    #[cold]
    pub fn take_back(&self, job: &Job, patience: Duration) -> bool {
        let parts = self.own_parts(job);
        let until = Instant::now() + patience;
        parts.close(job);
        while parts.progress(job) == Ok(Progress::Held) && self.is_alive() {
            if Instant::now() > until {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Copies one part of a message of ours that the other side fetches.
    pub fn help(&self, job: &mut Job, from: &IoVec, to: &Places) -> Result<Help, Garbage> {
        // SAFETY: as in `own`.
        let parts = &unsafe { self.other_shares.as_ref() }.parts[place_of(job)].0;
        if self.process.is_none() {
            return Ok(Help::Over);
        }
        let Some(part) = parts.hold(job)? else {
            return Ok(Help::Over);
        };
        let copied = self.copy_part(part, from.cursor(), *to, true);
        Ok(match parts.give_back(job, copied) {
            true => Help::Last,
            false => Help::More,
        })
    }

    fn own_parts(&self, job: &Job) -> &Parts {
        // SAFETY: as in `own`.
        &unsafe { self.own_shares.as_ref() }.parts[place_of(job)].0
    }

    /// As `fetch`, all `len` bytes, to memory of ours.
    pub fn fetch_bytes(
        &self,
        from: &[(usize, usize); MAX_SEGS],
        len: usize,
        epoch: u32,
    ) -> Option<Vec<u8>> {
        let process = self.process?;
        let mut from = *from;
        let mut bytes = Vec::new();
        reserve(&mut bytes, len).ok()?;
        bytes.resize(len, 0);
        let mut done = 0;
        while done < len {
            let mut list = IoList::new();
            list.push_room(&mut bytes[done..]);
            let n = process_memory::read_from(process, &list, &from).ok()?;
            if n == 0 {
                return None;
            }
            done += n;
            skip(&mut from, n);
        }
        (!self.is_revoked(epoch)).then_some(bytes)
    }

    /// Writes as much as there is room for.
    pub fn write_list(&mut self, list: &IoList<'_>) -> Result<usize, Garbage> {
        self.wants = SHRED;
        let all = list.bytes();
        let mut done = 0;
        while done < all {
            let len = (all - done).min(RECORD);
            let len = match self.tx.room(len, self.rx.position())? {
                None | Some(0) => break,
                // Pieces that are too small would cost more than they bring.
                Some(room) if room < len && room < SHRED => break,
                Some(room) => len.min(room),
            };
            let Some(mut body) = self.tx.reserve(len, self.rx.position())? else {
                break;
            };
            // SAFETY: `len` bytes of room, and the list has so many behind `done`.
            unsafe { list.gather(done, body.as_mut_ptr(), len, &mut self.ways) };
            body.skip(len);
            body.publish(0);
            done += len;
        }
        Ok(done)
    }

    /// The other side is gone.
    pub fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.last = self
                .rx
                .position()
                .saturating_add(self.longest_rest() as u64);
        }
    }

    /// The other side cannot have written more than this that was not read: all of its ring.
    pub fn longest_rest(&self) -> usize {
        self.rx.longest() + 2 * LINE
    }

    /// More was read of a side that is gone than it can have written.
    #[inline]
    pub fn is_past_end(&self) -> bool {
        self.ended && self.rx.position() > self.last
    }

    /// Whether a frame of up to `len` bytes goes in at once; one that never would is taken in pieces. What the other side has
    /// broken is found when it is written to.
    pub fn takes(&mut self, len: usize) -> bool {
        if len > RECORD.min(self.tx.longest()) {
            return true;
        }
        self.tx
            .room(len, self.rx.position())
            .map_or(true, |room| room.is_some_and(|room| room >= len))
    }

    /// How many frames of `len` bytes `takes` is true of, one after another.
    pub fn room_for(&mut self, len: usize) -> usize {
        if len > RECORD.min(self.tx.longest()) {
            return usize::MAX;
        }
        match self.tx.room(len, self.rx.position()) {
            Ok(Some(room)) => (room + HEADER) / (len + HEADER).next_multiple_of(LINE),
            Ok(None) => 0,
            Err(_) => usize::MAX,
        }
    }

    /// Frames up to this size wait until they go in as one record, which the other side takes at once. There is so much room
    /// some time although the end of a lap is left out, and the other side says what it has taken by quarters of one.
    pub fn longest_whole(&self) -> usize {
        RECORD.min(self.tx.longest() / 4)
    }

    /// Whether writing may go on.
    pub fn has_room(&mut self) -> Result<bool, Garbage> {
        let room = self.tx.room(self.wants, self.rx.position())?;
        Ok(room.is_some_and(|room| room >= self.wants))
    }

    /// Whether the other side has said that it has taken everything.
    pub fn is_drained(&mut self) -> bool {
        self.tx.is_empty().unwrap_or(false)
    }

    /// Whether the other side is to be told what was taken although nothing more is there.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.rx.is_due()
    }

    /// Says to the other side that all was taken. True: it waits for room, and is to be woken.
    #[must_use]
    pub fn release(&mut self) -> bool {
        self.rx.release()
    }

    /// Asks the other side to ring the bell when there is room; to be followed by one more look.
    pub fn set_waiting(&self, waiting: bool) {
        self.tx.set_waiting(waiting);
    }

    /// Whether `peek` is to be asked: if not, there is nothing.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.rx.has_news()
    }

    /// The next record of the other side.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Garbage> {
        self.rx.peek()
    }

    /// Begins to take the lines that the next record to the other side will have.
    #[inline]
    pub fn claim_ahead(&mut self) {
        self.tx.claim_ahead();
    }

    /// Begins to fetch what is not in the first line of a record.
    #[inline(always)]
    pub fn fetch_ahead(&self, record: &Record) {
        if !Duct::is_line(record) {
            self.rx.fetch_ahead(record);
        }
    }

    /// Whether a record is in one line: `copy_line` copies that.
    #[inline]
    pub fn is_line(record: &Record) -> bool {
        record.len() <= LINE - HEADER
    }

    #[inline]
    pub fn copy_line(&self, record: &Record, out: &mut [u8; LINE - HEADER]) {
        self.rx.copy_line(record, out);
    }

    /// The first bytes of a record, and what is behind it if it has fewer.
    #[inline]
    pub fn copy_start<const N: usize>(&self, record: &Record, out: &mut [u8; N]) {
        self.rx.copy_start(record, out);
    }

    /// Copies `len` bytes of a record to the application's memory from its start on, whatever was moved.
    #[inline(always)]
    pub fn fill(&self, record: &Record, from: usize, len: usize, to: &IoVec) {
        let len = len.min(record.len().saturating_sub(from));
        let body = self.rx.body(record).wrapping_add(from);
        // SAFETY: `body` has `record.len()` bytes, of which `len` lie behind `from`.
        unsafe { to.fill_raw(body, len) };
    }

    /// Appends what is behind the first `from` bytes of a record.
    pub fn append(&self, record: &Record, from: usize, bytes: &mut Vec<u8>) {
        let len = record.len().saturating_sub(from);
        bytes.reserve(len);
        let body = self.rx.body(record).wrapping_add(from);
        let at = bytes.len();
        // SAFETY: `body` has `record.len()` bytes, of which `len` lie behind `from`; room for them was reserved, and they are
        // there before the length says so.
        unsafe {
            copy_from_shared(body, bytes.as_mut_ptr().add(at), len);
            bytes.set_len(at + len);
        }
    }

    #[inline]
    pub fn copy(&self, record: &Record, from: usize, out: &mut [u8]) -> Result<(), Garbage> {
        self.rx.copy(record, from, out)
    }

    /// Copies up to `len` bytes of a record to the application's memory.
    #[inline]
    pub fn place(&self, record: &Record, from: usize, len: usize, to: &mut IoVec) {
        let len = len.min(record.len().saturating_sub(from));
        let body = self.rx.body(record).wrapping_add(from);
        // SAFETY: `body` has `record.len()` bytes, of which `len` lie behind `from`.
        unsafe { to.copy_in_raw(body, len) };
    }

    /// The record has been taken. True: the other side waits for room, and is to be woken.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, record: Record) -> bool {
        self.rx.advance(record)
    }
}

/// A message of ours that the other side fetches, and where it goes.
pub struct Helping {
    pub index: u8,
    pub job: Job,
    pub to: Places,
}

/// What came of an attempt to help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Help {
    /// There may be more to do.
    More,
    /// A part was done, and the other side may wait for word of it.
    Last,
    /// There was nothing to do.
    Over,
}

/// Addresses in the other process, and lengths.
pub type Places = [(usize, usize); MAX_SEGS];

pub fn len_of(places: &Places) -> usize {
    places
        .iter()
        .fold(0, |sum, &(_, len)| sum.saturating_add(len))
}

/// Which share a job is in.
fn place_of(job: &Job) -> usize {
    job.number as usize % SHARES
}

/// Leaves out what is behind the first `n` bytes of these places.
fn keep(places: &mut Places, mut n: usize) {
    for (_, len) in places {
        *len = n.min(*len);
        n -= *len;
    }
}

/// Leaves out the first `n` bytes of these places.
fn skip(places: &mut [(usize, usize)], mut n: usize) {
    for (address, len) in places {
        let part = n.min(*len);
        *address = address.wrapping_add(part);
        *len -= part;
        n -= part;
    }
}

/// Above this size a copy takes so long that the other side may come for the line that it polls meanwhile.
const SHORT: usize = 1024;

/// From this size on the other side is always asked to share a message; below, one time in so many after it did not.
const LONG_WAY: usize = 512 * 1024;
const ASK_AGAIN: u32 = 8;

/// A copy to or from a region of the other side is cut into steps of so many bytes: the other side may want to close it.
const STEP: usize = 16 << 20;

/// Less room than this is no room for the parts of what goes in several records.
const SHRED: usize = 2048;

#[cfg(test)]
mod tests;
