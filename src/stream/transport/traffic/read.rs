// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reading from links: one large read feeds the parser of a session, and the payload of a large frame is read straight
//! into its buffer.

use crate::connector::Connector;
use crate::session::Cx;
use crate::session::common::Todo;
use crate::session::read::Read;
use crate::transport::{DomainOf, Traffic};

/// Consecutive reads of one connection before the others get their turn.
const TURNS: usize = 8;

impl<N: Connector> Traffic<N> {
    /// Reads from a connection; returns whether there was data.
    pub(in crate::transport) fn read_conn(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        debug_assert!(!self.peers[id].link.is_ring());
        let mut scratch = std::mem::take(&mut self.common.scratch);
        self.common.is_reading = true;
        let mut any = false;
        for _ in 0..TURNS {
            let Some(conn) = self.peers.get_mut(id) else {
                break;
            };
            if !conn.session.state.is_open() || conn.session.rx.waits() {
                break;
            }
            if !domain.may_receive(conn.session.peer.ep) {
                self.hold(id);
                break;
            }
            // The same as `at`, for the connection that is already borrowed.
            let cx = Cx {
                id,
                domain: &mut *domain,
                link: &mut conn.link,
                common: &mut self.common,
            };
            let read = conn.session.read_once(cx, &mut scratch);
            match read {
                Read::Nothing => break,
                Read::Some => {
                    any = true;
                    self.serve();
                    if self.peers[id].session.is_over() {
                        break;
                    }
                }
                Read::All => {
                    any = true;
                    self.serve();
                    break;
                }
                Read::Ended => {
                    any = true;
                    self.common.todo.push_back((id, Todo::End));
                    self.serve();
                    break;
                }
            }
        }
        self.common.scratch = scratch;
        self.common.is_reading = false;
        any
    }

    /// Continues sessions that waited for room for unexpected messages or in a queue.
    #[cold]
    pub(in crate::transport) fn retry_stalled(&mut self, domain: &mut DomainOf<N>) {
        if self.common.stalled.is_empty() {
            return;
        }
        for id in self.common.stalled.to_vec() {
            let conn = self.peers.get(id);
            if conn.is_some_and(|conn| !conn.session.is_over()) {
                self.with(domain, id, |session, cx| session.retry_read(cx));
            }
        }
    }

    /// Stops reading because the endpoint's queue has overflowed, until the application drains it.
    #[cold]
    pub(in crate::transport) fn hold(&mut self, id: usize) {
        self.common.stalled.insert(id);
        self.lines().pause_read(id);
    }
}
