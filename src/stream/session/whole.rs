// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fast path for complete frames other than messages, on one segment and without special flags. All other frames, also
//! refused ones, take the general path in `receive`.

use crate::proto::Whole;
use crate::session::{Cx, Session};
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// Handles the frame that starts here, if it is one of these, and returns its size. Otherwise it does nothing.
    // Inlined into the loop over all frames it would cost each message some instructions.
    #[inline(never)]
    pub fn take_whole(&mut self, cx: &mut Cx<'_, A>, bytes: &[u8]) -> Option<usize> {
        if !self.rx.is_between() || self.tx.out.swaps() {
            return None;
        }
        let (whole, frame) = Whole::of(bytes)?;
        let (exposed, peer, out) = (&mut self.exposed, &self.peer, &mut self.tx.out);
        let taken = match whole {
            Whole::Write(write, payload) => exposed.written_at_once(cx, peer, out, &write, payload),
            Whole::ReadRequest(seg) => exposed.read_at_once(cx, peer, out, seg),
            Whole::ReadResponse(payload) => self.tx.take_answer(cx, payload),
            Whole::Atomic(what, seg, payload) => {
                self.agreed.extended && exposed.operate(cx, peer, out, what, seg, payload)
            }
        };
        taken.then_some(frame)
    }
}
