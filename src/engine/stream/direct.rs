// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reads and writes of registered memory that the initiator carries out alone, between processes of one host: fi_rma(3). What
//! the target has to know of, or what has to keep an order with what went through the ring, goes that way.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use crate::abi::*;
use crate::engine::core::TxOp;
use crate::engine::ep_state::Event;
use crate::engine::stream::duct::Duct;
use crate::engine::stream::net::Net;
use crate::engine::stream::rx::Fault;
use crate::engine::stream::transport::{Core, Stream};
use crate::engine::stream::tx::WANTS_ACK;
use crate::ffi::ops::transfer::{AFTER_READS, Tx, What};

/// Writes up to this size go through the ring, which costs less than a call of the kernel; unless they are to be complete at
/// the target, which then need not look.
const SMALL_WRITE: usize = 4096;

/// How long a peer may take to end a copy from or to a region that is closed.
const PATIENCE: Duration = Duration::from_secs(2);

impl<N: Net> Stream<N> {
    /// Whether peers may use registered memory through this endpoint without its knowing: it grants such accesses, and nothing
    /// counts them. (Only data for the queue makes an entry there, and goes by message.)
    pub fn may_be_reached(core: &Core<N>, ep: usize) -> bool {
        let ep = &core.eps[ep];
        let grants = FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE;
        let counts = [Event::RemoteRead, Event::RemoteWrite];
        ep.caps & grants == grants && counts.iter().all(|&event| ep.bound(event).is_none())
    }

    /// Carries out a read or write from here. False leaves it to messages: it may have been done in part, which does no harm.
    pub(super) fn moved_directly(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        tx: &Tx<'_>,
        op: &TxOp,
    ) -> bool {
        const TARGETS: u64 = FI_REMOTE_CQ_DATA | FI_COMMIT_COMPLETE | FI_FENCE | AFTER_READS;
        let conn = &mut self.conns[id];
        let Some(duct) = &mut conn.duct else {
            return false;
        };
        if conn.writes_by_ring {
            if !duct.is_drained() {
                return false;
            }
            conn.writes_by_ring = false;
        }
        let write = op.what == What::Write;
        let small = write && op.len <= SMALL_WRITE && tx.flags & WANTS_ACK == 0;
        let waits = !conn.tx.queue.is_empty() || !conn.tx.waiting.is_empty();
        if small || waits || tx.flags & TARGETS != 0 || core.eps[op.ep()].orders_access {
            return false;
        }
        let mut local = tx.iov.cursor();
        let mut segs = tx.target.iter().filter(|seg| seg.len > 0);
        if op.len == 0 || !segs.all(|seg| duct.copy_region(&mut local, seg, write)) {
            return false;
        }
        core.sent(op.ep(), op);
        true
    }

    /// Takes the domain's regions away from the peers that were shown them: from now on one of its endpoints counts
    /// accesses. Peers that come later are shown a new board where the endpoint that they connect to counts none.
    pub(super) fn hide_regions(&mut self, core: &mut Core<N>) {
        if self.is_inherited() {
            return;
        }
        let Some(mut board) = self.board.take() else {
            return;
        };
        for at in board.withdraw_all() {
            self.wait_for_users(core, at);
        }
    }

    /// A region has been withdrawn from this place of the board: who uses it is waited for, as long as that is reasonable.
    #[cold]
    pub(super) fn wait_for_users(&mut self, core: &mut Core<N>, at: usize) {
        let until = Instant::now() + PATIENCE;
        let ducts: Vec<usize> = self.conns.iter().map(|(id, _)| id).collect();
        for id in ducts {
            while let Some(duct) = self.conns.get(id).and_then(|conn| conn.duct.as_ref())
                && duct.is_using(at)
                && duct.is_alive()
            {
                if Instant::now() < until {
                    std::thread::yield_now();
                    continue;
                }
                duct.leave();
                const HELD: Fault = Fault::Rule("it does not let go of a region that is closed");
                self.fault(core, id, &HELD);
            }
        }
    }
}

/// A connection is over. A copy that the peer makes from or to registered memory just now is waited for, as long as that
/// is reasonable, and no other begins: nobody would wait for it when the region is closed.
#[cold]
pub(super) fn end_direct(duct: &Duct) {
    // Who was waited for already is not waited for again.
    if duct.has_left() {
        return;
    }
    duct.leave();
    let until = Instant::now() + PATIENCE;
    while duct.is_using_any() && duct.is_alive() && Instant::now() < until {
        std::thread::yield_now();
    }
}
