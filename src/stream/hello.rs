// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The two messages by which processes agree to share memory: docs/wire/shm.md. This module does no I/O. Both sides run
//! on one host, so numbers are in its byte order. The provider interprets the name of the connecting side.

use core::fmt;
use std::io;

use crate::process_probe::ProcessProbe;
use base::Error;
use sync::ring::is_capacity;
use sys::local;

/// Bytes of a hello.
pub const HELLO: usize = 320;
/// Bytes that name the connecting side, at most.
const WHO: usize = 255;
const MAGIC: [u8; 4] = *b"IFsm";
/// Version of these messages and of the layout of the shared memory.
const VERSION: u16 = 4;

/// The first message: names the connecting side and describes the memory that comes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// Bytes of each ring.
    pub ring: usize,
    pub probe: ProcessProbe,
    /// A second descriptor shows registered memory, and the endpoint grants the use of it.
    pub is_open: bool,
    /// Kinds of device memory that the side can map, a bit for each: `hmem::import::kinds`.
    pub imports: u8,
    /// Name of the connecting side, at most `WHO` bytes.
    pub who: Vec<u8>,
}

/// The answer to a hello.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// The same flag as in the hello. If set, the answer carries one descriptor.
    pub is_open: bool,
    pub imports: u8,
    pub probe: ProcessProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Welcome,
    /// The peer belongs to another user.
    User,
    /// The peer uses another protocol or another version.
    Version,
    /// The memory is not what it should be.
    Memory,
    /// The side that accepts has no free descriptor.
    Descriptors,
}

impl Verdict {
    const ALL: [Verdict; 5] = [
        Verdict::Welcome,
        Verdict::User,
        Verdict::Version,
        Verdict::Memory,
        Verdict::Descriptors,
    ];

    /// Returns the verdict if the memory of a pending peer cannot be used.
    pub fn of(error: &io::Error) -> Verdict {
        match local::is_out_of_descriptors(error) {
            true => Verdict::Descriptors,
            false => Verdict::Memory,
        }
    }

    /// Returns the error of operations for a peer with this verdict.
    pub fn error(self) -> Error {
        match self {
            Verdict::User => Error::ACCES,
            Verdict::Welcome | Verdict::Version => Error::CONNREFUSED,
            Verdict::Memory => Error::NOMEM,
            Verdict::Descriptors => Error::MFILE,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Welcome => "welcome",
            Verdict::User => "the processes belong to different users",
            Verdict::Version => "not the same version of the shared memory protocol",
            Verdict::Memory => "the memory that was offered cannot be shared",
            Verdict::Descriptors => "the side that accepts has no free descriptor",
        })
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

fn put_probe(out: &mut [u8], at: usize, probe: &ProcessProbe) -> usize {
    let at = put(out, at, &probe.address.to_ne_bytes());
    put(out, at, &probe.bytes)
}

fn probe(bytes: &[u8]) -> Option<ProcessProbe> {
    let (address, rest) = bytes.split_first_chunk()?;
    Some(ProcessProbe {
        address: u64::from_ne_bytes(*address),
        bytes: *rest.first_chunk()?,
    })
}

/// Offsets of the fields that both messages have; the magic comes first.
const VERSION_AT: usize = 4;
const PROBE_AT: usize = 16;
const AFTER_PROBE: usize = PROBE_AT + 8 + ProcessProbe::LEN;
/// Offsets in a hello.
const WHO_LEN_AT: usize = 6;
const RING_AT: usize = 8;
const WHO_AT: usize = AFTER_PROBE;
const OPEN_AT: usize = HELLO - 1;
const IMPORTS_AT: usize = HELLO - 2;
/// Offsets in an answer.
const VERDICT_AT: usize = 6;
const ANSWER_OPEN_AT: usize = 7;
const ANSWER_IMPORTS_AT: usize = 8;

/// Writes the magic and the version of this library.
fn put_start(out: &mut [u8]) {
    put(out, 0, &MAGIC);
    put(out, VERSION_AT, &VERSION.to_ne_bytes());
}

/// Returns the version of a message, or `None` without the magic.
fn version(bytes: &[u8]) -> Option<u16> {
    bytes.starts_with(&MAGIC).then(|| half(bytes, VERSION_AT))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

impl Hello {
    pub fn encode(&self) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        debug_assert!(self.who.len() <= WHO);
        let who = &self.who[..self.who.len().min(WHO)];
        put_start(&mut out);
        put(&mut out, WHO_LEN_AT, &(who.len() as u16).to_ne_bytes());
        put(&mut out, RING_AT, &(self.ring as u64).to_ne_bytes());
        put_probe(&mut out, PROBE_AT, &self.probe);
        put(&mut out, WHO_AT, who);
        out[OPEN_AT] = u8::from(self.is_open);
        out[IMPORTS_AT] = self.imports;
        out
    }

    pub fn decode(bytes: &[u8; HELLO]) -> Result<Hello, Verdict> {
        if version(bytes) != Some(VERSION) {
            return Err(Verdict::Version);
        }
        let len = usize::from(half(bytes, WHO_LEN_AT));
        if len > WHO {
            return Err(Verdict::Version);
        }
        let who = bytes[WHO_AT..WHO_AT + len].to_vec();
        let mut ring = [0; 8];
        ring.copy_from_slice(&bytes[RING_AT..RING_AT + 8]);
        let ring = usize::try_from(u64::from_ne_bytes(ring)).map_err(|_| Verdict::Memory)?;
        if !is_capacity(ring) || !ring.is_multiple_of(4096) {
            return Err(Verdict::Memory);
        }
        Ok(Hello {
            ring,
            probe: probe(&bytes[PROBE_AT..]).ok_or(Verdict::Version)?,
            is_open: bytes[OPEN_AT] != 0,
            imports: bytes[IMPORTS_AT],
            who,
        })
    }
}

impl Answer {
    pub const LEN: usize = AFTER_PROBE;

    pub fn encode(&self) -> [u8; Answer::LEN] {
        let mut out = [0; Answer::LEN];
        put_start(&mut out);
        let verdict = Verdict::ALL.iter().position(|v| *v == self.verdict);
        out[VERDICT_AT] = verdict.unwrap_or(0) as u8;
        out[ANSWER_OPEN_AT] = u8::from(self.is_open);
        out[ANSWER_IMPORTS_AT] = self.imports;
        put_probe(&mut out, PROBE_AT, &self.probe);
        out
    }

    /// Returns `None` if the bytes are not an answer.
    pub fn decode(bytes: &[u8; Answer::LEN]) -> Option<Answer> {
        let verdict = match version(bytes)? == VERSION {
            true => *Verdict::ALL.get(usize::from(bytes[VERDICT_AT]))?,
            false => Verdict::Version,
        };
        Some(Answer {
            verdict,
            is_open: bytes[ANSWER_OPEN_AT] != 0,
            imports: bytes[ANSWER_IMPORTS_AT],
            probe: probe(&bytes[PROBE_AT..])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            ring: 65536,
            probe: ProcessProbe {
                address: 0x1234_5678_9abc,
                bytes: *b"0123456789abcdef",
            },
            is_open: true,
            imports: 2,
            who: b"fi_shm://1:2:3".to_vec(),
        }
    }

    #[test]
    fn messages_are_read_back() {
        assert_eq!(Hello::decode(&hello().encode()), Ok(hello()));
        for verdict in Verdict::ALL {
            let answer = Answer {
                verdict,
                is_open: verdict == Verdict::Memory,
                imports: 6,
                probe: hello().probe,
            };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn messages_have_their_bytes() {
        let bytes = hello().encode();
        assert_eq!(bytes[..8], [b'I', b'F', b's', b'm', 4, 0, 14, 0]);
        assert_eq!(bytes[8..16], 65536u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 0x1234_5678_9abc_u64.to_ne_bytes());
        assert_eq!(&bytes[24..54], b"0123456789abcdeffi_shm://1:2:3");
        assert_eq!((bytes[54], bytes[318], bytes[319]), (0, 2, 1));
        let answer = Answer {
            verdict: Verdict::Memory,
            is_open: true,
            imports: 6,
            probe: hello().probe,
        };
        let bytes = answer.encode();
        assert_eq!(bytes[..8], [b'I', b'F', b's', b'm', 4, 0, 3, 1]);
        assert_eq!(bytes[8..16], [6, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], 0x1234_5678_9abc_u64.to_ne_bytes());
        assert_eq!(&bytes[24..], b"0123456789abcdef");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let change = |at: usize, value: u8| {
            let mut bytes = hello().encode();
            bytes[at] = value;
            Hello::decode(&bytes)
        };
        assert_eq!(change(0, 0), Err(Verdict::Version));
        assert_eq!(change(4, 9), Err(Verdict::Version));
        // A name that is longer than the message, and one that is longer than allowed.
        assert_eq!(change(7, 0xff), Err(Verdict::Version));
        assert_eq!(change(7, 1), Err(Verdict::Version));
        // Ring sizes that are not a power of two, or zero.
        assert_eq!(change(RING_AT, 1), Err(Verdict::Memory));
        assert_eq!(change(RING_AT + 2, 0), Err(Verdict::Memory));
        assert_eq!(change(RING_AT + 7, 0xff), Err(Verdict::Memory));
        let mut answer = Answer {
            verdict: Verdict::Welcome,
            is_open: false,
            imports: 0,
            probe: hello().probe,
        }
        .encode();
        answer[6] = 200;
        assert_eq!(Answer::decode(&answer), None);
        answer[0] = 0;
        assert_eq!(Answer::decode(&answer), None);
    }
}
