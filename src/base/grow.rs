// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Buffers whose final length a peer has announced. They grow with the bytes that have arrived, and an allocation that
//! fails is an error, which costs that peer its connection.
#![forbid(unsafe_code)]

use crate::{Error, Result};

/// Appends `part` to a buffer that will have `whole` bytes. Its capacity is at most twice the number of bytes received.
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

/// Returns the number of bytes of the heap that a buffer of this capacity takes.
pub const fn heap_cost(capacity: usize) -> usize {
    match capacity {
        0 => 0,
        _ => capacity.saturating_add(HEAP_BLOCK) & !(HEAP_UNIT - 1),
    }
}

/// Overhead of malloc(3) per block, rounding included, and the unit of its blocks.
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
