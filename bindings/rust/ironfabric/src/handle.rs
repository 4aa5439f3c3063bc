// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The common part of all objects: their tables, closing, binding, wait descriptors; and the thread models.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use core::time::Duration;
use std::os::fd::RawFd;

use ironfabric_sys::*;

use crate::error::{Error, Result, count, status};

mod sealed {
    pub trait Sealed {}
}

/// A thread model: which threads may use the objects of a domain. fi_domain(3), `threading`.
///
/// It is a type, so that the compiler checks what C programs have to promise.
pub trait Threads: sealed::Sealed + 'static {
    #[doc(hidden)]
    const LEVEL: fi_threading;
}

/// Any thread may use any object (`FI_THREAD_SAFE`); objects are `Send` and `Sync`. The default.
#[derive(Debug)]
pub struct Shared;

/// All objects of a domain stay in the thread that opened it (`FI_THREAD_DOMAIN`), and the provider needs no locks.
///
/// ```compile_fail,E0277
/// fn main_to_thread(queue: ironfabric::CompletionQueue<ironfabric::Local>) {
///     std::thread::spawn(move || drop(queue));
/// }
/// ```
#[derive(Debug)]
pub struct Local(PhantomData<*const ()>);

impl sealed::Sealed for Shared {}
impl sealed::Sealed for Local {}
impl Threads for Shared {
    const LEVEL: fi_threading = FI_THREAD_SAFE;
}
impl Threads for Local {
    const LEVEL: fi_threading = FI_THREAD_DOMAIN;
}

/// Reads a slot of an operation table. `Err(NOSYS)` if table or slot is absent.
///
/// The first argument is a pointer to a table whose first member is its size in bytes.
macro_rules! slot {
    ($table:expr, $type:ident, $slot:ident) => {{
        let table: *mut $type = $table;
        let end = core::mem::offset_of!($type, $slot) + size_of::<usize>();
        if table.is_null() || (*table).size < end {
            Err(Error::NOSYS)
        } else {
            (*table).$slot.ok_or(Error::NOSYS)
        }
    }};
}
pub(crate) use slot;

/// A C object that begins with its `fid`.
///
/// # Safety
/// The struct is `repr(C)`, and its first member is a `fid`.
pub(crate) unsafe trait Object {}

macro_rules! objects {
    ($($name:ident)+) => { $(
        // SAFETY: the offset is checked here; the declarations are repr(C).
        unsafe impl Object for $name {}
        const _: () = assert!(core::mem::offset_of!($name, fid) == 0);
    )+ };
}

objects!(fid_fabric fid_domain fid_eq fid_cq fid_cntr fid_av fid_mr fid_ep fid_pep);

/// An open object. The owner calls [`Raw::close`] once, at its end.
pub(crate) struct Raw<F: Object>(NonNull<F>);

// SAFETY: a pointer. The types that use it restrict threads by their parameter [`Threads`].
unsafe impl<F: Object> Send for Raw<F> {}
// SAFETY: the same.
unsafe impl<F: Object> Sync for Raw<F> {}

impl<F: Object> Raw<F> {
    /// Takes the results of a call that opens an object.
    ///
    /// # Safety
    /// If `code` is 0, `raw` is NULL or an open object that no other value closes.
    pub unsafe fn opened(code: c_int, raw: *mut F) -> Result<Raw<F>> {
        status(code)?;
        NonNull::new(raw).map(Raw).ok_or(Error::OTHER)
    }

    #[inline]
    pub fn get(&self) -> *mut F {
        self.0.as_ptr()
    }

    #[inline]
    pub fn fid(&self) -> *mut fid {
        self.0.as_ptr().cast()
    }

    /// Closes the object. After a failure it still exists, and everything that it uses has to be kept for ever.
    ///
    /// # Safety
    /// The object is open, nothing depends on it, and it is not used afterwards.
    pub unsafe fn close(&mut self) -> Result {
        // SAFETY: the object is open.
        unsafe {
            let close = slot!((*self.fid()).ops, fi_ops, close)?;
            status(close(self.fid()))
        }
    }

    /// fi_ep_bind(3) and similar calls.
    ///
    /// # Safety
    /// `other` is open as long as this object, and belongs to the same domain or fabric.
    pub unsafe fn bind(&self, other: *mut fid, flags: u64) -> Result {
        // SAFETY: the object is open.
        unsafe {
            let bind = slot!((*self.fid()).ops, fi_ops, bind)?;
            status(bind(self.fid(), other, flags))
        }
    }

    /// fi_control(3).
    ///
    /// # Safety
    /// `arg` is what the page requires for `command` on such an object.
    pub unsafe fn control(&self, command: u32, arg: *mut c_void) -> Result {
        // SAFETY: the object is open.
        unsafe {
            let control = slot!((*self.fid()).ops, fi_ops, control)?;
            status(control(self.fid(), command as c_int, arg))
        }
    }

    /// Enables an endpoint.
    pub fn enable(&self) -> Result {
        // SAFETY: FI_ENABLE has no argument.
        unsafe { self.control(FI_ENABLE, null_mut()) }
    }

    /// Returns the descriptor of an object that was opened with FI_WAIT_FD.
    pub fn wait_fd(&self, wait: Wait) -> Result<Option<RawFd>> {
        if wait != Wait::Fd {
            return Ok(None);
        }
        let mut fd: c_int = -1;
        // SAFETY: fi_cq(3), fi_eq(3), fi_cntr(3): with FI_WAIT_FD the argument is an int.
        unsafe { self.control(FI_GETWAIT, (&raw mut fd).cast()) }?;
        match fd {
            0.. => Ok(Some(fd)),
            _ => Err(Error::OTHER),
        }
    }

    /// fi_trywait of fi_poll(3) for this object. Returns whether a thread may sleep on its descriptor.
    ///
    /// # Safety
    /// `fabric` is the open fabric of this object, which is a queue or a counter.
    pub unsafe fn try_wait(&self, fabric: *mut fid_fabric) -> Result<bool> {
        let mut fids = [self.fid()];
        // SAFETY: the fabric is open.
        let result = unsafe {
            let call = slot!((*fabric).ops, fi_ops_fabric, trywait)?;
            status(call(fabric, fids.as_mut_ptr(), 1))
        };
        match result {
            Ok(()) => Ok(true),
            Err(error) if error.is_again() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// How threads wait for a queue or counter. fi_cq(3), fi_eq(3), fi_cntr(3): `wait_obj`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// Not at all: threads poll (`FI_WAIT_NONE`).
    #[default]
    None,
    /// In calls that block, such as [`CompletionQueue::sread`](crate::CompletionQueue::sread) (`FI_WAIT_UNSPEC`).
    Blocking,
    /// In these calls or on a descriptor, for epoll and asynchronous runtimes (`FI_WAIT_FD`).
    Fd,
}

impl Wait {
    pub(crate) fn raw(self) -> fi_wait_obj {
        match self {
            Wait::None => FI_WAIT_NONE,
            Wait::Blocking => FI_WAIT_UNSPEC,
            Wait::Fd => FI_WAIT_FD,
        }
    }
}

/// Returns the text for a provider's number. Numbers of fi_errno(3) have a standard text; `text` returns the provider's
/// text for others. ofi_rxm of libfabric 1.17 crashes if its function for texts is called with a standard number.
pub(crate) fn provider_text(number: c_int, text: impl FnOnce() -> Option<*const c_char>) -> String {
    if number == 0 {
        return String::new();
    }
    if number.unsigned_abs() <= FI_ERRNO_MAX as u32 {
        return Error::new(number.saturating_abs()).to_string();
    }
    match text() {
        // SAFETY: the provider has returned a string.
        Some(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
        _ => String::new(),
    }
}

/// Converts a time limit to milliseconds, rounded up; `None` is -1, no limit.
pub(crate) fn milliseconds(limit: Option<Duration>) -> c_int {
    match limit {
        Some(limit) => c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX),
        None => -1,
    }
}

/// Returns the bytes that `fill` writes, and calls it again if the first buffer was too short.
///
/// `fill` gets a buffer and its length. It returns 0, or -FI_ETOOSMALL with the required length.
pub(crate) fn sized(fill: impl Fn(*mut c_void, *mut usize) -> c_int) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; LONGEST];
    for _ in 0..2 {
        let mut len = bytes.len();
        let answer = status(fill(bytes.as_mut_ptr().cast(), &raw mut len));
        let fits = len <= bytes.len();
        bytes.resize(len, 0);
        match answer {
            Ok(()) if fits => return Ok(bytes),
            Ok(()) | Err(Error::TOOSMALL) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::TOOSMALL)
}

/// Returns `address` followed by zeros: a provider that expects another format still reads memory of this process only.
pub(crate) fn padded(address: &[u8]) -> Vec<u8> {
    let mut padded = Vec::with_capacity(address.len() + LONGEST);
    padded.extend_from_slice(address);
    padded.resize(address.len() + LONGEST, 0);
    padded
}

/// No address format of fi_endpoint(3) except strings has more bytes, and strings end at a zero.
const LONGEST: usize = 256;

/// Calls a function that fills a buffer and returns an `ssize_t`.
#[inline]
pub(crate) fn filled(code: isize) -> Result<Option<usize>> {
    match count(code) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.is_again() => Ok(None),
        Err(error) => Err(error),
    }
}
