// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A lock that can be switched off: FI_THREAD_DOMAIN with FI_PROGRESS_CONTROL_UNIFIED pays no atomic instruction.
//!
//! Trusted with: handing out `&mut T` without locking when the creator of the lock says that the application
//! serializes its calls (fi_domain(3), threading).

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State with the lock that guards it.
pub struct Lock<T> {
    shared: bool,
    mutex: Mutex<()>,
    state: UnsafeCell<T>,
}

// SAFETY: with `shared` the mutex gives exclusion; without it the application has promised to serialize all calls
// on the domain (FI_THREAD_DOMAIN with FI_PROGRESS_CONTROL_UNIFIED), so that no two threads hold a guard at the same time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// `shared`: more than one thread may call at a time.
    pub fn new(shared: bool, state: T) -> Lock<T> {
        Lock {
            shared,
            mutex: Mutex::new(()),
            state: UnsafeCell::new(state),
        }
    }

    /// Whether more than one thread may call at a time.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let held = self
            .shared
            .then(|| self.mutex.lock().unwrap_or_else(PoisonError::into_inner));
        Guard {
            lock: self,
            _held: held,
        }
    }
}

pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    _held: Option<MutexGuard<'a, ()>>,
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
        let lock = Arc::new(Lock::new(true, 0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || (0..10_000).for_each(|_| *lock.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*lock.lock(), 40_000);
    }
}
