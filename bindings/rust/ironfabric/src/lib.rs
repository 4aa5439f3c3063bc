// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod av;
mod buffer;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod error;
mod fabric;
mod handle;
mod info;
mod ops;
mod region;
#[cfg(test)]
mod tests;

pub use av::{Address, AddressVector, Peer};
pub use buffer::{Buffer, OperationId};
pub use cntr::Counter;
pub use cq::{
    Completion, CompletionFlags, CompletionQueue, Completions, OperationError, QueueOptions,
    ReadError, WaitFd, Waker,
};
pub use domain::Domain;
pub use ep::{Endpoint, EndpointBuilder};
pub use eq::{
    ConnectionRequest, EndpointId, Event, EventError, EventFd, EventQueue, PassiveEndpoint,
};
pub use error::{Error, Result};
pub use fabric::Fabric;
pub use handle::{Local, Shared, Threads, Wait};
pub use info::{Caps, EndpointType, Hints, Info, InfoList, Infos, MrMode};
pub use ops::{AtomicElement, AtomicOp, CompareOp, Posted, RawMemory, Rejected};
pub use region::{Access, Registration, RemoteMemory, Window};

/// The C declarations, and the library that the process has loaded.
pub use ironfabric_sys as sys;

/// Returns the version of the loaded libfabric: fi_version(3). `NODATA`: none can be loaded, or it is older than 1.14.
pub fn version() -> Result<(u32, u32)> {
    // SAFETY: fi_version(3) has no requirements.
    let version = unsafe { (info::library()?.version)() };
    Ok((version >> 16, version & 0xffff))
}
