// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The identity of this host, and of the namespaces of this process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the host name, empty if it cannot be read.
pub fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns a number of the running kernel that no other one has: random(4), boot_id.
pub fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|digit| (digit as char).to_digit(16).unwrap_or_default() as u8)
        .collect();
    let (pairs, _) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok()
}

/// Returns the device and the number of a file or folder, which two processes of a host see alike if it is the same.
pub fn place_of(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns the identity of the network namespace of this process: network_namespaces(7).
pub fn network_namespace() -> Option<(u64, u64)> {
    place_of(Path::new("/proc/self/ns/net"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_identity() {
        assert!(!name().is_empty());
        let boot = boot_id().unwrap();
        assert_ne!(boot, [0; 16]);
        assert_eq!(boot_id(), Some(boot));
        assert_eq!(network_namespace(), network_namespace());
        assert_ne!(network_namespace(), place_of(Path::new("/")));
        assert_eq!(place_of(Path::new("/no/such/folder")), None);
    }
}
