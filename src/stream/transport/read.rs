// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reading from links: one large read feeds the parser of a session, and the payload of a large frame is read straight
//! into its buffer.

use crate::connector::Connector;
use crate::session::read::Read;
use crate::session::receive::Fault;
use crate::session::{Cx, State};
use crate::transport::{DomainOf, Stream};
use base::Error;
use base::log::{Subsys, log_warn};

/// Consecutive reads of one connection before the others get their turn.
const TURNS: usize = 8;

impl<N: Connector> Stream<N> {
    /// Reads from a connection; returns whether there was data.
    pub(super) fn read_conn(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        debug_assert!(!self.peers[id].link.is_ring());
        let mut scratch = std::mem::take(&mut self.common.scratch);
        self.common.is_reading = true;
        let mut any = false;
        for _ in 0..TURNS {
            let Some(conn) = self.peers.get_mut(id) else {
                break;
            };
            if conn.session.state != State::Up || conn.session.rx.at.waits() {
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
                    self.settle(domain);
                }
                Read::All => {
                    any = true;
                    self.settle(domain);
                    break;
                }
                Read::Ended => {
                    any = true;
                    if let Some(ending) = self.peers[id].session.ending.take() {
                        self.end_session(domain, id, *ending);
                    }
                    self.settle(domain);
                    break;
                }
            }
        }
        self.common.scratch = scratch;
        self.common.is_reading = false;
        any
    }

    /// Ends a connection whose peer violates the protocol or names memory that it must not access.
    #[cold]
    pub(super) fn fault(&mut self, domain: &mut DomainOf<N>, id: usize, fault: &Fault) {
        let conn = &mut self.peers[id];
        let peer = &conn.session.peer.addr;
        log_warn!(
            self.common.source,
            Subsys::EpData,
            "{peer}: connection ended: {fault}"
        );
        conn.session.is_reported = true;
        conn.link.shutdown();
        let why = format_args!("was disconnected: {fault}");
        self.disconnect_because(domain, id, Error::CONNABORTED, &why);
    }

    /// Continues sessions that waited for room for unexpected messages or in a queue.
    #[cold]
    pub(super) fn retry_stalled(&mut self, domain: &mut DomainOf<N>) {
        let waiting = self.common.stalled.clone();
        for id in waiting {
            if self.peers.contains(id) {
                self.with(domain, id, |session, cx| session.retry_read(cx));
            }
        }
    }

    /// Stops reading because the endpoint's queue has overflowed, until the application drains it.
    #[cold]
    pub(super) fn hold(&mut self, id: usize) {
        if !self.common.stalled.contains(&id) {
            self.common.stalled.push(id);
        }
        self.lines().pause_read(id);
    }
}
