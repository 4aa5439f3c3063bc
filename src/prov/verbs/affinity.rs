// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_VERBS_NIC_AFFINITY_POLICY: the entries of the adapters that suit a device, as a GPU, come first: fi_verbs(7).
//! Nothing is left out, and without knowledge about places the order stays as it is.

use std::fs;
use std::path::{Path, PathBuf};

use super::SOURCE;
use super::params::Params;
use base::info::Info;
use base::log::{Subsys, log_info, log_warn};

/// Orders the entries of an answer.
pub fn order(entries: &mut [Info], params: &Params) {
    let policy = params.nic_affinity_policy.as_deref().unwrap_or("none");
    let rank: Box<dyn Fn(&str) -> u32> = match policy {
        "none" => return,
        "manual" => match chosen(params) {
            Ok(nic) => Box::new(move |name: &str| u32::from(name != nic)),
            Err(reason) => {
                return log_info!(&SOURCE, Subsys::Fabric, "{VARIABLE}=manual: {reason}");
            }
        },
        "auto" => match Place::of_pci(params.affinity_device.as_deref().unwrap_or_default()) {
            Some(device) => Box::new(move |name: &str| {
                Place::of_nic(name).map_or(UNKNOWN, |nic| device.distance(&nic))
            }),
            None => {
                let reason = "FI_VERBS_AFFINITY_DEVICE names no PCI device";
                return log_info!(&SOURCE, Subsys::Fabric, "{VARIABLE}=auto: {reason}");
            }
        },
        other => {
            log_warn!(
                &SOURCE,
                Subsys::Fabric,
                "{VARIABLE}={other} has no effect; there are none, manual and auto"
            );
            return;
        }
    };
    entries.sort_by_cached_key(|info| rank(&name_of(info)));
}

const VARIABLE: &str = "FI_VERBS_NIC_AFFINITY_POLICY";

/// The adapter of an entry: its domain is named after it.
fn name_of(info: &Info) -> String {
    let name = info.domain.name.as_deref().unwrap_or_default();
    let name = name.to_string_lossy();
    name.strip_suffix("-dgram").unwrap_or(&name).to_owned()
}

/// The adapter that the file of FI_VERBS_NIC_AFFINITY_CONFIG has for the device.
fn chosen(params: &Params) -> Result<String, String> {
    let device = params.affinity_device.as_deref();
    let device = device.ok_or("FI_VERBS_AFFINITY_DEVICE is not set")?;
    let file = params.nic_affinity_config.as_deref();
    let file = file.ok_or("FI_VERBS_NIC_AFFINITY_CONFIG is not set")?;
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    chosen_in(&text, device).ok_or_else(|| format!("{file} has no line for {device}"))
}

/// Lines have a PCI address and the name of an adapter; # begins a comment.
fn chosen_in(text: &str, device: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.split('#').next()?;
        let mut words = line.split_ascii_whitespace();
        let is_meant = words.next()?.eq_ignore_ascii_case(device);
        is_meant.then(|| words.next().map(str::to_owned))?
    })
}

/// Where a device is: its folder in /sys, whose parents are the bridges above it, and its NUMA node.
struct Place {
    path: PathBuf,
    node: Option<u32>,
}

const SAME_BRIDGE: u32 = 0;
const SAME_NODE: u32 = 1;
const SAME_HOST: u32 = 2;
const UNKNOWN: u32 = 3;

impl Place {
    fn of_pci(address: &str) -> Option<Place> {
        let is_address = !address.is_empty() && !address.contains('/');
        let address = address.to_ascii_lowercase();
        is_address.then(|| Place::at(&Path::new("/sys/bus/pci/devices").join(address)))?
    }

    fn of_nic(name: &str) -> Option<Place> {
        Place::at(&Path::new("/sys/class/infiniband").join(name).join("device"))
    }

    fn at(link: &Path) -> Option<Place> {
        let path = fs::canonicalize(link).ok()?;
        let node = fs::read_to_string(path.join("numa_node")).ok();
        // -1 means that there is one node only.
        let node = node.and_then(|text| text.trim().parse().ok());
        Some(Place { path, node })
    }

    fn distance(&self, other: &Place) -> u32 {
        if self
            .bridge()
            .is_some_and(|bridge| other.path.starts_with(bridge))
        {
            return SAME_BRIDGE;
        }
        match (self.node, other.node) {
            (Some(one), Some(another)) if one == another => SAME_NODE,
            _ => SAME_HOST,
        }
    }

    /// The first bridge below the root, from which a branch of the bus begins.
    fn bridge(&self) -> Option<PathBuf> {
        let parts: Vec<_> = self.path.iter().collect();
        let root = parts
            .iter()
            .position(|part| part.to_string_lossy().starts_with("pci"))?;
        // A device at the root itself is below no bridge.
        (parts.len() > root + 2).then(|| parts[..root + 2].iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str, node: Option<u32>) -> Place {
        Place {
            path: path.into(),
            node,
        }
    }

    #[test]
    fn the_nearest_is_below_the_same_bridge() {
        let gpu = place("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", Some(0));
        let under = place("/sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0", Some(0));
        let beside = place("/sys/devices/pci0000:00/0000:00:03.0/0000:03:00.0", Some(0));
        let far = place("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", Some(1));
        let alone = place("/sys/devices/pci0000:00/0000:00:05.0", None);
        assert_eq!(gpu.distance(&under), SAME_BRIDGE);
        assert_eq!(gpu.distance(&beside), SAME_NODE);
        assert_eq!(gpu.distance(&far), SAME_HOST);
        assert_eq!(gpu.distance(&alone), SAME_HOST);
        assert_eq!(alone.distance(&gpu), SAME_HOST);
    }

    #[test]
    fn lines_of_the_file_name_adapters() {
        let text =
            "# of this host\n0000:1A:00.0 mlx5_1 # first\n\n0000:3b:00.0\n0000:5e:00.0\tmlx5_2\n";
        assert_eq!(chosen_in(text, "0000:1a:00.0").as_deref(), Some("mlx5_1"));
        assert_eq!(chosen_in(text, "0000:5e:00.0").as_deref(), Some("mlx5_2"));
        assert_eq!(chosen_in(text, "0000:3b:00.0"), None);
        assert_eq!(chosen_in(text, "#"), None);
    }
}
