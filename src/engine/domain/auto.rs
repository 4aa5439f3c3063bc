// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Automatic progress (fi_domain(3), FI_PROGRESS_AUTO): a thread that sleeps in the kernel while there is nothing to
//! do, and stays away while the application itself polls.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use crate::base::Result;
use crate::engine::domain::Engine;
use crate::engine::transport::Transport;
use crate::sys::event::{EventFd, sleep_on};
use crate::sys::fork::Birth;
use crate::sys::thread::spawn;

/// Runs until it is dropped.
pub struct Thread {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    birth: Birth,
}

struct Stop {
    asked: AtomicBool,
    event: EventFd,
}

/// While the application polls by itself, the thread sees after this long whether it still does; after twice that the
/// next time, up to the second value: a switch to the thread costs who shares its processor some ten microseconds.
/// Nothing waits for longer than two of these times, 10 ms at most, whatever the application does.
const STAND_BACK: Duration = Duration::from_millis(1);
const STAND_BACK_LONGEST: Duration = Duration::from_millis(4);
/// So many polls of the application leave out nothing (`EPOLL_EVERY` of the streams). If there are fewer, the thread
/// polls once more.
const LOOKS: u64 = 64;

impl Thread {
    pub fn start<T: Transport>(engine: &Arc<Engine<T>>) -> Result<Thread> {
        let stop = Arc::new(Stop {
            asked: AtomicBool::new(false),
            event: EventFd::new()?,
        });
        let (engine, asked) = (Arc::downgrade(engine), stop.clone());
        let thread = spawn("fi-progress", move || run(&engine, &asked))?;
        Ok(Thread {
            stop,
            thread: Some(thread),
            birth: Birth::here(),
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // A child has no such thread, and the event is the parent's too.
        if !self.birth.is_here() {
            return;
        }
        self.stop.asked.store(true, Ordering::Release);
        self.stop.event.set();
        if let Some(thread) = self.thread.take() {
            // A panic aborts the process; there is no other error.
            let _ = thread.join();
        }
    }
}

fn run<T: Transport>(engine: &Weak<Engine<T>>, stop: &Stop) {
    let Some(fd) = engine.upgrade().map(|engine| engine.poll_fd()) else {
        return;
    };
    let stop_fd = stop.event.as_raw_fd();
    let mut seen = 0;
    // Somebody polls: what is ready is theirs. The thread comes back after this time to see whether they still do.
    let mut back = None;
    while !stop.asked.load(Ordering::Acquire) {
        // A signal handler that ran on this thread is the application's; the loop polls everything anyway.
        let _ = match back {
            None => sleep_on(&[stop_fd, fd], None),
            time => sleep_on(&[stop_fd], time),
        };
        let Some(engine) = engine.upgrade() else {
            return;
        };
        let looks = engine.looks.load(Ordering::Relaxed);
        let polls = looks.wrapping_sub(std::mem::replace(&mut seen, looks));
        if polls >= LOOKS
            && let Some(time) = back
        {
            back = Some(STAND_BACK_LONGEST.min(2 * time));
            continue;
        }
        let Ok(mut state) = engine.lock() else {
            return;
        };
        match (polls > 0, back) {
            (true, None) => {
                back = Some(STAND_BACK);
                state.domain.watchers -= 1;
                continue;
            }
            (true, Some(time)) => back = Some(STAND_BACK_LONGEST.min(2 * time)),
            (false, None) => {}
            (false, Some(_)) => {
                back = None;
                state.domain.watchers += 1;
            }
        }
        state.progress_all();
        state.flush();
    }
}
