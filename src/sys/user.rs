// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whose process this is: getauxval(3), user_namespaces(7).
//!
//! Trusted with: asking for a number of the auxiliary vector.

use std::fs;

/// The effective uid of this process.
pub fn effective_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether a uid that the kernel says is surely this process's own. It calls users that this user namespace does not
/// know by one uid: a process that has it too cannot tell them from itself.
pub fn is_ours(uid: u32) -> bool {
    uid == effective_uid()
        && (uid != overflow_uid() || knows_all_users(&read("/proc/self/uid_map")))
}

fn overflow_uid() -> u32 {
    // Its value where nobody has changed it, and where there is no /proc.
    const USUAL: u32 = 65534;
    let text = read("/proc/sys/kernel/overflowuid");
    text.trim().parse().unwrap_or(USUAL)
}

/// Whether each user has a uid of its own here, as in the first namespace. The text: first uid here, first uid outside,
/// how many, line by line.
fn knows_all_users(uid_map: &str) -> bool {
    let count = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    uid_map.lines().filter_map(count).sum::<u64>() >= u64::from(u32::MAX)
}

/// Nothing, where it cannot be read.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Whether the program has rights that who started it may not have, such as a set-user-ID one: what the environment
/// says was written by somebody else then.
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
