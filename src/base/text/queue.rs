// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Queues, counters, address vectors and regions as `fi_tostr` prints them: fi_cq(3), fi_cntr(3), fi_av(3), fi_mr(3).
//!
//! Trusted with: following the name in an `fi_av_attr` from a C caller, which is NULL or ends with a zero.

use super::attr::string;
use super::flags::{self, Headers};
use super::known::Known;
use super::names::{AV_TYPE, CNTR_EVENTS, CQ_FORMAT, CQ_WAIT_COND, HMEM_IFACE, WAIT_OBJ};
use super::writer::{Pointer, Text};
use abi::*;

/// # Safety
/// `attr.name` is NULL or ends with a zero.
pub unsafe fn av_attr(text: &mut Text, attr: &fi_av_attr) {
    text.heading(0, "fi_av_attr");
    text.field(1, "type", AV_TYPE.of(attr.r#type.0));
    text.field(1, "count", attr.count);
    text.field(1, "ep_per_node", attr.ep_per_node);
    // SAFETY: this function's caller promises it.
    text.c_field(1, "name", unsafe { string(attr.name) });
    text.list_field(1, "flags", |text| flags::AV_FLAGS.write(text, attr.flags));
}

pub fn cq_attr(text: &mut Text, known: &Known<fi_cq_attr>) {
    let Some(attr) = &known.attr else {
        return;
    };
    text.heading(0, "fi_cq_attr");
    text.field(1, "size", attr.size);
    text.list_field(1, "flags", |text| flags::CQ_FLAGS.write(text, attr.flags));
    text.field(1, "format", CQ_FORMAT.of(attr.format.0));
    text.field(1, "wait_obj", WAIT_OBJ.of(attr.wait_obj.0));
    text.field(1, "signaling_vector", attr.signaling_vector);
    text.field(1, "wait_cond", CQ_WAIT_COND.of(attr.wait_cond.0));
    if known.headers >= Headers::V27 {
        text.field(1, "xpu_ctx", Pointer::new(attr.xpu_ctx));
    }
}

pub fn cntr_attr(text: &mut Text, known: &Known<fi_cntr_attr>) {
    let Some(attr) = &known.attr else {
        return;
    };
    text.heading(0, "fi_cntr_attr");
    text.field(1, "events", CNTR_EVENTS.of(attr.events.0));
    text.field(1, "wait_obj", WAIT_OBJ.of(attr.wait_obj.0));
    text.field(1, "flags", format_args!("{:#x}", attr.flags));
    if known.headers >= Headers::V27 {
        text.field(1, "xpu_ctx", Pointer::new(attr.xpu_ctx));
    }
}

pub fn cq_err_entry(text: &mut Text, entry: &fi_cq_err_entry) {
    text.heading(0, "fi_cq_err_entry");
    text.field(1, "op_context", Pointer::new(entry.op_context));
    text.field(1, "flags", format_args!("{:#x}", entry.flags));
    text.field(1, "len", entry.len);
    text.field(1, "buf", Pointer::new(entry.buf));
    text.field(1, "data", entry.data);
    text.field(1, "tag", format_args!("{:#x}", entry.tag));
    text.field(1, "olen", entry.olen);
    text.field(1, "err", entry.err);
    // Not `entry.prov_errno`: the original prints the error twice, and programs compare these texts.
    text.field(1, "prov_errno", entry.err);
    text.field(1, "err_data", Pointer::new(entry.err_data));
    text.field(1, "err_data_size", entry.err_data_size);
}

pub fn mr_attr(text: &mut Text, attr: &fi_mr_attr) {
    text.heading(0, "fi_mr_attr");
    // SAFETY: both members of the union are pointers, of which only the number is printed.
    text.field(1, "mr_iov", Pointer::new(unsafe { attr.anonymous.mr_iov }));
    text.field(1, "iov_count", attr.iov_count);
    text.list_field(1, "access", |text| flags::ACCESS.write(text, attr.access));
    text.field(1, "offset", format_args!("{:#x}", attr.offset));
    text.field(
        1,
        "requested_key",
        format_args!("{:#x}", attr.requested_key),
    );
    text.field(1, "context", Pointer::new(attr.context));
    text.field(1, "auth_key_size", attr.auth_key_size);
    text.field(1, "iface", HMEM_IFACE.of(attr.iface.0));
}
