// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What tcp offers: capabilities, limits and defaults of its endpoints, as data; fi_tcp(7).

use super::SOURCE;
use super::net::Connections;
use super::params::Params;
use crate::device;
use abi::*;
use base::flags::flags;
use base::info::{
    AFTER_READS, ALL_TAG_BITS, Answer, Asked, DomainAttr, EpAttr, FabricAttr, Hints, Info,
    Prototype, Query, RxAttr, TxAttr, ip, offer_contexts, select, with_all,
};
use base::{Caps, Mode, MrMode, MsgOrder, OpFlags};
use object::ops::wr::record::set_sizes;
use stream::Connector;
use stream::proto::MAX_CONTEXTS;

#[cfg(test)]
mod tests;

/// The entries that satisfy the query: connected endpoints, connected endpoints with a shared receive context, then
/// unconnected endpoints.
pub fn offers(query: &Query, params: &Params) -> Answer {
    answer(query, params, &ip::System)
}

fn answer(query: &Query, params: &Params, network: &dyn ip::Network) -> Answer {
    with_all(query, params.offer_all, on_request, |query| {
        answer_wishes(query, params, network)
    })
}

/// Hints that request everything that is offered on request only; see `with_all`.
fn on_request() -> Hints {
    let order = TxAttr {
        msg_order: ORDER | AFTER_READS,
        ..TxAttr::default()
    };
    Hints {
        caps: RDM_TX | RDM_RX & !Caps::SOURCE_ERR | Caps::NAMED_RX_CTX,
        mode: Mode::all(),
        tx: Some(order),
        ep: Some(EpAttr {
            ep_type: FI_EP_RDM.0,
            ..EpAttr::default()
        }),
        ..Hints::default()
    }
}

fn answer_wishes(query: &Query, params: &Params, network: &dyn ip::Network) -> Answer {
    let site = ip::Site {
        iface: params.iface.as_deref(),
        iface_variable: IFACE,
        domain: c"tcp",
        fabric: c"tcp",
        datagram: false,
    };
    let places = ip::places(query, &site, network);
    ip::warn_of_interface(&SOURCE, &site, &places);
    select("tcp", &kinds(params, query), query, places)
}

const IFACE: &str = "FI_TCP_IFACE";

/// The kinds in the order of the result. The registry moves `rdm` to where an application without hints finds it first.
fn kinds(params: &Params, query: &Query) -> [Prototype; 3] {
    let mut kinds = [msg(params), msg_shared(params), rdm(params)];
    let asked = Asked::of(query);
    let device = device::capability(query);
    for (kind, more) in kinds.iter_mut().zip([MORE_MSG, MORE_SHARED, MORE_RDM]) {
        asked.add_to(&mut kind.info, more | device);
        device::add_mode(&mut kind.info, query);
        asked.add_orders(&mut kind.info, AFTER_READS);
        asked.add_data_order(&mut kind.info);
        offer_contexts(&mut kind.info, query, MAX_CONTEXTS);
        set_sizes(&mut kind.info);
    }
    kinds
}

fn msg(params: &Params) -> Prototype {
    let mut kind = rdm(params);
    let info = &mut kind.info;
    info.caps = MSG_TX | MSG_RX | DOMAIN;
    info.tx.caps = MSG_TX;
    info.tx.size = MSG_QUEUE;
    info.rx.caps = MSG_RX;
    info.rx.op_flags = OpFlags::COMPLETION;
    info.rx.size = MSG_QUEUE;
    info.ep.ep_type = FI_EP_MSG.0;
    info.ep.protocol = FI_PROTO_SOCK_TCP;
    info.ep.protocol_version = 0;
    info.ep.mem_tag_format = 0;
    // Connected endpoints have no address vector.
    info.domain.max_ep_auth_key = 0;
    info.domain.ep_cnt = MSG_ENDPOINTS;
    info.domain.tx_ctx_cnt = MSG_ENDPOINTS;
    info.domain.rx_ctx_cnt = MSG_ENDPOINTS;
    info.domain.max_ep_srx_ctx = MSG_ENDPOINTS;
    kind.tx_size = kind.tx_size.min(MSG_QUEUE);
    kind.rx_size = kind.rx_size.min(MSG_QUEUE);
    kind
}

/// A receive context that many connections share can also match tags.
fn msg_shared(params: &Params) -> Prototype {
    let mut kind = msg(params);
    let info = &mut kind.info;
    info.caps = RDM_TX | SHARED_RX | DOMAIN;
    info.tx.caps = RDM_TX;
    info.rx.caps = SHARED_RX;
    info.rx.op_flags = OpFlags::COMPLETION | OpFlags::MULTI_RECV;
    info.rx.size = SHARED_QUEUE;
    info.ep.mem_tag_format = ALL_TAG_BITS;
    info.ep.rx_ctx_cnt = FI_SHARED_CONTEXT;
    kind.rx_size = SHARED_QUEUE;
    kind
}

fn rdm(params: &Params) -> Prototype {
    Prototype {
        info: Info {
            caps: RDM_TX | RDM_RX | RDM_BOTH | DOMAIN,
            tx: TxAttr {
                caps: RDM_TX | RDM_BOTH,
                op_flags: TX_FLAGS,
                msg_order: ORDER,
                inject_size: params.max_inject,
                size: SHARED_QUEUE,
                iov_limit: IOV_LIMIT,
                rma_iov_limit: IOV_LIMIT,
                ..TxAttr::default()
            },
            rx: RxAttr {
                caps: RDM_RX | RDM_BOTH,
                op_flags: OpFlags::COMPLETION | OpFlags::MULTI_RECV,
                msg_order: ORDER,
                size: SHARED_QUEUE,
                iov_limit: IOV_LIMIT,
                ..RxAttr::default()
            },
            ep: EpAttr {
                ep_type: FI_EP_RDM.0,
                protocol: FI_PROTO_XNET,
                protocol_version: 1,
                max_msg_size: usize::MAX,
                max_order_raw_size: usize::MAX,
                max_order_waw_size: usize::MAX,
                mem_tag_format: ALL_TAG_BITS,
                tx_ctx_cnt: 1,
                rx_ctx_cnt: 1,
                auth_key_size: Connections::AUTH_KEY_SIZE,
                ..EpAttr::default()
            },
            domain: domain(),
            fabric: FabricAttr {
                prov_name: Some(c"tcp".into()),
                prov_version: release::PROVIDER_VERSION,
                ..FabricAttr::default()
            },
            ..Info::default()
        },
        on_request: ON_REQUEST,
        tx_size: params.tx_size.clamp(1, SHARED_QUEUE),
        rx_size: params.rx_size.clamp(1, SHARED_QUEUE),
        addr_formats: ip::ADDR_FORMATS,
    }
}

fn domain() -> DomainAttr {
    DomainAttr {
        threading: FI_THREAD_SAFE.0,
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_AUTO.0,
        resource_mgmt: FI_RM_ENABLED.0,
        av_type: FI_AV_UNSPEC.0,
        mr_mode: MrMode::UNSPEC,
        mr_key_size: size_of::<u64>(),
        cq_data_size: size_of::<u64>(),
        cq_cnt: 256,
        ep_cnt: 256,
        tx_ctx_cnt: 256,
        rx_ctx_cnt: 256,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        mr_iov_limit: 1,
        caps: DOMAIN,
        auth_key_size: Connections::AUTH_KEY_SIZE,
        max_ep_auth_key: Connections::AUTH_KEYS,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}

const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
const MSG_TX: Caps = flags!(Caps:
    MSG | RMA | ATOMIC | SEND | READ | WRITE | FENCE | TRIGGER | RMA_PMEM
);
const MSG_RX: Caps = flags!(Caps:
    MSG | RMA | ATOMIC | RECV | REMOTE_READ | REMOTE_WRITE | TRIGGER | RMA_PMEM | RMA_EVENT
);
const RDM_TX: Caps = MSG_TX.union(Caps::TAGGED);
/// Capabilities for both directions of unconnected endpoints.
const RDM_BOTH: Caps = Caps::COLLECTIVE;
const SHARED_RX: Caps = MSG_RX.union(flags!(Caps: TAGGED | MULTI_RECV | SOURCE | DIRECTED_RECV));
/// The source of a message may be in no address vector. Only unconnected peers can then be reported by their address.
const RDM_RX: Caps = SHARED_RX.union(Caps::SOURCE_ERR);

/// Capabilities that libfabric's provider does not offer, or that have a cost; entries have them on request only.
const ON_REQUEST: Caps = flags!(Caps: SOURCE_ERR | FENCE | TRIGGER | ATOMIC | COLLECTIVE);

/// Further capabilities of each kind, on request.
const MORE_MSG: Caps = flags!(Caps: MULTI_RECV | TAGGED | TAGGED_MULTI_RECV | WR);
const MORE_SHARED: Caps = flags!(Caps: TAGGED_MULTI_RECV | WR);
const MORE_RDM: Caps = flags!(Caps:
    TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | AV_USER_ID | SHARED_AV | PEER | WR
);

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | COMMIT_COMPLETE
);

/// A stream keeps everything in order, except that an operation after a request may pass its response. That order is
/// offered on request: `kinds`.
const ORDER: MsgOrder = flags!(MsgOrder:
    RAR | RAW | RAS | WAW | WAS | SAW | SAS | RMA_RAR | RMA_RAW | RMA_WAW | ATOMIC_RAR | ATOMIC_RAW
    | ATOMIC_WAW
);

const IOV_LIMIT: usize = 4;
/// Maximum of queue entries for one connection.
const MSG_QUEUE: usize = 1024;
/// Maximum of queue entries for an endpoint or context that serves many connections.
const SHARED_QUEUE: usize = 65536;
const MSG_ENDPOINTS: usize = 8192;
