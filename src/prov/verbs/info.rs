// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of verbs: connected endpoints and datagram endpoints of each device, with the device's own limits;
//! fi_verbs(7).

use std::ffi::CStr;

use super::adapter::{Adapter, adapters, format_of, missing, rescan};
use super::affinity;
use super::datagram::{Ends, PREFIX};
use super::params;
use super::params::{Params, count};
use super::place::{Place, Wanted};
use crate::device;
use abi::*;
use base::flags::flags;
use base::info::{
    Answer, DomainAttr, EpAttr, FabricAttr, Hints, Info, Prototype, Query, Refusal, RxAttr, TxAttr,
    Value, select, since,
};
use base::iovec::IOV_LIMIT;
use base::settings::Settings;
use base::{Caps, Mode, MrMode, MsgOrder, OpFlags};
use sys::verbs::Transport;

/// Returns the entries that satisfy the query.
pub fn offers(query: &Query, params: &Params) -> Answer {
    let mut answer = Answer::default();
    let (is_msg, is_dgram) = (is_wanted(query, FI_EP_MSG), is_wanted(query, FI_EP_DGRAM));
    if !(is_msg || is_dgram) {
        return answer;
    }
    let adapters = match query.flags & FI_RESCAN {
        0 => adapters(params),
        _ => rescan(params),
    };
    for (device, reason) in missing(params) {
        let (device, reason) = (Value::Text(device.clone()), Value::Text(reason.clone()));
        answer
            .reasons
            .push(Refusal::new("device", device, reason).by(NAME));
    }
    if adapters.is_empty() {
        return answer;
    }
    let (wanted, ends) = (
        is_msg.then(|| Wanted::of(query)),
        is_dgram.then(|| Ends::of(query, params)),
    );
    let mut refused = |refusal: Refusal| answer.reasons.push(refusal.by(NAME));
    let wanted = wanted.and_then(|found| found.map_err(&mut refused).ok());
    let ends = ends.and_then(|found| found.map_err(&mut refused).ok());
    // The adapter chooses the keys, and peers use virtual addresses.
    let domain = query.hints.and_then(|hints| hints.domain.as_ref());
    if domain.is_some_and(|domain| domain.mr_mode == MrMode::SCALABLE) {
        let wanted = Value::MrMode(MrMode::SCALABLE);
        let refusal = Refusal::new("domain_attr.mr_mode", wanted, Value::MrMode(MR_MODE));
        answer.reasons.push(refusal.by(NAME));
        return answer;
    }
    for adapter in adapters {
        for (kind, places) in kinds(adapter, query, params, (&wanted, &ends)) {
            let found = select::<Place>(NAME, &[kind], query, Ok(places));
            answer.reasons.extend(found.reasons);
            let complete = |info| complete(info, adapter, query, params);
            answer
                .entries
                .extend(found.entries.into_iter().map(complete));
        }
    }
    if let Some(Wanted::Listener(src)) = wanted {
        let all = std::mem::take(&mut answer.entries).into_iter();
        let (connected, others): (Vec<Info>, Vec<Info>) = all.partition(is_connected);
        answer.entries = listener(&connected, query.hints, src);
        answer.entries.extend(others);
    }
    let format = query.hints.map_or(0, |hints| hints.addr_format);
    answer.entries.retain(|info| fits(format, info.addr_format));
    affinity::order(&mut answer.entries, params);
    answer
}

/// The types of endpoints at a device, with their places for the addresses of a query.
fn kinds(
    adapter: &Adapter,
    query: &Query,
    params: &Params,
    (wanted, ends): (&Option<Wanted>, &Option<Ends>),
) -> Vec<(Prototype, Vec<Place>)> {
    let accepts = Accepts::of(query);
    let places = match wanted {
        None => Vec::new(),
        Some(Wanted::Listener(_)) => Wanted::Everywhere.at(adapter),
        Some(wanted) => wanted.at(adapter),
    };
    let mut connected = msg(adapter, params, &accepts);
    let device = device::capability(query);
    if !device.is_empty() && adapter.takes_devices(params) && !Settings::get().hmem_disable_p2p {
        let info = &mut connected.info;
        for caps in [&mut info.caps, &mut info.tx.caps, &mut info.rx.caps] {
            *caps |= device;
        }
        info.domain.mr_mode |= MrMode::HMEM;
    }
    let mut kinds = vec![(connected, places)];
    if let (Some(ends), Some(inline)) = (ends, adapter.datagram_inline) {
        let kind = dgram(adapter, inline, params, &accepts);
        kinds.push((kind, vec![ends.at(adapter)]));
    }
    kinds
}

const NAME: &str = "verbs";

/// The domain of the entry for a passive endpoint at all devices.
pub const ANY_DOMAIN: &CStr = c"verbs_any_domain";

fn is_wanted(query: &Query, ep_type: fi_ep_type) -> bool {
    let ep = query.hints.and_then(|hints| hints.ep.as_ref());
    let format = query.hints.map_or(0, |hints| hints.addr_format);
    let fits = match ep_type {
        FI_EP_DGRAM => format == 0 || format == FI_ADDR_IB_UD,
        _ => format != FI_ADDR_IB_UD,
    };
    fits && ep.is_none_or(|ep| ep.ep_type == FI_EP_UNSPEC.0 || ep.ep_type == ep_type.0)
}

fn is_connected(info: &Info) -> bool {
    info.ep.ep_type == FI_EP_MSG.0
}

/// Whether an address of the format `offered` satisfies a request.
fn fits(wanted: u32, offered: u32) -> bool {
    let is_ip = offered == FI_SOCKADDR_IN || offered == FI_SOCKADDR_IN6;
    match wanted {
        0 => true,
        FI_SOCKADDR => offered != FI_ADDR_IB_UD,
        FI_SOCKADDR_IP => is_ip,
        wanted => wanted == offered,
    }
}

/// Which receives of data the application is ready for.
struct Accepts {
    /// FI_RX_CQ_DATA in the modes of the hints.
    mode: bool,
    /// The same, or in the modes of the receiving side.
    data: bool,
    protocol: u32,
    /// The old word for registration of the application's own buffers.
    needed: Mode,
}

impl Accepts {
    fn of(query: &Query) -> Accepts {
        let hints = query.hints;
        let domain = hints.and_then(|hints| hints.domain.as_ref());
        let old = domain.is_some_and(|domain| domain.mr_mode == MrMode::BASIC);
        let mode = hints.is_some_and(|hints| hints.mode.contains(Mode::RX_CQ_DATA));
        let rx = hints.and_then(|hints| hints.rx.as_ref());
        let rx = rx.is_some_and(|rx| rx.mode.contains(Mode::RX_CQ_DATA));
        let ep = hints.and_then(|hints| hints.ep.as_ref());
        Accepts {
            mode,
            data: mode || rx,
            protocol: ep.map_or(0, |ep| ep.protocol),
            needed: match hints.is_some() && (old || query.version < since::V1_5) {
                true => Mode::LOCAL_MR,
                false => Mode::empty(),
            },
        }
    }
}

/// Upstream's provider takes the number of each of its protocols for any of them.
const PROTOCOLS: [u32; 4] = [
    FI_PROTO_RDMA_CM_IB_RC,
    FI_PROTO_IWARP,
    FI_PROTO_IB_UD,
    FI_PROTO_RDMA_CM_IB_XRC,
];

fn protocol_of(adapter: &Adapter) -> u32 {
    match adapter.transport {
        Transport::Iwarp => FI_PROTO_IWARP,
        _ => FI_PROTO_RDMA_CM_IB_RC,
    }
}

/// Sets what does not follow from comparing the hints with the limits.
fn complete(mut info: Info, adapter: &Adapter, query: &Query, params: &Params) -> Info {
    let nothing = Hints::default();
    let hints = query.hints.unwrap_or(&nothing);
    let (tx, rx) = (
        hints.tx.clone().unwrap_or_default(),
        hints.rx.clone().unwrap_or_default(),
    );
    info.tx.op_flags = tx.op_flags;
    info.rx.op_flags = rx.op_flags;
    if Accepts::of(query).mode {
        info.mode |= Mode::RX_CQ_DATA;
    }
    info.rx.mode = Mode::RX_CQ_DATA;
    match is_connected(&info) {
        true => info.ep.protocol = protocol_of(adapter),
        false => {
            info.ep.protocol = FI_PROTO_IB_UD;
            info.rx.mode |= Mode::MSG_PREFIX;
            let wanted = hints.domain.as_ref().map_or(MR_MODE, |it| it.mr_mode);
            info.domain.mr_mode |= wanted & MR_MODE;
        }
    }
    if tx.inject_size == 0 && params.inline_size > 0 {
        info.tx.inject_size = info.tx.inject_size.min(count(params.inline_size));
    }
    let unless = |wanted: usize, most: usize, default: i32| match wanted {
        0 => most.min(count(default)),
        wanted => wanted,
    };
    info.tx.iov_limit = unless(tx.iov_limit, info.tx.iov_limit, params.tx_iov_limit);
    info.rx.iov_limit = unless(rx.iov_limit, info.rx.iov_limit, params.rx_iov_limit);
    info.rx.size = unless(rx.size, rx_size(adapter), params.rx_size);
    info.nic = Some(adapter.nic.clone());
    info
}

/// The entry of a connection request at a device: what the passive endpoint was opened with, with the device's names
/// and limits.
pub fn of_request(adapter: &Adapter, passive: &Info, (src, dest): (Vec<u8>, Vec<u8>)) -> Info {
    let mut hints = Hints::from(passive.clone());
    (
        hints.src_addr,
        hints.dest_addr,
        hints.handle,
        hints.addr_format,
    ) = (None, None, 0, 0);
    hints.fabric = None;
    if let Some(domain) = &mut hints.domain {
        domain.name = None;
        domain.domain = 0;
    }
    let query = Query {
        version: passive.fabric.api_version,
        node: None,
        service: None,
        flags: 0,
        hints: Some(&hints),
    };
    let place = Place::of(adapter, Some(src), Some(dest));
    let accepts = Accepts::of(&query);
    let kind = msg(adapter, params(), &accepts);
    let found = select::<Place>(NAME, &[kind], &query, Ok(vec![place.clone()])).entries;
    let entry = found.into_iter().next();
    let entry = entry.map(|info| complete(info, adapter, &query, params()));
    entry.unwrap_or_else(|| {
        let mut info = passive.clone();
        base::info::Place::apply(&place, &mut info);
        info
    })
}

/// The only entry for a passive endpoint at all devices: the hints, with modes of the first entry that matches.
fn listener(found: &[Info], hints: Option<&Hints>, src: Vec<u8>) -> Vec<Info> {
    let Some(first) = found.first() else {
        return Vec::new();
    };
    let mut info = Info::from(hints.cloned().unwrap_or_default());
    info.addr_format = format_of(&src);
    info.src_addr = Some(src);
    info.dest_addr = None;
    info.mode = first.mode;
    info.tx.mode = first.tx.mode;
    info.rx.mode = first.rx.mode;
    info.ep.ep_type = FI_EP_MSG.0;
    info.domain.mr_mode = first.domain.mr_mode;
    info.domain.name.get_or_insert_with(|| ANY_DOMAIN.into());
    info.fabric
        .name
        .get_or_insert_with(|| c"verbs_any_fabric".into());
    info.fabric.prov_name = first.fabric.prov_name.clone();
    info.fabric.prov_version = first.fabric.prov_version;
    info.fabric.api_version = first.fabric.api_version;
    vec![info]
}

fn positive(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// The smaller one of two limits, of which the second is unknown if it is 0.
fn both(first: i32, second: i32) -> usize {
    match second {
        0 => positive(first),
        second => positive(first.min(second)),
    }
}

fn rx_size(adapter: &Adapter) -> usize {
    both(adapter.attributes.max_qp_wr, adapter.attributes.max_srq_wr)
}

fn msg(adapter: &Adapter, params: &Params, accepts: &Accepts) -> Prototype {
    let device = &adapter.attributes;
    let message = adapter.port.max_msg_sz as usize;
    let tx_size = positive(device.max_qp_wr);
    Prototype {
        info: Info {
            caps: TX | RX | DOMAIN,
            mode: accepts.needed,
            tx: TxAttr {
                caps: TX,
                op_flags: match adapter.transport {
                    Transport::Iwarp => TX_FLAGS & !OpFlags::TRANSMIT_COMPLETE,
                    _ => TX_FLAGS,
                },
                msg_order: ORDER,
                inject_size: adapter.inline,
                size: tx_size,
                iov_limit: positive(device.max_sge).min(IOV_LIMIT),
                rma_iov_limit: 1,
                ..TxAttr::default()
            },
            rx: RxAttr {
                caps: RX,
                op_flags: OpFlags::COMPLETION,
                msg_order: ORDER,
                size: rx_size(adapter),
                iov_limit: both(device.max_sge, device.max_srq_sge).min(IOV_LIMIT),
                ..RxAttr::default()
            },
            ep: EpAttr {
                ep_type: FI_EP_MSG.0,
                protocol: match PROTOCOLS.contains(&accepts.protocol) {
                    true => accepts.protocol,
                    false => protocol_of(adapter),
                },
                protocol_version: 1,
                max_msg_size: message,
                max_order_raw_size: message,
                max_order_waw_size: message,
                tx_ctx_cnt: 1,
                rx_ctx_cnt: 1,
                ..EpAttr::default()
            },
            domain: domain(adapter, accepts),
            fabric: FabricAttr {
                prov_name: Some(c"verbs".into()),
                prov_version: release::PROVIDER_VERSION,
                ..FabricAttr::default()
            },
            ..Info::default()
        },
        on_request: Caps::empty(),
        tx_size: tx_size.min(count(params.tx_size)),
        rx_size: rx_size(adapter).min(count(params.rx_size)),
        addr_formats: FORMATS,
    }
}

/// The device adds a header to received messages, but not to those that are sent.
fn dgram(adapter: &Adapter, inline: usize, params: &Params, accepts: &Accepts) -> Prototype {
    let mut kind = msg(adapter, params, accepts);
    let info = &mut kind.info;
    let message = adapter.longest_datagram();
    info.caps = DGRAM_TX | DGRAM_RX | DOMAIN;
    (info.tx.caps, info.rx.caps) = (DGRAM_TX, DGRAM_RX);
    info.mode |= Mode::MSG_PREFIX;
    info.domain.mr_mode = DGRAM_MR_MODE;
    info.tx.inject_size = inline;
    info.ep = EpAttr {
        ep_type: FI_EP_DGRAM.0,
        max_msg_size: message,
        msg_prefix_size: PREFIX,
        max_order_raw_size: message,
        max_order_waw_size: message,
        ..info.ep.clone()
    };
    kind.addr_formats = &[FI_ADDR_IB_UD];
    kind
}

fn domain(adapter: &Adapter, accepts: &Accepts) -> DomainAttr {
    let device = &adapter.attributes;
    let contexts = positive(device.max_qp).min(CONTEXTS);
    DomainAttr {
        threading: FI_THREAD_SAFE.0,
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_AUTO.0,
        resource_mgmt: FI_RM_ENABLED.0,
        av_type: FI_AV_UNSPEC.0,
        mr_mode: MR_MODE,
        mr_key_size: size_of::<u32>(),
        cq_data_size: match accepts.data && adapter.has_immediate() {
            true => size_of::<u32>(),
            false => 0,
        },
        cq_cnt: positive(device.max_cq),
        ep_cnt: positive(device.max_qp),
        tx_ctx_cnt: contexts,
        rx_ctx_cnt: contexts,
        max_ep_tx_ctx: contexts,
        max_ep_rx_ctx: contexts,
        max_ep_srx_ctx: positive(device.max_srq),
        mr_iov_limit: 1,
        mr_cnt: positive(device.max_mr),
        caps: DOMAIN,
        max_err_data: MAX_ERR_DATA,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}

const FORMATS: &[u32] = &[
    FI_SOCKADDR_IN,
    FI_SOCKADDR,
    FI_SOCKADDR_IP,
    FI_SOCKADDR_IN6,
    FI_SOCKADDR_IB,
];

const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
const TX: Caps = flags!(Caps: MSG | RMA | ATOMIC | READ | WRITE | SEND);
const RX: Caps = flags!(Caps: MSG | RMA | ATOMIC | RECV | REMOTE_READ | REMOTE_WRITE);
const DGRAM_TX: Caps = flags!(Caps: MSG | SEND);
const DGRAM_RX: Caps = flags!(Caps: MSG | RECV);
const TX_FLAGS: OpFlags =
    flags!(OpFlags: INJECT | INJECT_COMPLETE | COMPLETION | TRANSMIT_COMPLETE);

const MR_MODE: MrMode = flags!(MrMode: LOCAL | VIRT_ADDR | ALLOCATED | PROV_KEY);
/// No peer accesses regions, so their addresses and keys do not matter.
const DGRAM_MR_MODE: MrMode = flags!(MrMode: LOCAL | ALLOCATED);

/// The order that a connection of the hardware keeps. Reads may pass later writes and sends.
const ORDER: MsgOrder = flags!(MsgOrder:
    RAR | RAW | RAS | WAW | WAS | SAW | SAS | RMA_RAR | RMA_RAW | RMA_WAW | ATOMIC_RAR | ATOMIC_RAW
    | ATOMIC_WAW
);

/// An endpoint has one context of each kind; upstream's entries have this number.
const CONTEXTS: usize = 1024;
/// Bytes of error data in entries, as upstream's.
const MAX_ERR_DATA: usize = 255;
