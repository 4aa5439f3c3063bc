// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of rxd: one for each DGRAM entry of another provider; fi_rxd(7), fi_getinfo(3).

#[cfg(test)]
mod tests;

use crate::device;
use std::ffi::{CStr, CString};

use super::SOURCE;
use super::proto::MAX_OP_HEADER;
use crate::Below;
use crate::layered::{self, same_place, without_wildcard};
use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, Asked, DomainAttr, EpAttr, FabricAttr, Hints, Info, Prototype, Query,
    Reason, RxAttr, TxAttr, fill, ip, since,
};
use base::{Caps, Mode, MrMode, MsgOrder, OpFlags};
use engine::address::ib_ud;
use sys::addr;

/// The entries that satisfy the query, in the order of those below.
pub fn offers(query: &Query, below: &dyn Below) -> Answer {
    let (inner, port) = without_wildcard(query);
    let (cores, reasons) = cores(&inner, below);
    let over = |core: &Info| over(core, query);
    let entry = |kind: &Prototype, core: &Info| entry(kind, core, query, port);
    layered::offers(
        &SOURCE,
        query,
        (&cores, reasons),
        FI_EP_DGRAM.0,
        over,
        entry,
    )
}

/// Turns a matching prototype into the entry that is returned.
fn entry(kind: &Prototype, core: &Info, query: &Query, port: Option<u16>) -> Info {
    let mut info = fill(kind, query);
    let comm = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
    info.caps = info.caps & !comm | core.caps & comm;
    let domain = query.hints.and_then(|hints| hints.domain.as_ref());
    if domain.is_none_or(|domain| domain.progress == 0) {
        let manual = FI_PROGRESS_MANUAL.0;
        (info.domain.progress, info.domain.control_progress) = (manual, manual);
    }
    if let (Some(port), Some(src)) = (port, &mut info.src_addr)
        && !ib_ud::set_service(src, port)
        && let Some(addr) = addr::from_bytes(src)
    {
        *src = addr::to_bytes(&(addr.ip(), port).into());
    }
    info
}

/// The entries of providers below that rxd can be built upon.
pub fn cores(query: &Query, below: &dyn Below) -> (Vec<Info>, Vec<Reason>) {
    let plain = ask(query, below, Caps::empty());
    // Reported source addresses are more reliable than those that packets contain.
    let telling =
        [Caps::SOURCE | Caps::SOURCE_ERR, Caps::SOURCE].map(|caps| ask(query, below, caps).entries);
    let mut cores: Vec<Info> = Vec::new();
    for info in plain.entries {
        let info = telling
            .iter()
            .flatten()
            .find(|other| same_place(other, &info))
            .unwrap_or(&info);
        let fits = info.ep.ep_type == FI_EP_DGRAM.0 && mtu(info) >= MAX_OP_HEADER + LEAST;
        if fits && !cores.iter().any(|other| same_place(other, info)) {
            cores.push(info.clone());
        }
    }
    (cores, plain.reasons)
}

/// Size of a packet in bytes.
pub fn mtu(core: &Info) -> usize {
    let has_prefix = (core.mode | core.tx.mode | core.rx.mode).contains(Mode::MSG_PREFIX);
    let prefix = if has_prefix {
        core.ep.msg_prefix_size
    } else {
        0
    };
    core.ep.max_msg_size.min(LONGEST).saturating_sub(prefix)
}

fn ask(query: &Query, below: &dyn Below, more: Caps) -> Answer {
    let hints = wishes(query, more);
    below.offers(&Query {
        hints: Some(&hints),
        flags: query.flags | CORE_ONLY,
        ..*query
    })
}

/// Translates our hints into hints for the providers below.
fn wishes(query: &Query, more: Caps) -> Hints {
    let nothing = Hints::default();
    let ours = query.hints.unwrap_or(&nothing);
    let fabric = ours.fabric.as_ref();
    let domain = ours.domain.as_ref();
    Hints {
        caps: Caps::MSG | more,
        mode: flags!(Mode: CONTEXT | CONTEXT2 | MSG_PREFIX | LOCAL_MR),
        addr_format: ours.addr_format,
        src_addr: ours.src_addr.clone(),
        dest_addr: ours.dest_addr.clone(),
        ep: Some(EpAttr {
            ep_type: FI_EP_DGRAM.0,
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            name: domain.and_then(|domain| domain.name.clone()),
            mr_mode: match query.version < since::V1_5 {
                true => MrMode::UNSPEC,
                false => flags!(MrMode: LOCAL | VIRT_ADDR | ALLOCATED | PROV_KEY | ENDPOINT),
            },
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

/// The provider name requested below. It never selects this provider or one that is layered on it.
fn core_name(name: Option<&CStr>) -> Option<CString> {
    let (own, name) = (SOURCE.name().to_bytes(), name?.to_bytes());
    let parts = name.split(|&byte| byte == b';');
    let mut others: Vec<&[u8]> = parts
        .filter(|part| !part.eq_ignore_ascii_case(own))
        .collect();
    others.push(b"^ofi_rxd");
    CString::new(others.join(&b';')).ok()
}

/// The most that rxd can offer over this entry.
fn over(core: &Info, query: &Query) -> Prototype {
    let mut info = Info {
        caps: TX | RX | DOMAIN,
        addr_format: core.addr_format,
        src_addr: core.src_addr.clone(),
        dest_addr: core.dest_addr.clone(),
        tx: TxAttr {
            caps: TX,
            op_flags: TX_FLAGS,
            msg_order: ORDER,
            inject_size: mtu(core).saturating_sub(HEADERS),
            size: QUEUE,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: RX,
            op_flags: flags!(OpFlags: COMPLETION | MULTI_RECV),
            msg_order: ORDER,
            size: QUEUE,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: EpAttr {
            ep_type: FI_EP_RDM.0,
            protocol: FI_PROTO_RXD,
            protocol_version: 1,
            max_msg_size: usize::MAX,
            max_order_raw_size: usize::MAX,
            max_order_waw_size: usize::MAX,
            mem_tag_format: ALL_TAG_BITS,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(core),
        fabric: FabricAttr {
            name: core.fabric.name.clone(),
            prov_name: full_name(core),
            prov_version: release::PROVIDER_VERSION,
            ..FabricAttr::default()
        },
        nic: core.nic.clone(),
        ..Info::default()
    };
    Asked::of(query).add_to(&mut info, ON_DEMAND | device::capability(query));
    device::add_mode(&mut info, query);
    let (tx_size, rx_size) = (info.tx.size, info.rx.size);
    Prototype {
        info,
        on_request: ON_REQUEST,
        tx_size,
        rx_size,
        addr_formats: match core.addr_format {
            FI_ADDR_IB_UD => &[FI_ADDR_IB_UD],
            _ => ip::ADDR_FORMATS,
        },
    }
}

/// Name of the provider below, followed by our own.
pub fn full_name(core: &Info) -> Option<CString> {
    let name = core.fabric.prov_name.as_deref().unwrap_or_default();
    CString::new([name.to_bytes(), b";", SOURCE.name().to_bytes()].concat()).ok()
}

fn domain(core: &Info) -> DomainAttr {
    DomainAttr {
        name: core.domain.name.clone(),
        threading: FI_THREAD_SAFE.0,
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_AUTO.0,
        resource_mgmt: FI_RM_ENABLED.0,
        av_type: FI_AV_UNSPEC.0,
        mr_mode: MrMode::UNSPEC,
        mr_key_size: size_of::<u64>(),
        cq_data_size: size_of::<u64>(),
        cq_cnt: 128,
        ep_cnt: 128,
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

/// Bit of fi_getinfo's flags: core providers only.
const CORE_ONLY: u64 = 1 << 59;

const TX: Caps = flags!(Caps: MSG | TAGGED | RMA | ATOMIC | SEND | READ | WRITE | TRIGGER);
const RX: Caps = flags!(Caps:
    MSG | TAGGED | RMA | ATOMIC | RECV | REMOTE_READ | REMOTE_WRITE | MULTI_RECV | RMA_EVENT | SOURCE
    | DIRECTED_RECV | SOURCE_ERR | TRIGGER
);
const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
/// Capabilities of `TX`, `RX` and `DOMAIN` that are offered only if the hints name them. Upstream differs.
const ON_REQUEST: Caps = flags!(Caps: SOURCE_ERR | TRIGGER);
/// Further capabilities, offered only if the hints name them.
const ON_DEMAND: Caps = flags!(Caps:
    TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | AV_USER_ID
);

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);
/// Packets of a peer are processed in order, in both directions. The memory for a read answer is read when the answer
/// leaves, so later writes may change it.
const ORDER: MsgOrder = flags!(MsgOrder:
    RAR | RAW | RAS | WAW | WAS | SAW | SAS | RMA_RAR | RMA_RAW | RMA_WAW | ATOMIC_RAR | ATOMIC_RAW
    | ATOMIC_WAW | ATOMIC_WAR
);

/// Entries of a transmit or receive queue at most.
pub const QUEUE: usize = 1024;
pub const IOV_LIMIT: usize = 4;
/// Longest packet, whatever the provider below can carry.
const LONGEST: usize = 4096;
/// Bytes of an operation for which its first packet has room at least.
const LEAST: usize = 64;
/// Bytes for headers that are subtracted from the packet size to get `inject_size`.
const HEADERS: usize = 216;
/// Most bytes of operands in one atomic operation. Peers of other libraries accept only what fits in one packet.
pub const ATOMIC_SIZE: usize = 8192;
