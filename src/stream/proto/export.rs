// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The frame before an offer of device memory: the allocation that the peer can map to fetch the message.

use super::frame::{Frame, code};
use super::head::{FIELD, Fields, Head, Shape, WireError, Writer};
use hmem::Kind;
use hmem::export::{Export, HANDLE, NAME};

/// Describes the memory of the offer with this index, which follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    pub index: u8,
    pub export: Export,
}

impl Exported {
    pub(super) const SHAPE: Shape = Shape {
        fields: (HANDLE + NAME) / FIELD + 2,
        ..Shape::bare(|fields| Ok(Frame::Exported(Exported::read(fields)?)))
    };

    fn read(fields: &mut Fields<'_>) -> Result<Exported, WireError> {
        let index = fields.index()?;
        let number = fields.head.count;
        let kind = Kind::of_iface(number.into()).filter(|&kind| kind != Kind::Host);
        let kind = kind.ok_or(WireError::Memory(number))?;
        let (mut handle, mut device) = ([0; HANDLE], [0; NAME]);
        fields.bytes(&mut handle);
        fields.bytes(&mut device);
        let (base, len) = (fields.next(), fields.next());
        match base.checked_add(len) {
            None => Err(WireError::Length),
            Some(_) => Ok(Exported {
                index,
                export: Export {
                    kind,
                    handle,
                    device,
                    base,
                    len,
                },
            }),
        }
    }

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        writer.put_bytes(&self.export.handle);
        writer.put_bytes(&self.export.device);
        writer.put(self.export.base);
        writer.put(self.export.len);
        let head = Head {
            number: self.index,
            count: self.export.kind as u8,
            ..Head::new(code::EXPORTED)
        };
        writer.finish(head, counter, 0)
    }
}
