// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of this library that takes many messages, one after the other: FI_MULTI_RECV, fi_msg(3).

use core::ptr::{null_mut, slice_from_raw_parts};
use std::sync::Arc;

use super::registrar::Registrar;
use crate::cq::next_block;
use crate::{Completion, Memory, Mr, Span};
use abi::FI_RECV;
use base::Result;

/// Memory for messages below. While a receive has it, the provider writes there, and each completion has the address of
/// its message.
pub struct Block {
    memory: Arc<Memory>,
    region: Option<Arc<Mr>>,
    /// Number of the last post (`next_block`), which completions of messages in the block have reached.
    number: u64,
}

impl Block {
    /// Allocates `size` bytes. Not for providers with their own bytes before each message (`Registrar::prefix`).
    pub fn new(registrar: &Registrar, size: usize) -> Result<Block> {
        let memory = Memory::new(size);
        let region = match registrar.wants_local() {
            true => Some(registrar.register(&memory, FI_RECV)?),
            false => None,
        };
        let number = u64::MAX;
        Ok(Block {
            memory,
            region,
            number,
        })
    }

    /// Called before the block is posted: completions of earlier posts show no messages any more.
    pub(super) fn renew(&mut self) {
        self.number = next_block();
    }

    /// Returns the message of a completion of the block's receive, as read from the queue. `None` if it is not in the
    /// block, or was read before the block was posted again. The message is borrowed from the block, which is posted
    /// again by value:
    ///
    /// ```
    /// use client::{Completion, layer::Block};
    /// fn read(block: Block, done: &Completion) -> usize {
    ///     let len = block.message(done).map_or(0, <[u8]>::len);
    ///     drop(block);
    ///     len
    /// }
    /// ```
    ///
    /// ```compile_fail,E0505
    /// use client::{Completion, layer::Block};
    /// fn read(block: Block, done: &Completion) -> usize {
    ///     let message = block.message(done);
    ///     drop(block);
    ///     message.map_or(0, <[u8]>::len)
    /// }
    /// ```
    #[inline]
    pub fn message(&self, done: &Completion) -> Option<&[u8]> {
        let base: *const u8 = self.memory.base().cast();
        let at = done.buf.checked_sub(base.addr())?;
        if done.block < self.number || done.len > self.memory.len().checked_sub(at)? {
            return None;
        }
        // SAFETY: within the memory, and no peer has rights there. Only a queue makes completions with a place, and
        // this one was read after the block was posted the last time. After a completion the provider does not write
        // to its message again until the block is posted again; for that it is moved, which ends this borrow.
        Some(unsafe { &*slice_from_raw_parts(base.add(at), done.len) })
    }

    pub(super) fn span(&self) -> Span {
        let desc = self.region.as_ref();
        Span {
            base: self.memory.base(),
            len: self.memory.len(),
            desc: desc.map_or(null_mut(), |region| region.desc()),
        }
    }
}
