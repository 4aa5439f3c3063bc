// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The user of this process: getauxval(3), user_namespaces(7).
//!
//! Trusted with: reading a number of the auxiliary vector.

use std::fs;
use std::sync::OnceLock;

/// Returns the effective uid of this process.
pub fn effective_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Returns true if a uid from the kernel is certainly the user of this process. The kernel reports all users without a
/// uid in this user namespace as one uid; a process with that uid cannot distinguish them from its own user.
pub fn is_ours(uid: u32) -> bool {
    uid == effective_uid()
        && (uid != overflow_uid() || knows_all_users(&read("/proc/self/uid_map")))
}

/// Returns the uid that stands for users without one in this namespace. It is read once, because each connection asks.
fn overflow_uid() -> u32 {
    // The kernel's default, also for systems without /proc.
    const USUAL: u32 = 65534;
    static UID: OnceLock<u32> = OnceLock::new();
    *UID.get_or_init(|| {
        let text = read("/proc/sys/kernel/overflowuid");
        text.trim().parse().unwrap_or(USUAL)
    })
}

/// Returns true if each user has a uid of its own in this namespace, as in the first one. Each line of the text has the
/// first uid inside, the first uid outside, and their number.
fn knows_all_users(uid_map: &str) -> bool {
    let count = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    uid_map.lines().filter_map(count).sum::<u64>() >= u64::from(u32::MAX)
}

/// Returns the file's text, or an empty text if it cannot be read.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns true if the program has rights that its caller may lack, such as a set-user-ID program. It must not trust
/// the environment then.
pub fn is_elevated() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_knows_all_users_or_some() {
        assert!(knows_all_users("         0          0 4294967295\n"));
        assert!(knows_all_users("0 0 65534\n65534 65534 4294901761\n"));
        for map in [
            "",
            "0 1000 1\n",
            "0 1000 1\n1 100000 65536\n",
            "nonsense",
            "0 0 x",
        ] {
            assert!(!knows_all_users(map), "{map:?}");
        }
    }

    #[test]
    fn this_user_is_ours_and_others_are_not() {
        let own = effective_uid();
        assert!(!is_ours(own.wrapping_add(1)));
        if own != overflow_uid() {
            assert!(is_ours(own));
        }
    }
}
