// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decides when a peer that does not answer is given up.
//!
//! A silent peer may be computing, so it has minutes (`MAX_TIMEOUTS`). If a host or router reports meanwhile that the
//! peer is unreachable, its process or host is gone, and the limit is `UNREACHABLE`.

use core::time::Duration;
use std::time::Instant;

use super::{Cx, Session};
use engine::transport::Address;

/// Evidence that a peer may be gone.
#[derive(Default)]
pub struct Silence {
    /// Time of the first timeout since the last packet of the peer.
    since: Option<Instant>,
    /// The peer was reported as unreachable since its last packet.
    pub is_unreachable: bool,
}

impl<A: Address> Session<A> {
    /// A timeout has passed without a packet of the peer. Returns whether the peer is gone.
    #[cold]
    pub(super) fn is_gone<W>(&mut self, cx: &mut Cx<'_, A, W>) -> bool {
        cx.common.has_silent = true;
        let since = *self.silence.since.get_or_insert(cx.now);
        self.silence.is_unreachable && cx.now.saturating_duration_since(since) >= UNREACHABLE
    }
}

/// Time for a peer that is reported as unreachable, because its process may restart. The next timeout after that, which
/// is up to 4 s later, ends the session.
const UNREACHABLE: Duration = Duration::from_secs(25);
