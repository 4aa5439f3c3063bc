// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The frames by which two endpoints of one host agree to continue over shared memory: docs/wire/tcp.md, "Shared
//! memory".

use super::head::{BASE_HEADER, decode_plain, encode_plain};

/// Feature bit, set by both sides: the endpoint can share memory and considers the other one to be on the same host.
pub const SHARES: u8 = 0x04;

/// Bytes of the name of a shared-memory listener, and of the secret for it.
pub const TOKEN: usize = 16;
pub type Token = [u8; TOKEN];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameHostFrame {
    /// From the side that accepted: where to connect, and the secret to present there.
    ShmListener(Directions),
    /// From the side that connected: the connection stays on the socket.
    Stay,
}

/// Name of the listener to which a peer connects, and the secret by which the listener recognizes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directions {
    /// All zero if there is no listener.
    pub shm_listener: Token,
    pub secret: Token,
}

/// Bytes of these frames.
pub const LISTENER_FRAME: usize = BASE_HEADER + 2 * TOKEN;
pub const STAY_FRAME: usize = BASE_HEADER;

const LISTENER: u8 = 37;
const STAY: u8 = 38;

impl SameHostFrame {
    pub fn encode(&self, counter: u8, swap: bool) -> Vec<u8> {
        match self {
            SameHostFrame::ShmListener(to) => {
                encode_plain(LISTENER, &[&to.shm_listener, &to.secret], counter, swap)
            }
            SameHostFrame::Stay => encode_plain(STAY, &[], counter, swap),
        }
    }

    /// Decodes a complete frame of this kind; returns `None` for any other bytes.
    pub fn decode(bytes: &[u8], swap: bool) -> Option<SameHostFrame> {
        let (header, payload) = bytes.split_first_chunk::<BASE_HEADER>()?;
        let (code, len) = decode_plain(header, swap)?;
        if len != payload.len() as u64 {
            return None;
        }
        match (code, payload.len()) {
            (LISTENER, _) if payload.len() == 2 * TOKEN => {
                Some(SameHostFrame::ShmListener(Directions {
                    shm_listener: *payload.first_chunk()?,
                    secret: *payload.last_chunk()?,
                }))
            }
            (STAY, 0) => Some(SameHostFrame::Stay),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTIONS: SameHostFrame = SameHostFrame::ShmListener(Directions {
        shm_listener: *b"0123456789abcdef",
        secret: *b"ghijklmnopqrstuv",
    });

    #[test]
    fn frames_are_read_back() {
        for swap in [false, true] {
            for (op, len) in [
                (DIRECTIONS, LISTENER_FRAME),
                (SameHostFrame::Stay, STAY_FRAME),
            ] {
                let bytes = op.encode(7, swap);
                assert_eq!((bytes.len(), bytes[7]), (len, 7));
                assert_eq!(SameHostFrame::decode(&bytes, swap), Some(op));
                assert_eq!(SameHostFrame::decode(&bytes, !swap), None);
            }
        }
    }

    #[test]
    fn no_other_frame_is_taken_for_one() {
        for op in [DIRECTIONS, SameHostFrame::Stay] {
            let good = op.encode(0, false);
            for len in 0..good.len() {
                assert_eq!(SameHostFrame::decode(&good[..len], false), None, "{len}");
            }
            // Every byte of the header matters except its counter.
            for at in (0..BASE_HEADER).filter(|&at| at != 7) {
                let mut bytes = good.clone();
                bytes[at] ^= 0x40;
                assert_eq!(SameHostFrame::decode(&bytes, false), None, "{at}");
            }
        }
    }
}
