// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lines that a thread logs under a lock. Callbacks of the application may call back into the library. So, as soon as
//! callbacks were imported (fi_provider(3), `fi_import_log`), these lines are deferred until the thread has left its
//! locks, and are then delivered in order. `sync::inside` counts the locks of a thread.
//!
//! Trusted with: passing `Line`s from thread to thread.

use core::cell::Cell;
use core::ffi::c_int;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU64;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, TryLockError, Weak};

use super::settings::settings;
use super::{Origin, emit, has_waiter, ready};
use abi::fi_provider;
use sync::inside::{self, Inside};

/// The guard of a lock that is not a `sync::Lock`. While it exists, lines of its thread are deferred.
pub struct Deferring<G> {
    guard: G,
    /// Declared behind the guard, so it ends after the lock was released.
    _inside: Inside,
}

impl<G> Deferring<G> {
    pub fn new(guard: G) -> Deferring<G> {
        Deferring {
            guard,
            _inside: Inside::enter(),
        }
    }
}

impl<G: Deref> Deref for Deferring<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Deferring<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Returns true if lines of this thread are deferred now.
#[cold]
pub(super) fn is_on() -> bool {
    inside::is_inside()
}

/// Starts to defer lines, because callbacks are about to be imported. Returns true for the first call: the caller then
/// has to share the locks that do not count their owner (`sync::Lock`).
pub fn begin() -> bool {
    static BEGUN: Once = Once::new();
    let mut is_first = false;
    BEGUN.call_once(|| {
        // A panic ends the process. The callbacks cannot be called with a lock held, so the lines go to the sink.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            write_all(Line::write);
            before(info);
        }));
        inside::watch(|| {
            let _ = THREAD.try_with(Thread::hand_out);
        });
        is_first = true;
    });
    is_first
}

/// Delivers all deferred lines, also those of other threads that are inside a lock, because the process ends.
pub fn at_exit() {
    match is_on() {
        true => write_all(Line::write),
        false => write_all(Line::hand_out),
    }
}

/// A deferred line.
pub(super) struct Line {
    pub provider: *const fi_provider,
    pub name: CString,
    pub level: c_int,
    pub subsys: c_int,
    pub function: CString,
    pub line: c_int,
    pub message: CString,
    /// The earliest time of the next such line, if the callbacks have to decide that.
    pub next: Option<&'static AtomicU64>,
}

// SAFETY: this module does not read the struct behind `provider`. Callbacks may: the caller that logs promises that it
// outlives the call, or it belongs to a `Source`, which is static.
unsafe impl Send for Line {}

impl Line {
    /// Keeps the line until its thread has left all locks. Delivers it at once if the thread's storage is gone already.
    #[cold]
    pub fn push(self) {
        let mut line = Some(self);
        let _ = THREAD.try_with(|thread| {
            let lines = thread.lines();
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.extend(line.take());
        });
        line.into_iter().for_each(Line::hand_out);
    }

    /// Passes the line to the callbacks, or to the sink if none are installed any more. The callbacks have not been
    /// called for this line yet, so they decide here whether it is wanted.
    fn hand_out(self) {
        let origin = Origin {
            provider: self.provider,
            name: &self.name,
        };
        let (level, subsys) = (self.level, self.subsys);
        let due = |next| ready(&origin, level, subsys, next);
        if has_waiter(&origin, level, subsys) && self.next.is_none_or(due) {
            emit(
                &origin,
                level,
                subsys,
                &self.function,
                self.line,
                &self.message,
            );
        }
    }

    /// Writes the line to the sink, even if callbacks are installed.
    fn write(self) {
        let (function, message) = (&self.function, &self.message);
        let sink = &settings().sink;
        sink.write(
            &self.name,
            self.level,
            self.subsys,
            function,
            self.line,
            message,
        );
    }
}

/// Deferred lines, which are taken by their own thread, or at the end of the process.
type Lines = Arc<Mutex<VecDeque<Line>>>;

#[derive(Default)]
struct Thread {
    /// Set while `hand_out` runs. A callback may log, too: its lines are delivered behind the earlier ones.
    handing_out: Cell<bool>,
    lines: OnceLock<Lines>,
}

impl Thread {
    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| {
            let lines = Lines::default();
            // If the process was forked in this section, the mutex stays locked in the child for ever.
            if let Ok(mut all) = ALL.try_lock() {
                all.retain(|lines| lines.strong_count() > 0);
                all.push(Arc::downgrade(&lines));
            }
            lines
        })
    }

    fn pop(&self) -> Option<Line> {
        let lines = self.lines.get()?;
        lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }

    fn hand_out(&self) {
        if self.handing_out.replace(true) {
            return;
        }
        while !inside::is_inside()
            && let Some(line) = self.pop()
        {
            line.hand_out();
        }
        self.handing_out.set(false);
    }
}

/// Delivers the lines of all threads. Skips a thread that is adding a line now, which may be this thread.
fn write_all(write: fn(Line)) {
    let all = match ALL.try_lock() {
        Ok(all) => all.clone(),
        Err(TryLockError::Poisoned(all)) => all.into_inner().clone(),
        Err(TryLockError::WouldBlock) => return,
    };
    for lines in all.iter().filter_map(Weak::upgrade) {
        while let Ok(mut lines) = lines.try_lock()
            && let Some(line) = lines.pop_front()
        {
            drop(lines);
            write(line);
        }
    }
}

thread_local! {
    static THREAD: Thread = Thread::default();
}

static ALL: Mutex<Vec<Weak<Mutex<VecDeque<Line>>>>> = Mutex::new(Vec::new());
