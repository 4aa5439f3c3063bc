// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A domain of this provider, protected by the domain lock: sessions, and the objects below that they use.

use std::time::Instant;

use super::lower::Lower;
use super::sessions::Sessions;
use client::Completion;
use engine::address::ip::Addr;
use engine::coll::messages::Messages;
use engine::domain_state::DomainState;

/// The engine's state of an rxm domain.
pub type StateOf = DomainState<Addr>;

pub struct Rxm {
    pub(super) lower: Lower,
    pub(super) sessions: Sessions,
    /// A pending deadline of `Due::Look`.
    pub(super) next_look: Option<Instant>,
    /// Buffer for completions.
    pub(super) batch: Vec<Completion>,
    pub(super) polls: u32,
    /// Number of polls until the next check for a pending report request.
    pub(super) until_attend: usize,
    /// Collectives.
    pub(super) messages: Messages<Addr>,
}
