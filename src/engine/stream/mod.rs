// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints that talk over streams, one for each pair: what goes over a stream and what becomes of it at both ends. How a
//! stream comes about is the provider's (`net`).
//!
//! `transport` is the state of a domain and, with `parts`, what the engine calls; `ep` endpoints and their peers; `conn` one
//! peer; `tx`,
//! `flush`, `rx`, `rma`, `atomic`, `short`, `rendezvous`, `context` and `coll` move bytes; `attempt` repeats attempts to connect and `disconnect` ends connections, `drain` what is still owed then; `progress` decides
//! where is looked; `pace` which small frames gather, `proto` the bytes themselves. Between processes of one host a stream may go over shared memory: `shm` is
//! the memory, `meeting` brings two processes to it by the messages of `hello`, `shared` what it means for a connection,
//! `directory` what peers know of registered memory, `direct` what they do with that, `share` how both ends of a large message
//! copy it.

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
