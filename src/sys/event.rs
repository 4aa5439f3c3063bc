// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a thread can sleep on: epoll, eventfd, timerfd, poll.
//!
//! Trusted with: these system calls.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A set of descriptors, each with a number of ours.
pub struct Epoll(OwnedFd);

/// Readiness of one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// An error, or both directions are closed.
    pub broken: bool,
    /// The other side writes no more. This and `broken` are reported whether they were asked for or not.
    pub ended: bool,
}

/// How many descriptors one look at an `Epoll` reports at most; kept small, as it lies on the caller's stack.
pub const BATCH: usize = 32;

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Epoll)
    }

    fn control(&self, op: i32, fd: RawFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        let mut events = libc::EPOLLRDHUP;
        if read {
            events |= libc::EPOLLIN;
        }
        if write {
            events |= libc::EPOLLOUT;
        }
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: `event` lives during the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &mut event) }).map(drop)
    }

    pub fn add(&self, fd: RawFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, read, write)
    }

    pub fn modify(&self, fd: RawFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, read, write)
    }

    /// A descriptor that is not in the set is not an error.
    pub fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, false, false);
    }

    /// What is ready now, without sleeping.
    pub fn poll(&self, out: &mut [Ready; BATCH]) -> usize {
        // SAFETY: all zero is a valid event.
        let mut events: [libc::epoll_event; BATCH] = unsafe { core::mem::zeroed() };
        // SAFETY: room for BATCH events.
        // Past the C library's function, which is a point at which threads can be cancelled: see `sys::socket`.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_wait,
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as i32,
                0,
            )
        };
        let n = n.max(0) as usize;
        for (ready, event) in out.iter_mut().zip(&events[..n]) {
            let bits = event.events as i32;
            let broken = bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            *ready = Ready {
                token: event.u64,
                broken,
                ended: bits & libc::EPOLLRDHUP != 0,
                readable: broken || bits & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0,
                writable: broken || bits & libc::EPOLLOUT != 0,
            };
        }
        n
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A flag that others can sleep on.
pub struct EventFd(OwnedFd);

impl EventFd {
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers.
        owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) }).map(EventFd)
    }

    pub fn set(&self) {
        let one = 1u64;
        // A full counter is set already.
        // SAFETY: eight bytes.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Becomes readable at a time.
pub struct Timer(OwnedFd);

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no pointers.
        owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Timer)
    }

    /// Goes off once after `delay`; `None` stops it. Setting it also makes it unreadable.
    pub fn set(&self, delay: Option<Duration>) {
        let value = match delay {
            // Zero would stop the timer.
            Some(delay) => libc::timespec {
                tv_sec: delay.as_secs() as libc::time_t,
                tv_nsec: i64::from(delay.subsec_nanos()).max(1),
            },
            None => libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
        };
        let spec = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: value,
        };
        // SAFETY: `spec` lives during the call.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &spec, core::ptr::null_mut()) };
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Sleeps until one of the descriptors is readable; false if the time ran out. `None` sleeps for ever. A signal handler
/// that ran ends the sleep with an error, `ErrorKind::Interrupted`.
pub fn sleep_on(fds: &[RawFd], timeout: Option<Duration>) -> io::Result<bool> {
    let mut polls = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 8];
    for (poll, &fd) in polls.iter_mut().zip(fds) {
        poll.fd = fd;
    }
    let timeout = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as libc::time_t,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let timeout = timeout
        .as_ref()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    let count = fds.len().min(polls.len()) as libc::nfds_t;
    // SAFETY: `count` entries; `timeout` lives during the call.
    let ready = unsafe { libc::ppoll(polls.as_mut_ptr(), count, timeout, core::ptr::null()) };
    Ok(check(ready)? > 0)
}

fn check(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        n => Ok(n),
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_wakes_through_nested_sets() {
        let (inner, outer, event) = (
            Epoll::new().unwrap(),
            Epoll::new().unwrap(),
            EventFd::new().unwrap(),
        );
        inner.add(event.as_raw_fd(), 1, true, false).unwrap();
        outer.add(inner.as_raw_fd(), 2, true, false).unwrap();
        assert!(!sleep_on(&[outer.as_raw_fd()], Some(Duration::ZERO)).unwrap());
        event.set();
        assert!(sleep_on(&[outer.as_raw_fd()], Some(Duration::from_secs(5))).unwrap());
        event.clear();
        assert!(!sleep_on(&[outer.as_raw_fd()], Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_timer_goes_off_once() {
        let timer = Timer::new().unwrap();
        timer.set(Some(Duration::ZERO));
        assert!(sleep_on(&[timer.as_raw_fd()], Some(Duration::from_secs(5))).unwrap());
        timer.set(None);
        assert!(!sleep_on(&[timer.as_raw_fd()], Some(Duration::ZERO)).unwrap());
    }
}
