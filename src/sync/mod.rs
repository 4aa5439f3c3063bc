// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Locks, reference tokens, how to wait for other threads; knows nothing of fabrics.

pub mod lock;
pub mod patience;
pub mod uses;

pub use lock::{Guard, Lock};
pub use patience::Patience;
pub use uses::{Use, Uses};
