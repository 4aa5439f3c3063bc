// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Every vector of tests/vectors/tcp is parsed to its values and produced from them; every stream is cut at every
//! byte; headers that contradict themselves are refused. The vectors were captured
//! between little-endian hosts, so these tests run on such hosts.

use super::*;

mod bad;
mod page;
mod streams;
mod vectors;

const TAG: u64 = 0x1122_3344_5566_7788;
const DATA: u64 = 0xa1a2_a3a4_a5a6_a7a8;
const KEY: u64 = 0xc0_de01;

fn directory() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tcp")
}

fn read_hex(file: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(directory().join(file)).expect(file);
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    assert!(digits.len().is_multiple_of(2), "{file}");
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

fn encode(header: &Header, counter: u8, swap: bool) -> Vec<u8> {
    let mut out = [0xee; MAX_HEADER];
    let len = header.encode(counter, swap, &mut out);
    assert!(out[len..].iter().all(|&b| b == 0xee), "wrote past its size");
    out[..len].to_vec()
}

/// One header of each shape, with all that its op can carry.
fn samples() -> Vec<Header> {
    let seg = |n: u64| RmaSeg {
        addr: 0x1000 * n,
        len: 16,
        key: KEY + n,
    };
    let mut all = Vec::new();
    for op in [Op::Msg, Op::Tagged, Op::Rts, Op::Write, Op::Atomic] {
        for data in [None, Some(DATA)] {
            for ack in [false, true] {
                let mut h = Header::new(op, 5);
                h.data = data;
                h.ack = ack;
                match op {
                    Op::Tagged => h.tag = TAG,
                    Op::Rts => {
                        h.tag = TAG;
                        h.index = 254;
                        h.msg_size = 1 << 40;
                        h.payload = 0;
                    }
                    Op::Write | Op::Atomic => {
                        for count in 1..=4u8 {
                            let mut w = h.clone();
                            w.seg_count = count;
                            w.commit = count == 4;
                            if op == Op::Atomic {
                                (w.index, w.datatype) = (19, 13);
                            }
                            for n in 0..count {
                                w.segs[usize::from(n)] = seg(n.into());
                            }
                            w.payload = w.segs_len();
                            all.push(w);
                        }
                        continue;
                    }
                    _ => {}
                }
                all.push(h);
            }
        }
    }
    for count in 1..=4u8 {
        let mut h = Header::new(Op::ReadReq, 0);
        h.seg_count = count;
        for n in 0..count {
            h.segs[usize::from(n)] = seg(n.into());
        }
        all.push(h);
    }
    for op in [Op::Offer, Op::OfferTagged, Op::Share] {
        for count in 1..=4u8 {
            let mut h = Header::new(op, 0);
            (h.index, h.seg_count) = (7, count);
            h.tag = if op == Op::OfferTagged { TAG } else { 0 };
            h.data = (count % 2 == 0 && op.is_offer()).then_some(DATA);
            for n in 0..count {
                h.segs[usize::from(n)] = seg(n.into());
            }
            all.push(h);
        }
    }
    for op in [Op::Taken, Op::Done] {
        let mut h = Header::new(op, 0);
        h.index = 254;
        all.push(h);
    }
    for (op, times) in [(Op::AtomicFetch, 1), (Op::AtomicCompare, 2)] {
        for count in 1..=4u8 {
            let mut h = Header::new(op, 0);
            h.seg_count = count;
            (h.index, h.datatype) = (18, 19);
            for n in 0..count {
                h.segs[usize::from(n)] = seg(n.into());
            }
            h.payload = times * h.segs_len();
            all.push(h);
        }
    }
    all.push(Header::new(Op::Ack, 0));
    all.push(Header::new(Op::ReadRsp, u64::from(u32::MAX) * 3));
    for op in [Op::Cts, Op::Data] {
        let mut h = Header::new(op, if op == Op::Data { 77 } else { 0 });
        h.index = 1;
        h.ack = op == Op::Data;
        all.push(h);
    }
    for op in [Op::Coll, Op::CollEnd] {
        let mut h = Header::new(op, if op == Op::Coll { 99 } else { 0 });
        h.index = if op == Op::Coll { 9 } else { 0 };
        h.tag = TAG;
        h.msg_size = u64::MAX;
        all.push(h);
    }
    all
}

#[test]
fn every_shape_survives_the_wire_in_both_byte_orders() {
    for header in samples() {
        for swap in [false, true] {
            let bytes = encode(&header, 200, swap);
            assert_eq!(bytes[7], 200);
            assert_eq!(header_len(&bytes[..16]), Ok(bytes.len()));
            assert_eq!(decode(&bytes, swap), Ok(header.clone()));
        }
    }
}

#[test]
fn the_other_byte_order_is_big_endian() {
    let mut header = Header::new(Op::Tagged, 8);
    header.tag = TAG;
    header.ack = true;
    let expected = [
        3, 1, 0, 4, 0, 0, 24, 9, 0, 0, 0, 0, 0, 0, 0, 32, // fixed part, total size 32
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
    ];
    assert_eq!(encode(&header, 9, true), expected);
}

#[test]
fn rdm_private_data() {
    let request = RdmPrivate {
        version: 1,
        checked: false,
        features: 0x81,
        port: 20132,
        pid: 13303,
    };
    assert_eq!(request.encode(), [1, 0x81, 0x4e, 0xa4, 0, 0, 0x33, 0xf7]);
    assert_eq!(RdmPrivate::decode(&request.encode()), Some(request));
    assert!(!request.allows_rendezvous());

    let response = request.answer(0x01, 7);
    assert_eq!(response.encode(), [0x81, 1, 0x4e, 0xa4, 0, 0, 0, 7]);
    assert!(response.allows_rendezvous());
    // A requester newer than us is brought down to our version, one of version 0 keeps its own.
    let newer = RdmPrivate {
        version: 9,
        ..request
    };
    assert_eq!(newer.answer(0, 7).encode()[0], 0x81);
    let older = RdmPrivate {
        version: 0,
        ..request
    };
    assert_eq!(older.answer(0, 7).encode()[0], 0);
    assert!(!older.answer(0, 7).allows_rendezvous());

    for len in [0, 7, 9, 24] {
        assert_eq!(RdmPrivate::decode(&vec![1; len]), None);
    }
}

/// So does that of writes.
#[test]
fn the_short_way_of_writes_agrees_with_the_general_one() {
    for case in 0..2 * MAX_SEGS as u8 {
        let data = (case & 1 != 0).then_some(DATA);
        let segs: Vec<RmaSeg> = (0..=u64::from(case / 2))
            .map(|n| RmaSeg {
                addr: 0x1000 + n,
                len: 10 + n,
                key: DATA ^ n,
            })
            .collect();
        let payload: u64 = segs.iter().map(|seg| seg.len).sum();
        let mut header = Header::new(Op::Write, payload);
        (header.data, header.seg_count) = (data, segs.len() as u8);
        header.segs[..segs.len()].copy_from_slice(&segs);

        let mut general = [0; MAX_HEADER];
        let len = header.encode(case, false, &mut general);
        let mut short = [0; MAX_HEADER];
        let short_len = encode_write(data, segs.into_iter(), payload as usize, case, &mut short);
        assert_eq!(short[..short_len], general[..len]);
    }
}

/// The short way for messages writes and reads what the general way does.
#[test]
fn the_short_way_agrees_with_the_general_one() {
    let payload = [7u8; 9];
    for case in 0..8u8 {
        let (tagged, ack, with_data) = (case & 1 != 0, case & 2 != 0, case & 4 != 0);
        let data = with_data.then_some(DATA);
        let tag = if tagged { TAG } else { 0 };
        let op = if tagged { Op::Tagged } else { Op::Msg };
        let mut header = Header::new(op, payload.len() as u64);
        (header.ack, header.data, header.tag) = (ack, data, tag);

        let mut general = [0; MAX_HEADER];
        let len = header.encode(case, false, &mut general);
        let mut short = [0; MAX_MESSAGE_HEADER];
        let short_len = encode_message(tagged, ack, data, tag, payload.len(), case, &mut short);
        assert_eq!(short[..short_len], general[..len]);
        if !ack && data.is_none() {
            let plain_len = encode_usual(tagged, tag, payload.len(), case, &mut short);
            assert_eq!(short[..plain_len], general[..len]);
        }

        let mut frame = general[..len].to_vec();
        frame.extend_from_slice(&payload);
        let head = MessageHead {
            tagged,
            ack,
            data,
            tag,
            len,
            frame: frame.len(),
        };
        let wanted = Message {
            head,
            payload: &payload,
        };
        assert_eq!(whole_message(&frame), Some(wanted));
        for cut in 0..frame.len() {
            assert_eq!(whole_message(&frame[..cut]), None);
        }
        // Whatever contradicts itself, or is another frame, is left to the general way.
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
            assert_eq!(whole_message(&other), None, "byte {at}");
        }
    }
}

/// What two endpoints of this library say to each other, and to others.
#[test]
fn extensions_are_agreed_on() {
    for extended in [false, true] {
        let mut bytes = Vec::new();
        encode_cm(CmKind::Request, b"hello", extended, &mut bytes);
        let head = decode_cm(bytes.first_chunk().unwrap()).unwrap();
        assert_eq!(head.extended, extended);
    }
    let request = RdmPrivate {
        version: 1,
        checked: false,
        features: EXTENSIONS | 1,
        port: 7,
        pid: 8,
    };
    assert_eq!(request.answer(EXTENSIONS, 9).features, EXTENSIONS);
    let other = RdmPrivate {
        features: 0,
        ..request
    };
    assert_eq!(other.answer(EXTENSIONS | 1, 9).features, 0);
}
