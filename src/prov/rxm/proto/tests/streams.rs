// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whole connections: each message of a direction is an rxm packet or an access to memory.

use super::*;
use stream::proto::{self as tcp, Decoded, Frame};

/// Returns the messages of one direction after the connection message.
fn messages(file: &str) -> Vec<Vec<u8>> {
    let bytes = read_hex(file);
    let (cm, _) = bytes.split_first_chunk().unwrap();
    let cm = tcp::decode_cm(cm).expect(file);
    let mut rest = &bytes[CM_HEADER + cm.private_len..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let Ok(Decoded::Frame(frame, head)) = tcp::decode(rest, false) else {
            panic!("{file}: no frame");
        };
        let payload = match frame {
            Frame::Message(message) => message.payload,
            Frame::Write(write) => write.payload,
            Frame::ReadResponse(read) => read.payload,
            _ => 0,
        } as usize;
        if let Frame::Message(_) = frame {
            all.push(rest[head..head + payload].to_vec());
        }
        rest = &rest[head + payload..];
    }
    all
}

#[test]
fn streams_are_packets() {
    let mut seen = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if !file.starts_with("stream-rxm") {
            continue;
        }
        for message in messages(&file) {
            assert!(decode(&message).is_ok(), "{file}: {message:02x?}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

/// No decoder accepts a truncated or extended packet as the original one.
#[test]
fn packets_that_are_cut_or_longer_are_refused() {
    for message in messages("stream-rxm-a2p.hex") {
        for len in 0..message.len() {
            assert!(decode(&message[..len]).is_err(), "{len} of {message:02x?}");
        }
        let longer = [&message[..], &[0]].concat();
        if !matches!(message[1], 3 | 8) {
            assert!(decode(&longer).is_err(), "{message:02x?}");
        }
    }
}
