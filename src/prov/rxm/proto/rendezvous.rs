// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of a message's bytes, at its sender or its receiver: at most four segments in the memory of the packet's
//! sender.

use super::fault::Fault;
use super::{MAX_PLACES, u64_at};
use object::ops::transfer::RemoteSeg;

/// Bytes of the list in a packet.
pub const RENDEZVOUS_SIZE: usize = MAX_PLACES * PLACE + 8;
const PLACE: usize = 24;
const COUNT_AT: usize = MAX_PLACES * PLACE;

/// Key of a segment that the peer must not access: the sender waits for addresses to write to.
pub const NO_KEY: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    list: [RemoteSeg; MAX_PLACES],
    count: usize,
}

impl Places {
    /// Returns `None` if there are too many.
    pub fn of(places: impl IntoIterator<Item = RemoteSeg>) -> Option<Places> {
        let mut all = Places::default();
        for place in places {
            *all.list.get_mut(all.count)? = place;
            all.count += 1;
        }
        Some(all)
    }

    pub fn list(&self) -> &[RemoteSeg] {
        &self.list[..self.count]
    }

    /// Returns the total size, or `None` if it overflows.
    pub fn total(&self) -> Option<u64> {
        let mut lens = self.list().iter().map(|place| place.len as u64);
        lens.try_fold(0, |sum: u64, len| sum.checked_add(len))
    }

    /// Whether the sender of this request waits for target addresses.
    pub fn without_keys(&self) -> bool {
        self.list().iter().all(|place| place.key == NO_KEY)
    }

    pub fn encode(&self, out: &mut [u8; RENDEZVOUS_SIZE]) {
        *out = [0; RENDEZVOUS_SIZE];
        for (place, out) in self.list().iter().zip(out.as_chunks_mut::<PLACE>().0) {
            out[..8].copy_from_slice(&place.addr.to_ne_bytes());
            out[8..16].copy_from_slice(&(place.len as u64).to_ne_bytes());
            out[16..].copy_from_slice(&place.key.to_ne_bytes());
        }
        out[COUNT_AT] = self.count as u8;
    }

    pub fn decode(bytes: &[u8]) -> Result<Places, Fault> {
        if bytes.len() != RENDEZVOUS_SIZE {
            return Err(Fault("a list of places of another length"));
        }
        let count = usize::from(bytes[COUNT_AT]);
        if !(1..=MAX_PLACES).contains(&count) {
            return Err(Fault("a list of no places, or of too many"));
        }
        let place = |at: usize| RemoteSeg {
            addr: u64_at(bytes, at),
            len: u64_at(bytes, at + 8) as usize,
            key: u64_at(bytes, at + 16),
        };
        let places = Places::of((0..count).map(|i| place(i * PLACE))).unwrap_or_default();
        match places.total() {
            Some(total) if total <= isize::MAX as u64 => Ok(places),
            _ => Err(Fault("places with more bytes than memory has")),
        }
    }
}

impl core::fmt::Debug for Places {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}
