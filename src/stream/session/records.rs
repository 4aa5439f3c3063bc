// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Incoming frames in records of a ring: complete messages go straight to their receives, compact frames have a fast
//! path, and all others go through the parser of `receive`.

use crate::link::{Link, ShmLink};
use crate::proto::{MAX_HEADER, MAX_MESSAGE_HEADER, MAX_ONE_WRITE, Message, Write};
use crate::session::receive::{Fault, message_info};
use crate::session::receive_state::At;
use crate::session::{Cx, Session};
use crate::shm_channel::ShmChannel;
use base::flags::flags;
use base::{Caps, IoVec, Piece};
use engine::srx::{Fill, Unfilled};
use engine::transport::Address;
use sync::ring::{HEADER, LINE, Record};

/// Records up to this size are copied before they are parsed.
const SMALL: usize = 1024;

pub const GARBAGE: Fault = Fault::Rule("it wrote garbage to the shared memory");

/// Result of `take_messages`.
pub struct Left {
    pub taken: usize,
    /// No record follows them.
    pub nothing: bool,
    /// Nothing was taken, because the receives belong to another provider, or do not.
    is_other: bool,
}

/// The payload of a message.
struct InRecord<'a> {
    shm: &'a ShmChannel,
    record: &'a Record,
    header: usize,
    len: usize,
}

/// A closure, which is used twice, would leave a call on the path of a small message.
impl Fill for InRecord<'_> {
    #[inline(always)]
    fn fill(self, to: &IoVec) {
        self.shm.fill(self.record, self.header, self.len, to);
    }
}

impl<A: Address> Session<A> {
    /// Takes messages of a peer while there are some and each matches a plain receive, which is the usual case. Their
    /// payload is copied once. Small messages without a receive are kept, too. Takes `most` at most; `take_record`
    /// handles the next record.
    #[inline(always)]
    pub fn take_messages(&mut self, cx: &mut Cx<'_, A>, most: usize) -> Left {
        if self.passes {
            let left = self.pass_messages(cx, most);
            if !left.is_other {
                return left;
            }
            self.passes = false;
        }
        let left = self.take_some::<false>(cx, most);
        match left.is_other {
            true => {
                self.passes = true;
                self.pass_messages(cx, most)
            }
            false => left,
        }
    }

    #[inline(never)]
    fn pass_messages(&mut self, cx: &mut Cx<'_, A>, most: usize) -> Left {
        self.take_some::<true>(cx, most)
    }

    #[inline(always)]
    fn take_some<const PASSING: bool>(&mut self, cx: &mut Cx<'_, A>, most: usize) -> Left {
        let mut left = Left {
            taken: 0,
            nothing: false,
            is_other: false,
        };
        let source = self.peer.source();
        let between = self.rx.is_between();
        let (true, Link::Shm(link)) = (between && self.state.is_open(), &mut *cx.link) else {
            return left;
        };
        let ShmLink {
            channel: shm,
            doorbell,
            ..
        } = &mut **link;
        let Ok(Some(mut record)) = shm.peek() else {
            return left;
        };
        // If there are many records, the processor prefetches the next one by itself.
        shm.prefetch_rest(&record);
        let Some(mut inlet) = cx.domain.inlet(self.peer.ep, self.peer.fi_addr) else {
            return left;
        };
        if inlet.is_passing() != PASSING {
            left.is_other = true;
            return left;
        }
        loop {
            let mut start = [0; MAX_MESSAGE_HEADER];
            shm.copy_start(&record, &mut start);
            let (message, header) = match Message::compact(&start) {
                Some((message, header, frame)) if frame == record.len() && !message.ack => {
                    (message, header)
                }
                _ => break,
            };
            let parts = message_info(&message);
            let place = InRecord {
                shm,
                record: &record,
                header,
                len: message.payload as usize,
            };
            match inlet.take::<PASSING>(&parts, source, place) {
                Ok(()) => {}
                Err(Unfilled::Unexpected) if record.len() <= SMALL => {
                    let envelope = parts.envelope(source, self.peer.ep, cx.id as u64);
                    let copy = |bytes: &mut Vec<u8>| shm.append(&record, header, bytes);
                    if !inlet.keep(envelope, cx.common.limits.saved_bytes, copy) {
                        break;
                    }
                }
                Err(_) => break,
            }
            if shm.advance(record) {
                doorbell.ring();
            }
            left.taken += 1;
            record = match shm.peek() {
                Ok(Some(record)) if left.taken < most => record,
                next => {
                    left.nothing = matches!(next, Ok(None));
                    break;
                }
            };
        }
        left
    }

    /// Takes writes of a peer while there are some, each to memory of one existing region and without an answer, which
    /// is the usual case. Their payload is copied once. Takes `most` at most; `take_record` handles the next record.
    #[inline(always)]
    pub fn take_writes(&mut self, cx: &mut Cx<'_, A>, most: usize) -> usize {
        let between = self.rx.is_between();
        let usual = between && self.state.is_open() && !self.tx.out.swaps();
        let (true, Link::Shm(link)) = (usual, &mut *cx.link) else {
            return 0;
        };
        let ShmLink {
            channel: shm,
            doorbell,
            ..
        } = &mut **link;
        let mut taken = 0;
        while taken < most
            && let Ok(Some(record)) = shm.peek()
        {
            let mut start = [0; MAX_ONE_WRITE];
            shm.copy_start(&record, &mut start);
            let (write, header) = match Write::compact(&start) {
                Some((write, header, frame)) if frame == record.len() && !write.ack => {
                    (write, header)
                }
                _ => break,
            };
            const NEEDED: Caps = flags!(Caps: RMA | REMOTE_WRITE);
            if taken == 0 && !cx.domain.eps[self.peer.ep].caps.contains(NEEDED)
                || !cx.domain.may_receive(self.peer.ep)
            {
                break;
            }
            let place = |to: &Piece| {
                shm.fill_piece(&record, header, write.payload as usize, to);
            };
            if !self
                .exposed
                .take_write(cx.domain, &self.peer, &write, place)
            {
                break;
            }
            if shm.advance(record) {
                doorbell.ring();
            }
            taken += 1;
        }
        taken
    }

    /// Handles a record; returns whether it was a complete frame other than a message.
    #[inline]
    pub fn take_record(
        &mut self,
        cx: &mut Cx<'_, A>,
        record: &Record,
    ) -> core::result::Result<bool, Fault> {
        let len = record.len();
        if len > SMALL {
            return self.take_large_record(cx, record).map(|()| false);
        }
        if ShmChannel::is_line(record) {
            let mut line = [0; LINE - HEADER];
            if let Some(shm) = cx.link.memory() {
                shm.copy_line(record, &mut line);
            }
            let taken = self.take_whole(cx, &line[..len]).unwrap_or(0);
            if taken == len {
                return Ok(true);
            }
            return self.take_one(cx, &line[taken..len]).map(|()| false);
        }
        let mut scratch = std::mem::take(&mut cx.common.scratch);
        let result = match cx.link.memory() {
            Some(shm) => match shm.copy(record, 0, &mut scratch[..len]) {
                Ok(()) => self.take(cx, &scratch[..len]),
                Err(_) => Err(GARBAGE),
            },
            None => Ok(()),
        };
        cx.common.scratch = scratch;
        result.map(|()| false)
    }

    /// Does the same as `take_record`, but copies the payload straight into its buffer.
    fn take_large_record(
        &mut self,
        cx: &mut Cx<'_, A>,
        record: &Record,
    ) -> core::result::Result<(), Fault> {
        let len = record.len();
        let mut at = 0;
        while at < len {
            // Handling a part may have ended the session.
            if self.is_over() {
                break;
            }
            let Some(shm) = cx.link.memory() else {
                break;
            };
            let rest = len - at;
            let part = match &mut self.rx.at {
                At::Payload(incoming) => {
                    let n = incoming.part(rest);
                    if let Some(iov) = incoming.sink.memory() {
                        let landing = &mut incoming.landing;
                        let n = match iov.is_device() {
                            false => {
                                shm.place(record, at, n, iov);
                                n
                            }
                            true => match shm.land(record, at, n, iov, landing) {
                                Ok(n) => n,
                                Err(_) => return Err(GARBAGE),
                            },
                        };
                        incoming.remaining -= n as u64;
                        at += n;
                        if incoming.remaining == 0 {
                            self.finish(cx);
                        }
                        continue;
                    }
                    n
                }
                At::Header => rest.min(MAX_HEADER),
                At::Stalled(_) | At::Stopped(_) | At::Held(_) => rest,
            };
            let part = part.min(cx.common.scratch.len());
            let mut scratch = std::mem::take(&mut cx.common.scratch);
            let copied = shm.copy(record, at, &mut scratch[..part]);
            let result = match copied {
                Ok(()) => self.take(cx, &scratch[..part]),
                Err(_) => Err(GARBAGE),
            };
            cx.common.scratch = scratch;
            result?;
            at += part;
        }
        Ok(())
    }
}
