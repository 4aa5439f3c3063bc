// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Writes queued frames: as much as the link takes now, and the rest when it has room again.

use std::io;

use super::Outbox;
use super::queue::After;
use crate::link::{Link, Whole, is_silence};
use crate::session::Cx;
use crate::session::common::Todo;
use base::Error;
use engine::transport::Address;
use sys::socket::Moved;

impl Outbox {
    /// Marks the session for a flush. Over a socket the flushing thread may do that too; over shared memory only frames
    /// that found no room are queued, and copies that a sender shares with the peer.
    #[inline(always)]
    pub fn mark_dirty<A: Address>(&mut self, cx: &mut Cx<'_, A>) {
        if self.dirty {
            return;
        }
        self.dirty = true;
        let gathers = cx.link.gathers();
        cx.common.dirty.push(cx.id);
        if gathers && !cx.common.is_reading {
            cx.common.hold();
        }
    }

    /// Whether the session is marked for a flush.
    pub fn is_marked(&self) -> bool {
        self.dirty
    }

    /// Writes what was held back since the session was marked, unless the link has no room.
    pub fn flush_marked<A: Address>(&mut self, cx: &mut Cx<'_, A>) {
        self.dirty = false;
        if !self.blocked {
            self.flush(cx);
        }
    }

    /// Continues after the link has room again.
    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Stops writing because the link has no room.
    #[cold]
    pub(super) fn block<A>(&mut self, cx: &mut Cx<'_, A>) {
        self.blocked = true;
        // The peer has to take the records in the ring.
        cx.link.ring_if_parked();
        cx.todo(Todo::Blocked);
    }

    /// Handles a failed write to the socket. The kernel reports the error only once, so it is kept until the read side
    /// finds the end. After an error that does not end the stream (such as unmapped memory) this shuts the link down.
    #[cold]
    pub(super) fn cannot_send<A>(&mut self, cx: &mut Cx<'_, A>, error: io::Error) {
        let cause = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::CONNRESET,
            _ if is_silence(&error) => Error::TIMEDOUT,
            _ => {
                let number = error.raw_os_error().map_or(Error::IO, Error::new);
                cx.link.shutdown();
                cx.todo(Todo::CannotSend(error));
                number
            }
        };
        self.cause.get_or_insert(cause);
    }

    /// Writes queued frames until the queue is empty or the link takes no more.
    pub fn flush<A: Address>(&mut self, cx: &mut Cx<'_, A>) {
        cx.watch();
        loop {
            if self.frames.is_empty() {
                return cx.link.ring_if_parked();
            }
            if matches!(cx.link, Link::Down) {
                return;
            }
            if let Some((header, payload, len)) = self.frames.first_whole() {
                match cx.link.send_whole(header, payload) {
                    Whole::Sent => {
                        self.written(cx, len);
                        continue;
                    }
                    Whole::Blocked => return self.block(cx),
                    Whole::Parts => {}
                }
            }
            let list = self.frames.parts(cx.link.longest_whole());
            let asked = list.bytes();
            let moved = cx.link.write_list(&list);
            self.pace.wrote();
            match moved {
                Ok(Moved::Bytes(n)) => {
                    self.written(cx, n);
                    if n < asked {
                        return self.block(cx);
                    }
                }
                Ok(Moved::Later) => return self.block(cx),
                Ok(Moved::End) => return self.block(cx),
                // The read side ends the connection.
                Err(error) => {
                    self.cannot_send(cx, error);
                    return self.block(cx);
                }
            }
        }
    }

    /// Removes `n` bytes from the queue after the kernel has taken them.
    fn written<A: Address>(&mut self, cx: &mut Cx<'_, A>, n: usize) {
        let (domain, ep) = (&mut *cx.domain, self.ep());
        let finish = |after| match after {
            After::Nothing | After::Acknowledged(_) => {}
            After::Complete(op) => {
                domain.complete_tx(&op);
            }
            After::Answered(_, len) => domain.read_by_peer(ep, len),
        };
        self.frames.written(n, &mut cx.common.buffers, finish);
    }
}
