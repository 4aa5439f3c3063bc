// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A live endpoint of tcp whose peer sends any bytes in any pieces once it is connected.

use std::net::{Shutdown, TcpStream};

use crate::live::{HONEST_TAG, Live, Progress};
use stream::proto::{CM_HEADER, CmKind, EXTENSIONS, MAX_HEADER, Message, RdmPrivate, encode_cm};

struct Target {
    live: Live,
    /// Connection of a well-behaved peer.
    honest: TcpStream,
}

/// Connects as a peer that listens at a port.
fn connect(live: &mut Live, port: u16, features: u8) -> TcpStream {
    let socket = TcpStream::connect(live.addr).expect("it listens");
    socket.set_nodelay(true).expect("TCP");
    let private = RdmPrivate {
        version: 1,
        checked: false,
        features,
        port,
        pid: 1,
    };
    let request = encode_cm(CmKind::Request, &private.encode(), false, false);
    live.feed(&socket, &request);
    socket
}

fn open(progress: Progress) -> Target {
    let mut live = Live::open("tcp", progress);
    let honest = connect(&mut live, 2, 0);
    live.answer(&honest, &mut [0; CM_HEADER + RdmPrivate::LEN]);
    Target { live, honest }
}

/// A tagged message of a well-behaved peer.
fn honest_message() -> Vec<u8> {
    let message = Message {
        tagged: true,
        ack: false,
        data: None,
        tag: HONEST_TAG,
        context: 0,
        payload: 8,
    };
    let mut head = [0; MAX_HEADER];
    let len = message.encode(0, false, &mut head);
    [&head[..len], &[1; 8]].concat()
}

/// Bits of the first byte: 0 turns the extensions off, 1 and 2 choose the way of making progress, 6 and 7 are the
/// number of pieces, minus one, in which the other bytes are sent.
pub fn peer(data: &[u8]) {
    thread_local! {
        static TARGETS: std::cell::RefCell<[Target; 3]> =
            std::cell::RefCell::new(Progress::ALL.map(open));
    }
    let Some((&how, bytes)) = data.split_first() else {
        return;
    };
    TARGETS.with_borrow_mut(|targets| {
        let Target { live, honest } = &mut targets[Progress::index(how)];
        live.post();
        let features = if how & 1 == 0 { EXTENSIONS } else { 0 };
        let socket = connect(live, 1, features);
        let pieces = usize::from(how >> 6) + 1;
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            live.feed(&socket, piece);
            live.poll();
        }
        let _ = socket.shutdown(Shutdown::Write);
        live.ends(&socket);
        live.receives_over(honest, &honest_message());
    });
}
