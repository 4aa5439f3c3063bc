// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How much of a struct its user has. `fi_tostr` has no version, so what came with 2.7 is read only where the rest of
//! the struct proves that its user knows FI_XPU. Nothing tells the structs of 2.6 and before from each other.
//!
//! Trusted with: reading so much of what C hands in.

use super::flags;
use crate::abi::*;
use crate::base::info::{Layout, Plain, grown};

/// A struct, and whether it is one of 2.7.
pub struct Known<T> {
    pub attr: Option<T>,
    pub is_next: bool,
}

/// # Safety
/// `data` is NULL or such a struct, at least as long as in 2.6 (`released`), and whole if `proves` says so of that
/// part.
unsafe fn known<T: Plain>(
    data: *const T,
    released: usize,
    proves: impl FnOnce(&T) -> bool,
) -> Known<T> {
    // SAFETY: promised by the caller.
    let attr = unsafe { grown(data, released) };
    match attr.as_ref().is_some_and(proves) {
        true => Known {
            // SAFETY: promised by the caller.
            attr: unsafe { grown(data, size_of::<T>()) },
            is_next: true,
        },
        false => Known {
            attr,
            is_next: false,
        },
    }
}

/// `is_next`: something else proves it.
///
/// # Safety
/// `data` is NULL or such a struct.
pub unsafe fn ep(data: *const fi_ep_attr, is_next: bool) -> Known<fi_ep_attr> {
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::FABRIC_1_9.ep, |_| is_next) }
}

/// # Safety
/// As `ep`.
pub unsafe fn domain(data: *const fi_domain_attr, is_next: bool) -> Known<fi_domain_attr> {
    let proves = |attr: &fi_domain_attr| is_next || flags::CAPS.know_xpu(attr.caps);
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::FABRIC_1_9.domain, proves) }
}

/// # Safety
/// As `ep`.
pub unsafe fn cq(data: *const fi_cq_attr) -> Known<fi_cq_attr> {
    let proves = |attr: &fi_cq_attr| flags::CQ_FLAGS.know_xpu(attr.flags);
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::CQ_ATTR, proves) }
}

/// # Safety
/// As `ep`.
pub unsafe fn cntr(data: *const fi_cntr_attr) -> Known<fi_cntr_attr> {
    let proves = |attr: &fi_cntr_attr| flags::CQ_FLAGS.know_xpu(attr.flags);
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::CNTR_ATTR, proves) }
}
