// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two sides of one channel in one process: when the doorbell rings, and which copies are refused after a close.

use core::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::process_probe::ProcessProbe;
use crate::region_directory::RegionDirectory;
use base::{Access, IoVec, Registered};
use engine::mr::{KeyPolicy, MrTable};
use object::ops::transfer::RemoteSeg;
use sync::region_table::TableView;
use sync::ring::{Garbage, QUICK_LAP};
use sys::process_memory::Process;

const RING: usize = 64 * 1024;
const SMALLEST: usize = 4096;

fn pair() -> (ShmChannel, ShmChannel) {
    let (writer, fd) = ShmChannel::make(RING).unwrap();
    let reader = ShmChannel::take(&fd, RING, RING).unwrap();
    (writer, reader)
}

fn write(writer: &mut ShmChannel) {
    assert_eq!(writer.send(b"frame", &IoVec::empty(), 0), Ok(true));
}

fn read(reader: &mut ShmChannel) {
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

/// A reader with many peers leaves the ring of a quiet peer to its doorbell. If a record arrives at that moment, the
/// ring stays among the polled ones, and the writer does not ring.
#[test]
fn a_ring_with_a_record_is_not_left_to_its_doorbell() {
    let (mut writer, mut reader) = pair();
    reader.expect_sleep();
    reader.disarm(true);
    write(&mut writer);
    assert!(!writer.must_ring());
    assert!(!reader.rely_on_doorbell());
    for _ in 0..100 {
        read(&mut reader);
        write(&mut writer);
        assert!(!writer.must_ring(), "it rings for a ring that is polled");
    }
    read(&mut reader);
    assert!(reader.rely_on_doorbell());
    write(&mut writer);
    assert!(writer.must_ring());
}

/// A reader that took the byte of the doorbell and continues to sleep arms again, so that the next record rings again.
#[test]
fn a_reader_that_sleeps_on_is_woken_again() {
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

/// A record belongs to one channel. Used with another one it reads other bytes, but never out of bounds.
#[test]
fn a_record_of_another_channel_leads_nowhere() {
    let (mut writer, fd) = ShmChannel::make(16 * RING).unwrap();
    let mut reader = ShmChannel::take(&fd, 16 * RING, 16 * RING).unwrap();
    let long = vec![1; QUICK_LAP / 2];
    assert_eq!(writer.send(&long, &IoVec::empty(), 0), Ok(true));
    let (mut other_writer, fd) = ShmChannel::make(SMALLEST).unwrap();
    let other_reader = ShmChannel::take(&fd, SMALLEST, SMALLEST).unwrap();
    write(&mut other_writer);
    let record = reader.peek().unwrap().unwrap();
    let mut bytes = Vec::new();
    other_reader.append(&record, 0, &mut bytes);
    assert!(
        bytes.starts_with(b"frame") && bytes.len() < SMALLEST,
        "{}",
        bytes.len()
    );
    let mut out = vec![0; SMALLEST];
    assert_eq!(other_reader.copy(&record, 0, &mut out), Err(Garbage));
    bytes.clear();
    reader.append(&record, 1, &mut bytes);
    assert_eq!(bytes, long[1..]);
}

/// Returns a directory with one region of `len` bytes of value 5, with key 7.
fn directory(len: usize) -> RegionDirectory {
    let memory = vec![Registered::leaked(vec![5; len])];
    let mut regions = MrTable::new(KeyPolicy::default());
    let region = regions
        .register(memory, Access::REMOTE_READ, 0, 7, 0)
        .unwrap();
    RegionDirectory::new([&region].into_iter(), false).unwrap()
}

/// Reads the region with key 7 of the other side into new memory; returns whether all of it was copied.
fn read_region(side: &ShmChannel, len: usize) -> bool {
    let piece = Registered::leaked(vec![0; len]).part(0, len).unwrap();
    let seg = RemoteSeg {
        addr: 0,
        len,
        key: 7,
    };
    let copied = side.copy_region(&mut piece.cursor(), &seg, false);
    let mut bytes = Vec::new();
    piece.cursor().copy_out(&mut bytes);
    assert_eq!(bytes, vec![if copied { 5 } else { 0 }; len]);
    copied
}

/// After `end_copies`, closing a region does not wait for the peer, so the peer must not start a copy.
#[test]
fn an_ended_connection_is_no_way_to_registered_memory() {
    let directory = directory(64);
    let (owner, mut peer) = pair();
    peer.process
        .meet(Some(Process::own_as_other()), &ProcessProbe::own());
    peer.process
        .read_directory(&directory.fd().try_clone_to_owned().unwrap())
        .unwrap();
    assert!(read_region(&peer, 64));
    assert!(!owner.words.other().in_use().is_any() && !owner.words.own().in_use().has_left());
    owner.end_copies();
    assert!(owner.words.own().in_use().has_left() && !read_region(&peer, 64));
    assert!(!owner.words.other().in_use().is_any() && !peer.words.other().in_use().is_any());
}

/// `end_copies` waits for a copy in progress.
#[test]
fn an_ending_connection_waits_for_the_copy_of_its_peer() {
    let directory = directory(1);
    let view = TableView::new(&directory.fd().try_clone_to_owned().unwrap()).unwrap();
    let (mut owner, peer) = pair();
    owner
        .process
        .meet(Some(Process::own_as_other()), &ProcessProbe::own());
    let part = view.find(7, 0, 1, Access::REMOTE_READ.bits()).unwrap();
    let word = view.begin(&part, peer.words.own().in_use()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (owner, is_over) = (&mut owner, &is_over);
        scope.spawn(move || {
            owner.end_copies();
            assert!(is_over.load(Ordering::Acquire));
        });
        // The copy continues until its side sees that the other one has left.
        while !peer.words.other().in_use().has_left() {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Release);
        drop(word);
    });
}
