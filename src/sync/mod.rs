// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Locks, reference tokens, rings, jobs that two processes share, lines of the cache, how to wait for other threads and processes;
//! knows nothing of fabrics.

pub mod asleep;
mod atomic;
pub mod doorbell;
mod lines;
pub mod lock;
pub mod parts;
pub mod patience;
pub mod ring;
pub mod uses;

pub use lock::{Callers, Children, Forked, Guard, Lock};
pub use patience::Patience;
pub use uses::{Use, Uses};
