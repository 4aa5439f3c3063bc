// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A kind of entry that a provider can make, with its limits, before hints and addresses are applied.
#![forbid(unsafe_code)]

use super::{Info, Layout, Query};
use crate::Caps;
use abi::FI_SHARED_CONTEXT;

#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// The limits against which hints are checked; names and addresses are empty.
    pub info: Info,
    /// Capabilities that a result has only if the hints name them.
    pub on_request: Caps,
    /// The queue sizes in the result if the hints have none.
    pub tx_size: usize,
    pub rx_size: usize,
    /// The values of `fi_info.addr_format` that it accepts, besides FI_FORMAT_UNSPEC.
    pub addr_formats: &'static [u32],
}

impl Prototype {
    /// Whether its endpoints use a shared receive context.
    pub fn shares_rx(&self) -> bool {
        self.info.ep.rx_ctx_cnt == FI_SHARED_CONTEXT
    }

    /// Whether the kind may be listed. Sharing changes how an endpoint is opened, so a kind that shares is listed
    /// only if the query has no hints for endpoints, or has a number of receive contexts.
    pub fn is_expected(&self, query: &Query) -> bool {
        let ep = query.hints.and_then(|hints| hints.ep.as_ref());
        !self.shares_rx() || ep.is_none_or(|ep| ep.rx_ctx_cnt != 0)
    }
}

/// Alternating bits: every bit of a tag may be a field.
pub const ALL_TAG_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Versions that added members to structs. The members are ignored in hints of an application with an older API.
pub mod since {
    pub const V1_5: u32 = 1 << 16 | 5;
    pub const V1_9: u32 = 1 << 16 | 9;
    pub const V1_20: u32 = 1 << 16 | 20;
    pub const V1_22: u32 = 1 << 16 | 22;
    pub const V2_0: u32 = 2 << 16;
    pub const V2_5: u32 = 2 << 16 | 5;
}

const _: () = assert!(Layout::of_api(since::V2_5).domain == Layout::FABRIC_1_9.domain);
