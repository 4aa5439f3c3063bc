// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Complete frames in their usual form: same byte order, one segment. Messages have their own form, `Message::whole`.

use super::atomic::AtomicOp;
use super::frame::code;
use super::rma::{ReadRequest, ReadResponse, Write};
use super::segments::RmaSeg;

/// A frame and its payload.
pub enum Whole<'a> {
    Write(Write<RmaSeg>, &'a [u8]),
    ReadRequest(RmaSeg),
    ReadResponse(&'a [u8]),
    Atomic(AtomicOp, RmaSeg, &'a [u8]),
}

impl Whole<'_> {
    /// Returns the frame that starts here and its length. Returns `None` for everything else, also malformed input; use
    /// `decode` then.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Option<(Whole<'_>, usize)> {
        Some(match *bytes.get(1)? {
            code::WRITE => {
                let (write, payload, frame) = Write::whole(bytes)?;
                (Whole::Write(write, payload), frame)
            }
            code::READ_REQUEST => {
                let (seg, frame) = ReadRequest::whole(bytes)?;
                (Whole::ReadRequest(seg), frame)
            }
            code::READ_RESPONSE => {
                let (payload, frame) = ReadResponse::whole(bytes)?;
                (Whole::ReadResponse(payload), frame)
            }
            code::ATOMIC | code::ATOMIC_FETCH | code::ATOMIC_COMPARE => {
                let (what, seg, payload, frame) = AtomicOp::whole(bytes)?;
                (Whole::Atomic(what, seg, payload), frame)
            }
            _ => return None,
        })
    }
}
