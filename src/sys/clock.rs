// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Short times: a counter of the processor that is cheap enough for every message, and sleeps of microseconds.
//!
//! Trusted with: an instruction that reads a counter.

/// Ticks of the processor's time stamp counter: some nanoseconds cheaper than a clock, and of unknown length; on the
/// processors that we run on a microsecond has between one and five thousand.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 has the counter; it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Sleeps of the calling thread end when they are over, and not up to 50 us later (PR_SET_TIMERSLACK).
pub fn make_sleeps_exact() {
    // Without it sleeps are longer.
    let _ = nix::sys::prctl::set_timerslack(1);
}
