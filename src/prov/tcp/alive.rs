// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Probes of silent hosts on idle connections. `stream::alive` checks connections with data in flight.

use std::io;
use std::time::Duration;

use sys::socket::Socket;

/// Makes the kernel probe the peer while no data is in flight.
pub fn probe_at_rest(socket: &Socket, timeout: Duration) -> io::Result<()> {
    match timeout.is_zero() {
        true => socket.set_keepalive(None),
        // The first probe comes after half the time, then four more follow.
        false => socket.set_keepalive(Some((timeout / 2, timeout / 8, 4))),
    }
}
