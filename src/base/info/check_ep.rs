// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The rules of `fi_ep_attr`: fi_endpoint(3), "ENDPOINT ATTRIBUTES".
#![forbid(unsafe_code)]

use super::check::Verdict;
use super::prototype::since;
use super::reason::Value;
use super::{EpAttr, Prototype};
use crate::Caps;
use abi::FI_SHARED_CONTEXT;

pub(super) fn check_ep(
    verdict: &mut Verdict,
    offer: &Prototype,
    version: u32,
    caps: Caps,
    wanted: &EpAttr,
) {
    let offered = &offer.info.ep;
    verdict.same(
        "ep_attr.type",
        wanted.ep_type,
        offered.ep_type,
        Value::EpType,
    );
    verdict.same(
        "ep_attr.protocol",
        wanted.protocol,
        offered.protocol,
        Value::Protocol,
    );
    verdict.at_most(
        "ep_attr.protocol_version",
        wanted.protocol_version as usize,
        offered.protocol_version as usize,
    );
    verdict.at_most(
        "ep_attr.max_msg_size",
        wanted.max_msg_size,
        offered.max_msg_size,
    );
    check_contexts(verdict, offer, wanted);
    if caps.intersects(Caps::RMA | Caps::ATOMIC) {
        check_order_sizes(verdict, wanted, offered);
    }
    if caps.contains(Caps::TAGGED) && offered.mem_tag_format != 0 {
        check_tag_format(verdict, wanted, offered);
    }
    // Older programs do not have these members.
    if version >= since::V1_5 {
        verdict.at_most(
            "ep_attr.auth_key_size",
            wanted.auth_key_size,
            offered.auth_key_size,
        );
    }
}

fn check_contexts(verdict: &mut Verdict, offer: &Prototype, wanted: &EpAttr) {
    let domain = &offer.info.domain;
    contexts(
        verdict,
        "ep_attr.tx_ctx_cnt",
        wanted.tx_ctx_cnt,
        domain.max_ep_tx_ctx,
        domain.max_ep_stx_ctx,
    );
    contexts(
        verdict,
        "ep_attr.rx_ctx_cnt",
        wanted.rx_ctx_cnt,
        domain.max_ep_rx_ctx,
        domain.max_ep_srx_ctx,
    );
}

fn contexts(
    verdict: &mut Verdict,
    field: &'static str,
    wanted: usize,
    offered: usize,
    shared: usize,
) {
    if wanted != FI_SHARED_CONTEXT {
        verdict.at_most(field, wanted, offered);
    } else if shared == 0 {
        verdict.refuse(
            field,
            Value::from("FI_SHARED_CONTEXT"),
            Value::Count(offered as u64),
        );
    }
}

fn check_order_sizes(verdict: &mut Verdict, wanted: &EpAttr, offered: &EpAttr) {
    verdict.at_most(
        "ep_attr.max_order_raw_size",
        wanted.max_order_raw_size,
        offered.max_order_raw_size,
    );
    verdict.at_most(
        "ep_attr.max_order_war_size",
        wanted.max_order_war_size,
        offered.max_order_war_size,
    );
    verdict.at_most(
        "ep_attr.max_order_waw_size",
        wanted.max_order_waw_size,
        offered.max_order_waw_size,
    );
}

/// Refuses a wider tag than offered: upper bits that are zero in a format are not usable in a tag.
fn check_tag_format(verdict: &mut Verdict, wanted: &EpAttr, offered: &EpAttr) {
    if wanted.mem_tag_format.leading_zeros() < offered.mem_tag_format.leading_zeros() {
        verdict.refuse(
            "ep_attr.mem_tag_format",
            Value::Tag(wanted.mem_tag_format),
            Value::Tag(offered.mem_tag_format),
        );
    }
}
