// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What providers share: queues, counters, address vectors, memory regions, matching, waiting, progress. The rules of
//! the man pages about these live here once.

// The domains and endpoints that use these come next.
#[allow(dead_code)]
pub mod av;
#[allow(dead_code)]
pub mod cq_ring;
#[allow(dead_code)]
pub mod matching;
#[allow(dead_code, unused_imports)]
pub mod mr;
