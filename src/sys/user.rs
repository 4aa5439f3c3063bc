// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whose process this is: getauxval(3), user_namespaces(7).
//!
//! Trusted with: asking for a number of the auxiliary vector.

/// Whether the program has rights that who started it may not have, such as a set-user-ID one: what the environment says was
/// written by somebody else then.
pub fn is_elevated() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
