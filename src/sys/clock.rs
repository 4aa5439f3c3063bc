// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Short times: a counter of the processor that is cheap enough for every message, and sleeps of microseconds.
//!
//! Trusted with: an instruction that reads a counter.

/// Reads the processor's time stamp counter: some nanoseconds cheaper than a clock, but with ticks of unknown length.
/// On the processors that we run on, a microsecond has between one and five thousand ticks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 has the counter; it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads aarch64's virtual counter, which has 24 to 1000 ticks per microsecond, as its frequency register shows. The
/// result is scaled by the power of two that makes it one to two thousand ticks.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn ticks() -> u64 {
    let (count, frequency): (u64, u64);
    // SAFETY: Linux lets programs read both registers; they touch no memory.
    unsafe {
        core::arch::asm!(
            "mrs {count}, cntvct_el0",
            "mrs {frequency}, cntfrq_el0",
            count = out(reg) count,
            frequency = out(reg) frequency,
            options(nomem, nostack, preserves_flags),
        );
    }
    count
        << frequency
            .leading_zeros()
            .saturating_sub((1_u64 << 30).leading_zeros())
}

/// Makes sleeps of the calling thread end on time instead of up to 50 us later (PR_SET_TIMERSLACK).
pub fn make_sleeps_exact() {
    // If this fails, sleeps take longer.
    let _ = nix::sys::prctl::set_timerslack(1);
}
