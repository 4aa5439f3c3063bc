// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A ring of records from one producer to one consumer, in memory that two processes share and neither trusts.
//!
//! The data area is mapped twice in a row, so that each record is contiguous. A record begins at a line of 64 bytes: a
//! word, four spare bytes, the body. It takes whole lines, and a body of up to 56 bytes lies in the line that the
//! consumer polls. The word is 0 if there is no record. Otherwise it has the body's length plus one in 24 bits, 7 bits
//! that the producer chooses, and one bit that changes from lap to lap. Besides the data there are two lines, each
//! written by one side only: the consumer's head, and a flag that says whether the producer waits for room.
//!
//! Only a part of the data area need be used or allocated. A lap is short at first: a word without a length says that
//! the next record is at the start of the next lap. The producer makes laps longer if a record finds no room, and later
//! after several laps of long records, or of records that were not answered one by one. A ring that is not used gets
//! short laps again, and its pages go back to the system. Lines that are in the consumer's cache are slow to write to,
//! so a stream profits from more lines than that cache can hold, while small records in a ping-pong are best kept in
//! both caches.
//!
//! The consumer polls the line behind the last record. If a record began there one lap ago, the lap bit in its word
//! shows that it is old, and neither side has to touch the line: it stays in the consumer's cache. If the line holds
//! bytes of a body, the producer, which keeps track of that, stores 0 there before it publishes the record in front of
//! it; for that it makes sure that the line behind a record is free, too. So the consumer clears nothing and never
//! takes old bytes for a record.
//!
//! What a hostile peer can do: as producer it can write any bytes, any length within the ring, and change bytes while
//! they are copied. So a record is copied out once, and its length is read once. As consumer it can stop, or move its
//! head as if it had taken more records, which loses its own records. An impossible length or head is `Garbage`. No
//! word, head or body leads outside the mapped memory.
//!
//! A store to a line that the other processor holds has to wait for that line. Pages that are not used are not
//! allocated.

mod consumer;
mod memory;
mod producer;
mod shrink;

pub use consumer::{Consumer, Record};
pub use memory::{ConsumerLine, Memory, ProducerLine};
pub use producer::{Body, Producer};
pub use shrink::{Shrunk, growths};

/// The other side wrote an impossible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

/// Records begin at multiples of this.
pub const LINE: usize = 64;
/// Bytes in front of the body.
pub const HEADER: usize = 8;
/// The part of a word that holds the length plus one.
const LEN_BITS: u32 = 24;
const LEN_MASK: u32 = (1 << LEN_BITS) - 1;
/// The bit of a word that differs between one lap and the next.
const LAP: u32 = 1 << 31;
/// Number of record kinds.
pub const KINDS: u8 = 1 << 7;
const MAX_CAPACITY: usize = 1 << LEN_BITS;
/// A word without a length: the rest of the lap is skipped.
const SKIP: u32 = 1 << LEN_BITS;
/// Length of the first laps, unless the capacity is smaller. Most peers of a large job never need more.
pub const FIRST_LAP: usize = 1 << 12;
/// Up to this length, laps get longer as soon as a record finds no room. A consumer always permits that much.
pub const QUICK_LAP: usize = 1 << 15;
/// Longer laps get longer after this many laps of one length: a stream of that size is worth the memory.
const LAPS: u8 = 4;
/// Number of a record's bytes behind its first line that are prefetched.
const AHEAD: usize = 4096 + LINE;
/// A record of at least this size is long.
const LONG: usize = 2048;

/// Returns true if a ring can have a data area of this many bytes. A ring that is mapped twice also needs a multiple of
/// the page size.
pub const fn is_capacity(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= 4 * LINE && bytes <= MAX_CAPACITY
}

/// Returns the number of bytes of the data area that are used at first, and must be allocated.
pub const fn first_lap(capacity: usize) -> usize {
    at_most(FIRST_LAP, capacity)
}

const fn at_most(len: usize, most: usize) -> usize {
    match len < most {
        true => len,
        false => most,
    }
}

/// Returns the longest body in this many bytes: all but the header and the line behind the record.
const fn longest_body(bytes: usize) -> usize {
    bytes - LINE - HEADER
}

/// Returns the lap bit that all words of one lap have.
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
