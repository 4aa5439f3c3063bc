// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! C's `long double` as x86-64 has it: 80 bits in 16 bytes. Rust has no such type, so the processor is asked directly.
//!
//! Trusted with: the instructions of the x87 unit, whose stack each of them leaves as it was.
#![cfg(target_arch = "x86_64")]

use core::arch::asm;

/// The bytes of a `long double`; the last six mean nothing, and go with the left operand.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct LongDouble(pub [u8; 16]);

/// Two operands, the right one loaded first, so that the left one is on top; the result replaces the left.
macro_rules! compute {
    ($left:expr, $right:expr, $instruction:literal) => {{
        let mut left = $left;
        // SAFETY: both operands are 16 readable bytes of ours, the left one also writable; two values are pushed, and
        // both are popped again.
        unsafe {
            asm!(
                "fld tbyte ptr [{right}]",
                "fld tbyte ptr [{left}]",
                $instruction,
                "fstp tbyte ptr [{left}]",
                left = in(reg) &raw mut left,
                right = in(reg) &raw const $right,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        left
    }};
}

/// Compares the right operand with the left one, in the order that makes `$set` say "left is less": an operand that is
/// no number makes it say no.
macro_rules! compare {
    ($left:expr, $right:expr, $set:literal) => {{
        let answer: u8;
        // SAFETY: as in `compute`; nothing is written.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                "fucomip st, st(1)",
                "fstp st(0)",
                $set,
                left = in(reg) &raw const $left,
                right = in(reg) &raw const $right,
                answer = out(reg_byte) answer,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        answer != 0
    }};
}

impl LongDouble {
    pub fn sum(self, right: LongDouble) -> LongDouble {
        compute!(self, right, "faddp st(1), st")
    }

    pub fn difference(self, right: LongDouble) -> LongDouble {
        // The top minus the one below.
        compute!(self, right, "fsubrp st(1), st")
    }

    pub fn product(self, right: LongDouble) -> LongDouble {
        compute!(self, right, "fmulp st(1), st")
    }

    pub fn is_less(self, right: LongDouble) -> bool {
        compare!(self, right, "seta {answer}")
    }

    pub fn is_at_most(self, right: LongDouble) -> bool {
        compare!(self, right, "setae {answer}")
    }

    pub fn equals(self, right: LongDouble) -> bool {
        self.is_at_most(right) && right.is_at_most(self)
    }
}

impl From<f64> for LongDouble {
    fn from(value: f64) -> LongDouble {
        let mut out = LongDouble([0; 16]);
        // SAFETY: as in `compute`; one value is pushed and popped.
        unsafe {
            asm!(
                "fld qword ptr [{value}]",
                "fstp tbyte ptr [{out}]",
                value = in(reg) &raw const value,
                out = in(reg) &raw mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_and_comparisons() {
        let of = LongDouble::from;
        assert!(of(2.5).sum(of(-4.0)).equals(of(-1.5)));
        assert!(of(2.5).difference(of(-4.0)).equals(of(6.5)));
        assert!(of(2.5).product(of(-4.0)).equals(of(-10.0)));
        assert!(of(-1.0).is_less(of(1.0)) && !of(1.0).is_less(of(-1.0)));
        assert!(!of(1.0).is_less(of(1.0)) && of(1.0).is_at_most(of(1.0)));
        assert!(of(0.0).equals(of(-0.0)));
        let nan = of(f64::NAN);
        assert!(!nan.equals(nan) && !nan.is_at_most(of(1.0)) && !of(1.0).is_less(nan));
    }

    #[test]
    fn it_has_64_bits_of_precision() {
        let (big, one) = (LongDouble::from(1.8e19_f64.floor()), LongDouble::from(1.0));
        assert!(big.sum(one).difference(big).equals(one));
    }
}
