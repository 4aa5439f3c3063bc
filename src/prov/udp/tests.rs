// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests faults that only udp can have: the content of a datagram, its sender, and datagrams without a matching
//! receive. The peers are plain sockets.

use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use super::params::Params;
use super::{domain, ep, info};
use abi::*;
use base::info::{Info as Entry, Query};
use base::rights::KeyPolicy;
use base::{Caps, Error, OpFlags};
use engine::domain_state::{DomainState, Regions};
use engine::testing;
use engine::transport::{Multicast, Transport};
use sync::Serialized;
use sys::addr;
use sys::datagram::DatagramSocket;
use sys::event::sleep_on;
use sys::io_list::GatherList;
use sys::netif::{Address, addresses, index_of};

const LIMIT: Duration = Duration::from_secs(60);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// Datagrams for which there is no room must not wake a sleeping thread again and again.
#[test]
fn what_waits_for_room_wakes_nobody() {
    let mut state = DomainState::new(Regions::new(KeyPolicy::default()));
    let info = entries(None).remove(0);
    let mut transport = domain::Domain::open(&(), &info, Serialized::by_test()).unwrap();
    transport.open_ep(&mut state, 0, &info).unwrap();
    transport.enable_ep(&mut state, 0).unwrap();
    let to = addr::from_bytes(&transport.name(0).unwrap()).unwrap();
    UdpSocket::bind((to.ip(), 0))
        .unwrap()
        .send_to(b"x", to)
        .unwrap();
    let fd = transport.poll_fd();
    assert!(sleep_on(&[fd.as_fd()], Some(LIMIT)).unwrap());
    transport.pause(0);
    transport.pause(0);
    assert_eq!(transport.paused.to_vec(), [0]);
    assert!(!sleep_on(&[fd.as_fd()], Some(Duration::ZERO)).unwrap());
    transport.watch(0, true);
    assert!(sleep_on(&[fd.as_fd()], Some(LIMIT)).unwrap());
}

/// While the program polls, its socket is not in the epoll set. It is there again before a thread may sleep.
#[test]
fn a_busy_socket_is_out_of_epoll_until_a_thread_may_sleep() {
    let info = entries(None).remove(0);
    let mut transport = domain::Domain::open(&(), &info, Serialized::by_test()).unwrap();
    let (mut domain, _, ep) = testing::domain(info.caps, 1024);
    transport.open_ep(&mut domain, ep, &info).unwrap();
    transport.enable_ep(&mut domain, ep).unwrap();
    let to = addr::from_bytes(&transport.name(ep).unwrap()).unwrap();
    let sender = UdpSocket::bind((to.ip(), 0)).unwrap();
    let fd = transport.poll_fd();
    let wakes = || sleep_on(&[fd.as_fd()], Some(Duration::ZERO)).unwrap();
    for _ in 0..200 {
        sender.send_to(b"x", to).unwrap();
        transport.progress(&mut domain);
    }
    sender.send_to(b"x", to).unwrap();
    assert!(!wakes());
    transport.progress_all(&mut domain);
    sender.send_to(b"x", to).unwrap();
    assert!(wakes());
    // With a sleeper it stays there.
    domain.watchers.add();
    for _ in 0..200 {
        transport.progress(&mut domain);
        sender.send_to(b"x", to).unwrap();
    }
    assert!(wakes());
    // The sleeper comes while the socket is out.
    domain.watchers.remove();
    for _ in 0..200 {
        transport.progress(&mut domain);
        sender.send_to(b"x", to).unwrap();
    }
    assert!(!wakes());
    domain.watchers.add();
    transport.progress(&mut domain);
    sender.send_to(b"x", to).unwrap();
    assert!(wakes());
}

/// An ICMP error about a datagram to a closed port makes the socket ready, until it is read.
#[test]
fn a_complaint_wakes_once() {
    let endpoint = ep::Ep::open(0, &entries(Some("lo")).remove(0)).unwrap();
    let fd = endpoint.socket.as_fd();
    let nobody = socket().local_addr().unwrap();
    for _ in 0..3 {
        assert!(endpoint.socket.send_bytes(b"x", &nobody).unwrap());
        assert!(sleep_on(&[fd.as_fd()], Some(LIMIT)).unwrap());
        endpoint.hear();
        assert!(!sleep_on(&[fd.as_fd()], Some(Duration::ZERO)).unwrap());
    }
}

#[test]
fn flags_that_ask_for_an_answer_are_refused() {
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
    let mut transport = domain::Domain::open(&(), &info, Serialized::by_test()).unwrap();
    transport.open_ep(&mut state, 0, &info).unwrap();
    let local = addr::from_bytes(&transport.name(0).unwrap()).unwrap();
    let mut group = "[ff01::4653]:0".parse().unwrap();
    let name = transport
        .join_multicast(&mut state, 0, &group, Caps::RECV)
        .unwrap();
    let twice = transport.join_multicast(&mut state, 0, &group, Caps::RECV);
    assert_eq!(twice, Err(Error::ADDRINUSE));
    let fd = transport.poll_fd();
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
    assert!(sleep_on(&[fd.as_fd()], Some(LIMIT)).unwrap());
    transport.leave_multicast(&mut state, 0, name);
    send();
    assert!(!sleep_on(&[fd.as_fd()], Some(Duration::ZERO)).unwrap());
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
