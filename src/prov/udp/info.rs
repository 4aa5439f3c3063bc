// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of udp: capabilities, limits and defaults of its endpoints, as data; fi_udp(7).

use super::SOURCE;
use super::params::Params;
use abi::*;
use base::flags::flags;
use base::info::{
    Answer, Asked, DomainAttr, EpAttr, FabricAttr, Info, Prototype, Query, RxAttr, TxAttr, ip,
    select,
};
use base::iovec::IOV_LIMIT;
use base::{Caps, OpFlags};

/// Returns the entries that satisfy the query.
pub fn offers(query: &Query, params: &Params) -> Answer {
    let site = ip::Site {
        iface: params.iface.as_deref(),
        iface_variable: "FI_UDP_IFACE",
        domain: c"udp",
        fabric: c"UDP-IP",
        datagram: true,
    };
    let places = ip::places(query, &site, &ip::System);
    ip::warn_of_interface(&SOURCE, &site, &places);
    let mut dgram = dgram();
    add_what_is_asked(&mut dgram.info, query);
    select("udp", &[dgram], query, places)
}

fn add_what_is_asked(info: &mut Info, query: &Query) {
    Asked::of(query).add_to(info, MORE_RX);
    if let Some(hints) = query.hints {
        let tx = hints.tx.as_ref().map(|tx| tx.op_flags & TX_FLAGS);
        let rx = hints.rx.as_ref().map(|rx| rx.op_flags & RX_FLAGS);
        info.tx.op_flags |= tx.unwrap_or_default();
        info.rx.op_flags |= rx.unwrap_or_default();
    }
}

fn dgram() -> Prototype {
    Prototype {
        info: Info {
            caps: TX | RX | DOMAIN,
            tx: TxAttr {
                caps: TX,
                inject_size: MAX_MESSAGE,
                size: QUEUE,
                iov_limit: IOV_LIMIT,
                ..TxAttr::default()
            },
            rx: RxAttr {
                caps: RX,
                size: QUEUE,
                iov_limit: IOV_LIMIT,
                ..RxAttr::default()
            },
            ep: EpAttr {
                ep_type: FI_EP_DGRAM.0,
                protocol: FI_PROTO_UDP,
                max_msg_size: MAX_MESSAGE,
                tx_ctx_cnt: 1,
                rx_ctx_cnt: 1,
                ..EpAttr::default()
            },
            domain: domain(),
            fabric: FabricAttr {
                prov_name: Some(c"udp".into()),
                prov_version: release::PROVIDER_VERSION,
                ..FabricAttr::default()
            },
            ..Info::default()
        },
        on_request: Caps::empty(),
        tx_size: QUEUE,
        rx_size: QUEUE,
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
        mr_key_size: size_of::<u64>(),
        cq_cnt: 256,
        ep_cnt: 256,
        tx_ctx_cnt: 256,
        rx_ctx_cnt: 256,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        caps: DOMAIN,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}

const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
const TX: Caps = flags!(Caps: MSG | MULTICAST | SEND);
const RX: Caps = flags!(Caps: MSG | RECV | SOURCE);

/// Further capabilities, which upstream's provider lacks; offered only on request.
const MORE_RX: Caps = flags!(Caps: MULTI_RECV | SOURCE_ERR);

/// Default flags of an endpoint, on request. fi_cq(3): FI_DELIVERY_COMPLETE is for reliable endpoints.
const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | MULTICAST
);
const RX_FLAGS: OpFlags = flags!(OpFlags: COMPLETION | MULTI_RECV);

/// Room in a packet of 1500 bytes behind the headers of IPv4 and UDP. The kernel accepts more and fragments it.
pub const MAX_MESSAGE: usize = 1500 - 20 - 8;
/// Entries of a transmit or receive queue.
pub const QUEUE: usize = 1024;
