// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_mr`: fi_mr(3).

use core::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

use crate::handle::{self, Kind, Other};
use crate::ops::{object, status};
use crate::user;
use abi::*;
use base::{Access, Error, Registered, Result, Secret};

/// One registration by any of the calls.
pub struct MrRequest<'a> {
    pub segments: Vec<Registered>,
    pub access: Access,
    pub offset: u64,
    pub requested_key: u64,
    pub flags: u64,
    pub context: usize,
    pub auth_key_size: usize,
    pub auth_key: Option<Secret>,
    /// With FI_AV_AUTH_KEY: the vector with the keys, and a handle or address in it.
    pub keys_of: Option<(Other<'a>, u64)>,
    /// The region that this one becomes a part of.
    pub base: Option<Other<'a>>,
    /// The kind of memory that the application names, and the number of its device.
    pub kind: hmem::Kind,
    pub device: i32,
    /// FI_MR_DMABUF: the memory is that of a buffer of another device. The segment has its addresses.
    pub buffer: Option<DeviceBuffer<'a>>,
}

/// A part of a dma-buf.
pub struct DeviceBuffer<'a> {
    pub fd: BorrowedFd<'a>,
    /// Bytes from its beginning.
    pub offset: u64,
}

pub trait MrCalls: Kind<Head = fid_domain> {
    fn api_version(&self) -> u32;
    fn iov_limit(&self) -> usize;
    /// Whether registrations specify the kind of memory (FI_HMEM).
    fn names_devices(&self) -> bool;
    /// Whether those may be memory of devices.
    fn takes_devices(&self) -> bool;
    /// Whether registrations may be of buffers of other devices (FI_MR_DMABUF).
    fn takes_buffers(&self) -> bool;
    /// Whether `fi_mr_auth_key` names keys (FI_AV_AUTH_KEY).
    fn has_keys_in_av(&self) -> bool;
    fn register(&self, request: MrRequest<'_>) -> Result<*mut fid_mr>;
    /// Runs after the handle was stored for the caller, so an event may report the registration now (FI_REG_MR).
    fn registered(&self, mr: usize, context: usize);
}

pub fn table<T: MrCalls>() -> &'static fi_ops_mr {
    &fi_ops_mr {
        size: size_of::<fi_ops_mr>(),
        reg: Some(reg::<T>),
        regv: Some(regv::<T>),
        regattr: Some(regattr::<T>),
    }
}

/// # Safety
/// `iov` must be NULL or have `count` elements, and their memory must stay valid until the region is closed.
unsafe fn segments<T: MrCalls>(
    domain: &T,
    iov: *const iovec,
    count: usize,
) -> Result<Vec<Registered>> {
    if iov.is_null() || count == 0 || count > domain.iov_limit() {
        return Err(Error::INVAL);
    }
    // SAFETY: promised by the caller.
    let piece = |i| unsafe {
        let piece = *iov.add(i);
        Registered::new(piece.iov_base.cast(), piece.iov_len)
    };
    Ok((0..count).map(piece).collect())
}

/// Registers and stores the handle; only then an event may report the registration.
///
/// # Safety
/// `mr` must be NULL or writable.
unsafe fn open<T: MrCalls>(domain: &T, mr: *mut *mut fid_mr, request: MrRequest<'_>) -> Result {
    let context = request.context;
    let mut handle = core::ptr::null_mut();
    // SAFETY: promised by the caller.
    unsafe {
        user::store(mr, || {
            handle = domain.register(request)?;
            Ok(handle)
        })?;
    }
    domain.registered(handle as usize, context);
    Ok(())
}

unsafe extern "C" fn reg<T: MrCalls>(
    fid: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let iov = iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    };
    // SAFETY: one element; the rest is the caller's promise, passed on.
    unsafe {
        regv::<T>(
            fid,
            &iov,
            1,
            access,
            offset,
            requested_key,
            flags,
            mr,
            context,
        )
    }
}

unsafe extern "C" fn regv<T: MrCalls>(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_mr(3): an open domain, `count` elements, `mr` receives the handle; the application keeps the memory
    // valid until it has closed the region.
    status(unsafe {
        object(handle::get::<T, _>(fid)).and_then(|domain| {
            // Only the attributes of fi_mr_regattr have such a buffer.
            if flags & FI_MR_DMABUF != 0 {
                return Err(Error::INVAL);
            }
            let request = MrRequest {
                segments: segments(domain, iov, count)?,
                access: Access::from_bits_retain(access),
                offset,
                requested_key,
                flags,
                context: context as usize,
                auth_key_size: 0,
                auth_key: None,
                keys_of: None,
                base: None,
                kind: hmem::Kind::Host,
                device: 0,
                buffer: None,
            };
            open(domain, mr, request)
        })
    })
}

unsafe extern "C" fn regattr<T: MrCalls>(
    fid: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: fi_mr(3): an open domain; `attr` is a fi_mr_attr of the fabric's API version; `mr` receives the handle.
    status(unsafe {
        object(handle::get::<T, _>(fid))
            .and_then(|domain| open(domain, mr, read_attr(domain, attr, flags)?))
    })
}

/// Reads only what the caller's headers define: 48 bytes before API 1.5, 64 before 1.9; the members after those concern
/// device memory and sub-regions.
///
/// Returns `NOSYS` for an unsupported kind of memory. Without FI_HMEM the kind is ignored; a part of a region has the
/// kind of the region.
///
/// # Safety
/// `attr` must be NULL or a `fi_mr_attr` of the domain's API version.
unsafe fn read_attr<'a, T: MrCalls>(
    domain: &T,
    attr: *const fi_mr_attr,
    flags: u64,
) -> Result<MrRequest<'a>> {
    if attr.is_null() {
        return Err(Error::INVAL);
    }
    let (iface, device) = match domain.names_devices() && domain.api_version() >= API_1_9 {
        // SAFETY: the members exist from API 1.9 on; all kinds of devices but reserved ones are numbers of this type.
        true => unsafe { ((*attr).iface, (*attr).device.cuda) },
        false => (FI_HMEM_SYSTEM, 0),
    };
    let base = match domain.api_version() >= API_2_0 {
        // SAFETY: the member exists from API 2.0 on.
        true => unsafe { (*attr).base_mr },
        false => core::ptr::null(),
    };
    let is_buffer = flags & FI_MR_DMABUF != 0;
    let kind = match hmem::Kind::of_iface(iface.0) {
        Some(kind) if kind == hmem::Kind::Host || domain.takes_devices() => kind,
        // The kind is that of the other region, or the adapter's matter.
        _ if is_buffer || !base.is_null() => hmem::Kind::Host,
        _ => return Err(Error::NOSYS),
    };
    // A buffer is no part of another region.
    if is_buffer && (!base.is_null() || !domain.takes_buffers()) {
        return Err(if base.is_null() {
            Error::NOSYS
        } else {
            Error::INVAL
        });
    }
    // SAFETY: the members exist from API 1.5 on; fi_mr(3): the key has the given size.
    let (auth_key_size, auth_key) = unsafe {
        match domain.api_version() >= API_1_5 {
            true => (
                (*attr).auth_key_size,
                auth_key((*attr).auth_key, (*attr).auth_key_size)?,
            ),
            false => (0, None),
        }
    };
    let named = domain.has_keys_in_av() && auth_key_size == size_of::<fi_mr_auth_key>();
    let keys_of = match &auth_key {
        Some(bytes) if named => {
            // SAFETY: the key has the size of the struct, which consists of integers and a pointer; the copy need not
            // be aligned. fi_mr(3): the vector is open.
            unsafe {
                let keys = bytes.as_ptr().cast::<fi_mr_auth_key>().read_unaligned();
                (!keys.av.is_null()).then(|| (Other::new(keys.av.cast()), keys.src_addr))
            }
        }
        _ => None,
    };
    // SAFETY: members are read one by one, first those that every version has.
    unsafe {
        let (segments, buffer) = match is_buffer {
            false => (
                segments(domain, (*attr).anonymous.mr_iov, (*attr).iov_count)?,
                None,
            ),
            true => device_buffer((*attr).anonymous.dmabuf, (*attr).iov_count)?,
        };
        Ok(MrRequest {
            segments,
            buffer,
            kind,
            device,
            access: Access::from_bits_retain((*attr).access),
            offset: (*attr).offset,
            requested_key: (*attr).requested_key,
            flags,
            context: (*attr).context as usize,
            auth_key_size,
            auth_key,
            keys_of,
            base: (!base.is_null()).then(|| Other::new(base.cast_mut().cast())),
        })
    }
}

/// Reads a buffer of another device. Its bytes have addresses that peers use, whether or not they are mapped here.
///
/// # Safety
/// `buffer` must be NULL or readable; its descriptor stays open during the call, and its memory until the region is
/// closed.
unsafe fn device_buffer<'a>(
    buffer: *const fi_mr_dmabuf,
    count: usize,
) -> Result<(Vec<Registered>, Option<DeviceBuffer<'a>>)> {
    if buffer.is_null() || count != 1 {
        return Err(Error::INVAL);
    }
    // SAFETY: promised by the caller.
    let fi_mr_dmabuf {
        fd,
        offset,
        len,
        base_addr,
    } = unsafe { *buffer };
    let skip = usize::try_from(offset).map_err(|_| Error::INVAL)?;
    if fd < 0 || base_addr.addr().checked_add(skip).is_none() {
        return Err(Error::INVAL);
    }
    // SAFETY: promised by the caller. The processor never accesses the segment: only transports that pass it to an
    // adapter get here (`takes_buffers`).
    let (segment, fd) = unsafe {
        let segment = Registered::new(base_addr.cast::<u8>().wrapping_add(skip), len);
        (segment, BorrowedFd::borrow_raw(fd))
    };
    Ok((vec![segment], Some(DeviceBuffer { fd, offset })))
}

/// # Safety
/// `key` must be NULL or have `size` bytes.
unsafe fn auth_key(key: *const u8, size: usize) -> Result<Option<Secret>> {
    // A longer key cannot be valid, because no provider accepts it.
    if key.is_null() || size == 0 || size > KEY_LIMIT {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    unsafe { user::bytes(key.cast(), size) }.map(|bytes| Some(bytes.into()))
}

const KEY_LIMIT: usize = 4096;
const API_1_5: u32 = 1 << 16 | 5;
const API_1_9: u32 = 1 << 16 | 9;
const API_2_0: u32 = 2 << 16;
