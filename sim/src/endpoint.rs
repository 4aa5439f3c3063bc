// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the simulator needs of a transport: the endpoint of one rank with its sessions.

use std::time::Instant;

use crate::network::Load;

/// A message of the application.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub to: u32,
    pub len: u32,
    /// Sender and number, which the receiver checks.
    pub tag: u64,
}

/// The end of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    Sent,
    /// A message to this rank was not delivered.
    Failed {
        to: u32,
    },
    Received {
        tag: u64,
        len: u32,
    },
}

/// A load that an endpoint has sent.
pub struct Outgoing<L> {
    pub to: u32,
    pub load: L,
}

/// The properties of a rank.
pub struct Setup<'a> {
    pub place: usize,
    /// Ranks with which this one exchanges messages.
    pub peers: &'a [u32],
    pub seed: u64,
    /// Bytes of the longest message.
    pub longest: usize,
    pub limits: &'a Limits,
}

/// Limits of the operating system.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Datagrams that the receive and the send buffer of a socket hold.
    pub socket_packets: usize,
    /// Bytes that the buffers of a stream hold.
    pub stream_bytes: usize,
    /// Descriptors of a process.
    pub descriptors: usize,
    /// Connections that a listener keeps until they are accepted.
    pub backlog: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // net.core.rmem_default is 212,992 bytes, and a datagram of 1,472 bytes takes 2,304 of them.
            socket_packets: 92,
            stream_bytes: 128 << 10,
            descriptors: 1 << 20,
            backlog: 4096,
        }
    }
}

pub trait Endpoint: Sized {
    type Load: Load;

    fn open(setup: &Setup<'_>) -> Self;

    /// The kernel takes a load that has arrived. Returns false if there is no room.
    fn arrive(&mut self, now: Instant, from: usize, load: Self::Load) -> bool;
    /// The network reports that a peer's process does not exist.
    fn unreachable(&mut self, peer: usize);
    /// Makes progress once. Returns the number of loads taken. `room`: loads that may be sent.
    fn poll(&mut self, now: Instant, room: usize) -> usize;
    /// Returns what was sent since the last call.
    fn take_out(&mut self) -> Vec<Outgoing<Self::Load>>;

    /// Posts a message. Returns false if it must be posted again later.
    fn send(&mut self, now: Instant, message: &Message) -> bool;
    /// Posts a receive for any message.
    fn receive(&mut self, now: Instant);
    fn ended(&mut self) -> Vec<Ended>;
    /// Closes the endpoint. Returns false if the call must be repeated when there is room to send.
    fn close(&mut self, now: Instant) -> bool;

    /// Whether loads have arrived that no poll has taken.
    fn has_input(&self) -> bool;
    /// Whether something waits for room to send.
    fn is_blocked(&self) -> bool;
    /// Sessions that the next poll looks at although nothing has arrived from them.
    fn visits(&self) -> usize;
    fn deadline(&self) -> Option<Instant>;
    fn connections(&self) -> usize;
    /// Handshakes and packets that were sent again.
    fn retries(&self) -> u64;
}
