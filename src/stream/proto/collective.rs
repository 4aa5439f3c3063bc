// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives: an extension.

use super::frame::{Frame, code};
use super::head::{Fields, Head, Shape, WireError, Writer};

/// Data of a collective. The bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Kind of data, starting at 1.
    pub kind: u8,
    pub group: u64,
    /// The number of the collective in its group.
    pub seq: u32,
    pub round: u32,
    pub payload: u64,
}

/// The sender sends no more data for a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveEnd {
    pub group: u64,
    /// The number of the collective in its group.
    pub seq: u32,
    /// The reason, as a number of fi_errno(3).
    pub error: u32,
}

/// Writes the group, then one number in the upper half of a field and another in its lower half.
fn put<const LEN: usize>(writer: &mut Writer<'_, LEN>, group: u64, upper: u32, lower: u32) {
    writer.put(group);
    writer.put(u64::from(upper) << 32 | u64::from(lower));
}

fn take(fields: &mut Fields<'_>) -> (u64, u32, u32) {
    let (group, both) = (fields.next(), fields.next());
    (group, (both >> 32) as u32, both as u32)
}

impl Collective {
    pub(super) const SHAPE: Shape = Shape {
        fields: 2,
        has_payload: true,
        ..Shape::bare(|fields| Ok(Frame::Collective(Collective::read(fields)?)))
    };

    fn read(fields: &mut Fields<'_>) -> Result<Collective, WireError> {
        let kind = fields.index()?;
        let (group, seq, round) = take(fields);
        Ok(Collective {
            kind,
            group,
            seq,
            round,
            payload: fields.payload,
        })
    }

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        put(&mut writer, self.group, self.seq, self.round);
        let head = Head {
            number: self.kind,
            ..Head::new(code::COLLECTIVE)
        };
        writer.finish(head, counter, self.payload)
    }
}

impl CollectiveEnd {
    pub(super) const SHAPE: Shape = Shape {
        fields: 2,
        ..Shape::bare(|fields| {
            let (group, seq, error) = take(fields);
            Ok(Frame::CollectiveEnd(CollectiveEnd { group, seq, error }))
        })
    };

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        put(&mut writer, self.group, self.seq, self.error);
        writer.finish(Head::new(code::COLLECTIVE_END), counter, 0)
    }
}
