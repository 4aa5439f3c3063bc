// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What endpoints wait for, from whom, and since when: for a dump, and in numbers for `fi_top`. It is gathered under the
//! domain's lock, changes nothing, and costs nothing while nobody asks.
//!
//! Here: what is told, and how it is gathered. `text` and `json` write it; `dump` says when, and where to.
#![forbid(unsafe_code)]

pub mod dump;
mod json;
mod text;

use core::time::Duration;
use std::time::Instant;

use crate::abi::{FI_ADDR_NOTAVAIL, FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM, fi_ep_type};
use crate::engine::address::AddressFormat;
use crate::engine::domain_state::DomainState;
use crate::engine::srx::WaitingReceive;
use crate::engine::transport::{Address, DomainStateOf, Transport};
use crate::ffi::ops::transfer::What;
use crate::hmem::Memory;
use crate::sync::stats::{EpStats, Gauges};

/// A domain.
pub struct DomainReport {
    pub number: u64,
    pub provider: String,
    pub name: String,
    /// None: a thread is inside a call, and has not left it in time.
    pub endpoints: Option<Vec<EpReport>>,
}

pub struct EpReport {
    pub address: String,
    pub ep_type: u32,
    pub enabled: bool,
    /// Operations under way, and how many there may be.
    pub transmits: usize,
    pub most_transmits: usize,
    pub stats: EpStats,
    pub receives: Listed<Receive>,
    pub kept: Listed<Kept>,
    pub kept_bytes: usize,
    pub peers: Vec<Peer>,
}

/// The first ones, and how many there are.
pub struct Listed<T> {
    pub first: Vec<T>,
    pub count: usize,
}

/// So many are written of each kind and endpoint.
const MOST: usize = 64;

impl<T> Listed<T> {
    pub fn of(all: impl Iterator<Item = T>) -> Listed<T> {
        let mut listed = Listed {
            first: Vec::new(),
            count: 0,
        };
        all.for_each(|one| listed.add(one));
        listed
    }

    pub fn add(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < MOST {
            self.first.push(one);
        }
    }
}

/// A posted receive.
pub struct Receive {
    pub tagged: bool,
    pub tag: u64,
    pub ignore: u64,
    pub len: usize,
    pub from: Option<Source>,
    /// At least.
    pub age: Option<Duration>,
}

/// A message that no receive has taken.
pub struct Kept {
    pub tagged: bool,
    pub tag: u64,
    pub len: u64,
    pub from: Option<Source>,
}

/// Who is meant: the index in the address vector, and the address there.
pub struct Source {
    pub fi_addr: u64,
    pub address: Option<String>,
}

/// A connection.
#[derive(Default)]
pub struct Peer {
    pub address: String,
    pub fi_addr: Option<u64>,
    pub state: &'static str,
    pub is_up: bool,
    pub is_opening: bool,
    pub link: &'static str,
    pub is_memory: bool,
    /// Bytes of its stream, where that is known.
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// Attempts to connect that have failed, and the last one's error.
    pub attempts: u32,
    pub last_error: Option<i32>,
    pub notes: Vec<&'static str>,
    pub waits: Vec<Wait>,
    pub waits_count: usize,
    pub oldest: Option<Duration>,
}

/// An operation that waits for a peer.
pub struct Wait {
    pub what: String,
    pub len: u64,
    pub tag: Option<u64>,
    pub stage: &'static str,
    /// At least.
    pub age: Option<Duration>,
}

impl Peer {
    pub fn add(&mut self, wait: Wait) {
        self.waits_count += 1;
        self.oldest = self.oldest.max(wait.age);
        if self.waits.len() < MOST {
            self.waits.push(wait);
        }
    }
}

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

pub fn type_name(ep_type: u32) -> &'static str {
    match fi_ep_type(ep_type) {
        FI_EP_MSG => "msg",
        FI_EP_DGRAM => "dgram",
        FI_EP_RDM => "rdm",
        _ => "of an unknown type",
    }
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
/// who wait, and answers who has asked.
#[cold]
pub fn attend<T: Transport>(transport: &T, domain: &mut DomainStateOf<T>, now: Instant) {
    domain
        .rx_queues_mut()
        .for_each(|queue| queue.note_time(now));
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
    if domain.stats.wants_dump() {
        dump::ask_from_inside();
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
