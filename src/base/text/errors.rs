// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Texts of error numbers: fi_errno(3).
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

use abi::{FI_ERRNO_MAX, FI_ERRNO_OFFSET};
use sys::cformat;

/// Returns the description of an error number, with or without its minus sign.
pub fn strerror(errnum: c_int) -> *const c_char {
    let code = errnum.unsigned_abs() as c_int;
    if (0..FI_ERRNO_OFFSET).contains(&code) {
        return cformat::strerror(code);
    }
    let index = code.wrapping_sub(FI_ERRNO_OFFSET) as usize;
    FABRIC_ERRORS.get(index).unwrap_or(&UNKNOWN_ERROR).as_ptr()
}

/// As `strerror`, as an owned text.
pub fn error_words(errnum: c_int) -> String {
    let code = errnum.unsigned_abs() as c_int;
    if (0..FI_ERRNO_OFFSET).contains(&code) {
        return cformat::error_words(code);
    }
    let index = code.wrapping_sub(FI_ERRNO_OFFSET) as usize;
    let words = FABRIC_ERRORS.get(index).unwrap_or(&UNKNOWN_ERROR);
    words.to_string_lossy().into_owned()
}

/// The errors from FI_ERRNO_OFFSET on. Each text has its own wording and the name that manual pages use.
const FABRIC_ERRORS: [&CStr; (FI_ERRNO_MAX - FI_ERRNO_OFFSET) as usize] = [
    c"Other error (FI_EOTHER)",
    c"Buffer is too small (FI_ETOOSMALL)",
    c"Not possible in this state (FI_EOPBADSTATE)",
    c"An error entry waits to be read (FI_EAVAIL)",
    c"Unsupported flags (FI_EBADFLAGS)",
    c"Event queue missing or not usable (FI_ENOEQ)",
    c"Resource belongs to another or invalid domain (FI_EDOMAIN)",
    c"Completion queue missing or not usable (FI_ENOCQ)",
    c"Checksum (CRC) mismatch (FI_ECRC)",
    c"Message truncated (FI_ETRUNC)",
    c"Required key not available (FI_ENOKEY)",
    c"Address vector missing or not usable (FI_ENOAV)",
    c"Queue overrun (FI_EOVERRUN)",
    c"Receiver not ready: no receive buffer is posted (FI_ENORX)",
    c"Limit of memory registrations reached (FI_ENOMR)",
    c"Host cannot be reached through its firewall (FI_EFIREWALLADDR)",
];
const UNKNOWN_ERROR: &CStr = c"Unknown error";
