// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Descriptors that a thread can sleep on: epoll, eventfd, timerfd, poll.
//!
//! Descriptors are borrowed, so none is closed, and its number given to another file, during a call. A set does not own
//! what is added to it: the kernel takes a descriptor out of the set when its owner closes it. A thread that sleeps on
//! a set which another thread may drop has a `SharedFd`:
//!
//! ```
//! use std::os::fd::AsFd;
//! use sys::event::{Epoll, EventFd, sleep_on};
//! let (set, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
//! set.add(&event, 0, true, false).unwrap();
//! event.set();
//! let shared = set.shared();
//! drop(set);
//! assert!(sleep_on(&[shared.as_fd(), event.as_fd()], None).unwrap());
//! ```
//!
//! A number is not a descriptor, and a descriptor cannot be closed while it is borrowed:
//!
//! ```compile_fail,E0277
//! let _ = sys::event::Epoll::new().unwrap().add(0, 0, true, false);
//! ```
//!
//! ```compile_fail,E0308
//! let _ = sys::event::sleep_on(&[0], None);
//! ```
//!
//! ```compile_fail,E0505
//! use std::os::fd::AsFd;
//! let event = sys::event::EventFd::new().unwrap();
//! let fds = [event.as_fd()];
//! drop(event);
//! let _ = sys::event::sleep_on(&fds, None);
//! ```
//!
//! Trusted with: system calls on these descriptors.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::EpollCreateFlags;
use nix::sys::eventfd::EfdFlags;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::fork::Birth;

/// A descriptor with several owners, the last of which closes it.
#[derive(Clone, Debug)]
pub struct SharedFd(Arc<OwnedFd>);

impl AsFd for SharedFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A set of descriptors, each with a token chosen by the caller. Forked children share the set of their parent.
pub struct Epoll {
    fd: SharedFd,
    birth: Birth,
}

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
        Ok(Epoll {
            fd: SharedFd(Arc::new(epoll.0)),
            birth: Birth::here(),
        })
    }

    /// Returns the set's own descriptor, which is readable while one of the set is ready.
    pub fn shared(&self) -> SharedFd {
        self.fd.clone()
    }

    fn control(
        &self,
        op: i32,
        fd: BorrowedFd<'_>,
        token: u64,
        read: bool,
        write: bool,
    ) -> io::Result<()> {
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
        let (set, fd) = (self.as_fd().as_raw_fd(), fd.as_raw_fd());
        // SAFETY: `event` lives during the call, and both descriptors are open.
        let status = unsafe { libc::epoll_ctl(set, op, fd, &mut event) };
        Errno::result(status)?;
        Ok(())
    }

    /// Adds a descriptor. One that another process has left in a set that both share gets the new token and events.
    pub fn add(&self, fd: impl AsFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        match self.control(libc::EPOLL_CTL_ADD, fd.as_fd(), token, read, write) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.modify(fd, token, read, write)
            }
            result => result,
        }
    }

    pub fn modify(&self, fd: impl AsFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd(), token, read, write)
    }

    /// Takes a descriptor out of the set. It is not an error if the descriptor is not in the set. A forked child takes
    /// nothing out, because the threads of its parent would no longer wake.
    pub fn remove(&self, fd: impl AsFd) {
        if !self.birth.is_here() {
            return;
        }
        let _ = self.control(libc::EPOLL_CTL_DEL, fd.as_fd(), 0, false, false);
    }

    /// Reports the descriptors that are ready now, without sleeping.
    #[inline]
    pub fn poll(&self, out: &mut [Ready; BATCH]) -> usize {
        // SAFETY: all zero is a valid event.
        let mut events: [libc::epoll_event; BATCH] = unsafe { core::mem::zeroed() };
        // Avoids the C library's function, which is a cancellation point for threads: see `sys::socket`.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: room for BATCH events.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_wait,
                self.as_fd().as_raw_fd(),
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
                self.as_fd().as_raw_fd(),
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

impl AsFd for Epoll {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of the descriptors is readable; false if the time ran out. `None` sleeps for ever. If a signal
/// handler runs, the sleep ends with the error `ErrorKind::Interrupted`.
pub fn sleep_on(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
    let mut polls = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 8];
    for (poll, fd) in polls.iter_mut().zip(fds) {
        poll.fd = fd.as_raw_fd();
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
    use crate::fork::run_in_child;

    #[test]
    fn an_event_wakes_through_nested_sets() {
        let (inner, outer, event) = (
            Epoll::new().unwrap(),
            Epoll::new().unwrap(),
            EventFd::new().unwrap(),
        );
        inner.add(&event, 1, true, false).unwrap();
        outer.add(&inner, 2, true, false).unwrap();
        assert!(!sleep_on(&[outer.as_fd()], Some(Duration::ZERO)).unwrap());
        event.set();
        assert!(sleep_on(&[outer.as_fd()], Some(Duration::from_secs(5))).unwrap());
        event.clear();
        assert!(!sleep_on(&[outer.as_fd()], Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_child_takes_nothing_out_of_the_set_of_its_parent() {
        let (set, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
        set.add(&event, 1, true, false).unwrap();
        let remove = || {
            set.remove(&event);
            let own = Epoll::new().and_then(|own| own.add(&event, 1, true, false).map(|()| own));
            let Ok(own) = own else { return 1 };
            own.remove(&event);
            event.set();
            let mut ready = [Ready::default(); BATCH];
            own.poll(&mut ready) as i32
        };
        // SAFETY: `remove` makes system calls and takes no lock of other threads.
        assert_eq!(unsafe { run_in_child(&remove) }, 0);
        assert!(sleep_on(&[set.as_fd()], Some(Duration::ZERO)).unwrap());
        // The parent takes it out, and may add it twice.
        set.add(&event, 2, true, false).unwrap();
        set.remove(&event);
        assert!(!sleep_on(&[set.as_fd()], Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_timer_goes_off_once() {
        let timer = Timer::new().unwrap();
        timer.set(Some(Duration::ZERO));
        assert!(sleep_on(&[timer.as_fd()], Some(Duration::from_secs(5))).unwrap());
        timer.set(None);
        assert!(!sleep_on(&[timer.as_fd()], Some(Duration::ZERO)).unwrap());
    }
}
