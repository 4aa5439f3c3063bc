// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A ring of records from one producer to one consumer, in memory that two processes share and neither trusts.
//!
//! The data area is mapped twice in a row, so that each record is contiguous. A record begins at a line of 64 bytes: a
//! word, four spare bytes, the body; it takes whole lines, and a body of up to 56 bytes lies in the line that the
//! consumer polls. The word is 0 while there is nothing, else the body's length plus one in 24 bits, 7 bits that the
//! producer chooses, and one that changes from lap to lap. Besides the data there are two lines, each written by one
//! side only: how far the consumer has come, and whether the producer waits for that.
//!
//! Not all of the data area need be used, or be there. A lap begins short: a word without a length says that the next
//! record is at the start of the next lap. The producer makes laps longer when there have been a few of long records,
//! or of records that were not answered one by one: lines that the consumer still holds are slow to write to, so a
//! stream wants more than its cache can hold, while small records that go to and fro are best kept in both caches.
//!
//! What the consumer polls is the line behind the last record. If a record began there a lap ago, the lap in its word
//! tells that it is old, and nobody has to touch the line: it stays in the consumer's cache. If bytes of a body are
//! there, the producer, who knows, writes 0 over them before it publishes the record in front; for that it makes sure
//! that the line behind a record is free, too. So the consumer clears nothing and never takes old bytes for a record.
//!
//! What a hostile peer can do. As producer: give any bytes, lengths within the ring, and change bytes while they are
//! copied; so a record is copied out once, and its length is read once. As consumer: stop, or move its head as if it
//! had taken records that it has not, which loses its own. A length or head that cannot be is `Garbage`. No word, head
//! or body leads outside the mapped memory.
//!
//! A store into a line that the other processor still holds waits for that line. Memory that is not used is not there.

mod consumer;
mod memory;
mod producer;

pub use consumer::{Consumer, Record};
pub use memory::{ConsumerLine, Memory, ProducerLine};
pub use producer::Producer;

/// The other side wrote what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

/// Records begin at multiples of this.
pub const LINE: usize = 64;
/// In front of the body.
pub const HEADER: usize = 8;
/// The part of a word that holds the length plus one.
const LEN_BITS: u32 = 24;
const LEN_MASK: u32 = (1 << LEN_BITS) - 1;
/// The bit of a word that tells a lap from the one before.
const LAP: u32 = 1 << 31;
/// Records are of one of so many kinds.
pub const KINDS: u8 = 1 << 7;
const MAX_CAPACITY: usize = 1 << LEN_BITS;
/// Without a length: the rest of the lap is left out.
const SKIP: u32 = 1 << LEN_BITS;
/// How long laps are at first, if the capacity is not less.
pub const FIRST_LAP: usize = 1 << 15;
/// After so many laps of one length they get longer: a stream of that size is worth the memory.
const LAPS: u8 = 4;
/// Bytes of a record behind its first line that are asked for before they are needed.
const AHEAD: usize = 4096 + LINE;
/// A record of this size is long.
const LONG: usize = 2048;

/// Whether a ring can have a data area of so many bytes. Where it is mapped twice, it is a multiple of the page size
/// too.
pub const fn is_capacity(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= 4 * LINE && bytes <= MAX_CAPACITY
}

/// Bytes of the data area that are used at first, and have to be there.
pub const fn first_lap(capacity: usize) -> usize {
    match capacity < FIRST_LAP {
        true => capacity,
        false => FIRST_LAP,
    }
}

/// The longest body in so many bytes: all but the header and the line behind the record.
const fn longest_body(bytes: usize) -> usize {
    bytes - LINE - HEADER
}

/// What the words of a lap have in common.
#[inline]
const fn lap_at(position: u64, mask: usize) -> u32 {
    match position & (mask as u64 + 1) {
        0 => 0,
        _ => LAP,
    }
}

#[inline]
const fn size_of_record(len: u32) -> usize {
    (len as usize + HEADER + LINE - 1) & !(LINE - 1)
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
