// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Texts that the library makes: fi_errno(3), and `fi_tostr_r` of fi_getinfo(3).

use core::ffi::{CStr, c_char, c_int, c_void};

use super::exported;
use abi::{FI_TYPE_INFO, FI_TYPE_VERSION, fi_type};
use client::{Info, string};

/// Returns the text for a number of fi_errno(3).
pub fn error(code: c_int) -> String {
    // SAFETY: fi_errno(3): any number is allowed, and the text is constant or valid until the next call of this thread.
    unsafe { string(exported::fi_strerror(code)) }.unwrap_or_default()
}

/// Returns the text for the value that `data` points to.
///
/// # Safety
/// `data` points to a value of type `kind`.
pub unsafe fn describe(data: *const c_void, kind: fi_type) -> String {
    let mut buffer = vec![0u8; LONGEST];
    // SAFETY: the buffer has the given length, and the caller promises `data`.
    let text = unsafe {
        exported::fi_tostr_r(
            buffer.as_mut_ptr().cast::<c_char>(),
            buffer.len(),
            data,
            kind,
        )
    };
    if text.is_null() {
        return String::new();
    }
    CStr::from_bytes_until_nul(&buffer)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns an entry as text.
pub fn info(info: Info<'_>) -> String {
    // SAFETY: this is a `fi_info`, and `Info` keeps it alive.
    unsafe { describe(info.as_ptr().cast(), FI_TYPE_INFO) }
}

/// Returns the text for an enumerator or a set of flags.
pub fn value<T: Number>(value: T, kind: fi_type) -> String {
    let value = value.wide();
    // SAFETY: a kind for numbers reads at most 64 bits, and all of them are there.
    unsafe { describe((&raw const value).cast(), kind) }
}

/// A number that C keeps in an `int`, an `enum` or a `uint64_t`.
pub trait Number {
    /// Extends the number with zeros, which on a little-endian machine is right for a reader of either width.
    fn wide(self) -> u64;
}

impl Number for u32 {
    fn wide(self) -> u64 {
        self.into()
    }
}

impl Number for u64 {
    fn wide(self) -> u64 {
        self
    }
}

const _: () = assert!(cfg!(target_endian = "little"));

/// Returns the version of the loaded library, such as "2.6.0".
pub fn library_version() -> String {
    // SAFETY: for a version the library reads a string, which this is; older releases do not read it at all.
    unsafe { describe(c"".as_ptr().cast(), FI_TYPE_VERSION) }
}

/// Returns the identity of the library if it is an ironfabric, and the file that it was loaded from.
pub fn library_identity() -> (Option<String>, Option<String>) {
    let process = libloading::os::unix::Library::this();
    // SAFETY: a symbol of this name is a terminated array of characters, which stays valid.
    let own = unsafe {
        let symbol = process.get::<*const c_char>(b"ironfabric_version\0");
        symbol.ok().and_then(|symbol| string(*symbol))
    };
    (own, file_with(exported::fi_strerror as *const () as usize))
}

/// Returns the file that is mapped at an address of this process: proc_pid_maps(5).
fn file_with(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let path = rest.find('/').map(|at| rest[at..].to_owned())?;
        (number(start)?..number(end)?)
            .contains(&address)
            .then_some(path)
    })
}

/// Room for the longest text of the library, a `fi_info` with all its parts.
const LONGEST: usize = 64 * 1024;
