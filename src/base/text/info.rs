// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_info` and objects as `fi_tostr` prints them: fi_getinfo(3), fi_nic(3).
//!
//! Trusted with: following the pointers in an `fi_info`, and calling an object's own `tostr`.

use core::ffi::{c_char, c_void};
use core::mem::offset_of;
use core::slice;

use super::address::straddr;
use super::attr;
use super::flags;
use super::known;
use super::names::ADDR_FORMAT;
use super::writer::{Pointer, Text};
use crate::info::LONGEST;
use abi::*;

/// # Safety
/// Each pointer in `info` is NULL or valid as in fi_getinfo(3); addresses have the size that is given beside them.
pub unsafe fn info(text: &mut Text, info: &fi_info) {
    text.heading(0, "fi_info");
    text.list_field(1, "caps", |text| flags::CAPS.write(text, info.caps));
    text.list_field(1, "mode", |text| flags::MODE.write(text, info.mode));
    text.field(1, "addr_format", ADDR_FORMAT.of(info.addr_format));
    text.field(1, "src_addrlen", info.src_addrlen);
    text.field(1, "dest_addrlen", info.dest_addrlen);
    // SAFETY: this function's caller promises it for everything that `info` points to.
    unsafe {
        endpoint(
            text,
            "src_addr",
            info.addr_format,
            info.src_addr,
            info.src_addrlen,
        );
        endpoint(
            text,
            "dest_addr",
            info.addr_format,
            info.dest_addr,
            info.dest_addrlen,
        );
        // Only the address of the handle: an endpoint made from a connection request consumes the handle, and programs
        // print the info after that.
        text.field(1, "handle", Pointer::new(info.handle));
        let headers = flags::CAPS.headers(info.caps);
        attr::fi_tx_attr(text, 1, info.tx_attr.as_ref(), headers);
        attr::fi_rx_attr(text, 1, info.rx_attr.as_ref(), headers);
        let ep = known::ep(info.ep_attr, headers);
        attr::fi_ep_attr(text, 1, ep.attr.as_ref(), ep.headers);
        let domain = known::domain(info.domain_attr, headers);
        attr::fi_domain_attr(text, 1, domain.attr.as_ref(), domain.headers);
        attr::fi_fabric_attr(text, 1, info.fabric_attr.as_ref(), headers);
        object(text, 1, "nic", info.nic.cast());
    }
}

/// Writes the text of an object with its own `tostr`; for objects without one, writes the address.
///
/// # Safety
/// `object` is NULL or an open object, whose table has the size given in it.
pub unsafe fn object(text: &mut Text, depth: usize, name: &str, object: *const fid) {
    // SAFETY: this function's caller promises it.
    if unsafe { own_text(text, object) }.is_none() {
        text.field(depth, name, Pointer::new(object));
    }
}

/// # Safety
/// As for `object`.
unsafe fn own_text(text: &mut Text, object: *const fid) -> Option<()> {
    // SAFETY: `object` promises that the pointer is NULL or an open object.
    let ops = unsafe { object.as_ref()?.ops };
    if ops.is_null() {
        return None;
    }
    // SAFETY: every table begins with its size. Tables of older programs end before `tostr`.
    if unsafe { (*ops).size } <= offset_of!(fi_ops, tostr) {
        return None;
    }
    // SAFETY: the table is large enough to have the slot.
    let tostr = unsafe { (*ops).tostr }?;
    // A separate empty buffer, because some objects append to the text in the buffer and others overwrite it.
    let mut buffer = vec![0u8; text.room()];
    if buffer.is_empty() {
        return Some(());
    }
    // SAFETY: the object is open; the buffer has the given size and begins with an empty string.
    unsafe { tostr(object, buffer.as_mut_ptr().cast::<c_char>(), buffer.len()) };
    let end = buffer.iter().position(|byte| *byte == 0);
    text.push(&buffer[..end.unwrap_or(buffer.len())]);
    Some(())
}

/// # Safety
/// `address` is NULL or `len` bytes long; texts (FI_ADDR_STR) end with a zero.
unsafe fn endpoint(text: &mut Text, name: &str, format: u32, address: *const c_void, len: usize) {
    if address.is_null() {
        return text.c_field(1, name, None);
    }
    // No valid address is longer, so a larger length means that the field was not set.
    let len = if len > LONGEST { 0 } else { len };
    // SAFETY: this function's caller promises it.
    let bytes = unsafe { slice::from_raw_parts(address.cast::<u8>(), len) };
    text.c_field(1, name, Some(&straddr(format, bytes, address.addr())));
}
