// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Single cases of connecting and of cancelling: docs/wire/rxm.md.

use core::time::Duration;

use super::network::Faults;
use super::world::{SETTINGS, World};
use crate::rxm::proto::{ConnId, FlowControl, MOST_CREDITS, Reason, Request, credit, reject};
use crate::rxm::sessions::Reply;
use crate::rxm::testing::{Answer, addr_of};
use abi::FI_ADDR_UNSPEC;
use base::iovec::lent::TestMemory;
use base::{Error, OpFlags, Result};
use engine::address::ip::Addr;
use engine::testing::Completion;
use object::ops::transfer::{Context, Tx, What};

const NONE: Faults = Faults {
    delay: Duration::from_micros(50),
    silent: 0,
    breaks: 0,
    restarts: 0,
};

fn world(faults: Faults) -> World<()> {
    World::new(2, faults, SETTINGS, 1)
}

/// Connects one endpoint to the other.
fn connect(world: &mut World<()>, place: usize) -> usize {
    loop {
        let now = world.now();
        let node = world.nodes[place].as_mut().unwrap();
        match node.approach(now, 1 - place as u64) {
            Ok(id) => return id,
            Err(error) => assert_eq!(error, Error::AGAIN),
        }
        assert!(world.step(), "nothing happens any more");
    }
}

/// Posts a message of this length, and returns its context.
fn send(world: &mut World<()>, place: usize, id: usize, len: usize) -> usize {
    post(world, place, id, len, OpFlags::COMPLETION).unwrap()
}

/// Posts a message with these flags. Returns its context if it was accepted.
fn post(
    world: &mut World<()>,
    place: usize,
    id: usize,
    len: usize,
    flags: OpFlags,
) -> Result<usize> {
    let memory = TestMemory::new(vec![1; len]);
    let iov = memory.iov(0, len);
    let node = world.nodes[place].as_mut().unwrap();
    let mut tx = Tx {
        what: What::Msg,
        iov,
        flags,
        dest: 0,
        context: Context::default(),
        data: 0,
        tag: 0,
        target: &[],
    };
    let posted = node.post(id, &mut tx, memory, ());
    posted.map_err(|(error, _)| error)
}

/// Returns the contexts and errors of an endpoint's completions.
fn ended(world: &mut World<()>, place: usize) -> Vec<(usize, i32)> {
    let completions = world.nodes[place].as_mut().unwrap().completions();
    let error = |(context, done): (usize, Completion)| (context, done.error);
    let mut ended: Vec<_> = completions.into_iter().map(error).collect();
    ended.sort_unstable();
    ended
}

/// Returns the session of the first endpoint for the second one, which it starts to connect to.
fn reach(world: &mut World<()>) -> usize {
    let now = world.now();
    world.nodes[0].as_mut().unwrap().reach(now, 1).unwrap()
}

/// The request of the second endpoint's process with this number.
fn request(pid: u32, eager: usize) -> [u8; 24] {
    let request = Request {
        port: addr_of(1).port(),
        flow: FlowControl::Off,
        groups: false,
        eager: eager as u32,
        depth: 0,
        id: ConnId { index: 5, pid },
    };
    request.encode()
}

#[test]
fn the_attempt_of_the_larger_address_is_used() {
    let mut world = world(NONE);
    let now = world.now();
    for place in 0..2 {
        let node = world.nodes[place].as_mut().unwrap();
        assert_eq!(node.approach(now, 1 - place as u64), Err(Error::AGAIN));
    }
    for place in 0..2 {
        connect(&mut world, place);
    }
    let mut used = world.net.pipes.iter().filter(|pipe| pipe.ends[1].is_some());
    let first = used.next().unwrap();
    assert_eq!(first.ends[0].unwrap().node, 1);
    assert!(used.next().is_none());
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let mut world = world(NONE);
    let node = world.nodes[0].as_mut().unwrap();
    let all = [
        request(7, SETTINGS.eager + 1).to_vec(),
        vec![0; 24],
        Vec::new(),
    ];
    for data in all {
        let Answer::Refused(data) = node.requested(addr_of(1), &data) else {
            panic!("a request is not refused");
        };
        assert_eq!(data, reject(Reason::Refused));
    }
    assert!(node.sessions.is_empty());
}

#[test]
fn a_process_that_has_begun_anew_replaces_its_connection() {
    let mut world = world(NONE);
    let id = connect(&mut world, 0);
    // The message waits for a receive that the peer does not have.
    let context = send(&mut world, 0, id, 4000);
    while world.step() {}
    let node = world.nodes[0].as_mut().unwrap();
    let pid = node.sessions.get(id).unwrap().link().remote_pid();
    let Answer::Refused(data) = node.requested(addr_of(1), &request(pid, SETTINGS.eager)) else {
        panic!("a second connection of the same process is not refused");
    };
    assert_eq!(data, reject(Reason::Connected));
    assert!(node.completions().is_empty());
    let answer = node.requested(addr_of(1), &request(pid + 1, SETTINGS.eager));
    assert!(matches!(answer, Answer::Accepted(..)));
    let completions = node.completions();
    let [(ended, completion)] = &completions[..] else {
        panic!("{completions:?}");
    };
    assert_eq!(*ended, context);
    assert_eq!(completion.error, Error::CONNRESET.code());
}

#[test]
fn a_silent_host_is_reported_after_the_time_limit() {
    let mut world = world(Faults { silent: 1, ..NONE });
    let error = loop {
        let now = world.now();
        let node = world.nodes[0].as_mut().unwrap();
        match node.approach(now, 1) {
            Err(Error::AGAIN) => assert!(world.step(), "nothing happens any more"),
            Err(error) => break error,
            Ok(_) => panic!("a silent host answers"),
        }
    };
    assert_eq!(error, Error::TIMEDOUT);
    assert!(world.passed >= SETTINGS.conn_timeout);
    assert!(world.passed < SETTINGS.conn_timeout * 2);
}

#[test]
fn receives_that_name_a_lost_peer_end_if_its_host_is_silent() {
    let mut world = world(NONE);
    connect(&mut world, 0);
    let node = world.nodes[0].as_mut().unwrap();
    node.receive(TestMemory::new(vec![0; 8]), (), 1);
    node.receive(TestMemory::new(vec![0; 8]), (), FI_ADDR_UNSPEC);
    world.net.faults.silent = 1;
    let now = world.passed;
    world.net.break_pipe(now, 0);
    while world.step() {}
    let node = world.nodes[0].as_mut().unwrap();
    let completions = node.completions();
    let [(named, completion)] = &completions[..] else {
        panic!("{completions:?}");
    };
    assert_eq!((*named, completion.error), (0, Error::TIMEDOUT.code()));
}

/// Removes an operation that has not begun, as fi_cancel does. Returns whether there is one.
fn cancel(world: &mut World<()>, context: usize) -> bool {
    let node = world.nodes[0].as_mut().unwrap();
    let (domain, wire) = (&mut node.domain, &mut node.wire);
    let unsent = node.sessions.take_unsent(domain, wire, node.ep, context);
    if let Some(op) = &unsent {
        assert_eq!(op.context, context);
        domain.fail_tx(op, Error::CANCELED);
    }
    unsent.is_some()
}

/// In one packet, in segments, and announced.
#[test]
fn operations_that_have_not_begun_can_be_cancelled() {
    for len in [10, SETTINGS.segmented, SETTINGS.segmented + 1] {
        let mut world = world(NONE);
        let id = connect(&mut world, 0);
        while world.step() {}
        world.nodes[0].as_mut().unwrap().wire.room = 0;
        let contexts = [(); 3].map(|()| send(&mut world, 0, id, len));
        assert!(cancel(&mut world, contexts[1]));
        assert!(!cancel(&mut world, contexts[1]));
        let peer = world.nodes[1].as_mut().unwrap();
        for _ in 0..2 {
            peer.receive(TestMemory::new(vec![0; len]), (), FI_ADDR_UNSPEC);
        }
        let node = world.nodes[0].as_mut().unwrap();
        node.wire.room = usize::MAX;
        node.sessions.send_held(&mut node.domain, &mut node.wire);
        world.flush();
        while world.step() {}
        let [first, second, third] = contexts;
        let canceled = (second, Error::CANCELED.code());
        let all = ended(&mut world, 0);
        assert_eq!(all, [(first, 0), canceled, (third, 0)], "{len}");
        assert_eq!(ended(&mut world, 1).len(), 2, "{len}");
        assert_eq!(world.nodes[0].as_ref().unwrap().domain.eps[0].tx_pending, 0);
    }
}

#[test]
fn a_message_whose_first_segment_has_left_cannot_be_cancelled() {
    let mut world = world(NONE);
    let id = connect(&mut world, 0);
    while world.step() {}
    world.nodes[0].as_mut().unwrap().wire.room = 1;
    let context = send(&mut world, 0, id, SETTINGS.segmented);
    assert!(!cancel(&mut world, context));
}

/// In one packet, in segments, and announced.
#[test]
fn operations_posted_before_the_connection_leave_when_it_is_up() {
    let lens = [10, SETTINGS.segmented, SETTINGS.segmented + 1];
    let mut world = world(NONE);
    let id = reach(&mut world);
    let mut contexts = lens.map(|len| send(&mut world, 0, id, len));
    let canceled = send(&mut world, 0, id, 10);
    assert!(cancel(&mut world, canceled) && !cancel(&mut world, canceled));
    assert_eq!(
        ended(&mut world, 0),
        [(canceled, Error::CANCELED.code())],
        "a message has left without a connection"
    );
    let peer = world.nodes[1].as_mut().unwrap();
    for len in lens {
        peer.receive(TestMemory::new(vec![0; len]), (), FI_ADDR_UNSPEC);
    }
    world.flush();
    while world.step() {}
    contexts.sort_unstable();
    assert_eq!(ended(&mut world, 0), contexts.map(|context| (context, 0)));
    // The receives have matched in the order of the messages.
    assert_eq!(ended(&mut world, 1), [(0, 0), (1, 0), (2, 0)]);
    let node = world.nodes[0].as_ref().unwrap();
    assert_eq!(node.domain.eps[0].tx_pending, 0);
    assert_eq!(node.sessions.common.deferred, 0);
}

#[test]
fn operations_without_a_completion_are_refused_before_the_connection() {
    let mut world = world(NONE);
    let id = reach(&mut world);
    let refused = [
        OpFlags::INJECT,
        OpFlags::INJECT | OpFlags::COMPLETION,
        OpFlags::empty(),
    ];
    for flags in refused {
        assert_eq!(post(&mut world, 0, id, 10, flags), Err(Error::AGAIN));
    }
    while world.step() {}
    assert!(post(&mut world, 0, id, 10, OpFlags::INJECT).is_ok());
}

#[test]
fn operations_posted_before_the_connection_fail_with_its_attempts() {
    let mut world = world(Faults { silent: 1, ..NONE });
    let id = reach(&mut world);
    let contexts = [(); 2].map(|()| send(&mut world, 0, id, 10));
    while world.step() {}
    assert!(world.passed >= SETTINGS.conn_timeout);
    let failed = contexts.map(|context| (context, Error::TIMEDOUT.code()));
    assert_eq!(ended(&mut world, 0), failed);
    // The operations have reported the error, so the next one connects again.
    assert!(world.nodes[0].as_ref().unwrap().sessions.is_empty());
    reach(&mut world);
}

/// Each side must come to the same decision, or both would close the connection that the other one keeps.
#[test]
fn endpoints_at_all_addresses_keep_one_of_two_simultaneous_attempts() {
    let mut world = world(NONE);
    let mut replies = Vec::new();
    for place in 0..2 {
        let now = world.now();
        let node = world.nodes[place].as_mut().unwrap();
        let any = Addr::from(([0; 4], addr_of(place).port()));
        node.sessions.listen(node.ep, Some(any));
        let id = node.reach(now, 1 - place as u64).unwrap();
        let request = Request::decode(&request(7, SETTINGS.eager)).unwrap();
        let ends = (addr_of(1 - place), Some(addr_of(place)));
        let reply = node
            .sessions
            .requested(&mut node.domain, node.ep, ends, &request);
        replies.push((reply, id));
    }
    let (accepts, id) = replies[0];
    assert_eq!(accepts, Reply::Accept(id));
    assert_eq!(replies[1].0, Reply::Reject);
}

/// Endpoints whose connections have this many counted receives; 0: they are not counted.
fn counting(receives: [usize; 2]) -> World<()> {
    World::with_receives(NONE, SETTINGS, 1, receives.to_vec())
}

/// Runs until nothing happens any more.
fn run(world: &mut World<()>) {
    while world.step() {}
}

/// Sends messages, and returns how many are delivered to posted receives when nothing happens any more.
fn delivered(world: &mut World<()>, place: usize, count: usize) -> usize {
    let (now, other) = (world.now(), 1 - place);
    // A session with a peer that has connected by itself gets its destination here.
    let _ = world.nodes[place]
        .as_mut()
        .unwrap()
        .approach(now, other as u64);
    let id = connect(world, place);
    for _ in 0..count {
        let node = world.nodes[other].as_mut().unwrap();
        node.receive(TestMemory::new(vec![0; 100]), (), FI_ADDR_UNSPEC);
        send(world, place, id, 100);
    }
    run(world);
    let at_other = ended(world, other);
    assert_eq!(ended(world, place).len(), at_other.len());
    at_other.iter().filter(|(_, error)| *error == 0).count()
}

#[test]
fn no_message_is_without_a_receive_and_none_is_left() {
    // The network checks that each packet finds a receive.
    for receives in [[3, 3], [3, 64], [4, 3], [64, 4], [8, 8]] {
        let mut world = counting(receives);
        for place in [0, 1, 1, 0] {
            assert_eq!(delivered(&mut world, place, 24), 24, "{receives:?}");
        }
    }
}

#[test]
fn nothing_is_counted_unless_both_sides_count() {
    for receives in [[0, 3], [3, 0]] {
        let mut world = counting(receives);
        for place in [0, 1] {
            assert_eq!(delivered(&mut world, place, 24), 24, "{receives:?}");
            let wire = &world.nodes[place].as_ref().unwrap().wire;
            assert!(!wire.counts_messages());
        }
    }
}

#[test]
fn messages_wait_for_credits_and_credits_do_not_wait_for_messages() {
    let mut world = counting([4, 4]);
    let id = connect(&mut world, 0);
    run(&mut world);
    // The peer takes no packets now.
    let arrival = world.nodes[1].as_ref().unwrap().sessions.get(0).unwrap();
    let arrival = arrival.link().arrival();
    world.nodes[1].as_mut().unwrap().wire.hold(arrival, true);
    for _ in 0..8 {
        send(&mut world, 0, id, 100);
    }
    run(&mut world);
    // The last of four receives is for a packet with credits.
    assert_eq!(ended(&mut world, 0).len(), 3);
    // Such a packet passes the messages that wait.
    let before = world.nodes[1].as_ref().unwrap().wire.credits_of(arrival);
    let node = world.nodes[0].as_mut().unwrap();
    node.with(id, |session, cx| session.give_credits(cx, 7));
    run(&mut world);
    let after = world.nodes[1].as_ref().unwrap().wire.credits_of(arrival);
    assert_eq!(after, before.map(|credits| credits + 7));
    let now = world.now();
    let node = world.nodes[1].as_mut().unwrap();
    node.wire.hold(arrival, false);
    node.poll(now);
    run(&mut world);
    assert_eq!(ended(&mut world, 0).len(), 5);
}

#[test]
fn a_packet_with_too_many_credits_ends_the_connection() {
    for (count, is_left) in [
        (0, true),
        (MOST_CREDITS, true),
        (MOST_CREDITS + 1, false),
        (u64::MAX, false),
    ] {
        let mut world = counting([4, 4]);
        let id = connect(&mut world, 0);
        run(&mut world);
        let node = world.nodes[0].as_mut().unwrap();
        let (name, arrival) = {
            let link = node.sessions.get(id).unwrap().link();
            (link.name(), link.arrival())
        };
        node.arrived(arrival, &credit(name, count));
        assert_eq!(node.sessions.is_live(id), is_left, "{count}");
    }
}
