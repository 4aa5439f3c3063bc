// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Every packet of tests/vectors/rxm is decoded to the values of its row and encoded from them. Packets that contradict
//! themselves are refused, and the decoder accepts any bytes without a panic. The vectors were captured over tcp
//! between little-endian hosts, so these tests run only on such hosts.

use super::*;
use abi::*;
use object::ops::atomic::Family;
use object::ops::transfer::RemoteSeg;
use stream::proto::{BASE_HEADER, CM_HEADER};

mod bad;
mod streams;
mod vectors;

const TAG: u64 = 0x1122_3344_5566_7788;
const DATA: u64 = 0xa1a2_a3a4_a5a6_a7a8;
const KEY: u64 = 0xc0_de01;

fn directory() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/rxm")
}

fn read_hex(file: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(directory().join(file)).expect(file);
    let digits: String = text.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn message(size: u64) -> Message {
    Message {
        tagged: false,
        size,
        data: None,
        tag: 0,
        context: 0,
    }
}

fn tagged(size: u64) -> Message {
    Message {
        tagged: true,
        tag: TAG,
        ..message(size)
    }
}

fn with_data(message: Message) -> Message {
    Message {
        data: Some(DATA),
        ..message
    }
}

fn place(addr: u64, len: usize, key: u64) -> RemoteSeg {
    RemoteSeg { addr, len, key }
}

fn places(list: &[RemoteSeg]) -> Places {
    Places::of(list.iter().copied()).unwrap()
}

/// Returns the wire form of the packet.
fn encode(packet: &Packet<'_>) -> Vec<u8> {
    let conn = packet.conn;
    match &packet.body {
        Body::Eager(message, bytes) => [&message.eager(conn)[..], bytes].concat(),
        Body::Segment(segment, message, bytes) => {
            [&message.segment(conn, segment)[..], bytes].concat()
        }
        Body::Request {
            msg,
            message,
            places,
        } => message.request(conn, *msg, places).to_vec(),
        Body::ReadDone { msg } => short(conn, *msg, true).to_vec(),
        Body::Addresses { msg, places } => places.addresses(conn, *msg).to_vec(),
        Body::WriteDone { msg } => short(conn, *msg, false).to_vec(),
        Body::Atomic { msg, request } => {
            let target = request.target.list();
            let head = request.head.request(conn, *msg, target).unwrap();
            [&head[..], request.operands].concat()
        }
        Body::Credit { count } => credit(conn, *count).to_vec(),
        Body::AtomicResponse { .. } => panic!("encoded by itself"),
    }
}
