// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The private data of connection requests, answers and refusals.
#![forbid(unsafe_code)]

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
/// Of the header of packets, and what is announced for that of operations, which says 2 itself.
const CONTROL_VERSION: u8 = super::header::VERSION;
const OP_VERSION: u8 = 3;

/// By what one side names the other's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnId {
    /// The peer writes it into each packet.
    pub index: u32,
    /// Tells a process from the one before it at the same address.
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

/// Whether a side counts the receives that it has posted and tells the peer. Peers of old releases say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    Unknown,
    On,
    Off,
}

impl FlowControl {
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

/// A peer wants to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it listens; the rest of its address is that of the connection.
    pub port: u16,
    pub flow: FlowControl,
    /// The longest message that it sends in one packet: both sides have the same.
    pub eager: u32,
    /// Receives that it posts; of no consequence.
    pub depth: u32,
    pub id: ConnId,
}

/// The peer takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub id: ConnId,
    pub depth: u32,
    pub flow: FlowControl,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Unspecified,
    /// The two do not speak the same.
    Refused,
    /// There is a connection already, or one of the peer's own is on its way.
    Connected,
}

impl Request {
    pub fn encode(&self) -> [u8; REQUEST_SIZE] {
        let mut out = [0; REQUEST_SIZE];
        out[..4].copy_from_slice(&[VERSION, ORDER, CONTROL_VERSION, OP_VERSION]);
        out[4..6].copy_from_slice(&self.port.to_ne_bytes());
        out[6] = self.flow.code();
        out[8..12].copy_from_slice(&self.eager.to_ne_bytes());
        out[12..16].copy_from_slice(&self.depth.to_ne_bytes());
        out[16..24].copy_from_slice(&self.id.word().to_ne_bytes());
        out
    }

    /// In words why it cannot be taken: something else than rxm, or one that speaks otherwise.
    pub fn decode(bytes: &[u8]) -> Result<Request, &'static str> {
        if bytes.len() != REQUEST_SIZE {
            return Err("its connection data are not those of ofi_rxm");
        }
        let [version, order, control, op] = take(bytes, 0);
        match (version, order, control, op) {
            (VERSION, ORDER, CONTROL_VERSION, OP_VERSION) => Ok(Request {
                port: u16_at(bytes, 4),
                flow: FlowControl::of(bytes[6]),
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
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Response> {
        (bytes.len() == RESPONSE_SIZE).then(|| Response {
            id: ConnId::of(u64_at(bytes, 0)),
            depth: u32_at(bytes, 8),
            flow: FlowControl::of(bytes[12]),
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

/// What is too short, or of another version, says "refused".
pub fn reason_of(bytes: &[u8]) -> Reason {
    match bytes {
        [VERSION, 0, ..] => Reason::Unspecified,
        [VERSION, 2, ..] => Reason::Connected,
        _ => Reason::Refused,
    }
}
