// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The guard of a lock.
//!
//! Trusted with: giving `&mut T`. There is one guard of a lock at a time.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use std::sync::MutexGuard;

use super::{Lock, OUTSIDE};
use crate::inside::Inside;

/// Exclusive access to the state. Kept in registers: calls that return or hold a guard need no memory for it.
///
/// A guard of a state that is not `Sync` cannot be shared, because `&Guard` gives `&T`:
///
/// ```compile_fail,E0277
/// fn is_sync<S: Sync>() {}
/// is_sync::<sync::lock::Guard<'_, core::cell::Cell<u64>>>();
/// ```
///
/// A guard stays on its thread, which must release the mutex:
///
/// ```compile_fail,E0277
/// fn is_send<S: Send>() {}
/// is_send::<sync::lock::Guard<'_, u64>>();
/// ```
///
/// ```
/// fn is_sync<S: Sync>() {}
/// is_sync::<sync::lock::Guard<'_, u64>>();
/// ```
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// True for the guard of the owner, which does not hold the mutex.
    pub(super) owned: bool,
    /// The mutex must be released by its thread.
    _thread: PhantomData<MutexGuard<'a, ()>>,
    /// `Lock` is `Sync` for any state that is `Send`; a guard is only if the state is `Sync`, too.
    _state: PhantomData<&'a mut T>,
}

/// The guard of the mutex, and what to do when it is released.
pub struct Held {
    pub(super) _mutex: MutexGuard<'static, ()>,
    /// Declared behind the mutex, so it ends after the mutex was released.
    pub(super) _inside: Inside,
    /// The ownership was taken away and has to be given back.
    pub(super) gives_back: bool,
}

impl<'a, T> Guard<'a, T> {
    #[inline(always)]
    pub(super) fn new(lock: &'a Lock<T>, owned: bool) -> Guard<'a, T> {
        Guard {
            lock,
            owned,
            _thread: PhantomData,
            _state: PhantomData,
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.owned {
            // Release: a thread that sees this store sees what the owner changed.
            true => self.lock.inside.store(OUTSIDE, Ordering::Release),
            // SAFETY: a guard that is not the owner's is made by `guard`, or stands for such a guard that was
            // forgotten.
            false => unsafe { self.lock.give_back() },
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (see `Sync` above), and it outlives the reference.
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
