// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! State of a connection before it is up: an accepted socket whose request is arriving, and the proofs of authorization
//! keys. docs/wire/tcp.md.

use std::cmp::Ordering;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::tcp::auth::Prover;
use engine::address::ip::Addr;
use engine::auth::Key;
use engine::half_open::HasSocket;
use stream::proto::{CmHeader, RdmPrivate};
use sys::socket::Socket;

/// An accepted socket whose request is arriving.
pub struct Handshake {
    pub ep: usize,
    pub(super) socket: Socket,
    pub(super) from: SocketAddr,
    pub(super) exchange: Vec<u8>,
    pub(super) deadline: Instant,
    /// Set after the request has arrived, while the peer proves its authorization key.
    pub(super) pending: Option<Box<Pending>>,
    /// The authorization key that the peer has proved.
    pub(super) key: Option<Key>,
}

impl HasSocket for Handshake {
    fn socket(&self) -> &Socket {
        &self.socket
    }
}

/// State of the key proof for a connection of a keyed endpoint.
#[derive(Default)]
pub struct Auth {
    /// The local request; empty at the side that accepted.
    pub(super) request: Vec<u8>,
    /// Set from the response until the peer has proved its key.
    pub(super) prover: Option<Prover>,
    /// The key that the peer has proved.
    pub(super) key: Option<Key>,
}

impl Auth {
    /// Creates the state after the request was sent.
    pub fn of(request: Vec<u8>) -> Auth {
        Auth {
            request,
            ..Auth::default()
        }
    }

    pub fn by(prover: Prover) -> Auth {
        Auth {
            prover: Some(prover),
            ..Auth::default()
        }
    }

    pub fn proved(key: Key) -> Auth {
        Auth {
            key: Some(key),
            ..Auth::default()
        }
    }

    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }
}

/// A socket that an RDM endpoint has accepted, while its peer proves its key.
pub struct Pending {
    pub(super) header: CmHeader,
    pub(super) private: RdmPrivate,
    pub(super) prover: Prover,
}

/// Compares addresses to decide simultaneous connects: IP as bytes, then port.
pub(super) fn compare(a: &Addr, b: &Addr) -> Ordering {
    fn key(addr: &Addr) -> ([u8; 16], usize, u16) {
        let mut bytes = [0; 16];
        let len = match addr.ip() {
            IpAddr::V4(ip) => {
                bytes[..4].copy_from_slice(&ip.octets());
                4
            }
            IpAddr::V6(ip) => {
                bytes = ip.octets();
                16
            }
        };
        (bytes, len, addr.port())
    }
    key(a).cmp(&key(b))
}
