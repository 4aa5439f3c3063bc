// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks RDMA devices: what the library logs when it is asked for entries of verbs, and what /sys says about devices.

use std::fs::{self, File};
use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::limits::bytes;
use super::{Finding, Heard};
use calls::log::Line;

pub fn findings(heard: &Heard) -> Vec<Finding> {
    let devices = Devices::of(Path::new("/sys/class/infiniband"));
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(RLIM_INFINITY, |(soft, _)| soft);
    judge(&heard.verbs, &devices, limit)
}

/// The devices that the kernel has, with the states of their ports, and device files that cannot be opened.
#[derive(Default)]
struct Devices {
    names: Vec<String>,
    /// Device, number of the port, state.
    ports: Vec<(String, String, String)>,
    /// Ethernet ports without an IPv4 address among their identifiers.
    without_ip: Vec<String>,
    closed: Vec<String>,
}

impl Devices {
    fn of(folder: &Path) -> Devices {
        let mut devices = Devices {
            names: names(folder),
            ..Devices::default()
        };
        for name in devices.names.clone() {
            for port in names(&folder.join(&name).join("ports")) {
                let of_port = folder.join(&name).join("ports").join(&port);
                let read = |file: &str| fs::read_to_string(of_port.join(file)).unwrap_or_default();
                // "4: ACTIVE"
                let state = read("state");
                let state = state.split_once(':').map_or("", |(_, word)| word.trim());
                if read("link_layer").trim() == "Ethernet" && !has_ipv4(&of_port.join("gids")) {
                    devices.without_ip.push(format!("{name} port {port}"));
                }
                devices.ports.push((name.clone(), port, state.to_owned()));
            }
        }
        if !devices.names.is_empty() {
            let files = Path::new("/dev/infiniband");
            let used = |name: &String| name.starts_with("uverbs") || name == "rdma_cm";
            for name in names(files).iter().filter(|name| used(name)) {
                let file = files.join(name);
                if let Err(error) = File::options().read(true).write(true).open(&file) {
                    devices.closed.push(format!("{}: {error}", file.display()));
                }
            }
        }
        devices
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whether a table of identifiers has an IPv4 address. Only few of its places are in use.
fn has_ipv4(gids: &Path) -> bool {
    names(gids).iter().any(|index| {
        let gid = fs::read_to_string(gids.join(index)).unwrap_or_default();
        gid.starts_with("0000:0000:0000:0000:0000:ffff:")
    })
}

fn judge(lines: &[Line], devices: &Devices, locked: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in lines.iter().filter(|line| line.provider == "verbs") {
        if let Some(reason) = line.text.strip_prefix("no RDMA devices: ") {
            findings.push(none(reason, devices));
        } else if line.text.starts_with("device ") && line.text.contains("is not offered: ") {
            findings.push(Finding::note(
                ABOUT,
                line.text.clone(),
                remedy_of(&line.text),
            ));
        }
    }
    let there = devices.names.join(", ");
    if findings.is_empty() {
        findings.push(match devices.names.is_empty() {
            true => Finding::fine(ABOUT, "this host has no RDMA device"),
            false => Finding::fine(ABOUT, format!("RDMA devices: {there}")),
        });
    }
    if devices.names.is_empty() {
        findings.dedup();
        return findings;
    }
    for file in &devices.closed {
        findings.push(Finding::note(
            ABOUT,
            format!("no access to {file}"),
            "let the user read and write the files of /dev/infiniband (udev rules of rdma-core give all users access; of \
             a container, docker run --device=/dev/infiniband)",
        ));
    }
    for (name, port, state) in &devices.ports {
        if state != "ACTIVE" {
            findings.push(Finding::note(
                ABOUT,
                format!("{name} port {port} is {state}"),
                remedy_of("no port is active"),
            ));
        }
    }
    for port in &devices.without_ip {
        findings.push(Finding::note(
            ABOUT,
            format!("{port} has no identifier with an IPv4 address"),
            "give its network interface an address (ip address add): over Ethernet, verbs names peers by IP addresses",
        ));
    }
    findings.push(locked_memory(locked));
    findings.dedup();
    findings
}

fn none(reason: &str, devices: &Devices) -> Finding {
    let text = format!("no RDMA devices: {reason}");
    match devices.names.is_empty() {
        true => Finding::fine(ABOUT, text),
        false => Finding::note(
            ABOUT,
            format!("{text}; the kernel has {}", devices.names.join(", ")),
            remedy_of(reason),
        ),
    }
}

fn remedy_of(reason: &str) -> &'static str {
    let has = |part: &str| reason.contains(part);
    if has("libibverbs") || has("librdmacm") {
        "install rdma-core: libibverbs1, librdmacm1 and ibverbs-providers in Debian; libibverbs and librdmacm elsewhere"
    } else if has("permission") {
        "let the user read and write the files of /dev/infiniband"
    } else if has("no port is active") {
        "ip link set up for the network interface of an Ethernet port; check the cable, and the subnet manager of \
         InfiniBand (rdma link shows the states)"
    } else if has("memory") {
        "ulimit -l unlimited, because adapters lock the memory that they use"
    } else if has("address") {
        "give the network interface of the device an IP address (ip address add; of InfiniBand, IPoIB)"
    } else {
        "FI_PROVIDER=verbs fi_info --why with FI_LOG_LEVEL=info shows more"
    }
}

fn locked_memory(limit: u64) -> Finding {
    let text = format!(
        "adapters lock registered memory, of which the limit is {}",
        bytes(limit)
    );
    match limit < LOCKED {
        true => Finding::note(
            ABOUT,
            text,
            "ulimit -l unlimited before the job starts (/etc/security/limits.conf memlock, LimitMEMLOCK= of the service \
             that starts jobs)",
        ),
        false => Finding::fine(ABOUT, text),
    }
}

const ABOUT: &str = "verbs";
/// Too little for the buffers of some endpoints of ofi_rxm; the default of most systems is 8 MiB.
const LOCKED: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    fn line(text: &str) -> Line {
        Line {
            provider: "verbs".into(),
            level: abi::FI_LOG_INFO,
            text: text.into(),
        }
    }

    fn one_device(state: &str) -> Devices {
        Devices {
            names: vec!["mlx5_0".into()],
            ports: vec![("mlx5_0".into(), "1".into(), state.into())],
            ..Devices::default()
        }
    }

    #[test]
    fn a_host_without_devices_is_fine() {
        for lines in [
            vec![],
            vec![line("no RDMA devices: libibverbs.so.1: not found")],
        ] {
            let found = judge(&lines, &Devices::default(), 0);
            assert!(found.len() == 1 && found[0].kind == Kind::Fine, "{found:?}");
        }
    }

    #[test]
    fn each_cause_has_a_remedy() {
        let kinds = |lines: &[Line], devices: &Devices, locked: u64| {
            let found = judge(lines, devices, locked);
            found.iter().filter(|it| it.kind == Kind::Note).count()
        };
        let good = one_device("ACTIVE");
        assert_eq!(kinds(&[], &good, RLIM_INFINITY), 0);
        assert_eq!(kinds(&[], &good, 8 << 20), 1);
        assert_eq!(kinds(&[], &one_device("DOWN"), RLIM_INFINITY), 1);
        let missing = line("no RDMA devices: libibverbs.so.1: not found");
        assert_eq!(kinds(&[missing.clone(), missing], &good, RLIM_INFINITY), 1);
        let down = line("device mlx5_9 is not offered: no port is active");
        assert_eq!(kinds(&[down], &good, RLIM_INFINITY), 1);
        let mut closed = one_device("ACTIVE");
        closed.closed.push("/dev/infiniband/uverbs0: no".into());
        closed.without_ip.push("mlx5_0 port 1".into());
        assert_eq!(kinds(&[], &closed, RLIM_INFINITY), 2);
        for reason in [
            "librdmacm.so.1: x",
            "no permission for",
            "no port is active",
            "out of memory",
            "no address",
        ] {
            assert!(!remedy_of(reason).contains("shows more"), "{reason}");
        }
    }
}
