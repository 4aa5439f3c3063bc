// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Automatic progress (fi_domain(3), FI_PROGRESS_AUTO): a thread that blocks in the kernel while there is nothing to
//! do, and stays idle while the application itself polls.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use crate::domain::Engine;
use crate::transport::Transport;
use base::Result;
use sys::event::{EventFd, sleep_on};
use sys::fork::Birth;
use sys::thread::spawn;

/// The progress thread. It runs until this is dropped.
pub struct Thread {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    birth: Birth,
}

struct Stop {
    asked: AtomicBool,
    event: EventFd,
}

/// While the application polls, the thread checks after this time whether it still does. The time doubles up to the
/// second value, because each switch to the thread costs about 10 us if application and thread share a processor. No
/// event waits longer than two of these periods (10 ms at most) after the application stops polling.
const STAND_BACK: Duration = Duration::from_millis(1);
const STAND_BACK_LONGEST: Duration = Duration::from_millis(4);
/// This many polls of the application include at least one look at the epoll set (`poller::Rate` of the streams). After
/// fewer polls the thread polls once more.
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
        // A child has no such thread, and shares the event with its parent.
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
    let Some(fd) = engine.upgrade().map(|engine| engine.poll_fd().clone()) else {
        return;
    };
    let (stop_fd, fd) = (stop.event.as_fd(), fd.as_fd());
    let mut seen = 0;
    // Set while the application polls and takes what is ready. After this time the thread checks whether it still does.
    let mut back = None;
    while !stop.asked.load(Ordering::Acquire) {
        // An error only means that a signal handler ran on this thread; the loop polls everything anyway.
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
                state.domain.watchers.remove();
                continue;
            }
            (true, Some(time)) => back = Some(STAND_BACK_LONGEST.min(2 * time)),
            (false, None) => {}
            (false, Some(_)) => {
                back = None;
                state.domain.watchers.add();
            }
        }
        state.progress_all();
        state.flush();
    }
}
