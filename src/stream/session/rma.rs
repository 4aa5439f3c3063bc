// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Remote memory access, at the initiator: fi_rma(3). `exposed` has the target.
//!
//! Reads and fetching atomics beyond the limit get FI_EAGAIN. Peers on libfabric request as much as their transmit
//! queue holds (256 by default, and 3000 are within the limit). Answers that are sent without a copy count with the
//! size of their frame.

use crate::proto::{Frame, MAX_HEADER, ReadRequest, RmaSeg, Write};
use crate::session::atomic::seg_of;
use crate::session::outbox::TOGETHER;
use crate::session::send::{WANTS_ACK, remote_data};
use crate::session::{Cx, Session};
use base::{OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Address;
use object::ops::transfer::Tx;

impl<A: Address> Session<A> {
    pub fn post_write(&mut self, cx: &mut Cx<'_, A>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        if self.direct.moves(cx, &self.tx, tx, &op) {
            return Ok(());
        }
        self.direct.wrote_by_ring();
        let data = remote_data(tx);
        let acked = tx.flags.intersects(WANTS_ACK);
        if op.len <= TOGETHER {
            let write = Write {
                segs: segs(tx),
                data,
                ack: acked,
                commit: false,
                payload: op.len as u64,
            };
            let encode =
                |counter, header: &mut [u8; MAX_HEADER]| write.encode_iter(counter, false, header);
            if self.post_small(cx, &tx.iov, op, acked, encode) {
                return Ok(());
            }
        }
        let write = Frame::Write(Write {
            segs: segs(tx).collect(),
            data,
            ack: acked,
            commit: tx.flags.contains(OpFlags::COMMIT_COMPLETE),
            payload: op.len as u64,
        });
        self.submit(cx, write, tx.iov.take(), op)
    }

    pub fn post_read(&mut self, cx: &mut Cx<'_, A>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        if self.direct.moves(cx, &self.tx, tx, &op) {
            return Ok(());
        }
        let segs = segs(tx).collect();
        let request = Frame::ReadRequest(ReadRequest { segs });
        if self.must_wait(&op) {
            return self.submit(cx, request, tx.iov.take(), op);
        }
        if self.tx.reads.is_full() {
            return Err(cx.again(&op));
        }
        self.tx.request_read(cx, &request, tx.iov.take(), op);
        Ok(())
    }
}

fn segs(tx: &Tx<'_>) -> impl ExactSizeIterator<Item = RmaSeg> {
    tx.target.iter().map(seg_of)
}
