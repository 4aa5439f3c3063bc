// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory for bytes whose number a peer has named: it follows the bytes that came, and what is refused is an error.
//!
//! A peer for whose bytes there is no memory loses its connection.
#![forbid(unsafe_code)]

use crate::base::{Error, Result};

/// Appends `part` to bytes that are to be `whole` some time. There is never room for more than twice of what has come.
pub fn append(bytes: &mut Vec<u8>, part: &[u8], whole: usize) -> Result {
    let room = room_after(bytes, part.len(), whole);
    if room > bytes.capacity() {
        reserve(bytes, room - bytes.len())?;
    }
    bytes.extend_from_slice(part);
    Ok(())
}

/// Returns the capacity that `append` leaves after a part of `more` bytes.
fn room_after(bytes: &Vec<u8>, more: usize, whole: usize) -> usize {
    let (len, room) = (bytes.len().saturating_add(more), bytes.capacity());
    match len > room {
        true => room.saturating_mul(2).min(whole).max(len),
        false => room,
    }
}

/// Returns how many bytes of the heap `append` takes for a part of `more` bytes.
pub fn cost_of_append(bytes: &Vec<u8>, more: usize, whole: usize) -> usize {
    heap_cost(room_after(bytes, more, whole)).saturating_sub(heap_cost(bytes.capacity()))
}

/// Makes room for `more` bytes.
pub fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result {
    bytes.try_reserve_exact(more).map_err(|_| Error::NOMEM)
}

/// Bytes of the heap that a buffer of this capacity takes.
pub const fn heap_cost(capacity: usize) -> usize {
    match capacity {
        0 => 0,
        _ => capacity.saturating_add(HEAP_BLOCK) & !(HEAP_UNIT - 1),
    }
}

/// What malloc(3) of the C library adds to a block, with what it rounds up, and the unit of its blocks.
const HEAP_BLOCK: usize = 31;
const HEAP_UNIT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_the_bytes() {
        let mut bytes = Vec::new();
        for (part, most) in [(100, 100), (1, 200), (99, 200), (1, 400)] {
            append(&mut bytes, &vec![7; part], usize::MAX).unwrap();
            assert!(bytes.capacity() <= most.max(8), "{}", bytes.capacity());
        }
        let mut bytes = Vec::new();
        append(&mut bytes, &[1; 60], 100).unwrap();
        append(&mut bytes, &[2; 40], 100).unwrap();
        assert_eq!((bytes.len(), bytes.capacity()), (100, 100));
    }

    #[test]
    fn the_cost_of_a_part_is_known_before_it_is_appended() {
        let mut bytes = Vec::new();
        for part in [100, 1, 99, 1, 300, 5000, 1] {
            let (before, cost) = (bytes.capacity(), cost_of_append(&bytes, part, 5600));
            append(&mut bytes, &vec![7; part], 5600).unwrap();
            assert_eq!(
                heap_cost(bytes.capacity()),
                heap_cost(before) + cost,
                "{part}"
            );
        }
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        assert_eq!(reserve(&mut Vec::new(), usize::MAX), Err(Error::NOMEM));
        assert_eq!(
            reserve(&mut Vec::new(), isize::MAX as usize),
            Err(Error::NOMEM)
        );
    }

    #[test]
    fn a_block_of_the_heap_costs_more_than_its_bytes() {
        assert_eq!(heap_cost(0), 0);
        assert_eq!(heap_cost(1), 32);
        assert_eq!(heap_cost(usize::MAX), usize::MAX & !15);
    }
}
