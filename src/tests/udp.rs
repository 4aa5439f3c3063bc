// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests faults that only udp can have: the content of a datagram, its sender, and datagrams without a matching
//! receive. The peers are plain sockets.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use abi::*;
use base::{Error, Result};
use client::*;
use sys::addr;

const LIMIT: Duration = Duration::from_secs(60);

/// An endpoint with its objects. Its domain has another endpoint, so that both are watched by epoll.
struct Side {
    list: InfoList,
    domain: Arc<Domain>,
    ep: Arc<Ep>,
    cq: Arc<Cq>,
    av: Arc<Av>,
    _other: Arc<Ep>,
}

impl Side {
    fn open() -> Side {
        const API: u32 = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;
        let list = getinfo(API, Some(c"127.0.0.1"), None, FI_SOURCE, None).unwrap();
        let info = Side::info(&list);
        let fabric = Fabric::open(info).unwrap();
        let domain = Domain::open_thread_safe(&fabric, info).unwrap();
        let attr = CqAttr {
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: FI_WAIT_FD,
            ..CqAttr::default()
        };
        let cq = Cq::open(&domain, &attr).unwrap();
        let av = Av::open(&domain, &AvAttr::default()).unwrap();
        let [ep, other] = [(); 2].map(|()| {
            let ep = Ep::open(&domain, info).unwrap();
            ep.bind(&cq, FI_TRANSMIT | FI_RECV).unwrap();
            ep.bind(&av, 0).unwrap();
            ep.enable().unwrap();
            ep
        });
        Side {
            list,
            domain,
            ep,
            cq,
            av,
            _other: other,
        }
    }

    fn info(list: &InfoList) -> Info<'_> {
        let is_meant = |info: &Info<'_>| info.provider().as_deref() == Some("udp");
        list.iter().find(is_meant).unwrap()
    }

    fn addr(&self) -> SocketAddr {
        addr::from_bytes(&self.ep.name().unwrap()).unwrap()
    }

    fn insert(&self, peer: &UdpSocket) -> u64 {
        self.av
            .insert(&addr::to_bytes(&peer.local_addr().unwrap()))
            .unwrap()
    }

    fn buffer(&self, len: usize) -> Buffer {
        let access = FI_SEND | FI_RECV;
        Buffer::new(&self.domain, Side::info(&self.list), len, access, 0).unwrap()
    }

    fn post(&self, len: usize) {
        assert!(
            self.ep
                .recv_buffer(self.buffer(len), FI_ADDR_UNSPEC)
                .is_ok()
        );
    }

    /// Returns the next completion with its source.
    fn done(&self) -> Result<Completion> {
        let mut done = [Completion::default()];
        self.cq.sread_from(&mut done, Some(LIMIT))?;
        let [done] = done;
        Ok(done)
    }

    /// Posts a receive. Returns the bytes and the sender of the message that it gets.
    fn receive(&self) -> (Vec<u8>, u64) {
        self.post(65536);
        let done = self.done().unwrap();
        let (len, src) = (done.size(), done.src);
        let buffer = self.ep.reclaim(done.context).unwrap();
        (buffer.bytes()[..len].to_vec(), src)
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

#[test]
fn a_datagram_is_the_bytes_of_a_message() {
    let (side, peer) = (Side::open(), socket());
    let dest = side.insert(&peer);
    let mut message = side.buffer(64);
    message.bytes_mut()[..5].copy_from_slice(b"hello");
    assert!(side.ep.send_buffer(message, 5, dest).is_ok());
    assert_eq!(side.done().unwrap().flags, FI_MSG | FI_SEND);
    let mut bytes = [0; 64];
    assert_eq!(peer.recv_from(&mut bytes).unwrap(), (5, side.addr()));
    assert_eq!(&bytes[..5], b"hello");
    side.ep.inject(b"", dest).unwrap();
    assert_eq!(peer.recv_from(&mut bytes).unwrap(), (0, side.addr()));
    peer.send_to(b"", side.addr()).unwrap();
    assert_eq!(side.receive(), (vec![], dest));
}

#[test]
fn the_sender_is_who_the_vector_says() {
    let (side, known, stranger) = (Side::open(), socket(), socket());
    side.insert(&socket());
    let index = side.insert(&known);
    for receive_first in [true, false] {
        if receive_first {
            side.post(64);
            side.post(64);
        }
        known.send_to(b"known", side.addr()).unwrap();
        stranger.send_to(b"stranger", side.addr()).unwrap();
        if !receive_first {
            side.post(64);
            side.post(64);
        }
        let from = |len| if len == 5 { index } else { FI_ADDR_NOTAVAIL };
        let mut lens = [(); 2].map(|()| {
            let done = side.done().unwrap();
            assert_eq!(done.src, from(done.size()));
            done.size()
        });
        lens.sort_unstable();
        assert_eq!(lens, [5, 8]);
    }
}

#[test]
fn a_datagram_that_is_too_long_is_truncated_and_does_no_more_harm() {
    let (side, peer) = (Side::open(), socket());
    for receive_first in [true, false] {
        if receive_first {
            side.post(4);
        }
        peer.send_to(b"truncated", side.addr()).unwrap();
        if !receive_first {
            side.post(4);
        }
        assert_eq!(side.done().err(), Some(Error::AVAIL));
        let error = side.cq.readerr().unwrap();
        assert_eq!((error.error, error.len, error.olen), (Error::TRUNC, 4, 5));
        assert_eq!(side.ep.reclaim(error.context).unwrap().bytes(), b"trun");
        peer.send_to(b"next", side.addr()).unwrap();
        assert_eq!(side.receive().0, b"next");
    }
}

#[test]
fn datagrams_without_a_receive_wait_in_their_order() {
    let (side, peer) = (Side::open(), socket());
    for i in 0..100u8 {
        peer.send_to(&[i; 100], side.addr()).unwrap();
    }
    for i in 0..100u8 {
        assert_eq!(side.receive().0, [i; 100]);
    }
}

/// Sends more datagrams than the endpoint saves and the kernel buffers.
#[test]
fn a_flood_is_cut_and_ends() {
    let (side, peer) = (Side::open(), socket());
    for i in 0..60u8 {
        peer.send_to(&[i; 60_000], side.addr()).unwrap();
        // Saves as many as the limit allows, whatever other threads do.
        let none = side.cq.read(&mut [Completion::default()]);
        assert_eq!(none, Err(Error::AGAIN));
    }
    let deadline = Instant::now() + LIMIT;
    let (mut last, mut seen) = (0, 0);
    // The last datagram is repeated, because it may be lost.
    while last != u8::MAX {
        assert!(Instant::now() < deadline, "nothing comes after the flood");
        peer.send_to(&[u8::MAX], side.addr()).unwrap();
        let (bytes, _) = side.receive();
        assert!(bytes.iter().all(|&byte| byte == bytes[0]) && bytes[0] >= last);
        last = bytes[0];
        seen += 1;
    }
    assert!(seen > 1, "all of the flood is lost");
}

#[test]
fn what_a_datagram_cannot_carry_is_refused() {
    let side = Side::open();
    let dest = side.insert(&socket());
    let most = Side::info(&side.list).ep().unwrap().max_msg_size;
    assert_eq!(side.ep.inject_data(b"x", 1, dest), Err(Error::NOSYS));
    assert_eq!(side.ep.inject(&vec![0; most + 1], dest), Err(Error::INVAL));
    for len in [most + 1, 65508] {
        let refused = side.ep.send_buffer(side.buffer(len), len, dest).err();
        assert_eq!(refused.map(|(_, error)| error), Some(Error::MSGSIZE));
    }
}
