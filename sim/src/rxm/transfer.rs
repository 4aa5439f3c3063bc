// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What travels on the connections below rxm.

use crate::network::Load;
use base::Error;
use prov::rxm::testing::Remote;

pub enum Kind {
    Syn,
    /// The listener's kernel has accepted the connection.
    Accepted,
    /// A request of rxm to connect, and its answers.
    Request(Vec<u8>),
    Refused(Vec<u8>),
    Answer(Vec<u8>),
    Packet(Vec<u8>),
    /// A read or write of memory of the receiver; `op` is an operation of the sender.
    Read {
        op: u64,
        remote: Vec<Remote>,
    },
    Write {
        op: Option<u64>,
        remote: Vec<Remote>,
        bytes: Vec<u8>,
    },
    /// The end of an operation, with what was read.
    Done {
        op: u64,
        bytes: Option<Vec<u8>>,
    },
    /// The receiver has taken so many bytes.
    Window(usize),
    /// A kernel tests whether the peer's kernel is alive.
    Probe,
    Alive,
    End(Error),
}

impl Kind {
    /// Whether the bytes count in the window of the connection.
    pub fn is_data(&self) -> bool {
        use Kind::*;
        matches!(self, Packet(_) | Read { .. } | Write { .. } | Done { .. })
    }

    /// Returns the bytes on the wire.
    pub fn bytes(&self) -> usize {
        match self {
            Kind::Request(bytes)
            | Kind::Refused(bytes)
            | Kind::Answer(bytes)
            | Kind::Packet(bytes)
            | Kind::Write { bytes, .. } => FRAME + bytes.len(),
            Kind::Read { remote, .. } => FRAME + size_of_val(&remote[..]),
            Kind::Done { bytes, .. } => FRAME + bytes.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }
}

/// Bytes of a header of tcp.
const FRAME: usize = 16;

/// A connection, as both sides name it: the rank that has asked for it, and the number of the connection there.
pub type Key = (u32, u64);

pub struct Transfer {
    pub key: Key,
    pub kind: Kind,
    flow: u64,
}

impl Transfer {
    pub fn new(key: Key, from: u32, kind: Kind) -> Transfer {
        let (client, number) = key;
        // Numbers of connections have a serial number above the index of the session.
        let serial = number >> 32 & 0x3fff_ffff;
        let is_answer = u64::from(client != from);
        let flow = is_answer << 63 | u64::from(client) << 30 | serial;
        Transfer { key, kind, flow }
    }
}

impl Load for Transfer {
    fn bytes(&self) -> usize {
        self.kind.bytes()
    }

    fn flow(&self) -> Option<u64> {
        Some(self.flow)
    }

    fn is_of_kernel(&self) -> bool {
        use Kind::*;
        matches!(self.kind, Accepted | Window(_) | Probe | Alive)
    }
}
