// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A live endpoint of tcp;ofi_rxm whose peer sends any packets and frames once it is connected.

use std::net::{Shutdown, TcpStream};

use crate::live::{HONEST_TAG, Live, Progress};
use prov::rxm::proto::{ConnId, FlowControl, HEADER, Message, Request, Response, reject, short};
use stream::proto::{self as tcp, CM_HEADER, CmKind, MAX_HEADER, encode_cm};

struct Target {
    live: Live,
    /// Connection of a well-behaved peer, and the endpoint's name for it.
    honest: (TcpStream, u32),
    /// Process number of the last hostile peer.
    pid: u32,
}

/// Ports of the hostile and of the well-behaved peer. No process listens there.
const HOSTILE: u16 = 1;
const HONEST: u16 = 2;
const EAGER_LIMIT: usize = 16384;
/// Maximum of bytes that one input sends.
const MAX_SENT: usize = 256 << 10;

/// Connects as the process `pid` of a peer that listens at a port. The endpoint's name for the connection, or none if
/// the endpoint refuses because it has a connection with this process.
fn connect(live: &mut Live, port: u16, pid: u32, extended: bool) -> Option<(TcpStream, u32)> {
    let socket = TcpStream::connect(live.addr).expect("it listens");
    socket.set_nodelay(true).expect("TCP");
    let request = Request {
        port,
        flow: FlowControl::Off,
        groups: false,
        eager: EAGER_LIMIT as u32,
        depth: 1024,
        id: ConnId { index: 7, pid },
    };
    let bytes = encode_cm(CmKind::Request, &request.encode(), extended, false);
    live.feed(&socket, &bytes);
    let mut head = [0; CM_HEADER];
    live.answer(&socket, &mut head);
    let head = tcp::decode_cm(&head).expect("an answer");
    let mut private = vec![0; head.private_len];
    live.answer(&socket, &mut private);
    match head.kind {
        CmKind::Response => {
            let response = Response::decode(&private).expect("an answer of rxm");
            Some((socket, response.id.index))
        }
        _ => {
            assert_eq!(private, reject(prov::rxm::proto::Reason::Connected));
            None
        }
    }
}

fn open(progress: Progress) -> Target {
    let mut live = Live::open("tcp;ofi_rxm", progress);
    let honest = connect(&mut live, HONEST, 1, false).expect("the first connection");
    Target {
        live,
        honest,
        pid: 1,
    }
}

/// Appends a packet as the message below that carries it.
fn put_packet(out: &mut Vec<u8>, packet: &[u8]) {
    let below = tcp::Message {
        tagged: false,
        ack: false,
        data: None,
        tag: 0,
        context: 0,
        payload: packet.len() as u64,
    };
    let mut head = [0; MAX_HEADER];
    let len = below.encode(0, false, &mut head);
    out.extend_from_slice(&head[..len]);
    out.extend_from_slice(packet);
}

/// A tagged message of the well-behaved peer.
fn honest_message(name: u32) -> Vec<u8> {
    let message = Message {
        tagged: true,
        size: 8,
        data: None,
        tag: HONEST_TAG,
        context: 0,
    };
    let mut out = Vec::new();
    put_packet(&mut out, &[&message.eager(name)[..], &[1; 8]].concat());
    out
}

/// Makes packets of an input. Before each packet come a byte and its length in two bytes. Bits of the byte:
///
/// | Bit | Meaning |
/// |---|---|
/// | 0 | the connection's name is filled in |
/// | 1 | the versions are filled in |
/// | 2 | bytes of the input are the header alone, and zeros follow |
/// | 3 | not a packet but bytes of the connection below |
/// | 4, 5 | the packet is sent 1, 2, 8 or 40 times |
fn packets(mut bytes: &[u8], name: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&[how, low, high], rest)) = bytes.split_first_chunk()
        && out.len() < MAX_SENT
    {
        let len = usize::from(u16::from_le_bytes([low, high])) % (EAGER_LIMIT + 2 * HEADER);
        let given = if how & 4 == 0 { len } else { len.min(HEADER) };
        let (given, rest) = rest.split_at(given.min(rest.len()));
        bytes = rest;
        let mut packet = given.to_vec();
        if how & 8 != 0 {
            out.extend_from_slice(&packet);
            continue;
        }
        packet.resize(len, 0);
        fill_in(&mut packet, how, name);
        for _ in 0..[1, 2, 8, 40][usize::from(how >> 4 & 3)] {
            put_packet(&mut out, &packet);
        }
    }
    out
}

/// Writes the fields of a header that an input cannot guess (the name) or that are always the same (the versions).
fn fill_in(packet: &mut [u8], how: u8, name: u32) {
    let Some(header) = packet.first_chunk_mut::<HEADER>() else {
        return;
    };
    let good = short(name, 0, true);
    if how & 1 != 0 {
        header[8..16].copy_from_slice(&good[8..16]);
    }
    if how & 2 != 0 {
        (header[0], header[32]) = (good[0], 2);
    }
}

/// Bits of the first byte: 0 appends a packet that breaks a rule, 1 and 2 choose the way of making progress, 3 closes
/// the socket instead of the sending side, 4 connects as another connection of the process before, 5 turns the
/// extensions of tcp off, 6 and 7 are the number of pieces, minus one, in which the packets are sent.
pub fn rxm_peer(data: &[u8]) {
    thread_local! {
        static TARGETS: std::cell::RefCell<[Target; 3]> =
            std::cell::RefCell::new(Progress::ALL.map(open));
    }
    let Some((&how, bytes)) = data.split_first() else {
        return;
    };
    TARGETS.with_borrow_mut(|targets| {
        let Target { live, honest, pid } = &mut targets[Progress::index(how)];
        if how & 0x10 == 0 {
            *pid = pid.wrapping_add(1);
        }
        live.post();
        if let Some((socket, name)) = connect(live, HOSTILE, *pid, how & 0x20 == 0) {
            let mut bytes = packets(bytes, name);
            if how & 1 != 0 {
                // No message of the endpoint has this number.
                put_packet(&mut bytes, &short(name, 999, true));
            }
            send(live, &socket, &bytes, usize::from(how >> 6) + 1);
            if how & 8 == 0 {
                let _ = socket.shutdown(Shutdown::Write);
                live.ends(&socket);
            }
        }
        live.receives_over(&honest.0, &honest_message(honest.1));
    });
}

/// Sends bytes in pieces, with a poll between two, so that the end of the connection can follow the last piece at once.
fn send(live: &mut Live, socket: &TcpStream, bytes: &[u8], pieces: usize) {
    for (i, piece) in bytes
        .chunks(bytes.len().div_ceil(pieces).max(1))
        .enumerate()
    {
        if i > 0 {
            live.poll();
        }
        live.feed(socket, piece);
    }
}
