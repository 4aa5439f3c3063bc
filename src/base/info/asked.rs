// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What is offered to who asks for it, and to nobody else: capabilities and orders that cost something, and attributes of
//! the 1.x API that 2.x has given up.
#![forbid(unsafe_code)]

use super::caps::{RX, TX};
use super::{ALL_TAG_BITS, EpAttr, Hints, Info, Query, since};
use crate::abi::*;
use crate::base::flags::flags;
use crate::base::{Caps, CompOrder, MsgOrder, OpFlags};

/// What the hints name.
#[derive(Default)]
pub struct Asked {
    caps: Caps,
    rx_flags: OpFlags,
    tx_order: MsgOrder,
    rx_order: MsgOrder,
    tx_comp: CompOrder,
    rx_comp: CompOrder,
    /// Of endpoints with receive contexts of their own.
    ep_type: Option<u32>,
}

impl Asked {
    pub fn of(query: &Query) -> Asked {
        let Some(hints) = query.hints else {
            return Asked::default();
        };
        let Hints { tx, rx, domain, .. } = hints;
        let rx_caps = rx.as_ref().map_or(Caps::empty(), |rx| rx.caps);
        let domain_caps = domain.as_ref().map_or(Caps::empty(), |domain| domain.caps);
        // fi_endpoint(3), comp_order: there for version 1 only.
        let (tx_comp, rx_comp) = match query.version < since::V2_0 {
            true => (
                tx.as_ref().map_or(CompOrder::empty(), |tx| tx.comp_order),
                rx.as_ref().map_or(CompOrder::empty(), |rx| rx.comp_order),
            ),
            false => Default::default(),
        };
        // Programs of the 1.x API mean FI_VARIABLE_MSG with that bit.
        let strange = match query.version < since::V2_0 {
            true => Caps::EXACT_DIRECTED_RECV,
            false => Caps::empty(),
        };
        let caps = hints.caps | rx_caps | domain_caps & DOMAIN_CAPS;
        Asked {
            tx_comp,
            rx_comp,
            ep_type: hints.ep.as_ref().and_then(own_contexts),
            caps: caps & !strange,
            rx_flags: rx.as_ref().map_or(OpFlags::empty(), |rx| rx.op_flags),
            tx_order: tx.as_ref().map_or(MsgOrder::empty(), |tx| tx.msg_order),
            rx_order: rx.as_ref().map_or(MsgOrder::empty(), |rx| rx.msg_order),
        }
    }

    /// `more`: the capabilities that this kind of entry has for who asks.
    pub fn add_to(&self, info: &mut Info, more: Caps) {
        let mut caps = self.caps & more;
        // Who leaves the type open, or asks for a shared context, and takes the first entry is to go on getting the one that
        // has it by itself.
        let only_to_order = own_contexts(&info.ep) == Some(FI_EP_MSG.0);
        if only_to_order && self.ep_type != Some(FI_EP_MSG.0) {
            caps &= !(Caps::MULTI_RECV | Caps::TAGGED | Caps::TAGGED_MULTI_RECV);
        }
        info.caps |= caps;
        info.tx.caps |= caps & TX;
        info.rx.caps |= caps & RX;
        info.domain.caps |= caps & DOMAIN_CAPS;
        if caps.contains(Caps::TAGGED) {
            info.ep.mem_tag_format = ALL_TAG_BITS;
        }
        if caps.contains(Caps::MULTI_RECV) {
            info.rx.op_flags |= self.rx_flags & OpFlags::MULTI_RECV;
        }
        if self.tx_comp == CompOrder::STRICT {
            info.tx.comp_order = CompOrder::STRICT;
        }
    }

    /// `more`: the orders that are kept for who asks.
    pub fn add_orders(&self, info: &mut Info, more: MsgOrder) {
        info.tx.msg_order |= self.tx_order & more;
        info.rx.msg_order |= self.rx_order & more;
        // fi_endpoint(3): data is in order only where messages are.
        if (self.tx_order & more).intersects(MsgOrder::WRITES_AFTER_READS) {
            info.ep.max_order_war_size = usize::MAX;
        }
    }

    /// For who receives the bytes of a message in order.
    pub fn add_data_order(&self, info: &mut Info) {
        // Receives complete as their messages come.
        info.rx.comp_order = self.rx_comp & CompOrder::DATA;
    }
}

/// Several contexts, `most` of each kind, and shared ones are told of to those who ask for them.
pub fn offer_contexts(info: &mut Info, query: &Query, most: usize) {
    let nothing = Hints::default();
    let hints = query.hints.unwrap_or(&nothing);
    let count = |count: fn(&EpAttr) -> usize| hints.ep.as_ref().map_or(0, count);
    let (tx, rx) = (count(|ep| ep.tx_ctx_cnt), count(|ep| ep.rx_ctx_cnt));
    let caps = hints.caps | hints.tx.as_ref().map_or(Caps::empty(), |tx| tx.caps);
    let (domain, rdm) = (&mut info.domain, info.ep.ep_type == FI_EP_RDM.0);
    if tx == FI_SHARED_CONTEXT {
        domain.max_ep_stx_ctx = domain.ep_cnt;
    }
    if rx == FI_SHARED_CONTEXT {
        domain.max_ep_srx_ctx = domain.ep_cnt;
    }
    let shared = tx == FI_SHARED_CONTEXT || rx == FI_SHARED_CONTEXT;
    let several = tx.max(rx) > 1 && !shared;
    if !rdm || !(several || caps.contains(Caps::NAMED_RX_CTX)) {
        return;
    }
    info.caps |= Caps::NAMED_RX_CTX;
    info.tx.caps |= Caps::NAMED_RX_CTX;
    // Several of one kind together with a shared one of the other are not to be had.
    if !shared {
        domain.max_ep_tx_ctx = most;
        domain.max_ep_rx_ctx = most;
    }
}

/// Of domains, not of endpoints.
const DOMAIN_CAPS: Caps = flags!(Caps: AV_USER_ID | SHARED_AV);
/// Kept by holding back what follows a read until the read is complete.
pub const AFTER_READS: MsgOrder = MsgOrder::WRITES_AFTER_READS.union(MsgOrder::SAR);

fn own_contexts(ep: &EpAttr) -> Option<u32> {
    (ep.rx_ctx_cnt != FI_SHARED_CONTEXT).then_some(ep.ep_type)
}
