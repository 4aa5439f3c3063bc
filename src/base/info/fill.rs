// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Makes an entry of the result from a kind of entry and the hints. The hints have passed `check`; names and
//! addresses are added later.
#![forbid(unsafe_code)]

use super::caps::{Offered, granted, granted_domain, granted_rx, granted_tx};
use super::prototype::since;
use super::{DomainAttr, EpAttr, Hints, Info, Prototype, Query, RxAttr, TxAttr, mr};
use crate::Caps;
use abi::FI_SHARED_CONTEXT;

pub fn fill(offer: &Prototype, query: &Query) -> Info {
    let mut info = offer.info.clone();
    let nothing = Hints::default();
    let hints = query.hints.unwrap_or(&nothing);
    let offered = |caps| Offered {
        caps,
        on_request: offer.on_request,
    };
    info.caps = granted(hints.caps, offered(offer.info.caps));
    info.tx.caps = granted_tx(
        hints.tx.as_ref().map_or(Caps::empty(), |tx| tx.caps),
        hints.caps,
        offered(offer.info.tx.caps),
    );
    info.rx.caps = granted_rx(
        hints.rx.as_ref().map_or(Caps::empty(), |rx| rx.caps),
        hints.caps,
        offered(offer.info.rx.caps),
    );
    info.domain.caps = granted_domain(
        hints
            .domain
            .as_ref()
            .map_or(Caps::empty(), |domain| domain.caps),
        hints.caps,
        offered(offer.info.domain.caps),
    );
    // Usually a passive endpoint, or a connection request for the active endpoint; passed on without a check.
    info.handle = hints.handle;
    fill_domain(&mut info.domain, query, hints, &offer.info.domain);
    fill_keys(&mut info, query, hints);
    fill_classes(&mut info, query, hints);
    info.fabric.api_version = query.version;
    info.tx.size = offer.tx_size;
    if query.hints.is_none() {
        return info;
    }
    if wants_own_queue(hints.ep.as_ref()) {
        info.rx.size = offer.rx_size;
    }
    if let Some(ep) = &hints.ep {
        fill_ep(&mut info.ep, ep, info.caps);
    }
    if let Some(tx) = &hints.tx {
        fill_tx(&mut info.tx, tx);
    }
    if let Some(rx) = &hints.rx {
        fill_rx(&mut info.rx, rx);
    }
    info
}

/// Whether the endpoint has a receive queue of its own. A queue that endpoints may share has the full size.
fn wants_own_queue(ep: Option<&EpAttr>) -> bool {
    ep.is_some_and(|ep| ep.rx_ctx_cnt != FI_SHARED_CONTEXT)
}

fn fill_domain(out: &mut DomainAttr, query: &Query, hints: &Hints, offered: &DomainAttr) {
    let wanted = hints.domain.as_ref();
    let mr_mode = mr::agree(
        query.version,
        wanted.map(|domain| domain.mr_mode),
        offered.mr_mode,
        hints,
    );
    out.mr_mode = mr_mode.unwrap_or_default();
    let Some(wanted) = wanted else {
        return;
    };
    replace(&mut out.threading, wanted.threading);
    replace(&mut out.progress, wanted.progress);
    replace(&mut out.control_progress, wanted.progress);
    replace(&mut out.av_type, wanted.av_type);
}

/// Copies the authorization keys of the hints. The offer has only their greatest length and number.
fn fill_keys(info: &mut Info, query: &Query, hints: &Hints) {
    let domain = hints.domain.as_ref();
    let ep = hints.ep.as_ref();
    // Programs before 1.5 do not have these members.
    let domain_key = domain.filter(|_| query.version >= since::V1_5);
    let ep = ep.filter(|_| query.version >= since::V1_5);
    info.domain.auth_key_size = domain_key.map_or(0, |domain| domain.auth_key_size);
    info.domain.auth_key = domain_key.and_then(|domain| domain.auth_key.clone());
    info.domain.max_ep_auth_key = domain.map_or(0, |domain| domain.max_ep_auth_key);
    info.ep.auth_key_size = ep.map_or(0, |ep| ep.auth_key_size);
    info.ep.auth_key = ep.and_then(|ep| ep.auth_key.clone());
}

/// Copies the traffic classes of the hints. Programs before 1.9 do not have these members.
fn fill_classes(info: &mut Info, query: &Query, hints: &Hints) {
    if query.version < since::V1_9 {
        return;
    }
    info.tx.tclass = hints.tx.as_ref().map_or(0, |tx| tx.tclass);
    info.domain.tclass = hints.domain.as_ref().map_or(0, |domain| domain.tclass);
}

fn fill_ep(out: &mut EpAttr, wanted: &EpAttr, caps: Caps) {
    if caps.intersects(Caps::RMA | Caps::ATOMIC) {
        replace(&mut out.max_order_raw_size, wanted.max_order_raw_size);
        replace(&mut out.max_order_war_size, wanted.max_order_war_size);
        replace(&mut out.max_order_waw_size, wanted.max_order_waw_size);
    }
    replace(&mut out.tx_ctx_cnt, wanted.tx_ctx_cnt);
    replace(&mut out.rx_ctx_cnt, wanted.rx_ctx_cnt);
}

fn fill_tx(out: &mut TxAttr, wanted: &TxAttr) {
    out.op_flags = wanted.op_flags;
    replace(&mut out.inject_size, wanted.inject_size);
    replace(&mut out.size, wanted.size);
    replace(&mut out.iov_limit, wanted.iov_limit);
    replace(&mut out.rma_iov_limit, wanted.rma_iov_limit);
}

fn fill_rx(out: &mut RxAttr, wanted: &RxAttr) {
    out.op_flags = wanted.op_flags;
    replace(&mut out.size, wanted.size);
    replace(&mut out.iov_limit, wanted.iov_limit);
}

/// Replaces the default by the requested value, if there is one; `check` has accepted it.
fn replace<T: Default + PartialEq>(out: &mut T, wanted: T) {
    if wanted != T::default() {
        *out = wanted;
    }
}
