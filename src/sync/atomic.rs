// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic numbers as a trait, so that the algorithms of this folder run on the processor's atomics and on loom's.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;

pub trait Atomic<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    fn fence(order: Ordering);
}

/// An atomic number that several sides change.
pub trait Exchange: Atomic<u64> {
    fn compare_exchange(
        &self,
        from: u64,
        to: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
}

macro_rules! exchange {
    ($($place:ty;)*) => {$(
        impl Exchange for $place {
            #[inline]
            fn compare_exchange(
                &self,
                from: u64,
                to: u64,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u64, u64> {
                <$place>::compare_exchange(self, from, to, success, failure)
            }
        }
    )*};
}

macro_rules! atomic {
    ($($place:ty: $value:ty, $fence:path;)*) => {$(
        impl Atomic<$value> for $place {
            #[inline]
            fn load(&self, order: Ordering) -> $value {
                <$place>::load(self, order)
            }

            #[inline]
            fn store(&self, value: $value, order: Ordering) {
                <$place>::store(self, value, order);
            }

            #[inline]
            fn fence(order: Ordering) {
                $fence(order);
            }
        }
    )*};
}

atomic! {
    core::sync::atomic::AtomicU32: u32, core::sync::atomic::fence;
    core::sync::atomic::AtomicU64: u64, core::sync::atomic::fence;
}

exchange! {
    core::sync::atomic::AtomicU64;
}

#[cfg(all(test, loom))]
exchange! {
    loom::sync::atomic::AtomicU64;
}

#[cfg(all(test, loom))]
atomic! {
    loom::sync::atomic::AtomicU32: u32, loom::sync::atomic::fence;
    loom::sync::atomic::AtomicU64: u64, loom::sync::atomic::fence;
}
