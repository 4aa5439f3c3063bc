// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests which bytes are copied, and which way is chosen.

use super::*;

/// # Safety
/// As `copy`.
unsafe fn past(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len < 64 {
            true => copy(from, to, len),
            false => lines::copy_past(from, to, len),
        }
    }
}

#[test]
fn each_byte_is_copied_and_no_other() {
    const ROOM: usize = 2400;
    let from: Vec<u8> = (0..ROOM).map(|i| (i * 7 + i / 256) as u8 | 1).collect();
    let lens = (0..140)
        .chain(LONG - 3..LONG + 140)
        .chain([1000, 2047, 2100])
        .step_by(if cfg!(miri) { 97 } else { 1 });
    for len in lens {
        for (skip, at) in [
            (0, 0),
            (1, 0),
            (0, 1),
            (63, 64),
            (64, 63),
            (17, 40),
            (130, 5),
        ] {
            for way in [copy, copy_to_shared, copy_from_shared, past] {
                let mut to = vec![0; ROOM];
                // SAFETY: both have room for it behind these places.
                unsafe { way(from.as_ptr().add(skip), to.as_mut_ptr().add(at), len) };
                assert_eq!(
                    to[at..at + len],
                    from[skip..skip + len],
                    "{len} {skip} {at}"
                );
                assert!(
                    to[..at]
                        .iter()
                        .chain(&to[at + len..])
                        .all(|&byte| byte == 0)
                );
            }
        }
    }
}

#[test]
fn starts_of_lines_are_copied_whole_and_nothing_else_is() {
    fn check<const N: usize>() {
        #[repr(align(64))]
        struct Line([u8; 64]);
        let from: [u8; N] = core::array::from_fn(|i| i as u8 + 1);
        let (mut line, mut back) = (Line([0xff; 64]), [0; N]);
        // SAFETY: both are 8 bytes behind the start of a line that has room for them.
        unsafe {
            copy_to_line(&from, line.0.as_mut_ptr().add(8));
            copy_from_line(line.0.as_ptr().add(8), &mut back);
        }
        assert_eq!((&line.0[8..8 + N], back), (&from[..], from));
        let rest = line.0[..8].iter().chain(&line.0[8 + N..]);
        assert!(rest.into_iter().all(|&byte| byte == 0xff), "{N}");
    }
    check::<8>();
    check::<16>();
    check::<24>();
    check::<32>();
    check::<40>();
    check::<48>();
    check::<56>();
}

#[test]
fn the_way_is_chosen_by_what_copies_take() {
    let mut ways = Ways::default();
    assert_eq!(ways.faster(), THROUGH);
    ways.note(PAST, 4000, 4096);
    assert_eq!(ways.faster(), THROUGH);
    ways.note(THROUGH, 4000, 4096);
    assert_eq!(ways.costs, [1000, 1000]);
    assert_eq!(ways.faster(), THROUGH);
    // The processors move apart, and together again.
    while ways.faster() == THROUGH {
        ways.note(THROUGH, 24000, 4096);
        assert!(ways.costs[THROUGH] < 5900);
    }
    while ways.faster() == PAST {
        ways.note(THROUGH, 8000, 4096);
        assert!(ways.costs[THROUGH] > 2100);
    }
    // Below `FAR_COST` copies stay in the cache, however fast the other way seems.
    ways.costs = [150, 20];
    assert_eq!(ways.faster(), THROUGH);
    ways.costs = [250, 20];
    assert_eq!(ways.faster(), PAST);
    // A copy that was interrupted changes the average only a little.
    ways.costs = [400, 1000];
    ways.note(THROUGH, u64::MAX, 4096);
    assert!(ways.costs[THROUGH] <= 1100);
    assert_eq!(ways.faster(), THROUGH);
    // The first sample is limited, too.
    let mut ways = Ways::default();
    for way in [THROUGH, PAST, THROUGH, PAST] {
        ways.note(way, u64::MAX, SHORTEST);
        assert!(ways.costs[way] <= MOST);
    }
}

#[test]
fn what_is_asked_is_a_copy_through_the_cache() {
    if !lines::CAN_PASS {
        return;
    }
    let (from, mut to) = ([7; SHORTEST], [0; SHORTEST]);
    for costs in [[3000, 20], [3000, 2000]] {
        let mut ways = Ways { costs, turn: 5 };
        assert!(ways.through() >= 3000);
        ways.ask();
        // SAFETY: both have room for it.
        unsafe { ways.copy(from.as_ptr(), to.as_mut_ptr(), SHORTEST) };
        assert_ne!(ways.costs[THROUGH], costs[THROUGH]);
        assert_eq!(ways.costs[PAST], costs[PAST]);
    }
    assert_eq!(Ways::default().through(), 0);
}

#[test]
fn whichever_way_it_goes_the_bytes_are_there() {
    let mut ways = Ways::default();
    let from: Vec<u8> = (0..9000).map(|i| (i * 11 + i / 256) as u8).collect();
    for i in 0..2 * OTHER as usize {
        let (len, at) = (SHORTEST - 1 + 27 * i % 4000, i % 130);
        let mut to = vec![0; 9000];
        // SAFETY: both have room for it.
        unsafe { ways.copy(from.as_ptr().add(i), to.as_mut_ptr().add(at), len) };
        assert_eq!(to[at..at + len], from[i..i + len], "{len} {at}");
    }
    assert!(!lines::CAN_PASS || ways.costs.iter().all(|&cost| cost > 0));
}

/// Whether the upper halves of AVX registers are in use, as far as the processor keeps account of it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx,xsave")]
fn has_upper_halves() -> Option<bool> {
    use core::arch::x86_64::{__cpuid_count, _mm256_zeroupper, _xgetbv};
    const IN_USE: u32 = 1;
    const AVX: u64 = 1 << 2;
    if __cpuid_count(13, 1).eax & 1 << 2 == 0 {
        return None;
    }
    // SAFETY: the processor has this register.
    let is_used = || unsafe { _xgetbv(IN_USE) } & AVX != 0;
    let before = is_used();
    _mm256_zeroupper();
    (!is_used()).then_some(before)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[test]
fn no_copy_leaves_the_upper_halves_of_registers_in_use() {
    if !is_x86_feature_detected!("avx") || !is_x86_feature_detected!("xsave") {
        return;
    }
    let (from, mut to) = (vec![7u8; 8192], vec![0u8; 8192]);
    for past in [false, true] {
        // SAFETY: both have the room, and the processor has the features.
        let left = unsafe {
            has_upper_halves();
            match past {
                false => lines::copy(from.as_ptr(), to.as_mut_ptr(), 8192, to.as_ptr() as usize),
                true => lines::copy_past(from.as_ptr(), to.as_mut_ptr(), 8192),
            }
            has_upper_halves()
        };
        assert_ne!(left, Some(true), "{past}");
    }
}
