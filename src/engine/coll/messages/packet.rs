// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The header of a frame in messages: docs/wire/collectives.md.

use crate::coll::{Frame, Part};
use base::Error;

/// Bytes of a header.
pub const HEADER: usize = 32;

/// Begins each header, in the byte order of its sender.
const MAGIC: u32 = 0x4669_636c;
const VERSION: u8 = 1;

const HELLO: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;
const NUMBER: u8 = 4;

/// The content of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// The sender waits for frames of this endpoint.
    Hello,
    /// A frame whose payload has `len` bytes.
    Frame { frame: Frame, len: u64 },
    /// The number of a group.
    Number(Number),
}

/// The number of a group that its first member has chosen, from a member to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub edge: Ranks,
    /// How many joins of both with the same ranks came before.
    pub nth: u32,
    /// The error if the join has failed.
    pub number: core::result::Result<u64, Error>,
}

/// Two members of a group: number of members, ranks of the one that knows the number first and of the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    pub members: u32,
    pub parent: u32,
    pub child: u32,
}

/// Why a message is refused.
pub type Why = &'static str;

impl Packet {
    pub fn write(&self, to: &mut [u8]) {
        let to = &mut to[..HEADER];
        to.fill(0);
        let (kind, what, seq, value, group, len) = match *self {
            Packet::Hello => (HELLO, 0, 0, 0, 0, 0),
            Packet::Number(Number { edge, nth, number }) => {
                let ranks = u64::from(edge.parent) << 32 | u64::from(edge.child);
                let error = number.err().map_or(0, |error| error.code() as u16);
                to[6..8].copy_from_slice(&error.to_ne_bytes());
                (
                    NUMBER,
                    error.to_ne_bytes()[0],
                    nth,
                    edge.members,
                    number.unwrap_or(0),
                    ranks,
                )
            }
            Packet::Frame {
                frame: Frame { group, seq, part },
                len,
            } => match part {
                Part::Data { what, round } => (DATA, what, seq, round, group, len),
                Part::End(error) => (END, 0, seq, error.code() as u32, group, 0),
            },
        };
        to[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        to[4..7].copy_from_slice(&[VERSION, kind, what]);
        to[8..12].copy_from_slice(&seq.to_ne_bytes());
        to[12..16].copy_from_slice(&value.to_ne_bytes());
        to[16..24].copy_from_slice(&group.to_ne_bytes());
        to[24..32].copy_from_slice(&len.to_ne_bytes());
    }

    pub fn read(bytes: &[u8]) -> Result<Packet, Why> {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return Err("a message of no collective");
        };
        let (words, _) = header.as_chunks::<4>();
        let word = |at: usize| u32::from_ne_bytes(words[at]);
        let (longs, _) = header.as_chunks::<8>();
        let long = |at: usize| u64::from_ne_bytes(longs[at]);
        match word(0) {
            MAGIC => {}
            other if other == MAGIC.swap_bytes() => {
                return Err("a peer with the other byte order");
            }
            _ => return Err("a message of no collective"),
        }
        let [version, kind, what, rest] = words[1];
        if version != VERSION {
            return Err("a collective of another version");
        }
        let (seq, value, group, len) = (word(2), word(3), long(2), long(3));
        let part = match kind {
            HELLO => return Ok(Packet::Hello),
            NUMBER => {
                let error = u16::from_ne_bytes([what, rest]);
                return Ok(Packet::Number(Number {
                    edge: Ranks {
                        members: value,
                        parent: (len >> 32) as u32,
                        child: len as u32,
                    },
                    nth: seq,
                    number: match error {
                        0 => Ok(group),
                        error => Err(Error::new(error.into())),
                    },
                }));
            }
            DATA => Part::Data { what, round: value },
            END => match i32::try_from(value) {
                Ok(code) if code > 0 && len == 0 => Part::End(Error::new(code)),
                _ => return Err("the end of a collective without an error"),
            },
            _ => return Err("an unknown kind of frame"),
        };
        let frame = Frame { group, seq, part };
        Ok(Packet::Frame { frame, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/wire/collectives.md
    #[test]
    fn headers_come_back_and_others_are_refused() {
        let part = Part::Data { what: 3, round: 9 };
        let data = Frame {
            group: 0x0102_0304_0506_0708,
            seq: 5,
            part,
        };
        let end = Frame {
            part: Part::End(Error::CANCELED),
            ..data
        };
        let number = Number {
            edge: Ranks {
                members: 7,
                parent: 4,
                child: 6,
            },
            nth: 3,
            number: Err(Error::CONNRESET),
        };
        for packet in [
            Packet::Hello,
            Packet::Frame {
                frame: data,
                len: 1 << 40,
            },
            Packet::Frame { frame: end, len: 0 },
            Packet::Number(Number {
                number: Ok(u64::MAX),
                ..number
            }),
            Packet::Number(number),
        ] {
            let mut bytes = [0xff; HEADER + 1];
            packet.write(&mut bytes);
            assert_eq!(Packet::read(&bytes), Ok(packet));
            assert_eq!(bytes[HEADER], 0xff);
            assert!(Packet::read(&bytes[..HEADER - 1]).is_err());
            let swapped = |bytes: &mut [u8; HEADER + 1]| bytes[..4].reverse();
            swapped(&mut bytes);
            assert_eq!(
                Packet::read(&bytes),
                Err("a peer with the other byte order")
            );
            swapped(&mut bytes);
            for (at, wrong) in [(0, 0), (4, 2), (5, 0), (5, 5)] {
                let mut bytes = bytes;
                bytes[at] = wrong;
                assert!(Packet::read(&bytes).is_err(), "{at} {wrong}");
            }
        }
        let mut bytes = [0; HEADER];
        Packet::Frame { frame: end, len: 0 }.write(&mut bytes);
        bytes[24] = 1;
        assert!(Packet::read(&bytes).is_err());
        bytes[24] = 0;
        bytes[12..16].fill(0);
        assert!(Packet::read(&bytes).is_err());
    }
}
