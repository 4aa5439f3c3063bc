// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of the library for messages of its own, which transports take as they take memory of the application.
//!
//! Trusted with: that the memory is never freed. A block that is dropped is used again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{IoVec, Piece};

/// A block of `Block::SIZE` bytes, or of `Block::LARGE`. Its owner keeps it until the operation that uses it is over.
pub struct Block(Piece);

static FREE: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
static FREE_LARGE: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
/// Blocks that operations may still use after their owners have ended.
static LEFT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

impl Block {
    pub const SIZE: usize = 8192;
    pub const LARGE: usize = 65536;

    /// Returns a block with these bytes, and the part that has them.
    ///
    /// # Panics
    /// If there are more than `LARGE`.
    pub fn holding(bytes: &[u8]) -> (Block, IoVec) {
        let (block, part) = Block::with_room(bytes.len());
        part.fill(bytes);
        (block, part)
    }

    /// Returns a block, and a part of it of this length.
    ///
    /// # Panics
    /// If it exceeds `LARGE`.
    pub fn with_room(len: usize) -> (Block, IoVec) {
        assert!(len <= Block::LARGE, "the bytes exceed a block");
        let size = match len <= Block::SIZE {
            true => Block::SIZE,
            false => Block::LARGE,
        };
        let whole = free(size).pop().unwrap_or_else(|| {
            let memory = vec![0; size].leak();
            // SAFETY: never freed, and without other references.
            unsafe { Piece::new(memory.as_mut_ptr(), memory.len()) }
        });
        let part = part_of(&whole, len);
        (Block(whole), IoVec::from(part))
    }

    /// Never uses the block again, because an operation may use it that does not report its end any more.
    pub fn leave(self) {
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(self);
    }

    /// Copies the first `len` bytes out.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        part_of(&self.0, len.min(self.0.len())).copy_out(&mut bytes);
        bytes
    }
}

/// The first bytes of a block.
fn part_of(whole: &Piece, len: usize) -> Piece {
    // SAFETY: never freed. An operation that outlives the block would send other bytes, or write to those of another
    // one.
    unsafe { Piece::new(whole.base, len) }
}

/// The unused blocks of this size.
fn free(size: usize) -> MutexGuard<'static, Vec<Piece>> {
    let free = match size <= Block::SIZE {
        true => &FREE,
        false => &FREE_LARGE,
    };
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Block {
    fn drop(&mut self) {
        free(self.0.len()).push(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_bytes_that_it_was_given() {
        let (one, first) = Block::holding(b"abc");
        let (_other, second) = Block::holding(&[7; Block::SIZE]);
        let mut bytes = Vec::new();
        first.copy_out(&mut bytes);
        assert_eq!(bytes, b"abc");
        assert_eq!(one.bytes(2), b"ab");
        drop(one);
        bytes.clear();
        second.copy_out(&mut bytes);
        assert_eq!(bytes, [7; Block::SIZE]);
    }
}
