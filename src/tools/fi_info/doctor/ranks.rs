// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `--ranks`: compares what a job of a given size needs with what this host has: getrlimit(2), proc(5).

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use super::Finding;
use super::limits::{bytes, number};
use super::needs::{Job, Needs};

/// Limits of this host. `None`: unknown here.
#[derive(Clone, Debug, Default)]
struct Host {
    files: Option<(u64, u64)>,
    most_files: Option<u64>,
    host_files: Option<u64>,
    backlog: Option<u64>,
    half_open: Option<u64>,
    receive_buffer: Option<u64>,
    ports: Option<u64>,
    mappings: Option<u64>,
    processes: Option<u64>,
    threads: Option<u64>,
    memory: Option<u64>,
}

impl Host {
    fn read() -> Host {
        let files = getrlimit(Resource::RLIMIT_NOFILE).ok();
        let processes = getrlimit(Resource::RLIMIT_NPROC).ok();
        Host {
            files,
            most_files: sysctl("fs/nr_open"),
            host_files: sysctl("fs/file-max"),
            backlog: sysctl("net/core/somaxconn"),
            half_open: sysctl("net/ipv4/tcp_max_syn_backlog"),
            receive_buffer: sysctl("net/core/rmem_max"),
            ports: ports(),
            mappings: sysctl("vm/max_map_count"),
            processes: processes.map(|(soft, _)| soft),
            threads: sysctl("kernel/threads-max"),
            memory: available_memory(),
        }
    }
}

fn sysctl(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    text.trim().parse().ok()
}

fn ports() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    Some((last + 1).saturating_sub(first))
}

fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

pub fn findings(job: &Job) -> Vec<Finding> {
    judge(job, &Host::read())
}

/// The consequence of a limit that is too low.
enum Lack {
    /// The job does not run.
    Fatal,
    /// The job is slower.
    Slow,
}

/// Compares one need with its limit.
fn compare(
    need: u64,
    limit: Option<u64>,
    what: &str,
    lack: Lack,
    remedy: String,
) -> Option<Finding> {
    let limit = limit?;
    let text = format!("{what}: {} of {}", number(need), number(limit));
    Some(match (need <= limit, lack) {
        (true, _) => Finding::fine(ABOUT, text),
        (false, Lack::Slow) => Finding::note(ABOUT, text, remedy),
        (false, Lack::Fatal) => Finding::wrong(ABOUT, text, remedy),
    })
}

fn judge(job: &Job, host: &Host) -> Vec<Finding> {
    let needs = job.needs();
    let set = |name: &str, value: u64| format!("sysctl -w {name}={value}");
    let size = format!(
        "a job of {} ranks, {} on each host",
        job.ranks, job.per_host
    );
    let mut findings = vec![Finding::fine(ABOUT, size)];
    findings.extend(files(&needs, host));
    findings.extend(
        [
            compare(
                needs.host_files,
                host.host_files,
                "open files of the host, over tcp or ofi_rxm",
                Lack::Fatal,
                set("fs.file-max", needs.host_files),
            ),
            compare(
                needs.backlog,
                host.backlog,
                "connections that may wait to be accepted (somaxconn)",
                Lack::Slow,
                set("net.core.somaxconn", needs.backlog),
            ),
            compare(
                needs.backlog,
                host.half_open,
                "connections that may be half open (tcp_max_syn_backlog)",
                Lack::Slow,
                set("net.ipv4.tcp_max_syn_backlog", needs.backlog),
            ),
            compare(
                needs.receive_buffer,
                host.receive_buffer,
                "bytes of a receive buffer, for a datagram of each peer over ofi_rxd (rmem_max)",
                Lack::Slow,
                set("net.core.rmem_max", needs.receive_buffer),
            ),
            compare(
                needs.host_ports,
                host.ports,
                "ports of the host (ip_local_port_range)",
                Lack::Fatal,
                "sysctl -w net.ipv4.ip_local_port_range='16384 65535'".to_owned(),
            ),
            compare(
                needs.mappings,
                host.mappings,
                "mappings of a rank that shares memory with its neighbours (max_map_count)",
                Lack::Fatal,
                set("vm.max_map_count", needs.mappings),
            ),
            compare(
                needs.host_threads,
                host.processes,
                "threads of the user (ulimit -u)",
                Lack::Fatal,
                format!("ulimit -u {} before the job starts", needs.host_threads),
            ),
            compare(
                needs.host_threads,
                host.threads,
                "threads of the host (threads-max)",
                Lack::Fatal,
                set("kernel.threads-max", needs.host_threads),
            ),
        ]
        .into_iter()
        .flatten(),
    );
    findings.extend(memory(&needs, host));
    findings
}

fn files(needs: &Needs, host: &Host) -> Option<Finding> {
    let (soft, hard) = host.files?;
    let text = format!(
        "open files of a rank, over tcp or ofi_rxm: {} of {} (hard limit {})",
        needs.files,
        number(soft),
        number(hard)
    );
    let raise_kernel = match host.most_files.filter(|most| needs.files > *most) {
        Some(_) => format!("sysctl -w fs.nr_open={}, and ", needs.files),
        None => String::new(),
    };
    Some(if needs.files <= soft {
        Finding::fine(ABOUT, text)
    } else if needs.files <= hard {
        Finding::note(
            ABOUT,
            text,
            format!("ulimit -n {} before the job starts", needs.files),
        )
    } else {
        let remedy = format!(
            "{raise_kernel}a hard limit of {} (/etc/security/limits.conf, LimitNOFILE= of the service that starts \
             jobs); or FI_PROVIDER='udp;ofi_rxd', which needs one descriptor for all peers",
            needs.files
        );
        Finding::wrong(ABOUT, text, remedy)
    })
}

fn memory(needs: &Needs, host: &Host) -> Option<Finding> {
    let free = host.memory?;
    let over_tcp = needs.host_tcp + needs.host_shared;
    let text = format!(
        "memory of the host for idle peers: tcp {} and {} that neighbours share, ofi_rxm {}, ofi_rxd {}, of {}",
        bytes(needs.host_tcp),
        bytes(needs.host_shared),
        bytes(needs.host_rxm),
        bytes(needs.host_rxd),
        bytes(free)
    );
    let least = over_tcp.min(needs.host_rxd);
    Some(if over_tcp.max(needs.host_rxm) <= free {
        Finding::fine(ABOUT, text)
    } else if least <= free {
        Finding::note(
            ABOUT,
            text,
            "FI_PROVIDER names the provider that fits; or fewer ranks on a host",
        )
    } else {
        Finding::wrong(ABOUT, text, "fewer ranks on a host")
    })
}

const ABOUT: &str = "ranks";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;
    use nix::sys::resource::RLIM_INFINITY;

    fn ample() -> Host {
        let all = Some(1 << 40);
        Host {
            files: Some((1 << 40, RLIM_INFINITY)),
            most_files: all,
            host_files: all,
            backlog: all,
            half_open: all,
            receive_buffer: all,
            ports: all,
            mappings: all,
            processes: Some(RLIM_INFINITY),
            threads: all,
            memory: all,
        }
    }

    fn kinds(change: impl FnOnce(&mut Host)) -> (usize, usize) {
        let mut host = ample();
        change(&mut host);
        let job = Job {
            ranks: 10_000,
            per_host: 100,
        };
        let findings = judge(&job, &host);
        let count = |kind| findings.iter().filter(|found| found.kind == kind).count();
        (count(Kind::Note), count(Kind::Wrong))
    }

    #[test]
    fn each_limit_that_is_too_low_is_found() {
        assert_eq!(kinds(|_| ()), (0, 0));
        assert_eq!(kinds(|host| host.files = Some((1024, 20_000))), (1, 0));
        assert_eq!(kinds(|host| host.files = Some((1024, 4096))), (0, 1));
        assert_eq!(kinds(|host| host.host_files = Some(1 << 19)), (0, 1));
        assert_eq!(kinds(|host| host.backlog = Some(128)), (1, 0));
        assert_eq!(kinds(|host| host.half_open = Some(512)), (1, 0));
        assert_eq!(kinds(|host| host.receive_buffer = Some(212_992)), (1, 0));
        assert_eq!(kinds(|host| host.ports = Some(200)), (0, 1));
        assert_eq!(kinds(|host| host.mappings = Some(1000)), (0, 1));
        assert_eq!(kinds(|host| host.processes = Some(128)), (0, 1));
        assert_eq!(kinds(|host| host.threads = Some(128)), (0, 1));
        assert_eq!(kinds(|host| host.memory = Some(4 << 30)), (1, 0));
        assert_eq!(kinds(|host| host.memory = Some(1 << 30)), (0, 1));
        // A limit that cannot be read is not judged.
        assert_eq!(kinds(|host| *host = Host::default()), (0, 0));
    }
}
