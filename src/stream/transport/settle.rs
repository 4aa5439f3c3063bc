// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connects sessions with the stream: calls a session with the parts of the domain that it needs, and carries out its
//! requests afterwards.

use crate::conn::Conn;
use crate::connector::Connector;
use crate::lines::Lines;
use crate::session::common::Todo;
use crate::session::{Cx, Ending, Session};
use crate::transport::{DomainOf, Stream};

impl<N: Connector> Stream<N> {
    /// Returns the connections with the parts that poll them.
    pub(super) fn lines(&mut self) -> Lines<'_, N> {
        Lines {
            peers: &mut self.peers,
            poller: &mut self.poller,
            shm: &mut self.shm,
            poll: self.common.polls,
        }
    }

    /// Returns the session of a peer and the parts that it needs. The caller must call `settle` afterwards.
    #[inline(always)]
    pub(super) fn at<'a>(
        &'a mut self,
        domain: &'a mut DomainOf<N>,
        id: usize,
    ) -> (&'a mut Session<N::Addr>, Cx<'a, N::Addr>) {
        let Conn { session, link, .. } = &mut self.peers[id];
        let cx = Cx {
            id,
            domain,
            link,
            common: &mut self.common,
        };
        (session, cx)
    }

    /// Calls the session of a peer.
    pub(super) fn with<R>(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        call: impl FnOnce(&mut Session<N::Addr>, &mut Cx<'_, N::Addr>) -> R,
    ) -> R {
        let (session, mut cx) = self.at(domain, id);
        let result = call(session, &mut cx);
        self.settle(domain);
        result
    }

    /// Carries out the requests that sessions have left to the stream.
    #[inline(always)]
    pub(super) fn settle(&mut self, domain: &mut DomainOf<N>) {
        if !self.common.todo.is_empty() {
            self.settle_all(domain);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_all(&mut self, domain: &mut DomainOf<N>) {
        while let Some((id, todo)) = self.common.todo.pop_front() {
            match todo {
                Todo::WatchPeers => self.watch_peers(),
                Todo::WatchWaits => self.arm_waits(),
                Todo::Collectives(ep) => self.collectives_moved(domain, ep),
                // The loss of one peer may have ended the session of another.
                _ if !self.peers.contains(id) => {}
                Todo::Blocked => self.lines().blocked(id),
                Todo::CannotSend(error) => {
                    let source = self.common.source;
                    self.peers[id].report_unsent(source, &error);
                }
                Todo::PauseRead => self.lines().pause_read(id),
                Todo::ResumeRead => self.lines().resume_read(id),
                Todo::Poll => self.lines().poll_ring(id),
                Todo::End => {
                    if let Some(ending) = self.peers[id].session.ending.take() {
                        self.end_session(domain, id, *ending);
                    }
                }
            }
        }
    }

    /// Tears down a session that has ended.
    pub(super) fn end_session(&mut self, domain: &mut DomainOf<N>, id: usize, ending: Ending) {
        match ending {
            Ending::Fault(fault) => self.fault(domain, id, &fault),
            Ending::Lost(error) => self.disconnect(domain, id, error),
        }
    }
}
