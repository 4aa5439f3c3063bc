// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives that name a peer and have waited too long. They are logged once, with the state of the peer, if the user
//! has set FI_*_STALL_REPORT: a receive may wait for as long as the program wants, so by default only dumps list them.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use super::Peer;
use super::gather::source_of;
use crate::ep_state::Role;
use crate::transport::{DomainStateOf, Transport};
use base::log::{Source, Subsys, log_failure};
use base::params::Given;

/// The late receives of a domain.
#[derive(Default)]
pub struct LateReceives {
    limit: Option<(&'static Source, Duration)>,
    next_look: Option<Instant>,
}

/// Number of looks within the limit.
const LOOKS: u32 = 4;

/// Late receives from one peer.
struct Late {
    source: u64,
    count: usize,
    age: Duration,
}

impl LateReceives {
    /// For a domain of this provider. `real`: the provider whose settings it has if it has none of its own.
    pub fn of(provider: &'static Source, real: &'static Source) -> LateReceives {
        let given = |source| Given(source).milliseconds("stall_report");
        let limit = given(provider).or_else(|| given(real));
        LateReceives {
            limit: limit
                .filter(|limit| !limit.is_zero())
                .map(|limit| (provider, limit)),
            next_look: None,
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.limit.is_some() && self.next_look.is_none_or(|at| at <= now)
    }

    /// Logs receives that became late since the last call.
    pub(super) fn tell<T: Transport>(
        &mut self,
        transport: &T,
        domain: &mut DomainStateOf<T>,
        now: Instant,
    ) {
        let Some((provider, limit)) = self.limit else {
            return;
        };
        self.next_look = Some(now + (limit / LOOKS).max(Duration::from_millis(1)));
        for (id, ep) in domain.eps.iter() {
            if !matches!(ep.role, Role::Endpoint | Role::Receive { .. }) {
                continue;
            }
            let mut found: Vec<Late> = Vec::new();
            for (source, age) in domain.srxs[ep.srx].take_late(now, limit) {
                match found.iter_mut().find(|late| late.source == source) {
                    Some(late) => late.count += 1,
                    None => found.push(Late {
                        source,
                        count: 1,
                        age,
                    }),
                }
            }
            let port = ep.port(id);
            for late in found {
                let peers = transport.peers(port);
                let source = source_of(domain, ep.av, late.source);
                let line = Line {
                    late: &late,
                    address: source.and_then(|source| source.address),
                    peer: peers.iter().find(|peer| peer.fi_addr == Some(late.source)),
                };
                log_failure!(provider, Subsys::EpData, "{line}");
            }
        }
    }
}

struct Line<'a> {
    late: &'a Late,
    address: Option<String>,
    peer: Option<&'a Peer>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Late { source, count, age } = self.late;
        let address = self.address.as_deref().unwrap_or("no address");
        write!(
            f,
            "receives that wait for peer {source} ({address}): {count}, the oldest for more than {:.1} s; ",
            age.as_secs_f64()
        )?;
        let Some(peer) = self.peer else {
            return f.write_str("there is no connection to it");
        };
        f.write_str(peer.state)?;
        if let (Some(sent), Some(received)) = (peer.sent, peer.received) {
            write!(f, ", {sent} bytes out, {received} in")?;
        }
        peer.notes.iter().try_for_each(|note| write!(f, ", {note}"))
    }
}
