// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Bytes from the link to the parser; the payload of a large frame straight to its place. And what makes a session that
//! reads nothing read on.
#![forbid(unsafe_code)]

use crate::base::Error;
use crate::engine::srx::Claimed;
use crate::engine::stream::link::is_silence;
use crate::engine::stream::session::common::Todo;
use crate::engine::stream::session::receive_state::{At, Sink};
use crate::engine::stream::session::{Cx, Ending, Session};
use crate::engine::transport::Address;
use crate::sys::io_list::ScatterList;
use crate::sys::socket::Moved;

/// A payload of which at least this much is missing is read to its place, not through the scratch buffer.
const DIRECT: u64 = 4096;
/// Bytes behind such a payload that are read along: the start of the next frame.
const ALONG: usize = 4096;

/// What one read has brought.
pub enum Read {
    Nothing,
    /// There may be more.
    Some,
    /// There is no more for now.
    All,
    /// The end of the session: `ending` says why.
    Ended,
}

impl<A: Address> Session<A> {
    /// Reads from the link once.
    #[inline(always)]
    pub fn read_once(&mut self, cx: Cx<'_, A>, scratch: &mut [u8]) -> Read {
        // It is put together again behind the read: one that finds nothing needs no memory for it.
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
                    Some(iov) => iov.append_to(&mut list, wanted),
                    None => 0,
                };
                if placed == 0 {
                    (link.read(scratch), scratch.len(), 0)
                } else {
                    if placed == wanted {
                        list.push(&mut scratch[..ALONG]);
                    }
                    (link.read_list(&list), list.bytes(), placed)
                }
            }
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
            Ok(()) => Read::Some,
            Err(fault) => self.read_ended(Ending::Fault(fault)),
        }
    }

    /// The caller takes the session down.
    #[cold]
    fn read_ended(&mut self, ending: Ending) -> Read {
        self.ending = Some(Box::new(ending));
        Read::Ended
    }

    /// A receive has met a message whose bytes are not here.
    pub fn deliver(&mut self, cx: &mut Cx<'_, A>, claimed: Claimed) {
        if claimed.envelope.note != 0 {
            return self.get(cx, claimed.recv, claimed.envelope);
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

    /// There may be room for what stands in the stream, or in the queue of the endpoint.
    pub fn retry_read(&mut self, cx: &mut Cx<'_, A>) {
        let stalled = match &self.rx.at {
            At::Held(_) => return self.retry_frame(cx),
            At::Stopped(_) => return self.retry_payload(cx),
            At::Stalled(stalled) => stalled,
            At::Header | At::Payload(_) => {
                // It was held because of a full queue.
                if cx.domain.may_receive(self.ep) {
                    cx.common.stalled.retain(|&stalled| stalled != cx.id);
                    cx.todo(Todo::ResumeRead);
                }
                return;
            }
        };
        let (srx, slot, len, ack) = (stalled.srx, stalled.slot, stalled.envelope.len, stalled.ack);
        let limit = cx.common.limits.saved_bytes;
        // Its place is paid for.
        if cx.domain.rx_queue(srx).has_room(cx.id as u64, len, limit) {
            cx.domain.rx_queue_mut(srx).begin_coming(slot);
            self.resume(cx, Sink::Slot(srx, slot), len, ack);
        }
    }

    /// There may be room for the rest of an unexpected message, or a receive has taken it.
    fn retry_payload(&mut self, cx: &mut Cx<'_, A>) {
        let At::Stopped(incoming) = &self.rx.at else {
            return;
        };
        let Sink::Slot(srx, slot) = incoming.sink else {
            return;
        };
        let (remaining, ack) = (incoming.remaining, incoming.ack);
        let next = self.rx.leftover.len() as u64;
        let queue = cx.domain.rx_queue_mut(srx);
        let sink = if queue.is_met(slot) {
            // The rest goes straight to the receive, without a copy of ours.
            match queue.take_met(slot) {
                Some((recv, envelope)) => Sink::Recv(recv, envelope),
                None => Sink::Drop,
            }
        } else if queue.may_grow(
            slot,
            next.min(remaining) as usize,
            cx.common.limits.saved_bytes,
        ) {
            Sink::Slot(srx, slot)
        } else {
            return;
        };
        self.resume(cx, sink, remaining, ack);
    }

    /// The link takes bytes again.
    pub fn unblocked(&mut self, cx: &mut Cx<'_, A>) {
        self.tx.blocked = false;
        self.flush_conn(cx);
        self.retry_frame(cx);
    }
}
