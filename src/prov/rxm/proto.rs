// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The wire format of rxm: connection messages, and the packets of a connection. docs/wire/rxm.md.
//!
//! All numbers are in the byte order of the host, unless stated otherwise: hosts that differ refuse each other.

mod atomic;
mod connect;
mod fault;
mod header;
mod packet;
mod rendezvous;
#[cfg(test)]
mod tests;

pub use atomic::{ATOMIC_HEADER, AtomicHead, AtomicRequest, AtomicResponse};
pub use connect::{ConnId, FlowControl, Reason, Request, Response, reason_of, reject};
pub use fault::Fault;
pub use header::HEADER;
pub use packet::{Body, MOST_CREDITS, Message, Packet, Part, Segment, credit, decode, short};
/// Maximum of receive contexts of an endpoint that messages can name.
pub const MAX_CONTEXTS: usize = 64;

pub use rendezvous::{NO_KEY, Places, RENDEZVOUS_SIZE};

/// Maximum of memory segments in a packet.
pub const MAX_PLACES: usize = 4;

/// Returns `N` bytes from offset `at`; the caller has checked the length.
#[inline]
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = bytes.get(at..at + N) {
        out.copy_from_slice(from);
    }
    out
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(take(bytes, at))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(take(bytes, at))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(take(bytes, at))
}
