// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of messages that stay with their sender until they match a receive. They are then sent on request, or fetched
//! by a receiver that shares memory with the sender. An index (1 to 254) names such a message from its first frame to
//! its last.

use super::frame::{Close, Frame, Refused, code};
use super::head::{
    FLAG_ACK, FLAG_DATA, Fields, Head, SegCount, Shape, WireError, Writer, answer_fits,
};
use super::segments::PlaceList;

/// Ready-to-send: announces a tagged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToSend {
    pub index: u8,
    pub tag: u64,
    /// Bytes of the message, which follow after a clear-to-send.
    pub size: u64,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// The receiver acknowledges when it has the message.
    pub ack: bool,
    /// The receive context of the peer's endpoint.
    pub context: u8,
}

impl ReadyToSend {
    pub(super) const SHAPE: Shape = Shape {
        fields: 2,
        has_data: true,
        ..Shape::bare(|fields| Ok(Frame::ReadyToSend(ReadyToSend::read(fields, 0)?)))
    };
    pub(super) const SHAPE_TO: Shape = Shape {
        names_context: true,
        read: |fields| {
            let context = fields.head.count;
            Ok(Frame::ReadyToSend(ReadyToSend::read(fields, context)?))
        },
        ..ReadyToSend::SHAPE
    };

    fn read(fields: &mut Fields<'_>, context: u8) -> Result<ReadyToSend, WireError> {
        let read = ReadyToSend {
            index: fields.index()?,
            data: fields.data(),
            tag: fields.next(),
            size: fields.next(),
            ack: fields.has(FLAG_ACK),
            context,
        };
        answer_fits(read.size)?;
        Ok(read)
    }

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        if let Some(data) = self.data {
            writer.put(data);
        }
        writer.put(self.tag);
        writer.put(self.size);
        let head = Head {
            flags: flags(self.data.is_some(), self.ack),
            number: self.index,
            count: self.context,
            ..Head::new(match self.context {
                0 => code::READY_TO_SEND,
                _ => code::READY_TO_SEND_TO,
            })
        };
        writer.finish(head, counter, 0)
    }
}

fn flags(has_data: bool, ack: bool) -> u16 {
    let data = if has_data { FLAG_DATA } else { 0 };
    data | if ack { FLAG_ACK } else { 0 }
}

/// The bytes of a message that the receiver requested. They follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RendezvousData {
    pub index: u8,
    /// Whether the ready-to-send had CQ data. Only the flag is repeated here.
    pub has_data: bool,
    /// The receiver acknowledges when it has the whole payload.
    pub ack: bool,
    pub payload: u64,
}

impl RendezvousData {
    pub(super) const SHAPE: Shape = Shape {
        has_payload: true,
        ..Shape::bare(|fields| {
            Ok(Frame::RendezvousData(RendezvousData {
                index: fields.index()?,
                has_data: fields.has(FLAG_DATA),
                ack: fields.has(FLAG_ACK),
                payload: fields.payload,
            }))
        })
    };

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let head = Head {
            flags: flags(self.has_data, self.ack),
            number: self.index,
            ..Head::new(code::RENDEZVOUS_DATA)
        };
        Writer::new(out, swap).finish(head, counter, self.payload)
    }
}

/// A frame that consists of one small number: clear-to-send, taken, done, refused, close.
pub(super) struct Word;

impl Word {
    pub const CLEAR: Shape = Shape::bare(|fields| {
        let index = fields.index()?;
        Ok(Frame::ClearToSend { index })
    });
    pub const TAKEN: Shape = Shape::bare(|fields| {
        let index = fields.index()?;
        Ok(Frame::Taken { index })
    });
    pub const DONE: Shape = Shape::bare(|fields| {
        let index = fields.index()?;
        Ok(Frame::Done { index })
    });

    pub const REFUSED: Shape = Shape::bare(|fields| {
        let number = fields.head.number;
        let refused = Refused::of(number).ok_or(WireError::Index(number))?;
        Ok(Frame::Refused(refused))
    });
    pub const CLOSE: Shape = Shape::bare(|fields| {
        let number = fields.head.number;
        let close = Close::of(number).ok_or(WireError::Index(number))?;
        Ok(Frame::Close(close))
    });

    pub fn encode<const LEN: usize>(
        code: u8,
        index: u8,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let head = Head {
            number: index,
            ..Head::new(code)
        };
        Writer::new(out, swap).finish(head, counter, 0)
    }
}

/// Announces a message that the peer may fetch from the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub index: u8,
    pub tagged: bool,
    /// 0 if the message is not tagged.
    pub tag: u64,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// Addresses of the message in the sender's memory.
    pub places: PlaceList,
    /// How often the sender had revoked its offers: this offer is valid until the next time.
    pub epoch: u32,
    /// The receive context of the peer's endpoint.
    pub context: u8,
}

impl Offer {
    pub(super) const UNTAGGED: Shape = Shape {
        segs: SegCount::Count,
        has_data: true,
        ..Shape::bare(|fields| Ok(Frame::Offer(Offer::read(false, fields)?)))
    };
    pub(super) const TAGGED: Shape = Shape {
        fields: 1,
        read: |fields| Ok(Frame::Offer(Offer::read(true, fields)?)),
        ..Offer::UNTAGGED
    };

    fn read(tagged: bool, fields: &mut Fields<'_>) -> Result<Offer, WireError> {
        let (index, data) = (fields.index()?, fields.data());
        let tag = if tagged { fields.next() } else { 0 };
        let (places, word) = PlaceList::and_word(&fields.segs(SegCount::Count, 1)?);
        Ok(Offer {
            index,
            tagged,
            tag,
            data,
            places,
            epoch: word as u32,
            context: (word >> 32) as u8,
        })
    }

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        if let Some(data) = self.data {
            writer.put(data);
        }
        if self.tagged {
            writer.put(self.tag);
        }
        let word = u64::from(self.context) << 32 | u64::from(self.epoch);
        let segs = self.places.with_word(word);
        segs.iter().for_each(|&seg| writer.put_seg(seg));
        let head = Head {
            flags: flags(self.data.is_some(), false),
            number: self.index,
            count: segs.len() as u8,
            ..Head::new(match self.tagged {
                true => code::OFFER_TAGGED,
                false => code::OFFER,
            })
        };
        writer.finish(head, counter, 0)
    }
}

/// The target of a message that is being fetched, so that its sender can copy parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub index: u8,
    pub places: PlaceList,
    /// Number of the job in which both sides claim parts: `sync::split_copy`.
    pub job: u32,
}

impl Share {
    pub(super) const SHAPE: Shape = Shape {
        segs: SegCount::Count,
        ..Shape::bare(|fields| {
            let index = fields.index()?;
            let (places, word) = PlaceList::and_word(&fields.segs(SegCount::Count, 1)?);
            let job = word as u32;
            Ok(Frame::Share(Share { index, places, job }))
        })
    };

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        let segs = self.places.with_word(self.job.into());
        segs.iter().for_each(|&seg| writer.put_seg(seg));
        let head = Head {
            number: self.index,
            count: segs.len() as u8,
            ..Head::new(code::SHARE)
        };
        writer.finish(head, counter, 0)
    }
}
