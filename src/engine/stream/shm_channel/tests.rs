// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two sides of one memory in one process: who is woken, and when.
#![forbid(unsafe_code)]

use super::*;

const RING: usize = 64 * 1024;

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

/// A reader with many peers leaves the ring of a quiet one to its doorbell. News that come at that very moment keep the ring
/// among those that are polled, and then its writer does not ring.
#[test]
fn a_ring_with_news_is_not_left_to_its_bell() {
    let (mut writer, mut reader) = pair();
    reader.expect_sleep();
    reader.disarm(true);
    write(&mut writer);
    assert!(!writer.must_ring());
    assert!(!reader.leave_to_doorbell());
    for _ in 0..100 {
        read(&mut reader);
        write(&mut writer);
        assert!(!writer.must_ring(), "it rings for a ring that is polled");
    }
    read(&mut reader);
    assert!(reader.leave_to_doorbell());
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
