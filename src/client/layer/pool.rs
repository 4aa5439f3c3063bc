// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of this library for messages below, in slots of one size. It is registered in chunks, grows on demand up to a
//! limit, and is reused.

use core::ptr::slice_from_raw_parts_mut;
use std::sync::Arc;

use super::regions::Regions;
use super::registrar::Registrar;
use crate::{Ep, Memory, Span};
use base::{Error, Result};

pub struct Pool {
    registrar: Registrar,
    /// Bytes of a message.
    size: usize,
    access: u64,
    free: Vec<Slot>,
    /// Chunks with a region for each endpoint.
    chunks: Vec<Arc<Chunk>>,
    made: usize,
    limit: usize,
}

/// Memory that was registered together.
struct Chunk {
    memory: Arc<Memory>,
    regions: Regions,
}

/// Memory for one message, after the bytes that belong to the provider below. The holder of the slot has exclusive
/// access.
pub struct Slot {
    chunk: Arc<Chunk>,
    at: usize,
    prefix: usize,
    size: usize,
}

impl Pool {
    /// Creates a pool of at most `limit` slots for messages of `size` bytes. `access`: rights of local operations.
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

    /// Returns the number of bytes before a message that belong to the provider below.
    pub fn prefix(&self) -> usize {
        self.registrar.prefix(self.access)
    }

    /// Takes a slot. FI_EAGAIN: all are in use.
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

    /// Closes the regions of an endpoint that is about to be closed; no operation of that endpoint follows.
    pub fn forget(&mut self, ep: &Ep) {
        for chunk in &self.chunks {
            chunk.regions.forget(ep);
        }
    }

    /// Returns the number of slots in use.
    pub fn used(&self) -> usize {
        self.made - self.free.len()
    }

    /// Returns the number of slots that can still be taken.
    pub fn left(&self) -> usize {
        self.limit - self.used()
    }

    #[cold]
    fn grow(&mut self) -> Result<Slot> {
        let prefix = self.prefix();
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
    /// Returns the bytes of the message.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: no other slot has this part of the chunk, and the holder of the slot has exclusive access: no
        // operation is in flight, and no peer has rights.
        unsafe { &*self.place().cast_const() }
    }

    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { &mut *self.place() }
    }

    /// Returns the maximum of bytes in a message.
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

    /// Returns the first `len` bytes of the message with the provider's bytes before it, for an operation of `ep`.
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

#[cfg(any(test, feature = "testing"))]
impl Slot {
    /// Returns unregistered memory that belongs to no pool, for tests without a provider below.
    pub fn alone(size: usize) -> Slot {
        let memory = Memory::new(size);
        let regions = Regions::None;
        Slot {
            chunk: Arc::new(Chunk { memory, regions }),
            at: 0,
            prefix: 0,
            size,
        }
    }
}

/// Alignment of slots, which do not share cache lines.
const LINE: usize = 64;
/// Approximate number of bytes that are registered together.
const CHUNK: usize = 1 << 18;
