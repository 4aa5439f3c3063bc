// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The operating system. Knows nothing of fabrics.

pub mod addr;
pub mod cformat;
pub mod event;
#[allow(dead_code)] // Its user comes with the shm provider.
pub mod fork;
pub mod heap;
#[allow(dead_code)] // Its user comes with the shm provider.
pub mod local;
pub mod long_double;
pub mod memory;
pub mod netif;
#[allow(dead_code)] // Its user comes with the shm provider.
pub mod process_memory;
pub mod random;
#[allow(dead_code)] // Its user comes with the shm provider.
pub mod region;
pub mod resolve;
pub mod shared_file;
pub mod socket;
