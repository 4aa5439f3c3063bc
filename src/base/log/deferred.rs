// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lines that a thread logs under a lock. Callbacks of the application may call back into the library, so once some
//! were imported (fi_provider(3), `fi_import_log`) these lines wait until the thread has given the lock back, in their
//! order. Who is inside a lock `sync::inside` knows.
//!
//! Trusted with: handing `Line`s from thread to thread.

use core::cell::Cell;
use core::ffi::c_int;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU64;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, TryLockError, Weak};

use super::settings::settings;
use super::{Origin, emit, is_wanted, ready};
use crate::abi::fi_provider;
use crate::sync::inside::{self, Inside};

/// The guard of a lock that is no `sync::Lock`, while which lives lines of its thread wait.
pub struct Deferring<G> {
    guard: G,
    /// Behind the guard: it ends when the lock was given back.
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

/// Whether lines of this thread wait now.
#[cold]
pub(super) fn is_on() -> bool {
    inside::is_inside()
}

/// Callbacks are going to be imported: from now on lines under locks wait. True the first time: then locks of which
/// the owner is not counted (`sync::Lock`) have to be shared.
pub fn begin() -> bool {
    static BEGUN: Once = Once::new();
    let mut is_first = false;
    BEGUN.call_once(|| {
        // The process ends by a panic. The callbacks cannot be called with a lock held, but no line is lost.
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

/// The process ends: what threads that are inside a lock have logged is not left behind.
pub fn at_exit() {
    match is_on() {
        true => write_all(Line::write),
        false => write_all(Line::hand_out),
    }
}

/// A line that waits.
pub(super) struct Line {
    pub provider: *const fi_provider,
    pub name: CString,
    pub level: c_int,
    pub subsys: c_int,
    pub function: CString,
    pub line: c_int,
    pub message: CString,
    /// When the next such line is due, where the callbacks are to be asked for it.
    pub next: Option<&'static AtomicU64>,
}

// SAFETY: nobody here reads what `provider` points to. Callbacks may: whoever logs promises that it outlives the call
// that logged, or it belongs to a `Source`, which is static.
unsafe impl Send for Line {}

impl Line {
    /// Keeps the line until its thread is outside all locks. It is written at once where that cannot be said any more.
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

    /// To the callbacks, or to the sink if there are none any more. What callbacks are asked for was not asked before.
    fn hand_out(self) {
        let origin = Origin {
            provider: self.provider,
            name: &self.name,
        };
        let (level, subsys) = (self.level, self.subsys);
        let due = |next| ready(&origin, level, subsys, next);
        if is_wanted(&origin, level, subsys) && self.next.is_none_or(due) {
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

    /// To the sink, whatever was imported.
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

/// Lines are taken by their own thread, or when the process ends.
type Lines = Arc<Mutex<VecDeque<Line>>>;

#[derive(Default)]
struct Thread {
    /// A callback may come back here: its lines are handed out behind those that were there before.
    handing_out: Cell<bool>,
    lines: OnceLock<Lines>,
}

impl Thread {
    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| {
            let lines = Lines::default();
            // In a child of a process that was forked in here it is taken for ever.
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

/// Of all threads. One that is in the middle of adding a line, perhaps this very one, is left out.
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
