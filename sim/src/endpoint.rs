// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the simulator needs of a transport: the endpoint of one rank with its sessions.

use std::time::Instant;

use crate::network::Load;
use base::iovec::lent::TestMemory;
use engine::testing::Completion;

/// A message of the application.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub to: u32,
    pub len: u32,
    /// Sender and number, which the receiver checks.
    pub tag: u64,
}

/// The purpose of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    SendTo(u32),
    /// A receive, with its number.
    Receive(u32),
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
        /// Number of the receive.
        nth: u32,
    },
    /// A receive has failed.
    Lost,
}

impl Ended {
    /// Reads a completion of an operation on `memory`.
    pub fn of(completion: &Completion, purpose: Purpose, memory: &TestMemory) -> Ended {
        match purpose {
            Purpose::SendTo(_) if completion.error == 0 => Ended::Sent,
            Purpose::SendTo(to) => Ended::Failed { to },
            Purpose::Receive(_) if completion.error != 0 => Ended::Lost,
            Purpose::Receive(nth) => {
                let is_whole = has_content(memory, completion.tag);
                let len = if is_whole {
                    completion.len as u32
                } else {
                    u32::MAX
                };
                let tag = completion.tag;
                Ended::Received { tag, len, nth }
            }
        }
    }
}

/// Returns the bytes of a message: its tag as often as it fits.
pub fn content(message: &Message) -> TestMemory {
    let tag = message.tag.to_ne_bytes();
    TestMemory::new(
        tag.iter()
            .copied()
            .cycle()
            .take(message.len as usize)
            .collect(),
    )
}

fn has_content(memory: &TestMemory, tag: u64) -> bool {
    let len = memory.len().min(size_of::<u64>());
    memory.bytes(0, len) == tag.to_ne_bytes()[..len]
}

/// Work of a poll.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Loads that were taken.
    pub taken: usize,
    /// Sessions that were visited although nothing has arrived from them.
    pub visits: usize,
    /// Connections that were accepted.
    pub connects: usize,
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
    /// Bytes of the longest message that ofi_rxm sends in one packet.
    pub packet: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // net.core.rmem_max is 212,992 bytes. The kernel doubles it, and counts 2,304 for a datagram of 1,472.
            socket_packets: 184,
            stream_bytes: 128 << 10,
            descriptors: 1 << 20,
            backlog: 4096,
            packet: 16 << 10,
        }
    }
}

pub trait Endpoint: Sized {
    type Load: Load;

    fn open(setup: &Setup<'_>) -> Self;

    /// The kernel takes a load that has arrived. Returns it if there is no room.
    fn arrive(&mut self, now: Instant, from: usize, load: Self::Load) -> Option<Self::Load>;
    /// The network reports that a peer's process does not exist.
    fn unreachable(&mut self, peer: usize);
    /// Makes progress once. `room`: loads that may be sent.
    fn poll(&mut self, now: Instant, room: usize) -> Work;
    /// Returns what was sent since the last call.
    fn take_out(&mut self) -> Vec<Outgoing<Self::Load>>;

    /// Posts a message. Returns false if it must be posted again later.
    fn send(&mut self, now: Instant, message: &Message) -> bool;
    /// Posts a receive for any message. `nth`: its number.
    fn receive(&mut self, now: Instant, nth: u32);
    fn ended(&mut self) -> Vec<Ended>;
    /// Closes the endpoint. Returns false if the call must be repeated when there is room to send.
    fn close(&mut self, now: Instant) -> bool;

    /// Frees memory that is not counted: that of the application and of the kernel. The endpoint is dropped next.
    fn release(&mut self);

    /// Whether loads have arrived that no poll has taken.
    fn has_input(&self) -> bool;
    /// Whether something waits for room to send.
    fn is_blocked(&self) -> bool;
    fn deadline(&self) -> Option<Instant>;
    fn connections(&self) -> usize;
    /// Handshakes and packets that were sent again.
    fn retries(&self) -> u64;
}
