// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the pieces, and the cursor over them.

use super::*;
use sys::io_list::GatherList;

fn over(parts: &mut [&mut [u8]]) -> IoVec {
    let mut iov = IoVec::empty();
    for part in parts {
        // SAFETY: the test's arrays outlive the vector.
        let piece = unsafe { Piece::new(part.as_mut_ptr(), part.len()) };
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
    let new = |pieces, count| unsafe { IoVec::new(pieces, count) };
    assert!(new(pieces.as_ptr(), pieces.len()).is_none());
    assert!(new(pieces.as_ptr(), IOV_LIMIT).is_some());
    assert!(new(ptr::null(), 0).is_some());
    assert!(new(ptr::null(), 1).is_none());
}

#[test]
fn a_list_keeps_the_descriptor_of_all_its_pieces() {
    let (mut a, mut b) = ([0u8; 3], [0u8; 2]);
    let desc = |number| Desc::new(ptr::without_provenance_mut(number));
    // SAFETY: the arrays outlive the lists.
    let [one, other] = [&mut a[..], &mut b[..]]
        .map(|bytes| unsafe { Piece::new(bytes.as_mut_ptr(), bytes.len()) });
    let mut iov = IoVec::from(one).with_desc(desc(7));
    assert_eq!(iov.split_piece(1).unwrap().desc(), desc(7));
    assert_eq!(iov.split_off(1).desc(), desc(7));
    assert_eq!(iov.take().desc(), desc(7));
    let more = |number| IoVec::from(other.again()).with_desc(desc(number));
    for (number, of_both) in [(7, desc(7)), (8, Desc::NONE)] {
        let mut iov = more(7);
        assert!(iov.append(more(number)).is_ok());
        assert_eq!(iov.desc(), of_both);
    }
    iov.set(other, Desc::NONE);
    assert_eq!(iov.desc(), Desc::NONE);
}
