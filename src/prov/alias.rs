// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A transport under the names of two providers. The second one has a name and attributes, and no bytes. Providers
//! never name each other: the registry brings the two together.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::time::Duration;

use crate::abi;
use crate::base::Result;
use crate::base::info::FabricAttr;
use crate::base::log::Source;

/// What the second provider says of a fabric that the transport opens for it.
pub struct Alias {
    /// Who logs, and whose name the fabric has.
    pub source: &'static Source,
    /// Bytes that may be injected at most.
    pub max_inject: usize,
    /// Time that a peer has to accept a connection, if it differs from the setting of the transport.
    pub conn_timeout: Option<Duration>,
    /// Whether there are FI_EP_DGRAM endpoints: unconnected ones with messages alone, served as FI_EP_RDM ones are.
    pub datagrams: bool,
    /// Writes and atomic operations complete when the target has carried them out or refused them.
    pub answers_writes: bool,
}

/// What the transport gives to the second provider.
#[derive(Clone, Copy)]
pub struct Backing {
    pub open: fn(Alias, &FabricAttr, u32, *mut c_void) -> Result<*mut abi::fid_fabric>,
    /// Bytes of an authorization key at most, and keys of an address vector.
    pub auth_key_size: usize,
    pub auth_keys: usize,
}
