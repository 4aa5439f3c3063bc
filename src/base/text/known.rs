// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How many fields of a struct its caller has. `fi_tostr` has no version argument, so fields that came with 2.7 and 2.8
//! are read only if the rest of the struct proves that the caller knows FI_XPU or FI_WR. The structs of 2.6 and earlier
//! versions cannot be distinguished.
//!
//! Trusted with: reading that much of a struct from a C caller.

use super::flags::{self, Headers};
use crate::info::{Layout, Plain, grown};
use abi::*;

/// A struct, and the headers that its caller was built with.
pub struct Known<T> {
    pub attr: Option<T>,
    pub headers: Headers,
}

/// Reads the part that every caller has, gets the headers from `proves`, and reads the fields that these add.
///
/// # Safety
/// `data` is NULL or such a struct, as long as `size` says of the headers that `proves` returns.
unsafe fn known<T: Plain>(
    data: *const T,
    size: impl Fn(Headers) -> usize,
    proves: impl FnOnce(&T) -> Headers,
) -> Known<T> {
    // SAFETY: promised by the caller.
    let attr = unsafe { grown(data, size(Headers::Before27)) };
    let headers = attr.as_ref().map_or(Headers::Before27, proves);
    Known {
        // SAFETY: promised by the caller.
        attr: unsafe { grown(data, size(headers)) },
        headers,
    }
}

fn layout(headers: Headers) -> Layout {
    match headers {
        Headers::Before27 => Layout::FABRIC_1_9,
        Headers::V27 => Layout::FABRIC_1_10,
        Headers::V28 => Layout::FABRIC_1_11,
    }
}

/// `headers`: those that the capabilities beside the struct prove. The struct itself proves nothing.
///
/// # Safety
/// `data` is NULL or such a struct of these headers.
pub unsafe fn ep(data: *const fi_ep_attr, headers: Headers) -> Known<fi_ep_attr> {
    // SAFETY: promised by the caller.
    unsafe { known(data, |headers| layout(headers).ep, |_| headers) }
}

/// # Safety
/// As `ep`.
pub unsafe fn domain(data: *const fi_domain_attr, headers: Headers) -> Known<fi_domain_attr> {
    let proves = |attr: &fi_domain_attr| headers.max(flags::CAPS.headers(attr.caps));
    // SAFETY: promised by the caller.
    unsafe { known(data, |headers| layout(headers).domain, proves) }
}

/// # Safety
/// As for `ep`.
pub unsafe fn cq(data: *const fi_cq_attr) -> Known<fi_cq_attr> {
    let proves = |attr: &fi_cq_attr| flags::CQ_FLAGS.headers(attr.flags);
    let size = |headers| match headers {
        Headers::Before27 => Layout::CQ_ATTR,
        _ => size_of::<fi_cq_attr>(),
    };
    // SAFETY: promised by the caller.
    unsafe { known(data, size, proves) }
}

/// # Safety
/// As for `ep`.
pub unsafe fn cntr(data: *const fi_cntr_attr) -> Known<fi_cntr_attr> {
    let proves = |attr: &fi_cntr_attr| flags::CQ_FLAGS.headers(attr.flags);
    let size = |headers| match headers {
        Headers::Before27 => Layout::CNTR_ATTR,
        _ => size_of::<fi_cntr_attr>(),
    };
    // SAFETY: promised by the caller.
    unsafe { known(data, size, proves) }
}
