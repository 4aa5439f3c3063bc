// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints that talk over streams, one for each pair: what goes over a stream and what becomes of it at both ends.
//! How a stream comes about is the provider's (`net`).
//!
//! `transport` is the state of a domain and, with `parts`, what the engine calls; `ep` endpoints and their peers; `conn`
//! one peer, `link` what carries its bytes, `session` what both sides owe each other; `post`, `read` and `flush` move
//! bytes; `attempt` repeats attempts to connect and `disconnect` ends connections, `drain` what is still owed then;
//! `progress` decides what is polled; `pace` which small frames gather, `proto` the bytes themselves. Between processes
//! of one host a stream may go over shared memory: `shm_channel` is the memory, `shm_connect` sets it up by the
//! messages of `hello`, `shm_poll` polls it, `copy_mode` chooses between ring and process copy, `process_probe` tells
//! whether a peer's memory can be reached, `region_directory` is what peers know of registered memory.

mod attempt;
pub mod coll;
pub mod conn;
pub mod context;
pub mod copy_mode;
mod disconnect;
mod drain;
pub mod ep;
mod flush;
pub mod hello;
pub mod link;
pub mod net;
mod pace;
mod parts;
pub mod pending_peer;
mod post;
mod process_probe;
pub mod progress;
pub mod proto;
mod read;
pub mod region_directory;
mod regions;
pub mod session;
mod settle;
pub mod shm_channel;
pub mod shm_connect;
mod shm_poll;
mod stall;
pub mod transport;

pub use net::Net;
pub use transport::Stream;
