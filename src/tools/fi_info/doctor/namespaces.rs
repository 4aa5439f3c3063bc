// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks user, network and PID namespaces: whether this process has its own ones, and what that means for memory
//! shared with processes outside.

use std::fs;
use std::path::Path;

use super::Finding;

pub fn findings() -> Vec<Finding> {
    let inode = |name| {
        let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
        number(link.to_str()?)
    };
    let mut findings = Vec::new();
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let user = nix::unistd::geteuid().as_raw();
    findings.extend(user_namespace(inode("user"), &users, user));
    // Only the host's own network namespace has certain settings.
    let own_network =
        Path::new("/proc/sys/net/core/somaxconn").exists() && !Path::new(HOST_ONLY).exists();
    findings.extend(own_network.then(network_namespace));
    findings.extend(pid_namespace(inode("pid")));
    if findings.is_empty() {
        findings.push(Finding::fine(
            ABOUT,
            "user, network and PID namespace are the host's",
        ));
    }
    findings
}

fn user_namespace(inode: Option<u64>, map: &str, user: u32) -> Vec<Finding> {
    if inode.is_none_or(|inode| inode == HOST_USER) {
        return Vec::new();
    }
    if !covers(map, user) {
        return vec![Finding::wrong(
            ABOUT,
            format!(
                "a user namespace of its own, without a map for its user ({user}): shared memory is refused"
            ),
            "map the user: unshare --map-root-user, or --userns=keep-id of podman; tcp goes over TCP until then",
        )];
    }
    vec![Finding::note(
        ABOUT,
        "a user namespace of its own: with processes outside of it there may be no shared memory, and the kernel copies \
         nothing between them (CMA)",
        "start all ranks of a host in one user namespace; tcp works without, over TCP",
    )]
}

/// Reads a map of user_namespaces(7), whose lines are first number inside, first number outside, count.
fn covers(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|text| text.parse::<u64>());
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => (first..first + count).contains(&user.into()),
            _ => false,
        }
    })
}

fn network_namespace() -> Finding {
    Finding::note(
        ABOUT,
        "a network namespace of its own: shm finds no process outside of it, and tcp goes there over TCP",
        "nothing, if all ranks of a host are in it; else FI_SHM_FOLDER names a folder that they share, or let them have \
         the host's network",
    )
}

fn pid_namespace(inode: Option<u64>) -> Option<Finding> {
    inode.filter(|inode| *inode != HOST_PID).map(|_| {
        Finding::fine(
            ABOUT,
            "a PID namespace of its own, which is in nobody's way",
        )
    })
}

/// `user:[4026531837]`
fn number(link: &str) -> Option<u64> {
    let (_, number) = link.strip_suffix(']')?.split_once('[')?;
    number.parse().ok()
}

const ABOUT: &str = "namespaces";

/// Numbers of the first namespaces, fixed by the kernel: include/uapi/linux/nsfs.h.
const HOST_USER: u64 = 0xEFFF_FFFD;
const HOST_PID: u64 = 0xEFFF_FFFC;

/// A setting that only the first network namespace has.
const HOST_ONLY: &str = "/proc/sys/net/core/netdev_max_backlog";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    #[test]
    fn the_host_s_user_namespace_is_no_finding() {
        assert!(user_namespace(Some(HOST_USER), "0 0 4294967295\n", 0).is_empty());
        assert!(user_namespace(None, "", 0).is_empty());
    }

    #[test]
    fn a_user_without_a_map_is_wrong() {
        let found = user_namespace(Some(1), "", 65534);
        assert_eq!(found[0].kind, Kind::Wrong);
        let found = user_namespace(Some(1), "         0       1000          1\n", 0);
        assert_eq!(found[0].kind, Kind::Note);
        assert!(covers("0 1000 1\n1 100000 65536\n", 70));
        assert!(!covers("0 1000 1\n", 1));
        assert!(!covers("x y z\n1\n", 1));
    }

    #[test]
    fn links_have_numbers() {
        assert_eq!(number("user:[4026531837]"), Some(HOST_USER));
        assert_eq!(number("user:"), None);
    }
}
