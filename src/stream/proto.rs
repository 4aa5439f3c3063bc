// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The bytes of the tcp wire format. Pure: no sockets, no state, no allocation beyond the caller's vector.
//! docs/wire/tcp.md describes the format.
//!
//! `frame` has all frames of a connection that is up, and `head` the layout of data headers. `connect` has connection
//! messages; `auth` and `same_host` have the messages between those and the first frame.

mod atomic;
mod auth;
mod collective;
mod connect;
mod export;
mod frame;
mod head;
mod message;
mod rendezvous;
mod rma;
mod same_host;
mod segments;
mod whole;

pub use atomic::{Atomic, AtomicOp, MAX_ATOMIC};
pub use auth::{AuthOp, MAX_AUTH, PROOF, auth_parts, decode_auth, encode_auth};
pub use collective::{Collective, CollectiveEnd};
pub use connect::{
    CLOSES, CM_HEADER, CmHeader, CmKind, EXTENSIONS, MAX_PRIVATE, RdmPrivate, decode_cm, encode_cm,
    private_of,
};
pub use export::Exported;
pub use frame::{Close, Decoded, Frame, Refused, decode, is_rendezvous_data};
pub use head::{BASE_HEADER, MAX_CONTEXTS, MAX_HEADER, WireError, renumber};
pub use message::{MAX_MESSAGE_HEADER, Message};
pub use rendezvous::{Offer, ReadyToSend, RendezvousData, Share};
pub use rma::{MAX_ONE_WRITE, ReadRequest, ReadResponse, Write};
pub use same_host::{Directions, LISTENER_FRAME, SHARES, STAY_FRAME, SameHostFrame, TOKEN, Token};
pub use segments::{MAX_SEGS, PlaceList, RmaSeg};
pub use whole::Whole;

#[cfg(all(test, target_endian = "little"))]
mod tests;
