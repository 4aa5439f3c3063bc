// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Single packets and connection messages.

use std::ops::Range;

use super::*;

/// One row of index.csv: file, length, and the bytes without meaning or that differ from run to run.
struct Row {
    file: String,
    masked: Vec<Range<usize>>,
}

fn index() -> Vec<Row> {
    let text = std::fs::read_to_string(directory().join("index.csv")).unwrap();
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    let columns = split(line);
    assert_eq!(columns.len(), 11, "{line}");
    let parts = columns[8..10].iter().flat_map(|text| text.split(';'));
    let bytes: usize = columns[4].parse().unwrap();
    let file = columns[0].clone();
    assert_eq!(read_hex(&file).len(), bytes, "{file}");
    Row {
        file,
        masked: parts.filter(|part| !part.is_empty()).map(range).collect(),
    }
}

fn range(text: &str) -> Range<usize> {
    let (from, to) = text.split_once('-').expect("from-to");
    from.parse().unwrap()..to.parse().unwrap()
}

/// Splits a row; commas inside double quotes belong to the column.
fn split(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            _ => columns.last_mut().unwrap().push(c),
        }
    }
    columns
}

/// Returns the bytes behind the transport header, without those that the row masks.
fn masked(mut bytes: Vec<u8>, row: &Row, skip: usize) -> Vec<u8> {
    for range in &row.masked {
        let inside = range.start.max(skip)..range.end.max(skip);
        bytes[inside.start - skip..inside.end - skip].fill(0);
    }
    bytes
}

fn row_of<'a>(rows: &'a [Row], file: &str) -> &'a Row {
    let found = rows.iter().find(|row| row.file == format!("{file}.hex"));
    found.unwrap_or_else(|| panic!("{file} is not in index.csv"))
}

fn rule(len: usize) -> Vec<u8> {
    (0..len).map(|i| (7 * i + 1) as u8).collect()
}

/// Returns packets whose bytes follow the rule or are those that the row names.
fn packets() -> Vec<(&'static str, Body<'static>)> {
    let bytes: &'static [u8] = rule(1024).leak();
    let part = |from: usize, len: usize| &bytes[from..from + len];
    let segment = |number, len: u16, part| Segment {
        msg: 0,
        number,
        len,
        part,
    };
    let whole = |message: Message| Body::Eager(message, part(0, message.size as usize));
    let tagged_600 = tagged(600);
    let request = |msg, message, len, key| Body::Request {
        msg,
        message,
        places: places(&[place(0, len, key)]),
    };
    let atomic = |family, datatype, op, len, addr, operands: &'static [u8], key| Body::Atomic {
        msg: 0,
        request: AtomicRequest {
            head: AtomicHead {
                family,
                datatype,
                op,
            },
            target: places(&[place(addr, len, key)]),
            len,
            operands,
        },
    };
    let compare = [
        part(0, 8),
        &[0xc1, 0xc8, 0xcf, 0xd6, 0xdd, 0xe4, 0xeb, 0xf2],
    ]
    .concat();
    let pingpong = Message {
        tag: 0,
        ..tagged(200_000)
    };
    vec![
        ("rxm-04-send8-eager", whole(message(8))),
        ("rxm-05-inject8", whole(message(8))),
        ("rxm-06-tsend100-eager", whole(tagged(100))),
        ("rxm-07-tsenddata8-eager", whole(with_data(tagged(8)))),
        ("rxm-08-tinjectdata8", whole(with_data(tagged(8)))),
        ("rxm-09-sendv200-eager", whole(message(200))),
        ("rxm-10-send0", whole(message(0))),
        (
            "rxm-11-sar600-seg0",
            Body::Segment(segment(0, 256, Part::First), tagged_600, part(0, 256)),
        ),
        (
            "rxm-11-sar600-seg1",
            Body::Segment(segment(1, 256, Part::Middle), tagged_600, part(256, 256)),
        ),
        (
            "rxm-11-sar600-seg2",
            Body::Segment(segment(2, 88, Part::Last), tagged_600, part(512, 88)),
        ),
        (
            "rxm-12-rndv4096-request",
            request(2, with_data(tagged(4096)), 4096, 0x8000_0000),
        ),
        ("rxm-12-rndv4096-done", Body::ReadDone { msg: 2 }),
        (
            "rxm-13-rndvw4096-request",
            request(0, tagged(4096), 4096, NO_KEY),
        ),
        (
            "rxm-13-rndvw4096-addresses",
            Body::Addresses {
                msg: 0,
                places: places(&[place(0, 131_072, 0x8000_0000)]),
            },
        ),
        ("rxm-13-rndvw4096-done", Body::WriteDone { msg: 0 }),
        (
            "rxm-20-atomic-sum",
            atomic(Family::Base, FI_UINT64, FI_SUM, 8, 0x200, part(0, 8), KEY),
        ),
        (
            "rxm-21-fetch-sum",
            atomic(
                Family::Fetch,
                FI_UINT64,
                FI_SUM,
                16,
                0x200,
                part(0, 16),
                KEY,
            ),
        ),
        (
            "rxm-22-fetch-read",
            atomic(Family::Fetch, FI_UINT64, FI_ATOMIC_READ, 8, 0x200, &[], KEY),
        ),
        (
            "rxm-23-compare-swap",
            atomic(
                Family::Compare,
                FI_UINT32,
                FI_CSWAP,
                8,
                0x200,
                compare.leak(),
                KEY,
            ),
        ),
        (
            "rxm-24-inject-bor",
            atomic(Family::Base, FI_UINT64, FI_BOR, 8, 0x200, part(0, 8), KEY),
        ),
        (
            "rxm-25-atomic-badkey",
            atomic(
                Family::Base,
                FI_UINT64,
                FI_SUM,
                8,
                0x200,
                part(0, 8),
                0xc0_de0a,
            ),
        ),
        (
            "rxm-30-rndv200000-request",
            request(0, pingpong, 200_000, 0),
        ),
        ("rxm-30-rndv200000-done", Body::ReadDone { msg: 0 }),
    ]
}

/// Copies numbers that differ from run to run from the captured packet.
fn settle<'a>(expected: Body<'a>, found: &Packet<'_>) -> Packet<'a> {
    let body = match (expected, found.body) {
        (Body::Segment(segment, message, bytes), Body::Segment(seen, ..)) => {
            let segment = Segment {
                msg: seen.msg,
                ..segment
            };
            Body::Segment(segment, message, bytes)
        }
        (
            Body::Request { message, .. },
            Body::Request {
                msg,
                message: seen,
                places,
            },
        ) => {
            // The tag of the ping-pong is chosen by its program.
            let tag = if message.tag == 0 {
                seen.tag
            } else {
                message.tag
            };
            let message = Message { tag, ..message };
            Body::Request {
                msg,
                message,
                places,
            }
        }
        (Body::ReadDone { .. }, Body::ReadDone { msg }) => Body::ReadDone { msg },
        (Body::WriteDone { .. }, Body::WriteDone { msg }) => Body::WriteDone { msg },
        (Body::Addresses { places, .. }, Body::Addresses { msg, .. }) => {
            Body::Addresses { msg, places }
        }
        (Body::Atomic { request, .. }, Body::Atomic { msg, .. }) => Body::Atomic { msg, request },
        (expected, _) => expected,
    };
    Packet {
        conn: found.conn,
        body,
    }
}

#[test]
fn packets_are_read_and_produced() {
    let rows = index();
    for (file, expected) in packets() {
        let row = row_of(&rows, file);
        let captured = read_hex(&row.file).split_off(BASE_HEADER);
        let found = decode(&captured).expect(file);
        let lens = |body: &Body<'_>| match body {
            Body::Request { places, .. } => places.total(),
            _ => None,
        };
        assert_eq!(lens(&found.body), lens(&expected), "{file}");
        if file.starts_with("rxm-13-rndvw4096-request") {
            let Body::Request { places, .. } = found.body else {
                panic!("{file}");
            };
            assert!(places.without_keys());
        }
        let packet = settle(expected, &found);
        assert_eq!(found, packet, "{file}");
        let made = masked(encode(&packet), row, BASE_HEADER);
        assert_eq!(made, masked(captured, row, BASE_HEADER), "{file}");
    }
}

#[test]
fn answers_to_atomic_operations() {
    use Family::{Base, Compare, Fetch};
    let rows = index();
    // Previous content of the target: 0xff minus the byte number, changed by earlier operations.
    let cases = [
        ("rxm-20-atomic-sum-response", Base, FI_UINT64, FI_SUM, 0, 0),
        ("rxm-21-fetch-sum-response", Fetch, FI_UINT64, FI_SUM, 0, 16),
        (
            "rxm-22-fetch-read-response",
            Fetch,
            FI_UINT64,
            FI_ATOMIC_READ,
            0,
            8,
        ),
        (
            "rxm-23-compare-swap-response",
            Compare,
            FI_UINT32,
            FI_CSWAP,
            0,
            8,
        ),
        ("rxm-24-inject-bor-response", Base, FI_UINT64, FI_BOR, 0, 0),
        (
            "rxm-25-atomic-badkey-response",
            Base,
            FI_UINT64,
            FI_SUM,
            -13,
            0,
        ),
    ];
    for (file, family, datatype, op, status, len) in cases {
        let row = row_of(&rows, file);
        let captured = read_hex(&row.file).split_off(BASE_HEADER);
        let found = decode(&captured).expect(file);
        let Body::AtomicResponse { msg, response } = found.body else {
            panic!("{file}: {found:?}");
        };
        assert_eq!(
            (response.status, response.result.len()),
            (status, len),
            "{file}"
        );
        let head = AtomicHead {
            family,
            datatype,
            op,
        };
        let made = head.response(found.conn, msg, status, len);
        let made = [&made[..], response.result].concat();
        let mask = |bytes| masked(bytes, row, BASE_HEADER);
        assert_eq!(mask(made), mask(captured), "{file}");
    }
}

#[test]
fn connection_messages_are_read_and_produced() {
    let rows = index();
    let private = |file: &str| read_hex(&format!("{file}.hex")).split_off(CM_HEADER);
    let check = |file: &str, made: &[u8]| {
        let row = row_of(&rows, file);
        let mask = |bytes| masked(bytes, row, CM_HEADER);
        assert_eq!(mask(made.to_vec()), mask(private(file)), "{file}");
    };
    for (file, eager) in [("rxm-01-connreq", 256), ("rxm-02-connreq-default", 16384)] {
        let request = Request::decode(&private(file)).expect(file);
        assert_eq!((request.eager, request.flow), (eager, FlowControl::Off));
        check(file, &request.encode());
        assert_eq!(request.encode()[..], private(file), "{file}");
    }
    for file in ["rxm-01-connresp", "rxm-02-connresp-default"] {
        let response = Response::decode(&private(file)).expect(file);
        assert_eq!(response.flow, FlowControl::Off);
        check(file, &response.encode());
    }
    let request = Request::decode(&private("rxm-02-connreq-default")).unwrap();
    let id = ConnId {
        index: 0,
        pid: 16852,
    };
    assert_eq!((request.id, request.port, request.depth), (id, 36241, 4096));
    assert_eq!(
        reason_of(&private("rxm-03-reject-already")),
        Reason::Connected
    );
    check("rxm-03-reject-already", &reject(Reason::Connected));
}

/// Packets from the programs of upstream's tests are decoded; their payload is not checked.
#[test]
fn packets_of_other_programs_are_read() {
    let read = |file: &str| {
        let bytes = read_hex(&format!("{file}.hex")).split_off(BASE_HEADER);
        match decode(bytes.leak()).expect(file).body {
            Body::Eager(message, bytes) => (message.size, message.data, bytes.len(), 0),
            Body::Atomic { request, .. } => {
                let AtomicHead { op, datatype, .. } = request.head;
                assert_eq!(datatype.0, 0, "{file}");
                (request.len as u64, None, request.operands.len(), op.0)
            }
            other => panic!("{file}: {other:?}"),
        }
    };
    let foreign = Some(0x0123_4567_89ab_cdef);
    assert_eq!(
        read("rxm-31-senddata1000-fabtests"),
        (1000, foreign, 1000, 0)
    );
    assert_eq!(read("rxm-32-base-fabtests"), (1, None, 1, 0));
    assert_eq!(read("rxm-32-fetch-fabtests"), (1, None, 0, 10));
    assert_eq!(read("rxm-32-compare-fabtests"), (1, None, 2, 12));
}

/// rxm adds no bytes to accesses to memory; `tests/vectors/tcp` covers those.
#[test]
fn every_file_is_looked_at() {
    let plain = ["-read", "-write", "-14-", "-15-", "stream-"];
    let tested: Vec<&str> = packets().iter().map(|(file, _)| *file).collect();
    for row in index() {
        let name = row.file.trim_end_matches(".hex");
        let elsewhere = name.contains("conn")
            || name.contains("reject")
            || name.contains("fabtests")
            || name.ends_with("response");
        let known = tested.contains(&name) || elsewhere || plain.iter().any(|p| name.contains(p));
        assert!(known, "{name}");
    }
}
