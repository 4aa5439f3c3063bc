// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fabric and the domain below, and its limits and requirements.

use std::ffi::CStr;
use std::sync::Arc;

use super::MOST_INJECTED;
use crate::rxm::params::Params;
use crate::rxm::proto::HEADER;
use crate::rxm::session::Settings;
use abi::*;
use base::flags::flags;
use base::info::Info;
use base::{Caps, Error, Mode, MrMode, OpFlags, Result};
use client::layer::{Registrar, with_descriptors};
use client::with_entry;
use client::{self, Cq, CqAttr, Credits, Domain, Ep, Eq, EqAttr, Fabric, PassiveEp};

/// The fabric below, and the entries with which domains are opened.
pub struct LowerFabric {
    pub fabric: Arc<client::Fabric>,
    /// Entries of the provider below that can be opened on this fabric.
    pub entries: Vec<Info>,
    pub params: &'static Params,
    /// Completion levels that operations below can request.
    pub levels: OpFlags,
    /// Provider name in the entries of this layer.
    pub prov_name: &'static CStr,
}

pub struct LowerDomain {
    pub fabric: Arc<Fabric>,
    pub domain: Arc<Domain>,
    /// Events of all connections.
    pub eq: Arc<Eq>,
    pub registrar: Registrar,
    /// Peer credits, if the provider below has them.
    pub credits: Option<Credits>,
    pub params: &'static Params,
    /// The entry of the domain below, without addresses.
    entry: Info,
    /// Source address for endpoints whose entry has none.
    source: Option<Vec<u8>>,
    /// Whether the provider below is built in, not a plug-in.
    pub is_ours: bool,
    /// Whether connections receive into a shared context.
    pub shares_rx: bool,
    /// Whether endpoints share a completion queue.
    pub shares_queue: bool,
    /// Maximum of bytes that are sent without a completion.
    inject: usize,
    /// Maximum number of local and of remote pieces of one operation below, and its maximum length.
    iovs: usize,
    remotes: usize,
    longest: usize,
    /// Completion levels that operations can request.
    levels: OpFlags,
    /// Maximum of receives in one queue.
    pub receives: usize,
    /// Size of a receive that takes many packets, if such receives are used.
    pub block: Option<usize>,
}

impl LowerDomain {
    pub fn open(lower: &LowerFabric, info: &Info) -> Result<LowerDomain> {
        let fits = |entry: &&Info| entry.domain.name == info.domain.name;
        let mut found = lower.entries.iter().filter(fits);
        let same = found
            .clone()
            .find(|entry| entry.addr_format == info.addr_format);
        let mut entry = same.or_else(|| found.next()).ok_or(Error::NODATA)?.clone();
        let source = entry.src_addr.take();
        (entry.addr_format, entry.dest_addr) = (FI_SOCKADDR, None);
        // Different threads call the domain below from within the domain above, but only one at a time.
        (entry.domain.threading, entry.domain.progress) = (FI_THREAD_SAFE.0, FI_PROGRESS_MANUAL.0);
        entry.domain.control_progress = FI_PROGRESS_MANUAL.0;
        // The provider below keeps these orders, for the operations that go through it.
        entry.tx.msg_order |= info.tx.msg_order;
        entry.rx.msg_order |= info.rx.msg_order;
        // Completions below report the connection as the source; see `Session::arrival`.
        let is_ours = entry.made.is_none();
        if is_ours {
            entry.caps |= Caps::SOURCE;
            entry.rx.caps |= Caps::SOURCE;
        }
        // The provider below counts the accesses of peers.
        let counts = (info.caps | info.rx.caps) & Caps::RMA_EVENT;
        entry.caps |= counts;
        entry.rx.caps |= counts;
        let device = info.caps & Caps::HMEM;
        for caps in [&mut entry.caps, &mut entry.tx.caps, &mut entry.rx.caps] {
            *caps |= device;
        }
        // A provider above, of this library, names memory by its addresses.
        if is_ours && info.domain.mr_mode.contains(MrMode::VIRT_ADDR) {
            entry.domain.mr_mode |= MrMode::VIRT_ADDR;
        }
        // The old modes mean the same for the provider below.
        if info
            .domain
            .mr_mode
            .intersects(flags!(MrMode: BASIC | SCALABLE))
        {
            if entry.domain.mr_mode.contains(MrMode::LOCAL) {
                entry.mode |= Mode::LOCAL_MR;
            }
            entry.domain.mr_mode = info.domain.mr_mode;
        }
        let open = |below: client::Info<'_>| {
            let domain = Domain::open_thread_safe(&lower.fabric, below)?;
            Ok((Registrar::new(&domain, below), domain))
        };
        let (registrar, domain) = with_entry(&entry, open)?;
        // The buffers of announced messages: their keys go to peers of this protocol only.
        let registrar = if is_ours {
            registrar.keeping()
        } else {
            registrar
        };
        entry.made = None;
        let events = with_descriptors(|wait_obj| {
            let attr = EqAttr {
                wait_obj,
                ..EqAttr::default()
            };
            Eq::open(&lower.fabric, &attr)
        })?;
        // A packet in a shared context must identify its connection.
        let shares_rx = entry.ep.rx_ctx_cnt == FI_SHARED_CONTEXT && is_ours;
        let packet = HEADER + lower.params.eager;
        // With FI_RX_CQ_DATA a write can consume a receive without a message.
        let blocks = shares_rx
            && entry.rx.caps.contains(Caps::MULTI_RECV)
            && !entry.mode.contains(Mode::RX_CQ_DATA)
            && registrar.prefix(FI_RECV) == 0;
        Ok(LowerDomain {
            block: blocks.then_some(BLOCK.max(packet.saturating_mul(PACKETS_OF_BLOCK))),
            eq: events,
            fabric: lower.fabric.clone(),
            credits: Credits::of(&domain),
            domain,
            registrar,
            params: lower.params,
            is_ours,
            shares_rx,
            shares_queue: is_ours || entry.mode.contains(Mode::RX_CQ_DATA),
            inject: entry.tx.inject_size.min(MOST_INJECTED),
            iovs: entry.tx.iov_limit.max(1),
            remotes: entry.tx.rma_iov_limit.max(1),
            longest: entry.ep.max_msg_size,
            levels: lower.levels,
            receives: entry.rx.size.max(1),
            entry,
            source,
        })
    }

    /// Calls `open` with the entry for objects of this domain.
    pub fn with<T>(&self, open: impl FnOnce(client::Info<'_>) -> Result<T>) -> Result<T> {
        with_entry(&self.entry, open)
    }

    pub fn listener(&self, info: &Info) -> Result<Arc<PassiveEp>> {
        let mut entry = self.entry.clone();
        entry.addr_format = info.addr_format;
        entry.src_addr = info.src_addr.clone().or_else(|| self.source.clone());
        let listener = with_entry(&entry, |info| PassiveEp::open(&self.fabric, info))?;
        listener.bind(&self.eq, 0)?;
        Ok(listener)
    }

    pub fn shared_rx(&self) -> Result<Option<Arc<Ep>>> {
        if !self.shares_rx {
            return Ok(None);
        }
        let context = with_entry(&self.entry, |info| Ep::open_srx(&self.domain, info.rx()))?;
        if self.block.is_some() {
            // Every posted block must have room for the longest packet.
            context.setopt(FI_OPT_MIN_MULTI_RECV, HEADER + self.params.eager)?;
        }
        Ok(Some(context))
    }

    /// Number of receives that are posted first for an endpoint.
    pub fn first_receives(&self) -> usize {
        match self.block {
            Some(_) => FIRST_BLOCKS,
            None => FIRST_RECEIVES,
        }
    }

    /// Maximum of posted receives.
    pub fn most_receives(&self) -> usize {
        let most = match self.block {
            Some(_) => MOST_BLOCKS,
            None => MOST_RECEIVES,
        };
        most.min(self.receives)
    }

    /// Opens a completion queue. Returns the number of entries for which it has room.
    pub fn queue(&self) -> Result<(Arc<Cq>, usize)> {
        let open = |size| {
            let queue = with_descriptors(|wait_obj| {
                let attr = CqAttr {
                    size,
                    format: FI_CQ_FORMAT_DATA,
                    wait_obj,
                    ..CqAttr::default()
                };
                Cq::open(&self.domain, &attr)
            });
            Ok((queue?, size))
        };
        match self.is_ours {
            // The queues of built-in providers grow.
            true => open(QUEUE).map(|(queue, _)| (queue, usize::MAX)),
            false => open(LONG_QUEUE).or_else(|_| open(QUEUE)),
        }
    }

    /// Opens an endpoint that connects.
    pub fn connecting(&self, from: Vec<u8>, to: Vec<u8>) -> Result<Arc<Ep>> {
        let mut entry = self.entry.clone();
        (entry.src_addr, entry.dest_addr) = (Some(from), Some(to));
        with_entry(&entry, |info| Ep::open(&self.domain, info))
    }

    /// Returns the settings of sessions over this domain.
    pub fn settings(&self) -> Settings {
        // A built-in provider treats FI_MORE as the promise `OPT_MORE_FOLLOWS`. Only the packets of one message keep
        // this promise, because the application may post nothing after it.
        let more = match self.is_ours {
            true => OpFlags::empty(),
            false => OpFlags::MORE,
        };
        Settings {
            eager: self.params.eager,
            segmented: self.params.segmented(),
            rendezvous_write: self.params.rendezvous_write,
            saved: self.params.max_saved_bytes,
            conn_timeout: self.params.conn_timeout,
            is_ours: self.is_ours,
            inject: self.inject,
            pieces: self.iovs,
            remotes: self.remotes,
            longest: self.longest,
            receives: self.receives,
            wants_local: self.registrar.wants_local(),
            flags: self.levels | more,
        }
    }
}

/// Number of receives that are posted below for an endpoint, at first and at most.
const FIRST_RECEIVES: usize = 32;
const MOST_RECEIVES: usize = 1024;
/// The same for receives that take many packets, and their minimum size in bytes.
const FIRST_BLOCKS: usize = 2;
const MOST_BLOCKS: usize = 8;
const BLOCK: usize = 1 << 18;
/// Number of packets of maximum length that fit into one such receive.
const PACKETS_OF_BLOCK: usize = 8;
/// Entries of a queue below. Providers of other libraries get the larger number if they accept it: two receives for
/// each of 16,384 connections use half of it. Soft RoCE accepts 32,767.
const QUEUE: usize = 8192;
const LONG_QUEUE: usize = 1 << 16;
