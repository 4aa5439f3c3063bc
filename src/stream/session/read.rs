// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes bytes from the link to the parser, and reads the payload of a large frame straight into its buffer. Also
//! resumes sessions that had stopped reading.

use std::io;

use crate::link::{Link, is_silence};
use crate::session::common::Todo;
use crate::session::receive_state::{At, Incoming, Sink};
use crate::session::{Cx, Ending, Session};
use base::{Error, IoVec};
use engine::srx::Claimed;
use engine::transport::Address;
use hmem::transit::Landing;
use sys::io_list::ScatterList;
use sys::socket::Moved;

/// A payload with at least this many missing bytes is read into its buffer, not through the scratch buffer.
const DIRECT: u64 = 4096;
/// Bytes behind such a payload that are read in the same call: the start of the next frame.
const ALONG: usize = 4096;
/// After a payload of this size only so many bytes are read at first.
pub const LARGE: u64 = 32 * 1024;

/// Reads bytes for a device into host memory, from where they get there, or else into `scratch`. Returns the result,
/// the bytes that it asked for, and how many of them are in their place.
#[cold]
fn read_to_device(
    link: &mut Link,
    iov: &mut IoVec,
    landing: &mut Option<Box<Landing>>,
    scratch: &mut [u8],
    wanted: usize,
) -> (io::Result<Moved>, usize, usize) {
    let landing = landing.get_or_insert_default();
    let Some(room) = iov.landing_room(landing, wanted) else {
        return (link.read(scratch), scratch.len(), 0);
    };
    let len = room.len();
    let moved = link.read(room);
    if let Ok(Moved::Bytes(n)) = &moved {
        landing.filled(*n);
    }
    (moved, len, len)
}

/// Result of one read.
pub enum Read {
    Nothing,
    /// There may be more.
    Some,
    /// There is no more for now.
    All,
    /// The session has ended; `ending` has the reason.
    Ended,
}

impl<A: Address> Session<A> {
    /// Reads from the link once.
    #[inline(always)]
    pub fn read_once(&mut self, cx: Cx<'_, A>, scratch: &mut [u8]) -> Read {
        // The parts are put together again after the read, so that an empty read needs no memory for them.
        let Cx {
            id,
            domain,
            link,
            common,
        } = cx;
        let (moved, asked, direct) = match &mut self.rx.at {
            At::Payload(incoming) if incoming.remaining >= DIRECT => {
                let mut list = ScatterList::new();
                let wanted = usize::try_from(incoming.remaining).unwrap_or(usize::MAX);
                let placed = match incoming.sink.memory() {
                    Some(iov) => iov.scatter_to(&mut list, wanted),
                    None => 0,
                };
                if placed == 0 {
                    let Incoming { sink, landing, .. } = incoming;
                    match sink.memory().filter(|iov| iov.is_device()) {
                        Some(iov) => read_to_device(link, iov, landing, scratch, wanted),
                        None => (link.read(scratch), scratch.len(), 0),
                    }
                } else {
                    if placed == wanted {
                        list.push(&mut scratch[..ALONG]);
                    }
                    (link.read_list(&list), list.bytes(), placed)
                }
            }
            // Only the header of a large payload is worth a copy.
            _ if self.rx.expects_large => (link.read(&mut scratch[..ALONG]), ALONG, 0),
            _ => (link.read(scratch), scratch.len(), 0),
        };
        let n = match moved {
            Ok(Moved::Bytes(n)) => n,
            Ok(Moved::Later) => return Read::Nothing,
            Ok(Moved::End) => return self.read_ended(Ending::Lost(Error::CONNRESET)),
            Err(error) if is_silence(&error) => {
                return self.read_ended(Ending::Lost(Error::TIMEDOUT));
            }
            Err(error) => return self.read_ended(Ending::Lost(error.into())),
        };
        let mut cx = Cx {
            id,
            domain,
            link,
            common,
        };
        let taken = match direct {
            0 => self.take(&mut cx, &scratch[..n]),
            placed => {
                let own = n.min(placed);
                self.placed(&mut cx, own);
                self.take(&mut cx, &scratch[..n - own])
            }
        };
        match taken {
            Ok(()) if n < asked => Read::All,
            Ok(()) => {
                // Many small frames have come.
                self.rx.expects_large &= !matches!(self.rx.at, At::Header);
                Read::Some
            }
            Err(fault) => self.read_ended(Ending::Fault(fault)),
        }
    }

    /// Ends reading; the caller tears the session down.
    #[cold]
    fn read_ended(&mut self, ending: Ending) -> Read {
        self.ending = Some(Box::new(ending));
        Read::Ended
    }

    /// Handles a receive that has matched a message whose bytes are not here.
    pub fn deliver(&mut self, cx: &mut Cx<'_, A>, claimed: Claimed) {
        if claimed.envelope.note != 0 {
            let (told, out) = (&mut self.rx.told, &mut self.tx.out);
            let got = told.get(cx, &self.peer, out, claimed.recv, claimed.envelope);
            return self.end_if_lost(cx, got);
        }
        let At::Stalled(stalled) = &self.rx.at else {
            return;
        };
        let (ack, len) = (stalled.ack, stalled.envelope.len);
        let sink = match claimed.recv {
            Some(recv) => Sink::Recv(recv, claimed.envelope),
            None => Sink::Drop,
        };
        self.resume(cx, sink, len, ack);
    }

    /// Resumes a session that waited for room, for its next frame or in the endpoint's queue.
    pub fn retry_read(&mut self, cx: &mut Cx<'_, A>) {
        let stalled = match &self.rx.at {
            At::Held(_) => return self.retry_frame(cx),
            At::Stopped(_) => {
                if let Some(rest) = self.rx.place_for_rest(cx) {
                    self.resume(cx, rest.sink, rest.remaining, rest.ack);
                }
                return;
            }
            At::Stalled(stalled) => stalled,
            At::Header | At::Payload(_) => {
                // The session was held because of a full queue.
                if cx.domain.may_receive(self.peer.ep) {
                    cx.common.stalled.remove(cx.id);
                    cx.todo(Todo::ResumeRead);
                }
                return;
            }
        };
        let is_graced = stalled
            .grace
            .is_some_and(|grace| !grace.is_over(cx.common.polls));
        if is_graced && stalled.envelope.len >= cx.common.grace_from {
            return;
        }
        let (srx, slot, len, ack) = (stalled.srx, stalled.slot, stalled.envelope.len, stalled.ack);
        let limit = cx.common.limits.saved_bytes;
        // Its entry is counted against the limit already.
        if cx.domain.srxs[srx].has_room(cx.id as u64, len, limit) {
            cx.domain.srxs[srx].begin_coming(slot);
            self.resume(cx, Sink::Slot(srx, slot), len, ack);
        }
    }

    /// Continues after the link has room again.
    pub fn unblocked(&mut self, cx: &mut Cx<'_, A>) {
        self.tx.out.unblock();
        self.tx.out.flush(cx);
        self.retry_frame(cx);
    }

    /// Continues a stopped payload that has a place now; `len` bytes of it are missing.
    pub fn resume(&mut self, cx: &mut Cx<'_, A>, sink: Sink, len: u64, ack: bool) {
        cx.common.stalled.remove(cx.id);
        self.place(cx, sink, len, ack);
        self.go_on(cx);
    }

    /// Retries the frame that was left in the stream.
    pub fn retry_frame(&mut self, cx: &mut Cx<'_, A>) {
        match &self.rx.at {
            At::Held(frame) if !frame.is_answered() || self.tx.out.may_answer() => {}
            _ => return,
        }
        let At::Held(frame) = std::mem::replace(&mut self.rx.at, At::Header) else {
            return;
        };
        cx.common.stalled.remove(cx.id);
        match self.begin(cx, &frame, &[]) {
            Err(fault) => self.end(cx, Ending::Fault(fault)),
            Ok(_) if !self.is_over() && !self.rx.waits() => self.go_on(cx),
            Ok(_) => {}
        }
    }

    /// Resumes the stream after the obstacle is gone.
    pub fn go_on(&mut self, cx: &mut Cx<'_, A>) {
        let leftover = std::mem::take(&mut self.rx.leftover);
        if let Err(fault) = self.take(cx, &leftover) {
            return self.end(cx, Ending::Fault(fault));
        }
        if !self.is_over() && !self.rx.waits() {
            cx.todo(Todo::ResumeRead);
        }
    }
}
