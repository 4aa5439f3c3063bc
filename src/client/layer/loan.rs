// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The memory of one operation below.

use core::ops::Range;
use std::sync::Arc;

use super::block::Block;
use super::lent::Lent;
use super::pool::Slot;
use crate::{Ep, Span};
use base::iovec::IOV_LIMIT;
use base::{Error, Result};

pub enum Loan {
    Nothing,
    /// A slot, and the number of bytes from its start.
    Slot(Slot, usize),
    /// All of a block.
    Block(Arc<Block>),
    /// A part of the application's memory.
    Lent(Arc<Lent>, Range<usize>),
    /// The operands, the values to compare, and the room for results of an atomic operation.
    Operands(Box<[Arc<Lent>; 3]>),
    /// The first bytes of a slot, followed by a part of the application's memory.
    Both(Slot, usize, Arc<Lent>, Range<usize>),
}

/// The form for the provider below.
pub(super) struct Spans {
    spans: [Span; IOV_LIMIT + 1],
    count: usize,
}

impl Loan {
    /// Whether it contains memory of the application.
    pub fn is_lent(&self) -> bool {
        matches!(self, Loan::Lent(..) | Loan::Operands(..) | Loan::Both(..))
    }

    /// Returns the pieces for an operation of `ep`.
    #[inline]
    pub(super) fn spans(&self, ep: &Arc<Ep>) -> Result<Spans> {
        let mut all = Spans::new();
        if let Loan::Slot(slot, len) | Loan::Both(slot, len, ..) = self {
            all.spans[0] = slot.span(*len, ep)?;
            all.count = 1;
        }
        if let Loan::Block(block) = self {
            all.spans[0] = block.span();
            all.count = 1;
        }
        self.add_lent(&mut all)?;
        Ok(all)
    }

    fn add_lent(&self, all: &mut Spans) -> Result {
        if let Loan::Lent(lent, part) | Loan::Both(_, _, lent, part) = self {
            let out = &mut all.spans[all.count..];
            let len = part.end.checked_sub(part.start).ok_or(Error::INVAL)?;
            all.count += lent.spans(part.start, len, out).ok_or(Error::INVAL)?;
        }
        Ok(())
    }
}

impl Spans {
    fn new() -> Spans {
        Spans {
            spans: [const { Span::empty() }; IOV_LIMIT + 1],
            count: 0,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [Span] {
        &mut self.spans[..self.count]
    }
}
