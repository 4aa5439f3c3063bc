// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Headers that a peer must not send, and junk that it may.

use super::*;
use crate::engine::stream::proto::connect::CmError;

fn msg() -> Vec<u8> {
    encode(&Header::new(Op::Msg, 8), 0, false)
}

fn with(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for &(at, value) in changes {
        bytes[at] = value;
    }
    bytes
}

fn with_flags(bytes: Vec<u8>, flags: u16) -> Vec<u8> {
    let [low, high] = flags.to_ne_bytes();
    with(bytes, &[(2, low), (3, high)])
}

fn set_total(bytes: &mut [u8], total: u64) {
    bytes[8..16].copy_from_slice(&total.to_ne_bytes());
}

fn write(segs: &[RmaSeg], payload: u64) -> Vec<u8> {
    let mut h = Header::new(Op::Write, payload);
    h.segs[..segs.len()].copy_from_slice(segs);
    h.seg_count = segs.len() as u8;
    encode(&h, 0, false)
}

const SEG16: RmaSeg = RmaSeg {
    addr: 0,
    len: 16,
    key: 1,
};

#[test]
fn every_header_size_but_the_right_one_is_refused() {
    for header in samples() {
        let good = encode(&header, 0, false);
        let mut room = good.clone();
        room.resize(256, 0);
        for size in 0..=255u8 {
            let bytes = with(room.clone(), &[(6, size)]);
            let result = decode(&bytes, false);
            if usize::from(size) == good.len() {
                assert_eq!(result, Ok(header.clone()));
            } else {
                assert!(result.is_err(), "{header:?} as {size}");
            }
        }
    }
}

#[test]
fn header_len_refuses_sizes_that_no_byte_order_explains() {
    for size in [0, 15, 17, 23, 25, 32, 40, 120, 121, 255] {
        let bytes = with(msg(), &[(6, size)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(size)));
    }
    // 24 is a message with CQ data; only `decode`, which knows the byte order of the flags, can tell.
    let mut bytes = with(msg(), &[(6, 24)]);
    assert_eq!(header_len(&bytes), Ok(24));
    bytes.resize(24, 0);
    assert_eq!(decode(&bytes, false), Err(WireError::HeaderSize(24)));
}

#[test]
fn short_input_is_short() {
    for header in samples() {
        let bytes = encode(&header, 0, false);
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len], false), Err(WireError::Short));
        }
    }
}

#[test]
fn versions_and_ops() {
    for version in (0..=255).filter(|&v| v != 3) {
        let bytes = with(msg(), &[(0, version)]);
        assert_eq!(header_len(&bytes), Err(WireError::Version(version)));
        assert_eq!(decode(&bytes, false), Err(WireError::Version(version)));
    }
    for op in (8..=15).chain([19, 22, 23]).chain(27..=31).chain(37..=255) {
        let bytes = with(msg(), &[(1, op)]);
        assert_eq!(header_len(&bytes), Err(WireError::Op(op)));
        assert_eq!(decode(&bytes, false), Err(WireError::Op(op)));
    }
}

#[test]
fn receive_contexts() {
    let message = Header {
        context: 63,
        data: Some(5),
        ..Header::new(Op::Msg, 8)
    };
    for op in [Op::Msg, Op::Tagged, Op::Rts] {
        for swap in [false, true] {
            let mut header = Header {
                op,
                ..message.clone()
            };
            if op == Op::Rts {
                (header.index, header.msg_size, header.payload) = (9, 70, 0);
            }
            let bytes = encode(&header, 0, swap);
            assert_eq!(decode(&bytes, swap), Ok(header));
        }
    }
    let good = encode(&message, 0, false);
    for context in [0, 64, 255] {
        let bytes = with(good.clone(), &[(5, context)]);
        assert_eq!(decode(&bytes, false), Err(WireError::Context(context)));
    }
    // It is no acknowledgement, whatever stands there.
    assert_eq!(decode(&with(good, &[(4, 2)]), false), Ok(message));
    // An ordinary frame may have anything in that byte.
    let bytes = with(msg(), &[(5, 7)]);
    assert_eq!(decode(&bytes, false), Ok(Header::new(Op::Msg, 8)));
}

#[test]
fn segment_counts() {
    for count in [0, 5, 255] {
        let bytes = with(write(&[SEG16], 16), &[(5, count)]);
        assert_eq!(header_len(&bytes), Err(WireError::SegCount(count)));
        assert_eq!(decode(&bytes, false), Err(WireError::SegCount(count)));
    }
    for count in 2..=4 {
        let bytes = with(write(&[SEG16], 16), &[(5, count)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(40)));
    }
}

fn atomic(op: Op, lens: &[u64], payload: u64) -> Vec<u8> {
    let mut h = Header::new(op, payload);
    for (place, &len) in h.segs.iter_mut().zip(lens) {
        *place = RmaSeg { len, ..SEG16 };
    }
    h.seg_count = lens.len() as u8;
    h.datatype = 31;
    encode(&h, 0, false)
}

#[test]
fn atomic_operations() {
    let types = 31 << 3;
    for op in [Op::Atomic, Op::AtomicFetch, Op::AtomicCompare] {
        let good = atomic(op, &[16], 16);
        assert_eq!(good[5], types | 1);
        for count in [0, 5, 6, 7] {
            let bytes = with(good.clone(), &[(5, types | count)]);
            assert_eq!(header_len(&bytes), Err(WireError::SegCount(count)));
        }
        let bytes = with(good.clone(), &[(5, types | 2)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(40)));

        let length = |lens: &[u64], payload| {
            decode(&atomic(op, lens, payload), false) == Err(WireError::Length)
        };
        let (most, operands) = (
            MAX_ATOMIC as u64,
            if op == Op::AtomicCompare { 2 } else { 1 },
        );
        assert!(!length(&[most], operands * most) && length(&[most], operands * most + 1));
        assert!(length(&[most + 1], 1) && length(&[most - 8, 16], 1));
        assert!(length(&[u64::MAX, 16], 1) && length(&[u64::MAX - 16], 1));
    }
    // Only what has no result carries CQ data.
    for op in [Op::AtomicFetch, Op::AtomicCompare] {
        let bytes = with(atomic(op, &[16], 16), &[(6, 48)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(48)));
    }
}

#[test]
fn totals_below_the_header_and_payload_where_none_belongs() {
    for header in samples() {
        let mut bytes = encode(&header, 0, false);
        for total in [0, 1, bytes.len() as u64 - 1] {
            set_total(&mut bytes, total);
            assert_eq!(decode(&bytes, false), Err(WireError::TotalSize(total)));
        }
        let total = bytes.len() as u64 + 1;
        set_total(&mut bytes, total);
        let bare = matches!(
            header.op,
            Op::Ack
                | Op::ReadReq
                | Op::Rts
                | Op::Cts
                | Op::CollEnd
                | Op::Offer
                | Op::OfferTagged
                | Op::Taken
                | Op::Share
                | Op::Done
        );
        let refused = decode(&bytes, false) == Err(WireError::TotalSize(total));
        assert_eq!(refused, bare, "{header:?}");
    }
}

#[test]
fn rendezvous_indexes() {
    for op in [Op::Rts, Op::Cts, Op::Data, Op::Coll] {
        let mut header = Header::new(op, 0);
        header.index = 1;
        let good = encode(&header, 0, false);
        for index in [0, 255] {
            let bytes = with(good.clone(), &[(4, index)]);
            assert_eq!(decode(&bytes, false), Err(WireError::Index(index)));
        }
        assert!(decode(&with(good, &[(4, 254)]), false).is_ok());
    }
}

#[test]
fn lengths_that_overflow() {
    let huge = RmaSeg {
        len: u64::MAX,
        ..SEG16
    };
    let length = |bytes: &[u8]| decode(bytes, false) == Err(WireError::Length);
    assert!(length(&write(&[huge, SEG16], 16)));
    assert!(length(&write(&[huge], 16)));
    assert!(length(&write(&[SEG16], 17)));
    assert!(decode(&write(&[SEG16], 15), false).is_ok());

    let mut rts = Header::new(Op::Rts, 0);
    rts.index = 1;
    rts.msg_size = u64::MAX - 15;
    assert!(length(&encode(&rts, 0, false)));
    rts.msg_size -= 1;
    assert!(decode(&encode(&rts, 0, false), false).is_ok());
}

#[test]
fn junk_that_carries_no_meaning_is_ignored() {
    // Op data that is not an acknowledgement's, a segment count, any counter, unknown flag bits.
    let bytes = with(msg(), &[(4, 1), (5, 77), (7, 99)]);
    let bytes = with_flags(bytes, !0x0005);
    assert_eq!(decode(&bytes, false), Ok(Header::new(Op::Msg, 8)));
    // A flag that its op cannot use.
    let ack = encode(&Header::new(Op::Ack, 0), 0, false);
    let bytes = with_flags(ack, 0x000c);
    assert_eq!(decode(&bytes, false), Ok(Header::new(Op::Ack, 0)));
    // The CQ-data bit repeated without its field.
    let mut response = Header::new(Op::ReadRsp, 4);
    response.data = Some(DATA);
    let bytes = encode(&response, 0, false);
    assert_eq!(bytes.len(), BASE_HEADER);
    assert_eq!(decode(&bytes, false), Ok(Header::new(Op::ReadRsp, 4)));
}

#[test]
fn connection_messages() {
    let mut bytes = Vec::new();
    encode_cm(CmKind::Request, &[], false, &mut bytes);
    let good: [u8; CM_HEADER] = bytes.try_into().unwrap();
    let change = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        decode_cm(&bytes)
    };
    for version in [0, 2, 4, 255] {
        assert_eq!(change(0, version), Err(CmError::Version(version)));
    }
    for kind in [2, 3, 4, 5, 7, 255] {
        assert_eq!(change(1, kind), Err(CmError::Kind(kind)));
    }
    assert_eq!(change(2, 1).unwrap().private_len, 256);
    let mut long = good;
    long[2..4].copy_from_slice(&257u16.to_be_bytes());
    assert_eq!(decode_cm(&long), Err(CmError::Length(257)));
    // Reserved bytes are not looked at.
    assert_eq!(change(12, 9), decode_cm(&good));

    assert!(!decode_cm(&good).unwrap().swapped);
    let mut other = good;
    other[24..32].reverse();
    assert!(decode_cm(&other).unwrap().swapped);
    // A reject has no probe.
    other[1] = 6;
    assert!(!decode_cm(&other).unwrap().swapped);
}

#[test]
fn no_byte_in_the_fixed_part_panics() {
    for fill in [0x00, 0x01, 0x03, 0x7f, 0xff] {
        for at in 0..BASE_HEADER {
            for value in 0..=255u8 {
                for op in (0..=8).chain(16..=19) {
                    for size in [16, 24, 32, 40, 64, 120] {
                        let mut bytes = [fill; MAX_HEADER];
                        bytes[0] = VERSION;
                        bytes[1] = op;
                        bytes[6] = size;
                        bytes[at] = value;
                        for swap in [false, true] {
                            if let Ok(header) = decode(&bytes, swap) {
                                assert!(header.segs_len() <= u64::MAX - BASE_HEADER as u64);
                            }
                        }
                    }
                }
            }
        }
    }
}
