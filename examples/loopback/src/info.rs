// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entry of fi_getinfo(3): capabilities, limits and defaults of the endpoints, as data. It names only what the
//! transport does; `select` refuses all other hints.

use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, DomainAttr, EpAttr, Info, Prototype, Query, RxAttr, TxAttr, local, select,
};
use base::iovec::IOV_LIMIT;
use base::{Caps, Error, MsgOrder, OpFlags, Result};
use object::live;

use super::NAME;
use super::name::SCHEME;

/// Returns the entries that satisfy the query.
pub fn offers(query: &Query) -> Answer {
    let site = local::Site {
        name: NAME,
        scheme: SCHEME,
        pid: std::process::id(),
    };
    let mut answer = select("loopback", &[rdm()], query, local::places(query, &site));
    for info in &mut answer.entries {
        info.fabric.fabric = live::find_named(FI_CLASS_FABRIC, NAME, NAME);
        info.domain.domain = live::find_named(FI_CLASS_DOMAIN, NAME, NAME);
    }
    answer
}

/// Whether an endpoint with these attributes can be opened.
pub fn check(info: &Info) -> Result {
    match fi_ep_type(info.ep.ep_type) {
        FI_EP_RDM => {}
        FI_EP_MSG | FI_EP_DGRAM => return Err(Error::NOSYS),
        _ => return Err(Error::INVAL),
    }
    let fits = info.handle == 0
        && info.tx.size.max(info.rx.size) <= QUEUE
        && info.tx.inject_size <= INJECT
        && info.tx.iov_limit.max(info.rx.iov_limit) <= IOV_LIMIT;
    fits.then_some(()).ok_or(Error::INVAL)
}

fn rdm() -> Prototype {
    Prototype {
        info: Info {
            caps: TX | RX | DOMAIN,
            tx: TxAttr {
                caps: TX,
                op_flags: TX_FLAGS,
                msg_order: MsgOrder::SAS,
                inject_size: INJECT,
                size: QUEUE,
                iov_limit: IOV_LIMIT,
                ..TxAttr::default()
            },
            rx: RxAttr {
                caps: RX,
                op_flags: OpFlags::COMPLETION | OpFlags::MULTI_RECV,
                msg_order: MsgOrder::SAS,
                size: QUEUE,
                iov_limit: IOV_LIMIT,
                ..RxAttr::default()
            },
            ep: EpAttr {
                ep_type: FI_EP_RDM.0,
                max_msg_size: usize::MAX,
                mem_tag_format: ALL_TAG_BITS,
                tx_ctx_cnt: 1,
                rx_ctx_cnt: 1,
                ..EpAttr::default()
            },
            domain: domain(),
            ..Info::default()
        },
        on_request: Caps::empty(),
        tx_size: QUEUE,
        rx_size: QUEUE,
        addr_formats: local::ADDR_FORMATS,
    }
}

fn domain() -> DomainAttr {
    DomainAttr {
        threading: FI_THREAD_SAFE.0,
        // Messages arrive within the calls that send them, so progress needs no calls of the receiver.
        control_progress: FI_PROGRESS_AUTO.0,
        progress: FI_PROGRESS_AUTO.0,
        resource_mgmt: FI_RM_ENABLED.0,
        mr_key_size: size_of::<u64>(),
        cq_data_size: CQ_DATA,
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

const DOMAIN: Caps = Caps::LOCAL_COMM;
const TX: Caps = flags!(Caps: MSG | TAGGED | SEND);
const RX: Caps = flags!(Caps: MSG | TAGGED | RECV | MULTI_RECV | SOURCE | DIRECTED_RECV);

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);

/// Bytes of remote CQ data, most bytes of an injected message, entries of a transmit or receive queue.
pub const CQ_DATA: usize = size_of::<u64>();
const INJECT: usize = 4096;
const QUEUE: usize = 1024;
