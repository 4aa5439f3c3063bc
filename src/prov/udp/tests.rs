// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests faults that only udp can have: the content of a datagram, its sender, and datagrams without a matching
//! receive. The peers are plain sockets.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use super::info::MAX_MESSAGE;
use super::params::Params;
use super::{domain, ep, info};
use crate::abi::*;
use crate::base::info::{Info as Entry, Query};
use crate::base::rights::KeyPolicy;
use crate::base::{Caps, Error, OpFlags, Result};
use crate::engine::domain_state::{DomainState, Regions};
use crate::engine::transport::{Multicast, Transport};
use crate::ffi::client::*;
use crate::sys::addr;
use crate::sys::datagram::DatagramSocket;
use crate::sys::event::sleep_on;
use crate::sys::io_list::GatherList;
use crate::sys::netif::{Address, addresses, index_of};

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
        let (len, src) = (done.len, done.src);
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
            assert_eq!(done.src, from(done.len));
            done.len
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

/// Datagrams for which there is no room must not wake a sleeping thread again and again.
#[test]
fn what_waits_for_room_wakes_nobody() {
    let mut state = DomainState::new(Regions::new(KeyPolicy::default()));
    let info = entries(None).remove(0);
    let mut transport = domain::Domain::open(&(), &info).unwrap();
    transport.open_ep(&mut state, 0, &info).unwrap();
    transport.enable_ep(&mut state, 0).unwrap();
    let to = addr::from_bytes(&transport.name(0).unwrap()).unwrap();
    UdpSocket::bind((to.ip(), 0))
        .unwrap()
        .send_to(b"x", to)
        .unwrap();
    let fd = [transport.poll_fd()];
    assert!(sleep_on(&fd, Some(LIMIT)).unwrap());
    transport.pause(0);
    transport.pause(0);
    assert_eq!(transport.paused, [0]);
    assert!(!sleep_on(&fd, Some(Duration::ZERO)).unwrap());
    transport.watch(0, true);
    assert!(sleep_on(&fd, Some(LIMIT)).unwrap());
}

/// An ICMP error about a datagram to a closed port makes the socket ready, until it is read.
#[test]
fn a_complaint_wakes_once() {
    let endpoint = ep::Ep::open(0, &entries(Some("lo")).remove(0)).unwrap();
    let fd = [endpoint.socket.as_raw_fd()];
    let nobody = socket().local_addr().unwrap();
    for _ in 0..3 {
        assert!(endpoint.socket.send_bytes(b"x", &nobody).unwrap());
        assert!(sleep_on(&fd, Some(LIMIT)).unwrap());
        endpoint.hear();
        assert!(!sleep_on(&fd, Some(Duration::ZERO)).unwrap());
    }
}

#[test]
fn what_a_datagram_cannot_carry_is_refused() {
    let side = Side::open();
    let dest = side.insert(&socket());
    assert_eq!(side.ep.inject_data(b"x", 1, dest), Err(Error::NOSYS));
    assert_eq!(
        side.ep.inject(&[0; MAX_MESSAGE + 1], dest),
        Err(Error::INVAL)
    );
    for len in [MAX_MESSAGE + 1, 65508] {
        let refused = side.ep.send_buffer(side.buffer(len), len, dest).err();
        assert_eq!(refused.map(|(_, error)| error), Some(Error::MSGSIZE));
    }
    assert_eq!(domain::check_flags(OpFlags::FENCE), Err(Error::BADFLAGS));
    assert_eq!(
        domain::check_flags(OpFlags::DELIVERY_COMPLETE),
        Err(Error::OPNOTSUPP)
    );
    assert_eq!(
        domain::check_flags(OpFlags::TRANSMIT_COMPLETE | OpFlags::INJECT),
        Ok(())
    );
}

/// A group over IPv6 whose messages do not leave this host, on an interface with a route for groups.
#[test]
fn groups_over_ipv6() {
    let is_usable = |address: &Address| address.addr.is_ipv6() && !address.loopback;
    let Some(place) = addresses().into_iter().find(is_usable) else {
        return;
    };
    let mut state = DomainState::new(Regions::new(KeyPolicy::default()));
    let info = Entry {
        src_addr: Some(addr::to_bytes(&place.addr)),
        ..entries(None).remove(0)
    };
    let mut transport = domain::Domain::open(&(), &info).unwrap();
    transport.open_ep(&mut state, 0, &info).unwrap();
    let local = addr::from_bytes(&transport.name(0).unwrap()).unwrap();
    let mut group = "[ff01::4653]:0".parse().unwrap();
    let name = transport
        .join_multicast(&mut state, 0, &group, Caps::RECV)
        .unwrap();
    let twice = transport.join_multicast(&mut state, 0, &group, Caps::RECV);
    assert_eq!(twice, Err(Error::ADDRINUSE));
    let fd = [transport.poll_fd()];
    group.set_port(local.port());
    let send = || {
        let sender = DatagramSocket::bound((local.ip(), 0).into()).unwrap();
        let SocketAddr::V6(mut group) = group else {
            panic!()
        };
        group.set_scope_id(index_of(local.ip()).unwrap());
        sender
            .send_to_groups_from(local.ip(), group.into())
            .unwrap();
        assert!(sender.send(&GatherList::new(), &group.into()).unwrap());
    };
    send();
    assert!(sleep_on(&fd, Some(LIMIT)).unwrap());
    transport.leave_multicast(&mut state, 0, name);
    send();
    assert!(!sleep_on(&fd, Some(Duration::ZERO)).unwrap());
}

fn entries(iface: Option<&str>) -> Vec<Entry> {
    let query = Query {
        version: FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION,
        node: None,
        service: None,
        flags: 0,
        hints: None,
    };
    let params = Params {
        iface: iface.map(str::to_owned),
    };
    info::offers(&query, &params).entries
}

#[test]
fn entries_are_of_the_interface_that_is_named() {
    let names = |iface| -> Vec<_> {
        let names = entries(iface).into_iter().map(|info| info.domain.name);
        names.collect()
    };
    assert!(names(None).contains(&Some(c"lo".into())));
    let lo = names(Some("lo"));
    assert!(!lo.is_empty() && lo.iter().all(|name| *name == Some(c"lo".into())));
    assert!(names(Some("no such interface")).is_empty());
}
