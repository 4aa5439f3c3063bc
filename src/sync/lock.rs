// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A lock whose cost depends on the threading level (fi_domain(3)): next to nothing if the application serializes the
//! calls of the data path, otherwise the cost of a mutex.
//!
//! In the first case the data path owns the lock: it marks itself as inside with a plain store, and any other caller
//! takes the ownership away. To do so that caller makes the kernel run a barrier on all threads of the process
//! (membarrier(2)), so the data path needs no fence of its own. If the application serializes all calls (`One`), the
//! other callers are the library's own threads and the exit of the process; they give the ownership back. If only the
//! calls of the data path are serialized (`OneForData`), control calls come from any thread, too, and the data path
//! gets the ownership back after it has called often enough.
//!
//! A thread inside a lock may have to leave work to be done when it is outside again (`inside`). Counting the threads
//! inside would cost the owner's path too much, so the first caller that needs the count makes the lock a shared one
//! for good (`share_within`): from then on all callers take the mutex.
//!
//! A callback of the application, such as a log sink, may call the data path again while its own thread is inside. The
//! owner swaps in the word `INSIDE`, and the check for other callers compares `mark` with the previous word. So a
//! second entry is detected without another branch, and refused.
//!
//! A thread that is inside while another thread forks does not exist in the child and never leaves the lock there: the
//! child would wait for it forever, or read partly changed state. So the word with the kind of the lock lies in memory
//! that the kernel wipes in a child. The first call in the child finds the wiped word and checks whether a thread was
//! inside at the fork. This costs calls in the parent nothing.
//!
//! Trusted with: giving `&mut T` without a mutex to the data path, which `Serialized` promises to be one thread at a
//! time; keeping the guard of the mutex beside the mutex, so that a `Guard` is two registers.

mod guard;

use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit, forget, transmute};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, compiler_fence};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use crossbeam_utils::Backoff;

pub use self::guard::Guard;
use self::guard::Held;
use super::inside::Inside;
use sys::barrier;
use sys::fork::{Birth, Mark};

/// Which threads may call at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// One thread of the application, which serializes all its calls. Other threads use `lock_aside`.
    One,
    /// One thread calls `lock_data`; any thread may call `lock`.
    OneForData,
    Many,
}

impl Callers {
    /// The callers in logs.
    pub fn words(self) -> &'static str {
        match self {
            Callers::One => "one thread",
            Callers::OneForData => "one thread on the data path",
            Callers::Many => "many threads",
        }
    }
}

/// The application's promise to keep to the threading level that it requested.
#[derive(Clone, Copy, Debug)]
pub struct Serialized(());

impl Serialized {
    /// # Safety
    /// For a lock made with this value and `Callers::One`, all calls except those named `aside` come from one thread at
    /// a time. With `Callers::OneForData`, the calls of `lock_data` do. A thread that is inside may call again, from a
    /// callback.
    pub const unsafe fn promise() -> Serialized {
        Serialized(())
    }

    /// The promise of a test, which calls from one thread.
    #[cfg(any(test, feature = "testing"))]
    pub const fn by_test() -> Serialized {
        Serialized(())
    }
}

/// Rights of a forked child to the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// The child may use the state as its parent does.
    Go,
    /// The child may only destroy the state.
    Close,
}

/// The state must not be used: it belongs to the process that this one was forked from, or this thread is inside
/// already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// The number of threads that wait for the mutex of a lock. In a child those of the parent may count.
#[derive(Clone, Default)]
pub struct Waiters(Arc<AtomicU32>);

impl Waiters {
    /// Whether a thread waits. The thread inside may ask, to leave early.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// State with the lock that guards it.
pub struct Lock<T> {
    callers: Callers,
    /// Called in a child, when no thread is inside.
    children: fn(&T) -> Children,
    /// How to take the lock: a `kind`. The process that made the lock changes it only under the mutex.
    mark: Mark,
    birth: Birth,
    mutex: Mutex<()>,
    waiters: Waiters,
    /// Belongs to the thread that has the mutex. Set while a `Guard` exists that is not the owner's.
    held: UnsafeCell<MaybeUninit<Held>>,
    /// `INSIDE` while the data path is inside without the mutex, and while it checks `mark` and finds that it may not
    /// enter. Otherwise `OUTSIDE`.
    inside: AtomicU8,
    /// How often in a row the data path took the mutex. Changed under the mutex.
    streak: AtomicU32,
    /// Set when the lock has no owner any more. Changed under the mutex.
    shared: AtomicBool,
    state: UnsafeCell<ManuallyDrop<T>>,
}

/// The values of `Lock::mark`.
mod kind {
    /// The wiped value: no thread of this child has called yet.
    pub const CHILD: u8 = 0;
    /// The data path need not take the mutex.
    pub const OWNED: u8 = 1;
    /// The data path has to take the mutex for now.
    pub const TAKEN: u8 = 2;
    /// All callers have to take the mutex.
    pub const MANY: u8 = 3;
    /// A thread of the child is finding out which of the other kinds applies.
    pub const UNDECIDED: u8 = 4;
    /// This child may destroy the state.
    pub const CLOSE: u8 = 5;
    /// This child must not use the state.
    pub const LOST: u8 = 6;
    /// The kernel does not wipe the word: each call compares the process id and takes the mutex.
    pub const ASK: u8 = 7;
}

/// Equals the `mark` with which the data path may enter, so that one comparison with `mark` checks both.
const OUTSIDE: u8 = kind::OWNED;
/// Differs from every `kind`.
const INSIDE: u8 = u8::MAX;

/// Number of consecutive calls of the data path that make it the owner.
const STREAK: u32 = 256;

// SAFETY: the mutex gives exclusion, except for the owner. With `One` and `OneForData` the application has promised
// that there is one owner at a time (`Serialized`); a second entry of its thread is refused, and every other thread
// waits until the owner is outside (`clear_owner`).
unsafe impl<T: Send> Sync for Lock<T> {}

// SAFETY: only `held` is tied to a thread. The thread that sets it has a `Guard` that borrows the lock, and takes it
// out when the guard ends; no other thread reads it.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// The promise `Serialized` matters only if `callers` is not `Many`.
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
            waiters: Waiters::default(),
            held: UnsafeCell::new(MaybeUninit::uninit()),
            inside: AtomicU8::new(OUTSIDE),
            streak: AtomicU32::new(0),
            shared: AtomicBool::new(false),
            state: UnsafeCell::new(ManuallyDrop::new(state)),
        })
    }

    /// Returns the count of the threads that wait for the mutex.
    pub fn waiters(&self) -> Waiters {
        self.waiters.clone()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.state.get_mut()
    }

    /// Returns true if more than one thread of the application may call at a time.
    pub fn is_shared(&self) -> bool {
        self.callers != Callers::One
    }

    #[inline]
    pub fn lock(&self) -> Result<Guard<'_, T>, Refused> {
        if self.callers == Callers::One {
            // The caller is the thread of the data path.
            return self.lock_data();
        }
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED..=kind::MANY) {
            self.check_child(false)?;
        }
        Ok(self.take(self.callers == Callers::One))
    }

    /// As `lock`, for threads of the library that the application does not serialize, at every threading level.
    pub fn lock_aside(&self) -> Result<Guard<'_, T>, Refused> {
        if !matches!(self.mark.load(Ordering::Relaxed), kind::OWNED..=kind::MANY) {
            self.check_child(false)?;
        }
        Ok(self.take(true))
    }

    /// As `lock_aside`, but gives up after `limit`: a thread that is inside may never leave, or may be this thread.
    pub fn lock_aside_within(&self, limit: Duration) -> Option<Guard<'_, T>> {
        let (held, gives_back) = self.take_within(limit)?;
        Some(self.guard(held, gives_back))
    }

    /// Takes the mutex; returns whether the ownership was taken away for it.
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
        if gives_back && !self.clear_owner(Some(until)) {
            return None;
        }
        Some((held, gives_back))
    }

    /// Makes all calls take the mutex from now on, so that `inside` counts them. On success no earlier caller is inside
    /// any more. Returns false, and changes nothing, if a thread was inside for longer than `limit` or the state must
    /// not be used.
    pub fn share_within(&self, limit: Duration) -> bool {
        let Some((_held, _)) = self.take_within(limit) else {
            return false;
        };
        // Relaxed: only a child reads it, and the thread that forks is not inside this function.
        self.shared.store(true, Ordering::Relaxed);
        if matches!(self.mark.load(Ordering::Relaxed), kind::OWNED | kind::TAKEN) {
            self.mark.store(kind::MANY, Ordering::Release);
        }
        true
    }

    /// As `lock`, for calls that destroy something.
    pub fn lock_to_close(&self) -> Result<Guard<'_, T>, Refused> {
        self.check_child(true)?;
        if self.callers != Callers::One {
            return Ok(self.take(false));
        }
        match self.lock_data() {
            // A child may destroy the state, and no thread is inside there.
            Err(Refused) if self.kind_in_child() == kind::CLOSE => Ok(self.take(true)),
            other => other,
        }
    }

    /// As `lock`, for calls of the data path.
    // Without inlining the guard is returned in memory, which costs 30 instructions.
    #[inline(always)]
    pub fn lock_data(&self) -> Result<Guard<'_, T>, Refused> {
        // In a child `inside` still has its value from the fork, so `mark` is checked first.
        if self.is_owned() {
            let before = self.inside.load(Ordering::Relaxed);
            self.inside.store(INSIDE, Ordering::Relaxed);
            // The processor may load `mark` before other threads see that store: pairs with the barrier in
            // `clear_owner`.
            compiler_fence(Ordering::SeqCst);
            // The data path still owns the lock, and was outside.
            if self.mark.load(Ordering::Acquire) == before {
                return Ok(Guard::new(self, true));
            }
            // Restores the word, because an outer guard of this thread may exist.
            self.inside.store(before, Ordering::Release);
        }
        // Each branch passes a constant, so the usual branch need not compare the kind of the guard.
        match self.enter_otherwise() {
            true => Ok(Guard::new(self, false)),
            false => Err(Refused),
        }
    }

    /// Takes the mutex for a guard that the caller makes. Not inlined, because the owner's path is inlined into many
    /// calls.
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
        // Only this thread stores `INSIDE`, and a thread that waits for it to leave has the mutex.
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
        // Acquire: sees what other threads changed before they gave the ownership back.
        self.mark.load(Ordering::Acquire) == kind::OWNED
    }

    /// Takes the mutex in a process that may use the lock.
    #[inline]
    fn take(&self, gives_back: bool) -> Guard<'_, T> {
        let held = self.take_mutex();
        let owned = self.is_owned();
        if owned {
            self.clear_owner(None);
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

    /// Returns what this process may do. In a child the first caller finds out.
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

    /// Finds out what this process may do. Runs once, for its first caller: a thread that is inside was there at the
    /// fork.
    fn find_out(&self) -> u8 {
        let free = !matches!(self.mutex.try_lock(), Err(TryLockError::WouldBlock));
        // Only an owner can be inside without the mutex.
        let owned = self.callers != Callers::Many;
        if !free || owned && self.inside.load(Ordering::Relaxed) == INSIDE {
            return kind::LOST;
        }
        // SAFETY: no thread is inside, and later callers wait for the result of this function.
        match (self.children)(unsafe { &*self.state.get() }) {
            Children::Go if self.shared.load(Ordering::Relaxed) => kind::MANY,
            Children::Go => kind_of(self.callers),
            Children::Close => kind::CLOSE,
        }
    }

    /// Called under the mutex: makes the data path take the mutex from now on, and waits until it is outside. Returns
    /// false if it was still inside at `until`; it then owns the lock again.
    #[cold]
    fn clear_owner(&self, until: Option<Instant>) -> bool {
        self.mark.store(kind::TAKEN, Ordering::Relaxed);
        self.streak.store(0, Ordering::Relaxed);
        // Either the owner's next look at `mark` sees the change, or its `inside` is seen here.
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
        match self.mutex.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait_for_mutex(),
        }
    }

    #[cold]
    fn wait_for_mutex(&self) -> MutexGuard<'_, ()> {
        self.waiters.0.fetch_add(1, Ordering::Relaxed);
        let held = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiters.0.fetch_sub(1, Ordering::Relaxed);
        held
    }

    #[inline]
    fn guard<'a>(&'a self, mutex: MutexGuard<'a, ()>, gives_back: bool) -> Guard<'a, T> {
        // SAFETY: the mutex lives as long as `self`, which the `Guard` below borrows. `give_back` takes the mutex guard
        // out when the `Guard` ends. If the `Guard` never ends, the mutex guard stays in `held`.
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
            // The mutex is released after this.
            self.mark.store(kind::OWNED, Ordering::Release);
        }
    }
}

impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        if self.kind_in_child() != kind::LOST {
            // SAFETY: `drop` has the last reference to the state.
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

/// Time between two attempts to take a mutex that another thread holds.
const PAUSE: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests;
