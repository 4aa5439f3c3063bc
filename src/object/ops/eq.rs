// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_eq`: fi_eq(3).

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::handle::{self, Kind};
use crate::ops::cq::{API_1_5, copy_text, lent};
use crate::ops::{answer, object};
use crate::user::{self, Room};
use abi::*;
use base::text::strerror as strerror_text;
use base::{Error, Result};

/// An event that failed, as fi_eq_readerr reports it.
#[derive(Clone, Debug, Default)]
pub struct EqErr {
    pub fid: usize,
    pub context: usize,
    pub data: u64,
    pub err: i32,
    pub prov_errno: i32,
    pub err_data: Option<Box<[u8]>>,
}

/// Flag of fi_eq_read for layered providers: returns only events that are in the queue already. The call drives no
/// progress, because other calls of the layer have just done that.
pub const EQ_READY_ONLY: u64 = 1 << 62;

pub trait EqCalls: Kind<Head = fid_eq> {
    fn api_version(&self) -> u32;
    /// The text of an error number of the provider; `None` if it is an FI_ number.
    fn text(&self, _number: i32) -> Option<&'static CStr> {
        None
    }
    /// Returns the event number and the number of copied bytes; FI_ETOOSMALL leaves the event in the queue.
    fn read(&self, out: &mut Room<'_>, flags: u64) -> Result<(u32, usize)>;
    fn sread(&self, out: &mut Room<'_>, timeout: c_int, flags: u64) -> Result<(u32, usize)>;
    /// Passes the error at the head to `take`. Its pointers stay valid until the next call.
    fn read_err(&self, flags: u64, take: &mut dyn FnMut(&EqErr)) -> Result;
    fn write(&self, event: u32, bytes: &[u8], flags: u64) -> Result<usize>;
}

pub fn table<T: EqCalls>() -> &'static fi_ops_eq {
    &fi_ops_eq {
        size: size_of::<fi_ops_eq>(),
        read: Some(read::<T>),
        readerr: Some(readerr::<T>),
        write: Some(write::<T>),
        sread: Some(sread::<T>),
        strerror: Some(strerror::<T>),
    }
}

/// # Safety
/// As fi_eq_read requires for its arguments.
unsafe fn read_by<T: EqCalls>(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    call: impl FnOnce(&T, &mut Room<'_>) -> Result<(u32, usize)>,
) -> Result<usize> {
    if event.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: an open queue, and a buffer of `len` bytes at `buf`.
    let (eq, mut room) = unsafe { (object(handle::get::<T, fid_eq>(eq))?, Room::new(buf, len)?) };
    let (number, copied) = call(eq, &mut room)?;
    // SAFETY: `event` is not NULL and writable.
    unsafe { event.write(number) };
    Ok(copied)
}

unsafe extern "C" fn read<T: EqCalls>(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    answer(unsafe { read_by::<T>(eq, event, buf, len, |eq, room| eq.read(room, flags)) })
}

unsafe extern "C" fn sread<T: EqCalls>(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    answer(unsafe {
        read_by::<T>(eq, event, buf, len, |eq, room| {
            eq.sread(room, timeout, flags)
        })
    })
}

unsafe extern "C" fn readerr<T: EqCalls>(
    eq: *mut fid_eq,
    buf: *mut fi_eq_err_entry,
    flags: u64,
) -> isize {
    // SAFETY: an open queue.
    let Some(eq) = (unsafe { handle::get::<T, fid_eq>(eq) }) else {
        return Error::INVAL.negative() as isize;
    };
    if buf.is_null() {
        return Error::INVAL.negative() as isize;
    }
    let api = eq.api_version();
    let result = eq.read_err(flags, &mut |entry| {
        // SAFETY: `buf` is the caller's entry; its layout never changed.
        let out = unsafe { &mut *buf };
        let data = entry.err_data.as_deref().unwrap_or(&[]);
        out.fid = entry.fid as fid_t;
        out.context = entry.context as *mut c_void;
        out.data = entry.data;
        out.err = entry.err;
        out.prov_errno = entry.prov_errno;
        // Before 1.5 callers did not set these members.
        let has_room = api >= API_1_5 && !out.err_data.is_null() && out.err_data_size > 0;
        if has_room {
            // SAFETY: fi_eq(3): the caller's buffer has `err_data_size` bytes (from API 1.5 on).
            let copied = unsafe { Room::new(out.err_data, out.err_data_size) }
                .map_or(0, |mut room| room.fill(data));
            out.err_data_size = copied;
        } else {
            out.err_data = lent(data);
            out.err_data_size = data.len();
        }
    });
    answer(result.map(|()| size_of::<fi_eq_err_entry>()))
}

unsafe extern "C" fn write<T: EqCalls>(
    eq: *mut fid_eq,
    event: u32,
    buf: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: an open queue; `buf` has `len` bytes.
    let arguments = unsafe {
        object(handle::get::<T, fid_eq>(eq)).and_then(|eq| Ok((eq, user::bytes(buf, len)?)))
    };
    answer(arguments.and_then(|(eq, bytes)| eq.write(event, bytes, flags)))
}

unsafe extern "C" fn strerror<T: EqCalls>(
    eq: *mut fid_eq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    if eq.is_null() {
        return core::ptr::null();
    }
    // SAFETY: an open queue.
    let queue = unsafe { object(handle::get::<T, fid_eq>(eq)) };
    let own = queue.ok().and_then(|queue| queue.text(prov_errno));
    let text = own.map_or_else(|| strerror_text(prov_errno), CStr::as_ptr);
    // SAFETY: `text` is terminated; `buf` is NULL or has `len` bytes.
    unsafe { copy_text(CStr::from_ptr(text), buf, len) };
    text
}
