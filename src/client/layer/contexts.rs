// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The contexts of operations below: numbers, or structs if the provider there requires them (FI_CONTEXT).

use core::cell::UnsafeCell;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{Context, Done, Info};
use abi::*;

pub(super) enum Contexts {
    /// The common upper part of these numbers, which distinguishes them from those of other tables.
    Numbers(usize),
    Structs(Vec<Box<[Room]>>),
}

/// A context struct, which belongs to the provider while an operation uses it.
#[repr(transparent)]
pub(super) struct Room(UnsafeCell<fi_context2>);

// SAFETY: only its address is used here.
unsafe impl Send for Room {}
// SAFETY: the same.
unsafe impl Sync for Room {}

impl Contexts {
    pub fn new(info: Info<'_>) -> Contexts {
        match info.raw().mode & (FI_CONTEXT | FI_CONTEXT2) {
            0 => Contexts::Numbers(TABLES.fetch_add(1, Ordering::Relaxed) << SHIFT),
            _ => Contexts::Structs(Vec::new()),
        }
    }

    /// Returns the context of the operation with this number. No other operation in flight has the number.
    #[inline]
    pub fn of(&mut self, number: usize) -> Context {
        let chunks = match self {
            Contexts::Numbers(first) => return Context(without_provenance_mut(*first | number)),
            Contexts::Structs(chunks) => chunks,
        };
        while chunks.len() <= number / CHUNK {
            chunks.push((0..CHUNK).map(|_| Room::new()).collect());
        }
        Context(chunks[number / CHUNK][number % CHUNK].0.get().cast())
    }

    /// Returns the number of the operation that has ended.
    #[inline]
    pub fn number(&self, done: &Done) -> Option<usize> {
        let chunks = match self {
            Contexts::Numbers(first) => {
                let number = done.number() ^ first;
                return (number >> SHIFT == 0).then_some(number);
            }
            Contexts::Structs(chunks) => chunks,
        };
        chunks.iter().enumerate().find_map(|(i, chunk)| {
            let offset = done.number().checked_sub(chunk.as_ptr().addr())?;
            let at = offset / size_of::<Room>();
            (at < CHUNK && offset.is_multiple_of(size_of::<Room>())).then_some(i * CHUNK + at)
        })
    }
}

impl Room {
    fn new() -> Room {
        Room(UnsafeCell::new(fi_context2 {
            internal: [null_mut(); 8],
        }))
    }
}

/// Number of tables with numbers.
static TABLES: AtomicUsize = AtomicUsize::new(1);
/// Bits of a context for the number of the operation.
const SHIFT: u32 = 32;
/// Number of structs that are allocated at once.
const CHUNK: usize = 256;
