// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How many fields of a struct its caller has. `fi_tostr` has no version argument, so fields that came with 2.7 are
//! read only if the rest of the struct proves that the caller knows FI_XPU. The structs of 2.6 and earlier versions
//! cannot be distinguished.
//!
//! Trusted with: reading that much of a struct from a C caller.

use super::flags;
use crate::abi::*;
use crate::base::info::{Layout, Plain, grown};

/// A struct, and whether it has the fields of 2.7.
pub struct Known<T> {
    pub attr: Option<T>,
    pub is_next: bool,
}

/// # Safety
/// `data` is NULL or such a struct. It has at least `released` bytes, as in 2.6, and its full size if `proves` returns
/// true for those bytes.
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

/// `is_next`: other fields have proved that it is a struct of 2.7.
///
/// # Safety
/// `data` is NULL or such a struct.
pub unsafe fn ep(data: *const fi_ep_attr, is_next: bool) -> Known<fi_ep_attr> {
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::FABRIC_1_9.ep, |_| is_next) }
}

/// # Safety
/// As for `ep`.
pub unsafe fn domain(data: *const fi_domain_attr, is_next: bool) -> Known<fi_domain_attr> {
    let proves = |attr: &fi_domain_attr| is_next || flags::CAPS.know_xpu(attr.caps);
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::FABRIC_1_9.domain, proves) }
}

/// # Safety
/// As for `ep`.
pub unsafe fn cq(data: *const fi_cq_attr) -> Known<fi_cq_attr> {
    let proves = |attr: &fi_cq_attr| flags::CQ_FLAGS.know_xpu(attr.flags);
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::CQ_ATTR, proves) }
}

/// # Safety
/// As for `ep`.
pub unsafe fn cntr(data: *const fi_cntr_attr) -> Known<fi_cntr_attr> {
    let proves = |attr: &fi_cntr_attr| flags::CQ_FLAGS.know_xpu(attr.flags);
    // SAFETY: promised by the caller.
    unsafe { known(data, Layout::CNTR_ATTR, proves) }
}
