// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Texts of error numbers: fi_errno(3).
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

use crate::abi::{FI_ERRNO_MAX, FI_ERRNO_OFFSET};
use crate::sys::cformat;

/// What an error number means, whether it has its minus sign or not.
pub fn strerror(errnum: c_int) -> *const c_char {
    let code = errnum.unsigned_abs() as c_int;
    if (0..FI_ERRNO_OFFSET).contains(&code) {
        return cformat::strerror(code);
    }
    let index = code.wrapping_sub(FI_ERRNO_OFFSET) as usize;
    FABRIC_ERRORS.get(index).unwrap_or(&UNKNOWN_ERROR).as_ptr()
}

/// From FI_ERRNO_OFFSET on.
const FABRIC_ERRORS: [&CStr; (FI_ERRNO_MAX - FI_ERRNO_OFFSET) as usize] = [
    c"Other error",
    c"Buffer is too small",
    c"Not possible in this state",
    c"An error entry waits to be read",
    c"Unsupported flags",
    c"Event queue missing or not usable",
    c"Resource belongs to another or invalid domain",
    c"Completion queue missing or not usable",
    c"Checksum (CRC) mismatch",
    c"Message truncated",
    c"Required key not available",
    c"Address vector missing or not usable",
    c"Queue overrun",
    c"Receiver not ready: no receive buffer is posted",
    c"Limit of memory registrations reached",
    c"Host cannot be reached through its firewall",
];
const UNKNOWN_ERROR: &CStr = c"Unknown error";
