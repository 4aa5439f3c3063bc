// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses and address vectors: fi_av(3).

use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;
use core::mem::forget;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use ironfabric_sys::*;

use crate::domain::{Domain, DomainInner};
use crate::error::{Error, Result, status};
use crate::handle::{Raw, Shared, Threads, padded, sized, slot};

/// The address of an endpoint in the format of its provider. Its bytes are sent to peers outside of libfabric.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Address(Vec<u8>);

impl Address {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the socket address, if that is its format (`sockaddr_in` or `sockaddr_in6`).
    pub fn to_socket_addr(&self) -> Option<SocketAddr> {
        let bytes = &self.0;
        let half = |at: usize| Some([*bytes.get(at)?, *bytes.get(at + 1)?]);
        let port = u16::from_be_bytes(half(2)?);
        match i32::from(u16::from_ne_bytes(half(0)?)) {
            libc::AF_INET => {
                let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
                Some(SocketAddr::from((Ipv4Addr::from(ip), port)))
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                let scope: [u8; 4] = bytes.get(24..28)?.try_into().ok()?;
                let scope = u32::from_ne_bytes(scope);
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

impl From<Vec<u8>> for Address {
    fn from(bytes: Vec<u8>) -> Address {
        Address(bytes)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_socket_addr() {
            Some(address) => write!(f, "{address}"),
            None => f.write_str(String::from_utf8_lossy(&self.0).trim_end_matches('\0')),
        }
    }
}

/// The destination of an operation, or the source of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Peer {
    pub(crate) addr: fi_addr_t,
    /// Number of the address vector; 0 for none.
    pub(crate) vector: u64,
}

impl Peer {
    /// The peer of a connection, for endpoints of type [`EndpointType::Msg`](crate::EndpointType::Msg).
    pub const CONNECTED: Peer = Peer::ANY;
    /// Any sender, for receives.
    pub const ANY: Peer = Peer {
        addr: FI_ADDR_UNSPEC,
        vector: 0,
    };

    /// Returns the place in the address vector.
    pub fn index(self) -> u64 {
        self.addr
    }
}

/// Addresses of peers, by number (`FI_AV_TABLE`): fi_av(3). A clone is another reference to the same vector.
pub struct AddressVector<T: Threads = Shared>(pub(crate) Arc<VectorInner>, PhantomData<T>);

pub(crate) struct VectorInner {
    pub raw: Raw<fid_av>,
    pub domain: Arc<DomainInner>,
    pub number: u64,
    /// Places below are in use, or were.
    end: AtomicU64,
}

impl<T: Threads> AddressVector<T> {
    /// Opens an empty vector: fi_av_open. `expected` is a number of addresses; 0 leaves it open.
    pub fn open(domain: &Domain<T>, expected: usize) -> Result<AddressVector<T>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut attr = fi_av_attr {
            r#type: FI_AV_TABLE,
            rx_ctx_bits: 0,
            count: expected,
            ep_per_node: 0,
            name: null(),
            map_addr: null_mut(),
            flags: 0,
        };
        let parent = domain.0.raw.get();
        let mut av = null_mut();
        // SAFETY: the domain is open and kept; the attributes are used during the call; `av` is written on success.
        let raw = unsafe {
            let call = slot!((*parent).ops, fi_ops_domain, av_open)?;
            let code = call(parent, &raw mut attr, &raw mut av, null_mut());
            Raw::opened(code, av)?
        };
        let inner = VectorInner {
            raw,
            domain: domain.0.clone(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            end: AtomicU64::new(0),
        };
        Ok(AddressVector(Arc::new(inner), PhantomData))
    }

    /// Inserts an address in the format of the domain: fi_av_insert.
    pub fn insert(&self, address: &Address) -> Result<Peer> {
        let address = padded(&address.0);
        let av = self.0.raw.get();
        let mut addr = FI_ADDR_NOTAVAIL;
        // SAFETY: the vector is open; one address is there, and room for one number.
        let inserted = unsafe {
            let call = slot!((*av).ops, fi_ops_av, insert)?;
            call(av, address.as_ptr().cast(), 1, &raw mut addr, 0, null_mut())
        };
        match inserted {
            1 if addr != FI_ADDR_NOTAVAIL => {
                self.0.end.fetch_max(addr + 1, Ordering::Relaxed);
                let vector = self.0.number;
                Ok(Peer { addr, vector })
            }
            0 | 1 => Err(Error::ADDRNOTAVAIL),
            code => Err(Error::new(code.saturating_neg())),
        }
    }

    /// Returns the peer at a place, for example that of [`Completion::source`](crate::Completion::source). `None` if no
    /// address was ever inserted there.
    pub fn peer(&self, index: u64) -> Option<Peer> {
        (index < self.0.end.load(Ordering::Relaxed)).then_some(Peer {
            addr: index,
            vector: self.0.number,
        })
    }

    /// Returns the address of a peer: fi_av_lookup. `INVAL`: the peer is of another vector.
    pub fn lookup(&self, peer: Peer) -> Result<Address> {
        if peer.vector != self.0.number {
            return Err(Error::INVAL);
        }
        let av = self.0.raw.get();
        // SAFETY: the vector is open, and has the address.
        let call = unsafe { slot!((*av).ops, fi_ops_av, lookup) }?;
        // SAFETY: the same; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { call(av, peer.addr, at, len) }).map(Address)
    }

    /// Returns an address as the text of the provider: fi_av_straddr.
    pub fn format(&self, address: &Address) -> Option<String> {
        let address = padded(&address.0);
        let av = self.0.raw.get();
        let mut text = [0; 512];
        let mut len = text.len();
        // SAFETY: the vector is open; address and room are there; the text ends within the room.
        unsafe {
            let call = slot!((*av).ops, fi_ops_av, straddr).ok()?;
            let text = call(av, address.as_ptr().cast(), text.as_mut_ptr(), &raw mut len);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// Removes a peer: fi_av_remove.
    ///
    /// # Safety
    /// No operation with this peer is in flight or is posted later, unless the place has a new address.
    pub unsafe fn remove(&self, peer: Peer) -> Result {
        if peer.vector != self.0.number {
            return Err(Error::INVAL);
        }
        let av = self.0.raw.get();
        let mut addr = peer.addr;
        // SAFETY: the vector is open; one number is there; the rest is promised by the caller.
        unsafe {
            let call = slot!((*av).ops, fi_ops_av, remove)?;
            status(call(av, &raw mut addr, 1, 0))
        }
    }
}

impl<T: Threads> Clone for AddressVector<T> {
    fn clone(&self) -> AddressVector<T> {
        AddressVector(self.0.clone(), PhantomData)
    }
}

impl Drop for VectorInner {
    fn drop(&mut self) {
        // SAFETY: bound endpoints hold a reference to the vector, and this was the last one.
        if unsafe { self.raw.close() }.is_err() {
            forget(self.domain.clone());
        }
    }
}
