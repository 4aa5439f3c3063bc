// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A lock that costs what the threading level demands (fi_domain(3)): next to nothing where the calls of the data path
//! are serialized by the application, else what a mutex costs.
//!
//! In the first case the data path owns the lock: it says that it is inside by a plain store, and whoever else comes
//! takes the ownership away. For that the kernel runs a barrier on all threads of the process (membarrier(2)), which
//! the data path is thus spared. Where the application serializes all calls (`One`), others are the library's own
//! threads and the end of the process; they give the ownership back. Where only the calls of the data path are
//! serialized (`OneForData`), control calls of any thread come too, and the data path gets the ownership back when it
//! has called often enough.
//!
//! A thread inside a lock may have to leave things to be done behind it (`inside`). It costs the owner's path too much to
//! note who is inside, so whoever needs that first makes a lock one that all take the mutex of (`share_within`), for good.
//!
//! A callback of the application (a log sink, say) may call the data path again while its own thread is inside. The
//! owner exchanges the word that says so for the new value, and the check for others compares with what was there: a
//! second entry is found without another branch, and refused.
//!
//! A thread that is inside while another one forks is not in the child, and never leaves there: the child would wait
//! for it for ever, or see state that is half changed. So what tells the kind of lock lies where the kernel wipes it in
//! a child, whose first call thus finds out whether anybody was inside. Calls in the parent pay nothing for that.
//!
//! Trusted with: handing out `&mut T` without a mutex to the data path, of which `Serialized` promises that it is one
//! thread at a time; keeping the guard of the mutex beside the mutex, so that a `Guard` is two registers.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit, forget, transmute};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, compiler_fence};
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use crossbeam_utils::Backoff;

use super::inside::Inside;
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

/// The word of the application that it keeps to the threading level it has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Serialized(());

impl Serialized {
    /// # Safety
    /// Of a lock made with this and `Callers::One` all calls but those `aside` come from one thread at a time. With
    /// `Callers::OneForData` those of `lock_data` do. A thread that is inside may call again, from a callback.
    pub const unsafe fn promise() -> Serialized {
        Serialized(())
    }
}

/// What a child that was forked may do with the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// All that its parent may do.
    Go,
    /// Only end it.
    Close,
}

/// The state is not to be touched: it belongs to the process that this one was forked from, or this very thread is
/// inside already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// State with the lock that guards it.
pub struct Lock<T> {
    callers: Callers,
    /// Asked in a child, where nobody is inside.
    children: fn(&T) -> Children,
    /// How to take the lock: a `kind`. In the process that made it, it is changed under the mutex.
    mark: Mark,
    birth: Birth,
    mutex: Mutex<()>,
    /// Of whoever has the mutex: set while there is a `Guard` that is not the owner's.
    held: UnsafeCell<MaybeUninit<Held>>,
    /// `INSIDE`: the data path is inside without the mutex, or has asked `mark` whether it may be and found that it may
    /// not. Else `OUTSIDE`.
    inside: AtomicU8,
    /// How often in a row it was the data path that took the mutex; under the mutex.
    streak: AtomicU32,
    /// Nobody owns it any more; changed under the mutex.
    shared: AtomicBool,
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

/// What `mark` says where the data path may enter, so that one comparison with `mark` tells both.
const OUTSIDE: u8 = kind::OWNED;
/// No `kind`.
const INSIDE: u8 = u8::MAX;

/// So many calls of the data path in a row make it the owner.
const STREAK: u32 = 256;

// SAFETY: the mutex gives exclusion, but for the owner. With `One` and `OneForData` the application has promised that
// there is one at a time (`Serialized`); a second entry of its thread is refused, and everybody else waits until it is
// outside (`disown`).
unsafe impl<T: Send> Sync for Lock<T> {}

// SAFETY: what is of one thread only is `held`. The thread that sets it has a `Guard` that borrows the lock, and takes it out
// when that ends; nobody else reads it.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// `Serialized` is for `callers` other than `Many`.
    pub fn new(
        callers: Callers,
        _: Serialized,
        children: fn(&T) -> Children,
        state: T,
    ) -> io::Result<Lock<T>> {
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
            held: UnsafeCell::new(MaybeUninit::uninit()),
            inside: AtomicU8::new(OUTSIDE),
            streak: AtomicU32::new(0),
            shared: AtomicBool::new(false),
            state: UnsafeCell::new(ManuallyDrop::new(state)),
        })
    }

    /// Whether more than one thread of the application may call at a time.
    pub fn is_shared(&self) -> bool {
        self.callers != Callers::One
    }

    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, T>, Refused> {
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
    pub fn lock_aside(&self) -> Result<Guard<'_, T>, Refused> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED..=kind::MANY) {
            self.check_child(false)?;
        }
        Ok(self.take(true))
    }

    /// As `lock_aside`, if nobody keeps the lock for longer than `limit`: a thread that is inside may never leave, or
    /// be this very one.
    pub fn lock_aside_within(&self, limit: Duration) -> Option<Guard<'_, T>> {
        let (held, gives_back) = self.take_within(limit)?;
        Some(self.guard(held, gives_back))
    }

    /// The mutex, and whether the ownership was taken away for it.
    fn take_within(&self, limit: Duration) -> Option<(MutexGuard<'_, ()>, bool)> {
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
        Some((held, gives_back))
    }

    /// From now on all calls take the mutex, and are counted by `inside`; whoever was inside has left. False: it is as it
    /// was, for somebody has been inside for longer than `limit`, or the state is not to be touched.
    pub fn share_within(&self, limit: Duration) -> bool {
        let Some((_held, _)) = self.take_within(limit) else {
            return false;
        };
        // Relaxed: read in a child, of which the thread that forks was not in here.
        self.shared.store(true, Ordering::Relaxed);
        if matches!(self.mark.load(Ordering::Relaxed), kind::OWNED | kind::TAKEN) {
            self.mark.store(kind::MANY, Ordering::Release);
        }
        true
    }

    /// As `lock`, for calls that end something.
    pub fn lock_to_close(&self) -> Result<Guard<'_, T>, Refused> {
        self.check_child(true)?;
        if self.callers != Callers::One {
            return Ok(self.take(false));
        }
        match self.lock_data() {
            // A child may end it, and nobody is inside there.
            Err(Refused) if self.kind_in_child() == kind::CLOSE => Ok(self.take(true)),
            other => other,
        }
    }

    /// As `lock`, for calls of the data path.
    // Else the compiler makes a call of it, and returns the guard in memory: 30 instructions.
    #[inline(always)]
    pub fn lock_data(&self) -> Result<Guard<'_, T>, Refused> {
        // In a child `inside` is what it was at the fork, so it is not touched before.
        if self.is_owned() {
            let before = self.inside.load(Ordering::Relaxed);
            self.inside.store(INSIDE, Ordering::Relaxed);
            // The processor may still load before that store is seen: pairs with the barrier in `disown`.
            compiler_fence(Ordering::SeqCst);
            // As `is_owned`, and it was outside.
            if self.mark.load(Ordering::Acquire) == before {
                return Ok(Guard::new(self, true));
            }
            // A guard that exists stays what it is.
            self.inside.store(before, Ordering::Release);
        }
        // The kind of the guard is a constant of each way: else the usual one compares it, too.
        match self.enter_otherwise() {
            true => Ok(Guard::new(self, false)),
            false => Err(Refused),
        }
    }

    /// Takes the mutex for a guard that the caller makes. Apart, for the owner's path is part of many calls.
    #[inline(never)]
    fn enter_otherwise(&self) -> bool {
        let guard = match self.mark.load(Ordering::Relaxed) {
            kind::MANY => Ok(self.guard(self.take_mutex(), false)),
            _ => self.lock_data_slowly(),
        };
        guard.map(forget).is_ok()
    }

    #[cold]
    fn lock_data_slowly(&self) -> Result<Guard<'_, T>, Refused> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED | kind::TAKEN) {
            self.check_child(false)?;
            return Ok(self.take(self.callers == Callers::One));
        }
        // Nobody but this thread says so, and whoever waits for it to leave has the mutex.
        if self.inside.load(Ordering::Relaxed) == INSIDE {
            return Err(Refused);
        }
        let held = self.take_mutex();
        let streak = self.streak.load(Ordering::Relaxed) + 1;
        self.streak.store(streak, Ordering::Relaxed);
        if streak >= STREAK && self.mark.load(Ordering::Relaxed) == kind::TAKEN {
            self.mark.store(kind::OWNED, Ordering::Release);
        }
        Ok(self.guard(held, false))
    }

    #[inline(always)]
    fn is_owned(&self) -> bool {
        // Acquire: sees what others changed before they gave the ownership back.
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
        self.guard(held, owned && gives_back)
    }

    #[cold]
    fn check_child(&self, to_close: bool) -> Result<(), Refused> {
        match self.kind_in_child() {
            kind::OWNED..=kind::MANY => Ok(()),
            kind::CLOSE if to_close => Ok(()),
            _ => Err(Refused),
        }
    }

    /// What this process may do. The first thread of a child that asks finds out.
    fn kind_in_child(&self) -> u8 {
        let (won, lost) = (Ordering::Acquire, Ordering::Acquire);
        let backoff = Backoff::new();
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
                kind::UNDECIDED => backoff.snooze(),
                kind => return kind,
            }
        }
    }

    /// Nobody in this process has called before: a thread that is inside was there at the fork.
    fn find_out(&self) -> u8 {
        let free = !matches!(self.mutex.try_lock(), Err(TryLockError::WouldBlock));
        // Without ownership nobody is inside without the mutex.
        let owned = self.callers != Callers::Many;
        if !free || owned && self.inside.load(Ordering::Relaxed) == INSIDE {
            return kind::LOST;
        }
        // SAFETY: nobody is inside, and later callers wait for what is found out here.
        match (self.children)(unsafe { &*self.state.get() }) {
            Children::Go if self.shared.load(Ordering::Relaxed) => kind::MANY,
            Children::Go => kind_of(self.callers),
            Children::Close => kind::CLOSE,
        }
    }

    /// Under the mutex: the data path has to take it, too, from now on, and is not inside. False: it stayed inside
    /// until then, and owns the lock again.
    #[cold]
    fn disown(&self, until: Option<Instant>) -> bool {
        self.mark.store(kind::TAKEN, Ordering::Relaxed);
        self.streak.store(0, Ordering::Relaxed);
        // Either the owner's next look at `mark` finds it so, or its `inside` is seen here.
        barrier::on_all_threads();
        let backoff = Backoff::new();
        while self.inside.load(Ordering::Acquire) == INSIDE {
            if until.is_some_and(|until| Instant::now() >= until) {
                self.mark.store(kind::OWNED, Ordering::Release);
                return false;
            }
            backoff.snooze();
        }
        true
    }

    #[inline]
    fn take_mutex(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn guard<'a>(&'a self, mutex: MutexGuard<'a, ()>, gives_back: bool) -> Guard<'a, T> {
        // SAFETY: the mutex lives as long as `self`, which the `Guard` below borrows. `give_back` takes this out when that
        // ends; if it never does, nobody does.
        let mutex = unsafe { transmute::<MutexGuard<'a, ()>, MutexGuard<'static, ()>>(mutex) };
        let held = Held {
            _mutex: mutex,
            _inside: Inside::enter(),
            gives_back,
        };
        // SAFETY: this thread has the mutex, and `give_back` has taken out what was there before.
        unsafe { (*self.held.get()).write(held) };
        Guard::new(self, false)
    }

    /// # Safety
    /// At the end of a `Guard` that is not the owner's, once.
    #[inline(never)]
    unsafe fn give_back(&self) {
        // SAFETY: the caller promises that this thread has written it and still has the mutex.
        let held = unsafe { (*self.held.get()).assume_init_read() };
        if held.gives_back {
            // The mutex is given back behind this.
            self.mark.store(kind::OWNED, Ordering::Release);
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

/// In registers: calls that return one, and those that hold it, need no memory for it.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// By the owner, who has no mutex.
    owned: bool,
    /// The mutex belongs to its thread.
    _thread: PhantomData<MutexGuard<'a, ()>>,
}

/// The mutex, and what is to be done when it is given back.
struct Held {
    _mutex: MutexGuard<'static, ()>,
    /// Behind the mutex: it ends when that was given back.
    _inside: Inside,
    /// The ownership that was taken away.
    gives_back: bool,
}

impl<'a, T> Guard<'a, T> {
    #[inline(always)]
    fn new(lock: &'a Lock<T>, owned: bool) -> Guard<'a, T> {
        Guard {
            lock,
            owned,
            _thread: PhantomData,
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.owned {
            // A thread that sees this sees what was changed.
            true => self.lock.inside.store(OUTSIDE, Ordering::Release),
            // SAFETY: one that is not the owner's is made by `guard`, or stands for one that was, which was forgotten.
            false => unsafe { self.lock.give_back() },
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
mod tests;
