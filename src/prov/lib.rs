// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One folder per provider. Providers never name each other; what two of them need lives in `engine`. One that has the
//! transport of another, under a name of its own, gets it from the registry: `alias`.
#![forbid(unsafe_code)]

mod alias;
mod device;
pub mod hook;
mod layered;
pub mod lnx;
pub mod mrail;
pub mod off_coll;
mod provider;
pub mod rxd;
pub mod rxm;
pub mod shm;
pub mod sockets;
pub mod tcp;
pub mod udp;
pub mod verbs;

pub use alias::{Alias, Backing};
pub use provider::{Below, Provider};
