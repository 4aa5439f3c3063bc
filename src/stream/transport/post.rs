// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes the operations that endpoints post to the sessions of their peers.

use crate::connector::Connector;
use crate::ep::PeerSlot;
use crate::proto::MAX_ATOMIC;
use crate::proto::MAX_CONTEXTS;
use crate::session::State;
use crate::session::rma::check_target;
use crate::session::send::check_flags;
use crate::transport::{DomainOf, Stream};
use abi::FI_ATOMIC_READ;
use base::flags::flags;
use base::{Error, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Atomics;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{Tx, What};

impl<N: Connector> Stream<N> {
    /// Posts an operation of an endpoint.
    #[inline]
    pub(super) fn post(&mut self, domain: &mut DomainOf<N>, ep: usize, tx: &mut Tx<'_>) -> Result {
        let state = domain.find_ep(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        let len = tx.iov.remaining();
        if tx
            .flags
            .intersects(flags!(OpFlags: MATCH_COMPLETE | FENCE | TRIGGER))
        {
            check_flags(tx.what, tx.flags, state)?;
        }
        domain.may_post(ep)?;
        let id = self.connection(domain, ep, tx.dest)?;
        let op = TxOp {
            since: 0,
            what: tx.what,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context.number(),
            len,
        };
        self.post_to(domain, id, tx, op, 0)
    }

    /// Passes an operation to the session of a peer; a message may be addressed to one of the peer's receive contexts.
    #[inline(always)]
    pub(super) fn post_to(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        if matches!(op.what, What::Write | What::Read) {
            check_target(tx, op.len)?;
        }
        let (session, mut cx) = self.traffic.at(domain, id);
        // An operation without a completion is refused while the peer is not connected, unless the progress thread
        // drives the connection.
        if session.state != State::Up && !cx.domain.hears_of(&op) {
            return Err(self.refuse_unheard(domain, id));
        }
        let result = match op.what {
            What::Msg | What::Tagged if context == 0 => session.post_message(&mut cx, tx, op),
            What::Msg | What::Tagged => session.post_message_to(&mut cx, tx, op, context),
            // Memory belongs to the endpoint, so the receive context in the address does not matter.
            What::Write => {
                if cx.common.limits.answers_writes && session.may_answer_writes() {
                    tx.flags |= OpFlags::TRANSMIT_COMPLETE;
                }
                let flags = tx.flags;
                session.post_write(&mut cx, tx, TxOp { flags, ..op })
            }
            What::Read => session.post_read(&mut cx, tx, op),
            // Atomic operations are passed as `Atomic`, not as `Tx`.
            What::Atomic | What::AtomicFetch => Err(Error::OPNOTSUPP),
        };
        self.settle(domain);
        result
    }

    /// Returns the connection for an operation, and begins to connect if necessary. Inlined, because this is on the
    /// path of every message and a call would cost several instructions.
    #[inline(always)]
    pub(super) fn connection(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        dest: u64,
    ) -> Result<usize> {
        let endpoint = self.traffic.peers.find_ep(ep).ok_or(Error::INVAL)?;
        if !endpoint.rdm {
            let id = endpoint.conn.ok_or(Error::NOTCONN)?;
            return match self.traffic.peers[id].session.state {
                State::Up => Ok(id),
                State::Down => Err(Error::SHUTDOWN),
                _ => Err(Error::NOTCONN),
            };
        }
        let id = match endpoint.slot(dest).and_then(PeerSlot::conn) {
            Some(id) => id,
            None => self.find_peer(domain, ep, dest)?,
        };
        if self.traffic.peers[id].session.state == State::Idle
            && !self.traffic.peers[id].clock.is_started()
        {
            self.begin_connect(domain, id)?;
            // An attempt that fails at once also removes the connection.
            if !self.traffic.peers.contains(id) {
                return Err(Error::CONNREFUSED);
            }
        }
        Ok(id)
    }
}

impl<N: Connector> Atomics for Stream<N> {
    const ATOMIC_SIZE: usize = MAX_ATOMIC;

    /// Posts an atomic operation of the endpoint `port`, or of its transmit context `ep`. Memory belongs to the
    /// endpoint, so the receive context in the address does not matter.
    fn atomic(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        let state = domain.find_ep(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        let what = match atomic.family {
            Family::Base => What::Atomic,
            Family::Fetch | Family::Compare => What::AtomicFetch,
        };
        check_flags(what, atomic.flags, state)?;
        domain.may_post(ep)?;
        let (dest, _) = domain.destination(port, atomic.dest, MAX_CONTEXTS)?;
        let id = self.connection(domain, port, dest)?;
        let len = match atomic.family {
            Family::Base => atomic.operands.remaining(),
            _ => atomic.result.remaining(),
        };
        let mut op = TxOp {
            since: 0,
            what,
            ep: ep as u32,
            flags: atomic.flags,
            context: atomic.context.number(),
            len,
        };
        let (session, mut cx) = self.traffic.at(domain, id);
        if session.state != State::Up && !cx.domain.hears_of(&op) {
            return Err(self.refuse_unheard(domain, id));
        }
        // An atomic read changes nothing, so it need not wait for earlier reads.
        if atomic.op == FI_ATOMIC_READ {
            op.flags &= !OpFlags::AFTER_READS;
        }
        let answers_writes = cx.common.limits.answers_writes && session.may_answer_writes();
        if what == What::Atomic && answers_writes {
            op.flags |= OpFlags::TRANSMIT_COMPLETE;
        }
        atomic.flags = op.flags;
        let result = session.post_atomic(&mut cx, atomic, op);
        self.settle(domain);
        result
    }
}
