// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Protection domains and registered memory: ibv_alloc_pd(3), ibv_reg_mr(3).

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use super::abi::*;
use super::api::{api, api_here, api_to_destroy};
use super::device::Device;
use crate::memory::page_size;

/// A protection domain. Regions and queue pairs of one domain may be used together.
#[derive(Debug)]
pub struct ProtectionDomain {
    raw: NonNull<ibv_pd>,
    device: Device,
}

// SAFETY: functions that take one may be called by any thread.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    pub fn new(device: Device) -> io::Result<Arc<ProtectionDomain>> {
        // SAFETY: an open device.
        let raw = unsafe { (api_here()?.ibv_alloc_pd)(device.raw()) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(Arc::new(ProtectionDomain { raw, device }))
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// Whether regions can be parts of dma-bufs: refuses one without a descriptor for another reason.
    pub fn takes_buffers(&self) -> bool {
        let Some(register) = api().ibv_reg_dmabuf_mr else {
            return false;
        };
        // SAFETY: no descriptor is named, so there is no buffer.
        let raw = unsafe { register(self.raw(), 0, page_size(), 0, -1, 0) };
        match NonNull::new(raw) {
            None => {
                let code = io::Error::last_os_error().raw_os_error();
                !matches!(
                    code,
                    Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::ENOSYS)
                )
            }
            Some(region) => {
                // SAFETY: it was made above, and nothing uses it.
                unsafe { (api().ibv_dereg_mr)(region.as_ptr()) };
                true
            }
        }
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: everything that uses it holds it, so it is unused now.
        unsafe { (api.ibv_dealloc_pd)(self.raw()) };
    }
}

/// Rights of adapters to access a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access(u32);

impl Access {
    /// The adapter may only read it, for operations of this process.
    pub const READ: Access = Access(0);
    pub const LOCAL_WRITE: Access = Access(1);
    pub const REMOTE_WRITE: Access = Access(2);
    pub const REMOTE_READ: Access = Access(4);
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// Pages are fetched when they are accessed, instead of being locked.
    pub const ON_DEMAND: Access = Access(0x40);

    #[must_use]
    pub fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    pub fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// The rights as ibv_reg_mr(3) numbers them.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// Registered memory. Dropping it ends the adapter's access.
#[derive(Debug)]
pub struct Region {
    raw: NonNull<ibv_mr>,
    local_key: u32,
    remote_key: u32,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: as for `ProtectionDomain`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Registers memory under its own addresses.
    ///
    /// # Safety
    /// `base[..len]` is memory to which the adapter has the access `access` for this process, and for peers who know
    /// the key, until the region is dropped; without `LOCAL_WRITE` it is only read.
    pub unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> io::Result<Region> {
        let place: *mut c_void = base.cast();
        // SAFETY: promised by the caller.
        let raw = unsafe {
            (api().ibv_reg_mr_iova2)(
                domain.raw(),
                place,
                len,
                place.addr() as u64,
                access.0 as c_uint,
            )
        };
        Region::made(domain, raw)
    }

    /// Registers a part of a dma-buf, which the kernel keeps meanwhile: the descriptor may be closed afterwards.
    /// `ErrorKind::Unsupported` if the library, the kernel or the driver cannot.
    ///
    /// # Safety
    /// As for `register`, of the buffer's bytes from `offset` on. `base` is the address by which they are accessed.
    pub unsafe fn register_buffer(
        domain: &Arc<ProtectionDomain>,
        fd: BorrowedFd<'_>,
        offset: u64,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> io::Result<Region> {
        let register = api().ibv_reg_dmabuf_mr.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: promised by the caller.
        let raw = unsafe {
            register(
                domain.raw(),
                offset,
                len,
                base.addr() as u64,
                fd.as_raw_fd(),
                access.0 as c_int,
            )
        };
        Region::made(domain, raw)
    }

    fn made(domain: &Arc<ProtectionDomain>, raw: *mut ibv_mr) -> io::Result<Region> {
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the library made it.
        let (local_key, remote_key) = unsafe { ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey) };
        Ok(Region {
            raw,
            local_key,
            remote_key,
            _domain: domain.clone(),
        })
    }

    /// The key for operations of this process.
    pub fn local_key(&self) -> u32 {
        self.local_key
    }

    /// The key for peers.
    pub fn remote_key(&self) -> u32 {
        self.remote_key
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: made by the library, and not used any more.
        unsafe { (api.ibv_dereg_mr)(self.raw.as_ptr()) };
    }
}
