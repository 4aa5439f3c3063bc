// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registered memory: fi_mr(3).

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, forget};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;

use bitflags::bitflags;
use ironfabric_sys::*;

use crate::domain::{Domain, DomainInner};
use crate::error::{Error, Result};
use crate::handle::{Raw, Shared, Threads, slot};
use crate::info::MrMode;

bitflags! {
    /// Rights of peers for a window: fi_mr(3), `access`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct Access: u64 {
        /// Peers read it.
        const REMOTE_READ = FI_REMOTE_READ;
        /// Peers write it.
        const REMOTE_WRITE = FI_REMOTE_WRITE;
    }
}

/// A registration.
pub(crate) struct Mr {
    raw: Raw<fid_mr>,
    domain: Arc<DomainInner>,
    closed: bool,
}

impl Mr {
    /// # Safety
    /// `base[..len]` may be read and written, as `access` says, until the region is closed.
    pub unsafe fn register(
        domain: &Arc<DomainInner>,
        base: *mut c_void,
        len: usize,
        access: u64,
    ) -> Result<Mr> {
        let parent = domain.raw.get();
        let mut mr = null_mut();
        // SAFETY: the domain is open and kept; `mr` is written on success; the rest is promised by the caller.
        let raw = unsafe {
            let call = slot!((*parent).mr, fi_ops_mr, reg)?;
            let key = domain.next_key();
            let code = call(
                domain.raw.fid(),
                base,
                len,
                access,
                0,
                key,
                0,
                &raw mut mr,
                null_mut(),
            );
            Raw::opened(code, mr)?
        };
        Ok(Mr {
            raw,
            domain: domain.clone(),
            closed: false,
        })
    }

    pub fn desc(&self) -> *mut c_void {
        // SAFETY: an open region has its descriptor.
        unsafe { (*self.raw.get()).mem_desc }
    }

    fn key(&self) -> u64 {
        // SAFETY: an open region has its key.
        unsafe { (*self.raw.get()).key }
    }

    /// Closes the region. After a failure its memory has to stay allocated.
    pub fn close(&mut self) -> Result {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        // SAFETY: the region is open, and operations that use it are over: they own their buffers.
        let result = unsafe { self.raw.close() };
        if result.is_err() {
            forget(self.domain.clone());
        }
        result
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Memory that peers read and write: fi_mr(3), fi_rma(3).
///
/// Peers access it at any time, so there are no references to its bytes. [`Window::read`] and [`Window::write`] copy
/// them, and [`Window::into_vec`] ends the access of peers and returns them without a copy. Bytes that a peer writes
/// meanwhile may be read partly old and partly new; wait for a message or completion of the peer first.
pub struct Window<T: Threads = Shared> {
    region: Mr,
    base: *mut u8,
    len: usize,
    capacity: usize,
    model: PhantomData<T>,
}

// SAFETY: the value owns the memory; all access copies bytes. `T` says whether other threads may use the domain.
unsafe impl<T: Threads + Send> Send for Window<T> {}
// SAFETY: the same.
unsafe impl<T: Threads + Sync> Sync for Window<T> {}

impl<T: Threads> Window<T> {
    /// Makes a window of `len` zeros.
    pub fn new(domain: &Domain<T>, len: usize, access: Access) -> Result<Window<T>> {
        Window::from_vec(domain, vec![0; len], access)
    }

    /// Makes a window of the bytes of a vector, which are not copied. `INVAL`: it is empty.
    pub fn from_vec(domain: &Domain<T>, bytes: Vec<u8>, access: Access) -> Result<Window<T>> {
        if bytes.is_empty() {
            return Err(Error::INVAL);
        }
        let mut bytes = ManuallyDrop::new(bytes);
        let (base, len, capacity) = (bytes.as_mut_ptr(), bytes.len(), bytes.capacity());
        // SAFETY: the window owns the bytes, and closes the region before it frees them.
        let region = unsafe { Mr::register(&domain.0, base.cast(), len, access.bits()) };
        let region = region.inspect_err(|_| {
            // SAFETY: the vector was not dropped yet, and nothing uses its parts.
            drop(unsafe { Vec::from_raw_parts(base, len, capacity) });
        })?;
        Ok(Window {
            region,
            base,
            len,
            capacity,
            model: PhantomData,
        })
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `false`: a window has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns what peers need to access the whole window. Send it to them in a message.
    pub fn remote(&self) -> RemoteMemory {
        let by_address = self.region.domain.mr_mode.contains(MrMode::VIRT_ADDR);
        RemoteMemory {
            addr: if by_address {
                self.base.addr() as u64
            } else {
                0
            },
            key: self.region.key(),
            len: self.len as u64,
        }
    }

    /// Copies the bytes at offset `at` into `out`.
    ///
    /// # Panics
    /// If the range is not in the window.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let mut from = self.at(at, out.len());
        // SAFETY: all addresses are within the window, and words are aligned. The accesses are atomic, because a peer
        // may write the bytes now.
        unsafe {
            let (head, body, tail) = split(from, out.len());
            for byte in &mut out[..head] {
                *byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
                from = from.add(1);
            }
            for word in out[head..head + body].chunks_exact_mut(WORD) {
                word.copy_from_slice(
                    &AtomicU64::from_ptr(from.cast())
                        .load(Ordering::Relaxed)
                        .to_ne_bytes(),
                );
                from = from.add(WORD);
            }
            for byte in &mut out[head + body..head + body + tail] {
                *byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
                from = from.add(1);
            }
        }
    }

    /// Copies `bytes` to offset `at`.
    ///
    /// # Panics
    /// If the range is not in the window.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let mut to = self.at(at, bytes.len());
        // SAFETY: as in `read`.
        unsafe {
            let (head, body, tail) = split(to, bytes.len());
            for byte in &bytes[..head] {
                AtomicU8::from_ptr(to).store(*byte, Ordering::Relaxed);
                to = to.add(1);
            }
            for word in bytes[head..head + body].as_chunks::<WORD>().0 {
                AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                to = to.add(WORD);
            }
            for byte in &bytes[head + body..head + body + tail] {
                AtomicU8::from_ptr(to).store(*byte, Ordering::Relaxed);
                to = to.add(1);
            }
        }
    }

    /// Returns the address of a range, which is in the window.
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        let end = at.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "beyond the end of the window"
        );
        // SAFETY: within the window.
        unsafe { self.base.add(at) }
    }

    /// Returns the bytes without a copy.
    ///
    /// # Safety
    /// No peer writes to them while the reference exists.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the window owns the bytes; the rest is promised by the caller.
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }

    /// Returns the bytes without a copy.
    ///
    /// # Safety
    /// No peer accesses them while the reference exists.
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// Returns the address of the first byte, for code that synchronises with peers itself.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    /// Ends the access of peers, and returns the bytes.
    pub fn into_vec(self) -> Result<Vec<u8>> {
        let mut this = ManuallyDrop::new(self);
        let closed = this.region.close();
        // SAFETY: this is the last access to the region, which `this` does not drop.
        unsafe { core::ptr::drop_in_place(&raw mut this.region) };
        // If the region could not be closed, peers may still write, so that the bytes stay allocated.
        closed?;
        // SAFETY: the parts of the vector; no peer can access them any more.
        Ok(unsafe { Vec::from_raw_parts(this.base, this.len, this.capacity) })
    }
}

impl<T: Threads> Drop for Window<T> {
    fn drop(&mut self) {
        if self.region.close().is_ok() {
            // SAFETY: the parts of the vector; no peer can access them any more.
            drop(unsafe { Vec::from_raw_parts(self.base, self.len, self.capacity) });
        }
    }
}

const WORD: usize = size_of::<u64>();

/// Divides a range into bytes before the first aligned word, bytes of whole words, and bytes behind them.
fn split(base: *mut u8, len: usize) -> (usize, usize, usize) {
    let head = base.align_offset(WORD).min(len);
    let tail = (len - head) % WORD;
    (head, len - head - tail, tail)
}

/// A registration of memory that the crate does not own, for operations such as
/// [`Endpoint::send_raw`](crate::Endpoint::send_raw): fi_mr(3). Peers cannot access it.
pub struct Registration<T: Threads = Shared>(Mr, PhantomData<T>);

impl<T: Threads> Registration<T> {
    /// Registers memory.
    ///
    /// # Safety
    /// `base[..len]` exists until the value is dropped, and no operation that uses it is in flight then.
    pub unsafe fn new(domain: &Domain<T>, base: *mut u8, len: usize) -> Result<Registration<T>> {
        let access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
        // SAFETY: promised by the caller.
        unsafe { Mr::register(&domain.0, base.cast(), len, access) }
            .map(|region| Registration(region, PhantomData))
    }

    /// Returns the descriptor, for [`RawMemory`](crate::RawMemory).
    pub fn descriptor(&self) -> *mut c_void {
        self.0.desc()
    }
}

/// Memory of a peer: the address, key and length of a [`Window`], as numbers that a message can carry.
///
/// ```
/// use ironfabric::RemoteMemory;
/// let memory = RemoteMemory { addr: 0, key: 7, len: 100 };
/// assert_eq!(RemoteMemory::from_bytes(&memory.to_bytes()), memory);
/// assert_eq!(memory.slice(10, 20), Some(RemoteMemory { addr: 10, key: 7, len: 20 }));
/// assert_eq!(memory.slice(90, 20), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// Address of the first byte, or its offset in the region: fi_mr(3), `FI_MR_VIRT_ADDR`.
    pub addr: u64,
    /// Key of the region.
    pub key: u64,
    /// Number of bytes.
    pub len: u64,
}

impl RemoteMemory {
    /// Returns a part of the memory; `None` if it is not within.
    pub fn slice(self, at: u64, len: u64) -> Option<RemoteMemory> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| RemoteMemory {
            addr: self.addr.wrapping_add(at),
            key: self.key,
            len,
        })
    }

    /// Returns the numbers in little-endian order.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.addr.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads what [`RemoteMemory::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; 24]) -> RemoteMemory {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        RemoteMemory {
            addr: word(0),
            key: word(8),
            len: word(16),
        }
    }
}
