// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The type on aarch64: 128 bits of IEEE 754, computed by functions of the compiler's runtime library. They take such
//! values in vector registers.
//!
//! Trusted with: the calls of these functions.

use core::arch::aarch64::{uint8x16_t, vld1q_u8, vst1q_u8};
use core::arch::asm;

use super::LongDouble;

impl LongDouble {
    fn load(self) -> uint8x16_t {
        // SAFETY: the 16 bytes are readable.
        unsafe { vld1q_u8(self.0.as_ptr()) }
    }

    fn store(value: uint8x16_t) -> LongDouble {
        let mut out = LongDouble([0; 16]);
        // SAFETY: the 16 bytes are writable.
        unsafe { vst1q_u8(out.0.as_mut_ptr(), value) };
        out
    }
}

/// Calls a function of two operands; the result is a `long double`, in the first vector register.
macro_rules! compute {
    ($left:expr, $right:expr, $function:ident) => {{
        let mut value = $left.load();
        // SAFETY: the function takes and returns only values; the registers that it may change are listed.
        unsafe {
            asm!(
                "bl {function}",
                function = sym $function,
                inout("v0") value,
                in("v1") $right.load(),
                clobber_abi("C"),
            );
        }
        LongDouble::store(value)
    }};
}

/// As `compute`, but the result is an integer, in the first integer register.
macro_rules! compare {
    ($left:expr, $right:expr, $function:ident) => {{
        let answer: u64;
        // SAFETY: as in `compute`.
        unsafe {
            asm!(
                "bl {function}",
                function = sym $function,
                in("v0") $left.load(),
                in("v1") $right.load(),
                lateout("x0") answer,
                clobber_abi("C"),
            );
        }
        answer as u32 as i32
    }};
}

impl LongDouble {
    pub fn sum(self, right: LongDouble) -> LongDouble {
        compute!(self, right, __addtf3)
    }

    pub fn difference(self, right: LongDouble) -> LongDouble {
        compute!(self, right, __subtf3)
    }

    pub fn product(self, right: LongDouble) -> LongDouble {
        compute!(self, right, __multf3)
    }

    pub fn is_less(self, right: LongDouble) -> bool {
        // The result is negative for less, and never negative if an operand is a NaN.
        compare!(self, right, __lttf2) < 0
    }

    pub fn is_at_most(self, right: LongDouble) -> bool {
        compare!(self, right, __letf2) <= 0
    }
}

impl From<f64> for LongDouble {
    fn from(value: f64) -> LongDouble {
        let out: uint8x16_t;
        // SAFETY: as in `compute`.
        unsafe {
            asm!(
                "bl {function}",
                function = sym __extenddftf2,
                in("d0") value,
                lateout("v0") out,
                clobber_abi("C"),
            );
        }
        LongDouble::store(out)
    }
}

unsafe extern "C" {
    // Their operands have a type that does not exist in Rust; only `asm!` calls them.
    fn __addtf3();
    fn __subtf3();
    fn __multf3();
    fn __lttf2();
    fn __letf2();
    fn __extenddftf2();
}
