// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connects sessions with the stream: calls a session with the parts of the domain that it needs, and carries out its
//! requests afterwards.

use crate::connector::Connector;
use crate::session::common::Todo;
use crate::session::{Cx, Ending, Session};
use crate::transport::{DomainOf, Stream};
use base::Error;
use base::log::{Subsys, log_warn};

impl<N: Connector> Stream<N> {
    /// Calls the session of a peer.
    pub(super) fn with<R>(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        call: impl FnOnce(&mut Session<N::Addr>, &mut Cx<'_, N::Addr>) -> R,
    ) -> R {
        let (session, mut cx) = self.traffic.at(domain, id);
        let result = call(session, &mut cx);
        self.settle(domain);
        result
    }

    /// Carries out the requests that sessions have left to the stream.
    #[inline(always)]
    pub(super) fn settle(&mut self, domain: &mut DomainOf<N>) {
        if !self.traffic.common.todo.is_empty() {
            self.settle_all(domain);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_all(&mut self, domain: &mut DomainOf<N>) {
        while let Some((id, todo)) = self.traffic.common.todo.pop_front() {
            match self.traffic.carry_out(id, todo) {
                Some(Todo::Collectives(ep)) => self.collectives_moved(domain, ep),
                Some(Todo::Retire) => self.retire_agreed(domain, id),
                Some(Todo::KeptOpen) => self.kept_open(domain),
                Some(Todo::Reopened) => self.reopened(domain, id),
                // The loss of one peer may have ended the session of another.
                Some(Todo::End) if self.traffic.peers.contains(id) => {
                    if let Some(ending) = self.traffic.peers[id].session.ending.take() {
                        self.end_session(domain, id, &ending);
                    }
                }
                _ => {}
            }
        }
    }

    /// Tears down a session that has ended.
    fn end_session(&mut self, domain: &mut DomainOf<N>, id: usize, ending: &Ending) {
        match ending {
            Ending::Lost(error) => self.disconnect(domain, id, *error),
            Ending::Late(what) => {
                let limit = self.traffic.common.limits.op_timeout.as_millis();
                let why = format_args!("did not let a {what} complete within {limit} ms");
                self.disconnect_because(domain, id, Error::TIMEDOUT, &why);
            }
            // The peer violates the protocol or names memory that it must not access.
            Ending::Fault(fault) => {
                let conn = &mut self.traffic.peers[id];
                let peer = &conn.session.peer.addr;
                log_warn!(
                    self.traffic.common.source,
                    Subsys::EpData,
                    "{peer}: connection ended: {fault}"
                );
                conn.session.is_reported = true;
                conn.link.shutdown();
                let why = format_args!("was disconnected: {fault}");
                self.disconnect_because(domain, id, Error::CONNABORTED, &why);
            }
        }
    }
}
