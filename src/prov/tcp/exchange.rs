// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The connection messages at the start of each stream, read from and written to a socket: docs/wire/tcp.md.

use std::sync::OnceLock;
use std::time::SystemTime;

use stream::proto::{CM_HEADER, CmHeader, CmKind, MAX_PRIVATE, decode_cm, encode_cm};
use sys::socket::{Moved, Socket};

/// A connection message that is being read.
pub enum Exchange {
    /// Incomplete.
    Partial,
    Whole(CmHeader),
    /// Malformed, or the end of the stream.
    Broken(&'static str),
}

/// Feature bit of a peer that must open the connections itself.
pub const FIREWALL: u8 = 1;

/// Reads more of a connection message from a socket, without blocking.
pub fn read_exchange(socket: &Socket, have: &mut Vec<u8>) -> Exchange {
    loop {
        let want = match have.len() < CM_HEADER {
            true => CM_HEADER,
            false => match decode_cm(&have[..CM_HEADER].try_into().unwrap_or([0; CM_HEADER])) {
                Ok(header) if have.len() == CM_HEADER + header.private_len => {
                    return Exchange::Whole(header);
                }
                Ok(header) => CM_HEADER + header.private_len,
                Err(_) => return Exchange::Broken("not a connection message of this protocol"),
            },
        };
        let mut room = [0; CM_HEADER + MAX_PRIVATE];
        match socket.read(&mut room[..want - have.len()]) {
            Ok(Moved::Bytes(n)) => have.extend_from_slice(&room[..n]),
            Ok(Moved::Later) => return Exchange::Partial,
            Ok(Moved::End) => return Exchange::Broken("the stream has ended"),
            Err(_) => return Exchange::Broken("the connection was reset"),
        }
    }
}

/// Sends a connection message in one write, as peers expect. The socket is new, so there is room.
pub fn write_exchange(socket: &Socket, kind: CmKind, private: &[u8], extended: bool) -> bool {
    write_whole(socket, &encode_cm(kind, private, extended, false))
}

pub fn write_whole(socket: &Socket, bytes: &[u8]) -> bool {
    matches!(socket.write(bytes), Ok(Moved::Bytes(n)) if n == bytes.len())
}

/// Returns a number for this process that a former process is unlikely to have had, even if each container starts its
/// process IDs at 1: peers use it to distinguish a restart from a duplicate.
pub fn process_id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |t| t.as_nanos() as u64);
        let mixed = (now ^ u64::from(std::process::id()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32).max(1)
    })
}
