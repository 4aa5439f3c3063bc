// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A lock that costs what the threading level demands (fi_domain(3)): nothing where all calls are serialized; next to nothing
//! where those of the data path are (FI_THREAD_DOMAIN), and only calls that open, close and register may come from other
//! threads; else what a mutex costs.
//!
//! In the second case the data path owns the lock after a while: it says that it is inside by a plain store, and whoever else
//! comes takes the ownership away. For that the kernel runs a barrier on all threads of the process (membarrier(2)), which
//! the data path so is spared.
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
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::sys::barrier;
use crate::sys::fork::{Birth, Mark};

/// Who may call at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// One thread: the application serializes all calls.
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
    /// How to take the lock: a `kind`.
    mark: Mark,
    birth: Birth,
    mutex: Mutex<()>,
    /// The data path need not take the mutex: changed under it.
    owned: AtomicBool,
    /// The data path is inside without the mutex.
    inside: AtomicBool,
    /// How often in a row it was the data path that took the mutex; under the mutex.
    streak: AtomicU32,
    state: UnsafeCell<ManuallyDrop<T>>,
}

/// What `Lock::mark` says.
mod kind {
    /// Nothing: a child has not called before.
    pub const CHILD: u8 = 0;
    pub const ONE: u8 = 1;
    pub const ONE_FOR_DATA: u8 = 2;
    pub const MANY: u8 = 3;
    /// A thread of the child finds out which of these it is.
    pub const UNDECIDED: u8 = 4;
    /// A child may end what is there.
    pub const CLOSE: u8 = 5;
    /// A child must not touch it.
    pub const LOST: u8 = 6;
    /// The kernel does not wipe it: each call asks for the process.
    pub const ASK: u8 = 7;
}

/// So many calls of the data path in a row make it the owner.
const STREAK: u32 = 256;

// SAFETY: with `One` the application has promised to serialize all calls on the domain, so that no two threads hold a guard at
// the same time. Otherwise the mutex gives exclusion, but for the owner, who has promised to be one, and whom `disown` waits for.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub fn new(callers: Callers, children: fn(&T) -> Children, state: T) -> io::Result<Lock<T>> {
        let callers = match callers {
            Callers::OneForData if !barrier::is_available() => Callers::Many,
            callers => callers,
        };
        let mark = Mark::new()?;
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
            owned: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            streak: AtomicU32::new(0),
            state: UnsafeCell::new(ManuallyDrop::new(state)),
        })
    }

    /// Whether more than one thread may call at a time.
    pub fn is_shared(&self) -> bool {
        self.callers != Callers::One
    }

    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, T>, Forked> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::ONE..=kind::MANY) {
            self.check_child(false)?;
        }
        Ok(self.take())
    }

    /// As `lock`, for calls that end something.
    pub fn lock_to_close(&self) -> Result<Guard<'_, T>, Forked> {
        self.check_child(true)?;
        Ok(self.take())
    }

    /// As `lock`, for calls of the data path.
    // Else the compiler makes a call of it, and returns the guard in memory: 30 instructions.
    #[inline(always)]
    pub fn lock_data(&self) -> Result<Guard<'_, T>, Forked> {
        Ok(match self.mark.load(Ordering::Relaxed) {
            kind::ONE => self.guard(None, false),
            kind::MANY => self.guard(Some(self.take_mutex()), false),
            kind::ONE_FOR_DATA => {
                self.inside.store(true, Ordering::Relaxed);
                // The processor may still load before that store is seen: pairs with the barrier in `disown`.
                compiler_fence(Ordering::SeqCst);
                match self.owned.load(Ordering::Relaxed) {
                    true => self.guard(None, true),
                    false => self.guard(Some(self.take_mutex_slowly()), false),
                }
            }
            _ => {
                self.check_child(false)?;
                self.take()
            }
        })
    }

    /// In a process that may call.
    #[inline]
    fn take(&self) -> Guard<'_, T> {
        let held = self.is_shared().then(|| self.take_mutex());
        if self.owned.load(Ordering::Relaxed) {
            self.disown();
        }
        self.guard(held, false)
    }

    #[cold]
    fn check_child(&self, to_close: bool) -> Result<(), Forked> {
        match self.kind_in_child() {
            kind::ONE..=kind::MANY => Ok(()),
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
        let whole =
            free && !(self.owned.load(Ordering::Relaxed) && self.inside.load(Ordering::Relaxed));
        if !whole {
            return kind::LOST;
        }
        // SAFETY: nobody is inside, and those who come wait for what is found out here.
        match ((self.children)(unsafe { &*self.state.get() }), self.callers) {
            (Children::Go, callers) => kind_of(callers),
            // Nobody has noted whether one was inside. What is not ended here ends with the process.
            (Children::Close, Callers::One) => kind::LOST,
            (Children::Close, _) => kind::CLOSE,
        }
    }

    #[cold]
    fn take_mutex_slowly(&self) -> MutexGuard<'_, ()> {
        self.inside.store(false, Ordering::Release);
        let held = self.take_mutex();
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak, Ordering::Relaxed);
        if streak >= STREAK {
            self.owned.store(true, Ordering::Relaxed);
        }
        held
    }

    /// Under the mutex: the data path has to take it, too, from now on, and is not inside.
    #[cold]
    fn disown(&self) {
        self.owned.store(false, Ordering::Relaxed);
        self.streak.store(0, Ordering::Relaxed);
        // Either the owner's next look at `owned` finds it false, or its `inside` is seen here.
        barrier::on_all_threads();
        while self.inside.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    #[inline]
    fn take_mutex(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn guard<'a>(&'a self, held: Option<MutexGuard<'a, ()>>, owner: bool) -> Guard<'a, T> {
        Guard {
            lock: self,
            _held: held,
            owner,
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
        Callers::One => kind::ONE,
        Callers::OneForData => kind::ONE_FOR_DATA,
        Callers::Many => kind::MANY,
    }
}

pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    _held: Option<MutexGuard<'a, ()>>,
    owner: bool,
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.owner {
            // What was changed is seen by who sees this.
            self.lock.inside.store(false, Ordering::Release);
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
    use crate::sys::fork::fork_for_test;
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
        assert_eq!(lock.lock_data().unwrap().owner, barrier::is_available());
        drop(lock.lock().unwrap());
        assert!(!lock.lock_data().unwrap().owner);
    }

    /// What each call says in a child, whose parent had somebody inside or not.
    fn in_child(callers: Callers, children: Children, inside: bool) -> [bool; 3] {
        let lock = Lock::new(
            callers,
            |&(children, _)| children,
            (children, String::from("x")),
        )
        .unwrap();
        if callers == Callers::OneForData {
            (0..=STREAK).for_each(|_| drop(lock.lock_data().unwrap()));
        }
        let _held = inside.then(|| lock.lock_data().unwrap());
        let look = || {
            let mut ok = i32::from(lock.lock().is_ok());
            ok |= i32::from(lock.lock_data().is_ok()) << 1;
            ok | i32::from(lock.lock_to_close().is_ok()) << 2
        };
        // SAFETY: locks that nobody holds, or that are not waited for.
        let child = unsafe { fork_for_test(&look) };
        let mut status = 0;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        [1, 2, 4].map(|bit| libc::WEXITSTATUS(status) & bit != 0)
    }

    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        let kinds = match barrier::is_available() {
            true => [Callers::Many, Callers::OneForData],
            false => [Callers::Many; 2],
        };
        for callers in kinds {
            for children in [Children::Go, Children::Close] {
                assert_eq!(in_child(callers, children, true), [false; 3]);
            }
            assert_eq!(in_child(callers, Children::Go, false), [true; 3]);
            let closes = in_child(callers, Children::Close, false);
            assert_eq!(closes, [false, false, true]);
        }
        assert_eq!(in_child(Callers::One, Children::Go, false), [true; 3]);
        assert_eq!(in_child(Callers::One, Children::Close, false), [false; 3]);
    }
}
