// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_cq`: fi_cq(3).

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use crate::handle::{self, Kind};
use crate::ops::missing::Missing;
use crate::ops::{answer, object, status};
use crate::user::{Room, Words};
use abi::*;
use base::text::strerror as strerror_text;
use base::{CompFlags, Error, Result};

/// A completion that failed, as fi_cq_readerr reports it.
#[derive(Clone, Debug, Default)]
pub struct CqErr {
    pub context: usize,
    pub flags: CompFlags,
    pub len: usize,
    pub buf: usize,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: i32,
    pub prov_errno: i32,
    pub err_data: Option<Box<[u8]>>,
    pub src_addr: u64,
    /// The text of fi_cq_strerror, if there is more to report than the text of the number.
    pub why: Option<Arc<CStr>>,
}

pub trait CqCalls: Kind<Head = fid_cq> {
    /// Returns the number of 64-bit words per entry of this queue's format.
    fn words(&self) -> usize;
    /// Returns the API version that the fabric was opened with; it determines the size of a `fi_cq_err_entry`.
    fn api_version(&self) -> u32;
    /// Reads up to `max` entries, and their sources if there is a buffer for them.
    fn read(&self, max: usize, out: Words<'_>, src: Option<Words<'_>>) -> Result<usize>;
    /// Does the same as `read`, but sleeps until there is an entry; `cond` is the threshold of entries to wait for.
    fn sread(
        &self,
        max: usize,
        out: Words<'_>,
        src: Option<Words<'_>>,
        cond: usize,
        timeout: c_int,
    ) -> Result<usize>;
    /// Passes the error at the head to `take`. Its pointers stay valid until the next call.
    fn read_err(&self, flags: u64, take: &mut dyn FnMut(&CqErr)) -> Result;
    fn signal(&self) -> Result;
    /// Drives progress of a queue whose entries go to its owner.
    fn drive(&self) -> Result;
    /// Returns more about the error that was read last, if it has this number. The queue keeps it until the next error.
    fn why(&self, prov_errno: c_int) -> Option<Arc<CStr>>;
}

/// Returns the table of a queue whose entries go to another provider: fi_peer(3) permits only calls that drive
/// progress.
pub fn driven_table<T: CqCalls>() -> &'static fi_ops_cq {
    &fi_ops_cq {
        read: Some(drive::<T>),
        strerror: Some(strerror::<T>),
        ..Missing::TABLE
    }
}

unsafe extern "C" fn drive<T: CqCalls>(cq: *mut fid_cq, _: *mut c_void, _: usize) -> isize {
    // SAFETY: fi_cq(3): an open queue.
    let cq = object(unsafe { handle::get::<T, fid_cq>(cq) });
    answer(cq.and_then(CqCalls::drive).map(|()| 0))
}

pub fn table<T: CqCalls>() -> &'static fi_ops_cq {
    &fi_ops_cq {
        size: size_of::<fi_ops_cq>(),
        read: Some(read::<T>),
        readfrom: Some(readfrom::<T>),
        readerr: Some(readerr::<T>),
        sread: Some(sread::<T>),
        sreadfrom: Some(sreadfrom::<T>),
        signal: Some(signal::<T>),
        strerror: Some(strerror::<T>),
        ..Missing::TABLE
    }
}

/// Returns the queue, and the caller's buffers for `count` entries of its format and as many addresses.
///
/// # Safety
/// As fi_cq_readfrom requires for its arguments.
#[inline]
unsafe fn arguments<'a, T: CqCalls>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src: *mut fi_addr_t,
) -> Result<(&'a T, Words<'a>, Option<Words<'a>>)> {
    // SAFETY: fi_cq(3): an open queue.
    let cq = object(unsafe { handle::get::<T, fid_cq>(cq) })?;
    if buf.is_null() && count > 0 {
        return Err(Error::INVAL);
    }
    // SAFETY: fi_cq(3): `buf` has room for `count` entries, `src_addr` for `count` addresses.
    Ok(unsafe {
        (
            cq,
            Words::new(buf, count.saturating_mul(cq.words())),
            (!src.is_null()).then(|| Words::new(src.cast(), count)),
        )
    })
}

unsafe extern "C" fn read<T: CqCalls>(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: fi_cq(3): an open queue.
    let Some(cq) = (unsafe { handle::get::<T, fid_cq>(cq) }) else {
        return Error::INVAL.negative() as isize;
    };
    if buf.is_null() && count > 0 {
        return Error::INVAL.negative() as isize;
    }
    // SAFETY: fi_cq(3): `buf` has room for `count` entries.
    let out = unsafe { Words::new(buf, count.saturating_mul(cq.words())) };
    answer(cq.read(count, out, None))
}

unsafe extern "C" fn readfrom<T: CqCalls>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut fi_addr_t,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    let arguments = unsafe { arguments::<T>(cq, buf, count, src_addr) };
    answer(arguments.and_then(|(cq, out, src)| cq.read(count, out, src)))
}

unsafe extern "C" fn sread<T: CqCalls>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    unsafe { sreadfrom::<T>(cq, buf, count, core::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom<T: CqCalls>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut fi_addr_t,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    let arguments = unsafe { arguments::<T>(cq, buf, count, src_addr) };
    // FI_CQ_COND_THRESHOLD: the pointer's value is the number of entries to wait for.
    let cond = cond as usize;
    answer(arguments.and_then(|(cq, out, src)| cq.sread(count, out, src, cond, timeout)))
}

unsafe extern "C" fn readerr<T: CqCalls>(
    cq: *mut fid_cq,
    buf: *mut fi_cq_err_entry,
    flags: u64,
) -> isize {
    // SAFETY: an open queue.
    let Some(cq) = (unsafe { handle::get::<T, fid_cq>(cq) }) else {
        return Error::INVAL.negative() as isize;
    };
    if buf.is_null() {
        return Error::INVAL.negative() as isize;
    }
    let api = cq.api_version();
    // SAFETY: `buf` is a fi_cq_err_entry of the caller's API version.
    let result = cq.read_err(flags, &mut |entry| unsafe { write_err(buf, entry, api) });
    answer(result.map(|()| 1))
}

/// Writes as much of the entry as the caller's headers define: 72 bytes below API 1.5, 80 below 1.20, otherwise 88.
/// `err_data` is copied, or points to bytes that the queue keeps until its next read.
///
/// # Safety
/// `buf` must be a writable `fi_cq_err_entry` of that API version.
unsafe fn write_err(buf: *mut fi_cq_err_entry, entry: &CqErr, api: u32) {
    let data = entry.err_data.as_deref().unwrap_or(&[]);
    // SAFETY: up to `err_data` the struct is the same in all versions; the rest is written by version.
    unsafe {
        (*buf).op_context = entry.context as *mut c_void;
        (*buf).flags = entry.flags.bits();
        (*buf).len = entry.len;
        (*buf).buf = entry.buf as *mut c_void;
        (*buf).data = entry.data;
        (*buf).tag = entry.tag;
        (*buf).olen = entry.olen;
        (*buf).err = entry.err;
        (*buf).prov_errno = entry.prov_errno;
        if api < API_1_5 {
            (*buf).err_data = lent(data);
            return;
        }
        if (*buf).err_data_size == 0 || (*buf).err_data.is_null() {
            (*buf).err_data = lent(data);
            (*buf).err_data_size = data.len();
        } else {
            let copied = Room::new((*buf).err_data, (*buf).err_data_size)
                .map(|mut room| room.fill(data))
                .unwrap_or(0);
            (*buf).err_data_size = copied;
        }
        if api >= API_1_20 {
            (*buf).src_addr = entry.src_addr;
        }
    }
}

/// Returns a C pointer to error data that the queue keeps: NULL if there is none.
pub(super) fn lent(data: &[u8]) -> *mut c_void {
    match data.is_empty() {
        true => core::ptr::null_mut(),
        false => data.as_ptr().cast_mut().cast(),
    }
}

pub(super) const API_1_5: u32 = 1 << 16 | 5;
const API_1_20: u32 = 1 << 16 | 20;

unsafe extern "C" fn signal<T: CqCalls>(cq: *mut fid_cq) -> c_int {
    // SAFETY: an open queue.
    status(object(unsafe { handle::get::<T, fid_cq>(cq) }).and_then(|cq| cq.signal()))
}

unsafe extern "C" fn strerror<T: CqCalls>(
    cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: an open queue.
    let Some(cq) = (unsafe { handle::get::<T, fid_cq>(cq) }) else {
        return core::ptr::null();
    };
    let why = cq.why(prov_errno);
    // All providers of this library use FI_ numbers as error codes. The queue keeps the text until its next error is
    // read.
    let text = why
        .as_deref()
        .map_or_else(|| strerror_text(prov_errno), CStr::as_ptr);
    // SAFETY: `text` is terminated; `buf` is NULL or has `len` bytes.
    unsafe { copy_text(CStr::from_ptr(text), buf, len) };
    text
}

/// Copies `text` to `buf`, cut if necessary but terminated.
///
/// # Safety
/// `buf` must be NULL or have room for `len` bytes.
pub(super) unsafe fn copy_text(text: &CStr, buf: *mut c_char, len: usize) {
    // SAFETY: promised by the caller.
    if let Ok(mut room) = unsafe { Room::new(buf.cast(), len) }
        && len > 0
    {
        let n = room.fill(&text.to_bytes()[..text.count_bytes().min(len - 1)]);
        // SAFETY: `n` is below `len`.
        unsafe { buf.add(n).write(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills bytes that must not be written, and `err_data` and its size before the call.
    const UNTOUCHED: u64 = 0x5a5a_5a5a_5a5a_5a5a;

    fn entry(data: &[u8]) -> CqErr {
        CqErr {
            context: 1,
            err: 265,
            err_data: (!data.is_empty()).then(|| data.into()),
            src_addr: 7,
            ..CqErr::default()
        }
    }

    /// Returns the 64-bit words of an entry of that version after the write; `err_data` and its size as given before.
    fn written(error: &CqErr, api: u32, err_data: u64, err_data_size: u64) -> [u64; 11] {
        let mut words = [UNTOUCHED; 11];
        (words[8], words[9]) = (err_data, err_data_size);
        // SAFETY: as large and as aligned as the newest version of the struct.
        unsafe { write_err(words.as_mut_ptr().cast(), error, api) };
        assert_eq!((words[0], words[7] as u32), (1, 265));
        words
    }

    fn version(major: u32, minor: u32) -> u32 {
        major << 16 | minor
    }

    #[test]
    fn an_entry_is_as_long_as_the_version_has_it() {
        for (api, words) in [
            (version(1, 0), 9),
            (version(1, 4), 9),
            (version(1, 5), 10),
            (version(1, 19), 10),
            (version(1, 20), 11),
            (version(2, 6), 11),
        ] {
            let before = match words {
                9 => UNTOUCHED,
                _ => 0,
            };
            let after = written(&entry(&[]), api, UNTOUCHED, before);
            assert_eq!(after[8], 0);
            assert_eq!(after[9], before);
            let source = if words == 11 { 7 } else { UNTOUCHED };
            assert_eq!(after[10], source);
        }
    }

    #[test]
    fn data_is_lent_before_1_5_whatever_stands_in_the_entry() {
        let error = entry(b"why");
        let lent = error.err_data.as_deref().unwrap().as_ptr() as u64;
        let after = written(&error, version(1, 4), UNTOUCHED, UNTOUCHED);
        assert_eq!(after[8..10], [lent, UNTOUCHED]);
    }

    #[test]
    fn data_is_lent_to_who_brings_no_room() {
        let error = entry(b"why");
        let lent = error.err_data.as_deref().unwrap().as_ptr() as u64;
        for (err_data, size) in [(UNTOUCHED, 0), (0, 0), (0, 16)] {
            let after = written(&error, version(1, 5), err_data, size);
            assert_eq!(after[8..10], [lent, 3]);
        }
    }

    #[test]
    fn data_is_copied_as_far_as_there_is_room() {
        for (data, size, copied) in [(&b"why"[..], 8, 3), (b"why", 2, 2), (b"", 8, 0)] {
            let mut room = [b'.'; 8];
            let at = room.as_mut_ptr() as u64;
            let after = written(&entry(data), version(1, 20), at, size);
            assert_eq!(after[8..10], [at, copied]);
            let copied = copied as usize;
            assert_eq!(room[..copied], data[..copied]);
            assert_eq!(room[copied..], b"........"[copied..]);
        }
    }
}
