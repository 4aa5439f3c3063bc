// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes the operations that endpoints post to the sessions of their peers.

use crate::connector::Connector;
use crate::ep::PeerSlot;
use crate::proto::{MAX_ATOMIC, MAX_CONTEXTS, MAX_SEGS};
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use abi::{FI_ATOMIC_READ, FI_EP_MSG};
use base::{Error, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::ep_state::EpState;
use engine::peer::post::{Posts, post_atomic};
use engine::transport::Atomics;
use object::ops::atomic::Atomic;
use object::ops::transfer::{Tx, What};

impl<N: Connector> Posts for Stream<N> {
    const LIMITED: OpFlags = OpFlags::MATCH_COMPLETE;
    const MOST_SEGMENTS: usize = MAX_SEGS;
    const MOST_CONTEXTS: usize = MAX_CONTEXTS;

    /// The matches of earlier messages are known only if those messages requested FI_MATCH_COMPLETE, so a fence cannot
    /// wait for them.
    fn unsupported(what: What, flags: OpFlags, ep: &EpState) -> OpFlags {
        let is_rdm = ep.ep_type != FI_EP_MSG.0;
        match what == What::Tagged && is_rdm && !flags.contains(OpFlags::FENCE) {
            true => OpFlags::empty(),
            false => OpFlags::MATCH_COMPLETE,
        }
    }

    #[inline(always)]
    fn session_for(&mut self, domain: &mut DomainOf<N>, port: usize, dest: u64) -> Result<usize> {
        self.connection(domain, port, dest)
    }

    #[inline(always)]
    fn start(
        &mut self,
        domain: &mut DomainOf<N>,
        _port: usize,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        let (session, mut cx) = self.traffic.at(domain, id);
        // An operation without a completion is refused while the peer is not connected, unless the progress thread
        // drives the connection, or the operation leaves at once.
        if session.state != State::Up
            && !cx.domain.reports_completion(&op)
            && !(context == 0 && session.tx.leaves_early(&mut cx, &op))
        {
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

    fn start_atomic(
        &mut self,
        domain: &mut DomainOf<N>,
        _port: usize,
        id: usize,
        atomic: &mut Atomic<'_>,
        mut op: TxOp,
    ) -> Result {
        let (session, mut cx) = self.traffic.at(domain, id);
        if session.state != State::Up && !cx.domain.reports_completion(&op) {
            return Err(self.refuse_unheard(domain, id));
        }
        // An atomic read changes nothing, so it need not wait for earlier reads.
        if atomic.op == FI_ATOMIC_READ {
            op.flags &= !OpFlags::AFTER_READS;
        }
        let answers_writes = cx.common.limits.answers_writes && session.may_answer_writes();
        if op.what == What::Atomic && answers_writes {
            op.flags |= OpFlags::TRANSMIT_COMPLETE;
        }
        atomic.flags = op.flags;
        let result = session.post_atomic(&mut cx, atomic, op);
        self.settle(domain);
        result
    }
}

impl<N: Connector> Atomics for Stream<N> {
    const ATOMIC_SIZE: usize = MAX_ATOMIC;

    fn atomic(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        post_atomic(self, domain, port, ep, atomic)
    }
}

impl<N: Connector> Stream<N> {
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
        if self.traffic.peers[id].session.state != State::Up {
            self.prepare(domain, id)?;
        }
        Ok(id)
    }

    /// Prepares a connection that is not up for an operation: begins to connect, or keeps a connection open that was
    /// about to be closed.
    #[cold]
    fn prepare(&mut self, domain: &mut DomainOf<N>, id: usize) -> Result {
        let conn = &self.traffic.peers[id];
        match conn.session.state {
            State::Idle if !conn.clock.is_started() => {
                self.begin_connect(domain, id)?;
                // An attempt that fails at once also removes the connection.
                match self.traffic.peers.contains(id) {
                    true => Ok(()),
                    false => Err(Error::CONNREFUSED),
                }
            }
            State::Resting => {
                self.with(domain, id, |session, cx| session.withdraw_close(cx));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
