// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Locks and reference tokens; knows nothing of fabrics.

pub mod lock;
pub mod uses;

pub use lock::{Guard, Lock};
pub use uses::{Use, Uses};
