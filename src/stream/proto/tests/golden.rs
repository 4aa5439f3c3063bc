// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The bytes of extension frames, of which there are no captures: docs/wire/tcp.md, "Extensions", and docs/wire/shm.md.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    pairs.map(byte).collect()
}

fn seg(addr: u64, len: u64, key: u64) -> RmaSeg {
    RmaSeg { addr, len, key }
}

fn numbered(family: Family, op: u8, datatype: u8, segs: &[RmaSeg]) -> Atomic {
    let what = AtomicOp {
        family,
        op,
        datatype,
    };
    Atomic {
        what,
        ..atomic(family, segs)
    }
}

#[rustfmt::skip]
fn cases() -> Vec<(Frame, &'static str)> {
    let one = seg(0x40, 8, 5);
    let two = numbered(Family::Base, 1, 7, &[one, seg(0x80, 8, 6)]);
    let places = |list: &[(usize, usize)]| list.iter().copied().collect();
    let offer = Offer {
        index: 9, tagged: false, tag: 0, data: None, epoch: 0x11, context: 3,
        places: places(&[(0x7f00_0000_1000, 0x8000)]),
    };
    vec![
        (Frame::Message(Message { ack: true, context: 63, ..message(8) }),
            "03180400003f1005 1800000000000000"),
        (Frame::Message(Message { tagged: true, tag: TAG, data: Some(DATA), context: 1, ..message(8) }),
            "0319010000012005 2800000000000000 a8a7a6a5a4a3a2a1 8877665544332211"),
        (Frame::ReadyToSend(ReadyToSend {
            index: 3, tag: TAG, size: 0x10000, data: None, ack: false, context: 2,
        }), "031a000003022005 2000000000000000 8877665544332211 0000010000000000"),
        (Frame::Atomic(Atomic { data: Some(DATA), ack: true, commit: true, ..two }),
            "03100d00013a4805 5800000000000000 a8a7a6a5a4a3a2a1 4000000000000000 0800000000000000 0500000000000000
             8000000000000000 0800000000000000 0600000000000000"),
        (Frame::Atomic(numbered(Family::Fetch, 2, 6, &[one])),
            "0311000002312805 3000000000000000 4000000000000000 0800000000000000 0500000000000000"),
        (Frame::Collective(Collective { kind: 2, group: TAG, seq: 7, round: 9, payload: 4 }),
            "0314000002002005 2400000000000000 8877665544332211 0900000007000000"),
        (Frame::CollectiveEnd(CollectiveEnd { group: TAG, seq: 7, error: 107 }),
            "0315000000002005 2000000000000000 8877665544332211 6b00000007000000"),
        (Frame::Offer(offer),
            "0320000009012805 2800000000000000 00100000007f0000 0080000000000000 1100000003000000"),
        (Frame::Offer(Offer {
            tagged: true, tag: TAG, data: Some(DATA), context: 0,
            places: places(&[(0x7f00_0000_1000, 0x8000), (0x7f00_0000_3000, 0x10)]), ..offer
        }), "0321010009025005 5000000000000000 a8a7a6a5a4a3a2a1 8877665544332211 00100000007f0000 0080000000000000
             1100000000000000 00300000007f0000 1000000000000000 0000000000000000"),
        (Frame::Exported(Exported { index: 9, export: export() }), "0327000009017005 7000000000000000 abababababababab abababababababab abababababababab abababababababab
             abababababababab abababababababab abababababababab abababababababab cdcdcdcdcdcdcdcd cdcdcdcdcdcdcdcd
             00000000007f0000 0000200000000000"),
        (Frame::Taken { index: 9 }, "0322000009001005 1000000000000000"),
        (Frame::Share(Share { index: 9, places: places(&[(0x7f00_0000_5000, 0x8010)]), job: 0x2a }),
            "0323000009012805 2800000000000000 00500000007f0000 1080000000000000 2a00000000000000"),
        (Frame::Refused(Refused::Ack), "0316000001001005 1000000000000000"),
        (Frame::Refused(Refused::Response), "0316000002001005 1000000000000000"),
        (Frame::Close(Close::Request), "0317000001001005 1000000000000000"),
        (Frame::Close(Close::Ready), "0317000002001005 1000000000000000"),
        (Frame::Close(Close::Refused), "0317000003001005 1000000000000000"),
        (Frame::Close(Close::Withdrawn), "0317000004001005 1000000000000000"),
        (Frame::Done { index: 9 }, "0324000009001005 1000000000000000"),
    ]
}

#[test]
fn extension_frames_have_their_bytes() {
    for (frame, bytes) in cases() {
        let bytes = hex(bytes);
        assert_eq!(encode(&frame, 5, false), bytes, "{frame:?}");
        assert_eq!(
            decode(&bytes, false),
            Ok(Decoded::Frame(frame, bytes.len()))
        );
    }
}
