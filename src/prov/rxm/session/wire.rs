// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The requests of sessions to the objects below.

use std::sync::Arc;
use std::time::Instant;

use super::flight::{Flight, Post};
use crate::rxm::proto::Request;
use base::{Error, IoVec, Result};
use client::layer::{Lent, Slot};
use engine::address::ip::Addr;
use engine::transport::Listener;
use object::ops::transfer::RemoteSeg;

/// Result of passing an operation to the provider below.
pub enum Posted {
    Yes,
    /// There is no room now.
    Later(Post),
    Failed(Post, Error),
}

/// A result of closing a connection below.
pub enum Ended {
    /// This operation in flight will not complete.
    Operation(Flight),
    /// A connection of this session is closed.
    Closed(usize),
}

/// The provider below, as sessions use it. `id` is the index of a session in the table.
pub trait Wire {
    /// Starts to connect to the listener of a peer. `arrival` is the number of the new connection. Returns whether the
    /// request has announced that this side counts posted receives, which only the wire knows.
    fn connect(&mut self, at: Place, own: &Addr, peer: &Addr, request: Request) -> Result<bool>;
    /// Begins to count the receives and messages of a connection, whose peer does the same: a message of which there is
    /// no receive is not accepted.
    fn enable_credits(&mut self, id: usize) -> Result;
    /// The peer has posted this many more receives.
    fn add_credits(&mut self, id: usize, count: u64);
    /// Returns a session, and a number of posted receives of which its peer has to get to know.
    fn take_due_credits(&mut self) -> Option<(usize, u64)>;
    /// Shuts the connection of a session down. Its operations in flight end: `take_ended`.
    fn close(&mut self, id: usize);
    /// Whether the end of a connection of this session is not complete.
    fn is_closing(&self, id: usize) -> bool;
    /// Returns the next result of a `close`.
    fn take_ended(&mut self) -> Option<Ended>;
    /// Whether the peer's listener has reacted to an attempt at least like this; `None` if that is not known.
    fn has_reacted(&self, id: usize, least: Listener) -> Option<bool>;
    /// Arranges for `Session::due` at this time.
    fn schedule(&mut self, id: usize, at: Instant);
    /// Stops or resumes receiving from the peer.
    fn pause(&mut self, id: usize, on: bool);
    /// Returns a number that no other process can guess.
    fn random(&mut self) -> Result<u32>;

    /// Sends a short packet at once. Returns false if nothing was done.
    fn inject(&mut self, id: usize, bytes: &[u8]) -> bool;
    /// Writes a few bytes to memory of the peer at once. Returns false if nothing was done.
    fn inject_write(&mut self, id: usize, bytes: &[u8], data: Option<u64>, to: &RemoteSeg) -> bool;
    /// Starts an operation. Operations of one session keep their order.
    fn post(&mut self, post: Post) -> Posted;
    /// Returns all operations in flight, with whether they use memory of the application.
    fn flights_mut(&mut self) -> impl Iterator<Item = (&mut Flight, bool)>;
    fn flights(&self) -> impl Iterator<Item = &Flight>;

    /// Takes memory for a packet that is a header only. FI_EAGAIN: all is in use.
    fn take_head(&mut self) -> Result<Slot>;
    /// Takes memory for a packet with data, or for the data of an operation.
    fn take_copy(&mut self) -> Result<Slot>;
    /// Returns how many more heads, and copies, may be taken.
    fn heads_left(&self) -> usize;
    fn copies_left(&self) -> usize;
    /// Returns memory that no operation uses.
    fn put(&mut self, slot: Slot);
    /// Lends memory of the application to operations of a session. `access`: rights of local operations and of peers.
    fn lend(
        &mut self,
        id: usize,
        iov: IoVec,
        access: u64,
    ) -> core::result::Result<Arc<Lent>, (IoVec, Error)>;
    /// Whether the application counts reads of its memory by peers, so that peers must not read messages.
    fn counts_reads(&self, ep: usize) -> bool;
}

/// Returns the number of posted receives for which the peer gets credits, of a connection that has `depth` receives.
/// Packets with credits use receives, too: if each of them caused another one, they would never end. One receive is not
/// counted, so `depth` must be larger than the result.
pub fn threshold_of(depth: usize) -> usize {
    (depth / 2).max(2)
}

/// A connection below: its number, its session, and the endpoint of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub arrival: u64,
    pub id: usize,
    pub ep: usize,
}
