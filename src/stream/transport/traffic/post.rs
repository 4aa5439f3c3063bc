// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The shortest ways of small operations into the ring of a peer.

use crate::conn::Conn;
use crate::connector::Connector;
use crate::proto::MAX_MESSAGE_HEADER;
use crate::session::direct::SMALL_WRITE;
use crate::session::outbox::TOGETHER;
use crate::session::send::{PLAIN, WANTS_ACK};
use crate::shm_channel::RECORD;
use crate::transport::{DomainOf, Traffic};
use base::Access;
use engine::domain_state::TxOp;
use engine::peer::post::may_post;
use object::ops::transfer::{OneTx, OneWrite};

impl<N: Connector> Traffic<N> {
    /// Tries to write a message of one buffer into the shared memory ring of the peer. Works only if no earlier
    /// operation is waiting, no read is outstanding that the message would have to stay behind, and no answer is
    /// needed. Returns false without side effects if `post` has to send it.
    #[inline(always)]
    pub(in crate::transport) fn post_one(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        tx: &OneTx,
    ) -> bool {
        if !self.has_shm() {
            return self.post_one_to_socket(domain, ep, tx);
        }
        let len = tx.piece.len();
        // Longer messages, which a peer does not keep as unexpected, are held back by the general path.
        let most = (RECORD - MAX_MESSAGE_HEADER).min(self.common.limits.saved_size);
        if len > most || !PLAIN.contains(tx.flags) {
            return false;
        }
        let is_usable = may_post(domain, ep);
        let conn = self.peers.conn_at(ep, tx.dest).filter(|_| is_usable);
        if !conn.is_some_and(|conn| conn.session.post_one(&mut conn.link, tx)) {
            return false;
        }
        domain.sent(ep, &TxOp::of_one(ep, tx));
        true
    }

    /// Does the same for a socket: the message is written or staged. The stream has to settle afterwards.
    #[inline(always)]
    fn post_one_to_socket(&mut self, domain: &mut DomainOf<N>, ep: usize, tx: &OneTx) -> bool {
        let most = TOGETHER.min(self.common.limits.saved_size);
        if N::ALL_SHM || tx.piece.len() > most || !PLAIN.contains(tx.flags) || !may_post(domain, ep)
        {
            return false;
        }
        let Some(id) = self.peers.id_at(ep, tx.dest) else {
            return false;
        };
        let (session, mut cx) = self.at(domain, id);
        debug_assert!(cx.link.gathers());
        session.post_one_small(&mut cx, tx, TxOp::of_one(ep, tx))
    }

    /// Does the same for a write of one buffer to one remote segment.
    #[inline(always)]
    pub(in crate::transport) fn write_one(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        write: &OneWrite,
    ) -> bool {
        if !self.has_shm() {
            return self.write_one_to_socket(domain, ep, write);
        }
        let len = write.piece.len();
        if len > SMALL_WRITE || !PLAIN.contains(write.flags) {
            return false;
        }
        let answers_writes = self.common.limits.answers_writes;
        let is_usable = may_post(domain, ep);
        let conn = self.peers.conn_at(ep, write.dest).filter(|_| is_usable);
        // A write without an answer is sent only if the target certainly allows the access.
        let may = |conn: &Conn<N>| {
            !answers_writes || conn.link.allows(&write.target, Access::REMOTE_WRITE)
        };
        if !conn.is_some_and(|conn| may(conn) && conn.session.write_one(&mut conn.link, write)) {
            return false;
        }
        domain.sent(ep, &TxOp::of_write(ep, write));
        true
    }

    /// Does the same for a socket; see `post_one_to_socket`.
    #[inline(always)]
    fn write_one_to_socket(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        write: &OneWrite,
    ) -> bool {
        let is_usual =
            write.piece.len() <= TOGETHER && PLAIN.union(WANTS_ACK).contains(write.flags);
        if N::ALL_SHM || !is_usual || self.common.limits.answers_writes || !may_post(domain, ep) {
            return false;
        }
        let Some(id) = self.peers.id_at(ep, write.dest) else {
            return false;
        };
        let (session, mut cx) = self.at(domain, id);
        debug_assert!(cx.link.gathers());
        session.write_one_small(&mut cx, write, TxOp::of_write(ep, write))
    }
}
