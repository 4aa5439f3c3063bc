// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A large message without a receive stays in the socket for a moment, and no longer.

use super::side::{Agreed, Side};
use crate::link::Link;
use crate::session::grace::LEAST;
use abi::FI_ADDR_UNSPEC;
use base::OpFlags;
use base::iovec::lent::TestMemory;
use object::ops::transfer::{Context, Rx, Tx, What};
use sys::socket::Socket;

const LEN: usize = LEAST as usize;
const TAG: u64 = 5;

/// Returns the receiver of a message that has no receive, and the message.
fn arrived(grace_from: u64) -> (Side, [Side; 1], TestMemory) {
    let agreed = Agreed {
        swap: false,
        rendezvous: false,
        extended: true,
        saved_size: usize::MAX,
        saved_bytes: usize::MAX,
        keeps_offers: false,
    };
    let (one, other) = Socket::pair().unwrap();
    let mut sender = Side::new(0, agreed, Link::Socket(one), vec![0; 8]);
    let mut receiver = Side::new(1, agreed, Link::Socket(other), vec![0; 8]);
    receiver.common.grace_from = grace_from;
    // A message whose end is read together with its header is not left; after a large one this one is not.
    receiver.session.rx.expects_large = true;
    let message = TestMemory::new((0..LEN).map(|i| (i / 7) as u8).collect());
    let tx = Tx {
        what: What::Tagged,
        iov: message.iov(0, LEN),
        flags: OpFlags::empty(),
        dest: 0,
        context: Context::of_test(1),
        data: 0,
        tag: TAG,
        target: &[],
    };
    sender.post(tx).unwrap();
    sender.flush();
    receiver.poll();
    (receiver, [sender], message)
}

/// Posts the receive of the message; returns its memory.
fn receive(receiver: &mut Side) -> TestMemory {
    let memory = TestMemory::new(vec![0; LEN]);
    let mut rx = Rx {
        what: What::Tagged,
        iov: memory.iov(0, LEN),
        flags: OpFlags::COMPLETION,
        src: FI_ADDR_UNSPEC,
        context: Context::of_test(2),
        tag: TAG,
        ignore: 0,
    };
    receiver.post_receive(&mut rx);
    memory
}

/// Whether the bytes of the message were read into memory of their own.
fn is_copied(side: &Side) -> bool {
    side.session.rx.slot().is_some() || side.domain.srxs[side.srx].saved() >= LEN
}

#[test]
fn a_receive_that_comes_in_time_gets_the_bytes_from_the_socket() {
    let (mut receiver, _sender, message) = arrived(LEAST);
    receiver.poll();
    assert!(receiver.session.rx.is_graced() && !is_copied(&receiver));
    assert_eq!(receiver.session.rx.why_it_waits(), None);
    let memory = receive(&mut receiver);
    assert!(!receiver.session.rx.is_graced());
    receiver.poll();
    assert!(!is_copied(&receiver) && receiver.by_context.contains_key(&2));
    assert_eq!(memory.bytes(0, LEN), message.bytes(0, LEN));
}

#[test]
fn a_message_without_a_receive_is_read_soon() {
    let (mut receiver, _sender, message) = arrived(LEAST);
    let polls = (0..100).take_while(|_| {
        receiver.poll();
        receiver.session.rx.is_graced()
    });
    assert!((1..50).contains(&polls.count()));
    receiver.poll();
    assert!(is_copied(&receiver));
    let memory = receive(&mut receiver);
    receiver.poll();
    assert_eq!(memory.bytes(0, LEN), message.bytes(0, LEN));
}

#[test]
fn a_message_is_read_before_a_thread_sleeps() {
    let (receiver, ..) = arrived(u64::MAX);
    assert!(is_copied(&receiver));
    let (mut receiver, _sender, _message) = arrived(LEAST);
    assert!(!is_copied(&receiver));
    receiver.common.grace_from = u64::MAX;
    receiver.poll();
    assert!(is_copied(&receiver));
}

#[test]
fn a_short_message_is_read_at_once() {
    let (receiver, ..) = arrived(LEAST + 1);
    assert!(!receiver.session.rx.is_graced() && is_copied(&receiver));
}
