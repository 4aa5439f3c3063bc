// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Small frames, which are written in one piece or staged.

use std::io;

use super::Outbox;
use crate::link::Link;
use crate::proto::MAX_HEADER;
use crate::session::Cx;
use base::iovec::CopySource;
use base::{IoVec, OpFlags, Source};
use engine::domain_state::TxOp;
use engine::transport::Address;
use sys::socket::Moved;

/// Payloads up to this size are copied behind their header without an allocation.
pub const FEW: usize = 128;

impl Outbox {
    /// Writes a small frame with a payload of one buffer into a ring. The header has the number `counter`. Returns
    /// false if nothing was sent.
    #[inline(always)]
    pub fn post_one<const LEN: usize>(
        &mut self,
        link: &mut Link,
        header: &[u8; LEN],
        header_len: usize,
        payload: &Source,
    ) -> bool {
        if !link.send_one(header, header_len, payload) {
            return false;
        }
        self.counter = self.counter.wrapping_add(1);
        true
    }

    /// Returns the number of the next frame's header.
    #[inline(always)]
    pub fn counter(&self) -> u8 {
        self.counter
    }

    /// Writes or stages a small frame. Returns false if the general path must send it.
    #[inline(always)]
    pub fn post_small<A: Address, const LEN: usize>(
        &mut self,
        cx: &mut Cx<'_, A>,
        payload: &IoVec,
        op: TxOp,
        acked: bool,
        encode: impl FnOnce(u8, &mut [u8; LEN]) -> usize,
    ) -> bool {
        if cx.link.gathers() {
            return self.post_small_to_socket(cx, payload, op, acked, encode);
        }
        let mut header = [0; LEN];
        let header_len = encode(self.counter, &mut header);
        let (link, len) = (&mut *cx.link, op.len);
        let is_next = self.frames.is_empty();
        if !(is_next && link.send_small(&header, header_len, payload, len)) {
            return false;
        }
        self.small_sent(cx, op, acked);
        true
    }

    /// Does the same over a socket.
    #[inline(always)]
    pub fn post_small_to_socket<A: Address, const LEN: usize>(
        &mut self,
        cx: &mut Cx<'_, A>,
        payload: &impl CopySource,
        op: TxOp,
        acked: bool,
        encode: impl FnOnce(u8, &mut [u8; LEN]) -> usize,
    ) -> bool {
        let is_next = self.frames.is_empty();
        if is_next && !op.flags.contains(OpFlags::MORE) && self.pace.writes(cx.common.polls) {
            let Some(header) = cx.common.scratch.first_chunk_mut() else {
                return false;
            };
            let header_len = encode(self.counter, header);
            let total = header_len + op.len;
            payload.copy_to(&mut cx.common.scratch[header_len..total]);
            let moved = cx.link.write(&cx.common.scratch[..total]);
            self.pace.wrote();
            match moved {
                Ok(Moved::Bytes(n)) if n == total => {}
                // The kernel took nothing, so the general path starts over.
                Ok(Moved::Later) => return false,
                moved => self.stage_rest(cx, moved, total),
            }
            self.small_sent(cx, op, acked);
            return true;
        }
        let mut header = [0; LEN];
        let header_len = encode(self.counter, &mut header);
        let header = &header[..header_len];
        if is_next {
            self.stage_with(cx, header, op.len, |out| payload.copy_out(out));
            self.small_sent(cx, op, acked);
            return true;
        }
        if !self.frames.gather(header, payload, header_len + op.len) {
            return false;
        }
        self.pace.gather();
        let is_full = self.pace.is_full() && !self.blocked;
        self.small_sent(cx, op, acked);
        self.mark_dirty(cx);
        if is_full {
            self.flush(cx);
        }
        true
    }

    /// Stages the rest of a small frame of `total` bytes, which is in the scratch buffer.
    #[cold]
    fn stage_rest<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        moved: io::Result<Moved>,
        total: usize,
    ) {
        let n = match moved {
            Ok(Moved::Bytes(n)) => n,
            _ => 0,
        };
        let rest = cx.common.scratch[n..total].to_vec();
        if let Err(error) = moved {
            self.cannot_send(cx, error);
        }
        self.stage_with(cx, &[], rest.len(), |out| out.extend_from_slice(&rest));
        self.block(cx);
    }

    /// Counts a small frame that was written or staged. Completes its operation, or lets it wait for the
    /// acknowledgement.
    #[inline(always)]
    fn small_sent<A: Address>(&mut self, cx: &mut Cx<'_, A>, mut op: TxOp, acked: bool) {
        self.counter = self.counter.wrapping_add(1);
        if acked {
            cx.begin_waiting(&mut op);
            self.await_ack.push_back(op);
        } else {
            cx.domain.sent(op.ep(), &op);
        }
    }

    /// Writes a small frame with a copied payload at once, if memory is shared with the peer and no frame is queued.
    /// Batching would gain nothing there, and the peer would have to wait for the last frame.
    #[inline]
    pub fn write_copied<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        payload: &[u8],
        encode: impl FnOnce(u8, bool, &mut [u8; MAX_HEADER]) -> usize,
    ) -> bool {
        if cx.link.gathers() || payload.len() > FEW || !self.frames.is_empty() {
            return false;
        }
        let mut bytes = [0; MAX_HEADER + FEW];
        let Some(start) = bytes.first_chunk_mut() else {
            return false;
        };
        let counter = self.counter;
        let len = encode(counter, self.swaps, start);
        bytes[len..len + payload.len()].copy_from_slice(payload);
        let len = len + payload.len();
        if !cx.link.send_small(&bytes, len, &IoVec::empty(), 0) {
            return false;
        }
        self.counter = counter.wrapping_add(1);
        true
    }
}
