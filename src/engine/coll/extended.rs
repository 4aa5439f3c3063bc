// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The `long double` of x86: sign, 15 bits of exponent, 64 of significand with its leading one, in 16 bytes. Rust has no
//! such type; sums and products here are rounded to nearest even, as the processor does by default.
#![forbid(unsafe_code)]

/// As it lies in memory; what is not used there is zero.
#[derive(Clone, Copy, Debug)]
pub struct Extended {
    negative: bool,
    exponent: u16,
    significand: u64,
}

const BIAS: i32 = 16383;
const SPECIAL: u16 = 0x7fff;
const ONE: u64 = 1 << 63;
const NAN: Extended = Extended {
    negative: true,
    exponent: SPECIAL,
    significand: 3 << 62,
};

impl Extended {
    pub const SIZE: usize = 16;

    pub fn read(bytes: &[u8]) -> Extended {
        let mut raw = [0; 16];
        raw.copy_from_slice(bytes);
        let raw = u128::from_le_bytes(raw);
        let top = (raw >> 64) as u16;
        Extended {
            negative: top >> 15 != 0,
            exponent: top & SPECIAL,
            significand: raw as u64,
        }
    }

    pub fn write(self, bytes: &mut [u8]) {
        let top = u16::from(self.negative) << 15 | self.exponent;
        let raw = u128::from(top) << 64 | u128::from(self.significand);
        bytes.copy_from_slice(&raw.to_le_bytes());
    }

    pub fn truth(value: bool) -> Extended {
        Extended {
            negative: false,
            exponent: if value { BIAS as u16 } else { 0 },
            significand: if value { ONE } else { 0 },
        }
    }

    pub fn is_zero(self) -> bool {
        self.exponent != SPECIAL && self.significand == 0
    }

    fn is_nan(self) -> bool {
        self.exponent == SPECIAL && self.significand << 1 != 0
    }

    fn is_infinite(self) -> bool {
        self.exponent == SPECIAL && self.significand << 1 == 0
    }

    fn infinite(negative: bool) -> Extended {
        Extended {
            negative,
            exponent: SPECIAL,
            significand: ONE,
        }
    }

    fn quiet(self) -> Extended {
        Extended {
            significand: self.significand | 3 << 62,
            ..self
        }
    }

    pub fn negated(self) -> Extended {
        Extended {
            negative: !self.negative,
            ..self
        }
    }

    fn size(self) -> (u16, u64) {
        (self.exponent, self.significand)
    }

    /// False if one of them is no number.
    pub fn is_less(self, other: Extended) -> bool {
        if self.is_nan() || other.is_nan() || (self.is_zero() && other.is_zero()) {
            return false;
        }
        match (self.negative, other.negative) {
            (false, false) => self.size() < other.size(),
            (true, true) => self.size() > other.size(),
            (ours, _) => ours,
        }
    }

    /// The number is the significand times two to the power of this.
    fn power(self) -> i32 {
        i32::from(self.exponent.max(1)) - BIAS - 63
    }

    pub fn sum(self, other: Extended) -> Extended {
        if self.is_nan() {
            return self.quiet();
        }
        if other.is_nan() {
            return other.quiet();
        }
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) if self.negative != other.negative => return NAN,
            (true, _) => return self,
            (_, true) => return other,
            _ => {}
        }
        let (large, small) = match self.size() < other.size() {
            true => (other, self),
            false => (self, other),
        };
        // One bit above for the carry, 63 below that are lost only where they do not count.
        let wide = |number: Extended| u128::from(number.significand) << 63;
        let distance = (large.power() - small.power()) as u32;
        let small_part = shifted(wide(small), distance);
        let power = large.power() - 63;
        match large.negative == small.negative {
            true => rounded(large.negative, wide(large) + small_part, power),
            false if wide(large) == small_part => rounded(false, 0, power),
            false => rounded(large.negative, wide(large) - small_part, power),
        }
    }

    pub fn product(self, other: Extended) -> Extended {
        if self.is_nan() {
            return self.quiet();
        }
        if other.is_nan() {
            return other.quiet();
        }
        let negative = self.negative != other.negative;
        match (self.is_infinite(), other.is_infinite()) {
            (true, _) if other.is_zero() => return NAN,
            (_, true) if self.is_zero() => return NAN,
            (false, false) => {}
            _ => return Extended::infinite(negative),
        }
        let product = u128::from(self.significand) * u128::from(other.significand);
        rounded(negative, product, self.power() + other.power())
    }
}

/// To the right; the last bit tells whether anything was lost.
fn shifted(value: u128, distance: u32) -> u128 {
    match distance {
        0 => value,
        1..128 => value >> distance | u128::from(value << (128 - distance) != 0),
        _ => u128::from(value != 0),
    }
}

/// `value` times two to the `power`.
fn rounded(negative: bool, value: u128, power: i32) -> Extended {
    if value == 0 {
        return Extended {
            negative,
            exponent: 0,
            significand: 0,
        };
    }
    let zeros = value.leading_zeros();
    let mut value = value << zeros;
    let mut exponent = power - zeros as i32 + 127 + BIAS;
    if exponent <= 0 {
        value = shifted(value, (1 - exponent) as u32);
        exponent = 0;
    }
    let (mut significand, rest) = ((value >> 64) as u64, value as u64);
    if rest > ONE || (rest == ONE && significand & 1 == 1) {
        significand = significand.wrapping_add(1);
        if significand == 0 {
            significand = ONE;
            exponent += 1;
        }
    }
    if exponent == 0 && significand >= ONE {
        exponent = 1;
    }
    match exponent >= i32::from(SPECIAL) {
        true => Extended::infinite(negative),
        false => Extended {
            negative,
            exponent: exponent as u16,
            significand,
        },
    }
}
