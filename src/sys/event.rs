// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Descriptors that a thread can sleep on: epoll, eventfd, timerfd, poll.
//!
//! Trusted with: system calls on descriptors that callers pass by number. nix needs a borrow, which callers that wait
//! for an application's descriptors do not have. For an invalid number the call returns an error.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::sys::epoll::EpollCreateFlags;
use nix::sys::eventfd::EfdFlags;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// A set of descriptors, each with a token chosen by the caller.
pub struct Epoll(nix::sys::epoll::Epoll);

/// Readiness of one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// An error, or both directions are closed.
    pub broken: bool,
    /// The other side has ended its direction. This and `broken` are reported whether requested or not.
    pub ended: bool,
}

/// Limit on the descriptors that one call of `poll` reports; small, because the array lies on the caller's stack.
pub const BATCH: usize = 32;

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        let epoll = nix::sys::epoll::Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Epoll(epoll))
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
        // SAFETY: `event` lives during the call. For an invalid descriptor the call returns an error.
        let status = unsafe { libc::epoll_ctl(self.as_raw_fd(), op, fd, &mut event) };
        Errno::result(status)?;
        Ok(())
    }

    pub fn add(&self, fd: RawFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, read, write)
    }

    pub fn modify(&self, fd: RawFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, read, write)
    }

    /// Takes a descriptor out of the set. It is not an error if the descriptor is not in the set.
    pub fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, false, false);
    }

    /// Reports the descriptors that are ready now, without sleeping.
    pub fn poll(&self, out: &mut [Ready; BATCH]) -> usize {
        // SAFETY: all zero is a valid event.
        let mut events: [libc::epoll_event; BATCH] = unsafe { core::mem::zeroed() };
        // Avoids the C library's function, which is a cancellation point for threads: see `sys::socket`.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: room for BATCH events.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_wait,
                self.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as i32,
                0,
            )
        };
        // Newer architectures have only this call.
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: room for BATCH events, and no mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait,
                self.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as i32,
                0,
                core::ptr::null::<libc::sigset_t>(),
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
        self.0.0.as_raw_fd()
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

/// A flag that other threads can sleep on.
pub struct EventFd(nix::sys::eventfd::EventFd);

impl EventFd {
    pub fn new() -> io::Result<EventFd> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(EventFd(nix::sys::eventfd::EventFd::from_flags(flags)?))
    }

    pub fn set(&self) {
        // A full counter is set already.
        let _ = self.0.write(1);
    }

    pub fn clear(&self) {
        // A read fails if the flag is clear already.
        let _ = self.0.read();
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A descriptor that becomes readable at a chosen time.
pub struct Timer(TimerFd);

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Timer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// Fires once after `delay`; `None` stops the timer. The call also makes the descriptor unreadable.
    pub fn set(&self, delay: Option<Duration>) {
        // A delay of zero would stop the timer. Neither call fails for a valid timer.
        let _ = match delay.map(|delay| delay.max(Duration::from_nanos(1))) {
            Some(delay) => self.0.set(
                Expiration::OneShot(TimeSpec::from_duration(delay)),
                TimerSetTimeFlags::empty(),
            ),
            None => self.0.unset(),
        };
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Sleeps until one of the descriptors is readable; false if the time ran out. `None` sleeps for ever. If a signal
/// handler runs, the sleep ends with the error `ErrorKind::Interrupted`.
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
        tv_sec: t.as_secs() as _,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let timeout = timeout
        .as_ref()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    let count = fds.len().min(polls.len()) as libc::nfds_t;
    // SAFETY: `count` entries; `timeout` lives during the call.
    let ready = unsafe { libc::ppoll(polls.as_mut_ptr(), count, timeout, core::ptr::null()) };
    Ok(Errno::result(ready)? > 0)
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
