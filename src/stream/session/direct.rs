// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Direct reads and writes of registered memory by the initiator, between processes of one host: fi_rma(3). Operations
//! that the target must see, or that must stay in order with messages in the ring, go through the ring.

use crate::session::Cx;
use crate::session::send::WANTS_ACK;
use crate::session::send_state::SendState;
use base::OpFlags;
use base::flags::flags;
use engine::domain_state::TxOp;
use engine::transport::Address;
use object::ops::transfer::{Tx, What};

/// Writes up to this size go through the ring, which costs less than a system call; except writes that must be complete
/// at the target, because a direct write does not depend on the target's polls.
pub const SMALL_WRITE: usize = 12 * 1024;

/// Direct access to the peer's memory.
#[derive(Default)]
pub struct Direct {
    /// The peer's registered memory can be accessed without involving the peer.
    is_allowed: bool,
    /// Messages wrote to this peer; direct RMA must not overtake them.
    writes_by_ring: bool,
}

impl Direct {
    /// Whether the peer's registered memory can be accessed without involving the peer.
    pub fn allow(&mut self, is_allowed: bool) {
        self.is_allowed = is_allowed;
    }

    /// Records that a message changes the peer's memory.
    #[inline(always)]
    pub fn wrote_by_ring(&mut self) {
        self.writes_by_ring = true;
    }

    /// Executes a read or write directly. False leaves it to messages; a partial execution before that does no harm.
    #[inline]
    pub fn moves<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        state: &SendState,
        tx: &Tx<'_>,
        op: &TxOp,
    ) -> bool {
        self.is_allowed && self.has_moved(cx, state, tx, op)
    }

    fn has_moved<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        state: &SendState,
        tx: &Tx<'_>,
        op: &TxOp,
    ) -> bool {
        const TARGETS: OpFlags = flags!(OpFlags: REMOTE_CQ_DATA | COMMIT_COMPLETE | FENCE);
        let Some(shm) = cx.link.memory_mut() else {
            return false;
        };
        if self.writes_by_ring {
            if !shm.is_drained() {
                return false;
            }
            self.writes_by_ring = false;
        }
        let write = op.what == What::Write;
        let small = write && op.len <= SMALL_WRITE && !tx.flags.intersects(WANTS_ACK);
        let waits = !state.out.frames().is_empty()
            || state.has_waiting()
            || tx.flags.contains(OpFlags::AFTER_READS) && state.holds(tx.what, tx.flags);
        if small || waits || tx.flags.intersects(TARGETS) || cx.domain.eps[op.ep()].orders_access {
            return false;
        }
        let mut local = tx.iov.cursor();
        if op.len == 0 {
            return false;
        }
        for seg in tx.target.iter() {
            if seg.len > 0 && !shm.copy_region(&mut local, seg, write) {
                return false;
            }
        }
        cx.domain.sent(op.ep(), op);
        true
    }
}
