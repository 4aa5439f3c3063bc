// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The names of flags, as `fi_tostr` lists them: fi_fabric(3). One bit has different names in different fields.
//!
//! The order is that of the original's texts. Bits without a name in a list are omitted.
#![forbid(unsafe_code)]

use super::writer::Text;
use abi::*;

/// Headers of a program, as far as the flags in its structs prove them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    Before27,
    V27,
    V28,
}

/// The names of the bits of one field.
pub struct Flags(&'static [(u64, &'static str)]);

impl Flags {
    /// Appends `A, B, C`.
    pub fn write(&self, text: &mut Text, bits: u64) {
        for (flag, name) in self.0 {
            if bits & flag != 0 {
                text.push(name.as_bytes());
                text.push(b", ");
            }
        }
        text.trim_comma();
    }

    /// Returns the oldest headers with which a program can have set these bits. If a bit has no name in the list, they
    /// prove nothing, because some programs set all bits.
    pub fn headers(&self, bits: u64) -> Headers {
        let named = self.0.iter().fold(FI_XPU, |all, (flag, _)| all | flag);
        match bits & !named != 0 {
            true => Headers::Before27,
            false if bits & FI_WR != 0 => Headers::V28,
            false if bits & FI_XPU != 0 => Headers::V27,
            false => Headers::Before27,
        }
    }

    /// Returns `A | B | 0x4`, for sentences. It is complete: bits without a name are appended as a number.
    pub fn sum(&self, bits: u64) -> String {
        let mut words = Vec::new();
        let mut unnamed = bits;
        for (flag, name) in self.0 {
            if bits & flag != 0 {
                words.push((*name).to_owned());
                unnamed &= !flag;
            }
        }
        if unnamed != 0 || words.is_empty() {
            words.push(format!("{unnamed:#x}"));
        }
        words.join(" | ")
    }
}

macro_rules! flags {
    ($($name:ident)*) => { Flags(&[$(($name as u64, stringify!($name)),)*]) };
}

pub const CAPS: Flags = flags!(
    FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_MULTICAST FI_COLLECTIVE FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ
    FI_REMOTE_WRITE FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_TRIGGER FI_FENCE FI_RMA_PMEM FI_SOURCE_ERR FI_LOCAL_COMM
    FI_REMOTE_COMM FI_SHARED_AV FI_RMA_EVENT FI_SOURCE FI_NAMED_RX_CTX FI_DIRECTED_RECV FI_AV_USER_ID FI_PEER FI_HMEM
    FI_XPU FI_WR
);

pub const OP_FLAGS: Flags = flags!(
    FI_MULTICAST FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_MORE FI_PEEK FI_TRIGGER FI_FENCE FI_COMPLETION FI_INJECT
    FI_INJECT_COMPLETE FI_TRANSMIT_COMPLETE FI_DELIVERY_COMPLETE FI_MATCH_COMPLETE FI_AFFINITY FI_CLAIM FI_DISCARD
);

pub const MSG_ORDER: Flags = flags!(
    FI_ORDER_RAR FI_ORDER_RAW FI_ORDER_RAS FI_ORDER_WAR FI_ORDER_WAW FI_ORDER_WAS FI_ORDER_SAR FI_ORDER_SAW
    FI_ORDER_SAS FI_ORDER_RMA_RAR FI_ORDER_RMA_RAW FI_ORDER_RMA_WAR FI_ORDER_RMA_WAW FI_ORDER_ATOMIC_RAR
    FI_ORDER_ATOMIC_RAW FI_ORDER_ATOMIC_WAR FI_ORDER_ATOMIC_WAW
);

pub const MODE: Flags = flags!(
    FI_CONTEXT FI_MSG_PREFIX FI_ASYNC_IOV FI_RX_CQ_DATA FI_LOCAL_MR FI_CONTEXT2
);

pub const CQ_EVENT_FLAGS: Flags = flags!(
    FI_SEND FI_RECV FI_RMA FI_ATOMIC FI_MSG FI_TAGGED FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE FI_REMOTE_CQ_DATA
    FI_MULTI_RECV FI_MORE FI_CLAIM
);

pub const MR_MODE: Flags = flags!(
    FI_MR_BASIC FI_MR_SCALABLE FI_MR_LOCAL FI_MR_RAW FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_MR_MMU_NOTIFY
    FI_MR_RMA_EVENT FI_MR_ENDPOINT FI_MR_HMEM FI_MR_COLLECTIVE FI_MR_XPU_DESC
);

/// `fi_mr_attr.access`
pub const ACCESS: Flags = flags!(
    FI_RECV FI_SEND FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE FI_COLLECTIVE
);

/// `fi_av_attr.flags`
pub const AV_FLAGS: Flags = flags!(FI_EVENT FI_READ FI_SYMMETRIC);

/// `fi_cq_attr.flags`
pub const CQ_FLAGS: Flags = flags!(FI_AFFINITY);
