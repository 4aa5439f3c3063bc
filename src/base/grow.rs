// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory for bytes whose number a peer has named: it follows the bytes that came, and what is refused is an error.
//!
//! A peer for whose bytes there is no memory loses its connection.
#![forbid(unsafe_code)]

use crate::base::{Error, Result};

/// Appends `part` to bytes that are to be `whole` some time. There is never room for more than twice of what has come.
pub fn append(bytes: &mut Vec<u8>, part: &[u8], whole: usize) -> Result {
    let len = bytes.len() + part.len();
    if len > bytes.capacity() {
        let room = bytes.capacity().saturating_mul(2).min(whole).max(len);
        reserve(bytes, room - bytes.len())?;
    }
    bytes.extend_from_slice(part);
    Ok(())
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
