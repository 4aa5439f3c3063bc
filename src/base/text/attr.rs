// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The attribute structs as `fi_tostr` prints them: fi_fabric(3), fi_domain(3), fi_endpoint(3).
//!
//! Trusted with: following the strings in structs from C callers, which are NULL or end with a zero.

use core::ffi::{CStr, c_char};

use super::flags::{self, Headers};
use super::known::Known;
use super::names::{AV_TYPE, EP_TYPE, PROGRESS, PROTOCOL, RESOURCE_MGMT, THREADING};
use super::writer::{Pointer, Text};
use abi::*;

pub fn tx_attr(text: &mut Text, depth: usize, attr: Option<&fi_tx_attr>) {
    let Some(attr) = heading(text, depth, "fi_tx_attr", attr) else {
        return;
    };
    let depth = depth + 1;
    text.list_field(depth, "caps", |text| flags::CAPS.write(text, attr.caps));
    text.list_field(depth, "mode", |text| flags::MODE.write(text, attr.mode));
    text.list_field(depth, "op_flags", |text| {
        flags::OP_FLAGS.write(text, attr.op_flags)
    });
    text.list_field(depth, "msg_order", |text| {
        flags::MSG_ORDER.write(text, attr.msg_order)
    });
    text.field(depth, "inject_size", attr.inject_size);
    text.field(depth, "size", attr.size);
    text.field(depth, "iov_limit", attr.iov_limit);
    text.field(depth, "rma_iov_limit", attr.rma_iov_limit);
    text.field(depth, "tclass", format_args!("{:#x}", attr.tclass));
}

pub fn rx_attr(text: &mut Text, depth: usize, attr: Option<&fi_rx_attr>) {
    let Some(attr) = heading(text, depth, "fi_rx_attr", attr) else {
        return;
    };
    let depth = depth + 1;
    text.list_field(depth, "caps", |text| flags::CAPS.write(text, attr.caps));
    text.list_field(depth, "mode", |text| flags::MODE.write(text, attr.mode));
    text.list_field(depth, "op_flags", |text| {
        flags::OP_FLAGS.write(text, attr.op_flags)
    });
    text.list_field(depth, "msg_order", |text| {
        flags::MSG_ORDER.write(text, attr.msg_order)
    });
    text.field(depth, "size", attr.size);
    text.field(depth, "iov_limit", attr.iov_limit);
}

pub fn ep_attr(text: &mut Text, depth: usize, known: &Known<fi_ep_attr>) {
    let Some(attr) = heading(text, depth, "fi_ep_attr", known.attr.as_ref()) else {
        return;
    };
    let depth = depth + 1;
    text.field(depth, "type", EP_TYPE.of(attr.r#type.0));
    text.field(depth, "protocol", PROTOCOL.of(attr.protocol));
    text.field(depth, "protocol_version", attr.protocol_version as i32);
    text.field(depth, "max_msg_size", attr.max_msg_size);
    text.field(depth, "msg_prefix_size", attr.msg_prefix_size);
    text.field(depth, "max_order_raw_size", attr.max_order_raw_size);
    text.field(depth, "max_order_war_size", attr.max_order_war_size);
    text.field(depth, "max_order_waw_size", attr.max_order_waw_size);
    text.field(
        depth,
        "mem_tag_format",
        format_args!("{:#018x}", attr.mem_tag_format),
    );
    context_count(text, depth, "tx_ctx_cnt", attr.tx_ctx_cnt);
    context_count(text, depth, "rx_ctx_cnt", attr.rx_ctx_cnt);
    text.field(depth, "auth_key_size", attr.auth_key_size);
    if known.headers >= Headers::V27 {
        text.field(depth, "xpu_ctx", Pointer::new(attr.xpu_ctx));
    }
    if known.headers >= Headers::V28 {
        text.field(depth, "max_tx_wr_size", attr.max_tx_wr_size);
        text.field(depth, "max_rx_wr_size", attr.max_rx_wr_size);
    }
}

/// # Safety
/// The strings in the struct are NULL or end with a zero.
pub unsafe fn domain_attr(text: &mut Text, depth: usize, known: &Known<fi_domain_attr>) {
    let Some(attr) = heading(text, depth, "fi_domain_attr", known.attr.as_ref()) else {
        return;
    };
    let depth = depth + 1;
    text.field(depth, "domain", Pointer::new(attr.domain));
    // SAFETY: this function's caller promises it.
    text.c_field(depth, "name", unsafe { string(attr.name) });
    text.field(depth, "threading", THREADING.of(attr.threading.0));
    // SAFETY: both members of the union are the same enumeration, and any number is valid for it.
    let progress = unsafe { attr.anonymous.progress };
    text.field(depth, "progress", PROGRESS.of(progress.0));
    text.field(
        depth,
        "resource_mgmt",
        RESOURCE_MGMT.of(attr.resource_mgmt.0),
    );
    text.field(depth, "av_type", AV_TYPE.of(attr.av_type.0));
    text.list_field(depth, "mr_mode", |text| {
        flags::MR_MODE.write(text, u64::from(attr.mr_mode as u32))
    });
    text.field(depth, "mr_key_size", attr.mr_key_size);
    text.field(depth, "cq_data_size", attr.cq_data_size);
    text.field(depth, "cq_cnt", attr.cq_cnt);
    text.field(depth, "ep_cnt", attr.ep_cnt);
    text.field(depth, "tx_ctx_cnt", attr.tx_ctx_cnt);
    text.field(depth, "rx_ctx_cnt", attr.rx_ctx_cnt);
    text.field(depth, "max_ep_tx_ctx", attr.max_ep_tx_ctx);
    text.field(depth, "max_ep_rx_ctx", attr.max_ep_rx_ctx);
    text.field(depth, "max_ep_stx_ctx", attr.max_ep_stx_ctx);
    text.field(depth, "max_ep_srx_ctx", attr.max_ep_srx_ctx);
    text.field(depth, "cntr_cnt", attr.cntr_cnt);
    text.field(depth, "mr_iov_limit", attr.mr_iov_limit);
    text.list_field(depth, "caps", |text| flags::CAPS.write(text, attr.caps));
    text.list_field(depth, "mode", |text| flags::MODE.write(text, attr.mode));
    text.field(depth, "auth_key_size", attr.auth_key_size);
    text.field(depth, "max_err_data", attr.max_err_data);
    text.field(depth, "mr_cnt", attr.mr_cnt);
    text.field(depth, "tclass", format_args!("{:#x}", attr.tclass));
    text.field(depth, "max_ep_auth_key", attr.max_ep_auth_key);
    text.field(depth, "max_group_id", attr.max_group_id);
    text.field(depth, "max_cntr_value", attr.max_cntr_value);
    text.field(depth, "max_err_cntr_value", attr.max_err_cntr_value);
    if known.headers >= Headers::V27 {
        text.field(depth, "max_xpu_ctx_cnt", attr.max_xpu_ctx_cnt);
    }
}

/// # Safety
/// The strings in `attr` are NULL or end with a zero.
pub unsafe fn fabric_attr(text: &mut Text, depth: usize, attr: Option<&fi_fabric_attr>) {
    let Some(attr) = heading(text, depth, "fi_fabric_attr", attr) else {
        return;
    };
    let depth = depth + 1;
    // SAFETY: this function's caller promises it.
    text.c_field(depth, "name", unsafe { string(attr.name) });
    // SAFETY: this function's caller promises it.
    text.c_field(depth, "prov_name", unsafe { string(attr.prov_name) });
    version(text, depth, "prov_version", attr.prov_version);
    version(text, depth, "api_version", attr.api_version);
}

/// Returns the bytes of a C string; `None` for NULL.
///
/// # Safety
/// `string` is NULL or ends with a zero, and does not change while the result is in use.
pub unsafe fn string<'a>(string: *const c_char) -> Option<&'a [u8]> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not NULL, so this function's caller promises that it ends with a zero.
    Some(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// Writes the name of a struct above its fields. A missing struct gets one line.
fn heading<'a, T>(text: &mut Text, depth: usize, name: &str, attr: Option<&'a T>) -> Option<&'a T> {
    match attr {
        Some(_) => text.heading(depth, name),
        None => text.c_field(depth, name, None),
    }
    attr
}

fn context_count(text: &mut Text, depth: usize, name: &str, count: usize) {
    if count == FI_SHARED_CONTEXT {
        text.field(depth, name, "FI_SHARED_CONTEXT");
    } else {
        text.field(depth, name, count);
    }
}

/// Writes major and minor number, as FI_VERSION packs them.
fn version(text: &mut Text, depth: usize, name: &str, version: u32) {
    text.field(
        depth,
        name,
        format_args!("{}.{}", version >> 16, version & 0xffff),
    );
}
