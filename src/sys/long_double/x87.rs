// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The type on x86-64: 80 bits in 16 bytes. The last six bytes have no meaning; results have those of the left operand.
//!
//! Trusted with: instructions of the x87 unit. Each sequence leaves the stack of that unit unchanged.

use core::arch::asm;

use super::LongDouble;

/// Loads the right operand first, so that the left one is on top of the stack. The result replaces the left operand.
macro_rules! compute {
    ($left:expr, $right:expr, $instruction:literal) => {{
        let mut left = $left;
        // SAFETY: both operands are 16 readable bytes, and the left one is a local copy that is writable; two values
        // are pushed, and both are popped again.
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

/// Compares the right operand with the left one, so that `$set` yields 1 if the left one is less. It yields 0 if an
/// operand is a NaN.
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
        // The instruction computes the top of the stack minus the value below.
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
