// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Unexpected messages whose bytes arrive in parts.
//!
//! The budget can be charged with the whole message when it begins, or with each part when it arrives (`keep_growing`).
//! The second way keeps peers from using up the budget with messages that they announce and never send; in return the
//! transport asks before each part whether there is room (`may_grow`), and stops its peer if there is none.
#![forbid(unsafe_code)]

use super::{Bytes, ENTRY, Envelope, Slot, Srx, Unexpected};
use crate::base::Result;
use crate::base::grow::{append, heap_cost};
use crate::hmem::Memory;

impl<M: Memory> Srx<M> {
    /// As `keep`, for a message whose bytes arrive in parts and are charged as they arrive.
    pub fn keep_growing(&mut self, envelope: Envelope) -> Slot {
        self.keep_charged(envelope, Bytes::Coming(Vec::new()), ENTRY)
    }

    /// Whether the next `len` bytes of a message that grows may be kept. Bytes for a posted receive always may.
    pub fn may_grow(&mut self, slot: Slot, len: usize, limit: usize) -> bool {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let is_wanted = message.taker.is_some() || message.discarded;
        let token = message.envelope.token;
        is_wanted || self.budget.has_room(token, heap_cost(len), limit)
    }

    /// The next bytes of a message whose bytes are coming. `NOMEM`: there is no memory for them.
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
        // Bytes behind the end of the receive are lost anyway.
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

    /// Charges what a message takes by now, if it was not charged in advance.
    fn charge_up_to(&mut self, slot: Slot, payload: usize) {
        let message: &mut Unexpected<M> = self.slot_lane(slot).matcher.unexpected(slot.id);
        let origin = message.origin.as_ref();
        let cost = ENTRY + payload + origin.map_or(0, |origin| heap_cost(origin.len()));
        let more = cost.saturating_sub(message.charge);
        if more > 0 {
            message.charge += more;
            let token = message.envelope.token;
            self.budget.charge(token, more);
        }
    }

    /// The bytes of a message that stood in the stream are taken after all, and charged now.
    pub fn begin_coming(&mut self, slot: Slot) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let envelope = message.envelope;
        let cost = heap_cost(envelope.len as usize);
        message.bytes = Bytes::Coming(Vec::new());
        message.charge += cost;
        self.budget.charge(envelope.token, cost);
    }

    /// The same; the bytes are charged as they arrive.
    pub fn begin_growing(&mut self, slot: Slot) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        message.bytes = Bytes::Coming(Vec::new());
    }
}
