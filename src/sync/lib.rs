// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Locks, reference tokens, rings, copies that two processes share, prefetches, and ways to wait for other threads and
//! processes. Nothing here depends on fabrics.

mod atomic;
pub mod backoff;
pub mod copy;
pub mod doorbell;
pub mod inside;
pub mod lock;
pub mod monitor;
mod prefetch;
pub mod region_table;
pub mod ring;
pub mod segment;
pub mod shared_bytes;
pub mod sleep_flag;
pub mod split_copy;
pub mod stats;
pub mod uses;
pub mod watches;

pub use backoff::Backoff;
pub use lock::{Callers, Children, Guard, Lock, Refused, Serialized};
pub use uses::{Use, Uses};
