// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! C's `long double` in 16 bytes. Rust has no such type, so this module uses the processor's instructions, or, if the
//! processor has none, the functions that C compilers call.

#[cfg(target_arch = "aarch64")]
mod quad;
#[cfg(target_arch = "x86_64")]
mod x87;

/// The bytes of a `long double`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct LongDouble(pub [u8; 16]);

impl LongDouble {
    pub fn equals(self, right: LongDouble) -> bool {
        self.is_at_most(right) && right.is_at_most(self)
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
