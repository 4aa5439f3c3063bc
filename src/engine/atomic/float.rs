// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Floating point values: the types of Rust, small types that Rust lacks, and complex numbers of both.

use super::{Element, Number, Real};
use sys::long_double::LongDouble;

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Element<{ size_of::<$float>() }> for $float {
            fn of(bytes: [u8; size_of::<$float>()]) -> Self {
                <$float>::from_ne_bytes(bytes)
            }

            fn bytes(self) -> [u8; size_of::<$float>()] {
                self.to_ne_bytes()
            }
        }

        impl Number for $float {
            fn sum(self, other: Self) -> Self {
                self + other
            }

            fn difference(self, other: Self) -> Self {
                self - other
            }

            fn product(self, other: Self) -> Self {
                self * other
            }

            fn equals(self, other: Self) -> bool {
                self == other
            }

            fn is_true(self) -> bool {
                self != 0.0
            }

            fn truth(is: bool) -> Self {
                is.into()
            }
        }

        impl Real for $float {
            fn is_less(self, other: Self) -> bool {
                self < other
            }

            fn is_at_most(self, other: Self) -> bool {
                self <= other
            }
        }
    )*};
}
floats!(f32 f64);

impl Element<16> for LongDouble {
    fn of(bytes: [u8; 16]) -> Self {
        LongDouble(bytes)
    }

    fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl Number for LongDouble {
    fn sum(self, other: Self) -> Self {
        LongDouble::sum(self, other)
    }

    fn difference(self, other: Self) -> Self {
        LongDouble::difference(self, other)
    }

    fn product(self, other: Self) -> Self {
        LongDouble::product(self, other)
    }

    fn equals(self, other: Self) -> bool {
        LongDouble::equals(self, other)
    }

    fn is_true(self) -> bool {
        !LongDouble::equals(self, LongDouble::from(0.0))
    }

    fn truth(is: bool) -> Self {
        LongDouble::from(f64::from(is))
    }
}

impl Real for LongDouble {
    fn is_less(self, other: Self) -> bool {
        LongDouble::is_less(self, other)
    }

    fn is_at_most(self, other: Self) -> bool {
        LongDouble::is_at_most(self, other)
    }
}

/// A complex number: the real and the imaginary part.
#[derive(Clone, Copy)]
pub struct Complex<T>(T, T);

macro_rules! complexes {
    ($($part:ty: $size:literal)*) => {$(
        impl Element<{ 2 * $size }> for Complex<$part> {
            fn of(bytes: [u8; 2 * $size]) -> Self {
                let (mut re, mut im) = ([0; $size], [0; $size]);
                re.copy_from_slice(&bytes[..$size]);
                im.copy_from_slice(&bytes[$size..]);
                Complex(<$part>::of(re), <$part>::of(im))
            }

            fn bytes(self) -> [u8; 2 * $size] {
                let mut bytes = [0; 2 * $size];
                bytes[..$size].copy_from_slice(&self.0.bytes());
                bytes[$size..].copy_from_slice(&self.1.bytes());
                bytes
            }
        }
    )*};
}
complexes!(f32: 4 f64: 8);
complexes!(LongDouble: 16);

impl<T: Number> Number for Complex<T> {
    fn sum(self, other: Self) -> Self {
        Complex(self.0.sum(other.0), self.1.sum(other.1))
    }

    fn difference(self, other: Self) -> Self {
        Complex(self.0.difference(other.0), self.1.difference(other.1))
    }

    fn product(self, other: Self) -> Self {
        let re = self.0.product(other.0).difference(self.1.product(other.1));
        let im = self.0.product(other.1).sum(self.1.product(other.0));
        Complex(re, im)
    }

    fn equals(self, other: Self) -> bool {
        self.0.equals(other.0) && self.1.equals(other.1)
    }

    fn is_true(self) -> bool {
        self.0.is_true() || self.1.is_true()
    }

    fn truth(is: bool) -> Self {
        Complex(T::truth(is), T::truth(false))
    }
}

/// Bit layout of a small floating point type.
struct Format {
    exponent: u32,
    mantissa: u32,
    /// Whether the largest exponent stands for infinity and NaN, as in IEEE 754. Without it, only the value with all
    /// bits set is NaN, there is no infinity, and a value that is too large becomes NaN.
    infinite: bool,
}

/// Mantissa bits of the IEEE 754 double, in which all small types are computed. A double has more than twice as many
/// bits as any of these types plus two, so rounding twice gives the same result as rounding once.
const DOUBLE_MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;

impl Format {
    const fn bias(&self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn exponent_mask(&self) -> u16 {
        (1 << self.exponent) - 1
    }

    fn mantissa_mask(&self) -> u16 {
        (1 << self.mantissa) - 1
    }

    fn decode(&self, bits: u16) -> f64 {
        let mantissa = bits & self.mantissa_mask();
        let exponent = bits >> self.mantissa & self.exponent_mask();
        let last = exponent == self.exponent_mask();
        let value = match (
            last && self.infinite,
            last && mantissa == self.mantissa_mask(),
        ) {
            (true, _) if mantissa == 0 => f64::INFINITY,
            (true, _) | (false, true) => f64::NAN,
            _ => {
                let hidden = if exponent == 0 { 0 } else { 1 << self.mantissa };
                let power = i32::from(exponent.max(1)) - self.bias() - self.mantissa as i32;
                f64::from(mantissa | hidden) * 2f64.powi(power)
            }
        };
        let negative = bits >> (self.exponent + self.mantissa) & 1 != 0;
        if negative { -value } else { value }
    }

    /// Rounds to the nearest value, and to the even one of two that are equally near.
    fn encode(&self, value: f64) -> u16 {
        let sign = u16::from(value.is_sign_negative()) << (self.exponent + self.mantissa);
        let last = self.exponent_mask() << self.mantissa;
        if value.is_nan() {
            return sign | last | self.mantissa_mask();
        }
        let beyond = match self.infinite {
            true => last,
            false => last | self.mantissa_mask(),
        };
        if value.is_infinite() {
            return sign | beyond;
        }
        // Units of the last place of the result. One unit is one step of the encoding, also across two exponents.
        let double = (value.abs().to_bits() >> DOUBLE_MANTISSA) as i32 - f64::MAX_EXP + 1;
        let exponent = double.max(1 - self.bias());
        let unit = 2f64.powi(exponent - self.mantissa as i32);
        let steps = (value.abs() / unit).round_ties_even() as u64;
        let above = (exponent + self.bias() - 1) as u64;
        let bits = (above << self.mantissa) + steps;
        match bits < u64::from(beyond) {
            true => sign | bits as u16,
            false => sign | beyond,
        }
    }
}

macro_rules! small {
    ($($(#[$doc:meta])* $name:ident: $int:ty, $format:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name($int);

        impl $name {
            const FORMAT: Format = $format;

            fn value(self) -> f64 {
                Self::FORMAT.decode(self.0.into())
            }

            fn nearest(value: f64) -> Self {
                $name(Self::FORMAT.encode(value) as $int)
            }
        }

        impl Element<{ size_of::<$int>() }> for $name {
            fn of(bytes: [u8; size_of::<$int>()]) -> Self {
                $name(<$int>::from_ne_bytes(bytes))
            }

            fn bytes(self) -> [u8; size_of::<$int>()] {
                self.0.to_ne_bytes()
            }
        }

        impl Number for $name {
            fn sum(self, other: Self) -> Self {
                Self::nearest(self.value() + other.value())
            }

            fn difference(self, other: Self) -> Self {
                Self::nearest(self.value() - other.value())
            }

            fn product(self, other: Self) -> Self {
                Self::nearest(self.value() * other.value())
            }

            fn equals(self, other: Self) -> bool {
                self.value() == other.value()
            }

            fn is_true(self) -> bool {
                self.value() != 0.0
            }

            fn truth(is: bool) -> Self {
                Self::nearest(is.into())
            }
        }

        impl Real for $name {
            fn is_less(self, other: Self) -> bool {
                self.value() < other.value()
            }

            fn is_at_most(self, other: Self) -> bool {
                self.value() <= other.value()
            }
        }
    )*};
}

small! {
    /// IEEE 754 half precision.
    Float16: u16, Format { exponent: 5, mantissa: 10, infinite: true };
    /// The upper half of a single-precision number (bfloat16).
    BFloat16: u16, Format { exponent: 8, mantissa: 7, infinite: true };
    /// Eight bits with the larger mantissa (E4M3).
    E4m3: u8, Format { exponent: 4, mantissa: 3, infinite: false };
    /// Eight bits with the larger exponent (E5M2).
    E5m2: u8, Format { exponent: 5, mantissa: 2, infinite: true };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_value_encodes_to_itself() {
        for format in [
            &Float16::FORMAT,
            &BFloat16::FORMAT,
            &E4m3::FORMAT,
            &E5m2::FORMAT,
        ] {
            let width = 1 + format.exponent + format.mantissa;
            for bits in 0..=(u32::MAX >> (32 - width)) as u16 {
                let value = format.decode(bits);
                match value.is_nan() {
                    true => assert!(format.decode(format.encode(value)).is_nan()),
                    false => assert_eq!(format.encode(value), bits, "{value}"),
                }
            }
        }
    }

    #[test]
    fn bfloat16_is_the_upper_half_of_a_float() {
        for bits in 0..=u16::MAX {
            let float = f32::from_bits(u32::from(bits) << 16);
            let value = BFloat16::FORMAT.decode(bits);
            assert!(
                value == f64::from(float) || value.is_nan() && float.is_nan(),
                "{bits:x}"
            );
        }
    }

    #[test]
    fn known_values_and_rounding() {
        let half = |value| Float16::FORMAT.encode(value);
        assert_eq!(half(1.0), 0x3c00);
        assert_eq!(half(-2.0), 0xc000);
        assert_eq!(half(65504.0), 0x7bff);
        // A value half a step above the largest rounds to infinity, a smaller one to the largest.
        assert_eq!(half(65520.0), 0x7c00);
        assert_eq!(half(65519.9), 0x7bff);
        // The smallest value, half of it (rounds to even: zero), and a little more than half.
        assert_eq!(half(2f64.powi(-24)), 1);
        assert_eq!(half(2f64.powi(-25)), 0);
        assert_eq!(half(1.01 * 2f64.powi(-25)), 1);
        // Ties go to even.
        assert_eq!(half(1.0 + 2f64.powi(-11)), 0x3c00);
        assert_eq!(half(1.0 + 3.0 * 2f64.powi(-11)), 0x3c02);
        assert_eq!(half(-0.0), 0x8000);

        assert_eq!(E4m3::FORMAT.encode(448.0), 0x7e);
        assert_eq!(E4m3::FORMAT.encode(464.0), 0x7e);
        assert_eq!(E4m3::FORMAT.encode(465.0), 0x7f);
        assert!(E4m3::FORMAT.decode(0x7f).is_nan() && E4m3::FORMAT.decode(0xff).is_nan());
        assert_eq!(E5m2::FORMAT.encode(57344.0), 0x7b);
        assert_eq!(E5m2::FORMAT.encode(f64::MAX), 0x7c);
    }
}
