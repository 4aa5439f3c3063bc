// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The operating system. Nothing here depends on fabrics.
//!
//! Descriptors are owned or borrowed. The number of one appears only in the arguments of a system call, and in the
//! control messages of `local`.

pub mod addr;
pub mod address_space;
pub mod ask_signal;
pub mod barrier;
pub mod cformat;
pub mod clock;
pub mod cond;
pub mod counter;
pub mod datagram;
pub mod ethtool;
pub mod event;
pub mod folder;
pub mod fork;
pub mod heap;
pub mod host;
pub mod io_list;
pub mod limits;
pub mod local;
pub mod long_double;
pub mod mapping;
pub mod memory;
pub mod netif;
pub mod probe;
pub mod process_memory;
pub mod random;
pub mod regular_file;
pub mod resolve;
pub mod retry;
pub mod shared_file;
pub mod shared_object;
pub mod socket;
pub mod thread;
pub mod thread_id;
pub mod user;
pub mod userfault;
pub mod verbs;
