// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations: fi_atomic(3).

use ironfabric_sys::*;

use super::Posted;
use crate::av::Peer;
use crate::buffer::Buffer;
use crate::ep::{Endpoint, tables};
use crate::error::{Error, Result, status};
use crate::handle::{Threads, slot};
use crate::region::RemoteMemory;

mod sealed {
    pub trait Sealed {}
}

/// A type of elements that atomic operations change.
pub trait AtomicElement: Copy + sealed::Sealed {
    /// Its number in `enum fi_datatype`.
    const DATATYPE: fi_datatype;
}

macro_rules! elements {
    ($($element:ty = $datatype:ident,)*) => {
        $(
            impl sealed::Sealed for $element {}
            impl AtomicElement for $element {
                const DATATYPE: fi_datatype = $datatype;
            }
        )*
    };
}

elements! {
    i8 = FI_INT8, u8 = FI_UINT8, i16 = FI_INT16, u16 = FI_UINT16, i32 = FI_INT32, u32 = FI_UINT32,
    i64 = FI_INT64, u64 = FI_UINT64, f32 = FI_FLOAT, f64 = FI_DOUBLE,
}

/// An operation on an element of the peer and an operand: `enum fi_op`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum AtomicOp {
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The difference, element minus operand. libfabric 1.14 has none.
    Diff,
    /// Logical or.
    Lor,
    /// Logical and.
    Land,
    /// Logical exclusive or.
    Lxor,
    /// Bitwise or.
    Bor,
    /// Bitwise and.
    Band,
    /// Bitwise exclusive or.
    Bxor,
    /// The element stays; its value is fetched. Only with [`Endpoint::fetch_atomic`].
    Read,
    /// The operand.
    Write,
}

/// Condition under which [`Endpoint::compare_atomic`] writes: how the value to compare relates to the element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum CompareOp {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less or equal.
    LessEqual,
    /// Less.
    Less,
    /// Greater or equal.
    GreaterEqual,
    /// Greater.
    Greater,
    /// Always, but only bits that are set in the value to compare.
    Masked,
}

impl AtomicOp {
    fn number(self) -> fi_op {
        match self {
            AtomicOp::Min => FI_MIN,
            AtomicOp::Max => FI_MAX,
            AtomicOp::Sum => FI_SUM,
            AtomicOp::Prod => FI_PROD,
            AtomicOp::Diff => FI_DIFF,
            AtomicOp::Lor => FI_LOR,
            AtomicOp::Land => FI_LAND,
            AtomicOp::Lxor => FI_LXOR,
            AtomicOp::Bor => FI_BOR,
            AtomicOp::Band => FI_BAND,
            AtomicOp::Bxor => FI_BXOR,
            AtomicOp::Read => FI_ATOMIC_READ,
            AtomicOp::Write => FI_ATOMIC_WRITE,
        }
    }
}

impl CompareOp {
    fn number(self) -> fi_op {
        match self {
            CompareOp::Equal => FI_CSWAP,
            CompareOp::NotEqual => FI_CSWAP_NE,
            CompareOp::LessEqual => FI_CSWAP_LE,
            CompareOp::Less => FI_CSWAP_LT,
            CompareOp::GreaterEqual => FI_CSWAP_GE,
            CompareOp::Greater => FI_CSWAP_GT,
            CompareOp::Masked => FI_MSWAP,
        }
    }
}

/// Sets the length of a buffer of `parts` equal parts, of which one has the size of the memory. Returns the number of
/// elements; `None` if that is not a whole number, or the buffer is too small or not aligned for them.
fn shape<E: AtomicElement, T: Threads>(
    buffer: &mut Buffer<T>,
    parts: usize,
    memory: RemoteMemory,
) -> Option<usize> {
    let len = usize::try_from(memory.len).ok()?;
    let whole = len.checked_mul(parts)?;
    let fits = len > 0 && len.is_multiple_of(size_of::<E>()) && whole <= buffer.capacity();
    if !fits || !buffer.header().base.cast::<E>().is_aligned() {
        return None;
    }
    buffer.set_len(whole);
    Some(len / size_of::<E>())
}

/// Calls a slot that returns the number of elements of a call.
macro_rules! limit {
    ($this:ident.$slot:ident($element:ident, $op:ident)) => {{
        let (ep, mut count) = ($this.raw.get(), 0);
        // SAFETY: the endpoint is open; the number is written during the call.
        unsafe {
            let call = slot!((*ep).atomic, fi_ops_atomic, $slot)?;
            status(call(ep, $element::DATATYPE, $op.number(), &raw mut count))?;
        }
        Ok(count)
    }};
}

/// Atomic operations on elements of a peer's memory: fi_atomic(3). They need the capability `ATOMIC`.
///
/// All elements of `memory` take part. Elements and operands are aligned for their type.
///
/// ```
/// # use ironfabric::*;
/// fn add_one(endpoint: &Endpoint, domain: &Domain, peer: Peer, counter: RemoteMemory) -> Result {
///     let mut buffer = Buffer::new(domain, 16)?;
///     buffer[..8].copy_from_slice(&1u64.to_ne_bytes());
///     // The completion returns the buffer, with the old value in its second half.
///     endpoint.fetch_atomic::<u64>(AtomicOp::Sum, buffer, peer, counter)?;
///     Ok(())
/// }
/// ```
impl<T: Threads> Endpoint<T> {
    /// Changes each element by an operand in the buffer. `INVAL`: the memory has no whole number of elements, or the
    /// buffer is smaller or not aligned.
    pub fn atomic<E: AtomicElement>(
        &self,
        op: AtomicOp,
        mut buffer: Buffer<T>,
        to: Peer,
        memory: RemoteMemory,
    ) -> Posted<T> {
        let shape = shape::<E, T>(&mut buffer, 1, memory);
        let is_allowed = shape.is_some() && self.transmits(tables::ATOMIC, to);
        let (count, op) = (shape.unwrap_or_default(), op.number());
        self.post(is_allowed, self.sides[0], buffer, |ep, flight| {
            let h = flight.header();
            let (addr, key, context) = (memory.addr, memory.key, flight.context());
            let base = h.base.cast();
            call!(
                ep,
                atomic.write(
                    base,
                    count,
                    h.desc,
                    to.addr,
                    addr,
                    key,
                    E::DATATYPE,
                    op,
                    context
                )
            )
        })
    }

    /// Does the same and fetches the values that the elements had. The buffer has twice the size of the memory: first
    /// the operands, behind them place for the values.
    pub fn fetch_atomic<E: AtomicElement>(
        &self,
        op: AtomicOp,
        mut buffer: Buffer<T>,
        to: Peer,
        memory: RemoteMemory,
    ) -> Posted<T> {
        let shape = shape::<E, T>(&mut buffer, 2, memory);
        let is_allowed = shape.is_some() && self.transmits(tables::ATOMIC, to);
        let (count, op) = (shape.unwrap_or_default(), op.number());
        self.post(is_allowed, self.sides[0], buffer, |ep, flight| {
            let h = flight.header();
            let (addr, key, context) = (memory.addr, memory.key, flight.context());
            let base = h.base.cast::<E>();
            // `shape` has checked that the buffer has twice as many elements.
            let old = base.wrapping_add(count).cast();
            let base = base.cast();
            call!(
                ep,
                atomic.readwrite(
                    base,
                    count,
                    h.desc,
                    old,
                    h.desc,
                    to.addr,
                    addr,
                    key,
                    E::DATATYPE,
                    op,
                    context
                )
            )
        })
    }

    /// Writes operands to the elements that fulfil a condition, and fetches the values that the elements had. The
    /// buffer has three times the size of the memory: values to compare, operands, place for the fetched values.
    pub fn compare_atomic<E: AtomicElement>(
        &self,
        op: CompareOp,
        mut buffer: Buffer<T>,
        to: Peer,
        memory: RemoteMemory,
    ) -> Posted<T> {
        let shape = shape::<E, T>(&mut buffer, 3, memory);
        let is_allowed = shape.is_some() && self.transmits(tables::ATOMIC, to);
        let (count, op) = (shape.unwrap_or_default(), op.number());
        self.post(is_allowed, self.sides[0], buffer, |ep, flight| {
            let h = flight.header();
            let (addr, key, context) = (memory.addr, memory.key, flight.context());
            let compared = h.base.cast::<E>();
            // `shape` has checked that the buffer has three times as many elements.
            let base = compared.wrapping_add(count).cast();
            let old = compared.wrapping_add(2 * count).cast();
            let compared = compared.cast();
            call!(
                ep,
                atomic.compwrite(
                    base,
                    count,
                    h.desc,
                    compared,
                    h.desc,
                    old,
                    h.desc,
                    to.addr,
                    addr,
                    key,
                    E::DATATYPE,
                    op,
                    context
                )
            )
        })
    }

    /// Changes a few elements without a completion. The operands, up to
    /// [`Info::inject_size`](crate::Info::inject_size) bytes, are copied during the call.
    pub fn inject_atomic<E: AtomicElement>(
        &self,
        op: AtomicOp,
        operands: &[E],
        to: Peer,
        memory: RemoteMemory,
    ) -> Result {
        if size_of_val(operands) as u64 != memory.len || operands.is_empty() {
            return Err(Error::INVAL);
        }
        self.inject_with(tables::ATOMIC_INJECT, to, |ep| {
            call!(
                ep,
                atomic.inject(
                    operands.as_ptr().cast(),
                    operands.len(),
                    to.addr,
                    memory.addr,
                    memory.key,
                    E::DATATYPE,
                    op.number()
                )
            )
        })
    }

    /// Returns how many elements one [`Endpoint::atomic`] may change. `OPNOTSUPP`: the provider does not support it.
    pub fn atomic_limit<E: AtomicElement>(&self, op: AtomicOp) -> Result<usize> {
        limit!(self.writevalid(E, op))
    }

    /// Returns how many elements one [`Endpoint::fetch_atomic`] may change.
    pub fn fetch_atomic_limit<E: AtomicElement>(&self, op: AtomicOp) -> Result<usize> {
        limit!(self.readwritevalid(E, op))
    }

    /// Returns how many elements one [`Endpoint::compare_atomic`] may change.
    pub fn compare_atomic_limit<E: AtomicElement>(&self, op: CompareOp) -> Result<usize> {
        limit!(self.compwritevalid(E, op))
    }
}
