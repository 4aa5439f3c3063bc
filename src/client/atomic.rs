// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations: fi_atomic(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use super::ep::Ep;
use super::memory::{Buffer, Context, Span};
use super::posted;
use abi::*;
use base::{Error, Result};
use object::slots;

/// `count` elements of the operation's type. As a [`Span`], it is good for one operation:
///
/// ```compile_fail,E0507
/// fn copy(operand: &client::Operand) -> client::Operand {
///     *operand
/// }
/// ```
pub struct Operand {
    span: Span,
    count: usize,
}

impl Operand {
    /// # Safety
    /// `span` has room for `count` elements of the type that the operation names.
    pub unsafe fn new(span: Span, count: usize) -> Operand {
        Operand { span, count }
    }

    /// Empties the operands of an operation if it was posted.
    fn given(operands: &mut [Operand], posted: Result) -> Result {
        if posted.is_ok() {
            let (span, count) = (Span::empty, 0);
            operands.fill_with(|| Operand {
                span: span(),
                count,
            });
        }
        posted
    }
}

/// `struct fi_msg_atomic`.
pub struct AtomicMessage<'a> {
    pub operands: &'a mut [Operand],
    pub addr: fi_addr_t,
    /// Memory of the peer that the operation changes.
    pub remote: &'a [fi_rma_ioc],
    pub datatype: fi_datatype,
    pub op: fi_op,
    pub context: Context,
    pub data: u64,
}

/// Operands in their C form.
struct Elements {
    ioc: [fi_ioc; MAX_OPERANDS],
    desc: [*mut c_void; MAX_OPERANDS],
    count: usize,
}

impl Elements {
    fn of(operands: &[Operand]) -> Result<Elements> {
        if operands.len() > MAX_OPERANDS {
            return Err(Error::INVAL);
        }
        let none = fi_ioc {
            addr: null_mut(),
            count: 0,
        };
        let mut elements = Elements {
            ioc: [none; MAX_OPERANDS],
            desc: [null_mut(); MAX_OPERANDS],
            count: operands.len(),
        };
        for (i, operand) in operands.iter().enumerate() {
            elements.ioc[i] = fi_ioc {
                addr: operand.span.base,
                count: operand.count,
            };
            elements.desc[i] = operand.span.desc;
        }
        Ok(elements)
    }
}

/// Larger than any provider's limit.
const MAX_OPERANDS: usize = 16;

impl Ep {
    /// Adds the first `count` numbers of a buffer to the peer's at `remote`; the endpoint holds the buffer until
    /// `reclaim`. If `fetches`, the second half of the buffer receives the previous values.
    pub fn add_buffer(
        &self,
        buffer: Buffer,
        count: usize,
        fetches: bool,
        dest: fi_addr_t,
        (addr, key): (u64, u64),
        flags: u64,
    ) -> core::result::Result<(), (Buffer, Error)> {
        let length = buffer.bytes().len();
        let half = length / 2;
        let needed = count.checked_mul(size_of::<u64>());
        let span = match (buffer.span(length), needed) {
            (Ok(span), Some(needed)) if needed <= half => span,
            _ => return Err((buffer, Error::INVAL)),
        };
        let part = |at: usize| Span {
            base: span.base.wrapping_byte_add(buffer.prefix() + at),
            len: half,
            desc: span.desc,
        };
        let [from, mut to] = [part(0), part(half)].map(|span| Operand { span, count });
        self.more().launch(buffer, |context| {
            let message = AtomicMessage {
                operands: &mut [from],
                addr: dest,
                remote: &[fi_rma_ioc { addr, count, key }],
                datatype: FI_UINT64,
                op: FI_SUM,
                context,
                data: 0,
            };
            match fetches {
                true => self.fetch_atomic(message, core::slice::from_mut(&mut to), flags),
                false => self.atomic(message, flags),
            }
        })
    }

    pub fn atomic(&self, message: AtomicMessage<'_>, flags: u64) -> Result {
        // SAFETY: the endpoint is open; the creators of operands and context promised what the operation needs; the
        // struct is read during the call.
        message.with(|msg| posted(unsafe { slots::atomic::writemsg(self.as_ptr(), msg, flags) }))
    }

    /// `result` receives the previous values.
    pub fn fetch_atomic(
        &self,
        message: AtomicMessage<'_>,
        result: &mut [Operand],
        flags: u64,
    ) -> Result {
        let mut to = Elements::of(result)?;
        let (iov, desc) = (to.ioc.as_mut_ptr(), to.desc.as_mut_ptr());
        let posted = message.with(|msg| {
            // SAFETY: as in `atomic`.
            posted(unsafe {
                slots::atomic::readwritemsg(self.as_ptr(), msg, iov, desc, to.count, flags)
            })
        });
        Operand::given(result, posted)
    }

    /// Does the same with values to compare.
    pub fn compare_atomic(
        &self,
        message: AtomicMessage<'_>,
        compare: &mut [Operand],
        result: &mut [Operand],
        flags: u64,
    ) -> Result {
        let (mut with, mut to) = (Elements::of(compare)?, Elements::of(result)?);
        let (ioc, desc) = (with.ioc.as_ptr(), with.desc.as_mut_ptr());
        let (to_ioc, to_desc) = (to.ioc.as_mut_ptr(), to.desc.as_mut_ptr());
        let posted = message.with(|msg| {
            // SAFETY: as in `atomic`.
            posted(unsafe {
                let (ep, counts) = (self.as_ptr(), (with.count, to.count));
                slots::atomic::compwritemsg(
                    ep, msg, ioc, desc, counts.0, to_ioc, to_desc, counts.1, flags,
                )
            })
        });
        Operand::given(result, Operand::given(compare, posted))
    }
}

impl AtomicMessage<'_> {
    fn with(self, post: impl FnOnce(&fi_msg_atomic) -> Result) -> Result {
        let mut elements = Elements::of(self.operands)?;
        let result = post(&fi_msg_atomic {
            msg_iov: elements.ioc.as_ptr(),
            desc: elements.desc.as_mut_ptr(),
            iov_count: elements.count,
            addr: self.addr,
            rma_iov: self.remote.as_ptr(),
            rma_iov_count: self.remote.len(),
            datatype: self.datatype,
            op: self.op,
            context: self.context.0,
            data: self.data,
        });
        Operand::given(self.operands, result)
    }
}
