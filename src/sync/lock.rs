// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A lock that costs what the threading level demands (fi_domain(3)): nothing where all calls are serialized; next to nothing
//! where those of the data path are (FI_THREAD_DOMAIN), and only calls that open, close and register may come from other
//! threads; else what a mutex costs.
//!
//! In the second case the data path owns the lock after a while: it says that it is inside by a plain store, and whoever else
//! comes takes the ownership away. For that the kernel runs a barrier on all threads of the process (membarrier(2)), which
//! the data path so is spared.
//!
//! Trusted with: handing out `&mut T` without locking when the creator of the lock says that the application
//! serializes its calls.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys::barrier;

/// Who may call at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// One thread: the application serializes all calls.
    One,
    /// One thread by `lock_data`, any by `lock`.
    OneForData,
    Many,
}

/// State with the lock that guards it.
pub struct Lock<T> {
    callers: Callers,
    mutex: Mutex<()>,
    /// The data path need not take the mutex: changed under it.
    owned: AtomicBool,
    /// The data path is inside without the mutex.
    inside: AtomicBool,
    /// How often in a row it was the data path that took the mutex; under the mutex.
    streak: AtomicU32,
    state: UnsafeCell<T>,
}

/// So many calls of the data path in a row make it the owner.
const STREAK: u32 = 256;

// SAFETY: with `One` the application has promised to serialize all calls on the domain, so that no two threads hold a guard at
// the same time. Otherwise the mutex gives exclusion, but for the owner, who has promised to be one, and whom `disown` waits for.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub fn new(callers: Callers, state: T) -> Lock<T> {
        Lock {
            callers: match callers {
                Callers::OneForData if !barrier::is_available() => Callers::Many,
                callers => callers,
            },
            mutex: Mutex::new(()),
            owned: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            streak: AtomicU32::new(0),
            state: UnsafeCell::new(state),
        }
    }

    /// Whether more than one thread may call at a time.
    pub fn is_shared(&self) -> bool {
        self.callers != Callers::One
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let held = self.is_shared().then(|| self.take_mutex());
        if self.owned.load(Ordering::Relaxed) {
            self.disown();
        }
        self.guard(held, false)
    }

    /// As `lock`, for calls of the data path.
    #[inline]
    pub fn lock_data(&self) -> Guard<'_, T> {
        match self.callers {
            Callers::One => self.guard(None, false),
            Callers::Many => self.guard(Some(self.take_mutex()), false),
            Callers::OneForData => {
                self.inside.store(true, Ordering::Relaxed);
                // The processor may still load before that store is seen: pairs with the barrier in `disown`.
                compiler_fence(Ordering::SeqCst);
                match self.owned.load(Ordering::Relaxed) {
                    true => self.guard(None, true),
                    false => self.lock_data_slowly(),
                }
            }
        }
    }

    #[cold]
    fn lock_data_slowly(&self) -> Guard<'_, T> {
        self.inside.store(false, Ordering::Release);
        let held = self.take_mutex();
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak, Ordering::Relaxed);
        if streak >= STREAK {
            self.owned.store(true, Ordering::Relaxed);
        }
        self.guard(Some(held), false)
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
    use std::sync::Arc;

    #[test]
    fn a_shared_lock_excludes_other_threads() {
        let lock = Arc::new(Lock::new(Callers::Many, 0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || (0..10_000).for_each(|_| *lock.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*lock.lock(), 40_000);
    }

    /// The owner is inside most of the time, and others come now and then.
    #[test]
    fn an_owner_is_excluded_when_others_come() {
        const EACH: u64 = 2_000_000;
        let lock = Arc::new(Lock::new(Callers::OneForData, (0u64, 0u64)));
        let owner = {
            let lock = lock.clone();
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    let mut both = lock.lock_data();
                    both.0 += 1;
                    both.1 += 1;
                }
            })
        };
        let mut visits = 0;
        while !owner.is_finished() {
            let mut both = lock.lock();
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
        assert_eq!(*lock.lock(), (EACH + visits, EACH + visits));
    }

    #[test]
    fn the_data_path_owns_the_lock_after_a_while() {
        let lock = Lock::new(Callers::OneForData, ());
        for _ in 0..=STREAK {
            drop(lock.lock_data());
        }
        assert_eq!(lock.lock_data().owner, barrier::is_available());
        drop(lock.lock());
        assert!(!lock.lock_data().owner);
    }
}
