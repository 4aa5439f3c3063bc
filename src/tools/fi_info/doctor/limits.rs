// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks limits of the system for this process: getrlimit(2), listen(2), room in /dev/shm.

use std::fs;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use super::needs::{FILES_OF_A_NEIGHBOUR, OWN_FILES};
use super::{Finding, Heard};

pub fn findings(heard: &Heard) -> Vec<Finding> {
    let limit = |resource| getrlimit(resource).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    let peers = peers_to_expect(heard);
    let mut findings = vec![
        open_files(limit(Resource::RLIMIT_NOFILE), peers),
        file_size(limit(Resource::RLIMIT_FSIZE).0),
        locked_memory(limit(Resource::RLIMIT_MEMLOCK).0, has_plug_in(heard)),
    ];
    let backlog = fs::read_to_string("/proc/sys/net/core/somaxconn");
    findings.extend(
        backlog
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .map(|n| waiting(n, peers)),
    );
    match statvfs(SHARED) {
        Ok(room) => findings.push(shared_folder(room.blocks_available() * room.fragment_size())),
        Err(error) => findings.push(Finding::note(
            ABOUT,
            format!("{SHARED} is not there: {error}"),
            "this library does without; an MPI's own shared memory may not: mount -t tmpfs none /dev/shm",
        )),
    }
    findings
}

/// Returns the number of peers that the library expects, FI_UNIVERSE_SIZE.
fn peers_to_expect(heard: &Heard) -> u64 {
    let param = heard
        .params
        .iter()
        .find(|param| param.name == "FI_UNIVERSE_SIZE");
    let set = param.and_then(|param| param.value.as_ref()?.parse().ok());
    set.filter(|peers| *peers > 0).unwrap_or(UNIVERSE)
}

fn has_plug_in(heard: &Heard) -> bool {
    let mut lines = heard.lines.iter();
    lines.any(|line| line.text.starts_with("registering provider "))
}

fn open_files((soft, hard): (u64, u64), peers: u64) -> Finding {
    let far = soft.saturating_sub(OWN_FILES);
    let room = match soft {
        RLIM_INFINITY => "any number of ranks".to_owned(),
        _ => format!(
            "room for a job of {far} ranks on other hosts, or {} on this one",
            far / FILES_OF_A_NEIGHBOUR
        ),
    };
    let (soft_text, hard_text) = (number(soft), number(hard));
    let text = format!("open files: {soft_text} (hard limit {hard_text}), {room}");
    if far >= peers {
        return Finding::fine(ABOUT, text);
    }
    let wanted = peers + OWN_FILES;
    let remedy = match wanted <= hard {
        true => format!(
            "ulimit -n {} before the job starts, for {peers} ranks",
            wanted.next_power_of_two().min(hard)
        ),
        false => format!(
            "raise the hard limit to {wanted} or more for {peers} ranks (/etc/security/limits.conf, LimitNOFILE= of \
             the service that starts jobs)"
        ),
    };
    // A job may well have fewer ranks than the default number.
    match far < SMALL_JOB {
        true => Finding::wrong(ABOUT, text, remedy),
        false => Finding::note(ABOUT, text, remedy),
    }
}

fn file_size(limit: u64) -> Finding {
    let text = format!("size of a file: {}", bytes(limit));
    match limit < SHARED_FILE {
        true => Finding::wrong(
            ABOUT,
            format!(
                "{text}; memory that is shared with a peer counts as a file, and may be {} long",
                bytes(SHARED_FILE)
            ),
            "ulimit -f unlimited before the job starts",
        ),
        false => Finding::fine(ABOUT, text),
    }
}

fn locked_memory(limit: u64, has_plug_in: bool) -> Finding {
    let text = format!("locked memory: {}", bytes(limit));
    match has_plug_in && limit != RLIM_INFINITY {
        true => Finding::note(
            ABOUT,
            format!("{text}; tcp, udp and shm lock none, a plug-in for network hardware may"),
            "ulimit -l unlimited, if registering memory fails there",
        ),
        false => Finding::fine(ABOUT, text),
    }
}

fn waiting(backlog: u64, peers: u64) -> Finding {
    let text = format!("connections that may wait to be accepted (somaxconn): {backlog}");
    match backlog < peers.min(UNIVERSE) {
        true => Finding::note(
            ABOUT,
            format!(
                "{text}; when more ranks connect at a time, the rest tries again after a second"
            ),
            format!("sysctl -w net.core.somaxconn={}", UNIVERSE.max(1024)),
        ),
        false => Finding::fine(ABOUT, text),
    }
}

fn shared_folder(room: u64) -> Finding {
    let text = format!("room in {SHARED}: {}", bytes(room));
    match room < ROOM {
        true => Finding::note(
            ABOUT,
            format!(
                "{text}; this library needs none, an MPI's own shared memory may end with a bus error"
            ),
            format!("mount -o remount,size=1g {SHARED}; of a container, docker run --shm-size=1g"),
        ),
        false => Finding::fine(ABOUT, text),
    }
}

pub fn number(limit: u64) -> String {
    match limit {
        RLIM_INFINITY => "unlimited".to_owned(),
        limit => limit.to_string(),
    }
}

pub fn bytes(count: u64) -> String {
    match count {
        RLIM_INFINITY => "unlimited".to_owned(),
        0..KIB => format!("{count} bytes"),
        KIB..MIB => format!("{} KiB", count / KIB),
        MIB..GIB => format!("{} MiB", count / MIB),
        _ => format!("{} GiB", count / GIB),
    }
}

const ABOUT: &str = "limits";
const SHARED: &str = "/dev/shm";
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The default of FI_UNIVERSE_SIZE.
const UNIVERSE: u64 = 256;
/// Number of ranks of a job that should run on every host.
const SMALL_JOB: u64 = 64;
/// Memory of a connection with the default ring; 4 MiB are too little, 6 are enough.
const SHARED_FILE: u64 = 8 * MIB;
/// The default size of /dev/shm in a Docker container, which is too small.
const ROOM: u64 = 64 * MIB + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    #[test]
    fn open_files_are_counted_in_ranks() {
        let found = open_files((1024, 4096), 256);
        assert_eq!(found.kind, Kind::Fine);
        assert_eq!(
            found.text,
            "open files: 1024 (hard limit 4096), room for a job of 992 ranks on other hosts, or 496 on this one"
        );
        assert_eq!(open_files((256, 4096), 256).kind, Kind::Note);
        assert_eq!(open_files((64, 4096), 256).kind, Kind::Wrong);
        assert_eq!(open_files((1024, 4096), 2000).kind, Kind::Note);
        assert_eq!(
            open_files((RLIM_INFINITY, RLIM_INFINITY), 1 << 20).kind,
            Kind::Fine
        );
    }

    #[test]
    fn the_other_limits_have_their_bounds() {
        assert_eq!(file_size(RLIM_INFINITY).kind, Kind::Fine);
        assert_eq!(file_size(4 * MIB).kind, Kind::Wrong);
        assert_eq!(locked_memory(MIB, false).kind, Kind::Fine);
        assert_eq!(locked_memory(MIB, true).kind, Kind::Note);
        assert_eq!(waiting(128, 256).kind, Kind::Note);
        assert_eq!(waiting(4096, 100_000).kind, Kind::Fine);
        assert_eq!(shared_folder(64 * MIB).kind, Kind::Note);
        assert_eq!(shared_folder(GIB).kind, Kind::Fine);
        assert_eq!(
            [bytes(5), bytes(8 * KIB), bytes(3 * GIB)],
            ["5 bytes", "8 KiB", "3 GiB"]
        );
    }
}
