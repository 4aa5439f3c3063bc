// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One kind of entry that a provider can make: what it can do at most, before it meets hints and addresses.
#![forbid(unsafe_code)]

use super::{Info, Layout, Query};
use crate::abi::FI_SHARED_CONTEXT;
use crate::base::Caps;

#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// The limits against which hints are checked; names and addresses are empty.
    pub info: Info,
    /// Of its capabilities those that are only for who names them.
    pub on_request: Caps,
    /// The queue sizes in the result when hints do not ask for any.
    pub tx_size: usize,
    pub rx_size: usize,
    /// The values of `fi_info.addr_format` it understands, besides none at all.
    pub addr_formats: &'static [u32],
}

impl Prototype {
    /// Do its endpoints take what they receive from a context that they share?
    pub fn shares_rx(&self) -> bool {
        self.info.ep.rx_ctx_cnt == FI_SHARED_CONTEXT
    }

    /// Sharing changes how an endpoint is opened, so it is only for those who may expect it: without hints for
    /// endpoints, or with a number of contexts.
    pub fn is_expected(&self, query: &Query) -> bool {
        let ep = query.hints.and_then(|hints| hints.ep.as_ref());
        !self.shares_rx() || ep.is_none_or(|ep| ep.rx_ctx_cnt != 0)
    }
}

/// Alternating bits: every bit of a tag may be a field.
pub const ALL_TAG_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Hints of later structs mean nothing to an application of an earlier API: these are the versions at which some came.
pub mod since {
    pub const V1_5: u32 = 1 << 16 | 5;
    pub const V1_9: u32 = 1 << 16 | 9;
    pub const V1_20: u32 = 1 << 16 | 20;
    pub const V2_0: u32 = 2 << 16;
    pub const V2_5: u32 = 2 << 16 | 5;
}

const _: () = assert!(Layout::of_api(since::V2_5).domain == Layout::FABRIC_1_9.domain);
