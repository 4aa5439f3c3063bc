// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The frames by which endpoints with an authorization key prove it to each other. `prov::tcp::auth` computes the
//! proofs; docs/wire/tcp.md, "Authorization", describes the sequence.

use super::head::{BASE_HEADER, decode_plain, encode_plain};

/// Bytes of a nonce and of a proof.
pub const PROOF: usize = 32;
/// The longest of these frames.
pub const MAX_AUTH: usize = BASE_HEADER + 2 * PROOF;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthOp {
    /// From the side that connected: its nonce and a proof of its key.
    Hello,
    /// The nonce of the other side and its proof.
    Answer,
    /// A proof over both nonces.
    Finish,
    /// No key fits: the connection ends.
    Refuse,
}

/// The bytes are not a frame of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAuth;

impl AuthOp {
    const fn code(self) -> u8 {
        match self {
            AuthOp::Hello => 28,
            AuthOp::Answer => 29,
            AuthOp::Finish => 30,
            AuthOp::Refuse => 31,
        }
    }

    const fn from_code(code: u8) -> Option<AuthOp> {
        match code {
            28 => Some(AuthOp::Hello),
            29 => Some(AuthOp::Answer),
            30 => Some(AuthOp::Finish),
            31 => Some(AuthOp::Refuse),
            _ => None,
        }
    }

    pub const fn payload(self) -> usize {
        match self {
            AuthOp::Hello | AuthOp::Answer => 2 * PROOF,
            AuthOp::Finish => PROOF,
            AuthOp::Refuse => 0,
        }
    }
}

/// Encodes a frame of `op` with these parts as its payload.
pub fn encode_auth(op: AuthOp, parts: &[&[u8; PROOF]], counter: u8, swap: bool) -> Vec<u8> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
    let bytes = encode_plain(op.code(), &parts, counter, swap);
    debug_assert_eq!(bytes.len(), BASE_HEADER + op.payload());
    bytes
}

/// Returns the first two parts of a complete frame; missing parts are empty.
pub fn auth_parts(frame: &[u8]) -> [&[u8]; 2] {
    let payload = frame.get(BASE_HEADER..).unwrap_or(&[]);
    let (first, rest) = payload.split_at(PROOF.min(payload.len()));
    [first, rest]
}

/// Returns the operation whose frame begins with these bytes. The payload has the length that the operation requires.
pub fn decode_auth(header: &[u8; BASE_HEADER], swap: bool) -> Result<AuthOp, NoAuth> {
    let (code, payload) = decode_plain(header, swap).ok_or(NoAuth)?;
    let op = AuthOp::from_code(code).ok_or(NoAuth)?;
    (payload == op.payload() as u64).then_some(op).ok_or(NoAuth)
}
