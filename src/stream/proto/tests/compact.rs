// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The compact decoders and encoders of the fast path: they must agree with the general ones and leave all else to
//! them.

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
        // The general decoder handles frames that contradict themselves, and other frames.
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
        let wanted = Some((general.what, SEG, &payload[..len], frame.len()));
        assert_eq!(AtomicOp::whole(&frame), wanted);
        // One byte less is an incomplete frame; one more belongs to the next frame.
        assert_eq!(AtomicOp::whole(&frame[..frame.len() - 1]), None);
        assert_eq!(AtomicOp::whole(&[&frame[..], &[0]].concat()), wanted);
        assert_eq!(ReadResponse::whole(&frame), None);
    }
    let header = encode(
        &Frame::ReadResponse(ReadResponse { payload: 8 }),
        200,
        false,
    );
    let frame = [&header[..], &payload[..8]].concat();
    let wanted = Some((&payload[..8], frame.len()));
    assert_eq!(ReadResponse::whole(&frame), wanted);
    assert_eq!(ReadResponse::whole(&frame[..frame.len() - 1]), None);
    assert_eq!(ReadResponse::whole(&[&frame[..], &[0]].concat()), wanted);
    assert_eq!(AtomicOp::whole(&frame), None);
}

#[test]
fn writes_and_reads_of_one_segment_agree() {
    for case in 0..4u8 {
        let general = Write {
            data: (case & 1 != 0).then_some(DATA),
            ack: case & 2 != 0,
            ..write(&[SEG])
        };
        let frame = [&encode(&Frame::Write(general), 1, false)[..], &[3; 8]].concat();
        let (one, payload, len) = Write::whole(&[&frame[..], &[0]].concat()[..])
            .map(|(one, payload, len)| (one, payload.to_vec(), len))
            .unwrap();
        assert_eq!(
            (one.segs, one.data, one.ack),
            (SEG, general.data, general.ack)
        );
        assert_eq!((&payload[..], len), (&[3; 8][..], frame.len()));
        for cut in 0..frame.len() {
            assert_eq!(Write::whole(&frame[..cut]), None);
        }
    }
    let bytes = |write| [&encode(&Frame::Write(write), 1, false)[..], &[3; 40]].concat();
    let durable = Write {
        commit: true,
        ..write(&[SEG])
    };
    assert_eq!(Write::whole(&bytes(durable)), None);
    assert_eq!(Write::whole(&bytes(write(&[SEG, SEG]))), None);
    // The payload is shorter than the segment: the general decoder refuses it.
    assert_eq!(
        Write::whole(&bytes(Write {
            payload: 7,
            ..write(&[SEG])
        })),
        None
    );

    let request = |segs: &[RmaSeg]| {
        let segs = segs.iter().copied().collect();
        encode(&Frame::ReadRequest(ReadRequest { segs }), 1, false)
    };
    let one = request(&[SEG]);
    assert_eq!(
        ReadRequest::whole(&[&one[..], &[0]].concat()),
        Some((SEG, one.len()))
    );
    assert_eq!(ReadRequest::whole(&one[..one.len() - 1]), None);
    assert_eq!(ReadRequest::whole(&request(&[SEG, SEG])), None);
}

#[test]
fn what_looks_different_is_left_to_decode() {
    let bytes = |frame: Frame| [&encode(&frame, 1, false)[..], &[0; 8]].concat();
    let one = atomic(Family::Fetch, &[SEG]);
    let base = atomic(Family::Base, &[SEG]);
    let usual = bytes(Frame::Atomic(one));
    assert!(AtomicOp::whole(&usual).is_some());
    assert!(AtomicOp::whole(&bytes(Frame::Atomic(Atomic { ack: true, ..base }))).is_none());
    assert!(
        AtomicOp::whole(&bytes(Frame::Atomic(Atomic {
            commit: true,
            ..base
        })))
        .is_none()
    );
    let data = Some(DATA);
    assert!(AtomicOp::whole(&bytes(Frame::Atomic(Atomic { data, ..base }))).is_none());
    let two = Atomic {
        payload: 8,
        ..atomic(Family::Fetch, &[SEG, SEG])
    };
    assert!(AtomicOp::whole(&bytes(Frame::Atomic(two))).is_none());
    assert!(AtomicOp::whole(&bytes(Frame::Write(write(&[SEG])))).is_none());
    assert!(AtomicOp::whole(&bytes(plain(8))).is_none());
    for at in [0, 1, 2, 6, 8, 15] {
        let mut wrong = usual.clone();
        wrong[at] ^= 0x40;
        assert!(AtomicOp::whole(&wrong).is_none(), "{at}");
    }
    for len in 0..40 {
        let mut cut = usual[..len].to_vec();
        if len >= BASE_HEADER {
            set_total(&mut cut, len as u64);
        }
        assert!(AtomicOp::whole(&cut).is_none(), "{len}");
    }
}

fn set_total(bytes: &mut [u8], total: u64) {
    bytes[8..16].copy_from_slice(&total.to_ne_bytes());
}
