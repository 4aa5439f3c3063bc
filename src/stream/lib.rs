// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints that communicate over streams, one for each pair of peers: the protocol on a stream and its handling at
//! both ends. The provider makes the streams (`net`).
//!
//! - `transport` is the state of a domain and what the engine calls first; `parts` has the other calls.
//! - `ep` has endpoints and their peers, `context` the contexts of scalable endpoints. `conn` is one peer: a `session`
//!   and the `link` under it.
//! - `session` is the protocol state between two peers, without epoll and without a clock: messages, rendezvous, remote
//!   memory access, atomic operations, frames of collectives, loss. Its folder has a file for each.
//! - `proto` encodes and decodes frames.
//! - `post` passes an operation to its session. `settle` calls a session, and then does the work that the session
//!   leaves to the stream. `coll` connects collectives with sessions.
//! - `progress` decides which connections are polled, `read` reads their links, `flush` writes what is queued.
//! - `attempt` repeats attempts to connect. `disconnect` ends connections, and `drain` delivers what is still owed
//!   before an endpoint ends. `stall` reports operations that wait too long for a peer. `regions` closes registered
//!   memory that peers may be using.
//!
//! Between processes of one host a stream may go over shared memory. `shm_channel` is that memory, `shm_connect` brings
//! two processes to it by the messages of `hello`, and `shm_poll` polls it, sleeps and wakes. `copy_mode` chooses
//! between the ring and a copy from the sender's memory. `region_directory` shows registered memory to peers, which
//! read and write it by `session::direct`; `session::split_copy` has both ends copy a large message.
#![forbid(unsafe_code)]

pub mod conn;
pub mod connector;
pub mod copy_mode;
pub mod desk;
pub mod ep;
pub mod hello;
mod idle;
pub mod link;
pub mod peers;
pub mod pending_peer;
pub mod poller;
mod process_probe;
pub mod proto;
pub mod region_directory;
pub mod session;
pub mod shm_channel;
pub mod shm_host;
pub mod transport;

pub use connector::Connector;
pub use desk::Desk;
pub use transport::Stream;
