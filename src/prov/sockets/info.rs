// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of sockets: capabilities, limits and defaults of its endpoints, as data; fi_sockets(7). These entries
//! have by default what other providers offer only on request.

use super::SOURCE;
use super::params::Params;
use crate::Backing;
use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, Asked, DomainAttr, EpAttr, FabricAttr, Info, Prototype, Query, RxAttr,
    TxAttr, ip, select,
};
use base::iovec::IOV_LIMIT;
use base::{Caps, MrMode, MsgOrder, OpFlags};

#[cfg(test)]
mod tests;

/// Returns the entries that satisfy the query: datagrams, unconnected endpoints, connected ones.
pub fn offers(query: &Query, params: &Params, transport: &Backing) -> Answer {
    answer(query, params, transport, &ip::System)
}

fn answer(
    query: &Query,
    params: &Params,
    transport: &Backing,
    network: &dyn ip::Network,
) -> Answer {
    let site = ip::Site {
        iface: params.iface.as_deref(),
        iface_variable: "FI_SOCKETS_IFACE",
        domain: c"sockets",
        fabric: c"sockets",
        datagram: false,
    };
    let places = ip::places(query, &site, network);
    ip::warn_of_interface(&SOURCE, &site, &places);
    select("sockets", &kinds(query, transport), query, places)
}

fn kinds(query: &Query, transport: &Backing) -> [Prototype; 3] {
    let mut kinds = [dgram(transport), rdm(transport), msg(transport)];
    let asked = Asked::of(query);
    for (kind, more) in kinds.iter_mut().zip([MORE, MORE, MORE_MSG]) {
        asked.add_to(&mut kind.info, more);
        asked.add_data_order(&mut kind.info);
        // Several contexts of one kind cannot be combined with a shared context of the other kind.
        if shares_contexts(query) {
            one_context(&mut kind.info);
        }
    }
    kinds
}

/// Messages only: no RMA or atomic operations, and no attributes of these.
fn dgram(transport: &Backing) -> Prototype {
    let mut kind = rdm(transport);
    let info = &mut kind.info;
    info.caps = DGRAM_TX | DGRAM_RX | DOMAIN;
    info.tx.caps = DGRAM_TX;
    info.tx.rma_iov_limit = 0;
    info.rx.caps = DGRAM_RX;
    info.ep.ep_type = FI_EP_DGRAM.0;
    kind
}

/// A connection has two ends, so there are no contexts between which a peer could choose.
fn msg(transport: &Backing) -> Prototype {
    let mut kind = rdm(transport);
    let info = &mut kind.info;
    info.caps = MSG_TX | MSG_RX | DOMAIN;
    info.tx.caps = MSG_TX;
    info.rx.caps = MSG_RX;
    info.ep.ep_type = FI_EP_MSG.0;
    // Connected endpoints have no address vector.
    info.domain.max_ep_auth_key = 0;
    one_context(info);
    kind
}

fn one_context(info: &mut Info) {
    info.ep.tx_ctx_cnt = 1;
    info.ep.rx_ctx_cnt = 1;
    info.domain.max_ep_tx_ctx = 1;
    info.domain.max_ep_rx_ctx = 1;
}

fn shares_contexts(query: &Query) -> bool {
    let ep = query.hints.and_then(|hints| hints.ep.as_ref());
    ep.is_some_and(|ep| [ep.tx_ctx_cnt, ep.rx_ctx_cnt].contains(&FI_SHARED_CONTEXT))
}

fn rdm(transport: &Backing) -> Prototype {
    Prototype {
        info: Info {
            caps: RDM_TX | RDM_RX | ON_REQUEST | DOMAIN,
            tx: TxAttr {
                caps: RDM_TX | Caps::COLLECTIVE,
                op_flags: TX_FLAGS,
                msg_order: ORDER,
                inject_size: INJECT,
                size: MAX_QUEUE,
                iov_limit: IOV_LIMIT,
                rma_iov_limit: IOV_LIMIT,
                ..TxAttr::default()
            },
            rx: RxAttr {
                caps: RDM_RX | ON_REQUEST,
                op_flags: OpFlags::COMPLETION | OpFlags::MULTI_RECV,
                msg_order: ORDER,
                size: MAX_QUEUE,
                iov_limit: IOV_LIMIT,
                ..RxAttr::default()
            },
            ep: EpAttr {
                ep_type: FI_EP_RDM.0,
                protocol: FI_PROTO_SOCK_TCP,
                protocol_version: 2,
                max_msg_size: MAX_MESSAGE,
                max_order_raw_size: MAX_MESSAGE,
                max_order_war_size: MAX_MESSAGE,
                max_order_waw_size: MAX_MESSAGE,
                mem_tag_format: ALL_TAG_BITS,
                tx_ctx_cnt: CONTEXTS,
                rx_ctx_cnt: CONTEXTS,
                auth_key_size: transport.auth_key_size,
                ..EpAttr::default()
            },
            domain: domain(transport),
            fabric: FabricAttr {
                prov_name: Some(c"sockets".into()),
                prov_version: release::PROVIDER_VERSION,
                ..FabricAttr::default()
            },
            ..Info::default()
        },
        on_request: ON_REQUEST,
        tx_size: QUEUE,
        rx_size: QUEUE,
        addr_formats: ip::ADDR_FORMATS,
    }
}

fn domain(transport: &Backing) -> DomainAttr {
    DomainAttr {
        threading: FI_THREAD_SAFE.0,
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_AUTO.0,
        resource_mgmt: FI_RM_ENABLED.0,
        av_type: FI_AV_UNSPEC.0,
        mr_mode: MrMode::UNSPEC,
        mr_key_size: size_of::<u64>(),
        cq_data_size: size_of::<u64>(),
        cq_cnt: 32,
        ep_cnt: SHARED,
        tx_ctx_cnt: CONTEXTS,
        rx_ctx_cnt: CONTEXTS,
        max_ep_tx_ctx: CONTEXTS,
        max_ep_rx_ctx: CONTEXTS,
        max_ep_stx_ctx: SHARED,
        max_ep_srx_ctx: SHARED,
        cntr_cnt: 128,
        mr_iov_limit: IOV_LIMIT,
        mr_cnt: 65535,
        max_err_data: 256,
        caps: DOMAIN,
        auth_key_size: transport.auth_key_size,
        max_ep_auth_key: transport.auth_keys,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}

const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM | SHARED_AV);
const DGRAM_TX: Caps = flags!(Caps: MSG | TAGGED | SEND | FENCE | TRIGGER | NAMED_RX_CTX);
const DGRAM_RX: Caps = flags!(Caps:
    MSG | TAGGED | RECV | MULTI_RECV | TRIGGER | SOURCE | DIRECTED_RECV
);
const RDM_TX: Caps = DGRAM_TX.union(flags!(Caps: RMA | ATOMIC | READ | WRITE | RMA_PMEM));
const RDM_RX: Caps = DGRAM_RX.union(flags!(Caps:
    RMA | ATOMIC | REMOTE_READ | REMOTE_WRITE | RMA_EVENT | RMA_PMEM
));
const MSG_TX: Caps = RDM_TX.difference(flags!(Caps: RMA_PMEM | NAMED_RX_CTX));
const MSG_RX: Caps = RDM_RX.difference(Caps::RMA_PMEM);

/// Capabilities that upstream's provider lacks; offered only on request.
const ON_REQUEST: Caps = flags!(Caps: SOURCE_ERR | COLLECTIVE);
const MORE: Caps = flags!(Caps:
    TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | AV_USER_ID
);
const MORE_MSG: Caps = Caps::TAGGED_MULTI_RECV;

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);

/// All orders that exist. An operation that must follow a read waits until the read is complete.
const ORDER: MsgOrder = flags!(MsgOrder:
    RAR | RAW | RAS | WAR | WAW | WAS | SAR | SAW | SAS | RMA_RAR | RMA_RAW | RMA_WAR | RMA_WAW |
    ATOMIC_RAR | ATOMIC_RAW | ATOMIC_WAR | ATOMIC_WAW
);

/// Greatest size of an injected message in bytes.
pub const INJECT: usize = 255;
/// Greatest size of a message in bytes.
const MAX_MESSAGE: usize = usize::MAX - 4096;
/// Greatest number of contexts of each kind in an endpoint.
const CONTEXTS: usize = 16;
/// Number of endpoints, and of shared contexts, of a domain: a hint for applications that choose their numbers by it.
const SHARED: usize = 128;
/// Queue entries of a context: the default, and the limit.
const QUEUE: usize = 256;
const MAX_QUEUE: usize = 65536;
