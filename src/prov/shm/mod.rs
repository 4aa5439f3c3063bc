// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The providers `shm` and `sm2`: RDM endpoints of processes of one host, see fi_shm(7).
//!
//! `kind` tells the two apart; `info` is what they offer, `params` the FI_SHM_ variables, `addr` the names of endpoints.

#[allow(dead_code)] // No endpoint has one yet.
pub mod addr;
pub mod info;
pub mod kind;
pub mod params;
mod provider;

pub use provider::{Shm, Sm2};
