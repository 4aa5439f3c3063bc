// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the pieces, and the cursor over them.

use super::*;
use sys::io_list::GatherList;

fn over(parts: &mut [&mut [u8]]) -> IoVec {
    let mut iov = IoVec::empty();
    for part in parts {
        // SAFETY: the test's arrays outlive the vector.
        let piece = unsafe { Piece::new(part.as_mut_ptr(), part.len(), Host) };
        assert!(iov.push(piece));
    }
    iov
}

#[test]
fn bytes_go_in_piece_by_piece_and_stop_at_the_end() {
    let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 0], [0u8; 4]);
    let mut iov = over(&mut [&mut a, &mut b, &mut c]);
    assert_eq!(iov.remaining(), 7);
    assert_eq!(iov.copy_in(&[1, 2]), 2);
    assert_eq!(iov.copy_in(&[3, 4, 5, 6, 7, 8, 9]), 5);
    assert_eq!(iov.remaining(), 0);
    assert_eq!((a, c), ([1, 2, 3], [4, 5, 6, 7]));
}

#[test]
fn filling_starts_at_the_first_piece_and_stops_at_the_end() {
    let (mut a, mut b, mut c) = ([0u8; 2], [0u8; 0], [0u8; 2]);
    let iov = over(&mut [&mut a, &mut b, &mut c]);
    iov.fill(&[1]);
    iov.fill(&[]);
    assert_eq!((a, c), ([1, 0], [0, 0]));
    iov.fill(&[2, 3, 4, 5, 6]);
    assert_eq!((a, c), ([2, 3], [4, 5]));
}

#[test]
fn the_cursor_resumes_where_a_short_write_ended() {
    let (mut a, mut b) = ([1u8, 2, 3], [4u8, 5, 6]);
    let mut iov = over(&mut [&mut a, &mut b]);
    iov.advance(4);
    let mut out = Vec::new();
    iov.copy_out(&mut out);
    assert_eq!(out, [5, 6]);
    let mut list = GatherList::new();
    assert_eq!(iov.append_to(&mut list, usize::MAX), 2);
    iov.truncate(1);
    assert_eq!(iov.remaining(), 1);
    iov.advance(1);
    assert_eq!(iov.remaining(), 0);
}

#[test]
fn more_pieces_than_the_limit_are_refused() {
    const NONE: iovec = iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    };
    let pieces = [NONE; IOV_LIMIT + 1];
    // SAFETY: at most five readable, empty pieces; the NULL pointer is not read.
    let new = |pieces, count| unsafe { IoVec::<Host>::new(pieces, ptr::null(), count) };
    assert!(new(pieces.as_ptr(), pieces.len()).is_none());
    assert!(new(pieces.as_ptr(), IOV_LIMIT).is_some());
    assert!(new(ptr::null(), 0).is_some());
    assert!(new(ptr::null(), 1).is_none());
}

#[test]
fn each_piece_keeps_its_descriptor() {
    let (mut a, mut b, words) = ([0u8; 3], [0u8; 2], [1u8, 2]);
    let descs = [&raw const words[0], &raw const words[1]].map(|word| word.cast_mut().cast());
    let pieces = [a.as_mut_slice(), b.as_mut_slice()].map(|bytes| iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    });
    // SAFETY: two pieces and descriptors, of arrays that outlive the vector.
    let iov = unsafe { IoVec::<Desc>::new(pieces.as_ptr(), descs.as_ptr(), 2) }.unwrap();
    assert_eq!(iov.memories().collect::<Vec<_>>(), descs.map(Desc::new));
    // SAFETY: as above; without descriptors.
    let mut iov = unsafe { IoVec::<Desc>::new(pieces.as_ptr(), ptr::null(), 2) }.unwrap();
    assert_eq!(iov.memories().collect::<Vec<_>>(), [Desc::NONE; 2]);
    // The copied bytes are the same as without descriptors.
    assert_eq!(iov.copy_in(&[1, 2, 3, 4]), 4);
    assert_eq!((a, b), ([1, 2, 3], [4, 0]));
}
