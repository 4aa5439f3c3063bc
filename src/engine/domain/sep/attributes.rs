// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Capabilities and limits of a context of a scalable endpoint: fi_endpoint(3), fi_tx_context, fi_rx_context.

use base::flags::flags;
use base::info::{RxAttr, TxAttr};
use base::{Caps, Error, Result};

/// The capabilities of a context: those of the endpoint, reduced to the kinds that the context's attributes name, if
/// any.
pub fn own_caps(all: Caps, own: Caps) -> Caps {
    let kinds = flags!(Caps: MSG | TAGGED | RMA | ATOMIC | COLLECTIVE);
    match own & kinds {
        own if own.is_empty() => all,
        own => all & !kinds | all & own,
    }
}

/// fi_endpoint(3): a context may have less than its endpoint. Zero means the value of the endpoint.
pub fn narrow_tx(tx: &mut TxAttr, wanted: &TxAttr, caps: Caps) -> Result {
    if !(caps | tx.caps).contains(wanted.caps) || !tx.msg_order.covers(wanted.msg_order) {
        return Err(Error::INVAL);
    }
    if !wanted.caps.is_empty() {
        tx.caps = wanted.caps;
    }
    tx.op_flags = wanted.op_flags;
    narrow(&mut tx.inject_size, wanted.inject_size)?;
    narrow(&mut tx.size, wanted.size)?;
    narrow(&mut tx.iov_limit, wanted.iov_limit)?;
    narrow(&mut tx.rma_iov_limit, wanted.rma_iov_limit)
}

pub fn narrow_rx(rx: &mut RxAttr, wanted: &RxAttr, caps: Caps) -> Result {
    if !(caps | rx.caps).contains(wanted.caps) || !rx.msg_order.covers(wanted.msg_order) {
        return Err(Error::INVAL);
    }
    if !wanted.caps.is_empty() {
        rx.caps = wanted.caps;
    }
    rx.op_flags = wanted.op_flags;
    narrow(&mut rx.size, wanted.size)?;
    narrow(&mut rx.iov_limit, wanted.iov_limit)
}

fn narrow(limit: &mut usize, wanted: usize) -> Result {
    match wanted {
        0 => Ok(()),
        wanted if wanted <= *limit => {
            *limit = wanted;
            Ok(())
        }
        _ => Err(Error::INVAL),
    }
}
