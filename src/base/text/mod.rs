// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Flags, enumerators, structs and addresses as text: `fi_tostr` of fi_fabric(3).
//!
//! `ctests/tostr.expected` has the text of every type. Trusted with: reading data of the type that C callers name.

pub mod address;
mod attr;
mod errors;
pub mod flags;
mod info;
mod known;
pub mod names;
mod nic;
mod queue;
mod writer;

use core::ffi::c_void;

use self::names::{Names, UNKNOWN};
use crate::log;
use abi::*;

pub use self::errors::{error_words, strerror};
pub use self::nic::nic_text;
pub use self::writer::Text;

/// Appends the text of `data`, which is of type `kind`.
///
/// # Safety
/// `data` points to the type that fi_fabric(3) gives for `kind`, and the pointers in it are valid; for FI_TYPE_VERSION
/// and unknown types it may be anything.
pub unsafe fn write(text: &mut Text, kind: fi_type, data: *const c_void) {
    // SAFETY: called only for a `kind` of 64 flags, so the caller promises that `data` points to them.
    let bits = || unsafe { data.cast::<u64>().read_unaligned() };
    // SAFETY: called only for a `kind` of the size of an int, so the caller promises that `data` points to one.
    let number = || unsafe { data.cast::<u32>().read_unaligned() };
    match kind {
        FI_TYPE_CAPS => flags::CAPS.write(text, bits()),
        FI_TYPE_OP_FLAGS => flags::OP_FLAGS.write(text, bits()),
        FI_TYPE_MSG_ORDER => flags::MSG_ORDER.write(text, bits()),
        FI_TYPE_MODE => flags::MODE.write(text, bits()),
        FI_TYPE_CQ_EVENT_FLAGS => flags::CQ_EVENT_FLAGS.write(text, bits()),
        FI_TYPE_MR_MODE => flags::MR_MODE.write(text, u64::from(number())),
        FI_TYPE_VERSION => text.push(VERSION.as_bytes()),
        FI_TYPE_LOG_LEVEL => word(text, log::level_name(number() as i32)),
        FI_TYPE_LOG_SUBSYS => word(text, log::subsys_name(number() as i32)),
        _ => {
            if let Some(names) = names_of(kind) {
                word(text, Some(names.of(number())));
            // SAFETY: passed on from the caller.
            } else if !unsafe { structure(text, kind, data) } {
                text.push(b"Unknown type");
            }
        }
    }
}

/// Appends the text of a struct. Returns false if `kind` is not a struct.
///
/// # Safety
/// As for `write`.
unsafe fn structure(text: &mut Text, kind: fi_type, data: *const c_void) -> bool {
    let oldest = flags::Headers::Before27;
    // SAFETY: this function's caller promises that `data` points to the struct of `kind`.
    unsafe {
        match kind {
            FI_TYPE_INFO => info::info(text, &*data.cast()),
            FI_TYPE_TX_ATTR => {
                attr::fi_tx_attr(text, 0, data.cast::<fi_tx_attr>().as_ref(), oldest)
            }
            FI_TYPE_RX_ATTR => {
                attr::fi_rx_attr(text, 0, data.cast::<fi_rx_attr>().as_ref(), oldest)
            }
            FI_TYPE_EP_ATTR => {
                let known = known::ep(data.cast(), oldest);
                attr::fi_ep_attr(text, 0, known.attr.as_ref(), known.headers);
            }
            FI_TYPE_DOMAIN_ATTR => {
                let known = known::domain(data.cast(), oldest);
                attr::fi_domain_attr(text, 0, known.attr.as_ref(), known.headers);
            }
            FI_TYPE_FABRIC_ATTR => {
                attr::fi_fabric_attr(text, 0, data.cast::<fi_fabric_attr>().as_ref(), oldest)
            }
            FI_TYPE_FID => info::object(text, 0, "fid", data.cast()),
            FI_TYPE_AV_ATTR => queue::av_attr(text, &*data.cast()),
            FI_TYPE_CQ_ATTR => queue::cq_attr(text, &known::cq(data.cast())),
            FI_TYPE_MR_ATTR => queue::mr_attr(text, &*data.cast()),
            FI_TYPE_CNTR_ATTR => queue::cntr_attr(text, &known::cntr(data.cast())),
            FI_TYPE_CQ_ERR_ENTRY => queue::cq_err_entry(text, &*data.cast()),
            _ => return false,
        }
    }
    true
}

fn names_of(kind: fi_type) -> Option<&'static Names> {
    Some(match kind {
        FI_TYPE_EP_TYPE => &names::EP_TYPE,
        FI_TYPE_ADDR_FORMAT => &names::ADDR_FORMAT,
        FI_TYPE_THREADING => &names::THREADING,
        FI_TYPE_PROGRESS => &names::PROGRESS,
        FI_TYPE_PROTOCOL => &names::PROTOCOL,
        FI_TYPE_AV_TYPE => &names::AV_TYPE,
        FI_TYPE_ATOMIC_TYPE => &names::DATATYPE,
        FI_TYPE_ATOMIC_OP => &names::ATOMIC_OP,
        FI_TYPE_EQ_EVENT => &names::EQ_EVENT,
        FI_TYPE_OP_TYPE => &names::OP_TYPE,
        FI_TYPE_COLLECTIVE_OP => &names::COLLECTIVE_OP,
        FI_TYPE_HMEM_IFACE => &names::HMEM_IFACE,
        FI_TYPE_CQ_FORMAT => &names::CQ_FORMAT,
        FI_TYPE_CQ_WAIT_COND => &names::CQ_WAIT_COND,
        FI_TYPE_WAIT_OBJ => &names::WAIT_OBJ,
        _ => return None,
    })
}

fn word(text: &mut Text, name: Option<&str>) {
    text.push(name.unwrap_or(UNKNOWN).as_bytes());
}

/// The version of the library, not that of the interface.
const VERSION: &str = abi::release::DEFAULT.release;
