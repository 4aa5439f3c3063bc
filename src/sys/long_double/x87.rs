// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! x86-64's: 80 bits in 16 bytes; the last six bytes mean nothing, and go with the left operand.
//!
//! Trusted with: the instructions of the x87 unit, whose stack each of them leaves as it was.

use core::arch::asm;

use super::LongDouble;

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
