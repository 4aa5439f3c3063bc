// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decodes and encodes captured packets and compares them with expected values; decodes invalid packets and random
//! bytes.

use super::*;

const INDEX: &str = include_str!("../../../../tests/vectors/rxd/index.csv");
const TAG: u64 = 0x1122_3344_5566_7788;
const DATA: u64 = 0xa1a2_a3a4_a5a6_a7a8;
const KEY: u64 = 0xc0de01;

macro_rules! vector {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../tests/vectors/rxd/", $name, ".hex")),
        )
    };
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    pairs.map(byte).collect()
}

/// Byte ranges of a vector that are unused, or that differ from run to run.
fn masked(name: &str) -> Vec<core::ops::Range<usize>> {
    let line = INDEX
        .lines()
        .find(|line| line.starts_with(&format!("{name}.hex,")));
    // Quoted fields contain commas.
    let mut fields = Vec::new();
    for (i, part) in line.expect("a line of the index").split('"').enumerate() {
        if i % 2 == 0 {
            fields.extend(part.split(',').map(str::to_owned));
        }
    }
    let number = |text: &str| text.parse::<usize>().ok();
    let range = |text: &str| {
        let (from, to) = text.split_once('-')?;
        Some(number(from)?..number(to)?)
    };
    let ranges = fields.iter().flat_map(|field| field.split(';'));
    ranges.filter_map(range).collect()
}

fn rule(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (7 * i + 1) as u8).collect()
}

fn head(seq: u64) -> Head {
    Head { peer: 1, seq }
}

fn op(kind: Kind) -> Op {
    let tag = if kind == Kind::Tagged { TAG } else { 0 };
    Op {
        kind,
        tag,
        data: None,
        segments: None,
        iovs: Iovs::default(),
        atomic: [0; 2],
    }
}

fn at(mut op: Op, iovs: &[(u64, u64)]) -> Op {
    for &(addr, len) in iovs {
        let iov = RmaIov {
            addr,
            len,
            key: KEY,
        };
        assert!(op.iovs.push(iov));
    }
    op
}

fn in_packets(op: Op, total: u64, count: u64) -> Op {
    let transaction = 0;
    #[rustfmt::skip]
    let segments = Some(Segments { total, count, transaction });
    Op { segments, ..op }
}

/// A vector with its name, its packet number, the operation that the packet begins, and its bytes.
type Captured = ((&'static str, &'static str), u64, Op, Vec<u8>);

#[rustfmt::skip]
fn ops() -> Vec<Captured> {
    use Kind::*;
    let with_data = |op| Op { data: Some(DATA), ..op };
    let put = |op| at(op, &[(0x20, 16)]);
    let two = at(op(Write), &[(0x100, 16), (0x1000, 16)]);
    vec![
        (vector!("rxd-02-tsend8"), 0, op(Tagged), rule(0, 8)),
        (vector!("rxd-03-tsenddata8"), 1, with_data(op(Tagged)), rule(0, 8)),
        (vector!("rxd-04-tinject8"), 2, op(Tagged), rule(0, 8)),
        (vector!("rxd-05-send8"), 3, op(Message), rule(0, 8)),
        (vector!("rxd-06-tsend1440"), 4, op(Tagged), rule(0, 1440)),
        (vector!("rxd-07-tsend1456-seg0"), 5, in_packets(op(Tagged), 1456, 2), rule(0, 1424)),
        (vector!("rxd-08-write16"), 11, put(op(Write)), rule(0, 16)),
        (vector!("rxd-09-writedata16"), 12, with_data(put(op(Write))), rule(0, 16)),
        (vector!("rxd-10-writemsg-2iov"), 9, in_packets(with_data(two), 32, 1), rule(0, 32)),
        (vector!("rxd-11-read16"), 14, in_packets(put(op(Read)), 16, 1), vec![]),
        (vector!("rxd-21-send19-fabtests"), 0, op(Message), b"Hello from Client!\0".to_vec()),
    ]
}

/// Compares an encoded packet with the captured one, except in masked ranges.
fn compare(name: &str, made: &[u8], captured: &[u8]) {
    assert_eq!(made.len(), captured.len(), "{name}");
    let masked = masked(name);
    for (i, (made, captured)) in made.iter().zip(captured).enumerate() {
        // Local flags of the sender: whether and how the operation completes.
        let ignored = if i == 2 { 0x4e } else { 0 };
        let (made, captured) = (made & !ignored, captured & !ignored);
        if !masked.iter().any(|range| range.contains(&i)) {
            assert_eq!(made, captured, "{name}, byte {i}");
        }
    }
}

#[test]
fn operations_are_read_and_made_as_captured() {
    for ((name, text), seq, expected, body) in ops() {
        let captured = hex(text);
        let Ok(Packet::Op(at, mut op, payload)) = Packet::decode(&captured) else {
            panic!("{name}: {:?}", Packet::decode(&captured));
        };
        if let Some(segments) = &mut op.segments {
            segments.transaction = 0;
        }
        let varies = ["rxd-10-writemsg-2iov", "rxd-21-send19-fabtests"];
        let seq = if varies.contains(&name) { at.seq } else { seq };
        assert_eq!((at.seq, &op, payload), (seq, &expected, &*body), "{name}");
        let mut made = [0; 1472];
        let len = expected.encode(head(seq), &mut made);
        assert_eq!(len, expected.len(), "{name}");
        made[len..len + body.len()].copy_from_slice(&body);
        compare(name, &made[..len + body.len()], &captured);
    }
}

#[test]
fn pieces_are_read_and_made_as_captured() {
    for ((name, text), seq, segment, is_answer, body) in [
        (
            vector!("rxd-07-tsend1456-seg1"),
            6,
            0,
            false,
            Some(rule(1424, 32)),
        ),
        (vector!("rxd-11-read16-data"), 0, 0, true, Some(rule(0, 16))),
        (vector!("rxd-12-read4000-data0"), 1, 0, true, None),
        (vector!("rxd-12-read4000-data1"), 2, 1, true, None),
        (vector!("rxd-12-read4000-data2"), 3, 2, true, None),
    ] {
        let captured = hex(text);
        let (at, data, answers) = match Packet::decode(&captured) {
            Ok(Packet::Data(head, data)) => (head, data, false),
            Ok(Packet::Answer(head, data)) => (head, data, true),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(
            (at.seq, data.segment, answers),
            (seq, segment, is_answer),
            "{name}"
        );
        if let Some(body) = body {
            assert_eq!(data.bytes, body, "{name}");
        }
        let mut made = [0; 1472];
        let len = Data::encode_head(at, is_answer, data.transaction, segment, &mut made);
        assert_eq!(len, DATA_HEADER);
        made[len..len + data.bytes.len()].copy_from_slice(data.bytes);
        compare(name, &made[..len + data.bytes.len()], &captured);
    }
}

#[test]
fn acknowledgements_are_read_and_made_as_captured() {
    for ((name, text), next) in [
        (vector!("rxd-02-ack"), 1),
        (vector!("rxd-11-read16-ack"), 1),
    ] {
        let captured = hex(text);
        let Ok(Packet::Ack(ack)) = Packet::decode(&captured) else {
            panic!("{name}");
        };
        assert_eq!((ack.peer, ack.next, ack.window), (1, next, 128), "{name}");
        let ack = Ack {
            refused: 0,
            beyond: 0,
            ..ack
        };
        let mut made = [0; ACK_LEN];
        let len = ack.encode(&mut made);
        assert_eq!(len, ACK_LEN);
        compare(name, &made, &captured);
    }
}

#[test]
fn greetings_are_read_and_made_as_captured() {
    for (name, text) in [vector!("rxd-01-rts"), vector!("rxd-20-rts-fabtests")] {
        let captured = hex(text);
        let Ok(Packet::Rts(rts)) = Packet::decode(&captured) else {
            panic!("{name}");
        };
        assert_eq!((rts.id, rts.is_ours), (1, false));
        let mut made = [0; GREETING];
        let len = Rts::encode(rts.id, &rts.name[..16], true, &mut made);
        compare(name, &made[..len], &captured);
        let Ok(Packet::Rts(again)) = Packet::decode(&made[..len]) else {
            panic!("{name}");
        };
        assert_eq!(
            again,
            Rts {
                is_ours: true,
                ..rts
            }
        );
    }
    let (name, text) = vector!("rxd-01-cts");
    let captured = hex(text);
    let cts = Cts {
        echo: 1,
        id: 1,
        is_ours: false,
    };
    assert_eq!(Packet::decode(&captured), Ok(Packet::Cts(cts)));
    let mut made = [0; GREETING];
    let len = Cts::encode(1, 1, true, &mut made);
    compare(name, &made[..len], &captured);
    let ours = Cts {
        is_ours: true,
        ..cts
    };
    assert_eq!(Packet::decode(&made[..len]), Ok(Packet::Cts(ours)));
}

#[test]
fn what_has_no_capture_is_read_as_it_was_made() {
    let void = Void {
        transaction: 7,
        error: 13,
    };
    let mut out = [0; 64];
    let len = void.encode(head(5), &mut out);
    assert_eq!(Packet::decode(&out[..len]), Ok(Packet::Void(head(5), void)));
    assert_eq!(
        Packet::decode(&out[..16]),
        Ok(Packet::Void(
            head(5),
            Void {
                transaction: 0,
                error: 0
            }
        ))
    );
    let ack = Ack {
        peer: 9,
        next: 77,
        window: 0,
        refused: 126,
        beyond: 0x8001,
    };
    let len = ack.encode(&mut out);
    assert_eq!(Packet::decode(&out[..len]), Ok(Packet::Ack(ack)));
    for kind in [Kind::Atomic, Kind::Fetch, Kind::Compare] {
        let mut made = [0; MAX_OP_HEADER + 8];
        let iovs = [(0, 8), (8, 8), (16, 8), (64, 8)];
        let op = Op {
            data: Some(DATA),
            atomic: [7, 3],
            ..at(in_packets(op(kind), 32, 1), &iovs)
        };
        let len = op.encode(head(1), &mut made);
        assert_eq!(len, MAX_OP_HEADER - 8);
        assert_eq!(
            Packet::decode(&made[..len + 8]),
            Ok(Packet::Op(head(1), op, &[0; 8][..]))
        );
    }
}

/// Valid packets with one fault each are refused.
#[test]
fn packets_that_are_none_are_refused() {
    let whole = |op: Op, payload: usize| {
        let mut out = vec![0; MAX_OP_HEADER + payload];
        let len = op.encode(head(0), &mut out);
        out.truncate(len + payload);
        out
    };
    let good = |bytes: &[u8]| Packet::decode(bytes).is_ok();
    let put = at(op(Kind::Write), &[(0, 4)]);
    assert!(good(&whole(put, 4)));
    for wrong in [
        whole(put, 5),
        whole(at(op(Kind::Read), &[(0, 4)]), 0),
        whole(in_packets(at(op(Kind::Read), &[(0, 4)]), 4, 1), 1),
        whole(in_packets(at(op(Kind::Read), &[(0, 4)]), 5, 1), 0),
        whole(in_packets(op(Kind::Message), 4, 2), 4),
        whole(in_packets(op(Kind::Message), 4, 1), 3),
        whole(in_packets(op(Kind::Message), 4, 3), 3),
        whole(in_packets(op(Kind::Message), 4, 1), 5),
        whole(in_packets(op(Kind::Message), 4, 0), 4),
        whole(in_packets(op(Kind::Write), 4, 1), 4),
        whole(
            in_packets(at(op(Kind::Read), &[(0, u64::MAX), (0, 5)]), 4, 1),
            0,
        ),
    ] {
        assert!(!good(&wrong), "{wrong:?}");
    }
    let mut five = whole(in_packets(put, 4, 1), 4 + 24);
    assert!(!good(&five));
    five[36] = 5;
    assert!(!good(&five));
    // A tag without the flag, and the flag without a tag.
    let mut tagged = whole(op(Kind::Tagged), 4);
    tagged[2] &= !0x10;
    assert!(!good(&tagged));
    let mut message = whole(op(Kind::Message), 40);
    message[2] |= 0x10;
    assert!(!good(&message));
    for kind in [3, 5, 15, 255] {
        message[1] = kind;
        assert!(!good(&message));
    }
    // The version is checked in greetings only.
    let mut out = [0; GREETING];
    let len = Cts::encode(1, 2, true, &mut out);
    out[0] = 1;
    assert!(!good(&out[..len]));
    let mut message = whole(op(Kind::Message), 4);
    message[0] = 1;
    assert!(good(&message));
    for (echo, id) in [(0, 1), (1, 0)] {
        let len = Cts::encode(echo, id, true, &mut out);
        assert!(!good(&out[..len]));
    }
    let len = Rts::encode(1, &[0; 16], true, &mut out);
    assert!(good(&out[..len]) && !good(&out[..len - 1]));
    out[22] = 1;
    assert!(!good(&out[..len]));
}

#[test]
fn every_vector_may_be_cut_anywhere() {
    for (_, text) in [
        vector!("rxd-01-rts"),
        vector!("rxd-01-cts"),
        vector!("rxd-02-ack"),
        vector!("rxd-10-writemsg-2iov"),
        vector!("rxd-11-read16"),
        vector!("rxd-12-read4000-data2"),
    ] {
        let captured = hex(text);
        for len in 0..captured.len() {
            let _ = Packet::decode(&captured[..len]);
        }
    }
}

#[test]
fn any_bytes_are_a_packet_or_none() {
    let mut random = 1u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for _ in 0..200_000 {
        let mut packet: Vec<u8> = (0..next() % 200).map(|_| next() as u8).collect();
        if let [version, kind, flags, ..] = &mut packet[..] {
            (*version, *kind) = (2, *kind % 16);
            *flags &= 0x31;
        }
        for byte in packet.iter_mut().skip(16) {
            *byte = if next() % 4 > 0 { 0 } else { *byte % 8 };
        }
        let decoded = Packet::decode(&packet);
        if let Ok(Packet::Op(head, op, payload)) = decoded {
            let mut again = vec![0; MAX_OP_HEADER];
            let len = op.encode(head, &mut again);
            assert_eq!(len + payload.len(), packet.len());
            again.truncate(len);
            again.extend_from_slice(payload);
            assert_eq!(Packet::decode(&again), Ok(Packet::Op(head, op, payload)));
        }
    }
}
