// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The common part of all handles: fi_close, fi_bind, fi_control(3).

use core::any::Any;
use core::ffi::{c_int, c_void};
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, null_mut};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::status;
use crate::library::Library;
use abi::*;
use base::{Error, Result};
use object::slots;

/// A C object that begins with its `fid`.
///
/// # Safety
/// The struct is `repr(C)` and its first member is a `fid`.
pub unsafe trait Object: 'static {
    /// Name of the kind of object, for messages.
    const NAME: &'static str;
    /// Further data in its handle.
    type More: Send + Sync;
}

macro_rules! objects {
    ($($name:ident $words:literal $more:ty;)+) => { $(
        // SAFETY: declared so in `abi`, which the layout tests compare with C; the offset is checked here.
        unsafe impl Object for $name {
            const NAME: &'static str = $words;
            type More = $more;
        }
        const _: () = assert!(core::mem::offset_of!($name, fid) == 0);
    )+ };
}

objects! {
    fid_fabric "fabric" ();
    fid_domain "domain" ();
    fid_eq "event queue" fi_wait_obj;
    fid_cq "completion queue" super::cq::Kind;
    fid_cntr "counter" fi_wait_obj;
    fid_av "address vector" ();
    fid_mr "memory region" ();
    fid_ep "endpoint" super::memory::InFlight;
    fid_pep "passive endpoint" ();
}

/// A resource that must outlive an object.
pub(super) type Kept = Arc<dyn Any + Send + Sync>;

/// An open object.
pub struct Handle<T: Object> {
    raw: NonNull<T>,
    closed: bool,
    rest: ManuallyDrop<Rest<T>>,
}

/// Resources that are released after the object is closed.
struct Rest<T: Object> {
    more: T::More,
    kept: Mutex<Vec<Kept>>,
}

// SAFETY: fi_domain(3): control calls may come from any thread. `Domain::open` makes its caller promise what the
// threading level requires for calls on a domain and its objects. The other fields are Send and Sync.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: the same.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Makes a handle from the results of an opening call.
    ///
    /// # Safety
    /// If `code` is 0, `raw` is NULL or an object that this call has opened and that only this handle closes. All
    /// resources that it uses until then are in `kept`, or are never freed.
    pub(super) unsafe fn opened(
        code: c_int,
        raw: *mut T,
        more: T::More,
        kept: Vec<Kept>,
    ) -> Result<Arc<Handle<T>>> {
        status(code)?;
        let raw = NonNull::new(raw).ok_or(Error::OTHER)?;
        let kept = Mutex::new(kept);
        Ok(Arc::new(Handle {
            raw,
            closed: false,
            rest: ManuallyDrop::new(Rest { more, kept }),
        }))
    }

    /// Closes the object. Returns FI_EBUSY while other references to the handle exist. On failure the caller gets it
    /// back.
    pub fn close(self: Arc<Self>) -> core::result::Result<(), (Arc<Self>, Error)> {
        let mut handle = Arc::try_unwrap(self).map_err(|shared| (shared, Error::BUSY))?;
        match handle.end() {
            Ok(()) => Ok(()),
            Err(error) => Err((Arc::new(handle), error)),
        }
    }

    fn end(&mut self) -> Result {
        // SAFETY: the object is open and `closed` is not set, so it is closed once. Objects that depend on it hold a
        // reference to the handle, and this is the last one.
        status(unsafe { slots::base::close(self.fid()) })?;
        self.closed = true;
        Ok(())
    }

    /// fi_ep_bind(3) and similar calls. `other` stays open as long as this object.
    pub fn bind<O: Object>(&self, other: &Arc<Handle<O>>, flags: u64) -> Result {
        // SAFETY: both objects are open; `keep` keeps the other one open.
        status(unsafe { slots::base::bind(self.fid(), other.fid(), flags) })?;
        self.keep(other.clone());
        Ok(())
    }

    /// fi_control(3).
    ///
    /// # Safety
    /// `arg` is what the page requires for `command` on such an object, and the call creates no handle of the object.
    pub unsafe fn control(&self, command: u32, arg: *mut c_void) -> Result {
        // SAFETY: the object is open; the rest is promised by the caller.
        status(unsafe { slots::base::control(self.fid(), command as c_int, arg) })
    }

    /// fi_enable of fi_endpoint(3), and fi_mr_enable.
    pub fn enable(&self) -> Result {
        // SAFETY: FI_ENABLE has no argument.
        unsafe { self.control(FI_ENABLE, null_mut()) }
    }

    /// FI_GETWAIT of an object that was opened with `wait_obj`: returns the descriptor, which still belongs to the
    /// object.
    pub(super) fn wait_fd(&self, wait_obj: fi_wait_obj) -> Result<BorrowedFd<'_>> {
        if wait_obj != FI_WAIT_FD {
            return Err(Error::NODATA);
        }
        let mut fd: c_int = -1;
        // SAFETY: fi_cq(3), fi_eq(3), fi_cntr(3): with FI_WAIT_FD the argument is an int.
        unsafe { self.control(FI_GETWAIT, (&raw mut fd).cast()) }?;
        self.borrowed(fd)
    }

    /// Borrows a descriptor that the provider has answered with.
    fn borrowed(&self, fd: c_int) -> Result<BorrowedFd<'_>> {
        if fd < 0 {
            return Err(Error::OTHER);
        }
        // SAFETY: fi_cq(3), fi_eq(3), fi_cntr(3): the descriptor belongs to the object, which is open as long as the
        // handle, or to an object that is bound to it.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// FI_GETWAIT of an object that was opened with FI_WAIT_FD or FI_WAIT_POLLFD: returns the descriptors to poll. With
    /// the latter the set may change after objects were bound to it.
    pub(super) fn wait_fds(&self, wait_obj: fi_wait_obj) -> Result<Vec<BorrowedFd<'_>>> {
        if wait_obj != FI_WAIT_POLLFD {
            return self.wait_fd(wait_obj).map(|fd| vec![fd]);
        }
        let none = pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        };
        let mut fds = vec![none; 8];
        loop {
            let mut wait = fi_wait_pollfd {
                change_index: 0,
                nfds: fds.len(),
                fd: fds.as_mut_ptr(),
            };
            // SAFETY: fi_poll(3): with FI_WAIT_POLLFD the argument is such a struct, with room for `nfds`.
            let got = unsafe { self.control(FI_GETWAIT, (&raw mut wait).cast()) };
            let count = wait.nfds;
            match got {
                Err(Error::TOOSMALL) if count > fds.len() && count < MAX_FDS => {
                    fds.resize(count, none)
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let fds = fds.iter().take(count);
                    return fds.map(|at| self.borrowed(at.fd)).collect();
                }
            }
        }
    }

    /// Returns the object, for calls outside this module. It is open as long as the handle.
    pub fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }

    pub(super) fn fid(&self) -> *mut fid {
        self.as_ptr().cast()
    }

    /// Returns the number by which events identify the object.
    pub fn number(&self) -> usize {
        self.fid().addr()
    }

    pub(super) fn more(&self) -> &T::More {
        &self.rest.more
    }

    pub(super) fn keep(&self, what: Kept) {
        self.kept().push(what);
    }

    /// Whether the object was opened on this one, or is bound to it.
    pub(super) fn keeps<U: Object>(&self, other: &Arc<Handle<U>>) -> bool {
        let other = Arc::as_ptr(other).cast::<()>();
        let kept = self.kept();
        kept.iter()
            .any(|kept| Arc::as_ptr(kept).cast::<()>() == other)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.rest
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        if !self.closed
            && let Err(error) = self.end()
        {
            // The object still exists and may use the resources kept for it, so they are never freed.
            (Library::get().unclosed)(T::NAME, error);
            return;
        }
        // SAFETY: this is the last use of the handle.
        unsafe { ManuallyDrop::drop(&mut self.rest) }
    }
}

/// A handle of any kind. Only a [`Handle`] is one:
///
/// ```compile_fail,E0200
/// struct Nothing;
/// impl client::AnyHandle for Nothing {
///     fn any_fid(&self) -> *mut abi::fid {
///         core::ptr::null_mut()
///     }
/// }
/// ```
///
/// # Safety
/// The object is open as long as the value exists.
pub unsafe trait AnyHandle {
    fn any_fid(&self) -> *mut fid;
}

// SAFETY: a handle closes its object when it is dropped or consumed.
unsafe impl<T: Object> AnyHandle for Handle<T> {
    fn any_fid(&self) -> *mut fid {
        self.fid()
    }
}

/// Limit on descriptors, larger than any real set.
const MAX_FDS: usize = 4096;
