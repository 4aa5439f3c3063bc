// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Properties that the driver of a network interface reports: netdevice(7), linux/ethtool.h. The programs compile this
//! file in, too.
//!
//! Trusted with: the ioctl that reads them.

use std::ffi::{CStr, CString};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Returns the speed in Mbit/s as the driver reports it, `SPEED_UNKNOWN` included. By ioctl, because /sys shows the
/// network namespace that mounted it.
pub fn speed(interface: &str, asker: Option<&UdpSocket>) -> Option<u32> {
    let mut link = EthtoolCmd {
        cmd: ETHTOOL_GSET,
        ..EthtoolCmd::default()
    };
    ask(interface, asker, &mut link)?;
    Some(u32::from(link.speed_high) << 16 | u32::from(link.speed))
}

/// Returns the name of the driver.
pub fn driver(interface: &str, asker: Option<&UdpSocket>) -> Option<CString> {
    let mut driver = EthtoolDriver {
        cmd: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    ask(interface, asker, &mut driver)?;
    CStr::from_bytes_until_nul(&driver.driver)
        .ok()
        .map(CStr::to_owned)
}

/// Runs an ethtool command (SIOCETHTOOL) through any socket. `C` is the struct of the command, which begins with its
/// number.
fn ask<C: Command>(interface: &str, asker: Option<&UdpSocket>, command: &mut C) -> Option<()> {
    let mut request = IfReq {
        name: [0; libc::IFNAMSIZ],
        data: core::ptr::from_mut(command).cast(),
        rest: [0; 16],
    };
    let name = interface.as_bytes();
    request.name.get_mut(..name.len())?.copy_from_slice(name);
    if name.len() == request.name.len() {
        return None;
    }
    // SAFETY: netdevice(7): the request names an interface, and its data points to the struct of that command, which
    // lives until the call returns; the kernel fills that and nothing more.
    let status = unsafe { libc::ioctl(asker?.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    (status == 0).then_some(())
}

/// A struct of linux/ethtool.h that begins with the number of its command.
trait Command {}
impl Command for EthtoolCmd {}
impl Command for EthtoolDriver {}

/// `struct ifreq` with its `ifr_data`.
#[repr(C)]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    rest: [u8; 16],
}

/// `struct ethtool_cmd` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct EthtoolCmd {
    cmd: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    modes: [u8; 6],
    max_packets: [u32; 2],
    speed_high: u16,
    more_modes: [u8; 2],
    lp_advertising: u32,
    reserved: [u32; 2],
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct EthtoolDriver {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<EthtoolCmd>() == 44 && size_of::<IfReq>() == 40);
const _: () = assert!(size_of::<EthtoolDriver>() == 196);

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GDRVINFO: u32 = 3;
pub const SPEED_UNKNOWN: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_speed_of_no_interface_is_unknown() {
        let asker = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
        let asker = asker.as_ref();
        assert_eq!(speed("no-such-if", asker), None);
        assert_eq!(
            speed("a name that is too long for an interface", asker),
            None
        );
    }
}
