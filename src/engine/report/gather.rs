// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collects the pending operations of endpoints from a domain and its transport.

use core::mem;
use std::time::Instant;

use super::{EpReport, Kept, Listed, Part, Peer, Receive, Source};
use crate::address::AddressFormat;
use crate::domain_state::DomainState;
use crate::ep_state::Role;
use crate::srx::WaitingReceive;
use crate::transport::{Address, DomainStateOf, Transport};
use abi::FI_ADDR_NOTAVAIL;

use object::ops::transfer::What;
use sync::stats::{Gauges, Tally};

/// Reports the pending operations of a domain's endpoints. Scalable endpoints are followed by their contexts.
pub fn gather<T: Transport>(
    transport: &T,
    domain: &DomainStateOf<T>,
    now: Instant,
) -> Vec<EpReport> {
    let mut reports = Vec::new();
    for (id, ep) in domain.eps.iter() {
        match ep.role {
            Role::Endpoint => reports.push(one(transport, domain, now, id, Part::Whole)),
            Role::Scalable { .. } => {
                for (part, id) in parts_of(domain, id) {
                    reports.push(one(transport, domain, now, id, part));
                }
            }
            Role::Receive { .. } | Role::Transmit { .. } | Role::Closed { .. } => {}
        }
    }
    reports
}

/// Returns a scalable endpoint and its contexts, in order, with their numbers in `domain.eps`.
fn parts_of<A: Address>(domain: &DomainState<A>, scalable: usize) -> Vec<(Part, usize)> {
    let mut receives = vec![(Part::Scalable, scalable), (Part::Receive(0), scalable)];
    let (mut transmits, mut closed) = (Vec::new(), Vec::new());
    for (id, ep) in domain.eps.iter() {
        match ep.role {
            Role::Receive { of, index } if of == scalable => {
                receives.push((Part::Receive(index), id));
            }
            Role::Transmit { of, index } if of == scalable => {
                transmits.push((Part::Transmit(index), id));
            }
            Role::Closed { of } if of == scalable && ep.tx_pending > 0 => {
                closed.push((Part::Closed, id));
            }
            _ => {}
        }
    }
    let by_index = |&(part, _): &(Part, usize)| match part {
        Part::Receive(index) | Part::Transmit(index) => index + 1,
        Part::Whole | Part::Scalable | Part::Closed => 0,
    };
    receives.sort_by_key(by_index);
    transmits.sort_by_key(by_index);
    receives
        .into_iter()
        .chain(transmits)
        .chain(closed)
        .collect()
}

fn one<T: Transport>(
    transport: &T,
    domain: &DomainStateOf<T>,
    now: Instant,
    id: usize,
    part: Part,
) -> EpReport {
    let ep = &domain.eps[id];
    let queue = &domain.srxs[ep.srx];
    let source = |fi_addr: u64| source_of(domain, ep.av, fi_addr);
    let port = ep.port(id);
    let is_context = !matches!(part, Part::Whole | Part::Scalable);
    let receives = matches!(part, Part::Whole | Part::Receive(_));
    EpReport {
        address: address_of(transport, port),
        ep_type: ep.ep_type,
        enabled: match (part, ep.role) {
            (Part::Scalable, Role::Scalable { is_enabled }) => is_enabled,
            (Part::Closed, _) => true,
            _ => ep.enabled,
        },
        part,
        transmits: ep.tx_pending,
        most_transmits: ep.tx_size,
        stats: (!is_context).then(|| ep.stats.clone()),
        receives: Listed::of(
            queue
                .waiting()
                .filter(|_| receives)
                .map(|one| receive(&one, source, now)),
        ),
        kept: Listed::of(queue.kept().filter(|_| receives).map(|envelope| Kept {
            tagged: envelope.what == What::Tagged,
            tag: envelope.tag,
            len: envelope.len,
            from: source(T::source(envelope)),
        })),
        kept_bytes: if receives { queue.saved() } else { 0 },
        peers: match is_context {
            true => Vec::new(),
            false => transport.peers(id),
        },
    }
}

/// Returns an endpoint's address as fi_av_straddr does, without the format; empty for an endpoint that has none yet.
pub fn address_of<T: Transport>(transport: &T, ep: usize) -> String {
    let name = transport.name(ep).unwrap_or_default();
    let text = transport.format().text(&name);
    match text.split_once("://") {
        Some((_, address)) => address.to_owned(),
        None => text,
    }
}

fn receive(
    waiting: &WaitingReceive,
    source: impl Fn(u64) -> Option<Source>,
    now: Instant,
) -> Receive {
    Receive {
        tagged: waiting.what == What::Tagged,
        tag: waiting.tag,
        ignore: waiting.ignore,
        len: waiting.len,
        from: waiting.source.and_then(source),
        age: waiting
            .since
            .map(|since| now.saturating_duration_since(since)),
    }
}

pub(super) fn source_of<A: Address>(
    domain: &DomainState<A>,
    av: Option<usize>,
    fi_addr: u64,
) -> Option<Source> {
    let known = av.and_then(|av| domain.avs[av].get(fi_addr));
    (fi_addr != FI_ADDR_NOTAVAIL).then(|| Source {
        fi_addr,
        address: known.map(ToString::to_string),
    })
}

/// Records the time for pending operations and answers requests for gauges. A transport calls it now and then while the
/// application polls, and before it sleeps. Returns true if a dump is requested.
#[cold]
#[must_use]
pub fn attend<T: Transport>(transport: &T, domain: &mut DomainStateOf<T>, now: Instant) -> bool {
    domain
        .srxs
        .iter_mut()
        .map(|(_, srx)| srx)
        .for_each(|queue| queue.record_time(now));
    if domain.late.is_due(now) {
        let mut late = mem::take(&mut domain.late);
        late.tell(transport, domain, now);
        domain.late = late;
    }
    domain
        .eps
        .iter()
        .for_each(|(_, ep)| ep.stats.settle_if_many(Tally::RECV));
    if let Some(question) = domain.stats.take_dump_request() {
        for (id, ep) in domain.eps.iter() {
            // Contexts of a scalable endpoint use its counters, so their gauges are added up.
            let parts = match ep.role {
                Role::Endpoint => vec![(Part::Whole, id)],
                Role::Scalable { .. } => parts_of(domain, id),
                Role::Receive { .. } | Role::Transmit { .. } | Role::Closed { .. } => continue,
            };
            let own = parts.iter().fold(Gauges::default(), |mut all, &part| {
                add_part(domain, part, &mut all);
                all
            });
            ep.stats
                .answer(question, &gauges(&transport.peers(id), own));
        }
    }
    domain.stats.wants_dump()
}

/// Adds the pending operations of one part of an endpoint.
fn add_part<A: Address>(domain: &DomainState<A>, (part, id): (Part, usize), all: &mut Gauges) {
    let ep = &domain.eps[id];
    if matches!(part, Part::Whole | Part::Transmit(_) | Part::Closed) {
        all.transmits += ep.tx_pending as u64;
    }
    if matches!(part, Part::Whole | Part::Receive(_)) {
        let queue = &domain.srxs[ep.srx];
        all.receives += queue.posted_len() as u64;
        all.kept += queue.unexpected_len() as u64;
        all.kept_bytes += queue.saved() as u64;
    }
}

fn gauges(peers: &[Peer], own: Gauges) -> Gauges {
    let sum = |mut all: Gauges, peer: &Peer| {
        all.peers += u64::from(peer.is_up);
        all.peers_opening += u64::from(peer.is_opening);
        all.peers_memory += u64::from(peer.is_memory);
        let (sent, received) = (peer.sent.unwrap_or(0), peer.received.unwrap_or(0));
        let (out, inward) = match peer.is_memory {
            true => (&mut all.memory_bytes_out, &mut all.memory_bytes_in),
            false => (&mut all.socket_bytes_out, &mut all.socket_bytes_in),
        };
        *out += sent;
        *inward += received;
        all.waiting += peer.waits_count as u64;
        let oldest = peer.oldest.map_or(0, |age| age.as_millis() as u64);
        all.oldest_ms = all.oldest_ms.max(oldest);
        all
    };
    peers.iter().fold(own, sum)
}
