// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The private data of connection requests, answers and refusals.

use super::{take, u16_at, u32_at, u64_at};

const REQUEST_SIZE: usize = 24;
const RESPONSE_SIZE: usize = 16;
const REJECT_SIZE: usize = 2;

const VERSION: u8 = 1;
const LITTLE: u8 = 2;
const BIG: u8 = 1;
const ORDER: u8 = if cfg!(target_endian = "little") {
    LITTLE
} else {
    BIG
};
/// Version of the packet header, and the announced version of the operation header (which itself contains 2).
const CONTROL_VERSION: u8 = super::header::VERSION;
const OP_VERSION: u8 = 3;

/// Identifies a connection at one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnId {
    /// Index that the peer writes into each packet.
    pub index: u32,
    /// Distinguishes a process from the previous one at the same address.
    pub pid: u32,
}

impl ConnId {
    fn of(word: u64) -> ConnId {
        ConnId {
            index: word as u32,
            pid: (word >> 32) as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.pid) << 32 | u64::from(self.index)
    }
}

/// Whether a side counts its posted receives and reports them to the peer. Peers of old releases announce nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    Unknown,
    On,
    Off,
}

impl FlowControl {
    /// What a side announces that counts, or does not.
    pub fn of_side(counts: bool) -> FlowControl {
        match counts {
            true => FlowControl::On,
            false => FlowControl::Off,
        }
    }

    fn of(code: u8) -> FlowControl {
        match code {
            1 => FlowControl::On,
            2 => FlowControl::Off,
            _ => FlowControl::Unknown,
        }
    }

    fn code(self) -> u8 {
        match self {
            FlowControl::Unknown => 0,
            FlowControl::On => 1,
            FlowControl::Off => 2,
        }
    }
}

/// In a byte that other libraries ignore, and that some do not set.
const GROUPS: u8 = 0xc5;

const fn groups(on: bool) -> u8 {
    if on { GROUPS } else { 0 }
}

/// A peer's request to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Port of the peer's listener; the rest of its address is that of the connection.
    pub port: u16,
    pub flow: FlowControl,
    /// The endpoint takes part in collectives of this library.
    pub groups: bool,
    /// Maximum size of a message in one packet: both sides must have the same.
    pub eager: u32,
    /// Number of receives that it posts; ignored.
    pub depth: u32,
    pub id: ConnId,
}

/// Accepts a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub id: ConnId,
    pub depth: u32,
    pub flow: FlowControl,
    /// As in the request.
    pub groups: bool,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Unspecified,
    /// The two sides have incompatible versions or settings.
    Refused,
    /// A connection exists already, or an attempt of the refusing peer is in progress.
    Connected,
}

impl Reason {
    /// The reason in logs.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Unspecified => "refused without a reason",
            Reason::Refused => "refused as incompatible",
            Reason::Connected => "refused: a connection exists, or is being established",
        }
    }
}

impl Request {
    pub fn encode(&self) -> [u8; REQUEST_SIZE] {
        let mut out = [0; REQUEST_SIZE];
        out[..4].copy_from_slice(&[VERSION, ORDER, CONTROL_VERSION, OP_VERSION]);
        out[4..6].copy_from_slice(&self.port.to_ne_bytes());
        out[6] = self.flow.code();
        out[7] = groups(self.groups);
        out[8..12].copy_from_slice(&self.eager.to_ne_bytes());
        out[12..16].copy_from_slice(&self.depth.to_ne_bytes());
        out[16..24].copy_from_slice(&self.id.word().to_ne_bytes());
        out
    }

    /// Decodes a request. The error text says why it cannot be used: not rxm, or incompatible.
    pub fn decode(bytes: &[u8]) -> Result<Request, &'static str> {
        if bytes.len() != REQUEST_SIZE {
            return Err("its connection data are not those of ofi_rxm");
        }
        let [version, order, control, op] = take(bytes, 0);
        match (version, order, control, op) {
            (VERSION, ORDER, CONTROL_VERSION, OP_VERSION) => Ok(Request {
                port: u16_at(bytes, 4),
                flow: FlowControl::of(bytes[6]),
                groups: bytes[7] == GROUPS,
                eager: u32_at(bytes, 8),
                depth: u32_at(bytes, 12),
                id: ConnId::of(u64_at(bytes, 16)),
            }),
            (VERSION, _, CONTROL_VERSION, OP_VERSION) => Err("its host has the other byte order"),
            _ => Err("it speaks another version of the protocol"),
        }
    }
}

impl Response {
    pub fn encode(&self) -> [u8; RESPONSE_SIZE] {
        let mut out = [0; RESPONSE_SIZE];
        out[..8].copy_from_slice(&self.id.word().to_ne_bytes());
        out[8..12].copy_from_slice(&self.depth.to_ne_bytes());
        out[12] = self.flow.code();
        out[13] = groups(self.groups);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Response> {
        (bytes.len() == RESPONSE_SIZE).then(|| Response {
            id: ConnId::of(u64_at(bytes, 0)),
            depth: u32_at(bytes, 8),
            flow: FlowControl::of(bytes[12]),
            groups: bytes[13] == GROUPS,
        })
    }
}

pub fn reject(reason: Reason) -> [u8; REJECT_SIZE] {
    let code = match reason {
        Reason::Unspecified => 0,
        Reason::Refused => 1,
        Reason::Connected => 2,
    };
    [VERSION, code]
}

/// Decodes the reason. Short data or another version counts as `Refused`.
pub fn reason_of(bytes: &[u8]) -> Reason {
    match bytes {
        [VERSION, 0, ..] => Reason::Unspecified,
        [VERSION, 2, ..] => Reason::Connected,
        _ => Reason::Refused,
    }
}
