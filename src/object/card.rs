// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! NIC objects of this library's providers: fi_nic(3). Each entry has an object of its own, which fi_freeinfo closes.
//!
//! Trusted with: the pointers between the parts of an object, which are in one allocation.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, null_mut};
use std::ffi::CString;
use std::sync::Arc;

use crate::ops::missing::Missing;
use abi::*;
use base::info::{Card, Nic};
use base::text::nic_text;
use base::{Error, Result};

/// The description of a network card.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CardAttr {
    pub name: String,
    pub device_id: String,
    pub device_version: String,
    pub vendor_id: String,
    pub firmware: String,
    /// Its place on the PCI bus: domain, bus, device, function.
    pub pci: Option<(u16, u8, u8, u8)>,
    pub mtu: usize,
    /// In bits per second.
    pub speed: usize,
    /// `None` if it is unknown.
    pub is_up: Option<bool>,
    pub network_type: &'static str,
}

impl CardAttr {
    /// Makes the description for entries.
    pub fn into_nic(self) -> Nic {
        Nic::of(Arc::new(Described(self)))
    }
}

struct Described(CardAttr);

impl Card for Described {
    fn copy(&self) -> Result<*mut fid_nic> {
        Ok(open(&self.0))
    }
}

/// An object: the C structs, and the strings to which they point.
#[repr(C)]
struct Object {
    nic: fid_nic,
    device: fi_device_attr,
    bus: fi_bus_attr,
    link: fi_link_attr,
    strings: Vec<CString>,
    attr: CardAttr,
}

const OPS: fi_ops = fi_ops {
    close: Some(close),
    control: Some(control),
    tostr: Some(tostr),
    ..Missing::TABLE
};

fn open(attr: &CardAttr) -> *mut fid_nic {
    let mut strings = Vec::new();
    let mut string = |text: &str| -> *mut c_char {
        let text = CString::new(text).unwrap_or_default();
        let at = text.as_ptr().cast_mut();
        strings.push(text);
        at
    };
    let device = fi_device_attr {
        name: string(&attr.name),
        device_id: string(&attr.device_id),
        device_version: string(&attr.device_version),
        vendor_id: string(&attr.vendor_id),
        driver: null_mut(),
        firmware: string(&attr.firmware),
    };
    let (domain_id, bus_id, device_id, function_id) = attr.pci.unwrap_or_default();
    let bus = fi_bus_attr {
        bus_type: match attr.pci {
            Some(_) => FI_BUS_PCI,
            None => FI_BUS_UNKNOWN,
        },
        attr: fi_bus_attr_attr {
            pci: fi_pci_attr {
                domain_id,
                bus_id,
                device_id,
                function_id,
            },
        },
    };
    let link = fi_link_attr {
        address: null_mut(),
        mtu: attr.mtu,
        speed: attr.speed,
        state: match attr.is_up {
            None => FI_LINK_UNKNOWN,
            Some(false) => FI_LINK_DOWN,
            Some(true) => FI_LINK_UP,
        },
        network_type: string(attr.network_type),
    };
    let nic = fid_nic {
        fid: fid {
            fclass: FI_CLASS_NIC as usize,
            context: null_mut(),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        device_attr: null_mut(),
        bus_attr: null_mut(),
        link_attr: null_mut(),
        prov_attr: null_mut(),
    };
    let object = Box::into_raw(Box::new(Object {
        nic,
        device,
        bus,
        link,
        strings,
        attr: attr.clone(),
    }));
    // SAFETY: just made; the parts stay where they are until `close`.
    unsafe {
        (*object).nic.device_attr = &raw mut (*object).device;
        (*object).nic.bus_attr = &raw mut (*object).bus;
        (*object).nic.link_attr = &raw mut (*object).link;
    }
    object.cast()
}

/// Whether `open` made the object. Layers of libfabric make objects of their own with the calls of the one that they
/// copy, so these calls also get such an object. Its parts are allocations of their own.
///
/// # Safety
/// `nic` is an open object.
unsafe fn is_ours(nic: *const fid_nic) -> bool {
    // SAFETY: promised by the caller.
    let device = unsafe { (*nic).device_attr };
    device.addr() == nic.addr() + core::mem::offset_of!(Object, device)
}

/// Describes an object that `open` has not made.
///
/// # Safety
/// `nic` is an open object, whose pointers are NULL or valid.
unsafe fn describe(nic: *const fid_nic) -> CardAttr {
    let text = |at: *const c_char| match at.is_null() {
        true => String::new(),
        // SAFETY: a terminated string, as the caller promises.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
    };
    let mut attr = CardAttr::default();
    // SAFETY: promised by the caller; the type of the bus selects the member of the union.
    unsafe {
        if let Some(device) = (*nic).device_attr.as_ref() {
            attr.name = text(device.name);
            attr.device_id = text(device.device_id);
            attr.device_version = text(device.device_version);
            attr.vendor_id = text(device.vendor_id);
            attr.firmware = text(device.firmware);
        }
        if let Some(bus) = (*nic).bus_attr.as_ref()
            && bus.bus_type == FI_BUS_PCI
        {
            let pci = bus.attr.pci;
            attr.pci = Some((pci.domain_id, pci.bus_id, pci.device_id, pci.function_id));
        }
        if let Some(link) = (*nic).link_attr.as_ref() {
            (attr.mtu, attr.speed) = (link.mtu, link.speed);
            attr.is_up = match link.state {
                FI_LINK_UP => Some(true),
                FI_LINK_DOWN => Some(false),
                _ => None,
            };
            let known = ["InfiniBand", "Ethernet"];
            let kind = text(link.network_type);
            let found = known.into_iter().find(|&known| known == kind);
            attr.network_type = found.unwrap_or("Unknown");
        }
    }
    attr
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    if fid.is_null() {
        return Error::INVAL.negative();
    }
    // SAFETY: fi_close: an open object. One of another library stays, because only that knows its allocator.
    if !unsafe { is_ours(fid.cast()) } {
        return 0;
    }
    // SAFETY: fi_close: an object of `open`, whose first member is the handle, and which is not used any more.
    drop(unsafe { Box::from_raw(fid.cast::<Object>()) });
    0
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    if fid.is_null() || arg.is_null() {
        return Error::INVAL.negative();
    }
    if command as u32 != FI_DUP {
        return Error::NOSYS.negative();
    }
    // SAFETY: an open object, of `open` if it is ours. fi_control(3): FI_DUP takes the address of the pointer that
    // receives the copy.
    unsafe {
        *arg.cast::<*mut fid_nic>() = match is_ours(fid.cast()) {
            true => open(&(*fid.cast::<Object>()).attr),
            false => open(&describe(fid.cast())),
        };
    }
    0
}

unsafe extern "C" fn tostr(fid: *const fid, buf: *mut c_char, len: usize) -> c_int {
    if fid.is_null() || buf.is_null() || len == 0 {
        return Error::INVAL.negative();
    }
    // SAFETY: an open object, whose pointers are valid.
    let text = unsafe { nic_text(&*fid.cast::<fid_nic>(), len) };
    let n = text.len().min(len - 1);
    // SAFETY: the caller gives `len` bytes; the text is cut to leave one for the zero.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), buf.cast::<u8>(), n);
        buf.add(n).write(0);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::info::{close_nic, duplicate_nic};

    #[test]
    fn a_copy_that_another_library_has_made_is_no_object_of_ours() {
        let attr = CardAttr {
            name: "mlx5_0".to_owned(),
            pci: Some((0, 94, 0, 1)),
            is_up: Some(true),
            mtu: 4096,
            network_type: "Ethernet",
            ..CardAttr::default()
        };
        let first = open(&attr);
        // SAFETY: objects made here; the one on the stack has parts that outlive it, and is not freed.
        unsafe {
            let mut device = (*first).device_attr.read();
            let mut nic = first.read();
            nic.device_attr = &raw mut device;
            let mut second = null_mut::<fid_nic>();
            let fid = (&raw mut nic).cast::<fid>();
            assert_eq!(control(fid, FI_DUP as c_int, (&raw mut second).cast()), 0);
            assert_eq!(close(fid), 0);
            assert_eq!((*second.cast::<Object>()).attr, attr);
            close_nic(second);
            close_nic(first);
        }
    }

    #[test]
    fn copies_have_their_own_parts() {
        let attr = CardAttr {
            name: "mlx5_0".to_owned(),
            pci: Some((0, 94, 0, 1)),
            is_up: Some(true),
            ..CardAttr::default()
        };
        let first = Described(attr).copy().unwrap();
        // SAFETY: objects made here, closed once each.
        unsafe {
            let second = duplicate_nic(first).unwrap();
            close_nic(first);
            let name = core::ffi::CStr::from_ptr((*(*second).device_attr).name);
            assert_eq!(name, c"mlx5_0");
            assert_eq!((*(*second).bus_attr).attr.pci.bus_id, 94);
            let mut text = [0 as c_char; 16];
            assert_eq!(tostr(second.cast(), text.as_mut_ptr(), text.len()), 0);
            assert_eq!(text[15], 0);
            close_nic(second);
        }
    }
}
