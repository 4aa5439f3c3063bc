// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One folder per provider. Providers never name each other; what two of them need lives in `engine`.

pub mod hook;
mod provider;
pub mod shm;
pub mod tcp;
pub mod udp;

pub use provider::{Below, Provider};
