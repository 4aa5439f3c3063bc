// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Event queues: fi_eq(3).
//!
//! The queue's lock is the innermost one. Domains are driven through `Weak<dyn Driver>`s without holding it.

use core::any::Any;
use core::ffi::{CStr, c_int};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::wait::{Deadline, Member, Wait};
use abi::*;
use base::{Error, Result};
use object::ops::eq::{EQ_READY_ONLY, EqCalls, EqErr};
use object::peer::PeerEq;
use object::user::Room;
use object::{Kind, WaitHandle};
use sync::{Use, Uses};

/// A source of events that must be polled: a domain's transport, a passive endpoint.
pub trait Driver: Any + Send + Sync {
    fn drive(&self);
    /// Becomes readable when driving may find events.
    fn fd(&self) -> BorrowedFd<'_>;
}

enum Entry {
    Event {
        number: u32,
        bytes: Box<[u8]>,
        /// Frees a `fi_info` that the application has not received yet.
        info: Option<Box<dyn FnOnce() + Send>>,
        /// The handle to which the event refers, as a number.
        fid: usize,
    },
    Error(EqErr),
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    drivers: Vec<Weak<dyn Driver>>,
    /// The last error that was read, because the application may still use its `err_data`.
    last_error: Option<EqErr>,
}

/// The queue, shared by its handle and by the objects that report to it.
pub struct EventQueue {
    state: Mutex<State>,
    wait: Wait,
    size: usize,
    /// FI_WRITE: the application may write events of its own.
    writable: bool,
    /// The queue of another provider, for which this one is only a stand-in: fi_peer(3).
    pub owner: Option<Arc<PeerEq>>,
    pub uses: Uses,
}

/// An event of a queue that belongs to another provider.
pub enum OwnersEvent {
    Event(u32, Box<[u8]>),
    Error(EqErr),
}

/// Capacity of a queue that was opened with size 0.
const DEFAULT_SIZE: usize = 256;

impl EventQueue {
    pub fn new(size: usize, writable: bool, wait: Wait) -> EventQueue {
        EventQueue {
            state: Mutex::default(),
            wait,
            writable,
            owner: None,
            size: if size == 0 { DEFAULT_SIZE } else { size },
            uses: Uses::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a driver that every read calls, as long as it lives.
    pub fn add_driver(&self, driver: Weak<dyn Driver>) -> Result {
        let mut state = self.state();
        state.drivers.retain(|d| d.strong_count() > 0);
        if state.drivers.iter().any(|d| d.ptr_eq(&driver)) {
            return Ok(());
        }
        if let Some(alive) = driver.upgrade() {
            self.wait.add_source(alive.fd())?;
        }
        state.drivers.push(driver);
        Ok(())
    }

    /// Returns the driver of this type, if there is one.
    pub fn driver<D: Driver>(&self) -> Option<Arc<D>> {
        let drivers: Vec<Arc<dyn Driver>> = self.drivers();
        let any = drivers
            .into_iter()
            .map(|driver| -> Arc<dyn Any + Send + Sync> { driver });
        any.filter_map(|any| any.downcast::<D>().ok()).next()
    }

    /// Removes the descriptor of a driver that ends.
    pub fn remove_source(&self, fd: BorrowedFd<'_>) {
        self.wait.remove_source(fd);
    }

    fn push(&self, entry: Entry) {
        self.state().entries.push_back(entry);
        self.wait.notify_unlocked();
    }

    /// Adds an event; `bytes` is the struct that fi_eq(3) defines for it.
    pub fn event(&self, number: u32, fid: usize, bytes: &[u8]) {
        self.push(Entry::Event {
            number,
            bytes: bytes.into(),
            info: None,
            fid,
        });
    }

    /// Reports the completion of an asynchronous request, `struct fi_eq_entry`.
    pub fn complete(&self, number: u32, fid: usize, context: usize, data: u64) {
        let words = [fid as u64, context as u64, data];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.event(number, fid, &bytes);
    }

    /// Adds a connection event, `struct fi_eq_cm_entry`: handle, `fi_info` (0 for none), private data. `drop_info`
    /// frees the info if the event is never read.
    pub fn cm_event(
        &self,
        number: u32,
        fid: usize,
        info: usize,
        data: &[u8],
        drop_info: Option<Box<dyn FnOnce() + Send>>,
    ) {
        let mut bytes = Vec::with_capacity(16 + data.len());
        bytes.extend_from_slice(&(fid as u64).to_ne_bytes());
        bytes.extend_from_slice(&(info as u64).to_ne_bytes());
        bytes.extend_from_slice(data);
        self.push(Entry::Event {
            number,
            bytes: bytes.into(),
            info: drop_info,
            fid,
        });
    }

    pub fn error(&self, error: EqErr) {
        self.push(Entry::Error(error));
    }

    /// Drops events of a handle that is closed.
    pub fn forget(&self, fid: usize) {
        let mut state = self.state();
        let entries = std::mem::take(&mut state.entries);
        for entry in entries {
            match entry {
                Entry::Event {
                    fid: about, info, ..
                } if about == fid => info.map_or((), |drop_info| drop_info()),
                Entry::Error(error) if error.fid == fid => {}
                other => state.entries.push_back(other),
            }
        }
    }

    /// Takes all events, for the owner of the queue.
    pub fn take_all(&self) -> Vec<OwnersEvent> {
        let entries = std::mem::take(&mut self.state().entries);
        let event = |entry| match entry {
            Entry::Event { number, bytes, .. } => OwnersEvent::Event(number, bytes),
            Entry::Error(error) => OwnersEvent::Error(error),
        };
        entries.into_iter().map(event).collect()
    }

    pub fn has_events(&self) -> bool {
        !self.state().entries.is_empty()
    }

    fn drivers(&self) -> Vec<Arc<dyn Driver>> {
        let state = self.state();
        state.drivers.iter().filter_map(Weak::upgrade).collect()
    }

    fn drive(&self) {
        self.drivers().iter().for_each(|driver| driver.drive());
    }

    /// Reads the event at the head, cut to the caller's buffer.
    fn take(&self, out: &mut Room<'_>, flags: u64) -> Result<(u32, usize)> {
        let mut state = self.state();
        let (number, copied) = match state.entries.front_mut() {
            None => return Err(Error::AGAIN),
            Some(Entry::Error(_)) => return Err(Error::AVAIL),
            // If the buffer had no room for the info, it would be lost.
            Some(Entry::Event { info: Some(_), .. }) if out.len() < CM_ENTRY => {
                return Err(Error::TOOSMALL);
            }
            Some(Entry::Event {
                number,
                bytes,
                info,
                ..
            }) => {
                if flags & PEEK == 0 {
                    // The caller owns the info now.
                    *info = None;
                }
                (*number, out.fill(bytes))
            }
        };
        if flags & PEEK == 0 {
            state.entries.pop_front();
        }
        Ok((number, copied))
    }

    fn read(&self, out: &mut Room<'_>, flags: u64) -> Result<(u32, usize)> {
        match self.take(out, flags) {
            Err(Error::AGAIN) if flags & EQ_READY_ONLY == 0 => {
                self.drive();
                self.take(out, flags)
            }
            result => result,
        }
    }
}

const PEEK: u64 = FI_PEEK;
/// Bytes of a `struct fi_eq_cm_entry` before the connection data.
const CM_ENTRY: usize = 16;
/// A longer event of the application is treated as a mistake.
const MAX_EVENT: usize = 1 << 20;

fn check_flags(flags: u64) -> Result {
    match flags & !PEEK {
        0 => Ok(()),
        _ => Err(Error::BADFLAGS),
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        for entry in std::mem::take(&mut self.state().entries) {
            if let Entry::Event {
                info: Some(drop_info),
                ..
            } = entry
            {
                drop_info();
            }
        }
    }
}

impl Member for EventQueue {
    fn trywait(&self) -> Result {
        self.wait.arm();
        self.drive();
        match self.has_events() {
            true => Err(Error::AGAIN),
            false => Ok(()),
        }
    }
}

/// The handle of an event queue.
pub struct Eq {
    pub queue: Arc<EventQueue>,
    pub api_version: u32,
    /// The provider's text of an error number.
    pub text: fn(i32) -> Option<&'static CStr>,
    pub _fabric: Use,
    pub _set: Option<Use>,
}

impl Kind for Eq {
    type Head = fid_eq;

    fn check_close(&self) -> Result {
        match self.queue.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn wait_handle(&self) -> Result<WaitHandle> {
        self.queue.wait.handle()
    }

    fn wait_obj(&self) -> Result<fi_wait_obj> {
        Ok(self.queue.wait.obj())
    }

    fn trywait(&self) -> Result {
        self.queue.trywait()
    }
}

impl EqCalls for Eq {
    fn api_version(&self) -> u32 {
        self.api_version
    }

    fn text(&self, number: i32) -> Option<&'static CStr> {
        (self.text)(number)
    }

    fn read(&self, out: &mut Room<'_>, flags: u64) -> Result<(u32, usize)> {
        check_flags(flags & !EQ_READY_ONLY)?;
        self.queue.read(out, flags)
    }

    fn sread(&self, out: &mut Room<'_>, timeout: c_int, flags: u64) -> Result<(u32, usize)> {
        let queue = &self.queue;
        check_flags(flags)?;
        // Keeps the queue open while this thread waits for it.
        let _inside = queue.uses.take();
        if !queue.wait.can_sleep() || queue.wait.obj() == FI_WAIT_SET {
            return Err(Error::INVAL);
        }
        let deadline = Deadline::after(timeout);
        let mut sleeper = queue.wait.enter();
        loop {
            sleeper.arm();
            match queue.read(out, flags) {
                Err(Error::AGAIN) => {}
                result => return result,
            }
            if !sleeper.sleep(deadline)? {
                return queue.read(out, flags);
            }
        }
    }

    fn read_err(&self, flags: u64, take: &mut dyn FnMut(&EqErr)) -> Result {
        check_flags(flags)?;
        let mut state = self.queue.state();
        match state.entries.front() {
            Some(Entry::Error(error)) => take(error),
            _ => return Err(Error::AGAIN),
        }
        if flags & PEEK == 0
            && let Some(Entry::Error(error)) = state.entries.pop_front()
        {
            state.last_error = Some(error);
        }
        Ok(())
    }

    fn write(&self, event: u32, bytes: &[u8], flags: u64) -> Result<usize> {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        if !self.queue.writable {
            return Err(Error::NOSYS);
        }
        if bytes.len() > MAX_EVENT {
            return Err(Error::INVAL);
        }
        if self.queue.state().entries.len() >= self.queue.size {
            return Err(Error::AGAIN);
        }
        self.queue.event(event, 0, bytes);
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use sys::event::EventFd;

    struct Source {
        event: EventFd,
        drives: AtomicUsize,
    }

    impl Source {
        fn new() -> Arc<Source> {
            Arc::new(Source {
                event: EventFd::new().unwrap(),
                drives: AtomicUsize::new(0),
            })
        }
    }

    impl Driver for Source {
        fn drive(&self) {
            self.drives.fetch_add(1, Ordering::Relaxed);
        }

        fn fd(&self) -> BorrowedFd<'_> {
            std::os::fd::AsFd::as_fd(&self.event)
        }
    }

    fn queue() -> EventQueue {
        EventQueue::new(0, true, Wait::new(FI_WAIT_FD, None, &[]).unwrap())
    }

    fn read(queue: &EventQueue, flags: u64) -> Result<u32> {
        let mut bytes = [0u8; 64];
        let mut room = Room::of_test(&mut bytes);
        queue.read(&mut room, flags).map(|(number, _)| number)
    }

    #[test]
    fn a_read_of_ready_events_drives_nothing() {
        let (queue, source) = (queue(), Source::new());
        let weak: Weak<Source> = Arc::downgrade(&source);
        queue.add_driver(weak).unwrap();
        assert_eq!(read(&queue, EQ_READY_ONLY), Err(Error::AGAIN));
        assert_eq!(source.drives.load(Ordering::Relaxed), 0);
        queue.event(7, 0, &[]);
        assert_eq!(read(&queue, EQ_READY_ONLY), Ok(7));
        assert_eq!(read(&queue, 0), Err(Error::AGAIN));
        assert_eq!(source.drives.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_driver_is_found_by_its_type_as_long_as_it_lives() {
        let (queue, source) = (queue(), Source::new());
        assert!(queue.driver::<Source>().is_none());
        let weak: Weak<Source> = Arc::downgrade(&source);
        queue.add_driver(weak).unwrap();
        let found = queue.driver::<Source>().unwrap();
        assert!(Arc::ptr_eq(&found, &source));
        drop((found, source));
        assert!(queue.driver::<Source>().is_none());
    }
}
