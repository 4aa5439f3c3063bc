// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints that communicate over streams, one for each pair of peers: the protocol on a stream and its handling at
//! both ends. The provider establishes the streams.
//!
//! - `peers` owns the endpoints, their connections, and the index by address. `ep` is one endpoint, `conn` one peer: a
//!   `session` and the `link` under it.
//! - `poller` owns the epoll set, deadlines, and the list of sockets that are read directly. It knows no session.
//! - `shm_host` does the same for rings in shared memory: which are polled, which have no room, and whether peers
//!   ring the doorbell. Its `connect` brings two processes to shared memory by the messages of `hello`; its `quiet`
//!   leaves idle peers to their doorbells.
//! - `connector` is the provider's part: handshakes, listeners, addresses. Events go in, and actions come out through
//!   the `desk`.
//! - `session` is the protocol state between two peers, without epoll and without a clock: messages, rendezvous, remote
//!   memory access, atomic operations, frames of collectives, loss. Its folder has a file for each of its parts.
//! - `lines` decides which of the two serves a connection.
//! - `link` carries the bytes of one connection, over a socket or over memory. `proto` encodes and decodes frames.
//! - `transport` joins these parts: it implements the traits of the engine, and passes events to sessions and to the
//!   connector. Its folder has a file for each task.
//!
//! `shm_channel` is the memory that two processes of one host share. `copy_mode` chooses between the ring and a copy
//! from the sender's memory. `region_directory` shows registered memory to peers, which read and write it by
//! `session::direct`; `session::told` and `session::announced` have both ends copy a large message.
#![forbid(unsafe_code)]

pub mod conn;
pub mod connector;
pub mod copy_mode;
pub mod desk;
pub mod ep;
pub mod hello;
mod idle;
mod lines;
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
