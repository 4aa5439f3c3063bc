// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completion queues: fi_cq(3).

use core::cell::Cell;
use core::ffi::c_int;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, forget};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use bitflags::bitflags;
use ironfabric_sys::*;

use crate::buffer::Buffer;
use crate::domain::{Domain, DomainInner};
use crate::error::{Error, Result, count, status};
use crate::handle::{Raw, Shared, Threads, Wait, milliseconds, provider_text, slot};

bitflags! {
    /// Kind of an operation: fi_cq(3), `flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct CompletionFlags: u64 {
        /// A send.
        const SEND = FI_SEND;
        /// A receive.
        const RECV = FI_RECV;
        /// A message without tag.
        const MSG = FI_MSG;
        /// A message with a tag.
        const TAGGED = FI_TAGGED;
        /// An access to remote memory.
        const RMA = FI_RMA;
        /// A read of remote memory.
        const READ = FI_READ;
        /// A write to remote memory.
        const WRITE = FI_WRITE;
        /// A peer has read memory of this process.
        const REMOTE_READ = FI_REMOTE_READ;
        /// A peer has written memory of this process.
        const REMOTE_WRITE = FI_REMOTE_WRITE;
        /// [`Completion::data`] is data of the peer.
        const REMOTE_CQ_DATA = FI_REMOTE_CQ_DATA;
        const _ = !0;
    }
}

/// Attributes of a [`CompletionQueue`]: fi_cq(3), `fi_cq_attr`.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueOptions {
    /// Number of entries, at least; 0 leaves it to the provider.
    pub size: usize,
    /// How threads wait for completions.
    pub wait: Wait,
}

/// A queue that reports the ends of operations: fi_cq(3).
///
/// Reading needs exclusive access (`&mut`), so that every completion, and the buffer in it, has one reader. Threads
/// that read one queue put it into a mutex. Endpoints that are bound to the queue keep it open.
pub struct CompletionQueue<T: Threads = Shared> {
    pub(crate) inner: Arc<QueueInner>,
    /// Entries that were read from the provider and not yet by the program: `next..end`.
    entries: Box<[MaybeUninit<fi_cq_tagged_entry>; BATCH]>,
    sources: Box<[u64; BATCH]>,
    /// Whether `sources` belong to `entries`.
    has_sources: bool,
    /// Changed by an iterator, which borrows the queue exclusively.
    next: Cell<*const fi_cq_tagged_entry>,
    end: *const fi_cq_tagged_entry,
    model: PhantomData<T>,
}

// SAFETY: entries are numbers and addresses of buffers that belong to the queue. `T` says whether other threads may use
// the objects of the domain.
unsafe impl<T: Threads + Send> Send for CompletionQueue<T> {}
// SAFETY: the cells are changed only through an exclusive reference to the queue or to an iterator that holds one.
unsafe impl<T: Threads + Sync> Sync for CompletionQueue<T> {}

pub(crate) struct QueueInner {
    pub raw: Raw<fid_cq>,
    pub domain: Arc<DomainInner>,
    fd: Option<RawFd>,
    /// Sides of endpoints that were closed, whose buffers may still be in the queue.
    closed: Mutex<Vec<u64>>,
    has_closed: AtomicBool,
}

impl<T: Threads> CompletionQueue<T> {
    /// Opens a queue: fi_cq_open.
    pub fn open(domain: &Domain<T>, options: QueueOptions) -> Result<CompletionQueue<T>> {
        let mut attr = fi_cq_attr {
            size: options.size,
            flags: 0,
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: options.wait.raw(),
            signaling_vector: 0,
            wait_cond: FI_CQ_COND_NONE,
            wait_set: null_mut(),
            xpu_ctx: null_mut(),
        };
        let parent = domain.0.raw.get();
        let mut cq = null_mut();
        // SAFETY: the domain is open and kept; the attributes are read during the call; `cq` is written on success.
        let raw = unsafe {
            let call = slot!((*parent).ops, fi_ops_domain, cq_open)?;
            let code = call(parent, &raw mut attr, &raw mut cq, null_mut());
            Raw::opened(code, cq)?
        };
        let mut inner = QueueInner {
            raw,
            domain: domain.0.clone(),
            fd: None,
            closed: Mutex::new(vec![]),
            has_closed: AtomicBool::new(false),
        };
        // SAFETY: the queue is open. The calls that read it are checked once, here.
        unsafe {
            let ops = (*inner.raw.get()).ops;
            slot!(ops, fi_ops_cq, read)?;
            slot!(ops, fi_ops_cq, readfrom)?;
            slot!(ops, fi_ops_cq, readerr)?;
        }
        inner.fd = inner.raw.wait_fd(options.wait)?;
        Ok(CompletionQueue {
            inner: Arc::new(inner),
            entries: Box::new([const { MaybeUninit::uninit() }; BATCH]),
            sources: Box::new([FI_ADDR_NOTAVAIL; BATCH]),
            has_sources: false,
            next: Cell::new(null()),
            end: null(),
            model: PhantomData,
        })
    }

    /// Reads completions that are there, up to 16, and drives progress: fi_cq_read. The iterator is empty if there are
    /// none. Those that it was not asked for stay in the queue. A failed operation is an error of the call.
    ///
    /// ```no_run
    /// # use ironfabric::*;
    /// # fn read(queue: &mut CompletionQueue) -> Result {
    /// match queue.read() {
    ///     Ok(completions) => {
    ///         for completion in completions {
    ///             println!("{} bytes", completion.len());
    ///         }
    ///     }
    ///     Err(ReadError::Operation(failure)) => println!("failed: {failure}; buffer: {:?}", failure.buffer),
    ///     Err(ReadError::Queue(error)) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn read(&mut self) -> Result<Completions<'_, T>, ReadError<T>> {
        if self.next.get() == self.end {
            let (cq, at) = (self.inner.raw.get(), self.entries.as_mut_ptr().cast());
            self.has_sources = false;
            // SAFETY: the queue is open, and `open` has checked the slot; there is room for `BATCH` entries.
            let got = unsafe { (*(*cq).ops).read.unwrap_unchecked()(cq, at, BATCH) };
            self.filled(got)?;
        }
        Ok(Completions { queue: self })
    }

    /// Does the same, with [`Completion::source`]: fi_cq_readfrom. The endpoint has
    /// [`Caps::SOURCE`](crate::Caps::SOURCE).
    pub fn read_from(&mut self) -> Result<Completions<'_, T>, ReadError<T>> {
        if self.next.get() == self.end {
            let (cq, at) = (self.inner.raw.get(), self.entries.as_mut_ptr().cast());
            let sources = self.sources();
            // SAFETY: as in `read`; there is room for as many sources.
            let got = unsafe { (*(*cq).ops).readfrom.unwrap_unchecked()(cq, at, BATCH, sources) };
            self.filled(got)?;
        }
        Ok(Completions { queue: self })
    }

    /// Does the same as [`read_from`](Self::read_from), but waits for a completion: fi_cq_sreadfrom. `None` waits
    /// without limit. The iterator is empty if the time has passed, or after [`Waker::wake`]. The queue was opened with
    /// [`Wait::Blocking`] or [`Wait::Fd`].
    pub fn sread(&mut self, limit: Option<Duration>) -> Result<Completions<'_, T>, ReadError<T>> {
        if self.next.get() == self.end {
            let (cq, at) = (self.inner.raw.get(), self.entries.as_mut_ptr().cast());
            let sources = self.sources();
            // SAFETY: as in `read_from`; the condition is ignored.
            let got = unsafe {
                let call = slot!((*cq).ops, fi_ops_cq, sreadfrom)?;
                call(cq, at, BATCH, sources, null(), milliseconds(limit))
            };
            self.filled(got)?;
        }
        Ok(Completions { queue: self })
    }

    /// Returns the room for sources.
    fn sources(&mut self) -> *mut u64 {
        self.has_sources = true;
        self.sources.as_mut_ptr()
    }

    /// Takes the result of a read.
    #[inline]
    fn filled(&mut self, got: isize) -> Result<(), ReadError<T>> {
        if got > 0 {
            self.has(got as usize);
            return Ok(());
        }
        self.empty(got)
    }

    /// Takes a number of entries that were written. A provider that returns more than requested has overwritten other
    /// memory already.
    #[inline]
    fn has(&mut self, count: usize) {
        let first = self.entries.as_ptr().cast();
        self.next.set(first);
        self.end = first.wrapping_add(count);
    }

    /// Handles a read without entries.
    fn empty(&mut self, got: isize) -> Result<(), ReadError<T>> {
        match count(got) {
            Err(Error::AGAIN | Error::TIMEDOUT | Error::CANCELED | EINTR) | Ok(_) => {}
            Err(Error::AVAIL) => return failure(self).map_or(Ok(()), Err),
            Err(error) => return Err(error.into()),
        }
        // Relaxed: endpoints that were closed a moment ago are found by a later read.
        match self.inner.has_closed.load(Ordering::Relaxed) {
            true => self.sweep(),
            false => Ok(()),
        }
    }

    /// Frees the buffers of closed endpoints, unless there are completions to read first, which may be of these
    /// buffers.
    #[cold]
    fn sweep(&mut self) -> Result<(), ReadError<T>> {
        let sides = self.inner.take_closed();
        let (cq, at) = (self.inner.raw.get(), self.entries.as_mut_ptr().cast());
        let sources = self.sources();
        // The queue has to be empty after the endpoints were closed, which an earlier read does not prove.
        // SAFETY: as in `read_from`.
        let got = unsafe { (*(*cq).ops).readfrom.unwrap_unchecked()(cq, at, BATCH, sources) };
        let got = match count(got) {
            Err(Error::AGAIN) => {
                // SAFETY: the endpoints are closed. The queue is empty, and this is its only reader.
                unsafe { self.inner.domain.buffers.abandoned(&sides) };
                return Ok(());
            }
            got => got,
        };
        self.inner.closed(&sides);
        match got {
            Ok(got) => self.has(got),
            Err(Error::AVAIL) => return failure(self).map_or(Ok(()), Err),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns whether a thread may sleep on the descriptor of [`CompletionQueue::wait_fd`]: fi_trywait of fi_poll(3).
    /// `false`: read the queue first. The call is necessary each time before a thread sleeps.
    pub fn try_wait(&self) -> Result<bool> {
        if self.next.get() != self.end {
            return Ok(false);
        }
        // SAFETY: the domain keeps its fabric open.
        unsafe { self.inner.raw.try_wait(self.inner.domain.fabric.raw.get()) }
    }

    /// Returns the descriptor that becomes readable when there may be completions; `None` if the queue was not opened
    /// with [`Wait::Fd`]. It can be registered with epoll or tokio's `AsyncFd`, and keeps the queue open.
    pub fn wait_fd(&self) -> Option<WaitFd<T>> {
        let fd = self.inner.fd?;
        Some(WaitFd {
            fd,
            _queue: self.inner.clone(),
            model: PhantomData,
        })
    }

    /// Returns a handle by which another thread ends [`CompletionQueue::sread`].
    pub fn waker(&self) -> Waker<T> {
        Waker {
            queue: self.inner.clone(),
            model: PhantomData,
        }
    }
}

impl<T: Threads> Drop for CompletionQueue<T> {
    fn drop(&mut self) {
        // Frees the buffers of entries that the program has not read.
        Completions { queue: self }.for_each(drop);
    }
}

const EINTR: Error = Error::new(FI_EINTR);

impl QueueInner {
    /// Records sides of an endpoint that is closed.
    pub fn closed(&self, sides: &[u64]) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.extend_from_slice(sides);
        self.has_closed.store(true, Ordering::Relaxed);
    }

    fn take_closed(&self) -> Vec<u64> {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_closed.store(false, Ordering::Relaxed);
        core::mem::take(&mut closed)
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        // SAFETY: bound endpoints hold a reference to the queue, and this was the last one.
        if unsafe { self.raw.close() }.is_err() {
            forget(self.domain.clone());
            return;
        }
        let sides = self.take_closed();
        if !sides.is_empty() {
            // SAFETY: the endpoints and the queue are closed, and the queue's reader has dropped its entries.
            unsafe { self.domain.buffers.abandoned(&sides) };
        }
    }
}

/// Completions of one read. Dropping the iterator leaves the others in the queue.
pub struct Completions<'a, T: Threads = Shared> {
    /// Comes from an exclusive reference.
    queue: &'a CompletionQueue<T>,
}

impl<'a, T: Threads> Iterator for Completions<'a, T> {
    type Item = Completion<'a, T>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let queue = self.queue;
        let at = queue.next.get();
        if at == queue.end {
            return None;
        }
        queue.next.set(at.wrapping_add(1));
        // SAFETY: fi_cq(3): a read has written the entries before `end`, at most `BATCH`. They are not written again
        // while the queue is borrowed.
        let entry = unsafe { &*at };
        // SAFETY: the context of an operation of this crate, or NULL: fi_cq(3). The entry is taken once.
        let buffer =
            unsafe { Buffer::landed(entry.op_context, entry.flags & FI_RECV != 0, entry.len) };
        Some(Completion {
            buffer,
            entry,
            queue,
        })
    }
}

/// Reads the error at the head: fi_cq_readerr.
#[cold]
fn failure<T: Threads>(queue: &CompletionQueue<T>) -> Option<ReadError<T>> {
    let cq = queue.inner.raw.get();
    let mut detail = [0u8; 512];
    let mut entry = fi_cq_err_entry {
        op_context: null_mut(),
        flags: 0,
        len: 0,
        buf: null_mut(),
        data: 0,
        tag: 0,
        olen: 0,
        err: 0,
        prov_errno: 0,
        err_data: detail.as_mut_ptr().cast(),
        err_data_size: detail.len(),
        src_addr: FI_ADDR_NOTAVAIL,
    };
    // SAFETY: the queue is open, and `open` has checked the slot; the entry has the size of `err_data`.
    let got = unsafe { (*(*cq).ops).readerr.unwrap_unchecked()(cq, &raw mut entry, 0) };
    if !matches!(count(got), Ok(1..)) {
        return None;
    }
    let error = Error::new(entry.err);
    let text = provider_text(entry.prov_errno, || {
        // SAFETY: number and data come from this queue. Without a buffer the text belongs to the provider, and is
        // copied before the next read.
        unsafe {
            Some(slot!((*cq).ops, fi_ops_cq, strerror).ok()?(
                cq,
                entry.prov_errno,
                entry.err_data,
                null_mut(),
                0,
            ))
        }
    });
    let is_ours = entry.err_data == detail.as_mut_ptr().cast();
    let failure = OperationError {
        error,
        provider_errno: entry.prov_errno,
        provider_text: text,
        // SAFETY: as in `Completions::next`. fi_cq(3): NULL if the provider does not know the operation.
        buffer: unsafe { Buffer::landed(entry.op_context, entry.flags & FI_RECV != 0, entry.len) },
        flags: CompletionFlags::from_bits_retain(entry.flags),
        len: entry.len,
        excess: entry.olen,
        tag: entry.tag,
        data: entry.data,
        detail: if is_ours {
            detail[..entry.err_data_size.min(detail.len())].to_vec()
        } else {
            vec![]
        },
    };
    Some(ReadError::Operation(Box::new(failure)))
}

/// An operation that has ended well. Dropping it frees its buffer.
pub struct Completion<'a, T: Threads = Shared> {
    buffer: Option<Buffer<T>>,
    entry: &'a fi_cq_tagged_entry,
    queue: &'a CompletionQueue<T>,
}

impl<T: Threads> Completion<'_, T> {
    /// Returns the buffer of the operation. `None` if the completion belongs to no operation of this process: a write
    /// with data by a peer.
    #[inline]
    pub fn into_buffer(self) -> Option<Buffer<T>> {
        self.buffer
    }

    /// Returns the buffer of the operation, which the completion still owns.
    #[inline]
    pub fn buffer(&self) -> Option<&Buffer<T>> {
        self.buffer.as_ref()
    }

    /// Returns the kind of the operation.
    #[inline]
    pub fn flags(&self) -> CompletionFlags {
        CompletionFlags::from_bits_retain(self.entry.flags)
    }

    /// Whether a message was received.
    #[inline]
    pub fn is_recv(&self) -> bool {
        self.entry.flags & FI_RECV != 0
    }

    /// Returns the number of received bytes; undefined for other operations.
    #[inline]
    pub fn len(&self) -> usize {
        self.entry.len
    }

    /// Whether no bytes were received.
    pub fn is_empty(&self) -> bool {
        self.entry.len == 0
    }

    /// Returns the tag of a received tagged message.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.entry.tag
    }

    /// Returns the number that the peer has sent along, if any.
    #[inline]
    pub fn data(&self) -> Option<u64> {
        (self.entry.flags & FI_REMOTE_CQ_DATA != 0).then_some(self.entry.data)
    }

    /// Returns the sender, by its place in the address vector of the receiving endpoint: see [`AddressVector::peer`].
    /// `None` if the sender is not in the vector, or the completion was read by [`CompletionQueue::read`].
    ///
    /// [`AddressVector::peer`]: crate::AddressVector::peer
    pub fn source(&self) -> Option<u64> {
        let first = self.queue.entries.as_ptr().cast::<fi_cq_tagged_entry>();
        let at = (core::ptr::from_ref(self.entry).addr() - first.addr())
            / size_of::<fi_cq_tagged_entry>();
        let source = *self.queue.sources.get(at)?;
        (self.queue.has_sources && source != FI_ADDR_NOTAVAIL).then_some(source)
    }
}

/// Why a completion queue has no completions to read.
///
/// `?` in a function that returns an [`Error`] drops the buffer of a failed operation.
pub enum ReadError<T: Threads = Shared> {
    /// An operation has failed. The queue goes on.
    Operation(Box<OperationError<T>>),
    /// The queue cannot be read.
    Queue(Error),
}

impl<T: Threads> ReadError<T> {
    /// Returns the failed operation, if it is one.
    pub fn into_operation(self) -> Option<OperationError<T>> {
        match self {
            ReadError::Operation(failure) => Some(*failure),
            ReadError::Queue(_) => None,
        }
    }
}

impl<T: Threads> From<Error> for ReadError<T> {
    fn from(error: Error) -> ReadError<T> {
        ReadError::Queue(error)
    }
}

impl<T: Threads> From<ReadError<T>> for Error {
    fn from(error: ReadError<T>) -> Error {
        match error {
            ReadError::Operation(failure) => failure.error,
            ReadError::Queue(error) => error,
        }
    }
}

impl<T: Threads> fmt::Display for ReadError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Operation(failure) => fmt::Display::fmt(failure, f),
            ReadError::Queue(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl<T: Threads> fmt::Debug for ReadError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Operation(failure) => fmt::Debug::fmt(failure, f),
            ReadError::Queue(error) => fmt::Debug::fmt(error, f),
        }
    }
}

impl<T: Threads> std::error::Error for ReadError<T> {}

/// An operation that has failed: fi_cq(3), `fi_cq_err_entry`.
#[non_exhaustive]
pub struct OperationError<T: Threads = Shared> {
    /// Cause of the failure.
    pub error: Error,
    /// The provider's own number.
    pub provider_errno: c_int,
    /// The provider's text for it.
    pub provider_text: String,
    /// The buffer of the operation, unless the provider does not know the operation. Then the buffer is freed when its
    /// endpoint is closed.
    pub buffer: Option<Buffer<T>>,
    /// Kind of the operation.
    pub flags: CompletionFlags,
    /// Received bytes.
    pub len: usize,
    /// With [`Error::TRUNC`]: bytes of the message that had no room.
    pub excess: usize,
    /// Tag of a tagged message.
    pub tag: u64,
    /// Number that the peer has sent along.
    pub data: u64,
    /// Details in the provider's format.
    pub detail: Vec<u8>,
}

impl<T: Threads> fmt::Display for OperationError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if self.provider_errno != 0 && !self.provider_text.is_empty() {
            write!(
                f,
                " (provider: {}, {})",
                self.provider_errno, self.provider_text
            )?;
        }
        Ok(())
    }
}

impl<T: Threads> fmt::Debug for OperationError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationError")
            .field("error", &self.error)
            .field("provider_errno", &self.provider_errno)
            .field("provider_text", &self.provider_text)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl<T: Threads> std::error::Error for OperationError<T> {}

/// The descriptor of a completion queue.
pub struct WaitFd<T: Threads = Shared> {
    fd: RawFd,
    _queue: Arc<QueueInner>,
    model: PhantomData<T>,
}

impl<T: Threads> AsFd for WaitFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: fi_cq(3): the descriptor is open as long as the queue, which `self` keeps open.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl<T: Threads> AsRawFd for WaitFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

/// Ends [`CompletionQueue::sread`] in another thread.
pub struct Waker<T: Threads = Shared> {
    queue: Arc<QueueInner>,
    model: PhantomData<T>,
}

impl<T: Threads> Waker<T> {
    /// Wakes up the thread that reads the queue: fi_cq_signal.
    pub fn wake(&self) -> Result {
        let cq = self.queue.raw.get();
        // SAFETY: the queue is open.
        unsafe {
            let call = slot!((*cq).ops, fi_ops_cq, signal)?;
            status(call(cq))
        }
    }
}

impl<T: Threads> Clone for Waker<T> {
    fn clone(&self) -> Waker<T> {
        Waker {
            queue: self.queue.clone(),
            model: PhantomData,
        }
    }
}

/// Maximum of entries in one read.
const BATCH: usize = 16;
