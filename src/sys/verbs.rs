// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! RDMA devices through libibverbs and librdmacm, which are opened while the program runs and never linked: a host
//! without them lacks only the devices.
//!
//! `abi` has our declarations of the structs, `layout` their layouts, `api` the functions of the two libraries. The
//! other files wrap them: `device` devices and what they report, `memory` protection domains and registered memory,
//! `queue` completion queues, `request` and `pair` work requests and the queue pairs that take them, `batch` several
//! requests at once, `datagram` the addresses of datagrams, `connection` the connection manager.
//!
//! Trusted with: the layout of rdma-core's structs, which its library versions (IBVERBS_1.1, RDMACM_1.0) keep, and that
//! the libraries do what their manual pages say. Each wrapper owns one object, and holds the objects that it refers to,
//! so that they are destroyed in a valid order. The libraries allow calls from any thread (ibv_create_cq(3) and
//! others are thread-safe).
//!
//! A child process forgets the objects of its parent (`api::is_here`).
//!
//! A work request is safe to post although the adapter accesses memory after the call: an adapter accesses local memory
//! only by the key of a `Region`, whose maker promised that memory until the region is dropped. Bytes that a request
//! carries itself (`Request::inline`) are read during the call.

mod abi;
mod api;
mod batch;
mod connection;
mod datagram;
mod device;
mod layout;
mod memory;
mod notice;
mod pair;
mod queue;
mod request;
#[cfg(test)]
mod tests;

use std::io;

pub use self::abi::{ibv_device_attr as DeviceAttributes, ibv_port_attr as PortAttributes};
pub use self::api::{available, is_here};
pub use self::batch::Batch;
pub use self::connection::{ConnectParam, Event, EventChannel, EventKind, Id, PortSpace};
pub use self::datagram::{AddressHandle, Destination, Route};
pub use self::device::{Device, Gid, Transport, devices, has_devices};
pub use self::memory::{Access, ProtectionDomain, Region};
pub use self::notice::Notice;
pub use self::pair::{
    DatagramAttributes, Pair, PairKind, PairLimits, PairQueues, SharedReceives, probe_inline,
};
pub use self::queue::{
    Completion, CompletionQueue, Completions, Status, WORK_RECEIVE, WORK_RECEIVE_WRITE,
};
pub use self::request::{MAX_PIECES, Opcode, Receive, Request};

/// Converts the result of a function that returns 0 or a positive error number. Old drivers return -1 and set errno.
fn check_number(result: core::ffi::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        negative if negative < 0 => Err(io::Error::last_os_error()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Converts the result of a function that returns 0, or -1 with errno.
fn check_errno(result: core::ffi::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
