// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations between an endpoint and its peers, as far as they are the same for all transports with sessions
//! (`stream`, `rxm`, `rxd`).
//!
//! - `check` refuses operations that an endpoint cannot post, and `post` passes the others to the sessions of their
//!   peers.
//! - `table` holds operations that wait for an answer, and `claim` stores messages that arrive in several packets.
//! - `stall` reports peers for which operations wait too long.
//! - `pacing` limits how many peers are greeted at a time.
//! - `retry` has the pauses between attempts to connect or to send again.
//! - `loss` gives the operations with a lost peer their reason. `handover` moves those of a closed context.

pub mod check;
pub mod claim;
pub mod handover;
pub mod loss;
pub mod pacing;
pub mod post;
pub mod retry;
pub mod stall;
pub mod table;
#[cfg(test)]
mod tests;
