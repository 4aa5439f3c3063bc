// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The compact forms of the fast path: they take and give the bytes of the general one, and leave all else to it.

use super::*;

#[test]
fn messages_agree_with_the_general_form() {
    let payload = [7u8; 9];
    for case in 0..8u8 {
        let tagged = case & 1 != 0;
        let message = Message {
            tagged,
            ack: case & 2 != 0,
            data: (case & 4 != 0).then_some(DATA),
            tag: if tagged { TAG } else { 0 },
            ..message(payload.len() as u64)
        };
        let mut frame = encode(&Frame::Message(message), case, false);
        let mut small = [0; MAX_MESSAGE_HEADER];
        let len = message.encode(case, false, &mut small);
        assert_eq!(small[..len], frame);

        frame.extend_from_slice(&payload);
        let wanted = (message, &payload[..], frame.len());
        assert_eq!(Message::whole(&frame), Some(wanted));
        let start = Some((message, len, frame.len()));
        assert_eq!(Message::compact(&frame), start);
        // The payload may be elsewhere, the header may not.
        assert_eq!(Message::compact(&frame[..len]), start);
        for cut in 0..frame.len() {
            assert_eq!(Message::whole(&frame[..cut]), None);
        }
        for cut in 0..len {
            assert_eq!(Message::compact(&frame[..cut]), None);
        }
        // Whatever contradicts itself, or is another frame, is left to the general form.
        for (at, value) in [
            (0, 2),
            (1, 2),
            (1, 1 - frame[1]),
            (4, 2),
            (6, len as u8 + 8),
            (8, 3),
        ] {
            let mut other = frame.clone();
            other[at] = value;
            assert_eq!(Message::whole(&other), None, "byte {at}");
        }
    }
}

#[test]
fn writes_of_segments_that_are_not_in_a_list_agree() {
    for case in 0..2 * MAX_SEGS as u8 {
        let segs = (0..=u64::from(case / 2)).map(|n| RmaSeg {
            addr: 0x1000 + n,
            len: 10 + n,
            key: DATA ^ n,
        });
        let segs: Vec<RmaSeg> = segs.collect();
        let write = Write {
            data: (case & 1 != 0).then_some(DATA),
            ..write(&segs)
        };
        let iter = Write {
            segs: segs.into_iter(),
            data: write.data,
            ack: false,
            commit: false,
            payload: write.payload,
        };
        let mut out = [0; MAX_HEADER];
        let len = iter.encode_iter(case, false, &mut out);
        assert_eq!(out[..len], encode(&Frame::Write(write), case, false));
    }
}

const SEG: RmaSeg = RmaSeg {
    addr: 0x1234,
    len: 8,
    key: 77,
};

#[test]
fn atomic_operations_and_answers_agree() {
    let payload = [9; 16];
    for (family, len) in FAMILIES.into_iter().zip([8, 0, 16]) {
        let general = Atomic {
            payload: len as u64,
            ..atomic(family, &[SEG])
        };
        let mut out = [0; MAX_HEADER];
        let header = general.what.encode_one(SEG, len, 200, &mut out);
        assert_eq!(out[..header], encode(&Frame::Atomic(general), 200, false));
        let frame = [&out[..header], &payload[..len]].concat();
        let wanted = (general.what, SEG, &payload[..len]);
        assert_eq!(AtomicOp::compact(&frame), Some(wanted));
        // One byte less or more is not the whole frame.
        assert_eq!(AtomicOp::compact(&frame[..frame.len() - 1]), None);
        assert_eq!(AtomicOp::compact(&[&frame[..], &[0]].concat()), None);
        assert_eq!(ReadResponse::compact(&frame), None);
    }
    let header = encode(
        &Frame::ReadResponse(ReadResponse { payload: 8 }),
        200,
        false,
    );
    let frame = [&header[..], &payload[..8]].concat();
    assert_eq!(ReadResponse::compact(&frame), Some(&payload[..8]));
    assert_eq!(ReadResponse::compact(&frame[..frame.len() - 1]), None);
    assert_eq!(ReadResponse::compact(&[&frame[..], &[0]].concat()), None);
    assert_eq!(AtomicOp::compact(&frame), None);
}

#[test]
fn what_looks_different_is_left_to_decode() {
    let bytes = |frame: Frame| [&encode(&frame, 1, false)[..], &[0; 8]].concat();
    let one = atomic(Family::Fetch, &[SEG]);
    let base = atomic(Family::Base, &[SEG]);
    let usual = bytes(Frame::Atomic(one));
    assert!(AtomicOp::compact(&usual).is_some());
    assert!(AtomicOp::compact(&bytes(Frame::Atomic(Atomic { ack: true, ..base }))).is_none());
    assert!(
        AtomicOp::compact(&bytes(Frame::Atomic(Atomic {
            commit: true,
            ..base
        })))
        .is_none()
    );
    let data = Some(DATA);
    assert!(AtomicOp::compact(&bytes(Frame::Atomic(Atomic { data, ..base }))).is_none());
    let two = Atomic {
        payload: 8,
        ..atomic(Family::Fetch, &[SEG, SEG])
    };
    assert!(AtomicOp::compact(&bytes(Frame::Atomic(two))).is_none());
    assert!(AtomicOp::compact(&bytes(Frame::Write(write(&[SEG])))).is_none());
    assert!(AtomicOp::compact(&bytes(plain(8))).is_none());
    for at in [0, 1, 2, 6, 8, 15] {
        let mut wrong = usual.clone();
        wrong[at] ^= 0x40;
        assert!(AtomicOp::compact(&wrong).is_none(), "{at}");
    }
    for len in 0..40 {
        let mut cut = usual[..len].to_vec();
        if len >= BASE_HEADER {
            set_total(&mut cut, len as u64);
        }
        assert!(AtomicOp::compact(&cut).is_none(), "{len}");
    }
}

fn set_total(bytes: &mut [u8], total: u64) {
    bytes[8..16].copy_from_slice(&total.to_ne_bytes());
}
