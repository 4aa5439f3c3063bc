// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The message that opens each direction of a connection, and the private data that RDM endpoints put into it.

use super::head::VERSION;

/// Fixed part of a connection message.
pub const CM_HEADER: usize = 32;
/// Maximum of private data in a connection message (the value of `FI_OPT_CM_DATA_SIZE`).
pub const MAX_PRIVATE: usize = 256;

const RDM_VERSION: u8 = 1;

/// Feature bit, set by both sides: frames beyond those of libfabric's own tcp may be sent (docs/wire/tcp.md,
/// "Extensions").
pub const EXTENSIONS: u8 = 0x02;
/// Feature bit, set by both sides: both agree before one of them closes an idle connection (docs/wire/tcp.md, "Idle
/// connections").
pub const CLOSES: u8 = 0x08;
/// Offsets in a connection message: the version is its first byte, private data follows the fixed part.
const KIND_AT: usize = 1;
const LEN_AT: usize = 2;
/// The counterpart of [`EXTENSIONS`] for connected endpoints, whose private data belongs to the application.
const MARK_AT: usize = 4;
const MARK: [u8; 4] = *b"irf\x01";
/// Set if the sender has a key. In a reject it means that the keys are the reason.
const KEYED_AT: usize = 8;
const KEYED: u8 = 1;
/// A number that shows the byte order of the sender's host.
const PROBE_AT: usize = 24;
const PROBE: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmKind {
    Request,
    Response,
    Reject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmError {
    Version(u8),
    Kind(u8),
    Length(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmHeader {
    pub kind: CmKind,
    pub private_len: usize,
    /// The peer's host has the other byte order: all data headers of this connection are big-endian.
    pub swapped: bool,
    /// The sender supports the extensions. (RDM endpoints announce them in their private data.)
    pub extended: bool,
    /// The sender has an authorization key. In a reject it means that the keys are the reason.
    pub keyed: bool,
}

impl CmKind {
    const fn code(self) -> u8 {
        match self {
            CmKind::Request => 0,
            CmKind::Response => 1,
            CmKind::Reject => 6,
        }
    }

    const fn from_code(code: u8) -> Option<CmKind> {
        match code {
            0 => Some(CmKind::Request),
            1 => Some(CmKind::Response),
            6 => Some(CmKind::Reject),
            _ => None,
        }
    }
}

/// Encodes header and private data in one piece, because some peers fail on a message that arrives in two. The caller
/// has checked the length against [`MAX_PRIVATE`].
pub fn encode_cm(kind: CmKind, private: &[u8], extended: bool, keyed: bool) -> Vec<u8> {
    debug_assert!(private.len() <= MAX_PRIVATE);
    let private = &private[..private.len().min(MAX_PRIVATE)];
    let mut head = [0u8; CM_HEADER];
    head[0] = VERSION;
    head[KIND_AT] = kind.code();
    head[LEN_AT..][..2].copy_from_slice(&(private.len() as u16).to_be_bytes());
    if extended {
        head[MARK_AT..][..MARK.len()].copy_from_slice(&MARK);
    }
    if keyed {
        head[KEYED_AT] = KEYED;
    }
    if kind != CmKind::Reject {
        head[PROBE_AT..].copy_from_slice(&PROBE.to_ne_bytes());
    }
    [&head, private].concat()
}

pub fn decode_cm(bytes: &[u8; CM_HEADER]) -> Result<CmHeader, CmError> {
    if bytes[0] != VERSION {
        return Err(CmError::Version(bytes[0]));
    }
    let kind = CmKind::from_code(bytes[KIND_AT]).ok_or(CmError::Kind(bytes[KIND_AT]))?;
    let len = u16::from_be_bytes([bytes[LEN_AT], bytes[LEN_AT + 1]]);
    if usize::from(len) > MAX_PRIVATE {
        return Err(CmError::Length(len));
    }
    // A reject carries no probe.
    let swapped = kind != CmKind::Reject && bytes[PROBE_AT..] != PROBE.to_ne_bytes();
    Ok(CmHeader {
        kind,
        private_len: usize::from(len),
        swapped,
        extended: bytes[MARK_AT..].starts_with(&MARK),
        keyed: bytes[KEYED_AT] == KEYED,
    })
}

/// Returns the private data of a complete connection message.
pub fn private_of(message: &[u8]) -> &[u8] {
    message.get(CM_HEADER..).unwrap_or(&[])
}

/// Private data of an RDM endpoint's connection messages. A reject echoes the request's eight bytes as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmPrivate {
    /// The version without the top bit.
    pub version: u8,
    /// The top bit of the version: the sender of this response has agreed to a version.
    pub checked: bool,
    pub features: u8,
    /// Port on which the requester listens. Together with its source IP address this names the endpoint.
    pub port: u16,
    pub pid: u32,
}

impl RdmPrivate {
    pub const LEN: usize = 8;
    const CHECKED: u8 = 0x80;

    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0] = self.version & !Self::CHECKED | if self.checked { Self::CHECKED } else { 0 };
        out[1] = self.features;
        out[2..4].copy_from_slice(&self.port.to_be_bytes());
        out[4..8].copy_from_slice(&self.pid.to_be_bytes());
        out
    }

    /// Returns `None` unless there are exactly eight bytes: only the length distinguishes RDM endpoints from others.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        Some(RdmPrivate {
            version: bytes[0] & !Self::CHECKED,
            checked: bytes[0] & Self::CHECKED != 0,
            features: bytes[1],
            port: u16::from_be_bytes([bytes[2], bytes[3]]),
            pid: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
    }

    /// Whether ready-to-send, clear-to-send and rendezvous data may be sent after this response.
    pub fn allows_rendezvous(&self) -> bool {
        self.checked && self.version >= RDM_VERSION
    }

    /// Returns the response to a request. A requester of version 0 does not understand the top bit.
    pub fn answer(&self, known_features: u8, pid: u32) -> Self {
        RdmPrivate {
            version: self.version.min(RDM_VERSION),
            checked: self.version > 0,
            features: self.features & known_features,
            port: self.port,
            pid,
        }
    }
}
