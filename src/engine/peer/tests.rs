// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the checks of posted operations, and their order, over the minimal transport.

use super::check;
use super::post::{Posts, may_post, post, post_atomic, post_from};
use crate::av::AvTable;
use crate::domain_state::{DomainState, TxOp};
use crate::ep_state::EpState;
use crate::testing;
use crate::transport::Transport;
use crate::transport::tests::Bare;
use abi::*;
use base::flags::flags;
use base::info::Info;
use base::{Caps, Error, IoVec, OpFlags, Result};
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{Context, RemoteSeg, Tx, What};

type State = DomainState<String>;

/// Its sessions are the addresses; the peer at 9 cannot be reached.
impl Posts for Bare {
    const LIMITED: OpFlags = flags!(OpFlags: MATCH_COMPLETE | COMMIT_COMPLETE);
    const MOST_SEGMENTS: usize = 2;
    const MOST_CONTEXTS: usize = 3;

    fn unsupported(what: What, _flags: OpFlags, _ep: &EpState) -> OpFlags {
        match what {
            What::Tagged => OpFlags::COMMIT_COMPLETE,
            _ => Self::LIMITED,
        }
    }
    fn stamp(&self) -> u16 {
        77
    }
    fn check_atomic(&self, atomic: &Atomic<'_>) -> Result {
        match atomic.flags.contains(OpFlags::REMOTE_CQ_DATA) {
            true => Err(Error::MSGSIZE),
            false => Ok(()),
        }
    }
    /// Completes one operation.
    fn poll_for_room(&mut self, domain: &mut State) -> bool {
        self.posted.push(POLLED);
        domain.eps[0].tx_pending -= 1;
        true
    }
    fn session_for(&mut self, _: &mut State, _: usize, dest: u64) -> Result<usize> {
        match dest {
            9 => Err(Error::CONNREFUSED),
            dest => Ok(dest as usize),
        }
    }
    fn start(
        &mut self,
        _: &mut State,
        port: usize,
        session: usize,
        _: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        assert_eq!((port, op.since), (0, 77));
        self.posted.push(10 * session + usize::from(context));
        Ok(())
    }
    fn start_atomic(
        &mut self,
        _: &mut State,
        port: usize,
        session: usize,
        _: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        assert_eq!((port, op.since), (0, 77));
        self.posted.push(10 * session);
        Ok(())
    }
}

/// Recorded for a poll.
const POLLED: usize = 1000;

fn bare() -> (Bare, State) {
    let (domain, _, ep) = testing::domain(Caps::MSG | Caps::FENCE, 4);
    assert_eq!(ep, 0);
    (
        Bare::open(&(), &Info::default(), sync::Serialized::by_test()).unwrap(),
        domain,
    )
}

fn tx(what: What, flags: OpFlags, dest: u64, target: &[RemoteSeg]) -> Tx<'_> {
    Tx {
        what,
        iov: IoVec::empty(),
        flags,
        dest,
        context: Context::default(),
        data: 0,
        tag: 0,
        target,
    }
}

fn atomic(flags: OpFlags, dest: u64) -> Atomic<'static> {
    Atomic {
        family: Family::Base,
        datatype: FI_UINT8,
        op: FI_SUM,
        operands: IoVec::empty(),
        compare: IoVec::empty(),
        result: IoVec::empty(),
        flags,
        dest,
        context: Context::default(),
        data: 0,
        target: &[],
    }
}

fn segments(lens: &[usize]) -> Vec<RemoteSeg> {
    let seg = |&len: &usize| RemoteSeg {
        len,
        ..RemoteSeg::default()
    };
    lens.iter().map(seg).collect()
}

#[test]
fn a_target_has_the_bytes_of_the_operation_in_a_few_segments() {
    for (lens, len, expected) in [
        (&[8][..], 8, Ok(())),
        (&[3, 0, 5], 8, Ok(())),
        (&[0], 0, Ok(())),
        (&[], 0, Err(Error::INVAL)),
        (&[7], 8, Err(Error::INVAL)),
        (&[9], 8, Err(Error::INVAL)),
        (&[2, 2, 2, 2], 8, Err(Error::INVAL)),
        (&[usize::MAX, 9], 8, Err(Error::INVAL)),
    ] {
        assert_eq!(check::target(&segments(lens), len, 3), expected, "{lens:?}");
    }
}

#[test]
fn flags_need_their_capability_and_a_transport_that_honours_them() {
    let (fence, matched) = (OpFlags::FENCE, OpFlags::MATCH_COMPLETE);
    for (flags, caps, expected) in [
        (OpFlags::INJECT, Caps::empty(), Ok(())),
        (fence, Caps::FENCE, Ok(())),
        (fence, Caps::TRIGGER, Err(Error::BADFLAGS)),
        // The engine keeps triggered operations of endpoints that have the capability.
        (OpFlags::TRIGGER, Caps::TRIGGER, Err(Error::BADFLAGS)),
        (matched, Caps::all(), Err(Error::OPNOTSUPP)),
        (fence | matched, Caps::FENCE, Err(Error::OPNOTSUPP)),
        (fence | matched, Caps::empty(), Err(Error::BADFLAGS)),
    ] {
        assert_eq!(check::flags(flags, caps, matched), expected, "{flags:?}");
    }
}

#[test]
fn operations_reach_the_session_of_their_destination() {
    let (mut bare, mut domain) = bare();
    let posted = post(
        &mut bare,
        &mut domain,
        0,
        &mut tx(What::Msg, OpFlags::FENCE, 3, &[]),
    );
    assert_eq!(posted, Ok(()));
    let tagged = &mut tx(What::Tagged, OpFlags::MATCH_COMPLETE, 4, &[]);
    assert_eq!(post(&mut bare, &mut domain, 0, tagged), Ok(()));
    let posted = post_atomic(
        &mut bare,
        &mut domain,
        0,
        0,
        &mut atomic(OpFlags::empty(), 5),
    );
    assert_eq!(posted, Ok(()));
    assert_eq!(bare.posted, [30, 40, 50]);
}

#[test]
fn a_destination_may_name_a_receive_context() {
    let (mut bare, mut domain) = bare();
    let mut av = AvTable::new();
    av.context_bits = 2;
    domain.eps[0].av = Some(domain.avs.insert(av));
    let to = |context: u64| context << 62 | 5;
    for (context, expected) in [(0, Ok(())), (2, Ok(())), (3, Err(Error::INVAL))] {
        let message = &mut tx(What::Msg, OpFlags::empty(), to(context), &[]);
        assert_eq!(post_from(&mut bare, &mut domain, 0, 0, message), expected);
    }
    let posted = post_atomic(
        &mut bare,
        &mut domain,
        0,
        0,
        &mut atomic(OpFlags::empty(), to(2)),
    );
    assert_eq!(posted, Ok(()));
    assert_eq!(bare.posted, [50, 52, 50]);
}

#[test]
fn operations_are_refused_for_the_first_reason() {
    let (mut bare, mut domain) = bare();
    let bad = segments(&[1]);
    let (wrong, none) = (OpFlags::TRIGGER, OpFlags::empty());
    let refused = |bare: &mut Bare, domain: &mut State, flags, dest| {
        let mut write = tx(What::Write, flags, dest, &bad);
        let message = post(bare, domain, 0, &mut tx(What::Msg, flags, dest, &[]));
        let write = post(bare, domain, 0, &mut write);
        let data = flags | OpFlags::REMOTE_CQ_DATA;
        let atomic = post_atomic(bare, domain, 0, 0, &mut atomic(data, dest));
        [message, write, atomic].map(|result| result.err())
    };
    domain.eps[0].enabled = false;
    let state = [Some(Error::OPBADSTATE); 3];
    assert_eq!(refused(&mut bare, &mut domain, wrong, 9), state);
    domain.eps[0].enabled = true;
    let flags = [Some(Error::BADFLAGS); 3];
    assert_eq!(refused(&mut bare, &mut domain, wrong, 9), flags);
    let shape = [
        Some(Error::CONNREFUSED),
        Some(Error::INVAL),
        Some(Error::MSGSIZE),
    ];
    assert_eq!(refused(&mut bare, &mut domain, none, 9), shape);
    assert_eq!(bare.posted, []);
}

#[test]
fn an_endpoint_without_room_is_polled_once() {
    let (mut bare, mut domain) = bare();
    let message = &mut tx(What::Msg, OpFlags::empty(), 3, &[]);
    domain.eps[0].tx_pending = 4;
    assert!(!may_post(&domain, 0));
    assert_eq!(post(&mut bare, &mut domain, 0, message), Ok(()));
    assert!(may_post(&domain, 0));
    assert_eq!(bare.posted, [POLLED, 30]);
    domain.eps[0].tx_pending = 4;
    let posted = post_atomic(
        &mut bare,
        &mut domain,
        0,
        0,
        &mut atomic(OpFlags::empty(), 5),
    );
    assert_eq!(posted, Ok(()));
    assert_eq!(bare.posted.split_off(2), [POLLED, 50]);
    // This poll does not help.
    (domain.eps[0].tx_size, domain.eps[0].tx_pending) = (0, 3);
    assert_eq!(post(&mut bare, &mut domain, 0, message), Err(Error::AGAIN));
    assert_eq!(bare.posted, [POLLED, 30, POLLED]);
    (domain.eps[0].tx_size, domain.eps[0].enabled) = (4, false);
    assert!(!may_post(&domain, 0));
}
