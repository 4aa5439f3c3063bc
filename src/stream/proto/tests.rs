// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Every vector of tests/vectors/tcp is decoded to its values and encoded from them, every stream is cut at every byte,
//! and headers that contradict themselves are refused. The vectors were captured between little-endian hosts, so these
//! tests run only on such hosts.

use super::segments::Segs;
use super::*;
use hmem::Kind;
use hmem::export::Export;
use object::ops::atomic::Family;

mod any;
mod bad;
mod compact;
mod golden;
mod page;
mod streams;
mod vectors;

const TAG: u64 = 0x1122_3344_5566_7788;
const DATA: u64 = 0xa1a2_a3a4_a5a6_a7a8;
const KEY: u64 = 0xc0_de01;

fn directory() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/tcp")
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

fn encode(frame: &Frame, counter: u8, swap: bool) -> Vec<u8> {
    let mut out = [0xee; MAX_HEADER];
    let len = frame.encode(counter, swap, &mut out);
    assert!(out[len..].iter().all(|&b| b == 0xee), "wrote past its size");
    out[..len].to_vec()
}

/// Decodes a complete header.
fn read(bytes: &[u8], swap: bool) -> Result<Frame, WireError> {
    match decode(bytes, swap)? {
        Decoded::Frame(frame, _) => Ok(frame),
        Decoded::Needs(len) => panic!("{} of {len} bytes", bytes.len()),
    }
}

/// Returns the size of a header, from its fixed part.
fn header_len(bytes: &[u8]) -> Result<usize, WireError> {
    match decode(&bytes[..BASE_HEADER], false)? {
        Decoded::Frame(_, len) | Decoded::Needs(len) => Ok(len),
    }
}

/// Returns the number of bytes that follow a frame.
fn payload_of(frame: &Frame) -> u64 {
    match frame {
        Frame::Message(message) => message.payload,
        Frame::ReadResponse(response) => response.payload,
        Frame::Write(write) => write.payload,
        Frame::RendezvousData(data) => data.payload,
        Frame::Collective(data) => data.payload,
        Frame::Atomic(atomic) => atomic.payload,
        _ => 0,
    }
}

/// Returns an untagged message without optional fields.
fn message(payload: u64) -> Message {
    Message {
        tagged: false,
        ack: false,
        data: None,
        tag: 0,
        context: 0,
        payload,
    }
}

fn plain(payload: u64) -> Frame {
    Frame::Message(message(payload))
}

/// Returns a write whose payload fills its segments.
fn write(segs: &[RmaSeg]) -> Write {
    let segs: Segs = segs.iter().copied().collect();
    Write {
        segs,
        data: None,
        ack: false,
        commit: false,
        payload: segs.total(),
    }
}

/// Returns an operation of one family on these segments, with the highest operation and type that fit.
fn atomic(family: Family, segs: &[RmaSeg]) -> Atomic {
    let segs: Segs = segs.iter().copied().collect();
    Atomic {
        what: AtomicOp {
            family,
            op: 19,
            datatype: 31,
        },
        segs,
        data: None,
        ack: false,
        commit: false,
        payload: segs.total() * if family == Family::Compare { 2 } else { 1 },
    }
}

const FAMILIES: [Family; 3] = [Family::Base, Family::Fetch, Family::Compare];

/// Returns one frame of each shape, with all that its op can carry.
fn samples() -> Vec<Frame> {
    let seg = |n: u64| RmaSeg {
        addr: 0x1000 * n,
        len: 16,
        key: KEY + n,
    };
    let mut all = Vec::new();
    for (data, ack) in [
        (None, false),
        (None, true),
        (Some(DATA), false),
        (Some(DATA), true),
    ] {
        for context in [0, 63] {
            let message = Message {
                data,
                ack,
                context,
                ..message(5)
            };
            all.push(Frame::Message(message));
            all.push(Frame::Message(Message {
                tagged: true,
                tag: TAG,
                ..message
            }));
            all.push(Frame::ReadyToSend(ReadyToSend {
                index: 254,
                tag: TAG,
                size: 1 << 40,
                data,
                ack,
                context,
            }));
        }
        for count in 1..=4 {
            let segs: Vec<RmaSeg> = (0..count).map(seg).collect();
            let commit = count == 4;
            all.push(Frame::Write(Write {
                data,
                ack,
                commit,
                ..write(&segs)
            }));
            all.push(Frame::Atomic(Atomic {
                data,
                ack,
                commit,
                ..atomic(Family::Base, &segs)
            }));
        }
        all.push(Frame::RendezvousData(RendezvousData {
            index: 1,
            has_data: data.is_some(),
            ack,
            payload: 77,
        }));
    }
    for count in 1..=4 {
        let segs: Vec<RmaSeg> = (0..count).map(seg).collect();
        let places = segs.iter().map(|seg| (seg.addr as usize, seg.len as usize));
        let (places, list) = (places.collect(), segs.iter().copied().collect());
        all.push(Frame::ReadRequest(ReadRequest { segs: list }));
        all.push(Frame::Atomic(atomic(Family::Fetch, &segs)));
        all.push(Frame::Atomic(atomic(Family::Compare, &segs)));
        for tagged in [false, true] {
            all.push(Frame::Offer(Offer {
                index: 7,
                tagged,
                tag: if tagged { TAG } else { 0 },
                data: (count % 2 == 0).then_some(DATA),
                places,
                epoch: 0x8001_0203,
                context: 63,
            }));
        }
        let (index, job) = (7, 0x8001_0203);
        all.push(Frame::Share(Share { index, places, job }));
    }
    let payload = u64::from(u32::MAX) * 3;
    all.extend([
        Frame::Ack,
        Frame::ReadResponse(ReadResponse { payload }),
        Frame::ClearToSend { index: 1 },
        Frame::Taken { index: 254 },
        Frame::Done { index: 254 },
        Frame::Close(Close::Request),
        Frame::Close(Close::Withdrawn),
        Frame::Exported(Exported {
            index: 254,
            export: export(),
        }),
        Frame::Refused(Refused::Ack),
        Frame::Refused(Refused::Response),
        Frame::Collective(Collective {
            kind: 9,
            group: TAG,
            seq: u32::MAX,
            round: 3,
            payload: 99,
        }),
        Frame::CollectiveEnd(CollectiveEnd {
            group: TAG,
            seq: 3,
            error: u32::MAX,
        }),
    ]);
    all
}

fn export() -> Export {
    Export {
        kind: Kind::Cuda,
        handle: [0xab; 64],
        device: [0xcd; 16],
        base: 0x7f00_0000_0000,
        len: 0x20_0000,
    }
}

#[test]
fn every_shape_survives_the_wire_in_both_byte_orders() {
    for frame in samples() {
        for swap in [false, true] {
            let bytes = encode(&frame, 200, swap);
            assert_eq!(bytes[7], 200);
            assert_eq!(decode(&bytes, swap), Ok(Decoded::Frame(frame, bytes.len())));
        }
    }
}

#[test]
fn the_other_byte_order_is_big_endian() {
    let frame = Frame::Message(Message {
        tagged: true,
        tag: TAG,
        ack: true,
        ..message(8)
    });
    let expected = [
        3, 1, 0, 4, 0, 0, 24, 9, 0, 0, 0, 0, 0, 0, 0, 32, // fixed part, total size 32
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
    ];
    assert_eq!(encode(&frame, 9, true), expected);
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
    // A newer requester gets our version; one of version 0 keeps its own.
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

/// Checks how endpoints of this library announce extensions and keys, to each other and to other implementations.
#[test]
fn extensions_are_agreed_on() {
    for extended in [false, true] {
        for keyed in [false, true] {
            let bytes = encode_cm(CmKind::Request, b"hello", extended, keyed);
            let head = decode_cm(bytes.first_chunk().unwrap()).unwrap();
            assert_eq!((head.extended, head.keyed), (extended, keyed));
            assert_eq!(private_of(&bytes), b"hello");
        }
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
