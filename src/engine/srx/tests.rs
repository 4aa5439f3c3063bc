// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests of the memory charged for unexpected messages.

use std::collections::VecDeque;

use super::*;
use crate::matching::ANY;
use base::OpFlags;
use object::ops::transfer::{Context, Rx};

fn envelope(token: u64, len: u64) -> Envelope {
    Envelope {
        what: What::Tagged,
        source: token,
        token,
        ep: 0,
        tag: 7,
        len,
        data: None,
        note: 0,
    }
}

fn receive(srx: &mut Srx, flags: OpFlags, out: &mut VecDeque<Outcome>) -> base::Result {
    let mut rx = Rx {
        what: What::Tagged,
        iov: IoVec::empty(),
        src: ANY,
        tag: 7,
        ignore: 0,
        context: Context::default(),
        flags,
    };
    srx.post(&mut rx, false, out)
}

#[test]
fn every_message_counts_until_it_is_gone() {
    let mut srx = Srx::new();
    let mut out = VecDeque::new();
    srx.keep_whole(envelope(1, 0), |_| ());
    assert_eq!(srx.saved(), ENTRY);
    srx.keep_whole(envelope(1, 100), |bytes| bytes.resize(100, 0));
    assert!(srx.saved() >= 2 * ENTRY + 100);
    let before = srx.saved();
    let slot = srx.keep(envelope(2, 1000), Bytes::There);
    assert_eq!(srx.saved(), before + ENTRY);
    srx.begin_coming(slot);
    assert_eq!(srx.saved(), before + ENTRY);
    srx.record_origin(slot, vec![0; 16]);
    assert!(srx.saved() > before + ENTRY);
    srx.coming(slot, &[1; 1000]).unwrap();
    assert!(srx.saved() > before + cost_of(1000));
    assert!(srx.arrived(slot).is_none());
    for _ in 0..3 {
        receive(&mut srx, OpFlags::empty(), &mut out).unwrap();
    }
    assert_eq!((srx.saved(), out.len()), (0, 3));
}

#[test]
fn what_is_lost_forgotten_or_discarded_counts_no_more() {
    let mut srx = Srx::new();
    let mut out = VecDeque::new();
    let coming = srx.keep(envelope(1, 50), Bytes::Coming(Vec::new()));
    srx.lost(coming);
    assert_eq!(srx.saved(), 0);
    srx.keep(envelope(1, 50), Bytes::There);
    srx.keep_whole(envelope(1, 3), |bytes| bytes.resize(3, 0));
    srx.forget(1);
    assert_eq!(srx.saved(), 0);
    srx.keep_whole(envelope(4, 3), |bytes| bytes.resize(3, 0));
    receive(&mut srx, OpFlags::PEEK | OpFlags::DISCARD, &mut out).unwrap();
    assert_eq!(srx.saved(), 0);
    // A claimed message whose sender is gone is charged until its receive is posted.
    srx.keep(envelope(5, 50), Bytes::There);
    receive(&mut srx, OpFlags::PEEK | OpFlags::CLAIM, &mut out).unwrap();
    srx.forget(5);
    assert_eq!(srx.saved(), ENTRY);
    receive(&mut srx, OpFlags::CLAIM, &mut out).unwrap();
    assert_eq!(srx.saved(), 0);
    srx.keep_whole(envelope(6, 0), |_| ());
    srx.forget_ep(0);
    assert_eq!(srx.saved(), 0);
    assert!(srx.budget.shares.iter().all(|&share| share == 0));
}

#[test]
fn no_peer_takes_the_share_of_another() {
    const LIMIT: usize = 1 << 20;
    let mut srx = Srx::new();
    for peer in 0..4 {
        let mut kept = 0;
        while srx.has_room(peer, 100, LIMIT) {
            srx.keep_whole(envelope(peer, 100), |bytes| bytes.resize(100, 0));
            kept += 1;
        }
        assert!(kept > 0, "{peer}");
    }
    assert!(srx.saved() <= LIMIT);
    assert!(srx.budget.shares[0] > LIMIT / 2);
}

#[test]
fn announced_bytes_count_when_they_arrive() {
    const LIMIT: usize = 1 << 20;
    let mut srx = Srx::new();
    for peer in 0..100 {
        assert!(srx.has_room(peer, LIMIT as u64 / 2, LIMIT), "{peer}");
        srx.keep(envelope(peer, LIMIT as u64 / 2), Bytes::Coming(Vec::new()));
    }
    assert_eq!(srx.saved(), 100 * ENTRY);
}

#[test]
fn a_message_grows_as_long_as_there_is_room() {
    const LIMIT: usize = 100_000;
    let mut srx = Srx::new();
    let slots = [1, 2].map(|peer| srx.keep(envelope(peer, 60_000), Bytes::Coming(Vec::new())));
    let grow = |srx: &mut Srx, slot| {
        let mut parts = 0;
        while parts < 60 && srx.may_grow(slot, 1000, LIMIT) {
            srx.coming(slot, &[7; 1000]).unwrap();
            assert!(srx.saved() <= LIMIT);
            parts += 1;
        }
        parts
    };
    assert_eq!(grow(&mut srx, slots[0]), 60);
    assert!((1..60).contains(&grow(&mut srx, slots[1])));
    assert!(srx.arrived(slots[0]).is_none());
    // The receive takes the first message, so there is room for the second.
    let mut out = VecDeque::new();
    receive(&mut srx, OpFlags::empty(), &mut out).unwrap();
    assert_eq!(out.len(), 1);
    assert!(srx.may_grow(slots[1], 1000, LIMIT));
}

#[test]
fn a_message_that_is_met_while_it_comes_counts_no_more() {
    let mut srx = Srx::new();
    let mut out = VecDeque::new();
    for flags in [OpFlags::empty(), OpFlags::PEEK | OpFlags::DISCARD] {
        let slot = srx.keep(envelope(1, 100), Bytes::Coming(Vec::new()));
        srx.coming(slot, &[1; 50]).unwrap();
        assert!(!srx.may_grow(slot, 50, 0) && !srx.is_matched(slot));
        receive(&mut srx, flags, &mut out).unwrap();
        assert_eq!(srx.saved(), 0);
        assert!(srx.may_grow(slot, 50, 0) && srx.is_matched(slot));
        srx.coming(slot, &[1; 50]).unwrap();
        assert_eq!(srx.saved(), 0);
        let met = srx.take_met(slot);
        assert_eq!(met.is_some(), flags.is_empty());
        assert_eq!(srx.unexpected_len(), 0);
    }
}

#[test]
fn lengths_that_no_memory_has_are_no_overflow() {
    let srx = Srx::new();
    assert!(!srx.has_room(0, u64::MAX, usize::MAX / 2));
    assert!(!srx.has_room(0, 1 << 40, 1 << 30));
}
