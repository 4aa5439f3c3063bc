// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of endpoints and their text form: fi_av(3), fi_getinfo(3) "Addressing Formats".

pub mod ib_ud;
pub mod ip;
pub mod mixed;

use core::fmt::Display;
use core::hash::Hash;

use base::Result;
use object::AddrForm;

/// An address as it is stored in an address vector.
pub trait Address: Clone + Eq + Hash + Display + Send + 'static {
    /// None for an address that no peer can have.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    fn to_bytes(&self) -> Vec<u8>;
}

/// The address format of a domain. It is a value, because a layered transport has the format of the provider below.
pub trait AddressFormat: Send + Sync + 'static {
    type Addr: Address;

    /// How the end of an address in C memory is found.
    fn form(&self) -> AddrForm;
    /// Text form for fi_av_straddr.
    fn text(&self, bytes: &[u8]) -> String;
    /// Parses the text form; fi_getinfo(3), FI_ADDR_STR.
    fn parse(&self, text: &str) -> Option<Self::Addr>;
    /// Resolves a node and a service.
    fn resolve(&self, node: &str, service: &str) -> Result<Self::Addr>;
}
