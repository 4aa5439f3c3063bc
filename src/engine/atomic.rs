// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The arithmetic of atomic operations and of collectives: fi_atomic(3), fi_collective(3). Defines which operations
//! exist for which types, and their results. `base::iovec` locates the elements and changes them atomically.
#![deny(unsafe_code)]

mod float;
#[cfg(test)]
mod tests;

use self::float::{BFloat16, Complex, E4m3, E5m2, Float16};
use abi::*;
use base::IoVec;
use object::ops::atomic::Family;
use sys::long_double::LongDouble;

/// The size of an element, if this family of calls has the operation for the type.
pub fn element_size(family: Family, datatype: fi_datatype, op: fi_op) -> Option<usize> {
    if !family.has(op) {
        return None;
    }
    Some(match Change::of(datatype, op)? {
        Change::B1(_) => 1,
        Change::B2(_) => 2,
        Change::B4(_) => 4,
        Change::B8(_) => 8,
        Change::B16(_) => 16,
        Change::B32(_) => 32,
    })
}

/// The size of an element of any operation; none if this is no data type.
pub fn type_size(datatype: fi_datatype) -> Option<usize> {
    element_size(Family::Base, datatype, FI_ATOMIC_WRITE)
}

/// The function that combines elements of this type in a collective; none if the operation is no reduction, or is not
/// defined for the type.
pub fn combine(datatype: fi_datatype, op: fi_op) -> Option<Combine> {
    match Change::of(datatype, op)? {
        Change::B1(change) => change.combine,
        Change::B2(change) => change.combine,
        Change::B4(change) => change.combine,
        Change::B8(change) => change.combine,
        Change::B16(change) => change.combine,
        Change::B32(change) => change.combine,
    }
}

/// Applies an operation to all elements of `target`. The previous values replace the operands.
pub fn apply(
    datatype: fi_datatype,
    op: fi_op,
    target: &mut IoVec,
    operands: &mut [u8],
    compare: &[u8],
) {
    if target.is_device() {
        let len = operands.len();
        return target.change_by_copy(len, |copy| apply(datatype, op, copy, operands, compare));
    }
    match Change::of(datatype, op) {
        None => {}
        Some(Change::B1(change)) => each(change.step, target, operands, compare),
        Some(Change::B2(change)) => each(change.step, target, operands, compare),
        Some(Change::B4(change)) => each(change.step, target, operands, compare),
        Some(Change::B8(change)) => each(change.step, target, operands, compare),
        Some(Change::B16(change)) => each(change.step, target, operands, compare),
        Some(Change::B32(change)) => each(change.step, target, operands, compare),
    }
}

fn each<const N: usize>(change: Step<N>, target: &mut IoVec, operands: &mut [u8], compare: &[u8]) {
    let mut compare = compare.as_chunks().0.iter();
    for operand in operands.as_chunks_mut().0 {
        let compare = compare.next().copied().unwrap_or([0; N]);
        match target.update(|old| change(old, *operand, compare)) {
            Some(before) => *operand = before,
            None => return,
        }
    }
}

/// Computes an element from its value, the operand and the value to compare with; none leaves it unchanged.
type Step<const N: usize> = fn([u8; N], [u8; N], [u8; N]) -> Option<[u8; N]>;

/// `target = target op source` for slices of equally many elements.
pub type Combine = fn(target: &mut [u8], source: &[u8]);

struct Operation<const N: usize> {
    step: Step<N>,
    /// The same over all elements in one loop, if collectives have the operation.
    combine: Option<Combine>,
}

macro_rules! operation {
    ($step:expr) => {
        Operation {
            step: $step,
            combine: None,
        }
    };
}

macro_rules! reduction {
    ($step:expr) => {
        Operation {
            step: $step,
            combine: Some(|target, source| all::<N>(target, source, $step)),
        }
    };
}

fn all<const N: usize>(
    target: &mut [u8],
    source: &[u8],
    step: impl Fn([u8; N], [u8; N], [u8; N]) -> Option<[u8; N]>,
) {
    let pairs = target.as_chunks_mut().0.iter_mut();
    for (target, source) in pairs.zip(source.as_chunks().0) {
        *target = step(*target, *source, [0; N]).unwrap_or(*target);
    }
}

/// An operation, by the size of an element in bytes.
enum Change {
    B1(Operation<1>),
    B2(Operation<2>),
    B4(Operation<4>),
    B8(Operation<8>),
    B16(Operation<16>),
    B32(Operation<32>),
}

impl Change {
    fn of(datatype: fi_datatype, op: fi_op) -> Option<Change> {
        Some(match datatype {
            FI_INT8 => Change::B1(integer::<i8, 1>(op)?),
            FI_UINT8 => Change::B1(integer::<u8, 1>(op)?),
            FI_INT16 => Change::B2(integer::<i16, 2>(op)?),
            FI_UINT16 => Change::B2(integer::<u16, 2>(op)?),
            FI_INT32 => Change::B4(integer::<i32, 4>(op)?),
            FI_UINT32 => Change::B4(integer::<u32, 4>(op)?),
            FI_INT64 => Change::B8(integer::<i64, 8>(op)?),
            FI_UINT64 => Change::B8(integer::<u64, 8>(op)?),
            FI_INT128 => Change::B16(integer::<i128, 16>(op)?),
            FI_UINT128 => Change::B16(integer::<u128, 16>(op)?),
            FI_FLOAT => Change::B4(real::<f32, 4>(op)?),
            FI_DOUBLE => Change::B8(real::<f64, 8>(op)?),
            FI_FLOAT_COMPLEX => Change::B8(number::<Complex<f32>, 8>(op)?),
            FI_DOUBLE_COMPLEX => Change::B16(number::<Complex<f64>, 16>(op)?),
            FI_LONG_DOUBLE => Change::B16(real::<LongDouble, 16>(op)?),
            FI_LONG_DOUBLE_COMPLEX => Change::B32(number::<Complex<LongDouble>, 32>(op)?),
            FI_FLOAT16 => Change::B2(real::<Float16, 2>(op)?),
            FI_BFLOAT16 => Change::B2(real::<BFloat16, 2>(op)?),
            FI_FLOAT8_E4M3 => Change::B1(real::<E4m3, 1>(op)?),
            FI_FLOAT8_E5M2 => Change::B1(real::<E5m2, 1>(op)?),
            _ => return None,
        })
    }
}

/// An element as a value.
trait Element<const N: usize>: Copy {
    fn of(bytes: [u8; N]) -> Self;
    fn bytes(self) -> [u8; N];
}

/// Operations of all types. Integers wrap around.
trait Number: Copy {
    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn equals(self, other: Self) -> bool;
    fn is_true(self) -> bool;
    fn truth(is: bool) -> Self;
}

/// Types whose values are ordered; NaN is neither less nor greater.
trait Real: Number {
    fn is_less(self, other: Self) -> bool;
    fn is_at_most(self, other: Self) -> bool;
}

/// The operations of all types: sums, logic, and comparison for equality.
fn number<T: Number + Element<N>, const N: usize>(op: fi_op) -> Option<Operation<N>> {
    Some(match op {
        FI_SUM => reduction!(|a, b, _| Some(T::of(a).sum(T::of(b)).bytes())),
        FI_DIFF => operation!(|a, b, _| Some(T::of(a).difference(T::of(b)).bytes())),
        FI_PROD => reduction!(|a, b, _| Some(T::of(a).product(T::of(b)).bytes())),
        FI_LOR => {
            reduction!(|a, b, _| Some(T::truth(T::of(a).is_true() || T::of(b).is_true()).bytes()))
        }
        FI_LAND => {
            reduction!(|a, b, _| Some(T::truth(T::of(a).is_true() && T::of(b).is_true()).bytes()))
        }
        FI_LXOR => {
            reduction!(|a, b, _| Some(T::truth(T::of(a).is_true() != T::of(b).is_true()).bytes()))
        }
        FI_ATOMIC_READ => operation!(|_, _, _| None),
        FI_ATOMIC_WRITE => operation!(|_, b, _| Some(b)),
        FI_CSWAP => operation!(|a, b, c| T::of(c).equals(T::of(a)).then_some(b)),
        FI_CSWAP_NE => operation!(|a, b, c| (!T::of(c).equals(T::of(a))).then_some(b)),
        _ => return None,
    })
}

fn real<T: Real + Element<N>, const N: usize>(op: fi_op) -> Option<Operation<N>> {
    Some(match op {
        FI_MIN => reduction!(|a, b, _| T::of(b).is_less(T::of(a)).then_some(b)),
        FI_MAX => reduction!(|a, b, _| T::of(a).is_less(T::of(b)).then_some(b)),
        FI_CSWAP_LE => operation!(|a, b, c| T::of(c).is_at_most(T::of(a)).then_some(b)),
        FI_CSWAP_LT => operation!(|a, b, c| T::of(c).is_less(T::of(a)).then_some(b)),
        FI_CSWAP_GE => operation!(|a, b, c| T::of(a).is_at_most(T::of(c)).then_some(b)),
        FI_CSWAP_GT => operation!(|a, b, c| T::of(a).is_less(T::of(c)).then_some(b)),
        _ => return number::<T, N>(op),
    })
}

fn integer<T: Real + Element<N>, const N: usize>(op: fi_op) -> Option<Operation<N>> {
    Some(match op {
        FI_BOR => reduction!(|a, b, _| Some(bits(a, b, |a, b| a | b))),
        FI_BAND => reduction!(|a, b, _| Some(bits(a, b, |a, b| a & b))),
        FI_BXOR => reduction!(|a, b, _| Some(bits(a, b, |a, b| a ^ b))),
        FI_MSWAP => operation!(|a, b, c| {
            let kept = bits(a, c, |a, c| a & !c);
            Some(bits(kept, bits(b, c, |b, c| b & c), |kept, new| kept | new))
        }),
        _ => return real::<T, N>(op),
    })
}

fn bits<const N: usize>(mut a: [u8; N], b: [u8; N], combine: impl Fn(u8, u8) -> u8) -> [u8; N] {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = combine(*a, b));
    a
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        impl Element<{ size_of::<$int>() }> for $int {
            fn of(bytes: [u8; size_of::<$int>()]) -> Self {
                <$int>::from_ne_bytes(bytes)
            }

            fn bytes(self) -> [u8; size_of::<$int>()] {
                self.to_ne_bytes()
            }
        }

        impl Number for $int {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn difference(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn equals(self, other: Self) -> bool {
                self == other
            }

            fn is_true(self) -> bool {
                self != 0
            }

            fn truth(is: bool) -> Self {
                is.into()
            }
        }

        impl Real for $int {
            fn is_less(self, other: Self) -> bool {
                self < other
            }

            fn is_at_most(self, other: Self) -> bool {
                self <= other
            }
        }
    )*};
}
integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);
