// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What two endpoints tell each other about messages that go over several rails: docs/wire/lnx.md. A note is a message
//! of a rail, with a length and a mark by which endpoints of this library recognize it.

use abi::fi_rma_iov;
use base::Error;

/// Bytes of a note. Few programs send messages of this length, and theirs are copied once more.
pub const LEN: usize = 251;
/// Rails at most that a note lists.
pub const LANES: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The random number in the name of the endpoint that gets the note. Data of the application cannot contain it
    /// unless the application wants that.
    pub to: u32,
    /// The number of the endpoint that sends it.
    pub from: u32,
    /// The sender's number of the message.
    pub message: u64,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stands for a message of `len` bytes, which the receiver reads: on the rail of the note by the lane `via`, or by
    /// any other.
    Offer {
        len: u64,
        via: usize,
        lanes: Vec<Lane>,
    },
    /// The receiver has the message, or will never have it.
    Over(Result<(), Error>),
    /// Asks for `Over` with an error if the receiver does not know the message.
    Ask,
}

/// The memory of a message as peers name it on one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The number of the rail among the sender's.
    pub part: u16,
    pub addr: u64,
    pub key: u64,
}

impl Lane {
    /// The memory from an offset on.
    pub fn at(&self, offset: usize, len: usize) -> fi_rma_iov {
        fi_rma_iov {
            addr: self.addr.wrapping_add(offset as u64),
            len,
            key: self.key,
        }
    }
}

const MARK: [u8; 8] = *b"\x01lnx+ifb";
const OFFER: u8 = 1;
const OVER: u8 = 2;
const ASK: u8 = 3;

impl Note {
    /// Writes the note to the first `LEN` bytes of `out`.
    pub fn write(&self, out: &mut [u8]) {
        let mut bytes = MARK.to_vec();
        bytes.extend(self.to.to_be_bytes());
        bytes.extend(self.from.to_be_bytes());
        bytes.extend(self.message.to_be_bytes());
        match &self.kind {
            Kind::Offer { len, via, lanes } => {
                bytes.extend([OFFER, *via as u8, lanes.len() as u8]);
                bytes.extend(len.to_be_bytes());
                for lane in lanes {
                    bytes.extend(lane.part.to_be_bytes());
                    bytes.extend(lane.addr.to_be_bytes());
                    bytes.extend(lane.key.to_be_bytes());
                }
            }
            Kind::Over(result) => {
                let code = result.err().map_or(0, Error::code);
                bytes.push(OVER);
                bytes.extend(code.to_be_bytes());
            }
            Kind::Ask => bytes.push(ASK),
        }
        bytes.resize(LEN, 0);
        out[..LEN].copy_from_slice(&bytes);
    }

    /// None if the bytes are a message of the application. Whether the note is for this endpoint is left to the caller.
    pub fn read(bytes: &[u8]) -> Option<Note> {
        let mut rest: &[u8] = bytes.strip_prefix(&MARK).filter(|_| bytes.len() == LEN)?;
        let to = u32::from_be_bytes(take(&mut rest)?);
        let from = u32::from_be_bytes(take(&mut rest)?);
        let message = u64::from_be_bytes(take(&mut rest)?);
        let [kind] = take(&mut rest)?;
        let kind = match kind {
            OFFER => {
                let [via, count] = take(&mut rest)?.map(usize::from);
                let len = u64::from_be_bytes(take(&mut rest)?);
                let mut lane = || {
                    Some(Lane {
                        part: u16::from_be_bytes(take(&mut rest)?),
                        addr: u64::from_be_bytes(take(&mut rest)?),
                        key: u64::from_be_bytes(take(&mut rest)?),
                    })
                };
                let lanes: Option<Vec<Lane>> = (0..count).map(|_| lane()).collect();
                let lanes = lanes.filter(|lanes| via < lanes.len() && lanes.len() <= LANES)?;
                Kind::Offer { len, via, lanes }
            }
            OVER => match i32::from_be_bytes(take(&mut rest)?) {
                0 => Kind::Over(Ok(())),
                code => Kind::Over(Err(Error::new(code.saturating_abs()))),
            },
            ASK => Kind::Ask,
            _ => return None,
        };
        Some(Note {
            to,
            from,
            message,
            kind,
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Vec<Note> {
        let lane = |part| Lane {
            part,
            addr: u64::MAX - u64::from(part),
            key: 1 << 63,
        };
        let lanes: Vec<Lane> = (0..LANES as u16).map(lane).collect();
        let offer = |via, lanes: &[Lane]| Kind::Offer {
            len: 1 << 40,
            via,
            lanes: lanes.to_vec(),
        };
        let kinds = [
            offer(0, &lanes[..1]),
            offer(11, &lanes),
            Kind::Over(Ok(())),
            Kind::Over(Err(Error::CONNRESET)),
            Kind::Ask,
        ];
        let note = |kind| Note {
            to: 7,
            from: 9,
            message: 3 << 32 | 5,
            kind,
        };
        kinds.map(note).into()
    }

    #[test]
    fn notes_are_read_back() {
        for note in notes() {
            let mut bytes = [1; LEN];
            note.write(&mut bytes);
            assert_eq!(Note::read(&bytes), Some(note));
            assert_eq!(Note::read(&bytes[..LEN - 1]), None);
        }
    }

    #[test]
    fn other_messages_are_none() {
        let mut bytes = [0; LEN];
        assert_eq!(Note::read(&bytes), None);
        notes()[0].write(&mut bytes);
        // Mark, kind, a lane that is not there, more lanes than there is room for.
        for (at, byte) in [(0, 0), (7, 0), (24, 0), (24, 4), (25, 1), (26, 0), (26, 99)] {
            let mut wrong = bytes;
            wrong[at] = byte;
            assert_eq!(Note::read(&wrong), None, "{at}");
        }
    }
}
