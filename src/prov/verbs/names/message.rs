// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The messages of the name server: docs/wire/verbs.md. Numbers are those of libfabric.

use super::Name;

/// The meaning of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Add,
    Delete,
    Query,
    Answer,
}

/// A decoded message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    Add(i32, Name),
    Delete(i32, Name),
    Query(i32),
    Found(i32, Name),
    /// The negative error number of a query.
    Failed(i32),
}

const VERSION: u8 = 0;
const HEADER: usize = 8;
const SERVICE: usize = size_of::<i32>();
const NAME: usize = size_of::<Name>();

/// Bytes of the longest message.
pub const LONGEST: usize = HEADER + SERVICE + NAME;

impl Op {
    fn of(number: u8) -> Option<Op> {
        [Op::Add, Op::Delete, Op::Query, Op::Answer]
            .into_iter()
            .find(|&op| op as u8 == number)
    }
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let (op, status, service, name) = match self {
            Message::Add(service, name) => (Op::Add, 0, Some(service), Some(name)),
            Message::Delete(service, name) => (Op::Delete, 0, Some(service), Some(name)),
            Message::Query(service) => (Op::Query, 0, Some(service), None),
            Message::Found(service, name) => (Op::Answer, 0, Some(service), Some(name)),
            Message::Failed(status) => (Op::Answer, *status, None, None),
        };
        let mut bytes = vec![VERSION, op as u8, 0, 0];
        bytes.extend(status.to_be_bytes());
        // Only numbers of the header are big-endian.
        bytes.extend(service.into_iter().flat_map(|it| it.to_ne_bytes()));
        bytes.extend(name.into_iter().flatten());
        bytes
    }

    /// Decodes the start of a stream. `Ok(None)`: bytes are missing. `Err`: these are no message.
    pub fn decode(bytes: &[u8]) -> Result<Option<Message>, ()> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [version, op, _, _, status @ ..] = *header;
        let op = Op::of(op).filter(|_| version == VERSION).ok_or(())?;
        let status = i32::from_be_bytes(status);
        if op == Op::Answer && status != 0 {
            return Ok(Some(Message::Failed(status)));
        }
        let Some((service, rest)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        let service = i32::from_ne_bytes(*service);
        if op == Op::Query {
            return Ok(Some(Message::Query(service)));
        }
        Ok(rest.first_chunk().map(|&name| match op {
            Op::Add => Message::Add(service, name),
            Op::Delete => Message::Delete(service, name),
            _ => Message::Found(service, name),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_libfabric() {
        let name: Name = core::array::from_fn(|i| i as u8);
        let query = Message::Query(0x1267).encode();
        assert_eq!(query, [0, 2, 0, 0, 0, 0, 0, 0, 0x67, 0x12, 0, 0]);
        assert_eq!(
            Message::Failed(-2).encode(),
            [0, 3, 0, 0, 0xff, 0xff, 0xff, 0xfe]
        );
        let found = Message::Found(0x1267, name).encode();
        assert_eq!(found[..12], [0, 3, 0, 0, 0, 0, 0, 0, 0x67, 0x12, 0, 0]);
        assert_eq!((&found[12..], found.len()), (&name[..], LONGEST));
        let all = [
            Message::Add(1, name),
            Message::Delete(2, name),
            Message::Query(3),
            Message::Found(4, name),
            Message::Failed(-2),
        ];
        for message in all {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(Some(message)));
            for end in 0..bytes.len() {
                assert_eq!(
                    Message::decode(&bytes[..end]),
                    Ok(None),
                    "{message:?} {end}"
                );
            }
        }
        assert_eq!(Message::decode(&[1, 2, 0, 0, 0, 0, 0, 0]), Err(()));
        assert_eq!(Message::decode(&[0, 4, 0, 0, 0, 0, 0, 0]), Err(()));
    }
}
