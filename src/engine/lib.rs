// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The code that providers share: queues, counters, address vectors, memory regions, matching, waiting, progress. It
//! implements the rules of the man pages about these in one place.
//!
//! Tables and rings are plain data (`matching`, `av`, `mr`, `cq_ring`). `domain_state` contains those of one domain,
//! under its lock. `domain` and `fabric` implement the C handles. A provider implements `Transport`.
#![cfg_attr(not(test), forbid(unsafe_code))]

pub mod address;
pub mod ages;
pub mod atomic;
pub mod auth;
pub mod auth_av;
pub mod av;
pub mod clock;
pub mod cntr;
pub mod coll;
pub mod cond_watch;
pub mod connect_clock;
pub mod cq_ring;
pub mod descriptors;
pub mod domain;
pub mod domain_state;
pub mod ep_state;
pub mod eq;
pub mod fabric;
pub mod flusher;
pub mod half_open;
pub mod id_set;
pub mod matching;
pub mod mr;
pub mod named_av;
pub mod pace;
pub mod peer;
pub mod peer_index;
pub mod reactor;
pub mod report;
pub mod share;
pub mod shared_av;
pub mod signal;
pub mod srx;
pub mod stats;
pub mod strangers;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transport;
pub mod trigger;
pub mod unreachable;
pub mod wait;
