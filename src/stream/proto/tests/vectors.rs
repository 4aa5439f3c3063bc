// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Single messages: each vector is compared with the values that it must decode to.

use super::*;

/// Payload of the captures.
#[derive(Clone, Copy)]
enum Body {
    /// Byte i is (7i + 1) mod 256.
    Rule,
    Text(&'static [u8]),
    /// The memory of some test program.
    Any,
}

struct Case {
    file: &'static str,
    frame: Frame,
    body: Body,
}

fn case(file: &'static str, frame: impl Into<Frame>, body: Body) -> Case {
    let frame = frame.into();
    Case { file, frame, body }
}

impl From<Message> for Frame {
    fn from(message: Message) -> Frame {
        Frame::Message(message)
    }
}

impl From<Write> for Frame {
    fn from(write: Write) -> Frame {
        Frame::Write(write)
    }
}

fn tagged(payload: u64) -> Message {
    Message {
        tagged: true,
        tag: TAG,
        ..message(payload)
    }
}

/// Adds CQ data to a message or a write.
macro_rules! data {
    ($frame:expr) => {{
        let mut frame = $frame;
        frame.data = Some(DATA);
        frame
    }};
}

macro_rules! acked {
    ($frame:expr) => {{
        let mut frame = $frame;
        frame.ack = true;
        frame
    }};
}

fn segs(segs: &[(u64, u64, u64)]) -> Vec<RmaSeg> {
    let seg = |&(addr, len, key): &_| RmaSeg { addr, len, key };
    segs.iter().map(seg).collect()
}

/// Returns a write to these segments.
fn put(of: &[(u64, u64, u64)]) -> Write {
    write(&segs(of))
}

fn get(of: &[(u64, u64, u64)]) -> Frame {
    let segs = segs(of).into_iter().collect();
    Frame::ReadRequest(ReadRequest { segs })
}

fn got(payload: u64) -> Frame {
    Frame::ReadResponse(ReadResponse { payload })
}

fn ready(data: Option<u64>, ack: bool) -> Frame {
    Frame::ReadyToSend(ReadyToSend {
        index: 1,
        tag: TAG,
        size: 200,
        data,
        ack,
        context: 0,
    })
}

fn bytes(has_data: bool, ack: bool) -> Frame {
    Frame::RendezvousData(RendezvousData {
        index: 1,
        has_data,
        ack,
        payload: 200,
    })
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    use Body::{Any, Rule, Text};
    const CLEAR: Frame = Frame::ClearToSend { index: 1 };
    let one = [(0x20, 16, KEY)];
    let two = [(0x100, 16, KEY), (0x1000, 16, KEY)];
    let commit = Write { commit: true, ..data!(put(&two)) };
    let sync = Message { tag: 1, ..acked!(tagged(0)) };
    let foreign = Some(0x0123_4567_89ab_cdef);
    vec![
        case("tcp-msg-04-send8", message(8), Rule),
        case("tcp-msg-05-send19-fabtests", message(19), Text(b"Hello from Client!\0")),
        case("tcp-msg-06-inject4", message(4), Rule),
        case("tcp-msg-07-send200", message(200), Rule),
        case("tcp-msg-08-senddata8", data!(message(8)), Rule),
        case("tcp-msg-09-sendv16", message(16), Rule),
        case("tcp-msg-10-send0", message(0), Rule),
        case("tcp-msg-11-send8-delivery", acked!(message(8)), Rule),
        case("tcp-msg-11-send8-delivery-ack", Frame::Ack, Rule),
        case("tcp-msg-12-write16", put(&one), Rule),
        case("tcp-msg-13-writedata16", data!(put(&one)), Rule),
        case("tcp-msg-14-writemsg-2iov", data!(put(&two)), Rule),
        case("tcp-msg-15-inject-write8", put(&[(0x40, 8, KEY)]), Rule),
        case("tcp-msg-16-writemsg-delivery", acked!(data!(put(&two))), Rule),
        case("tcp-msg-16-writemsg-delivery-ack", Frame::Ack, Rule),
        case("tcp-msg-17-writemsg-commit", commit, Rule),
        case("tcp-msg-17-writemsg-commit-ack", Frame::Ack, Rule),
        case("tcp-msg-18-read16", get(&one), Rule),
        case("tcp-msg-18-read16-response", got(16), Rule),
        case("tcp-msg-19-readmsg-2iov", get(&two), Rule),
        case("tcp-msg-19-readmsg-2iov-response", got(32), Rule),
        case("tcp-msg-20-write-badkey", put(&[(0x20, 8, 0xc0_de4e)]), Rule),
        case("tcp-msg-21-write16-fabtests", put(&[(4, 16, 0xc0de)]), Any),
        case("tcp-msg-22-read16-fabtests", get(&[(0x444, 16, 0xc0de)]), Rule),
        case("tcp-msg-22-read16-fabtests-response", got(16), Any),
        case("tcp-rdm-03-send8", message(8), Rule),
        case("tcp-rdm-04-senddata200", data!(message(200)), Rule),
        case("tcp-rdm-05-tsend8", tagged(8), Rule),
        case("tcp-rdm-06-tinject4", tagged(4), Rule),
        case("tcp-rdm-07-tsenddata8", data!(tagged(8)), Rule),
        case("tcp-rdm-08-tsendmsg-2iov-data", data!(tagged(32)), Rule),
        case("tcp-rdm-09-tsend8-delivery", acked!(tagged(8)), Rule),
        case("tcp-rdm-09-tsend8-delivery-ack", Frame::Ack, Rule),
        case("tcp-rdm-10-write16", put(&one), Rule),
        case("tcp-rdm-11-writemsg-2iov", data!(put(&two)), Rule),
        case("tcp-rdm-12-read16", get(&one), Rule),
        case("tcp-rdm-12-read16-response", got(16), Rule),
        case("tcp-rdm-13-tsend-fabtests-delivery", sync, Rule),
        case("tcp-rdm-13-tsend-fabtests-delivery-ack", Frame::Ack, Rule),
        case("tcp-rdm-14-senddata-fabtests", Message { data: foreign, ..message(1000) }, Any),
        case("tcp-rdm-15-writedata16-fabtests", Write { data: foreign, ..put(&[(4, 16, 0xc0de)]) }, Any),
        case("tcp-rdm-20-rts", ready(None, false), Rule),
        case("tcp-rdm-20-cts", CLEAR, Rule),
        case("tcp-rdm-20-data", bytes(false, false), Rule),
        case("tcp-rdm-21-rts-cqdata", ready(Some(DATA), false), Rule),
        case("tcp-rdm-21-cts", CLEAR, Rule),
        // The flag of its ready-to-send, without the field.
        case("tcp-rdm-21-data", bytes(true, false), Rule),
        case("tcp-rdm-22-rts-delivery", ready(None, true), Rule),
        case("tcp-rdm-22-cts", CLEAR, Rule),
        case("tcp-rdm-22-data", bytes(false, true), Rule),
        case("tcp-rdm-22-ack", Frame::Ack, Rule),
    ]
}

const LONG: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn connection_cases() -> Vec<(&'static str, CmKind, Vec<u8>)> {
    let long: Vec<u8> = LONG.iter().copied().cycle().take(MAX_PRIVATE).collect();
    let rdm = |checked, port, pid| {
        let private = RdmPrivate {
            version: 1,
            checked,
            features: 0,
            port,
            pid,
        };
        private.encode().to_vec()
    };
    let loser = rdm(false, 20200, 15622);
    use CmKind::{Reject, Request, Response};
    vec![
        ("tcp-msg-01-connreq", Request, b"REQ-data-1".to_vec()),
        ("tcp-msg-01-connresp", Response, b"ACC-data".to_vec()),
        ("tcp-msg-02-connreq-nodata", Request, vec![]),
        ("tcp-msg-02-connresp-nodata", Response, vec![]),
        ("tcp-msg-03-reject", Reject, b"no-thanks".to_vec()),
        ("tcp-msg-23-connreq-256", Request, long.clone()),
        ("tcp-msg-23-connresp-256", Response, long.clone()),
        ("tcp-msg-23-reject-256", Reject, long),
        ("tcp-rdm-01-connreq", Request, rdm(false, 20132, 13303)),
        ("tcp-rdm-01-connresp", Response, rdm(true, 20132, 13301)),
        (
            "tcp-rdm-02-simultaneous-connreq-loser",
            Request,
            loser.clone(),
        ),
        ("tcp-rdm-02-simultaneous-reject", Reject, loser),
    ]
}

/// One row of index.csv: file, length, and the bytes that carry no meaning or differ from run to run.
struct Row {
    file: String,
    bytes: usize,
    masked: Vec<std::ops::Range<usize>>,
}

fn index() -> Vec<Row> {
    let text = std::fs::read_to_string(directory().join("index.csv")).unwrap();
    let mut lines = text.lines();
    let header = "file,protocol,operation,direction,bytes,call,source,env,ignore,varies,notes";
    assert_eq!(lines.next(), Some(header));
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let columns = split(line);
    assert_eq!(columns.len(), 11, "{line}");
    Row {
        file: columns[0].clone(),
        bytes: columns[4].parse().unwrap(),
        masked: columns[8..10]
            .iter()
            .flat_map(|text| text.split(';'))
            .filter(|part| !part.is_empty())
            .map(range)
            .collect(),
    }
}

fn range(text: &str) -> std::ops::Range<usize> {
    let (from, to) = text.split_once('-').expect("from-to");
    from.parse().unwrap()..to.parse().unwrap()
}

/// Commas inside double quotes belong to the column; a doubled quote is one.
fn split(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let column = columns.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => column.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            _ => column.push(c),
        }
    }
    columns
}

fn mask(mut bytes: Vec<u8>, row: &Row) -> Vec<u8> {
    for range in &row.masked {
        bytes[range.clone()].fill(0);
    }
    bytes
}

fn row_of<'a>(rows: &'a [Row], file: &str) -> &'a Row {
    let found = rows.iter().find(|row| row.file == format!("{file}.hex"));
    found.unwrap_or_else(|| panic!("{file} is not in index.csv"))
}

#[test]
fn index_cases_and_files_agree() {
    let mut on_disk: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|file| file.ends_with(".hex"))
        .collect();
    on_disk.sort();
    let mut listed: Vec<String> = index().into_iter().map(|row| row.file).collect();
    listed.sort();
    assert_eq!(on_disk, listed);
    for row in index() {
        assert_eq!(read_hex(&row.file).len(), row.bytes, "{}", row.file);
    }

    let mut tested: Vec<String> = cases().iter().map(|c| format!("{}.hex", c.file)).collect();
    tested.extend(connection_cases().iter().map(|c| format!("{}.hex", c.0)));
    tested.sort();
    listed.retain(|file| !file.starts_with("stream-"));
    assert_eq!(listed, tested);
}

#[test]
fn data_vectors_parse_to_their_values() {
    for Case { file, frame, body } in cases() {
        let bytes = read_hex(&format!("{file}.hex"));
        let len = header_len(&bytes).expect(file);
        assert_eq!(
            decode(&bytes, false),
            Ok(Decoded::Frame(frame, len)),
            "{file}"
        );
        let payload = &bytes[len..];
        assert_eq!(payload.len() as u64, payload_of(&frame), "{file}");
        match body {
            Body::Rule => {
                let rule: Vec<u8> = (0..payload.len()).map(|i| (7 * i + 1) as u8).collect();
                assert_eq!(payload, rule, "{file}");
            }
            Body::Text(text) => assert_eq!(payload, text, "{file}"),
            Body::Any => {}
        }
    }
}

#[test]
fn data_vectors_are_produced_from_their_values() {
    let rows = index();
    for Case { file, frame, .. } in cases() {
        let row = row_of(&rows, file);
        let captured = read_hex(&row.file);
        let mut bytes = encode(&frame, 0, false);
        bytes.extend_from_slice(&captured[bytes.len()..]);
        assert_eq!(mask(bytes, row), mask(captured, row), "{file}");
    }
}

#[test]
fn connection_vectors_parse_and_are_produced() {
    let rows = index();
    for (file, kind, private) in connection_cases() {
        let row = row_of(&rows, file);
        let captured = read_hex(&row.file);
        let head = decode_cm(captured.first_chunk().unwrap()).expect(file);
        let expected = CmHeader {
            kind,
            private_len: private.len(),
            swapped: false,
            extended: false,
            keyed: false,
        };
        assert_eq!(head, expected, "{file}");
        assert_eq!(captured[CM_HEADER..], private, "{file}");
        let bytes = encode_cm(kind, &private, false, false);
        assert_eq!(mask(bytes, row), mask(captured, row), "{file}");
    }
}

#[test]
fn csv_quotes() {
    let line = r#"a,"b, c",,"d ""e""""#;
    assert_eq!(split(line), ["a", "b, c", "", r#"d "e""#]);
}
