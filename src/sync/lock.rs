// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A lock that costs what the threading level demands (fi_domain(3)): next to nothing where the calls of the data path are
//! serialized by the application, else what a mutex costs.
//!
//! In the first case the data path owns the lock: it says that it is inside by a plain store, and whoever else comes takes the
//! ownership away. For that the kernel runs a barrier on all threads of the process (membarrier(2)), which the data path so is
//! spared. Where the application serializes all calls (`One`) others are the library's own threads and the end of the process;
//! they give the ownership back. Where only those of the data path are serialized (`OneForData`) control calls of any thread
//! come, too, and the data path gets the ownership back when it has called often enough.
//!
//! A thread that is inside while another one forks is not in the child, and never leaves there: the child would wait for it for
//! ever, or see state that is half changed. So what tells the kind of lock lies where the kernel wipes it in a child, whose first
//! call thus finds out whether anybody was inside. Who calls in the parent does nothing for that.
//!
//! Trusted with: handing out `&mut T` without locking when the creator of the lock says that the application
//! serializes its calls.

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use crate::sys::barrier;
use crate::sys::fork::{Birth, Mark};

/// Who may call at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// One thread of the application, which serializes all its calls. Others come by `lock_aside`.
    One,
    /// One thread by `lock_data`, any by `lock`.
    OneForData,
    Many,
}

/// What a child that was forked may do with the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// What its parent did.
    Go,
    /// Only end it.
    Close,
}

/// The state is of the process that this one was forked from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forked;

/// State with the lock that guards it.
pub struct Lock<T> {
    callers: Callers,
    /// Asked in a child, where nobody is inside.
    children: fn(&T) -> Children,
    /// How to take the lock: a `kind`. In the process that made it, it is changed under the mutex.
    mark: Mark,
    birth: Birth,
    mutex: Mutex<()>,
    /// The data path is inside without the mutex; or has asked `mark` whether it may be, and found that it may not.
    inside: AtomicBool,
    /// How often in a row it was the data path that took the mutex; under the mutex.
    streak: AtomicU32,
    state: UnsafeCell<ManuallyDrop<T>>,
}

/// What `Lock::mark` says.
mod kind {
    /// Nothing: a child has not called before.
    pub const CHILD: u8 = 0;
    /// The data path need not take the mutex.
    pub const OWNED: u8 = 1;
    /// It has to, for now.
    pub const TAKEN: u8 = 2;
    /// All have to.
    pub const MANY: u8 = 3;
    /// A thread of the child finds out which of these it is.
    pub const UNDECIDED: u8 = 4;
    /// A child may end what is there.
    pub const CLOSE: u8 = 5;
    /// A child must not touch it.
    pub const LOST: u8 = 6;
    /// The kernel does not wipe it: each call asks for the process, and takes the mutex.
    pub const ASK: u8 = 7;
}

/// So many calls of the data path in a row make it the owner.
const STREAK: u32 = 256;

// SAFETY: the mutex gives exclusion, but for the owner. With `One` and `OneForData` the application has promised that there is one
// at a time, and everybody else waits until it is outside (`disown`).
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub fn new(callers: Callers, children: fn(&T) -> Children, state: T) -> io::Result<Lock<T>> {
        let mark = Mark::new()?;
        let callers = match mark.is_wiped() && barrier::is_available() {
            true => callers,
            false => Callers::Many,
        };
        let kind = match mark.is_wiped() {
            true => kind_of(callers),
            false => kind::ASK,
        };
        mark.store(kind, Ordering::Relaxed);
        Ok(Lock {
            callers,
            children,
            mark,
            birth: Birth::here(),
            mutex: Mutex::new(()),
            inside: AtomicBool::new(false),
            streak: AtomicU32::new(0),
            state: UnsafeCell::new(ManuallyDrop::new(state)),
        })
    }

    /// Whether more than one thread of the application may call at a time.
    pub fn is_shared(&self) -> bool {
        self.callers != Callers::One
    }

    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, T>, Forked> {
        if self.callers == Callers::One {
            // It is the thread of the data path.
            return self.lock_data();
        }
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED..=kind::MANY) {
            self.check_child(false)?;
        }
        Ok(self.take(self.callers == Callers::One))
    }

    /// As `lock`, from a thread that the application knows nothing of: whatever the threading level is.
    pub fn lock_aside(&self) -> Result<Guard<'_, T>, Forked> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED..=kind::MANY) {
            self.check_child(false)?;
        }
        Ok(self.take(true))
    }

    /// As `lock_aside`, if nobody keeps the lock for longer than `limit`: a thread that is inside may never leave, or be this
    /// very one.
    pub fn lock_aside_within(&self, limit: Duration) -> Option<Guard<'_, T>> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED..=kind::MANY) {
            self.check_child(false).ok()?;
        }
        let until = Instant::now() + limit;
        let held = loop {
            match self.mutex.try_lock() {
                Ok(held) => break held,
                Err(TryLockError::Poisoned(held)) => break held.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        };
        let gives_back = self.is_owned();
        if gives_back && !self.disown(Some(until)) {
            return None;
        }
        Some(self.guard(Some(held), gives_back))
    }

    /// As `lock`, for calls that end something.
    pub fn lock_to_close(&self) -> Result<Guard<'_, T>, Forked> {
        self.check_child(true)?;
        match self.callers {
            Callers::One => self
                .lock_data()
                .or_else(|Forked| Ok(self.take(self.callers == Callers::One))),
            _ => Ok(self.take(self.callers == Callers::One)),
        }
    }

    /// As `lock`, for calls of the data path.
    // Else the compiler makes a call of it, and returns the guard in memory: 30 instructions.
    #[inline(always)]
    pub fn lock_data(&self) -> Result<Guard<'_, T>, Forked> {
        // In a child `inside` is what it was at the fork, so it is not touched before.
        if self.is_owned() {
            self.inside.store(true, Ordering::Relaxed);
            // The processor may still load before that store is seen: pairs with the barrier in `disown`.
            compiler_fence(Ordering::SeqCst);
            if self.is_owned() {
                return Ok(Guard {
                    lock: self,
                    held: None,
                    gives_back: false,
                });
            }
            self.inside.store(false, Ordering::Release);
        } else if self.mark.load(Ordering::Relaxed) == kind::MANY {
            return Ok(self.guard(Some(self.take_mutex()), false));
        }
        self.lock_data_slowly()
    }

    #[cold]
    fn lock_data_slowly(&self) -> Result<Guard<'_, T>, Forked> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED | kind::TAKEN) {
            self.check_child(false)?;
            return Ok(self.take(self.callers == Callers::One));
        }
        let held = self.take_mutex();
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak, Ordering::Relaxed);
        if streak >= STREAK && self.mark.load(Ordering::Relaxed) == kind::TAKEN {
            self.mark.store(kind::OWNED, Ordering::Release);
        }
        Ok(self.guard(Some(held), false))
    }

    #[inline(always)]
    fn is_owned(&self) -> bool {
        // Acquire: what those changed who gave the ownership back.
        self.mark.load(Ordering::Acquire) == kind::OWNED
    }

    /// In a process that may call.
    #[inline]
    fn take(&self, gives_back: bool) -> Guard<'_, T> {
        let held = self.take_mutex();
        let owned = self.is_owned();
        if owned {
            self.disown(None);
        }
        self.guard(Some(held), owned && gives_back)
    }

    #[cold]
    fn check_child(&self, to_close: bool) -> Result<(), Forked> {
        match self.kind_in_child() {
            kind::OWNED..=kind::MANY => Ok(()),
            kind::CLOSE if to_close => Ok(()),
            _ => Err(Forked),
        }
    }

    /// What this process may do. The first thread of a child that asks finds out.
    fn kind_in_child(&self) -> u8 {
        let (won, lost) = (Ordering::Acquire, Ordering::Acquire);
        loop {
            let now = self.mark.load(Ordering::Acquire);
            match now {
                kind::ASK if self.birth.is_here() => return kind_of(self.callers),
                kind::CHILD | kind::ASK => {
                    let undecided = kind::UNDECIDED;
                    let taken = self.mark.compare_exchange(now, undecided, won, lost);
                    if taken.is_ok() {
                        self.mark.store(self.find_out(), Ordering::Release);
                    }
                }
                kind::UNDECIDED => std::thread::yield_now(),
                kind => return kind,
            }
        }
    }

    /// Nobody in this process has called before: who is inside was there at the fork.
    fn find_out(&self) -> u8 {
        let free = !matches!(self.mutex.try_lock(), Err(TryLockError::WouldBlock));
        // Without ownership nobody is inside without the mutex.
        let owned = self.callers != Callers::Many;
        if !free || owned && self.inside.load(Ordering::Relaxed) {
            return kind::LOST;
        }
        // SAFETY: nobody is inside, and those who come wait for what is found out here.
        match (self.children)(unsafe { &*self.state.get() }) {
            Children::Go => kind_of(self.callers),
            Children::Close => kind::CLOSE,
        }
    }

    /// Under the mutex: the data path has to take it, too, from now on, and is not inside. False: it stayed inside until then, and
    /// owns the lock again.
    #[cold]
    fn disown(&self, until: Option<Instant>) -> bool {
        self.mark.store(kind::TAKEN, Ordering::Relaxed);
        self.streak.store(0, Ordering::Relaxed);
        // Either the owner's next look at `mark` finds it so, or its `inside` is seen here.
        barrier::on_all_threads();
        while self.inside.load(Ordering::Acquire) {
            if until.is_some_and(|until| Instant::now() >= until) {
                self.mark.store(kind::OWNED, Ordering::Release);
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    #[inline]
    fn take_mutex(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn guard<'a>(&'a self, held: Option<MutexGuard<'a, ()>>, gives_back: bool) -> Guard<'a, T> {
        Guard {
            lock: self,
            held,
            gives_back,
        }
    }
}

impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        if self.kind_in_child() != kind::LOST {
            // SAFETY: the last that is done with it.
            unsafe { ManuallyDrop::drop(self.state.get_mut()) };
        }
    }
}

fn kind_of(callers: Callers) -> u8 {
    match callers {
        Callers::One => kind::OWNED,
        Callers::OneForData => kind::TAKEN,
        Callers::Many => kind::MANY,
    }
}

/// Between two attempts to take a mutex that somebody has.
const PAUSE: Duration = Duration::from_micros(100);

pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// The owner has no mutex.
    held: Option<MutexGuard<'a, ()>>,
    /// The ownership that was taken away.
    gives_back: bool,
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.held.is_none() {
            // What was changed is seen by who sees this.
            self.lock.inside.store(false, Ordering::Release);
        } else if self.gives_back {
            // The mutex is given back behind this.
            self.lock.mark.store(kind::OWNED, Ordering::Release);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (see `Sync` above), and it lives as long as the reference.
        unsafe { &*self.lock.state.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` keeps a second reference from being made through this guard.
        unsafe { &mut *self.lock.state.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::run_in_child;
    use std::sync::Arc;

    #[test]
    fn a_shared_lock_excludes_other_threads() {
        let lock = Arc::new(Lock::new(Callers::Many, |_| Children::Go, 0u64).unwrap());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || (0..10_000).for_each(|_| *lock.lock().unwrap() += 1))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*lock.lock().unwrap(), 40_000);
    }

    /// The owner is inside most of the time, and others come now and then.
    #[test]
    fn an_owner_is_excluded_when_others_come() {
        const EACH: u64 = 2_000_000;
        let lock =
            Arc::new(Lock::new(Callers::OneForData, |_| Children::Go, (0u64, 0u64)).unwrap());
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
        let lock = Lock::new(Callers::OneForData, |()| Children::Go, ()).unwrap();
        for _ in 0..=STREAK {
            drop(lock.lock_data().unwrap());
        }
        let is_owned = || lock.lock_data().unwrap().held.is_none();
        assert_eq!(is_owned(), barrier::is_available());
        drop(lock.lock_aside().unwrap());
        assert_eq!(is_owned(), barrier::is_available());
        drop(lock.lock().unwrap());
        assert!(!is_owned());
    }

    /// What each call says in a child, whose parent had somebody inside or not.
    fn in_child(callers: Callers, children: Children, inside: bool) -> [bool; 3] {
        let lock = Lock::new(
            callers,
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
        // SAFETY: locks that nobody holds, or that are not waited for.
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

    /// A thread that the application knows nothing of comes while the only one that it has is inside most of the time.
    #[test]
    fn others_come_where_all_calls_are_serialized() {
        const EACH: u64 = 1_000_000;
        let lock = Arc::new(Lock::new(Callers::One, |_| Children::Go, (0u64, 0u64)).unwrap());
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
            let lock = Lock::new(callers, |_| Children::Go, 0u64).unwrap();
            let limit = Duration::from_millis(1);
            let inside = lock.lock_data().unwrap();
            assert!(lock.lock_aside_within(limit).is_none());
            drop(inside);
            *lock.lock_aside_within(limit).unwrap() += 1;
            assert_eq!(*lock.lock_data().unwrap(), 1);
        }
    }
}
