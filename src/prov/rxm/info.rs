// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Entries of fi_getinfo for rxm: one for each suitable MSG entry below; fi_rxm(7), fi_getinfo(3).

#[cfg(test)]
mod tests;

use crate::device;
use std::ffi::{CStr, CString};

use super::SOURCE;
use super::params::Params;
use super::proto::{HEADER, MAX_CONTEXTS, MAX_PLACES};
use crate::Below;
use crate::layered::{self, same_place, without_wildcard};
use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, Asked, DomainAttr, EpAttr, FabricAttr, Hints, Info, Prototype, Query,
    Reason, RxAttr, TxAttr, fill, ip, offer_contexts, since,
};
use base::{Caps, Mode, MrMode, MsgOrder, OpFlags};
use sys::addr;

/// Returns the entries that satisfy the query, in the order of the entries below.
pub fn offers(query: &Query, below: &dyn Below, params: &Params) -> Answer {
    let (inner, port) = without_wildcard(query);
    let (cores, reasons) = cores(&inner, below, params);
    let over = |core: &Info| over(core, query, params);
    let entry = |kind: &Prototype, core: &Info| entry(kind, core, query, port, params);
    layered::offers(&SOURCE, query, (&cores, reasons), FI_EP_MSG.0, over, entry)
}

/// Completes an entry whose kind fits the query.
fn entry(kind: &Prototype, core: &Info, query: &Query, port: Option<u16>, params: &Params) -> Info {
    let mut info = fill(kind, query);
    let comm = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
    info.caps = info.caps & !comm | core.caps & comm;
    if query.hints.is_none() {
        // Without hints, an entry does not show capabilities that cost performance.
        info.caps &= !Caps::SOURCE;
        info.rx.caps &= !Caps::SOURCE;
        (info.tx.op_flags, info.rx.op_flags) = Default::default();
    }
    let domain = query.hints.and_then(|hints| hints.domain.as_ref());
    if domain.is_none_or(|domain| domain.progress == 0) && !params.auto_progress {
        // The old field for control progress keeps FI_PROGRESS_AUTO, as upstream does.
        info.domain.progress = FI_PROGRESS_MANUAL.0;
    }
    // A request for an inject size may get more than the default.
    let inject = query.hints.and_then(|hints| hints.tx.as_ref());
    if inject.is_none_or(|tx| tx.inject_size == 0) {
        info.tx.inject_size = inject_size(core, params);
    }
    if let (Some(port), Some(addr)) = (port, info.src_addr.as_deref().and_then(addr::from_bytes)) {
        info.src_addr = Some(addr::to_bytes(&(addr.ip(), port).into()));
    }
    info
}

/// Returns the usable entries below, one for each place.
pub fn cores(query: &Query, below: &dyn Below, params: &Params) -> (Vec<Info>, Vec<Reason>) {
    let plain = ask(query, below, params, false);
    let shared = match params.shared_rx {
        Some(false) => Answer::default(),
        _ => ask_shared(query, below, params),
    };
    let mut cores: Vec<Info> = Vec::new();
    let sharing = shared.entries.into_iter().filter(|info| {
        let name = info.fabric.prov_name.as_deref().unwrap_or_default();
        let wanted = params.shared_rx == Some(true) || is_tcp(name);
        // Only this library's providers report the connection of a packet in a shared context.
        let tells_connections = info.made.is_none();
        // If memory has to be registered for one connection, it cannot be posted to a context that all connections
        // share.
        let local = flags!(MrMode: LOCAL | ENDPOINT);
        wanted
            && tells_connections
            && info.ep.rx_ctx_cnt == FI_SHARED_CONTEXT
            && !info.domain.mr_mode.contains(local)
    });
    let sharing: Vec<Info> = sharing.collect();
    for info in plain.entries {
        let of_it = |other: &&Info| same_place(other, &info);
        let info = sharing.iter().find(of_it).unwrap_or(&info);
        let fits = info.ep.max_msg_size >= HEADER + params.eager;
        if info.ep.ep_type == FI_EP_MSG.0
            && fits
            && !cores.iter().any(|other| same_place(other, info))
        {
            cores.push(info.clone());
        }
    }
    (cores, plain.reasons)
}

fn is_tcp(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.windows(3)
        .any(|part| part.eq_ignore_ascii_case(b"tcp"))
}

fn ask(query: &Query, below: &dyn Below, params: &Params, shared: bool) -> Answer {
    answer(query, below, &wishes(query, params, shared))
}

/// Queries shared contexts that take many packets with one receive, if available.
fn ask_shared(query: &Query, below: &dyn Below, params: &Params) -> Answer {
    let mut hints = wishes(query, params, true);
    hints.caps |= Caps::MULTI_RECV;
    let many = answer(query, below, &hints);
    match many.entries.is_empty() {
        true => ask(query, below, params, true),
        false => many,
    }
}

fn answer(query: &Query, below: &dyn Below, hints: &Hints) -> Answer {
    below.offers(&Query {
        hints: Some(hints),
        flags: query.flags | CORE_ONLY,
        ..*query
    })
}

/// Returns the hints for the providers below.
pub fn wishes(query: &Query, params: &Params, shared: bool) -> Hints {
    let nothing = Hints::default();
    let ours = query.hints.unwrap_or(&nothing);
    let fabric = ours.fabric.as_ref();
    let (tx, rx) = (ours.tx.as_ref(), ours.rx.as_ref());
    Hints {
        caps: CORE_CAPS | ours.caps & Caps::HMEM | counted(ours),
        mode: flags!(Mode: CONTEXT | CONTEXT2 | RX_CQ_DATA | LOCAL_MR),
        addr_format: ours.addr_format,
        src_addr: ours.src_addr.clone(),
        dest_addr: ours.dest_addr.clone(),
        handle: 0,
        tx: Some(TxAttr {
            size: params.msg_tx_size.unwrap_or(0),
            op_flags: tx.map_or(OpFlags::empty(), |tx| tx.op_flags) & OpFlags::TRANSMIT_COMPLETE,
            msg_order: MsgOrder::SAS | tx.map_or(MsgOrder::empty(), |tx| tx.msg_order),
            ..TxAttr::default()
        }),
        rx: Some(RxAttr {
            size: params.msg_rx_size.unwrap_or(0),
            msg_order: MsgOrder::SAS | rx.map_or(MsgOrder::empty(), |rx| rx.msg_order),
            ..RxAttr::default()
        }),
        ep: Some(EpAttr {
            ep_type: FI_EP_MSG.0,
            rx_ctx_cnt: if shared { FI_SHARED_CONTEXT } else { 0 },
            ..EpAttr::default()
        }),
        domain: Some(domain_hints_below(query.version, ours)),
        fabric: Some(FabricAttr {
            name: fabric.and_then(|fabric| fabric.name.clone()),
            prov_name: core_name(fabric.and_then(|fabric| fabric.prov_name.as_deref())),
            ..FabricAttr::default()
        }),
    }
}

/// Returns capabilities for counting peers' accesses, which happens below.
fn counted(ours: &Hints) -> Caps {
    let rx = ours.rx.as_ref().map_or(Caps::empty(), |rx| rx.caps);
    (ours.caps | rx) & Caps::RMA_EVENT
}

/// Returns the hints for a query that gives only the name and the completion levels.
pub fn levels_wishes(hints: &Hints) -> Hints {
    let fabric = hints.fabric.as_ref();
    Hints {
        caps: flags!(Caps: MSG | RMA),
        mode: Mode::all(),
        tx: hints.tx.clone(),
        ep: Some(EpAttr {
            ep_type: FI_EP_MSG.0,
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            mr_mode: OWN_MR_MODE,
            ..DomainAttr::default()
        }),
        fabric: Some(FabricAttr {
            name: fabric.and_then(|fabric| fabric.name.clone()),
            prov_name: core_name(fabric.and_then(|fabric| fabric.prov_name.as_deref())),
            ..FabricAttr::default()
        }),
        ..Hints::default()
    }
}

fn domain_hints_below(version: u32, ours: &Hints) -> DomainAttr {
    let domain = ours.domain.as_ref();
    let wanted = domain.map_or(MrMode::empty(), |domain| domain.mr_mode);
    let old = wanted.intersects(flags!(MrMode: BASIC | SCALABLE)) || version < since::V1_5;
    let target = flags!(Caps: REMOTE_READ | REMOTE_WRITE);
    let either = flags!(Caps: RMA | ATOMIC);
    let initiates = flags!(Caps: READ | WRITE);
    let is_target = ours.caps.is_empty()
        || ours.caps.intersects(target)
        || ours.caps.intersects(either) && !ours.caps.intersects(initiates);
    let mr_mode = match domain {
        // Before API 1.5 these mode bits do not exist, and providers below refuse them. Without domain attributes
        // `wanted` is FI_MR_UNSPEC, which they accept.
        _ if old => wanted,
        Some(_) if is_target => wanted | MrMode::LOCAL | MrMode::ENDPOINT,
        _ if ours.caps.contains(Caps::HMEM) => OWN_MR_MODE | MrMode::HMEM,
        _ => OWN_MR_MODE,
    };
    DomainAttr {
        name: domain.and_then(|domain| domain.name.clone()),
        threading: domain.map_or(0, |domain| domain.threading),
        cq_data_size: domain.map_or(0, |domain| domain.cq_data_size),
        mr_mode,
        ..DomainAttr::default()
    }
}

/// Returns the name of the provider below, which is never rxm itself or a provider above it.
pub fn core_name(name: Option<&CStr>) -> Option<CString> {
    let (own, name) = (SOURCE.name().to_bytes(), name?.to_bytes());
    let parts = name.split(|&byte| byte == b';');
    let mut others: Vec<&[u8]> = parts
        .filter(|part| !part.eq_ignore_ascii_case(own))
        .collect();
    others.push(b"^ofi_rxm");
    CString::new(others.join(&b';')).ok()
}

/// Returns the full attributes of an entry over this one.
fn over(core: &Info, query: &Query, params: &Params) -> Prototype {
    let mut info = Info {
        caps: TX | RX | DOMAIN,
        mode: core.mode & !flags!(Mode: RX_CQ_DATA | CONTEXT | CONTEXT2),
        addr_format: core.addr_format,
        src_addr: core.src_addr.clone(),
        dest_addr: core.dest_addr.clone(),
        nic: core.nic.clone(),
        tx: transmit(core, params),
        rx: receive(core),
        ep: endpoint(core),
        domain: domain(core),
        fabric: fabric(core),
        ..Info::default()
    };
    // If regions belong to endpoints, an application's region would be valid for one peer only.
    if core.domain.mr_mode.contains(MrMode::ENDPOINT) {
        info.caps &= !Caps::RMA;
        info.tx.caps &= !Caps::RMA;
        info.rx.caps &= !Caps::RMA;
    }
    // The source of written data is identified by the receive that the write consumes, or by this library's providers.
    if core.made.is_some() && !core.mode.contains(Mode::RX_CQ_DATA) {
        info.caps &= !Caps::SOURCE_ERR;
        info.rx.caps &= !Caps::SOURCE_ERR;
    }
    offer_contexts(&mut info, query, MAX_CONTEXTS);
    let asked = Asked::of(query);
    asked.add_to(&mut info, ON_DEMAND | core.caps & Caps::HMEM);
    device::add_mode(&mut info, query);
    if core.caps.contains(Caps::RMA_EVENT) {
        asked.add_to(&mut info, Caps::RMA_EVENT);
    }
    with_atomics(&mut info, query);
    Prototype {
        info,
        on_request: ON_REQUEST,
        tx_size: params.tx_size.clamp(1, MAX_TX),
        rx_size: params.rx_size.clamp(1, MAX_RX),
        addr_formats: ip::ADDR_FORMATS,
    }
}

/// Adds atomic operations. They are messages, so accesses to memory may overtake them.
fn with_atomics(info: &mut Info, query: &Query) {
    let Some(hints) = query.hints else { return };
    let side = |caps: Option<Caps>| caps.unwrap_or_default();
    let tx = side(hints.tx.as_ref().map(|tx| tx.caps));
    let rx = side(hints.rx.as_ref().map(|rx| rx.caps));
    if !(hints.caps | tx | rx).contains(Caps::ATOMIC) {
        return;
    }
    info.tx.msg_order &= ATOMIC_ORDER;
    info.rx.msg_order &= ATOMIC_ORDER;
    info.ep.max_order_raw_size = 0;
    info.ep.max_order_war_size = 0;
    info.ep.max_order_waw_size = 0;
}

fn transmit(core: &Info, params: &Params) -> TxAttr {
    TxAttr {
        caps: TX,
        op_flags: TX_FLAGS,
        msg_order: core.tx.msg_order,
        inject_size: params.eager,
        size: MAX_TX,
        // Operations that the provider below does not accept whole are split.
        iov_limit: MAX_PLACES,
        // An access with CQ data must reach the peer as one operation with its whole length.
        rma_iov_limit: core.tx.rma_iov_limit.min(MAX_PLACES),
        ..TxAttr::default()
    }
}

fn receive(core: &Info) -> RxAttr {
    RxAttr {
        caps: RX,
        op_flags: flags!(OpFlags: COMPLETION | MULTI_RECV),
        msg_order: core.rx.msg_order,
        size: MAX_RX,
        iov_limit: MAX_PLACES,
        ..RxAttr::default()
    }
}

fn endpoint(core: &Info) -> EpAttr {
    EpAttr {
        ep_type: FI_EP_RDM.0,
        protocol: FI_PROTO_RXM,
        protocol_version: 1,
        max_msg_size: usize::MAX,
        max_order_raw_size: core.ep.max_order_raw_size,
        max_order_war_size: core.ep.max_order_war_size,
        max_order_waw_size: core.ep.max_order_waw_size,
        mem_tag_format: ALL_TAG_BITS,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        ..EpAttr::default()
    }
}

fn fabric(core: &Info) -> FabricAttr {
    let below = core.fabric.prov_name.as_deref().unwrap_or_default();
    let name = [below.to_bytes(), b";", SOURCE.name().to_bytes()].concat();
    FabricAttr {
        name: core.fabric.name.clone(),
        prov_name: CString::new(name).ok(),
        prov_version: release::PROVIDER_VERSION,
        ..FabricAttr::default()
    }
}

fn domain(core: &Info) -> DomainAttr {
    DomainAttr {
        name: core.domain.name.clone(),
        threading: FI_THREAD_SAFE.0,
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_AUTO.0,
        resource_mgmt: FI_RM_ENABLED.0,
        av_type: FI_AV_UNSPEC.0,
        // rxm registers the memory of its operations itself.
        mr_mode: core.domain.mr_mode & !flags!(MrMode: LOCAL | ENDPOINT | BASIC | SCALABLE),
        mr_key_size: core.domain.mr_key_size,
        // The data of writes is passed to the provider below.
        cq_data_size: core.domain.cq_data_size.min(size_of::<u64>()),
        cq_cnt: 65536,
        ep_cnt: 32768,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        mr_iov_limit: 1,
        caps: DOMAIN,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}

/// Returns the inject size without hints: the limit of the provider below, or one copied packet.
fn inject_size(core: &Info, params: &Params) -> usize {
    let local = core.domain.mr_mode.contains(MrMode::LOCAL);
    match core.tx.inject_size.checked_sub(HEADER) {
        Some(left) if left > 0 && !local => left.min(params.eager),
        _ => params.eager,
    }
}

/// Bit of fi_getinfo's flags: core providers only.
const CORE_ONLY: u64 = 1 << 59;

/// Capabilities that rxm needs from a provider below for every query.
const CORE_CAPS: Caps = flags!(Caps:
    MSG | RMA | SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE
);
const OWN_MR_MODE: MrMode = flags!(MrMode: LOCAL | VIRT_ADDR | ALLOCATED | PROV_KEY | ENDPOINT);

const TX: Caps = flags!(Caps:
    MSG | TAGGED | RMA | ATOMIC | COLLECTIVE | SEND | READ | WRITE | TRIGGER
);
const RX: Caps = flags!(Caps:
    MSG | TAGGED | RMA | ATOMIC | COLLECTIVE | RECV | REMOTE_READ | REMOTE_WRITE | MULTI_RECV
    | SOURCE | DIRECTED_RECV | SOURCE_ERR | TRIGGER
);
const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM | PEER);
/// Capabilities among `RX`, `TX` and `DOMAIN` that an entry has only if the hints name them.
const ON_REQUEST: Caps = flags!(Caps: ATOMIC | DIRECTED_RECV | SOURCE_ERR | TRIGGER | COLLECTIVE);
/// Further capabilities, also only if the hints name them.
const ON_DEMAND: Caps = flags!(Caps:
    TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | AV_USER_ID | SHARED_AV
);

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);
const ATOMIC_ORDER: MsgOrder = flags!(MsgOrder:
    RAS | WAS | SAS | RMA_RAR | RMA_RAW | RMA_WAW | ATOMIC_RAR | ATOMIC_RAW | ATOMIC_WAW
);

pub const MAX_TX: usize = 16384;
pub const MAX_RX: usize = 65536;
