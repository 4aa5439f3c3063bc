// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;

/// The sockets of `watched`: own ends, and the ends of the peers.
impl<const N: usize> Sockets for [[UnixStream; 2]; N] {
    fn socket_of(&self, id: usize) -> Option<BorrowedFd<'_>> {
        Some(self.get(id)?[0].as_fd())
    }
}

/// A poller with `N` watched connections, and the other ends of their sockets.
fn watched<const N: usize>() -> (Poller, [[UnixStream; 2]; N]) {
    let mut poller = Poller::new().unwrap();
    let ends = std::array::from_fn(|id| {
        let (own, other) = UnixStream::pair().unwrap();
        poller.watch(id, &own, true, false).unwrap();
        [own, other]
    });
    (poller, ends)
}

fn reported(poller: &mut Poller) -> Vec<Polled> {
    let mut ready = [Ready {
        token: 0,
        readable: false,
        writable: false,
        broken: false,
        ended: false,
    }; BATCH];
    let n = poller.call_epoll(&mut ready);
    ready[..n].iter().map(Polled::of).collect()
}

#[test]
fn peers_that_talk_in_turn_are_predicted() {
    let (mut poller, _ends) = watched::<3>();
    for id in [0, 1, 2].into_iter().cycle().take(3 + SURE as usize) {
        assert_eq!(poller.way(1), Way::Epoll);
        poller.mark_active(id);
    }
    // The next one after 1 is 2, and one poll in `GUESS_EVERY` still calls epoll.
    poller.mark_active(2);
    assert_eq!(poller.way(1), Way::Predicted(0));
    assert_eq!(poller.way(GUESS_EVERY), Way::Epoll);
    // A wrong prediction ends the trust.
    poller.mark_active(1);
    assert_eq!(poller.way(1), Way::Epoll);
}

#[test]
fn an_active_connection_leaves_the_epoll_set_until_a_thread_sleeps() {
    let (mut poller, mut ends) = watched::<1>();
    poller.promote(0, true, &ends);
    assert_eq!((poller.way(1), poller.hot(0)), (Way::Hot, Some(0)));
    ends[0][1].write_all(b"x").unwrap();
    assert_eq!(reported(&mut poller), [Polled::Conn(0)]);
    for _ in 0..DETACH {
        poller.record_poll(0, true, true, &ends);
    }
    assert_eq!(reported(&mut poller), []);
    poller.attach_all(&ends);
    assert_eq!(reported(&mut poller), [Polled::Conn(0)]);
    // The socket stays in the set while a thread sleeps on the set.
    for _ in 0..DETACH {
        poller.record_poll(0, true, false, &ends);
    }
    assert_eq!(reported(&mut poller), [Polled::Conn(0)]);
}

#[test]
fn a_quiet_connection_is_left_to_epoll() {
    let (mut poller, mut ends) = watched::<2>();
    poller.promote(0, true, &ends);
    for _ in 0..DETACH {
        poller.record_poll(0, true, true, &ends);
    }
    for _ in 0..=MISSES {
        assert_eq!(poller.hot(0), Some(0));
        poller.record_poll(0, false, true, &ends);
    }
    assert_eq!(poller.hot(0), None);
    ends[0][1].write_all(b"x").unwrap();
    assert_eq!(reported(&mut poller), [Polled::Conn(0)]);
}

#[test]
fn events_of_other_connections_make_epoll_the_only_way_for_a_while() {
    let (mut poller, ends) = watched::<2>();
    poller.promote(0, true, &ends);
    poller.reported(1);
    assert_eq!(poller.way(1), Way::Epoll);
    for _ in 0..WIDE {
        assert_eq!(poller.way(1), Way::Epoll);
        poller.reported(0);
    }
    assert_eq!(poller.way(1), Way::Hot);
}

#[test]
fn a_removed_connection_leaves_nothing_to_the_next_with_its_number() {
    let (mut poller, mut ends) = watched::<1>();
    poller.promote(0, true, &ends);
    ends[0][1].write_all(b"x").unwrap();
    poller.remove(0, ends.socket_of(0));
    assert_eq!((poller.hot(0), poller.interest(0)), (None, (false, false)));
    assert_eq!(reported(&mut poller), []);
    let own = &ends[0][0];
    poller.watch(0, own, false, true).unwrap();
    assert_eq!(poller.interest(0), (false, true));
    poller.expect_nothing(0, ends.socket_of(0));
    assert_eq!(reported(&mut poller), []);
    // The socket is still the one of the connection.
    poller.watch(0, own, true, false).unwrap();
    assert_eq!(reported(&mut poller), [Polled::Conn(0)]);
}
