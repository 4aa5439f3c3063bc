// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A live endpoint of udp;ofi_rxd to which several peers send any datagrams.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use crate::live::{HONEST_TAG, Live, Progress};
use prov::rxd::proto::{BASE, Cts, Head, Iovs, Kind, MAX_OP_HEADER, Op, Packet, Rts};
use sys::addr;

struct Target {
    live: Live,
    honest: Peer,
    hostile: [Peer; HOSTILE],
}

struct Peer {
    socket: UdpSocket,
    /// Number that the peer chooses for the endpoint's packets. A new number means that the peer has restarted.
    id: u32,
    /// Number of this peer at the endpoint.
    number: u32,
    /// Sequence number of the next packet.
    next: u64,
}

const HOSTILE: usize = 4;
/// Longest datagram that the endpoint accepts, and one byte more.
const MAX_DATAGRAM: usize = 1473;
/// Time after which an unanswered datagram is retransmitted.
const AGAIN: Duration = Duration::from_millis(20);

impl Peer {
    /// A peer with an address of its own.
    fn open(live: &Live, host: u8) -> Peer {
        let socket =
            UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("a loopback address");
        socket.connect(live.addr).expect("an address");
        socket.set_nonblocking(true).expect("UDP");
        Peer {
            socket,
            id: 0,
            number: 0,
            next: 0,
        }
    }

    /// Sends a datagram. The kernel may have no room for it.
    fn send(&self, datagram: &[u8]) {
        let _ = self.socket.send(datagram);
    }

    /// Sends a datagram again and again until a condition holds.
    fn send_until(
        &self,
        live: &mut Live,
        datagram: &[u8],
        mut is_matched: impl FnMut(&Live) -> bool,
    ) {
        let mut at = Instant::now();
        live.until("an answer to a datagram", |live| {
            let now = Instant::now();
            if now >= at {
                self.send(datagram);
                at = now + AGAIN;
            }
            is_matched(live)
        });
    }

    /// Restarts the peer, and gets the endpoint's number for it.
    fn greet(&mut self, live: &mut Live) {
        self.id = self.id % i32::MAX as u32 + 1;
        let name = addr::to_bytes(&self.socket.local_addr().expect("it is bound"));
        let mut rts = [0; MAX_DATAGRAM];
        let len = Rts::encode(self.id, &name, true, &mut rts);
        let mut number = 0;
        self.send_until(live, &rts[..len], |_| {
            let mut bytes = [0; MAX_DATAGRAM];
            while let Ok(len) = self.socket.recv(&mut bytes) {
                if let Ok(Packet::Cts(Cts { echo, id, .. })) = Packet::decode(&bytes[..len])
                    && echo == self.id
                {
                    number = id;
                }
            }
            number != 0
        });
        (self.number, self.next) = (number, 0);
    }

    /// Sends a tagged message as a well-behaved peer does, and checks that it arrives.
    fn send_honest(&mut self, live: &mut Live) {
        let op = Op {
            kind: Kind::Tagged,
            tag: HONEST_TAG,
            data: None,
            segments: None,
            iovs: Iovs::default(),
            atomic: [0; 2],
        };
        let head = Head {
            peer: self.number,
            seq: self.next,
        };
        let mut packet = [0; MAX_OP_HEADER + 8];
        let len = op.encode(head, &mut packet) + 8;
        let before = live.honest();
        self.send_until(live, &packet[..len], |live| live.honest() > before);
        self.next += 1;
    }
}

fn open(progress: Progress) -> Target {
    let mut live = Live::open("udp;ofi_rxd", progress);
    let mut honest = Peer::open(&live, 1);
    honest.greet(&mut live);
    let hostile = [2, 3, 4, 5].map(|host| Peer::open(&live, host));
    Target {
        live,
        honest,
        hostile,
    }
}

/// Sends the datagrams of an input. Before each datagram come a byte and its length in two bytes. Bits of the byte:
///
/// | Bit | Meaning |
/// |---|---|
/// | 0, 1 | the peer that sends the datagram |
/// | 2 | the endpoint's number for the peer is filled in |
/// | 3 | the next sequence number is filled in |
/// | 4 | bytes of the input are the first 64 alone, and zeros follow |
/// | 5, 6 | the datagram is sent 1, 2, 8 or 40 times, each with the next sequence number |
/// | 7 | the endpoint polls afterwards |
fn send_all(live: &mut Live, peers: &mut [Peer; HOSTILE], mut bytes: &[u8]) {
    while let Some((&[how, low, high], rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([low, high])) % (MAX_DATAGRAM + 1);
        let given = if how & 16 == 0 { len } else { len.min(64) };
        let (given, rest) = rest.split_at(given.min(rest.len()));
        bytes = rest;
        let mut datagram = given.to_vec();
        datagram.resize(len, 0);
        let peer = &mut peers[usize::from(how & 3)];
        for _ in 0..[1, 2, 8, 40][usize::from(how >> 5 & 3)] {
            fill_in(&mut datagram, how, peer);
            peer.send(&datagram);
        }
        if how & 0x80 != 0 {
            live.poll();
        }
    }
}

/// Writes the fields of a header that an input cannot guess.
fn fill_in(datagram: &mut [u8], how: u8, peer: &mut Peer) {
    let Some(header) = datagram.first_chunk_mut::<BASE>() else {
        return;
    };
    if how & 4 != 0 {
        header[4..8].copy_from_slice(&peer.number.to_ne_bytes());
    }
    if how & 8 != 0 {
        header[8..].copy_from_slice(&peer.next.to_ne_bytes());
        peer.next += 1;
    }
}

/// Bits of the first byte: 1 and 2 choose the way of making progress; 4 to 7 select the peers that restart before they
/// send. A peer that has not begun yet does the same.
pub fn rxd_peer(data: &[u8]) {
    thread_local! {
        static TARGETS: std::cell::RefCell<[Target; 3]> =
            std::cell::RefCell::new(Progress::ALL.map(open));
    }
    let Some((&how, bytes)) = data.split_first() else {
        return;
    };
    TARGETS.with_borrow_mut(|targets| {
        let Target {
            live,
            honest,
            hostile,
        } = &mut targets[Progress::index(how)];
        live.post();
        for (i, peer) in hostile.iter_mut().enumerate() {
            if how >> (4 + i) & 1 != 0 || peer.id == 0 {
                peer.greet(live);
            }
        }
        send_all(live, hostile, bytes);
        honest.send_honest(live);
    });
}
