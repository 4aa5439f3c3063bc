// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Writing what is queued: as much as the kernel takes, and the rest when it takes more.
#![forbid(unsafe_code)]

use std::time::Instant;

use crate::base::IoList;
use crate::engine::stream::conn::{After, Out, Session, State};
use crate::engine::stream::net::Net;
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::engine::stream::tx::{SPARE_BUFFERS, STAGE_FULL};
use crate::sys::socket::Moved;

impl<N: Net> Stream<N> {
    /// The kernel takes no more for now: epoll says when it does.
    pub(super) fn blocked(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.session.tx.blocked = true;
        if conn.link.is_shm() {
            return self.shm_full(id);
        }
        let read = conn.watch.read;
        self.rewatch(id, read, true);
    }

    /// The kernel takes bytes again.
    pub(super) fn unblocked(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.conns[id];
        conn.session.tx.blocked = false;
        self.flush_conn(domain, id);
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        if !conn.session.tx.blocked {
            let read = conn.watch.read;
            self.rewatch(id, read, false);
        }
        self.retry_frame(domain, id);
    }

    pub(super) fn flush_dirty(&mut self, domain: &mut DomainOf<N>) {
        let mut dirty = std::mem::take(&mut self.common.dirty);
        for &id in &dirty {
            if let Some(conn) = self.conns.get_mut(id) {
                conn.session.tx.dirty = false;
                if !conn.session.tx.blocked {
                    self.flush_conn(domain, id);
                }
                if self.has_shm() {
                    self.ring_doorbell(id);
                    self.go_on_helping(domain, id);
                }
            }
        }
        dirty.clear();
        // What became dirty meanwhile stays on the list.
        dirty.append(&mut self.common.dirty);
        self.common.dirty = dirty;
        if !self.holds_back_frames() {
            self.common.held_back.end();
        }
    }

    /// Whether frames wait for a socket that takes them. (Who copies a message beside its receiver stays on the list, too.)
    pub(super) fn holds_back_frames(&self) -> bool {
        let over_socket = |&id: &usize| self.conns.get(id).is_some_and(|conn| !conn.link.is_shm());
        self.common.dirty.iter().any(over_socket)
    }

    /// Writes what is queued until nothing is left or the kernel takes no more.
    pub(super) fn flush_conn(&mut self, domain: &mut DomainOf<N>, id: usize) {
        self.watch();
        loop {
            let conn = &mut self.conns[id];
            if conn.session.tx.queue.is_empty() {
                if self.has_shm() {
                    self.ring_doorbell(id);
                }
                return;
            }
            if let (Some(Out::Frame(frame)), Some(shm)) =
                (conn.session.tx.queue.front(), conn.link.shm_mut())
                && let Some(len) = frame.whole().filter(|&len| len <= shm.longest_whole())
            {
                let header = &frame.header[..frame.header_len.into()];
                match shm.send(header, &frame.payload, frame.payload.remaining()) {
                    Ok(true) => self.written(domain, id, len),
                    Ok(false) => {
                        shm.wants = len;
                        return self.blocked(id);
                    }
                    Err(_) => {
                        shm.broken = true;
                        return self.blocked(id);
                    }
                }
                continue;
            }
            let longest = conn.link.shm().map_or(0, |shm| shm.longest_whole());
            let mut list = IoList::new();
            for out in &conn.session.tx.queue {
                if list.is_full() {
                    break;
                }
                match out {
                    // It goes by itself.
                    Out::Frame(frame)
                        if list.bytes() > 0 && frame.whole().is_some_and(|len| len <= longest) =>
                    {
                        break;
                    }
                    Out::Staged { bytes, done, .. } => {
                        list.push_bytes(&bytes[*done..]);
                    }
                    Out::Frame(frame) => {
                        let (done, len) = (frame.header_done.into(), frame.header_len.into());
                        list.push_bytes(&frame.header[done..len]);
                        let wanted = frame.payload.remaining();
                        if frame.payload.append_to(&mut list, usize::MAX) < wanted {
                            break;
                        }
                    }
                }
            }
            let asked = list.bytes();
            let moved = conn.link.write_list(&list);
            conn.session.tx.pace.wrote();
            match moved {
                Ok(Moved::Bytes(n)) => {
                    self.written(domain, id, n);
                    if n < asked {
                        return self.blocked(id);
                    }
                }
                Ok(Moved::Later) => return self.blocked(id),
                Ok(Moved::End) => return self.blocked(id),
                // The reader ends the connection.
                Err(error) => {
                    conn.write_failed(&error);
                    return self.blocked(id);
                }
            }
        }
    }

    /// `n` bytes of the queue are with the kernel.
    pub(super) fn written(&mut self, domain: &mut DomainOf<N>, id: usize, mut n: usize) {
        let Stream { conns, common, .. } = self;
        let buffers = &mut common.buffers;
        let Session { tx, ep, .. } = &mut conns[id].session;
        while let Some(out) = tx.queue.front_mut() {
            match out {
                Out::Staged { bytes, done, owed } => {
                    let part = n.min(bytes.len() - *done);
                    *done += part;
                    n -= part;
                    tx.staged -= part;
                    if *done < bytes.len() {
                        return;
                    }
                    tx.owed -= *owed;
                    let bytes = std::mem::take(bytes);
                    // One made for a large message that was injected by default is not worth keeping.
                    if buffers.len() < SPARE_BUFFERS && bytes.capacity() <= 2 * STAGE_FULL {
                        buffers.push(bytes);
                    }
                    tx.queue.pop_front();
                }
                Out::Frame(frame) => {
                    let part = n.min(usize::from(frame.header_len - frame.header_done));
                    frame.header_done += part as u8;
                    n -= part;
                    let part = n.min(frame.payload.remaining());
                    frame.payload.advance(part);
                    n -= part;
                    if frame.header_done < frame.header_len || frame.payload.remaining() > 0 {
                        return;
                    }
                    let Some(Out::Frame(frame)) = tx.queue.pop_front() else {
                        return;
                    };
                    match frame.after {
                        After::Nothing | After::Acknowledged(_) => {}
                        After::Complete(op) => {
                            domain.eps[op.ep()].tx_pending -= 1;
                            domain.sent(op.ep(), &op);
                        }
                        After::Answered(_, len) => {
                            tx.answers -= 1;
                            domain.read_by_peer(*ep, len);
                        }
                    }
                }
            }
        }
    }

    /// Before a socket is closed: what was reported as sent goes to the kernel, which may take until `until`.
    pub fn last_flush(&mut self, domain: &mut DomainOf<N>, id: usize, until: Instant) {
        if self.conns[id].session.state != State::Up {
            return;
        }
        if self.conns[id].link.is_shm() {
            return self.last_flush_to_shm(domain, id, until);
        }
        self.flush_conn(domain, id);
        while let Some(conn) = self.conns.get(id)
            && conn.session.tx.staged > 0
            && conn
                .link
                .wait_writable(until.saturating_duration_since(self.reactor.now()))
        {
            let before = conn.session.tx.staged;
            self.flush_conn(domain, id);
            // A connection that is writable but takes nothing is broken.
            if self.conns[id].session.tx.staged == before {
                break;
            }
        }
    }
}
