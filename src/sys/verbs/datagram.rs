// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Address handles, by which a queue pair of datagrams reaches a port: ibv_create_ah(3).

use core::ptr::NonNull;
use std::io;
use std::sync::Arc;

use super::abi::*;
use super::api::{api, api_to_destroy};
use super::device::Gid;
use super::memory::ProtectionDomain;

/// A port of the network, and the way to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// With a global header if the lower half is not 0.
    pub gid: Gid,
    /// The index of the own identifier in the table of the port, for the global header.
    pub own_gid: u8,
    pub lid: u16,
    pub service_level: u8,
    /// The own port.
    pub port: u8,
}

/// Routers that a datagram may pass.
const HOP_LIMIT: u8 = 64;

impl Route {
    /// Whether the datagrams have a global header, which Ethernet always needs.
    pub fn is_global(&self) -> bool {
        self.gid[8..].iter().any(|&byte| byte != 0)
    }

    fn attributes(&self) -> ibv_ah_attr {
        let mut attributes = ibv_ah_attr::default();
        if self.is_global() {
            let half = |at: usize| self.gid[at..].first_chunk().copied().unwrap_or_default();
            attributes.grh.dgid = [0, 8].map(|at| u64::from_ne_bytes(half(at)));
            attributes.grh.sgid_index = self.own_gid;
            attributes.grh.hop_limit = HOP_LIMIT;
        }
        attributes.is_global = self.is_global().into();
        attributes.dlid = self.lid;
        attributes.sl = self.service_level;
        attributes.port_num = self.port;
        attributes
    }
}

/// A port that datagrams can be sent to.
#[derive(Debug)]
pub struct AddressHandle {
    raw: NonNull<ibv_ah>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: the functions that take one may be called by any thread.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl AddressHandle {
    /// Blocks until the kernel has found the neighbour, on Ethernet.
    pub fn new(domain: &Arc<ProtectionDomain>, route: &Route) -> io::Result<AddressHandle> {
        let mut attributes = route.attributes();
        // SAFETY: an existing domain, which the handle holds.
        let raw = unsafe { (api().ibv_create_ah)(domain.raw(), &raw mut attributes) };
        Ok(AddressHandle {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            _domain: domain.clone(),
        })
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: made by the library. No call refers to it, because requests borrow it until they are posted.
        unsafe { (api.ibv_destroy_ah)(self.raw.as_ptr()) };
    }
}

/// Where a datagram goes: behind a port, the pair with a number and a key.
#[derive(Clone, Debug)]
pub struct Destination {
    pub handle: Arc<AddressHandle>,
    pub pair: u32,
    pub key: u32,
}

impl Destination {
    #[inline]
    pub(super) fn raw(&self) -> Datagram {
        Datagram {
            ah: self.handle.raw.as_ptr(),
            remote_qpn: self.pair,
            remote_qkey: self.key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_address_has_no_global_header() {
        let mut route = Route {
            gid: [0; 16],
            own_gid: 3,
            lid: 7,
            service_level: 2,
            port: 1,
        };
        route.gid[0] = 0xfe;
        let raw = route.attributes();
        assert_eq!(
            (raw.is_global, raw.dlid, raw.sl, raw.port_num),
            (0, 7, 2, 1)
        );
        assert_eq!((raw.grh.sgid_index, raw.grh.dgid), (0, [0; 2]));
        route.gid[15] = 1;
        let raw = route.attributes();
        assert_eq!(
            (raw.is_global, raw.grh.sgid_index, raw.grh.hop_limit),
            (1, 3, 64)
        );
        assert_eq!(raw.grh.dgid[1].to_ne_bytes()[7], 1);
    }
}
