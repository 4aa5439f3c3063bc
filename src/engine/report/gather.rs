// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Asks a domain and its transport what their endpoints wait for.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::{EpReport, Kept, Listed, Peer, Receive, Source};
use crate::abi::FI_ADDR_NOTAVAIL;
use crate::engine::address::AddressFormat;
use crate::engine::domain_state::DomainState;
use crate::engine::srx::WaitingReceive;
use crate::engine::transport::{Address, DomainStateOf, Transport};
use crate::ffi::ops::transfer::What;
use crate::hmem::Memory;
use crate::sync::stats::{Gauges, Tally};

/// What a domain's endpoints wait for. Contexts of scalable endpoints are endpoints here.
pub fn gather<T: Transport>(
    transport: &T,
    domain: &DomainStateOf<T>,
    now: Instant,
) -> Vec<EpReport> {
    let all = domain.eps();
    all.map(|(id, ep)| {
        let queue = domain.rx_queue(ep.srx);
        let source = |fi_addr: u64| source(domain, ep.av, fi_addr);
        EpReport {
            address: address_of(transport, id),
            ep_type: ep.ep_type,
            enabled: ep.enabled,
            transmits: ep.tx_pending,
            most_transmits: ep.tx_size,
            stats: ep.stats.clone(),
            receives: Listed::of(queue.waiting().map(|one| receive(&one, source, now))),
            kept: Listed::of(queue.kept().map(|envelope| Kept {
                tagged: envelope.what == What::Tagged,
                tag: envelope.tag,
                len: envelope.len,
                from: source(T::source(envelope)),
            })),
            kept_bytes: queue.saved(),
            peers: transport.peers(id),
        }
    })
    .collect()
}

/// As fi_av_straddr shows it, without the format; nothing of an endpoint that has none yet.
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

fn source<A: Address, M: Memory>(
    domain: &DomainState<A, M>,
    av: Option<usize>,
    fi_addr: u64,
) -> Option<Source> {
    let known = av.and_then(|av| domain.av(av).get(fi_addr));
    (fi_addr != FI_ADDR_NOTAVAIL).then(|| Source {
        fi_addr,
        address: known.map(ToString::to_string),
    })
}

/// To be called by a transport now and then while the application polls, and before it sleeps: notes the time for those
/// who wait, and answers who has asked. Whether a dump is wanted.
#[cold]
#[must_use]
pub fn attend<T: Transport>(transport: &T, domain: &mut DomainStateOf<T>, now: Instant) -> bool {
    domain
        .rx_queues_mut()
        .for_each(|queue| queue.note_time(now));
    domain
        .eps()
        .for_each(|(_, ep)| ep.stats.settle_if_many(Tally::RECV));
    if let Some(question) = domain.stats.take_question() {
        for (id, ep) in domain.eps() {
            let queue = domain.rx_queue(ep.srx);
            ep.stats.answer(
                question,
                &gauges(
                    &transport.peers(id),
                    Gauges {
                        transmits: ep.tx_pending as u64,
                        receives: queue.posted_len() as u64,
                        kept: queue.unexpected_len() as u64,
                        kept_bytes: queue.saved() as u64,
                        ..Gauges::default()
                    },
                ),
            );
        }
    }
    domain.stats.wants_dump()
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
