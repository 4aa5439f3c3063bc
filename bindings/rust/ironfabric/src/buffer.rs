// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of operations: [`Buffer`].
//!
//! A buffer is one allocation that begins with the context of its operation, so that a completion leads to the buffer
//! without a search. `side` of the header says to whom it belongs: 0 is the holder of the [`Buffer`], another number is
//! one side of an endpoint that has an operation in flight with it. Posting and completing store that number and
//! nothing else. The list of all buffers of a domain is needed only where buffers are made and dropped, and where
//! operations end without a completion, because their endpoint was closed: fi_endpoint(3).

use core::any::Any;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, offset_of};
use core::ops::{Deref, DerefMut};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ironfabric_sys::*;

use crate::domain::{Domain, DomainInner};
use crate::error::{Error, Result};
use crate::handle::{Shared, Threads};
use crate::region::Mr;

/// The memory of one operation: bytes, their registration if the provider requires one, and the operation's context.
///
/// Operations take the buffer, and their completions give it back, so nothing can touch the bytes meanwhile. A buffer
/// derefs to the bytes of its message. After a receive these are the bytes that arrived. A buffer is made once and used
/// for many operations; making one may register memory, which is slow.
///
/// A buffer that is in flight stays allocated until its completion is read or its endpoint is closed.
///
/// ```
/// # use ironfabric::*;
/// # fn main() -> Result {
/// # let list = Hints::new().caps(Caps::MSG).endpoint_type(EndpointType::Rdm).provider("tcp")
/// #     .source("127.0.0.1", None).query()?;
/// # let info = list.first().unwrap();
/// # let domain = Domain::<Shared>::open(&Fabric::open(&info)?, &info)?;
/// let mut buffer = Buffer::new(&domain, 64)?;
/// buffer.copy_from(b"hello");
/// assert_eq!(&buffer[..], b"hello");
/// assert_eq!(buffer.capacity(), 64);
/// # Ok(())
/// # }
/// ```
///
/// Once an operation has taken it, it is gone:
///
/// ```compile_fail,E0382
/// # use ironfabric::*;
/// fn twice(endpoint: &Endpoint, buffer: Buffer, peer: Peer) {
///     let _ = endpoint.send(buffer, peer);
///     println!("{}", buffer.len());
/// }
/// ```
pub struct Buffer<T: Threads = Shared> {
    header: NonNull<Header>,
    model: PhantomData<T>,
}

// SAFETY: the buffer owns its header and bytes. `T` says whether other threads may use the objects of the domain.
unsafe impl<T: Threads + Send> Send for Buffer<T> {}
// SAFETY: shared references only read.
unsafe impl<T: Threads + Sync> Sync for Buffer<T> {}

/// Identifies an operation in flight, for [`Endpoint::cancel`](crate::Endpoint::cancel).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OperationId(pub(crate) usize);

/// The fields that operations use are one cache line, because large messages displace all lines of the first cache.
#[repr(C, align(64))]
pub(crate) struct Header {
    /// Belongs to the provider while the operation is in flight.
    context: UnsafeCell<fi_context2>,
    /// The side of an endpoint that has it in flight, or 0.
    side: AtomicU64,
    pub base: *mut u8,
    pub len: Cell<usize>,
    pub capacity: usize,
    pub desc: *mut c_void,
    token: Cell<u64>,
    domain: Arc<DomainInner>,
    /// Place in the list of the domain, whose lock protects it.
    place: Cell<usize>,
    region: Option<Mr>,
    storage: Storage,
}

const _: () = assert!(offset_of!(Header, context) == 0);
const _: () = assert!(offset_of!(Header, side) == 64 && offset_of!(Header, region) == 128);

enum Storage {
    /// A vector without elements and this capacity begins at `base`.
    Vec(usize),
    /// Keeps the bytes alive.
    Owner { _owner: Box<dyn Any + Send> },
}

impl<T: Threads> Buffer<T> {
    /// Makes a buffer of `capacity` zeros for messages of up to this many bytes. Its length is the capacity.
    pub fn new(domain: &Domain<T>, capacity: usize) -> Result<Buffer<T>> {
        Buffer::from_vec(domain, vec![0; capacity])
    }

    /// Makes a buffer of the bytes of a vector, which are not copied.
    pub fn from_vec(domain: &Domain<T>, bytes: Vec<u8>) -> Result<Buffer<T>> {
        let mut bytes = ManuallyDrop::new(bytes);
        let (base, len, room) = (bytes.as_mut_ptr(), bytes.len(), bytes.capacity());
        Buffer::made(domain, base, len, Storage::Vec(room))
    }

    /// Makes a buffer of other memory, for example mapped files or huge pages.
    ///
    /// # Safety
    /// `base[..len]` may be read and written until `owner` is dropped, by nothing but this buffer.
    pub unsafe fn from_raw_parts(
        domain: &Domain<T>,
        base: *mut u8,
        len: usize,
        owner: Box<dyn Any + Send>,
    ) -> Result<Buffer<T>> {
        Buffer::made(domain, base, len, Storage::Owner { _owner: owner })
    }

    fn made(domain: &Domain<T>, base: *mut u8, len: usize, storage: Storage) -> Result<Buffer<T>> {
        let mut header = Box::new(Header {
            context: UnsafeCell::new(fi_context2 {
                internal: [null_mut(); 8],
            }),
            side: AtomicU64::new(0),
            base,
            len: Cell::new(len),
            capacity: len,
            desc: null_mut(),
            token: Cell::new(0),
            domain: domain.0.clone(),
            place: Cell::new(0),
            region: None,
            storage,
        });
        if domain.0.mr_mode.contains(crate::MrMode::LOCAL) && len > 0 {
            let access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
            // SAFETY: the header owns the bytes, and closes the region before it frees them.
            let region = unsafe { Mr::register(&domain.0, base.cast(), len, access) }?;
            header.desc = region.desc();
            header.region = Some(region);
        }
        let header = NonNull::from(Box::leak(header));
        domain.0.buffers.add(header);
        Ok(Buffer {
            header,
            model: PhantomData,
        })
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the value owns the header. Other threads only access `side` and `place`.
        unsafe { self.header.as_ref() }
    }

    /// Returns the number of bytes that the buffer has room for.
    pub fn capacity(&self) -> usize {
        self.header().capacity
    }

    /// Sets the length of the message, up to the capacity.
    ///
    /// # Panics
    /// If `len` is more than the capacity.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "longer than the buffer");
        self.header().len.set(len);
    }

    /// Sets the message to a copy of `bytes`.
    ///
    /// # Panics
    /// If there are more bytes than the capacity.
    pub fn copy_from(&mut self, bytes: &[u8]) {
        self.set_len(bytes.len());
        self.copy_from_slice(bytes);
    }

    /// Returns the program's own number.
    pub fn token(&self) -> u64 {
        self.header().token.get()
    }

    /// Sets a number by which the program recognises the operation at its completion.
    pub fn set_token(&mut self, token: u64) {
        self.header().token.set(token);
    }

    /// Returns the name of the operation that takes the buffer next.
    pub fn id(&self) -> OperationId {
        OperationId(self.header.addr().get())
    }

    /// Returns the bytes as a vector, whose length is that of the message; `None` if it was not made of a vector.
    pub fn into_vec(self) -> Option<Vec<u8>> {
        let header = self.header();
        let Storage::Vec(room) = header.storage else {
            return None;
        };
        let (base, len) = (header.base, header.len.get());
        let mut header = self.detach();
        header.storage = Storage::Owner {
            _owner: Box::new(()),
        };
        if let Some(mut region) = header.region.take()
            && region.close().is_err()
        {
            // The provider may still use the bytes.
            return None;
        }
        // SAFETY: the parts of the vector, which nothing else owns now; `len` bytes of them are initialised.
        Some(unsafe { Vec::from_raw_parts(base, len, room) })
    }

    /// Takes the header out of the list of the domain.
    fn detach(self) -> Box<Header> {
        let this = ManuallyDrop::new(self);
        let header = this.header;
        // SAFETY: the value owns the header, which is in the list.
        unsafe {
            let domain = header.as_ref().domain.clone();
            domain.buffers.remove(header);
            Box::from_raw(header.as_ptr())
        }
    }

    /// Whether the buffer belongs to this domain.
    #[inline]
    pub(crate) fn belongs_to(&self, domain: &Arc<DomainInner>) -> bool {
        Arc::ptr_eq(&self.header().domain, domain)
    }

    /// Gives the buffer to an operation of `side`. Returns the context; the operation owns the buffer.
    #[inline]
    pub(crate) fn launch(self, side: u64) -> Flight<T> {
        let buffer = ManuallyDrop::new(self);
        // Relaxed: a reader of the completion is ordered behind this by the provider, and the walk in `abandoned` by
        // the endpoint, which that has seen closed.
        buffer.header().side.store(side, Ordering::Relaxed);
        Flight(buffer)
    }

    /// Takes the buffer back from the operation that a completion has this context of.
    ///
    /// # Safety
    /// `context` is NULL or of an operation that was launched with `T`, and the provider reports it once.
    // `is_recv` and `received` come from the completion. fi_cq(3): FI_RECV marks a receive.
    #[inline]
    pub(crate) unsafe fn landed(
        context: *mut c_void,
        is_recv: bool,
        received: usize,
    ) -> Option<Buffer<T>> {
        let header = NonNull::new(context.cast::<Header>())?;
        let buffer = Buffer {
            header,
            model: PhantomData,
        };
        let head = buffer.header();
        head.side.store(0, Ordering::Relaxed);
        if is_recv {
            head.len.set(received.min(head.capacity));
        }
        Some(buffer)
    }
}

/// A buffer that was given to an operation.
pub(crate) struct Flight<T: Threads>(ManuallyDrop<Buffer<T>>);

impl<T: Threads> Flight<T> {
    #[inline]
    pub fn header(&self) -> &Header {
        self.0.header()
    }

    #[inline]
    pub fn context(&self) -> *mut c_void {
        self.0.header.as_ptr().cast()
    }

    /// Takes the buffer back from an operation that was not posted.
    #[inline]
    pub fn refused(self) -> Buffer<T> {
        self.0.header().side.store(0, Ordering::Relaxed);
        ManuallyDrop::into_inner(self.0)
    }
}

impl<T: Threads> Deref for Buffer<T> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: the header owns these bytes, which were initialised when it was made. No operation is in flight,
        // because it would own the buffer, and peers have no rights to the region.
        unsafe { core::slice::from_raw_parts(header.base, header.len.get()) }
    }
}

impl<T: Threads> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let header = self.header();
        // SAFETY: as in `deref`; this reference is exclusive.
        unsafe { core::slice::from_raw_parts_mut(header.base, header.len.get()) }
    }
}

impl<T: Threads> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("token", &self.token())
            .finish()
    }
}

impl<T: Threads> Drop for Buffer<T> {
    fn drop(&mut self) {
        let again = Buffer::<T> {
            header: self.header,
            model: PhantomData,
        };
        drop(again.detach());
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        if let Some(mut region) = self.region.take()
            && region.close().is_err()
        {
            // The provider may still use the bytes, so they stay allocated.
            core::mem::forget(core::mem::replace(
                &mut self.storage,
                Storage::Owner {
                    _owner: Box::new(()),
                },
            ));
            return;
        }
        if let Storage::Vec(room) = self.storage {
            // SAFETY: the parts of a vector that `from_vec` has taken over.
            drop(unsafe { Vec::from_raw_parts(self.base, 0, room) });
        }
    }
}

/// Returns the numbers of the two sides of a new endpoint: sends, reads and writes; receives.
pub(crate) fn new_sides() -> [u64; 2] {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    let side = NEXT.fetch_add(2, Ordering::Relaxed);
    [side, side + 1]
}

/// The buffers of a domain.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Vec<NonNull<Header>>>);

// SAFETY: the list has the addresses of buffers that exist. Only `side` and, under the lock, `place` are accessed,
// until a header is abandoned, which gives it one owner.
unsafe impl Send for Registry {}
// SAFETY: the same.
unsafe impl Sync for Registry {}

impl Registry {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<NonNull<Header>>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, header: NonNull<Header>) {
        self.with(|all| {
            // SAFETY: the header exists, and the lock is held.
            unsafe { header.as_ref() }.place.set(all.len());
            all.push(header);
        });
    }

    /// # Safety
    /// The header is in the list.
    unsafe fn remove(&self, header: NonNull<Header>) {
        // SAFETY: headers in the list exist, and the lock is held.
        self.with(|all| unsafe { taken(all, header.as_ref().place.get()) });
    }

    /// Frees the buffers that these sides have in flight.
    ///
    /// # Safety
    /// The endpoints of the sides are closed, and all completions that they have left were read.
    pub unsafe fn abandoned(&self, sides: &[u64]) {
        let mut found = vec![];
        self.with(|all| {
            let mut at = 0;
            while let Some(header) = all.get(at) {
                // SAFETY: headers in the list exist.
                let side = unsafe { header.as_ref() }.side.load(Ordering::Relaxed);
                if side != 0 && sides.contains(&side) {
                    // SAFETY: as in `remove`.
                    found.push(unsafe { taken(all, at) });
                } else {
                    at += 1;
                }
            }
        });
        for header in found {
            // SAFETY: the operation owned the header, and has ended without a completion.
            drop(unsafe { Box::from_raw(header.as_ptr()) });
        }
    }

    /// Calls `f` if `id` is a buffer that is in flight on one of these sides. The buffer exists during the call.
    pub fn in_flight(
        &self,
        id: OperationId,
        sides: [u64; 2],
        f: impl FnOnce(*mut c_void) -> Result,
    ) -> Result {
        self.with(|all| {
            let found = all.iter().find(|header| header.addr().get() == id.0);
            let header = found.ok_or(Error::NOENT)?;
            // SAFETY: headers in the list exist.
            match sides.contains(&unsafe { header.as_ref() }.side.load(Ordering::Relaxed)) {
                true => f(header.as_ptr().cast()),
                false => Err(Error::NOENT),
            }
        })
    }

    /// Returns the number of buffers that exist.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.with(|all| all.len())
    }
}

/// Takes the header at a place out of the list.
///
/// # Safety
/// The caller holds the lock of the list, and all headers of the list exist.
unsafe fn taken(all: &mut Vec<NonNull<Header>>, place: usize) -> NonNull<Header> {
    let header = all.swap_remove(place);
    if let Some(moved) = all.get(place) {
        // SAFETY: promised by the caller.
        unsafe { moved.as_ref() }.place.set(place);
    }
    header
}
