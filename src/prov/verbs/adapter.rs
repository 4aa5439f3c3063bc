// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The devices of this host, with their attributes and addresses. They are looked up at the first query.

use std::ffi::CString;
use std::fs;
use std::net::SocketAddr;
use std::sync::{OnceLock, PoisonError, RwLock};

use super::params::{Params, count};
use super::place::forget_recent;
use super::{SOURCE, ib};
use abi::*;
use base::info::Nic;
use base::log::{Subsys, log_info};
use engine::address::ib_ud;
use object::card::CardAttr;
use sys::verbs::{
    self, CompletionQueue, Device, DeviceAttributes, Id, PairKind, PairLimits, PortAttributes,
    PortSpace, ProtectionDomain, Transport,
};
use sys::{addr, netif};

/// A device with an active port.
pub struct Adapter {
    pub device: Device,
    pub name: String,
    pub transport: Transport,
    pub attributes: DeviceAttributes,
    /// The first active port.
    pub port: PortAttributes,
    pub fabric: CString,
    /// Addresses in the layout of C: those of IP first.
    pub addresses: Vec<Vec<u8>>,
    /// Most bytes that a request of a connected endpoint can carry.
    pub inline: usize,
    /// The same for datagram endpoints, if the device has them.
    pub datagram_inline: Option<usize>,
    /// FI_VERBS_USE_ODP: it fetches pages when it accesses them.
    pub on_demand: bool,
    pub nic: Nic,
}

impl Adapter {
    /// Whether memory of devices can be registered: by dma-bufs, or because the kernel has a module for it.
    #[cold]
    pub fn takes_devices(&self, params: &Params) -> bool {
        const PEER_MEMORY: [&str; 2] = ["/sys/module/nvidia_peermem", "/sys/module/nv_peer_mem"];
        let by_buffers = || {
            let domain = ProtectionDomain::new(self.device);
            params.use_dmabuf && domain.is_ok_and(|domain| domain.takes_buffers())
        };
        by_buffers()
            || PEER_MEMORY
                .iter()
                .any(|path| fs::exists(path).unwrap_or(false))
    }
}

/// The devices, in the order of the connection manager. Empty if there are none, or if rdma-core is not installed.
pub fn adapters(params: &Params) -> &'static [Adapter] {
    &found(params).adapters
}

/// The devices that are not offered, or all RDMA devices, with the reason.
pub fn missing(params: &Params) -> &'static [(String, String)] {
    &found(params).missing
}

#[derive(Default)]
struct Found {
    adapters: Vec<Adapter>,
    missing: Vec<(String, String)>,
}

impl Found {
    fn nothing(reason: &str) -> Found {
        Found {
            adapters: Vec::new(),
            missing: vec![("RDMA devices".to_owned(), reason.to_owned())],
        }
    }
}

/// The devices that were found last. Those that are not found any more stay valid: domains use them.
static FOUND: RwLock<Option<&'static Found>> = RwLock::new(None);

fn found(params: &Params) -> &'static Found {
    // Without the libraries, or in a child of the process that uses them.
    static UNUSABLE: OnceLock<Found> = OnceLock::new();
    if let Err(reason) = verbs::available() {
        return UNUSABLE.get_or_init(|| {
            log_info!(&SOURCE, Subsys::Fabric, "no RDMA devices: {reason}");
            Found::nothing(reason)
        });
    }
    if let Some(found) = *FOUND.read().unwrap_or_else(PoisonError::into_inner) {
        return found;
    }
    let mut place = FOUND.write().unwrap_or_else(PoisonError::into_inner);
    place.get_or_insert_with(|| Box::leak(Box::new(look(params))))
}

/// FI_RESCAN: looks for devices again, unless this is the first time.
pub fn rescan(params: &Params) -> &'static [Adapter] {
    let is_first = FOUND
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .is_none();
    let known = found(params);
    if is_first || verbs::available().is_err() {
        return &known.adapters;
    }
    forget_recent();
    let fresh: &'static Found = Box::leak(Box::new(look(params)));
    *FOUND.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
    &fresh.adapters
}

fn look(params: &Params) -> Found {
    if !params.are_valid() {
        return Found::nothing("a variable is out of range");
    }
    if !verbs::has_devices(EFA) {
        log_info!(&SOURCE, Subsys::Fabric, "no RDMA devices: {}", why_none());
        return Found::nothing(&why_none());
    }
    let places = addresses_of_interfaces(params);
    let mut found = Found::default();
    for device in verbs::devices() {
        let name = device.name();
        if !is_wanted(&name, params.device_name.as_deref()) {
            continue;
        }
        match Adapter::open(device, &places, params) {
            Ok(adapter) => found.adapters.push(adapter),
            Err(reason) => {
                log_info!(
                    &SOURCE,
                    Subsys::Fabric,
                    "device {name} is not offered: {reason}"
                );
                found.missing.push((name, reason));
            }
        }
    }
    found
}

/// The reason why no device can be opened.
fn why_none() -> String {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.collect::<Vec<String>>()
    };
    let mut devices = names("/sys/class/infiniband");
    if devices.is_empty() {
        return "no device in /sys/class/infiniband".to_owned();
    }
    devices.sort();
    let devices = devices.join(", ");
    let files = names("/dev/infiniband").into_iter();
    let mut files = files.filter(|name| name.starts_with("uverbs"));
    let refused = files.find_map(|name| {
        let file = format!("/dev/infiniband/{name}");
        let opened = fs::File::options().read(true).write(true).open(&file);
        Some(format!("{file}: {}", opened.err()?))
    });
    match refused {
        Some(refused) => format!("no permission for {devices}: {refused}"),
        None => format!("no driver of rdma-core, or no permission, for {devices}"),
    }
}

/// Vendor of devices that have a provider of their own.
const EFA: u32 = 0x1d0f;

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

/// FI_VERBS_DEVICE_NAME: whether a name begins with one of the words, without regard to letter case.
fn is_wanted(name: &str, list: Option<&str>) -> bool {
    let begins = |word: &str| {
        let start = name.as_bytes().get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    list.is_none_or(|list| words(list).any(begins))
}

/// An address of an interface, and the device that the kernel's connection manager binds it to.
type Place = (Device, Vec<u8>);

fn addresses_of_interfaces(params: &Params) -> Vec<Place> {
    let all = netif::configured();
    let wanted: Vec<SocketAddr> = match params.iface.as_deref() {
        None => all.into_iter().map(|(_, addr)| addr).collect(),
        Some(list) => words(list)
            .flat_map(|word| of_interface(&all, word))
            .collect(),
    };
    wanted.iter().filter_map(place_of).collect()
}

/// FI_VERBS_IFACE: the addresses of the interface of this name, otherwise of those whose names begin with it.
fn of_interface(all: &[(String, SocketAddr)], word: &str) -> Vec<SocketAddr> {
    let exact = all.iter().any(|(name, _)| name == word);
    let meant = |name: &str| match exact {
        true => name == word,
        false => name.starts_with(word),
    };
    let meant = all.iter().filter(|(name, _)| meant(name));
    meant.map(|&(_, addr)| addr).collect()
}

fn place_of(addr: &SocketAddr) -> Option<Place> {
    let bytes = addr::to_bytes(addr);
    let id = Id::new(None, PortSpace::Tcp, 0).ok()?;
    id.bind(&bytes).ok()?;
    Some((id.device()?, bytes))
}

impl Adapter {
    fn open(device: Device, places: &[Place], params: &Params) -> Result<Adapter, String> {
        let text = |error: std::io::Error| error.to_string();
        let (name, transport) = (device.name(), device.transport());
        if transport == Transport::Other {
            return Err("neither InfiniBand nor iWARP".to_owned());
        }
        let attributes = device.attributes().map_err(text)?;
        let port = active_port(device, attributes.phys_port_cnt)?;
        let fabric = match transport {
            Transport::Iwarp => "Ethernet-iWARP".to_owned(),
            _ => {
                let index = count(params.gid_idx.unwrap_or(0)) as u32;
                let gid = device.gid(1, index).map_err(text)?;
                ib::fabric_name(&gid)
            }
        };
        let own = places.iter().filter(|(of, _)| *of == device);
        let mut addresses: Vec<Vec<u8>> = own.map(|(_, addr)| addr.clone()).collect();
        if params.iface.is_none() {
            addresses.extend(ib::addresses(device, attributes.phys_port_cnt));
        }
        let limit = |kind| inline_limit(device, &name, kind, &attributes, params);
        let inline = limit(PairKind::Connected).map_err(text)?;
        let datagram_inline = match transport {
            Transport::InfiniBand => no_datagrams(&name, limit(PairKind::Datagram)),
            _ => None,
        };
        let nic = card(&name, &attributes, &port).into_nic();
        Ok(Adapter {
            device,
            name,
            transport,
            attributes,
            port,
            fabric: CString::new(fabric).unwrap_or_default(),
            addresses,
            inline,
            datagram_inline,
            on_demand: params.use_odp && device.pages_on_demand(),
            nic,
        })
    }

    /// Most bytes of a datagram.
    pub fn longest_datagram(&self) -> usize {
        ib::mtu(self.port.active_mtu).min(self.port.max_msg_sz as usize)
    }

    /// Whether peers' accesses may carry immediate data.
    pub fn has_immediate(&self) -> bool {
        self.transport == Transport::InfiniBand
    }
}

fn no_datagrams(name: &str, limit: std::io::Result<usize>) -> Option<usize> {
    let why = |error: &std::io::Error| {
        log_info!(
            &SOURCE,
            Subsys::Fabric,
            "device {name} has no datagrams: {error}"
        );
    };
    limit.inspect_err(why).ok()
}

fn active_port(device: Device, ports: u8) -> Result<PortAttributes, String> {
    const ACTIVE: u32 = 4;
    let mut all = (1..=ports).map(|port| device.port(port));
    let found = all.find(|port| port.as_ref().map_or(true, |port| port.state == ACTIVE));
    match found {
        Some(Ok(port)) => Ok(port),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("no port is active".to_owned()),
    }
}

/// Finds out how many bytes a request can carry. A driver refuses more when a queue pair is made, or reduces the
/// number.
fn inline_limit(
    device: Device,
    name: &str,
    kind: PairKind,
    attributes: &DeviceAttributes,
    params: &Params,
) -> std::io::Result<usize> {
    // This driver of older kernels fails later.
    if name.starts_with("i40iw") {
        return Ok(48);
    }
    let domain = ProtectionDomain::new(device)?;
    let queue = CompletionQueue::new(device, 1, false, 0)?;
    let probe = |limits| verbs::probe_inline(&domain, kind, &queue, limits);
    let one = |inline: usize| {
        probe(PairLimits {
            sends: 1,
            receives: 1,
            send_pieces: 1,
            receive_pieces: 1,
            inline: inline as u32,
        })
    };
    let found = search_inline(count(params.inline_size), device.transport(), one);
    let size = |setting: i32, most: i32| count(setting.min(most)) as u32;
    let real = probe(PairLimits {
        sends: size(params.tx_size.min(384), attributes.max_qp_wr),
        receives: size(params.rx_size.min(384), attributes.max_qp_wr),
        send_pieces: size(4, attributes.max_sge),
        receive_pieces: size(4, attributes.max_sge),
        inline: found as u32,
    })?;
    Ok(real as usize)
}

/// Searches the greatest number of bytes that `make` accepts. `wanted` is accepted by most devices.
fn search_inline(
    wanted: usize,
    transport: Transport,
    make: impl Fn(usize) -> std::io::Result<u32>,
) -> usize {
    let (mut low, mut high) = (0, wanted);
    if wanted >= 2 {
        if let Ok(granted) = make(wanted) {
            return granted as usize;
        }
    } else {
        high = 2;
        while let Ok(granted) = make(high) {
            if granted == 0 || transport == Transport::Iwarp || high >= LONGEST_INLINE {
                return granted as usize;
            }
            (low, high) = (high, high * 2);
        }
    }
    while high - low > 2 {
        let middle = low + (high - low) / 2;
        match make(middle) {
            Ok(_) => low = middle,
            Err(_) => high = middle,
        }
    }
    low
}

/// No device carries more bytes in a request.
const LONGEST_INLINE: usize = 1 << 16;

fn card(name: &str, attributes: &DeviceAttributes, port: &PortAttributes) -> CardAttr {
    CardAttr {
        name: name.to_owned(),
        device_id: format!("0x{:04x}", attributes.vendor_part_id),
        device_version: attributes.hw_ver.to_string(),
        vendor_id: format!("0x{:04x}", attributes.vendor_id),
        firmware: attributes.firmware(),
        pci: pci_of(name),
        mtu: ib::mtu(port.active_mtu),
        speed: ib::speed(port),
        is_up: match port.state {
            1..=3 => Some(false),
            4 => Some(true),
            _ => None,
        },
        network_type: match port.link_layer {
            0 | 1 => "InfiniBand",
            2 => "Ethernet",
            _ => "Unknown",
        },
    }
}

/// The place of a device on the PCI bus, if it is on one.
fn pci_of(name: &str) -> Option<(u16, u8, u8, u8)> {
    let path = fs::canonicalize(format!("/sys/class/infiniband/{name}/device")).ok()?;
    parse_pci(path.file_name()?.to_str()?)
}

fn parse_pci(text: &str) -> Option<(u16, u8, u8, u8)> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let number = |text| u16::from_str_radix(text, 16).ok();
    let byte = |text| u8::from_str_radix(text, 16).ok();
    Some((number(domain)?, byte(bus)?, byte(device)?, byte(function)?))
}

/// The address format of an address.
pub fn format_of(address: &[u8]) -> u32 {
    match addr::from_bytes(address) {
        _ if address.len() == ib_ud::LEN => FI_ADDR_IB_UD,
        Some(SocketAddr::V4(_)) => FI_SOCKADDR_IN,
        Some(SocketAddr::V6(_)) => FI_SOCKADDR_IN6,
        None => FI_SOCKADDR_IB,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_close_below_the_limit() {
        for (limit, wanted, found) in [(101, 256, 100), (500, 256, 256), (0, 256, 0), (101, 0, 100)]
        {
            let make = |inline: usize| match inline <= limit {
                true => Ok(inline as u32),
                false => Err(std::io::Error::from_raw_os_error(22)),
            };
            let result = search_inline(wanted, Transport::InfiniBand, make);
            assert_eq!(result, found, "limit {limit}, wanted {wanted}");
        }
        let reduced = search_inline(256, Transport::Iwarp, |_| Ok(80));
        assert_eq!(reduced, 80);
    }

    #[test]
    fn names_of_devices_are_compared_at_their_beginning() {
        let list = Some("MLX5_1, roce");
        assert!(is_wanted("mlx5_10", list) && is_wanted("rocep1", list) && is_wanted("x", None));
        assert!(!is_wanted("mlx5_0", list) && !is_wanted("roc", list));
    }

    #[test]
    fn places_on_the_bus_are_parsed() {
        assert_eq!(parse_pci("0000:5e:00.1"), Some((0, 0x5e, 0, 1)));
        assert_eq!(parse_pci("virtio0"), None);
    }
}
