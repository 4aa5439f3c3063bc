// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two sides of one memory in one process: who is woken, and when; and who copies no more.

use super::*;
use crate::abi::FI_REMOTE_READ;
use crate::base::Registered;
use crate::engine::mr::{KeyPolicy, MrTable};
use crate::engine::stream::board::Board;
use crate::engine::stream::direct::end_direct;
use crate::hmem::Host;

const RING: usize = 64 * 1024;

fn pair() -> (Duct, Duct) {
    let (writer, fd) = Duct::make(RING).unwrap();
    let reader = Duct::take(&fd, RING, RING).unwrap();
    (writer, reader)
}

fn write(writer: &mut Duct) {
    assert_eq!(writer.send(b"frame", &IoVec::empty(), 0), Ok(true));
}

fn read(reader: &mut Duct) {
    let record = reader.peek().unwrap().unwrap();
    let _ = reader.advance(record);
}

#[test]
fn a_reader_is_woken_until_it_has_polled() {
    let (mut writer, reader) = pair();
    write(&mut writer);
    assert!(writer.must_ring());
    reader.disarm(false);
    write(&mut writer);
    assert!(!writer.must_ring());
}

/// A reader with many peers leaves the ring of a quiet one to its doorbell. News that come at that very moment keep the ring
/// among those that are polled, and then its writer does not ring.
#[test]
fn a_ring_with_news_is_not_left_to_its_bell() {
    let (mut writer, mut reader) = pair();
    reader.expect_sleep();
    reader.disarm(true);
    write(&mut writer);
    assert!(!writer.must_ring());
    assert!(!reader.leave_to_bell());
    for _ in 0..100 {
        read(&mut reader);
        write(&mut writer);
        assert!(!writer.must_ring(), "it rings for a ring that is polled");
    }
    read(&mut reader);
    assert!(reader.leave_to_bell());
    write(&mut writer);
    assert!(writer.must_ring());
}

/// Whoever took the ring's byte goes on sleeping: the next record rings again.
#[test]
fn a_ring_that_was_rung_for_rings_again() {
    let (mut writer, mut reader) = pair();
    for _ in 0..3 {
        write(&mut writer);
        assert!(writer.must_ring());
        write(&mut writer);
        assert!(!writer.must_ring());
        read(&mut reader);
        read(&mut reader);
        reader.arm_again();
    }
    reader.disarm(true);
    reader.arm_again();
    write(&mut writer);
    assert!(!writer.must_ring());
}

/// Reads the region with key 7 of the other side into new memory; whether all of it was copied.
fn read_region(side: &Duct, len: usize) -> bool {
    let mut bytes = vec![0u8; len];
    // SAFETY: the memory outlives the vector.
    let piece = unsafe { Piece::new(bytes.as_mut_ptr(), len, Host) };
    let seg = RemoteSeg {
        addr: 0,
        len,
        key: 7,
    };
    let copied = side.copy_region(&mut piece.cursor(), &seg, false);
    assert!(bytes.iter().all(|&byte| byte == if copied { 5 } else { 0 }));
    copied
}

/// Nobody would wait for the other side's copies any more when a region is closed.
#[test]
fn an_ended_connection_is_no_way_to_registered_memory() {
    let bytes = [5u8; 64];
    // SAFETY: the memory outlives the region.
    let memory = vec![unsafe { Registered::new(bytes.as_ptr().cast_mut(), bytes.len()) }];
    let mut regions = MrTable::new(KeyPolicy::from_mr_mode(0));
    let region = regions.register(memory, FI_REMOTE_READ, 0, 7, 0).unwrap();
    let board = Board::new([&region].into_iter()).unwrap();
    let (owner, mut peer) = pair();
    peer.meet(Some(std::process::id() as i32), &Witness::own());
    peer.read_board(&board.fd().try_clone_to_owned().unwrap())
        .unwrap();
    assert!(read_region(&peer, 64));
    assert!(!owner.is_using_any() && !owner.has_left());
    end_direct(&owner);
    assert!(owner.has_left() && !read_region(&peer, 64));
    assert!(!owner.is_using_any() && !peer.is_using_any());
}

/// A copy that is under way when a connection ends is waited for.
#[test]
fn an_ending_connection_waits_for_the_copy_of_its_peer() {
    let byte = 5u8;
    // SAFETY: the memory outlives the region.
    let memory = vec![unsafe { Registered::new((&raw const byte).cast_mut(), 1) }];
    let mut regions = MrTable::new(KeyPolicy::from_mr_mode(0));
    let region = regions.register(memory, FI_REMOTE_READ, 0, 7, 0).unwrap();
    let board = Board::new([&region].into_iter()).unwrap();
    let view = View::new(&board.fd().try_clone_to_owned().unwrap()).unwrap();
    let (mut owner, peer) = pair();
    owner.meet(Some(std::process::id() as i32), &Witness::own());
    let part = view.find(7, 0, 1, FI_REMOTE_READ).unwrap();
    let word = view.begin(&part, &peer.own().using.0).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (owner, is_over) = (&mut owner, &is_over);
        scope.spawn(move || {
            end_direct(owner);
            assert!(is_over.load(Ordering::Acquire));
        });
        // The copy goes on until its side has seen that the other one leaves.
        // SAFETY: as in `Duct::own`.
        let left = || unsafe { peer.other.as_ref() }.using.0.has_left();
        while !left() {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Release);
        drop(word);
    });
}
