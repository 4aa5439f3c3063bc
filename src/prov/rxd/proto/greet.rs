// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The packets by which two endpoints exchange their numbers for each other.
//!
//! A peer of this library marks itself in the sequence number of these packets, which is unused otherwise.

use super::{CTS, Decoded, Head, Malformed, RTS, Reader};

/// Ready to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts<'a> {
    /// The number that the receiver must put into its packets to the sender.
    pub id: u32,
    /// The address of the sender, padded with zeros.
    pub name: &'a [u8; MAX_NAME],
    pub is_ours: bool,
}

/// Clear to send: answers an `Rts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cts {
    /// The number from the `Rts` that this answers.
    pub echo: u32,
    pub id: u32,
    pub is_ours: bool,
}

impl<'a> Rts<'a> {
    /// `name` must not be longer than `MAX_NAME`.
    pub fn encode(id: u32, name: &[u8], is_ours: bool, out: &mut [u8]) -> usize {
        let mut padded = [0; MAX_NAME];
        padded[..name.len()].copy_from_slice(name);
        let mut out = head(is_ours).encode(RTS, 0, out);
        out.u64(id.into());
        out.bytes(&padded);
        out.len()
    }

    pub(super) fn decode(head: Head, mut bytes: Reader<'a>) -> Decoded<Rts<'a>> {
        let id = number(bytes.u64()?)?;
        let name = bytes.rest().try_into();
        Ok(Rts {
            id,
            name: name.map_err(|_| Malformed("a name of another length"))?,
            is_ours: head.seq == MARK,
        })
    }
}

impl Cts {
    pub fn encode(echo: u32, id: u32, is_ours: bool, out: &mut [u8]) -> usize {
        let mut out = head(is_ours).encode(CTS, 0, out);
        out.u64(echo.into());
        out.u64(id.into());
        out.len()
    }

    pub(super) fn decode(head: Head, mut bytes: Reader<'_>) -> Decoded<Cts> {
        let cts = Cts {
            echo: number(bytes.u64()?)?,
            id: number(bytes.u64()?)?,
            is_ours: head.seq == MARK,
        };
        bytes.end(cts)
    }
}

fn head(is_ours: bool) -> Head {
    Head {
        peer: 0,
        seq: if is_ours { MARK } else { 0 },
    }
}

fn number(id: u64) -> Decoded<u32> {
    match u32::try_from(id) {
        Ok(id) if id > 0 => Ok(id),
        _ => Err(Malformed("a number that is none")),
    }
}

/// Bytes of a name.
pub const MAX_NAME: usize = 64;
/// Bytes of the longest packet of the handshake.
#[cfg(test)]
pub const GREETING: usize = super::BASE + 8 + MAX_NAME;
const MARK: u64 = u64::from_be_bytes(*b"ironrxd1");
