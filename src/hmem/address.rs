// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of pieces of memory. One in device memory has a mark, so that each copy sees how its memory is reached
//! without asking a driver. The mark is the highest bit, which no address of a process has, nor the tags that x86's and
//! Arm's processors let programs put into addresses (LAM, MTE).

const MARK: usize = 1 << (usize::BITS - 1);

/// Whether this is a marked address.
#[inline(always)]
pub fn is_device(at: *const u8) -> bool {
    (at.addr() as isize) < 0
}

/// Returns the address with the mark. It must not be dereferenced.
pub fn marked(at: *mut u8) -> *mut u8 {
    at.map_addr(|address| address | MARK)
}

/// Returns the address without the mark.
#[inline(always)]
pub fn plain(at: *const u8) -> usize {
    at.addr() & !MARK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_can_be_taken_off() {
        let mut byte = 7;
        let at = &raw mut byte;
        assert!(!is_device(at) && is_device(marked(at)));
        assert_eq!((plain(at), plain(marked(at))), (at.addr(), at.addr()));
        assert!(is_device(marked(at).wrapping_add(100)));
    }
}
