// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Regions that a hook registers with a domain inside, for memory of the application: fi_mr(3).

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use super::call::Call;
use abi::*;
use base::{Error, Result};
use object::slots;

/// A domain inside, during a call on one of its endpoints.
#[derive(Clone, Copy)]
pub struct Domain<'a> {
    fid: NonNull<fid>,
    call: PhantomData<&'a ()>,
}

impl<'a> Call<'a> {
    /// Returns the domain of the endpoint of this call, or None if its regions have no kind of memory.
    pub(super) fn domain(&self) -> Option<Domain<'a>> {
        let fid = NonNull::new(core::ptr::with_exposed_provenance_mut(self.domain));
        let fid = fid.filter(|_| self.has_iface())?;
        Some(Domain {
            fid,
            call: PhantomData,
        })
    }
}

impl Domain<'_> {
    /// Returns the domain as a number, the same as `Call::object` of a call on it.
    pub fn object(self) -> usize {
        self.fid.addr().get()
    }

    /// Registers memory of a CUDA device, for operations of this process.
    pub fn register_cuda(
        self,
        base: usize,
        len: usize,
        ordinal: i32,
        requested_key: u64,
    ) -> Result<Region> {
        let piece = iovec {
            iov_base: core::ptr::with_exposed_provenance_mut(base),
            iov_len: len,
        };
        let attr = fi_mr_attr {
            anonymous: fi_mr_attr_anonymous {
                mr_iov: &raw const piece,
            },
            iov_count: 1,
            access: FI_SEND | FI_RECV | FI_READ | FI_WRITE,
            offset: 0,
            requested_key,
            context: null_mut(),
            auth_key_size: 0,
            auth_key: null_mut(),
            iface: FI_HMEM_CUDA,
            device: device(ordinal),
            hmem_data: null_mut(),
            page_size: 0,
            base_mr: null_mut(),
            sub_mr_cnt: 0,
        };
        let mut mr = null_mut();
        // SAFETY: fi_domain(3): the domain cannot be closed before its endpoints, and this value lives during a call on
        // one of them. The attributes are read during the call. Only operations that name the memory access it.
        let code =
            unsafe { slots::mr::regattr(self.fid.as_ptr(), &raw const attr, 0, &raw mut mr) };
        match NonNull::new(mr).filter(|_| code == 0) {
            Some(mr) => Ok(Region {
                mr,
                domain: self.fid,
            }),
            None if code == 0 => Err(Error::OTHER),
            None => Err(Error::new(code.saturating_abs())),
        }
    }
}

/// Sets all bytes of the union.
fn device(ordinal: i32) -> fi_mr_attr_device {
    let mut device = fi_mr_attr_device { reserved: 0 };
    device.cuda = ordinal as c_int;
    device
}

/// A region of a hook, which is closed on drop. Its descriptor goes into an operation while the region is borrowed
/// ([`Buffer::give`]), and is never a value of its own:
///
/// ```
/// use client::wrap::{Buffer, Region};
/// fn describe(buffer: &mut Buffer<'_>, region: Region) {
///     buffer.give(&region);
/// }
/// ```
///
/// ```compile_fail,E0624
/// use client::wrap::{Buffer, Region};
/// fn describe(buffer: &mut Buffer<'_>, region: Region) {
///     let descriptor = region.descriptor();
///     drop(region);
/// }
/// ```
pub struct Region {
    mr: NonNull<fid_mr>,
    domain: NonNull<fid>,
}

// SAFETY: the object inside is used through its tables only, by threads that call its domain anyway.
unsafe impl Send for Region {}
// SAFETY: only its descriptor is read through a shared reference, which does not change.
unsafe impl Sync for Region {}

/// The descriptor of a region in operations of its domain. It is valid while the region is open.
pub(super) struct Descriptor(pub(super) NonNull<c_void>);

impl Region {
    /// Returns the descriptor; `None` if operations on this memory need none.
    fn descriptor(&self) -> Option<Descriptor> {
        // SAFETY: open until `drop`.
        NonNull::new(unsafe { self.mr.as_ref() }.mem_desc).map(Descriptor)
    }
}

/// A local buffer without a descriptor, of the operation that a call is about to post.
pub struct Buffer<'a> {
    domain: Domain<'a>,
    address: usize,
    len: usize,
    given: Option<Descriptor>,
}

impl<'a> Buffer<'a> {
    pub(super) fn new(domain: Domain<'a>, address: usize, len: usize) -> Buffer<'a> {
        Buffer {
            domain,
            address,
            len,
            given: None,
        }
    }

    /// Returns the domain of the operation.
    pub fn domain(&self) -> Domain<'a> {
        self.domain
    }

    pub fn address(&self) -> usize {
        self.address
    }

    /// Returns the number of bytes. That of an atomic buffer is a number of elements, so it may have more bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Gives the buffer the descriptor of a region, if it needs one and the region is one of its domain. The region
    /// must stay open until the operation has completed.
    pub fn give(&mut self, region: &Region) {
        self.given = region
            .descriptor()
            .filter(|_| region.domain == self.domain.fid);
    }

    pub(super) fn given(self) -> Option<Descriptor> {
        self.given
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is open, and only this value closes it. Its domain is open too, because a domain cannot be
        // closed before its regions.
        let _ = unsafe { slots::base::close(self.mr.as_ptr().cast()) };
    }
}
