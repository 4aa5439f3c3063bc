// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests which callers enter, wait or are refused, in this process and in a child.

use std::sync::Arc;

use super::*;
use sys::fork::run_in_child;

// SAFETY: the tests below have one owner each, and it stays on one thread.
const SERIALIZED: Serialized = unsafe { Serialized::promise() };

#[test]
fn a_shared_lock_excludes_other_threads() {
    let lock = Arc::new(Lock::new(Callers::Many, SERIALIZED, |_| Children::Go, 0u64).unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock.clone();
            std::thread::spawn(move || (0..10_000).for_each(|_| *lock.lock().unwrap() += 1))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*lock.lock().unwrap(), 40_000);
}

/// The owner is inside most of the time, and another thread calls now and then.
#[test]
fn an_owner_is_excluded_when_others_come() {
    const EACH: u64 = 2_000_000;
    let lock = Arc::new(
        Lock::new(
            Callers::OneForData,
            SERIALIZED,
            |_| Children::Go,
            (0u64, 0u64),
        )
        .unwrap(),
    );
    let owner = {
        let lock = lock.clone();
        std::thread::spawn(move || {
            for _ in 0..EACH {
                let mut both = lock.lock_data().unwrap();
                both.0 += 1;
                both.1 += 1;
            }
        })
    };
    let mut visits = 0;
    while !owner.is_finished() {
        let mut both = lock.lock().unwrap();
        assert_eq!(both.0, both.1);
        both.0 += 1;
        both.1 += 1;
        visits += 1;
        drop(both);
        for _ in 0..50 {
            std::thread::yield_now();
        }
    }
    owner.join().unwrap();
    assert!(visits > 0);
    assert_eq!(*lock.lock().unwrap(), (EACH + visits, EACH + visits));
}

#[test]
fn the_data_path_owns_the_lock_after_a_while() {
    let lock = Lock::new(Callers::OneForData, SERIALIZED, |()| Children::Go, ()).unwrap();
    for _ in 0..=STREAK {
        drop(lock.lock_data().unwrap());
    }
    let is_owned = || lock.lock_data().unwrap().owned;
    assert_eq!(is_owned(), barrier::is_available());
    drop(lock.lock_aside().unwrap());
    assert_eq!(is_owned(), barrier::is_available());
    drop(lock.lock().unwrap());
    assert!(!is_owned());
}

/// Returns which calls succeed in a child; `inside`: a thread of the parent was inside at the fork.
fn in_child(callers: Callers, children: Children, inside: bool) -> [bool; 3] {
    let lock = Lock::new(
        callers,
        SERIALIZED,
        |&(children, _)| children,
        (children, String::from("x")),
    )
    .unwrap();
    if callers != Callers::Many {
        (0..=STREAK).for_each(|_| drop(lock.lock_data().unwrap()));
    }
    let _held = inside.then(|| lock.lock_data().unwrap());
    let look = || {
        let mut ok = i32::from(lock.lock().is_ok());
        ok |= i32::from(lock.lock_data().is_ok()) << 1;
        ok | i32::from(lock.lock_to_close().is_ok()) << 2
    };
    // SAFETY: the locks are free, or the child does not wait for them.
    let answers = unsafe { run_in_child(&look) };
    [1, 2, 4].map(|bit| answers & bit != 0)
}

#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    for callers in [Callers::Many, Callers::OneForData, Callers::One] {
        for children in [Children::Go, Children::Close] {
            assert_eq!(in_child(callers, children, true), [false; 3]);
        }
        assert_eq!(in_child(callers, Children::Go, false), [true; 3]);
        let closes = in_child(callers, Children::Close, false);
        assert_eq!(closes, [false, false, true]);
    }
}

/// A thread of the library calls while the application's only thread is inside most of the time.
#[test]
fn others_come_where_all_calls_are_serialized() {
    const EACH: u64 = 1_000_000;
    let lock =
        Arc::new(Lock::new(Callers::One, SERIALIZED, |_| Children::Go, (0u64, 0u64)).unwrap());
    let owner = {
        let lock = lock.clone();
        std::thread::spawn(move || {
            for i in 0..EACH {
                let mut both = match i % 2 {
                    0 => lock.lock().unwrap(),
                    _ => lock.lock_data().unwrap(),
                };
                both.0 += 1;
                both.1 += 1;
            }
        })
    };
    let mut visits = 0;
    while !owner.is_finished() {
        let limit = Duration::from_secs(20);
        let mut both = match visits % 2 {
            0 => lock.lock_aside().unwrap(),
            _ => lock.lock_aside_within(limit).unwrap(),
        };
        assert_eq!(both.0, both.1);
        both.0 += 1;
        both.1 += 1;
        visits += 1;
        drop(both);
        std::thread::yield_now();
    }
    owner.join().unwrap();
    assert!(visits > 0);
    assert_eq!(*lock.lock().unwrap(), (EACH + visits, EACH + visits));
}

#[test]
fn who_does_not_wait_for_ever_learns_that_somebody_is_inside() {
    for callers in [Callers::One, Callers::OneForData, Callers::Many] {
        let lock = Lock::new(callers, SERIALIZED, |_| Children::Go, 0u64).unwrap();
        let limit = Duration::from_millis(1);
        let inside = lock.lock_data().unwrap();
        assert!(lock.lock_aside_within(limit).is_none());
        drop(inside);
        *lock.lock_aside_within(limit).unwrap() += 1;
        assert_eq!(*lock.lock_data().unwrap(), 1);
    }
}

/// A callback of the application that runs under the lock calls again.
#[test]
fn who_is_inside_does_not_get_in_again() {
    if !barrier::is_available() {
        return;
    }
    for callers in [Callers::One, Callers::OneForData] {
        let lock = Lock::new(callers, SERIALIZED, |_| Children::Go, 0u64).unwrap();
        (0..=STREAK).for_each(|_| drop(lock.lock_data().unwrap()));
        let mut inside = lock.lock_data().unwrap();
        assert!(inside.owned);
        for _ in 0..2 {
            assert!(lock.lock_data().is_err(), "{callers:?}");
            assert!(lock.lock_aside_within(Duration::from_millis(1)).is_none());
            if callers == Callers::One {
                assert!(lock.lock().is_err() && lock.lock_to_close().is_err());
            }
        }
        *inside += 1;
        drop(inside);
        assert_eq!(*lock.lock_data().unwrap(), 1);
        drop(lock.lock_to_close().unwrap());
    }
}

/// As above, while another thread waits until the owner leaves.
#[test]
fn who_is_waited_for_does_not_get_in_again() {
    if !barrier::is_available() {
        return;
    }
    let lock = Lock::new(Callers::One, SERIALIZED, |_| Children::Go, 0u64).unwrap();
    let limit = Instant::now() + Duration::from_secs(20);
    std::thread::scope(|scope| {
        let inside = lock.lock_data().unwrap();
        let other = scope.spawn(|| *lock.lock_aside().unwrap() += 1);
        while lock.is_owned() && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert!(!lock.is_owned() && lock.lock_data().is_err());
        drop(inside);
        other.join().unwrap();
    });
    assert_eq!(*lock.lock_data().unwrap(), 1);
}

/// From `share_within` on, threads inside the lock are counted.
#[test]
fn a_lock_that_is_shared_has_no_owner_any_more() {
    for callers in [Callers::One, Callers::OneForData, Callers::Many] {
        let lock = Lock::new(callers, SERIALIZED, |_| Children::Go, 0u64).unwrap();
        (0..=STREAK).for_each(|_| drop(lock.lock_data().unwrap()));
        let inside = lock.lock_data().unwrap();
        assert!(!lock.share_within(Duration::from_millis(1)));
        assert_eq!(lock.is_owned(), inside.owned);
        drop(inside);
        assert!(lock.share_within(Duration::from_secs(20)));
        let takes_mutex = || {
            (0..=STREAK).for_each(|_| drop(lock.lock_aside().unwrap()));
            (0..=STREAK).for_each(|_| drop(lock.lock_data().unwrap()));
            let guards = [Lock::lock_data, Lock::lock, Lock::lock_to_close];
            guards
                .iter()
                .all(|take| take(&lock).is_ok_and(|guard| !guard.owned))
        };
        assert!(takes_mutex(), "{callers:?}");
        // SAFETY: no thread is inside.
        let taken_in_child = unsafe { run_in_child(&|| i32::from(takes_mutex())) };
        assert_eq!(taken_in_child, 1, "{callers:?}");
    }
}

#[test]
fn the_thread_inside_sees_who_waits() {
    let lock = Lock::new(Callers::Many, SERIALIZED, |_| Children::Go, 0u64).unwrap();
    let (waiters, limit) = (lock.waiters(), Instant::now() + Duration::from_secs(20));
    std::thread::scope(|scope| {
        let inside = lock.lock_data().unwrap();
        assert!(!waiters.is_any());
        let other = scope.spawn(|| *lock.lock_data().unwrap() += 1);
        while !waiters.is_any() && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert!(waiters.is_any());
        drop(inside);
        other.join().unwrap();
        assert!(!waiters.is_any());
    });
}
