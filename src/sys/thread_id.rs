// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A number of the calling thread, for comparisons on the path of each message.
//!
//! Trusted with: a read of the register that points to the thread's own data.

/// Returns a number that no other thread of the process has at the same time; never 0.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn here() -> usize {
    let pointer: usize;
    // SAFETY: the ABI of x86-64 keeps the address of the thread's data at its beginning.
    unsafe {
        core::arch::asm!(
            "mov {pointer}, qword ptr fs:[0]",
            pointer = out(reg) pointer,
            options(readonly, pure, nostack, preserves_flags),
        );
    }
    pointer
}

/// Returns a number that no other thread of the process has at the same time; never 0.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn here() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| core::ptr::from_ref(place).addr())
}

#[cfg(test)]
mod tests {
    use super::here;

    #[test]
    fn threads_differ_and_a_thread_does_not_change() {
        let own = here();
        assert_ne!(own, 0);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| (here(), here())).join().unwrap();
            assert_eq!(other.0, other.1);
            assert_ne!(other.0, own);
        });
        assert_eq!(here(), own);
    }
}
