// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The examples of docs/wire/tcp.md are decoded to the values on the page.

use super::*;

/// The bytes of an example.
fn example(name: &str) -> Vec<u8> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire/tcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page
        .split_once(&format!("```{name}\n"))
        .expect("the example");
    let (block, _) = rest.split_once("```").expect("its end");
    // Each line: bytes, then two spaces or more, then what they are.
    let digits: String = block
        .lines()
        .map(|line| line.split("  ").next().unwrap().replace(' ', ""))
        .collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

#[test]
fn the_atomic_operation_of_the_page() {
    let bytes = example("wire-example-atomic");
    let seg = RmaSeg {
        addr: 0x40,
        len: 8,
        key: KEY,
    };
    let mut expected = atomic(Family::Compare, &[seg]);
    (expected.what.op, expected.what.datatype) = (12, 7);
    let expected = Frame::Atomic(expected);
    let header = encode(&expected, bytes[7], false);
    assert_eq!(read(&bytes, false), Ok(expected));
    assert_eq!(bytes[..header.len()], header);
    let (request, answer) = bytes[header.len()..].split_at(16);
    assert_eq!(request, [2u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
    let response = ReadResponse { payload: 8 };
    assert_eq!(read(answer, false), Ok(Frame::ReadResponse(response)));
    assert_eq!(answer[16..], 1u64.to_le_bytes());
}

#[test]
fn the_example_of_the_page() {
    let bytes = example("wire-example");
    let (cm, rest) = bytes.split_first_chunk().expect("a connection message");
    let head = decode_cm(cm).unwrap();
    assert_eq!((head.kind, head.private_len), (CmKind::Request, 8));
    let (private, frame) = rest.split_at(head.private_len);
    let expected = RdmPrivate {
        version: 1,
        checked: false,
        features: 0,
        port: 20132,
        pid: 13303,
    };
    assert_eq!(RdmPrivate::decode(private), Some(expected));

    let expected = Frame::Message(Message {
        tagged: true,
        tag: TAG,
        data: Some(DATA),
        ack: true,
        ..message(8)
    });
    assert_eq!(read(frame, head.swapped), Ok(expected));
    let header = encode(&expected, frame[7], head.swapped);
    assert_eq!(frame[..header.len()], header);
    assert_eq!(&frame[header.len()..], b"ironfabr");
}
