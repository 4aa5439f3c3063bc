// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that operations read and write: foreign memory with a promise of its owner ([`Span`], [`Context`]), or memory
//! of this library that is kept alive for them ([`Buffer`]).

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use super::cq::Done;
use super::domain::Domain;
use super::info::Info;
use super::mr::Mr;
use abi::*;
use base::{Error, Result};

/// Memory of one operation and the descriptor of its region. The promise of its maker is good for one operation, so a
/// span cannot be copied, and an operation that was posted leaves it empty:
///
/// ```compile_fail,E0507
/// fn copy(span: &client::Span) -> client::Span {
///     *span
/// }
/// ```
///
/// ```compile_fail,E0616
/// fn address(span: &client::Span) -> *mut core::ffi::c_void {
///     span.base
/// }
/// ```
///
/// ```compile_fail,E0308
/// fn keep(ep: &client::Ep, span: &client::Span, context: client::Context) {
///     let _ = ep.send(core::slice::from_ref(span), 0, context);
/// }
/// ```
///
/// ```
/// fn post(ep: &client::Ep, span: &mut client::Span, context: client::Context) {
///     let _ = ep.send(core::slice::from_mut(span), 0, context);
/// }
/// ```
pub struct Span {
    pub(crate) base: *mut c_void,
    pub(crate) len: usize,
    pub(crate) desc: *mut c_void,
}

impl Span {
    /// # Safety
    /// fi_msg(3), fi_rma(3), fi_atomic(3): `base[..len]` may be read by an operation that sends it, and read and
    /// written by one that receives into it, until the completion of that operation is read or its endpoint is closed.
    /// `desc` is NULL or the descriptor of a region over it, which stays open as long.
    #[inline]
    pub unsafe fn new(base: *mut c_void, len: usize, desc: *mut c_void) -> Span {
        Span { base, len, desc }
    }

    pub const fn empty() -> Span {
        Span {
            base: null_mut(),
            len: 0,
            desc: null_mut(),
        }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

/// Empties the spans of an operation if it was posted, because their memory belongs to that operation now.
#[inline]
pub(super) fn given(spans: &mut [Span], posted: Result) -> Result {
    if posted.is_ok() {
        spans.fill_with(Span::empty);
    }
    posted
}

/// The context of one operation, which takes it:
///
/// ```compile_fail,E0382
/// fn twice(ep: &client::Ep, context: client::Context) {
///     let _ = ep.send(&mut [], 0, context);
///     let _ = ep.send(&mut [], 0, context);
/// }
/// ```
///
/// ```compile_fail,E0603
/// fn forge() -> client::Context {
///     client::Context(core::ptr::null_mut())
/// }
/// ```
pub struct Context(pub(crate) *mut c_void);

impl Context {
    /// # Safety
    /// If the entry's mode has neither FI_CONTEXT nor FI_CONTEXT2 and the operation has no FI_TRIGGER: any number.
    /// Otherwise a struct as these require, which belongs to the provider until the operation completes.
    #[inline]
    pub unsafe fn new(context: *mut c_void) -> Context {
        Context(context)
    }
}

/// Memory of this library that may be registered for peers to read and write. There is no reference to its bytes: they
/// are copied.
pub struct Memory(NonNull<[u8]>);

// SAFETY: this value owns the memory, and all access to it is by volatile copies of bytes.
unsafe impl Send for Memory {}
// SAFETY: the same.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` zeros.
    pub fn new(len: usize) -> Arc<Memory> {
        let bytes = Box::into_raw(vec![0u8; len].into_boxed_slice());
        // A box is never NULL.
        Arc::new(Memory(NonNull::new(bytes).expect("a box")))
    }

    /// Returns its address, for peers that name it by its address.
    pub fn address(&self) -> u64 {
        self.0.addr().get() as u64
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn base(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// Copies `bytes` to offset `at`; bytes beyond the end are dropped.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate().take(self.len().saturating_sub(at)) {
            // SAFETY: within the memory.
            unsafe {
                self.0
                    .as_ptr()
                    .cast::<u8>()
                    .add(at + i)
                    .write_volatile(*byte)
            }
        }
    }

    /// Copies bytes from offset `at` on, up to the end of the memory.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        for (i, byte) in out
            .iter_mut()
            .enumerate()
            .take(self.len().saturating_sub(at))
        {
            // SAFETY: within the memory.
            *byte = unsafe { self.0.as_ptr().cast::<u8>().add(at + i).read_volatile() };
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from a box in `new`; regions over it hold the `Arc`.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A buffer for one message, after the bytes that belong to the provider (FI_MSG_PREFIX), and a context for its
/// operation. It is registered if the provider requires that. An operation takes the buffer, and its completion is
/// traded for it (`Ep::reclaim`), so it is not accessed meanwhile.
pub struct Buffer {
    region: Option<Arc<Mr>>,
    memory: Arc<Memory>,
    prefix: usize,
    context: NonNull<fi_context2>,
}

// SAFETY: this value owns memory and context.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `access`: rights of local operations. `requested_key`: for providers whose applications choose keys.
    pub fn new(
        domain: &Arc<Domain>,
        info: Info<'_>,
        len: usize,
        access: u64,
        requested_key: u64,
    ) -> Result<Buffer> {
        if access & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
            return Err(Error::INVAL);
        }
        let prefix = info.msg_prefix(access);
        let memory = Memory::new(prefix + len);
        let region = match info.wants_local_mr() {
            true => Some(Mr::register(domain, &memory, access, requested_key)?),
            false => None,
        };
        let context = Box::new(fi_context2 {
            internal: [null_mut(); 8],
        });
        Ok(Buffer {
            region,
            memory,
            prefix,
            context: NonNull::from(Box::leak(context)),
        })
    }

    /// Returns the bytes of the message.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the holder of the buffer has exclusive access: no operation is in flight, and no peer has rights.
        unsafe { &self.memory.0.as_ref()[self.prefix..] }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { &mut (&mut *self.memory.0.as_ptr())[self.prefix..] }
    }

    /// Returns the number by which completions of its operations identify it ([`Done::number`]).
    pub fn number(&self) -> usize {
        self.context.addr().get()
    }

    /// Returns the number of bytes before the message that belong to the provider. Lengths of operations and
    /// completions include them.
    pub fn prefix(&self) -> usize {
        self.prefix
    }

    /// Returns the first `len` bytes of the message, with the provider's bytes before it.
    pub(super) fn span(&self, len: usize) -> Result<Span> {
        let len = len.checked_add(self.prefix).ok_or(Error::INVAL)?;
        if len > self.memory.len() {
            return Err(Error::INVAL);
        }
        Ok(Span {
            base: self.memory.base(),
            len,
            desc: self.region.as_ref().map_or(null_mut(), |mr| mr.desc()),
        })
    }

    pub(super) fn context(&self) -> Context {
        Context(self.context.as_ptr().cast())
    }

    /// Returns the provider's bytes and the first `len` of the message, for an operation that reads them during the
    /// call.
    pub(super) fn head(&self, len: usize) -> Result<&[u8]> {
        let span = self.span(len)?;
        // SAFETY: as in `bytes`; `span` has checked the length.
        Ok(unsafe { &self.memory.0.as_ref()[..span.len] })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it came from a box in `new`; no operation is in flight.
        drop(unsafe { Box::from_raw(self.context.as_ptr()) });
    }
}

/// The buffers of an endpoint's operations in flight.
#[derive(Default)]
pub struct InFlight(Mutex<Vec<Buffer>>);

impl InFlight {
    /// Holds `buffer` while an operation uses it. `post` starts the operation; if it fails, the buffer is returned.
    pub(super) fn launch(
        &self,
        buffer: Buffer,
        post: impl FnOnce(Context) -> Result,
    ) -> core::result::Result<(), (Buffer, Error)> {
        let (context, number) = (buffer.context(), buffer.number());
        // Before the post: another thread may read the completion at once.
        self.with(|all| all.push(buffer));
        post(context).map_err(|error| {
            let buffer = self.land(number);
            (
                buffer.expect("an operation that was not posted has no completion"),
                error,
            )
        })
    }

    /// Returns the buffer of an operation that has ended.
    pub(super) fn reclaim(&self, done: Done) -> Option<Buffer> {
        self.land(done.number())
    }

    fn land(&self, context: usize) -> Option<Buffer> {
        self.with(|all| {
            let at = all.iter().position(|buffer| buffer.number() == context)?;
            Some(all.swap_remove(at))
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Vec<Buffer>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
