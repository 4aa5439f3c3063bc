// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The start of a frame whose header has not arrived as a whole.

use crate::proto::{Decoded, Frame, MAX_HEADER, decode};
use crate::session::receive::Fault;

/// Joins the parts of headers.
pub struct Parser {
    header: [u8; MAX_HEADER],
    have: usize,
}

impl Parser {
    pub fn new() -> Parser {
        Parser {
            header: [0; MAX_HEADER],
            have: 0,
        }
    }

    /// Whether no part of a header has arrived.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.have == 0
    }

    /// Returns the next frame of the stream, with its header from `bytes` and earlier bytes, and how many of `bytes`
    /// were consumed. `swap`: the peer has the other byte order.
    #[inline]
    pub fn next_frame(
        &mut self,
        bytes: &[u8],
        swap: bool,
    ) -> Result<Option<(Frame, usize)>, Fault> {
        if self.have == 0
            && let Decoded::Frame(frame, len) = decode(bytes, swap).map_err(Fault::Wire)?
        {
            return Ok(Some((frame, len)));
        }
        let mut used = 0;
        loop {
            let have = &self.header[..self.have];
            let want = match decode(have, swap).map_err(Fault::Wire)? {
                Decoded::Frame(frame, _) => {
                    self.have = 0;
                    return Ok(Some((frame, used)));
                }
                Decoded::Needs(want) => want,
            };
            let n = (want - self.have).min(bytes.len() - used);
            if n == 0 {
                return Ok(None);
            }
            self.header[self.have..][..n].copy_from_slice(&bytes[used..][..n]);
            self.have += n;
            used += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ReadResponse;

    #[test]
    fn a_header_may_arrive_in_any_parts() {
        let mut bytes = [0; MAX_HEADER];
        let frame = Frame::ReadResponse(ReadResponse { payload: 70_000 });
        for swap in [false, true] {
            let len = frame.encode(3, swap, &mut bytes);
            for cut in 1..len {
                let mut parser = Parser::new();
                let start = parser.next_frame(&bytes[..cut], swap);
                assert!(matches!(start, Ok(None)) && !parser.is_empty(), "{cut}");
                // A byte of the payload follows and stays.
                let rest = parser.next_frame(&bytes[cut..=len], swap);
                let Ok(Some((Frame::ReadResponse(found), used))) = rest else {
                    panic!("{cut}: no frame");
                };
                assert_eq!((found.payload, used), (70_000, len - cut));
                assert!(parser.is_empty());
            }
        }
    }
}
