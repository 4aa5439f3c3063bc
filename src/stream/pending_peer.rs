// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A peer of this host that has connected and not identified itself yet: see `shm_host::connect`.

use std::os::fd::OwnedFd;
use std::time::Instant;

use engine::half_open::HasSocket;
use sys::socket::Socket;

/// A peer that has connected to an endpoint's listener and whose hello has not arrived completely.
pub struct PendingPeer {
    pub ep: usize,
    pub(super) deadline: Instant,
    pub socket: Socket,
    pub(super) bytes: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

impl HasSocket for PendingPeer {
    fn socket(&self) -> &Socket {
        &self.socket
    }
}
