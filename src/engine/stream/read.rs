// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reading from links: one large read feeds the parser of a session, and the payload of a large frame is read straight to its
//! place.
#![forbid(unsafe_code)]

use crate::base::Error;
use crate::base::log::{Subsys, log_warn};
use crate::engine::srx::Claimed;
use crate::engine::stream::link::is_silence;
use crate::engine::stream::net::Net;
use crate::engine::stream::session::receive::Fault;
use crate::engine::stream::session::receive_state::{At, Sink};
use crate::engine::stream::session::{Cx, State};
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::sys::io_list::ScatterList;
use crate::sys::socket::Moved;

/// A payload of which at least this much is missing is read to its place, not through the scratch buffer.
const DIRECT: u64 = 4096;
/// Bytes behind such a payload that are read along: the start of the next frame.
const ALONG: usize = 4096;
/// Reads of one connection in a row before the others have their turn.
const TURNS: usize = 8;

impl<N: Net> Stream<N> {
    /// Reads what a connection has; whether there was anything.
    pub(super) fn read_conn(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        debug_assert!(!self.conns[id].link.is_shm());
        let mut scratch = std::mem::take(&mut self.common.scratch);
        let mut any = false;
        for _ in 0..TURNS {
            let Some(conn) = self.conns.get_mut(id) else {
                break;
            };
            if conn.session.state != State::Up || conn.session.rx.at.waits() {
                break;
            }
            if !domain.may_receive(conn.session.ep) {
                self.hold(id);
                break;
            }
            let (moved, asked, direct) = match &mut conn.session.rx.at {
                At::Payload(incoming) if incoming.remaining >= DIRECT => {
                    let mut list = ScatterList::new();
                    let wanted = usize::try_from(incoming.remaining).unwrap_or(usize::MAX);
                    let placed = match incoming.sink.memory() {
                        Some(iov) => iov.append_to(&mut list, wanted),
                        None => 0,
                    };
                    if placed == 0 {
                        (conn.link.read(&mut scratch), scratch.len(), 0)
                    } else {
                        if placed == wanted {
                            list.push(&mut scratch[..ALONG]);
                        }
                        (conn.link.read_list(&list), list.bytes(), placed)
                    }
                }
                _ => (conn.link.read(&mut scratch), scratch.len(), 0),
            };
            let n = match moved {
                Ok(Moved::Bytes(n)) => n,
                Ok(Moved::Later) => break,
                Ok(Moved::End) => {
                    self.disconnect(domain, id, Error::CONNRESET);
                    any = true;
                    break;
                }
                Err(error) => {
                    let error = match is_silence(&error) {
                        true => Error::TIMEDOUT,
                        false => error.into(),
                    };
                    self.disconnect(domain, id, error);
                    any = true;
                    break;
                }
            };
            any = true;
            // As `at`, for the connection that is at hand.
            let session = &mut conn.session;
            let mut cx = Cx {
                id,
                domain: &mut *domain,
                link: &mut conn.link,
                common: &mut self.common,
            };
            let result = match direct {
                0 => session.take(&mut cx, &scratch[..n]),
                placed => {
                    let own = n.min(placed);
                    let taken = session.placed(&mut cx, own);
                    taken.and_then(|()| session.take(&mut cx, &scratch[..n - own]))
                }
            };
            if let Err(fault) = result {
                self.fault(domain, id, &fault);
                self.settle(domain);
                break;
            }
            self.settle(domain);
            if n < asked {
                break;
            }
        }
        self.common.scratch = scratch;
        any
    }

    /// The peer does not keep to the protocol, or names memory that it may not touch: the connection ends.
    #[cold]
    pub(super) fn fault(&mut self, domain: &mut DomainOf<N>, id: usize, fault: &Fault) {
        let conn = &mut self.conns[id];
        let peer = &conn.session.peer;
        log_warn!(
            N::SOURCE,
            Subsys::EpData,
            "{peer}: connection ended: {fault}"
        );
        conn.session.is_reported = true;
        conn.link.shutdown();
        let why = format_args!("was disconnected: {fault}");
        self.disconnect_because(domain, id, Error::CONNABORTED, &why);
    }

    /// A receive has met a message whose bytes are not here.
    pub(super) fn deliver(&mut self, domain: &mut DomainOf<N>, claimed: Claimed) {
        let id = claimed.envelope.token as usize;
        if claimed.envelope.note != 0 {
            if self.conns.contains(id) {
                self.with(domain, id, |session, cx| {
                    session.get(cx, claimed.recv, claimed.envelope);
                });
            }
            return;
        }
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let At::Stalled(stalled) = &conn.session.rx.at else {
            return;
        };
        let (ack, len) = (stalled.ack, stalled.envelope.len);
        let sink = match claimed.recv {
            Some(recv) => Sink::Recv(recv, claimed.envelope),
            None => Sink::Drop,
        };
        self.with(domain, id, |session, cx| session.resume(cx, sink, len, ack));
    }

    /// There is room for unexpected messages, or in a queue, again.
    #[cold]
    pub(super) fn retry_stalled(&mut self, domain: &mut DomainOf<N>) {
        let waiting = self.common.stalled.clone();
        for id in waiting {
            let Some(conn) = self.conns.get(id) else {
                continue;
            };
            let limit = self.common.limits.saved_bytes;
            if matches!(conn.session.rx.at, At::Held(_)) {
                self.with(domain, id, |session, cx| session.retry_frame(cx));
                continue;
            }
            let At::Stalled(stalled) = &conn.session.rx.at else {
                // It was held because of a full queue.
                if domain.may_receive(conn.session.ep) {
                    self.common.stalled.retain(|&s| s != id);
                    self.rewatch(id, true, self.conns[id].watch.write);
                    self.promote(id);
                }
                continue;
            };
            let (srx, slot, len, ack) =
                (stalled.srx, stalled.slot, stalled.envelope.len, stalled.ack);
            // Its place is paid for.
            if domain.rx_queue(srx).has_room(id as u64, len, limit) {
                domain.rx_queue_mut(srx).begin_coming(slot);
                self.with(domain, id, |session, cx| {
                    session.resume(cx, Sink::Slot(srx, slot), len, ack);
                });
            }
        }
    }

    /// The endpoint's queue has run over: nothing is read until it is emptied.
    #[cold]
    pub(super) fn hold(&mut self, id: usize) {
        if !self.common.stalled.contains(&id) {
            self.common.stalled.push(id);
        }
        self.pause_read(id);
    }
}
