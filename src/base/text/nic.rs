// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A network interface card as text: fi_nic(3). The object's own `tostr` writes it.
//!
//! Trusted with: following the pointers in a `fid_nic`.

use super::attr::string;
use super::names::{BUS_TYPE, LINK_STATE};
use super::writer::Text;
use abi::*;

/// # Safety
/// Each pointer in `nic` is NULL or valid as in fi_nic(3); strings end with a zero.
pub unsafe fn nic(text: &mut Text, nic: &fid_nic) {
    text.heading(1, "nic");
    // SAFETY: this function's caller promises it for the three structs and the strings in them.
    unsafe {
        if let Some(device) = nic.device_attr.as_ref() {
            text.heading(2, "fi_device_attr");
            text.c_field(3, "name", string(device.name));
            text.c_field(3, "device_id", string(device.device_id));
            text.c_field(3, "device_version", string(device.device_version));
            text.c_field(3, "vendor_id", string(device.vendor_id));
            text.c_field(3, "driver", string(device.driver));
            text.c_field(3, "firmware", string(device.firmware));
        }
        if let Some(bus) = nic.bus_attr.as_ref() {
            text.heading(2, "fi_bus_attr");
            text.field(3, "bus_type", BUS_TYPE.of(bus.bus_type.0));
            if bus.bus_type == FI_BUS_PCI {
                let pci = bus.attr.pci;
                text.heading(3, "fi_pci_attr");
                text.field(4, "domain_id", pci.domain_id);
                text.field(4, "bus_id", pci.bus_id);
                text.field(4, "device_id", pci.device_id);
                text.field(4, "function_id", pci.function_id);
            }
        }
        if let Some(link) = nic.link_attr.as_ref() {
            text.heading(2, "fi_link_attr");
            text.c_field(3, "address", string(link.address));
            text.field(3, "mtu", link.mtu);
            text.field(3, "speed", link.speed);
            text.field(3, "state", LINK_STATE.of(link.state.0));
            text.c_field(3, "network_type", string(link.network_type));
        }
    }
}

/// Returns the text of a card for a buffer of `room` bytes.
///
/// # Safety
/// As for `nic`.
pub unsafe fn nic_text(card: &fid_nic, room: usize) -> Vec<u8> {
    let mut text = Text::for_buffer(room);
    // SAFETY: promised by the caller.
    unsafe { nic(&mut text, card) };
    text.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use core::ptr::null_mut;

    use super::*;

    fn text_of(card: &fid_nic) -> String {
        let mut text = Text::for_buffer(4096);
        // SAFETY: the tests below pass NULL or structs and strings of their own.
        unsafe { nic(&mut text, card) };
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    fn card() -> fid_nic {
        fid_nic {
            fid: fid {
                fclass: FI_CLASS_NIC as usize,
                context: null_mut(),
                ops: null_mut(),
            },
            device_attr: null_mut(),
            bus_attr: null_mut(),
            link_attr: null_mut(),
            prov_attr: null_mut(),
        }
    }

    #[test]
    fn every_attribute_has_its_line() {
        let string = |text: &'static core::ffi::CStr| text.as_ptr().cast_mut();
        let mut device = fi_device_attr {
            name: string(c"mlx5_0"),
            device_id: string(c"0x101b"),
            device_version: string(c"0"),
            vendor_id: string(c"0x02c9"),
            driver: string(c"mlx5_core"),
            firmware: null_mut(),
        };
        let pci = fi_pci_attr {
            domain_id: 1,
            bus_id: 94,
            device_id: 3,
            function_id: 4,
        };
        let mut bus = fi_bus_attr {
            bus_type: FI_BUS_PCI,
            attr: fi_bus_attr_attr { pci },
        };
        let mut link = fi_link_attr {
            address: string(c"aa:bb"),
            mtu: 4096,
            speed: 100_000_000_000,
            state: FI_LINK_UP,
            network_type: string(c"InfiniBand"),
        };
        let mut card = card();
        card.device_attr = &raw mut device;
        card.bus_attr = &raw mut bus;
        card.link_attr = &raw mut link;
        let expected = "    nic:
        fi_device_attr:
            name: mlx5_0
            device_id: 0x101b
            device_version: 0
            vendor_id: 0x02c9
            driver: mlx5_core
            firmware: (null)
        fi_bus_attr:
            bus_type: FI_BUS_PCI
            fi_pci_attr:
                domain_id: 1
                bus_id: 94
                device_id: 3
                function_id: 4
        fi_link_attr:
            address: aa:bb
            mtu: 4096
            speed: 100000000000
            state: FI_LINK_UP
            network_type: InfiniBand
";
        assert_eq!(text_of(&card), expected);

        bus.bus_type = fi_bus_type(7);
        link.state = fi_link_state(9);
        card.bus_attr = &raw mut bus;
        card.link_attr = &raw mut link;
        let text = text_of(&card);
        assert!(text.contains("bus_type: Unknown\n        fi_link_attr"));
        assert!(text.contains("state: Unknown\n"));
    }

    #[test]
    fn attributes_that_are_not_there_have_no_lines() {
        assert_eq!(text_of(&card()), "    nic:\n");
    }
}
