// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The attribute structs as `fi_tostr` prints them: fi_fabric(3), fi_domain(3), fi_endpoint(3).
//!
//! Trusted with: following the strings in structs from C callers, which are NULL or end with a zero.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::Display;

use super::flags::{CAPS, Headers, MODE, MR_MODE, MSG_ORDER, OP_FLAGS};
use super::names::{AV_TYPE, EP_TYPE, PROGRESS, PROTOCOL, RESOURCE_MGMT, THREADING};
use super::writer::{Pointer, Text};
use crate::info::fields::each_attr;
use abi::*;

macro_rules! texts {
    ($($name:ident of $raw:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = [$($place:tt)+] $(with $len:ident)?,
            $show:ident $how:tt $label:literal $(since $since:ident)?;)*
    })*) => { $(
        /// Writes the struct under a heading. Fields that the caller's headers lack are left out.
        ///
        /// # Safety
        /// The strings in the struct are NULL or end with a zero.
        #[allow(unused_unsafe, reason = "some of the structs have neither strings nor unions")]
        pub unsafe fn $raw(text: &mut Text, depth: usize, attr: Option<&abi::$raw>, headers: Headers) {
            let Some(attr) = heading(text, depth, stringify!($raw), attr) else {
                return;
            };
            let at = depth + 1;
            // SAFETY: promised by the caller; the members of unions are integers of one type.
            unsafe { $(
                if headers >= since!($($since)?) {
                    show::$show(text, at, $label, attr.$($place)+, show!($how));
                }
            )* }
        }
    )* };
}

/// The table of names or flags of a row; nothing for a row without one.
macro_rules! show {
    (()) => {
        ()
    };
    (($table:ident)) => {
        &$table
    };
}

/// The oldest headers that have a field.
macro_rules! since {
    () => {
        Headers::Before27
    };
    ($since:ident) => {
        Headers::$since
    };
}

each_attr!(texts);

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

/// The forms in which fields are printed.
mod show {
    use super::super::flags::Flags;
    use super::super::names::Names;
    use super::*;

    pub fn hidden<T>(_text: &mut Text, _at: usize, _label: &str, _value: T, (): ()) {}

    pub fn number(text: &mut Text, at: usize, label: &str, value: impl Display, (): ()) {
        text.field(at, label, value);
    }

    pub fn signed(text: &mut Text, at: usize, label: &str, value: u32, (): ()) {
        text.field(at, label, value as i32);
    }

    pub fn hex(text: &mut Text, at: usize, label: &str, value: u32, (): ()) {
        text.field(at, label, format_args!("{value:#x}"));
    }

    pub fn long_hex(text: &mut Text, at: usize, label: &str, value: u64, (): ()) {
        text.field(at, label, format_args!("{value:#018x}"));
    }

    pub fn contexts(text: &mut Text, at: usize, label: &str, value: usize, (): ()) {
        match value == FI_SHARED_CONTEXT {
            true => text.field(at, label, "FI_SHARED_CONTEXT"),
            false => text.field(at, label, value),
        }
    }

    /// Major and minor number, as FI_VERSION packs them.
    pub fn version(text: &mut Text, at: usize, label: &str, value: u32, (): ()) {
        let (major, minor) = (value >> 16, value & 0xffff);
        text.field(at, label, format_args!("{major}.{minor}"));
    }

    pub fn pointer<T>(text: &mut Text, at: usize, label: &str, value: *mut T, (): ()) {
        text.field(at, label, Pointer::new(value));
    }

    /// # Safety
    /// The string is NULL or ends with a zero.
    pub unsafe fn string(text: &mut Text, at: usize, label: &str, value: *mut c_char, (): ()) {
        // SAFETY: promised by the caller.
        text.c_field(at, label, unsafe { super::string(value) });
    }

    pub fn named(text: &mut Text, at: usize, label: &str, value: u32, names: &Names) {
        text.field(at, label, names.of(value));
    }

    pub fn flags<T: Bits>(text: &mut Text, at: usize, label: &str, value: T, flags: &Flags) {
        text.list_field(at, label, |text| flags.write(text, value.bits()));
    }

    /// The bits of a set of flags.
    pub trait Bits {
        fn bits(self) -> u64;
    }

    impl Bits for u64 {
        fn bits(self) -> u64 {
            self
        }
    }

    impl Bits for c_int {
        fn bits(self) -> u64 {
            u64::from(self as u32)
        }
    }
}
