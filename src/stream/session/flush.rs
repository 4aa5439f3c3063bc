// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Writes queued frames: as much as the link takes now, and the rest when it has room again.

use crate::link::{Link, Whole};
use crate::session::queue::{After, Out};
use crate::session::send::{SPARE_BUFFERS, STAGE_FULL};
use crate::session::{Cx, Session};
use engine::transport::Address;
use sys::io_list::GatherList;
use sys::socket::Moved;

impl<A: Address> Session<A> {
    /// Writes queued frames until the queue is empty or the link takes no more.
    pub fn flush_conn(&mut self, cx: &mut Cx<'_, A>) {
        cx.watch();
        loop {
            if self.tx.queue.is_empty() {
                return cx.link.ring_if_parked();
            }
            if matches!(cx.link, Link::Down) {
                return;
            }
            if let Some(Out::Frame(frame)) = self.tx.queue.front()
                && let Some(len) = frame.whole()
            {
                let header = &frame.header[..frame.header_len.into()];
                match cx.link.send_whole(header, &frame.payload) {
                    Whole::Sent => {
                        self.written(cx, len);
                        continue;
                    }
                    Whole::Blocked => return self.blocked(cx),
                    Whole::Parts => {}
                }
            }
            let longest = cx.link.longest_whole();
            let mut list = GatherList::new();
            for out in &self.tx.queue {
                if list.is_full() {
                    break;
                }
                match out {
                    // This frame goes into a record of its own.
                    Out::Frame(frame)
                        if list.bytes() > 0 && frame.whole().is_some_and(|len| len <= longest) =>
                    {
                        break;
                    }
                    Out::Staged { bytes, done, .. } => {
                        list.push(&bytes[*done..]);
                    }
                    Out::Frame(frame) => {
                        let (done, len) = (frame.header_done.into(), frame.header_len.into());
                        list.push(&frame.header[done..len]);
                        let wanted = frame.payload.remaining();
                        if frame.payload.append_to(&mut list, usize::MAX) < wanted {
                            break;
                        }
                    }
                }
            }
            let asked = list.bytes();
            let moved = cx.link.write_list(&list);
            self.tx.pace.wrote();
            match moved {
                Ok(Moved::Bytes(n)) => {
                    self.written(cx, n);
                    if n < asked {
                        return self.blocked(cx);
                    }
                }
                Ok(Moved::Later) => return self.blocked(cx),
                Ok(Moved::End) => return self.blocked(cx),
                // The read side ends the connection.
                Err(error) => {
                    self.write_failed(cx, &error);
                    return self.blocked(cx);
                }
            }
        }
    }

    /// Removes `n` bytes from the queue after the kernel has taken them.
    pub fn written(&mut self, cx: &mut Cx<'_, A>, mut n: usize) {
        let buffers = &mut cx.common.buffers;
        let Session { tx, ep, .. } = self;
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
                    // A buffer that was made for a large message, injected by default, is not worth keeping.
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
                            cx.domain.complete_tx(&op);
                        }
                        After::Answered(_, len) => {
                            tx.answers -= 1;
                            cx.domain.read_by_peer(*ep, len);
                        }
                    }
                }
            }
        }
    }
}
