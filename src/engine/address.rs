// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of endpoints, and how they are written: fi_av(3), fi_getinfo(3) "Addressing Formats".
#![forbid(unsafe_code)]

pub mod ip;

use core::fmt::Display;
use core::hash::Hash;

use crate::base::Result;
use crate::ffi::AddrForm;

/// An address as an address vector holds it.
pub trait Address: Clone + Eq + Hash + Display + Send + 'static {
    /// Nothing for an address that cannot be a peer's.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    fn to_bytes(&self) -> Vec<u8>;
}

/// How the addresses of a domain are written. A value, since some transports have them in the format of whatever is
/// below.
pub trait AddressFormat: Send + Sync + 'static {
    type Addr: Address;

    /// How the end of an address is found in C's memory.
    fn form(&self) -> AddrForm;
    /// As fi_av_straddr shows it.
    fn text(&self, bytes: &[u8]) -> String;
    /// The address that is shown so; fi_getinfo(3), FI_ADDR_STR.
    fn parse(&self, text: &str) -> Option<Self::Addr>;
    /// A name and a service.
    fn resolve(&self, node: &str, service: &str) -> Result<Self::Addr>;
}
