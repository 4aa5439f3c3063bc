// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two sides of one channel in one process: when the doorbell rings.
#![forbid(unsafe_code)]

use super::*;
use crate::base::IoVec;
use crate::sync::ring::{FIRST_LAP, Garbage};

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

/// A reader with many peers leaves the ring of a quiet one to its doorbell. A record that comes at that very moment
/// keeps the ring among those that are polled, and then its writer does not ring.
#[test]
fn a_ring_with_a_record_is_not_left_to_its_doorbell() {
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

/// A reader that took the doorbell's byte and goes on sleeping arms again: the next record rings again.
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

/// A record is one channel's; of another one it brings other bytes, and no more than that has.
#[test]
fn a_record_of_another_channel_leads_nowhere() {
    let (mut writer, fd) = ShmChannel::make(16 * RING).unwrap();
    let mut reader = ShmChannel::take(&fd, 16 * RING, 16 * RING).unwrap();
    let long = vec![1; FIRST_LAP / 2];
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
