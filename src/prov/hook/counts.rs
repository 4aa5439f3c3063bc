// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters of calls and bytes, by function and size: the data of the hooks `profile` and `monitor`.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::*;
use client::wrap::{Call, Slot};
use sync::monitor::{BOUNDS, CLASSES, ENTRIES, READS, RECORDS, REGIONS};

/// Number of calls and sum of bytes in each size class of one record.
#[derive(Default)]
pub struct Record {
    pub counts: [AtomicU64; CLASSES],
    pub sums: [AtomicU64; CLASSES],
}

/// All records of a fabric. Threads add concurrently; nothing depends on the order.
pub struct Counts {
    pub records: [Record; RECORDS.len()],
    /// Record of each slot, by slot number.
    of_slot: [Option<u8>; Slot::COUNT],
}

impl Counts {
    pub fn new() -> Counts {
        let mut of_slot = [None; Slot::COUNT];
        for slot in Slot::all() {
            let name = slot.name();
            let place = RECORDS.iter().position(|record| *record == name);
            of_slot[slot.number()] = place.map(|place| place as u8);
        }
        Counts {
            records: core::array::from_fn(|_| Record::default()),
            of_slot,
        }
    }

    /// Counts a successful call; returns the number of events that it counts as.
    pub fn note(&self, call: &Call<'_>, result: i64) -> u64 {
        let Some(record) = self.of_slot[call.slot().number()].map(usize::from) else {
            return 0;
        };
        match record {
            _ if result < 0 => return 0,
            READS..ENTRIES => return self.note_entries(call, result),
            REGIONS..READS => {
                let (_, len, iface) = call.region();
                self.add(record, (iface as usize).min(CLASSES - 1), len);
            }
            // The size of a posted buffer is not the size of a received message.
            0..FIRST_SENT => self.add(record, 0, 0),
            _ => {
                let len = call.transfer().len;
                self.add(record, class_of(len), len);
            }
        }
        1
    }

    fn note_entries(&self, call: &Call<'_>, result: i64) -> u64 {
        if call.slot() == const { Slot::of("cq", "readerr") } {
            return 0;
        }
        let sent = match call.cq_format() {
            FI_CQ_FORMAT_MSG => ENTRIES + 1,
            FI_CQ_FORMAT_DATA => ENTRIES + 3,
            FI_CQ_FORMAT_TAGGED => ENTRIES + 5,
            _ => {
                for _ in 0..result {
                    self.add(ENTRIES, 0, 0);
                }
                return result as u64;
            }
        };
        for entry in call.completions() {
            match entry.flags & FI_RECV != 0 {
                true => self.add(sent + 1, class_of(entry.len), entry.len),
                false => self.add(sent, 0, 0),
            }
        }
        result as u64
    }

    fn add(&self, record: usize, class: usize, bytes: usize) {
        let record = &self.records[record];
        // Relaxed: the counters are independent of other memory.
        record.counts[class].fetch_add(1, Ordering::Relaxed);
        record.sums[class].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Records before this index are receives.
const FIRST_SENT: usize = 6;

pub fn class_of(len: usize) -> usize {
    BOUNDS.partition_point(|bound| len > *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_but_entries_has_its_slot() {
        let counts = Counts::new();
        for (record, name) in RECORDS.iter().enumerate().take(ENTRIES) {
            let slots = counts
                .of_slot
                .iter()
                .filter(|of| **of == Some(record as u8));
            assert_eq!(slots.count(), 1, "{name}");
        }
        assert_eq!(RECORDS[REGIONS], "mr_reg");
        assert_eq!(RECORDS[READS], "cq_read");
        assert_eq!(RECORDS[ENTRIES], "cq_ctx");
        assert_eq!(RECORDS[FIRST_SENT], "send");
    }

    #[test]
    fn upper_bounds_belong_to_their_class() {
        let classes = [0, 64, 65, 512, 1024, 1025, 4 << 20, (4 << 20) + 1];
        assert_eq!(classes.map(class_of), [0, 0, 1, 1, 2, 3, 7, 8]);
    }
}
