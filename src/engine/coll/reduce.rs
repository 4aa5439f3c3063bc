// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The arithmetic of reductions: fi_collective(3), over bytes of our own; the operations are those of fi_atomic(3).
#![forbid(unsafe_code)]

use crate::abi::*;
#[cfg(target_arch = "x86_64")]
use crate::engine::coll::extended::Extended;

/// `target = target op source`, element by element; both are whole elements of equal number.
pub type Combine = fn(target: &mut [u8], source: &[u8]);

/// Bytes of one element; nothing for what is no type of data.
pub fn element_size(datatype: fi_datatype) -> Option<usize> {
    Some(match datatype {
        FI_INT8 | FI_UINT8 | FI_FLOAT8_E4M3 | FI_FLOAT8_E5M2 => 1,
        FI_INT16 | FI_UINT16 | FI_FLOAT16 | FI_BFLOAT16 => 2,
        FI_INT32 | FI_UINT32 | FI_FLOAT => 4,
        FI_INT64 | FI_UINT64 | FI_DOUBLE | FI_FLOAT_COMPLEX => 8,
        FI_INT128 | FI_UINT128 | FI_DOUBLE_COMPLEX | FI_LONG_DOUBLE => 16,
        FI_LONG_DOUBLE_COMPLEX => 32,
        _ => return None,
    })
}

/// A number as it lies in memory.
trait Element: Copy {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn is_true(self) -> bool;
    fn truth(value: bool) -> Self;
}

macro_rules! element {
    ($($type:ty, $zero:literal, $one:literal;)*) => {
        $(impl Element for $type {
            const SIZE: usize = size_of::<$type>();

            #[inline]
            fn read(bytes: &[u8]) -> $type {
                let mut raw = [0; size_of::<$type>()];
                raw.copy_from_slice(bytes);
                <$type>::from_ne_bytes(raw)
            }

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            #[inline]
            fn is_true(self) -> bool {
                self != $zero
            }

            #[inline]
            fn truth(value: bool) -> $type {
                if value { $one } else { $zero }
            }
        })*
    };
}

element! {
    i8, 0, 1; u8, 0, 1; i16, 0, 1; u16, 0, 1; i32, 0, 1; u32, 0, 1; i64, 0, 1; u64, 0, 1; i128, 0, 1; u128, 0, 1;
    f32, 0.0, 1.0; f64, 0.0, 1.0;
}

#[cfg(target_arch = "x86_64")]
impl Element for Extended {
    const SIZE: usize = Extended::SIZE;

    fn read(bytes: &[u8]) -> Extended {
        Extended::read(bytes)
    }

    fn write(self, bytes: &mut [u8]) {
        self.write(bytes);
    }

    fn is_true(self) -> bool {
        !self.is_zero()
    }

    fn truth(value: bool) -> Extended {
        Extended::truth(value)
    }
}

/// Real part, then imaginary part.
#[derive(Clone, Copy)]
struct Complex<T>(T, T);

impl<T: Element> Element for Complex<T> {
    const SIZE: usize = 2 * T::SIZE;

    #[inline]
    fn read(bytes: &[u8]) -> Complex<T> {
        let (real, imaginary) = bytes.split_at(T::SIZE);
        Complex(T::read(real), T::read(imaginary))
    }

    #[inline]
    fn write(self, bytes: &mut [u8]) {
        let (real, imaginary) = bytes.split_at_mut(T::SIZE);
        self.0.write(real);
        self.1.write(imaginary);
    }

    #[inline]
    fn is_true(self) -> bool {
        self.0.is_true() || self.1.is_true()
    }

    #[inline]
    fn truth(value: bool) -> Complex<T> {
        Complex(T::truth(value), T::truth(false))
    }
}

#[inline]
fn each<E: Element>(target: &mut [u8], source: &[u8], op: impl Fn(E, E) -> E) {
    let pairs = target.chunks_exact_mut(E::SIZE);
    for (target, source) in pairs.zip(source.chunks_exact(E::SIZE)) {
        op(E::read(target), E::read(source)).write(target);
    }
}

macro_rules! elementwise {
    ($type:ty, $op:expr) => {
        Some(|target, source| each::<$type>(target, source, $op))
    };
}

/// What all types have.
macro_rules! logical {
    ($type:ty, $op:expr) => {
        match $op {
            FI_LOR => elementwise!($type, |a, b| Element::truth(a.is_true() || b.is_true())),
            FI_LAND => elementwise!($type, |a, b| Element::truth(a.is_true() && b.is_true())),
            FI_LXOR => elementwise!($type, |a, b| Element::truth(a.is_true() != b.is_true())),
            _ => None,
        }
    };
}

macro_rules! ordered {
    ($type:ty, $op:expr) => {
        match $op {
            FI_MIN => elementwise!($type, |a, b| if b < a { b } else { a }),
            FI_MAX => elementwise!($type, |a, b| if b > a { b } else { a }),
            op => logical!($type, op),
        }
    };
}

macro_rules! integer {
    ($type:ty, $op:expr) => {
        match $op {
            FI_SUM => elementwise!($type, |a, b| a.wrapping_add(b)),
            FI_PROD => elementwise!($type, |a, b| a.wrapping_mul(b)),
            FI_BOR => elementwise!($type, |a, b| a | b),
            FI_BAND => elementwise!($type, |a, b| a & b),
            FI_BXOR => elementwise!($type, |a, b| a ^ b),
            op => ordered!($type, op),
        }
    };
}

macro_rules! float {
    ($type:ty, $op:expr) => {
        match $op {
            FI_SUM => elementwise!($type, |a, b| a + b),
            FI_PROD => elementwise!($type, |a, b| a * b),
            op => ordered!($type, op),
        }
    };
}

/// Complex numbers have no order.
macro_rules! complex {
    ($type:ty, $op:expr) => {
        match $op {
            FI_SUM => elementwise!(Complex<$type>, |a, b| Complex(a.0 + b.0, a.1 + b.1)),
            FI_PROD => elementwise!(Complex<$type>, |a, b| Complex(
                a.0 * b.0 - a.1 * b.1,
                a.0 * b.1 + a.1 * b.0
            )),
            op => logical!(Complex<$type>, op),
        }
    };
}

/// What combines elements of this type; nothing where the operation has no meaning for it, or none here.
pub fn combine(datatype: fi_datatype, op: fi_op) -> Option<Combine> {
    match datatype {
        FI_INT8 => integer!(i8, op),
        FI_UINT8 => integer!(u8, op),
        FI_INT16 => integer!(i16, op),
        FI_UINT16 => integer!(u16, op),
        FI_INT32 => integer!(i32, op),
        FI_UINT32 => integer!(u32, op),
        FI_INT64 => integer!(i64, op),
        FI_UINT64 => integer!(u64, op),
        FI_INT128 => integer!(i128, op),
        FI_UINT128 => integer!(u128, op),
        FI_FLOAT => float!(f32, op),
        FI_DOUBLE => float!(f64, op),
        FI_FLOAT_COMPLEX => complex!(f32, op),
        FI_DOUBLE_COMPLEX => complex!(f64, op),
        #[cfg(target_arch = "x86_64")]
        FI_LONG_DOUBLE => long_double(op),
        #[cfg(target_arch = "x86_64")]
        FI_LONG_DOUBLE_COMPLEX => long_double_complex(op),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
fn long_double(op: fi_op) -> Option<Combine> {
    match op {
        FI_SUM => elementwise!(Extended, Extended::sum),
        FI_PROD => elementwise!(Extended, Extended::product),
        FI_MIN => elementwise!(Extended, |a, b| if b.is_less(a) { b } else { a }),
        FI_MAX => elementwise!(Extended, |a, b| if a.is_less(b) { b } else { a }),
        op => logical!(Extended, op),
    }
}

#[cfg(target_arch = "x86_64")]
fn long_double_complex(op: fi_op) -> Option<Combine> {
    match op {
        FI_SUM => elementwise!(Complex<Extended>, |a, b| Complex(
            a.0.sum(b.0),
            a.1.sum(b.1)
        )),
        FI_PROD => elementwise!(Complex<Extended>, |a, b| Complex(
            a.0.product(b.0).sum(a.1.product(b.1).negated()),
            a.0.product(b.1).sum(a.1.product(b.0))
        )),
        op => logical!(Complex<Extended>, op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<const N: usize>(
        datatype: fi_datatype,
        op: fi_op,
        a: [u8; N],
        b: [u8; N],
    ) -> Option<[u8; N]> {
        let mut target = a;
        combine(datatype, op)?(&mut target, &b);
        Some(target)
    }

    #[test]
    fn integers_wrap_and_compare_with_their_sign() {
        let i8s = |op, a: i8, b: i8| {
            run(FI_INT8, op, a.to_ne_bytes(), b.to_ne_bytes()).map(i8::from_ne_bytes)
        };
        assert_eq!(i8s(FI_SUM, 100, 100), Some(-56));
        assert_eq!(i8s(FI_PROD, -128, -1), Some(-128));
        assert_eq!(i8s(FI_MIN, -1, 1), Some(-1));
        assert_eq!(i8s(FI_MAX, -1, 1), Some(1));
        assert_eq!(i8s(FI_BOR, 5, 2), Some(7));
        assert_eq!(i8s(FI_BAND, 5, 4), Some(4));
        assert_eq!(i8s(FI_BXOR, 5, 4), Some(1));
        assert_eq!(i8s(FI_LOR, 0, -7), Some(1));
        assert_eq!(i8s(FI_LAND, 3, 4), Some(1));
        assert_eq!(i8s(FI_LXOR, 3, 4), Some(0));
        let u128s = |op, a: u128, b: u128| {
            run(FI_UINT128, op, a.to_ne_bytes(), b.to_ne_bytes()).map(u128::from_ne_bytes)
        };
        assert_eq!(u128s(FI_MAX, 1 << 100, u128::MAX), Some(u128::MAX));
        assert_eq!(u128s(FI_SUM, u128::MAX, 2), Some(1));
    }

    #[test]
    fn floats_have_no_bits_and_complex_numbers_no_order() {
        let f64s = |op, a: f64, b: f64| {
            run(FI_DOUBLE, op, a.to_ne_bytes(), b.to_ne_bytes()).map(f64::from_ne_bytes)
        };
        assert_eq!(f64s(FI_SUM, 0.5, 0.25), Some(0.75));
        assert_eq!(f64s(FI_PROD, 0.5, 0.25), Some(0.125));
        assert_eq!(f64s(FI_MIN, 0.5, -0.25), Some(-0.25));
        assert_eq!(f64s(FI_LAND, 0.5, 0.0), Some(0.0));
        assert_eq!(f64s(FI_BOR, 1.0, 1.0), None);
        let pair = |a: f32, b: f32| {
            let mut bytes = [0; 8];
            Complex(a, b).write(&mut bytes);
            bytes
        };
        let product = run(FI_FLOAT_COMPLEX, FI_PROD, pair(1.0, 2.0), pair(3.0, 4.0));
        assert_eq!(product, Some(pair(-5.0, 10.0)));
        let truth = run(FI_FLOAT_COMPLEX, FI_LAND, pair(0.0, 2.0), pair(3.0, 0.0));
        assert_eq!(truth, Some(pair(1.0, 0.0)));
        assert!(combine(FI_FLOAT_COMPLEX, FI_MIN).is_none());
        assert!(combine(FI_VOID, FI_SUM).is_none());
        assert!(combine(FI_INT32, FI_NOOP).is_none());
    }

    #[test]
    fn many_elements_are_combined_one_by_one() {
        let source: Vec<u8> = (1..=6u16).flat_map(u16::to_ne_bytes).collect();
        let mut target = source.clone();
        combine(FI_UINT16, FI_SUM).unwrap()(&mut target, &source);
        let want: Vec<u8> = (1..=6u16).flat_map(|n| (2 * n).to_ne_bytes()).collect();
        assert_eq!(target, want);
    }
}
