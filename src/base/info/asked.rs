// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Attributes that an entry has only if the hints request them: capabilities and orders that cost something, and
//! attributes of the 1.x API that 2.x removed.
#![forbid(unsafe_code)]

use super::caps::{RX, TX};
use super::{ALL_TAG_BITS, EpAttr, Hints, Info, Query, since};
use crate::flags::flags;
use crate::{Caps, CompOrder, MsgOrder, OpFlags};
use abi::*;

/// The attributes that the hints request.
#[derive(Default)]
pub struct Asked {
    caps: Caps,
    rx_flags: OpFlags,
    tx_order: MsgOrder,
    rx_order: MsgOrder,
    tx_comp: CompOrder,
    rx_comp: CompOrder,
    /// Type of the requested endpoints; `None` if they use a shared receive context.
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
        // fi_endpoint(3): comp_order exists in version 1 only.
        let (tx_comp, rx_comp) = match query.version < since::V2_0 {
            true => (
                tx.as_ref().map_or(CompOrder::empty(), |tx| tx.comp_order),
                rx.as_ref().map_or(CompOrder::empty(), |rx| rx.comp_order),
            ),
            false => Default::default(),
        };
        // In programs of the 1.x API that bit means FI_VARIABLE_MSG.
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

    /// Adds the requested capabilities out of `more`, which this kind of entry has on request.
    pub fn add_to(&self, info: &mut Info, more: Caps) {
        let mut caps = self.caps & more;
        // An MSG entry has these capabilities only if the hints request that type without a shared context. Otherwise
        // it would match, too, and could be listed before the entry that always has them.
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

    /// Adds the requested orders out of `more`, which this kind of entry keeps on request.
    pub fn add_orders(&self, info: &mut Info, more: MsgOrder) {
        info.tx.msg_order |= self.tx_order & more;
        info.rx.msg_order |= self.rx_order & more;
        // fi_endpoint(3): data is in order only if its messages are.
        if (self.tx_order & more).intersects(MsgOrder::WRITES_AFTER_READS) {
            info.ep.max_order_war_size = usize::MAX;
        }
    }

    /// Adds the requested data order, for a provider that receives the bytes of a message in order.
    pub fn add_data_order(&self, info: &mut Info) {
        // Receives complete in the order of their messages, so no stricter order is added.
        info.rx.comp_order = self.rx_comp & CompOrder::DATA;
    }
}

/// Offers several contexts, at most `most` of each kind, and shared contexts, if the hints request them.
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
    // Several contexts of one kind cannot be combined with a shared context of the other kind.
    if !shared {
        domain.max_ep_tx_ctx = most;
        domain.max_ep_rx_ctx = most;
    }
}

/// Capabilities of domains, not of endpoints.
const DOMAIN_CAPS: Caps = flags!(Caps: AV_USER_ID | SHARED_AV | PEER);
/// Orders that a provider keeps by holding back later operations until the read is complete.
pub const AFTER_READS: MsgOrder = MsgOrder::WRITES_AFTER_READS.union(MsgOrder::SAR);

fn own_contexts(ep: &EpAttr) -> Option<u32> {
    (ep.rx_ctx_cnt != FI_SHARED_CONTEXT).then_some(ep.ep_type)
}
