// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What shm and sm2 offer: capabilities, limits and defaults of their endpoints, as data; fi_shm(7).
//!
//! Each has a second kind of entry, for programs that name device memory (FI_HMEM).

use super::kind::Kind;
use super::params::{Params, QUEUE};
use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, Asked, DomainAttr, EpAttr, FabricAttr, Hints, Info, Prototype, Query,
    RxAttr, TxAttr, local, offer_contexts, select, since, with_all,
};
use base::{Caps, Mode, MrMode, MsgOrder, OpFlags};
use object::ops::wr::record::set_sizes;

#[cfg(test)]
mod tests;

/// The entries that satisfy the query: first for host memory, then for any memory.
pub fn offers(query: &Query, params: &Params, kind: Kind) -> Answer {
    answer(query, params, kind, std::process::id())
}

fn answer(query: &Query, params: &Params, kind: Kind, pid: u32) -> Answer {
    with_all(query, params.offer_all, on_request, |query| {
        answer_wishes(query, params, kind, pid)
    })
}

/// Hints that request everything that is offered on request only; see `with_all`.
fn on_request() -> Hints {
    Hints {
        caps: TX | RX & !Caps::SOURCE_ERR | Caps::NAMED_RX_CTX,
        mode: Mode::all(),
        tx: Some(TxAttr {
            msg_order: ORDER,
            ..TxAttr::default()
        }),
        ..Hints::default()
    }
}

fn answer_wishes(query: &Query, params: &Params, kind: Kind, pid: u32) -> Answer {
    let site = local::Site {
        name: kind.name(),
        scheme: kind.scheme(),
        pid,
    };
    let name = kind.name().to_string_lossy();
    let kinds = [host(params, kind, query), device(params, kind, query)];
    let mut answer = select(&name, &kinds, query, local::places(query, &site));
    if kind == Kind::Shm && takes_virtual_addresses(query) {
        answer.entries.iter_mut().for_each(order_messages_only);
    }
    answer
}

/// fi_shm(7): an application that accepts virtual addresses and requests no order except that of messages gets exactly
/// this.
fn takes_virtual_addresses(query: &Query) -> bool {
    let hints = query.hints;
    let mr_mode = hints.and_then(|hints| hints.domain.as_ref().map(|domain| domain.mr_mode));
    let order = hints.and_then(|hints| hints.tx.as_ref().map(|tx| tx.msg_order));
    mr_mode.is_none_or(|mr_mode| mr_mode.contains(MrMode::VIRT_ADDR))
        && MsgOrder::SAS.contains(order.unwrap_or_default())
}

fn order_messages_only(info: &mut Info) {
    info.domain.mr_mode |= MrMode::VIRT_ADDR;
    info.tx.msg_order = MsgOrder::SAS;
    info.ep.max_order_raw_size = 0;
    info.ep.max_order_war_size = 0;
    info.ep.max_order_waw_size = 0;
}

fn host(params: &Params, kind: Kind, query: &Query) -> Prototype {
    let (protocol, inject_size, order, tx_size, rx_size) = match kind {
        Kind::Shm => (
            FI_PROTO_SHM,
            SHM_INJECT,
            ORDER,
            params.tx_size,
            params.rx_size,
        ),
        Kind::Sm2 => (FI_PROTO_SM2, SM2_INJECT, MsgOrder::SAS, QUEUE, QUEUE),
    };
    let info = Info {
        caps: TX | RX | domain_caps(kind),
        tx: TxAttr {
            caps: TX,
            op_flags: TX_FLAGS,
            msg_order: order,
            inject_size,
            size: tx_size,
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: RX,
            op_flags: OpFlags::COMPLETION | OpFlags::MULTI_RECV,
            msg_order: order,
            size: rx_size,
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        },
        ep: EpAttr {
            ep_type: FI_EP_RDM.0,
            protocol,
            protocol_version: 1,
            max_msg_size: usize::MAX,
            max_order_raw_size: usize::MAX,
            max_order_war_size: usize::MAX,
            max_order_waw_size: usize::MAX,
            mem_tag_format: ALL_TAG_BITS,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: domain(kind),
        fabric: FabricAttr {
            prov_name: Some(kind.name().into()),
            prov_version: release::PROVIDER_VERSION,
            ..FabricAttr::default()
        },
        ..Info::default()
    };
    let mut offer = Prototype {
        info,
        on_request: match kind {
            Kind::Shm => ON_REQUEST,
            Kind::Sm2 => ON_REQUEST | Caps::RMA,
        },
        tx_size,
        rx_size,
        addr_formats: local::ADDR_FORMATS,
    };
    let more = match kind {
        Kind::Shm => Caps::WR,
        Kind::Sm2 => Caps::empty(),
    };
    add_what_is_asked(&mut offer.info, query, more);
    offer
}

/// The same for memory of any kind. The limit for injection is 0, as programs expect it, but more is accepted.
fn device(params: &Params, kind: Kind, query: &Query) -> Prototype {
    let mut offer = host(params, kind, query);
    let info = &mut offer.info;
    info.caps |= Caps::HMEM;
    info.tx.caps |= Caps::HMEM;
    info.rx.caps |= Caps::HMEM;
    info.tx.inject_size = 0;
    // A program that leaves mr_mode unspecified need not register memory.
    let mr_mode = query.hints.and_then(|hints| hints.domain.as_ref());
    let silent = mr_mode.is_some_and(|domain| domain.mr_mode == MrMode::UNSPEC);
    if !silent || query.version < since::V1_5 {
        info.domain.mr_mode = MrMode::HMEM;
    }
    if kind == Kind::Sm2 {
        offer.on_request |= Caps::ATOMIC;
    }
    offer
}

fn add_what_is_asked(info: &mut Info, query: &Query, more: Caps) {
    let asked = Asked::of(query);
    asked.add_to(info, MORE | more);
    set_sizes(info);
    asked.add_orders(info, ORDER);
    offer_contexts(info, query, MAX_CONTEXTS);
    let Some(hints) = query.hints else {
        return;
    };
    if let Some(tx) = &hints.tx {
        info.tx.op_flags |= tx.op_flags & MORE_TX_FLAGS;
    }
    if let Some(domain) = &hints.domain
        && domain.progress == FI_PROGRESS_AUTO.0
    {
        info.domain.progress = FI_PROGRESS_AUTO.0;
    }
}

fn domain(kind: Kind) -> DomainAttr {
    DomainAttr {
        threading: FI_THREAD_SAFE.0,
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_MANUAL.0,
        resource_mgmt: FI_RM_ENABLED.0,
        av_type: FI_AV_UNSPEC.0,
        mr_key_size: size_of::<u64>(),
        cq_data_size: size_of::<u64>(),
        cq_cnt: 1024,
        ep_cnt: 256,
        tx_ctx_cnt: 1024,
        rx_ctx_cnt: 1024,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        mr_iov_limit: IOV_LIMIT,
        caps: domain_caps(kind),
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}

fn domain_caps(kind: Kind) -> Caps {
    match kind {
        Kind::Shm => Caps::LOCAL_COMM | Caps::AV_USER_ID | Caps::PEER,
        Kind::Sm2 => Caps::LOCAL_COMM,
    }
}

const TX: Caps = flags!(Caps:
    MSG | RMA | TAGGED | ATOMIC | COLLECTIVE | SEND | READ | WRITE | FENCE | TRIGGER
);
const RX: Caps = flags!(Caps:
    MSG | RMA | TAGGED | ATOMIC | COLLECTIVE | RECV | REMOTE_READ | REMOTE_WRITE | MULTI_RECV |
    TRIGGER | RMA_EVENT | SOURCE | SOURCE_ERR | DIRECTED_RECV
);

/// Capabilities among `TX` and `RX` that libfabric's provider does not offer; entries have them on request only.
const ON_REQUEST: Caps = flags!(Caps: SOURCE_ERR | FENCE | TRIGGER | COLLECTIVE);

/// Further capabilities, on request.
const MORE: Caps = flags!(Caps:
    TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | AV_USER_ID | SHARED_AV
);

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);
/// Further default flags of an endpoint, on request.
const MORE_TX_FLAGS: OpFlags = flags!(OpFlags: INJECT | COMMIT_COMPLETE);

const ORDER: MsgOrder = flags!(MsgOrder:
    RAR | RAW | RAS | WAR | WAW | WAS | SAR | SAW | SAS | RMA_RAR | RMA_RAW | RMA_WAR | RMA_WAW |
    ATOMIC_RAR | ATOMIC_RAW | ATOMIC_WAR | ATOMIC_WAW
);

/// Maximum of contexts of each kind for one endpoint.
pub const MAX_CONTEXTS: usize = 64;
/// Maximum of bytes in an injected message.
pub const SHM_INJECT: usize = 4096;
pub const SM2_INJECT: usize = 3864;

const IOV_LIMIT: usize = 4;
