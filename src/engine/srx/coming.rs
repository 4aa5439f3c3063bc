// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Unexpected messages whose bytes arrive in parts.
//!
//! Each part is charged when it arrives, so peers that announce messages and never send them use up neither budget nor
//! memory. In return the transport checks before each part whether there is room (`may_grow`). If there is none, it
//! stops reading from the peer until `Srx::saved` has gone down or a receive has taken the message (`is_matched`).
//!
//! A message that a receive has taken is not charged. Its bytes belong to the application, which has a buffer for them.

use super::{Bytes, ENTRY, Envelope, RecvOp, Slot, Srx, Unexpected};
use base::Result;
use base::grow::{append, cost_of_append, heap_cost};

impl Srx {
    /// Whether the next `len` bytes of a message may be kept. Always true if a receive has taken the message.
    pub fn may_grow(&mut self, slot: Slot, len: usize, limit: usize) -> bool {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let whole = message.envelope.len as usize;
        let cost = match &message.bytes {
            Bytes::Coming(bytes) if !message.is_matched() => cost_of_append(bytes, len, whole),
            _ => return true,
        };
        let token = message.envelope.token;
        cost == 0 || self.budget.has_room(token, cost, limit)
    }

    /// Adds the next bytes of a message that arrives in parts. Returns `NOMEM` if there is no memory.
    pub fn coming(&mut self, slot: Slot, part: &[u8]) -> Result {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let wanted = match &message.taker {
            Some(recv) => recv.len,
            None if message.discarded => 0,
            None => usize::MAX,
        };
        let Bytes::Coming(bytes) = &mut message.bytes else {
            return Ok(());
        };
        // Bytes beyond the end of the receive are dropped anyway.
        let room = wanted.saturating_sub(bytes.len());
        append(
            bytes,
            &part[..part.len().min(room)],
            message.envelope.len as usize,
        )?;
        let payload = heap_cost(bytes.capacity());
        self.charge_up_to(slot, payload);
        Ok(())
    }

    /// Charges the current memory use of an unexpected message.
    fn charge_up_to(&mut self, slot: Slot, payload: usize) {
        let message: &mut Unexpected = self.slot_lane(slot).matcher.unexpected(slot.id);
        if message.is_matched() {
            return;
        }
        let origin = message.origin.as_ref();
        let cost = ENTRY + payload + origin.map_or(0, |origin| heap_cost(origin.len()));
        let more = cost.saturating_sub(message.charge);
        if more > 0 {
            message.charge += more;
            let token = message.envelope.token;
            self.budget.charge(token, more);
        }
    }

    /// Begins to store the bytes of a message that stayed with the transport until now.
    pub fn begin_coming(&mut self, slot: Slot) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        message.bytes = Bytes::Coming(Vec::new());
    }

    /// Whether a receive has taken a message that arrives in parts, or discarded it.
    pub fn is_matched(&mut self, slot: Slot) -> bool {
        self.slot_lane(slot)
            .matcher
            .unexpected(slot.id)
            .is_matched()
    }

    /// Removes such a message. Returns its receive with the bytes that have arrived; none if the message was discarded.
    pub fn take_met(&mut self, slot: Slot) -> Option<(RecvOp, Envelope)> {
        let message = self.slot_lane(slot).matcher.take_unexpected(slot.id);
        self.budget.release(&message);
        let mut recv = *message.taker?;
        if let Bytes::Coming(bytes) = &message.bytes {
            recv.iov.copy_in(bytes);
        }
        Some((recv, message.envelope))
    }
}

impl Unexpected {
    fn is_matched(&self) -> bool {
        self.taker.is_some() || self.discarded
    }
}
