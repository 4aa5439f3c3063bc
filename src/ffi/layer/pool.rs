// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of ours for messages below, in slots of one size. It is registered in chunks, grows on demand up to a limit,
//! and is used again.

use core::ptr::slice_from_raw_parts_mut;
use std::sync::Arc;

use super::regions::Regions;
use super::registrar::Registrar;
use crate::base::{Error, Result};
use crate::ffi::client::{Ep, Memory, Span};

pub struct Pool {
    registrar: Registrar,
    /// Bytes of a message.
    size: usize,
    access: u64,
    free: Vec<Slot>,
    /// Those of which endpoints have regions of their own.
    chunks: Vec<Arc<Chunk>>,
    made: usize,
    limit: usize,
}

/// Memory that was registered at once.
struct Chunk {
    memory: Arc<Memory>,
    regions: Regions,
}

/// Room for one message, after the bytes that belong to the provider below. Who has the slot has its memory alone.
pub struct Slot {
    chunk: Arc<Chunk>,
    at: usize,
    prefix: usize,
    size: usize,
}

impl Pool {
    /// Slots for messages of `size` bytes, `limit` of them at most. `access`: rights of local operations.
    pub fn new(registrar: Registrar, size: usize, access: u64, limit: usize) -> Pool {
        Pool {
            registrar,
            size,
            access,
            free: Vec::new(),
            chunks: Vec::new(),
            made: 0,
            limit,
        }
    }

    /// FI_EAGAIN: all are in use.
    #[inline]
    pub fn take(&mut self) -> Result<Slot> {
        match self.free.pop() {
            Some(slot) => Ok(slot),
            None => self.grow(),
        }
    }

    #[inline]
    pub fn put(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Closes the regions of an endpoint that is about to be closed; nothing is sent or received there any more.
    pub fn forget(&mut self, ep: &Ep) {
        for chunk in &self.chunks {
            chunk.regions.forget(ep);
        }
    }

    /// How many are taken.
    pub fn used(&self) -> usize {
        self.made - self.free.len()
    }

    /// How many more can be taken.
    pub fn left(&self) -> usize {
        self.limit - self.used()
    }

    #[cold]
    fn grow(&mut self) -> Result<Slot> {
        let prefix = self.registrar.prefix();
        let stride = (prefix + self.size).next_multiple_of(LINE);
        let count = (CHUNK / stride).max(1).min(self.limit - self.made);
        if count == 0 {
            return Err(Error::AGAIN);
        }
        let memory = Memory::new(stride * count);
        let regions = Regions::new(&self.registrar, &memory, self.access)?;
        let chunk = Arc::new(Chunk { memory, regions });
        if chunk.regions.of_endpoints() {
            self.chunks.push(chunk.clone());
        }
        self.made += count;
        let size = self.size;
        let slots = (0..count).rev().map(|i| Slot {
            chunk: chunk.clone(),
            at: i * stride,
            prefix,
            size,
        });
        self.free.extend(slots);
        self.free.pop().ok_or(Error::NOMEM)
    }
}

impl Slot {
    /// The bytes of the message.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slot's part of the chunk, which no other slot has; who has the slot has it alone: no operation
        // is under way, and no peer has rights.
        unsafe { &*self.place().cast_const() }
    }

    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { &mut *self.place() }
    }

    /// Room for the bytes of a message.
    #[inline]
    pub fn room(&self) -> usize {
        self.size
    }

    fn place(&self) -> *mut [u8] {
        let base: *mut u8 = self.chunk.memory.base().cast();
        // SAFETY: within the chunk.
        let first = unsafe { base.add(self.at + self.prefix) };
        slice_from_raw_parts_mut(first, self.size)
    }

    /// The first `len` bytes of the message, with what is before it, for an operation of `ep`.
    #[inline]
    pub(super) fn span(&self, len: usize, ep: &Arc<Ep>) -> Result<Span> {
        if len > self.size {
            return Err(Error::INVAL);
        }
        let base: *mut u8 = self.chunk.memory.base().cast();
        Ok(Span {
            // SAFETY: within the chunk.
            base: unsafe { base.add(self.at) }.cast(),
            len: self.prefix + len,
            desc: self.chunk.regions.desc(ep, &self.chunk.memory)?,
        })
    }
}

/// Slots do not share cache lines.
const LINE: usize = 64;
/// Bytes that are registered at once, about.
const CHUNK: usize = 1 << 18;
