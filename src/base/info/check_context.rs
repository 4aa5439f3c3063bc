// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The rules of `fi_tx_attr` and `fi_rx_attr`: fi_endpoint(3), "TRANSMIT CONTEXT ATTRIBUTES" and "RECEIVE CONTEXT
//! ATTRIBUTES".
#![forbid(unsafe_code)]

use super::caps::{RX_ONLY, TX_ONLY};
use super::check::Verdict;
use super::reason::Value;
use super::{RxAttr, TxAttr};
use crate::Mode;

pub(super) fn check_tx(verdict: &mut Verdict, offered: &TxAttr, mode: Mode, wanted: &TxAttr) {
    verdict.subset(
        "tx_attr.caps",
        wanted.caps & !RX_ONLY,
        offered.caps,
        Value::Caps,
    );
    verdict.needs("tx_attr.mode", offered.mode, own_or(wanted.mode, mode));
    verdict.subset(
        "tx_attr.op_flags",
        wanted.op_flags,
        offered.op_flags,
        Value::OpFlags,
    );
    verdict.subset(
        "tx_attr.msg_order",
        wanted.msg_order,
        offered.msg_order,
        Value::Order,
    );
    verdict.subset(
        "tx_attr.comp_order",
        wanted.comp_order,
        offered.comp_order,
        Value::CompOrder,
    );
    verdict.at_most(
        "tx_attr.inject_size",
        wanted.inject_size,
        offered.inject_size,
    );
    verdict.at_most("tx_attr.size", wanted.size, offered.size);
    verdict.at_most("tx_attr.iov_limit", wanted.iov_limit, offered.iov_limit);
    verdict.at_most(
        "tx_attr.rma_iov_limit",
        wanted.rma_iov_limit,
        offered.rma_iov_limit,
    );
}

pub(super) fn check_rx(verdict: &mut Verdict, offered: &RxAttr, mode: Mode, wanted: &RxAttr) {
    verdict.subset(
        "rx_attr.caps",
        wanted.caps & !TX_ONLY,
        offered.caps,
        Value::Caps,
    );
    verdict.needs("rx_attr.mode", offered.mode, own_or(wanted.mode, mode));
    verdict.subset(
        "rx_attr.op_flags",
        wanted.op_flags,
        offered.op_flags,
        Value::OpFlags,
    );
    verdict.subset(
        "rx_attr.msg_order",
        wanted.msg_order,
        offered.msg_order,
        Value::Order,
    );
    verdict.subset(
        "rx_attr.comp_order",
        wanted.comp_order,
        offered.comp_order,
        Value::CompOrder,
    );
    verdict.at_most(
        "rx_attr.total_buffered_recv",
        wanted.total_buffered_recv,
        offered.total_buffered_recv,
    );
    verdict.at_most("rx_attr.size", wanted.size, offered.size);
    verdict.at_most("rx_attr.iov_limit", wanted.iov_limit, offered.iov_limit);
}

/// Returns the modes of a part, or those of the whole entry if the part has none.
pub(super) fn own_or(own: Mode, whole: Mode) -> Mode {
    if own.is_empty() { whole } else { own }
}
