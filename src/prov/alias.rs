// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One transport under the names of two providers. The second provider has a name and attributes but no data path. The
//! registry connects the two, because providers never name each other.

use core::ffi::c_void;
use core::time::Duration;

use base::Result;
use base::info::FabricAttr;
use base::log::Source;

/// Properties of a fabric that the transport opens for the second provider.
pub struct Alias {
    /// Log source and fabric name.
    pub source: &'static Source,
    /// Maximum of bytes that can be injected.
    pub max_inject: usize,
    /// Time within which a peer must accept a connection, if it differs from the setting of the transport.
    pub conn_timeout: Option<Duration>,
    /// Whether there are FI_EP_DGRAM endpoints. They are unconnected, have messages only, and are served as FI_EP_RDM
    /// ones.
    pub datagrams: bool,
    /// Writes and atomic operations complete when the target has carried them out or refused them.
    pub answers_writes: bool,
}

/// The functions and limits of the transport that the second provider needs.
#[derive(Clone, Copy)]
pub struct Backing {
    pub open: fn(Alias, &FabricAttr, u32, *mut c_void) -> Result<*mut abi::fid_fabric>,
    /// Maximum size of an authorization key, and maximum of keys in an address vector.
    pub auth_key_size: usize,
    pub auth_keys: usize,
}
