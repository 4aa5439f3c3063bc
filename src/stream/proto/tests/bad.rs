// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Headers that a peer must not send, and meaningless bytes that it may send.

use super::super::connect::CmError;
use super::super::head::VERSION;
use super::*;

fn msg() -> Vec<u8> {
    encode(&plain(8), 0, false)
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

fn write_of(segs: &[RmaSeg], payload: u64) -> Vec<u8> {
    let segs = segs.iter().copied().collect();
    let write = Write {
        segs,
        payload,
        ..write(&[])
    };
    encode(&Frame::Write(write), 0, false)
}

const SEG16: RmaSeg = RmaSeg {
    addr: 0,
    len: 16,
    key: 1,
};

#[test]
fn every_header_size_but_the_right_one_is_refused() {
    for frame in samples() {
        let good = encode(&frame, 0, false);
        let mut room = good.clone();
        room.resize(256, 0);
        for size in 0..=255u8 {
            let bytes = with(room.clone(), &[(6, size)]);
            let result = decode(&bytes, false);
            if usize::from(size) == good.len() {
                assert_eq!(result, Ok(Decoded::Frame(frame, good.len())));
            } else {
                assert!(result.is_err(), "{frame:?} as {size}");
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
    // 24 is the size of a message with CQ data; only `decode`, which knows the byte order of the flags, sees the
    // mismatch.
    let mut bytes = with(msg(), &[(6, 24)]);
    assert_eq!(header_len(&bytes), Ok(24));
    bytes.resize(24, 0);
    assert_eq!(read(&bytes, false), Err(WireError::HeaderSize(24)));
}

#[test]
fn a_part_of_a_header_tells_how_much_is_needed() {
    for frame in samples() {
        for swap in [false, true] {
            let bytes = encode(&frame, 0, swap);
            for len in 0..bytes.len() {
                let needs = match len < BASE_HEADER {
                    true => BASE_HEADER,
                    false => bytes.len(),
                };
                assert_eq!(decode(&bytes[..len], swap), Ok(Decoded::Needs(needs)));
            }
        }
    }
}

#[test]
fn versions_and_ops() {
    for version in (0..=255).filter(|&v| v != 3) {
        let bytes = with(msg(), &[(0, version)]);
        assert_eq!(header_len(&bytes), Err(WireError::Version(version)));
        assert_eq!(read(&bytes, false), Err(WireError::Version(version)));
    }
    for op in (8..=15)
        .chain([19])
        .chain(27..=31)
        .chain([37, 38])
        .chain(40..=255)
    {
        let bytes = with(msg(), &[(1, op)]);
        assert_eq!(header_len(&bytes), Err(WireError::Op(op)));
        assert_eq!(read(&bytes, false), Err(WireError::Op(op)));
    }
}

#[test]
fn receive_contexts() {
    let message = Message {
        context: 63,
        data: Some(5),
        ..message(8)
    };
    let good = encode(&Frame::Message(message), 0, false);
    for op in [24, 25, 26] {
        let frames = samples().into_iter().map(|frame| encode(&frame, 0, false));
        for bytes in frames.filter(|bytes| bytes[1] == op) {
            for context in [0, 64, 255] {
                let bytes = with(bytes.clone(), &[(5, context)]);
                assert_eq!(read(&bytes, false), Err(WireError::Context(context)));
            }
        }
    }
    // The frame is not an acknowledgement, whatever this byte holds.
    assert_eq!(
        read(&with(good, &[(4, 2)]), false),
        Ok(Frame::Message(message))
    );
    // An ordinary frame may have any value in this byte.
    let bytes = with(msg(), &[(5, 7)]);
    assert_eq!(read(&bytes, false), Ok(plain(8)));
}

#[test]
fn segment_counts() {
    for count in [0, 5, 255] {
        let bytes = with(write_of(&[SEG16], 16), &[(5, count)]);
        assert_eq!(header_len(&bytes), Err(WireError::SegCount(count)));
        assert_eq!(read(&bytes, false), Err(WireError::SegCount(count)));
    }
    for count in 2..=4 {
        let bytes = with(write_of(&[SEG16], 16), &[(5, count)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(40)));
    }
}

fn atomic_of(family: Family, lens: &[u64], payload: u64) -> Vec<u8> {
    let segs = lens.iter().map(|&len| RmaSeg { len, ..SEG16 }).collect();
    let atomic = Atomic {
        segs,
        payload,
        ..atomic(family, &[])
    };
    encode(&Frame::Atomic(atomic), 0, false)
}

#[test]
fn atomic_operations() {
    let types = 31 << 3;
    for family in FAMILIES {
        let good = atomic_of(family, &[16], 16);
        assert_eq!(good[5], types | 1);
        for count in [0, 5, 6, 7] {
            let bytes = with(good.clone(), &[(5, types | count)]);
            assert_eq!(header_len(&bytes), Err(WireError::SegCount(count)));
        }
        let bytes = with(good.clone(), &[(5, types | 2)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(40)));

        let length = |lens: &[u64], payload| {
            read(&atomic_of(family, lens, payload), false) == Err(WireError::Length)
        };
        let (most, operands) = (
            MAX_ATOMIC as u64,
            if family == Family::Compare { 2 } else { 1 },
        );
        assert!(!length(&[most], operands * most) && length(&[most], operands * most + 1));
        assert!(length(&[most + 1], 1) && length(&[most - 8, 16], 1));
        assert!(length(&[u64::MAX, 16], 1) && length(&[u64::MAX - 16], 1));
    }
    // Only operations without a result carry CQ data.
    for family in [Family::Fetch, Family::Compare] {
        let bytes = with(atomic_of(family, &[16], 16), &[(6, 48)]);
        assert_eq!(header_len(&bytes), Err(WireError::HeaderSize(48)));
    }
}

#[test]
fn totals_below_the_header_and_payload_where_none_belongs() {
    for frame in samples() {
        let mut bytes = encode(&frame, 0, false);
        for total in [0, 1, bytes.len() as u64 - 1] {
            set_total(&mut bytes, total);
            assert_eq!(read(&bytes, false), Err(WireError::TotalSize(total)));
        }
        let total = bytes.len() as u64 + 1;
        set_total(&mut bytes, total);
        let bare = matches!(
            frame,
            Frame::Ack
                | Frame::ReadRequest(_)
                | Frame::ReadyToSend(_)
                | Frame::ClearToSend { .. }
                | Frame::CollectiveEnd(_)
                | Frame::Offer(_)
                | Frame::Exported(_)
                | Frame::Taken { .. }
                | Frame::Share(_)
                | Frame::Refused(_)
                | Frame::Done { .. }
                | Frame::Close(_)
        );
        let refused = read(&bytes, false) == Err(WireError::TotalSize(total));
        assert_eq!(refused, bare, "{frame:?}");
    }
}

#[test]
fn rendezvous_indexes() {
    let has_index = |frame: &Frame| {
        matches!(
            frame,
            Frame::ReadyToSend(_)
                | Frame::ClearToSend { .. }
                | Frame::RendezvousData(_)
                | Frame::Collective(_)
                | Frame::Offer(_)
                | Frame::Exported(_)
                | Frame::Taken { .. }
                | Frame::Share(_)
                | Frame::Done { .. }
        )
    };
    for frame in samples().into_iter().filter(has_index) {
        let good = encode(&frame, 0, false);
        for index in [0, 255] {
            let bytes = with(good.clone(), &[(4, index)]);
            assert_eq!(read(&bytes, false), Err(WireError::Index(index)));
        }
        assert!(read(&with(good, &[(4, 254)]), false).is_ok());
    }
}

#[test]
fn lengths_that_overflow() {
    let huge = RmaSeg {
        len: u64::MAX,
        ..SEG16
    };
    let length = |bytes: &[u8]| read(bytes, false) == Err(WireError::Length);
    assert!(length(&write_of(&[huge, SEG16], 16)));
    assert!(length(&write_of(&[huge], 16)));
    assert!(length(&write_of(&[SEG16], 17)));
    assert!(read(&write_of(&[SEG16], 15), false).is_ok());

    let ready = |size| {
        encode(
            &Frame::ReadyToSend(ReadyToSend {
                index: 1,
                tag: 0,
                size,
                data: None,
                ack: false,
                context: 0,
            }),
            0,
            false,
        )
    };
    assert!(length(&ready(u64::MAX - 15)));
    assert!(read(&ready(u64::MAX - 16), false).is_ok());
}

#[test]
fn junk_that_carries_no_meaning_is_ignored() {
    // Op data of no acknowledgement, a segment count, any counter, unknown flag bits.
    let bytes = with(msg(), &[(4, 1), (5, 77), (7, 99)]);
    let bytes = with_flags(bytes, !0x0005);
    assert_eq!(read(&bytes, false), Ok(plain(8)));
    // A flag that its op cannot use.
    let bytes = with_flags(encode(&Frame::Ack, 0, false), 0x000c);
    assert_eq!(read(&bytes, false), Ok(Frame::Ack));
    for family in [Family::Fetch, Family::Compare] {
        let frame = Frame::Atomic(atomic(family, &[SEG16]));
        let bytes = with_flags(encode(&frame, 0, false), 0x000d);
        assert_eq!(read(&bytes, false), Ok(frame));
    }
    // The CQ-data bit repeated without its field.
    let response = Frame::ReadResponse(ReadResponse { payload: 4 });
    let bytes = with_flags(encode(&response, 0, false), 0x0001);
    assert_eq!(bytes.len(), BASE_HEADER);
    assert_eq!(read(&bytes, false), Ok(response));
}

#[test]
fn connection_messages() {
    let bytes = encode_cm(CmKind::Request, &[], false, false);
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
    // Reserved bytes are ignored.
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
                            if let Ok(Decoded::Frame(Frame::Write(write), _)) = decode(&bytes, swap)
                            {
                                assert!(write.segs.total() <= u64::MAX - BASE_HEADER as u64);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn exported_memory() {
    let good = encode(
        &Frame::Exported(Exported {
            index: 1,
            export: export(),
        }),
        0,
        false,
    );
    for kind in [0, 6, 255] {
        let bytes = with(good.clone(), &[(5, kind)]);
        assert_eq!(read(&bytes, false), Err(WireError::Memory(kind)));
    }
    // The allocation would go beyond the last address.
    let (base, len) = (good.len() - 9, good.len() - 1);
    let bytes = with(good, &[(base, 0xff), (len, 0xff)]);
    assert_eq!(read(&bytes, false), Err(WireError::Length));
}
