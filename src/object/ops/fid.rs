// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops`, the calls that every handle has: fi_close, fi_bind, fi_control, fi_open_ops (fi_fabric(3),
//! fi_control(3)).

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::handle::{self, Kind, WaitHandle};
use crate::ops::missing::Missing;
use crate::ops::{credits, object, profile, status, work};
use crate::user;
use abi::*;
use base::{Error, OpFlags, Result, Span};
use hmem::own_copies::Functions;

pub fn table<T: Kind>() -> &'static fi_ops {
    &fi_ops {
        close: Some(close::<T>),
        bind: Some(bind::<T>),
        control: Some(control::<T>),
        ops_open: Some(ops_open::<T>),
        ops_set: Some(ops_set::<T>),
        ..Missing::TABLE
    }
}

unsafe extern "C" fn close<T: Kind>(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the caller does not use the handle after success.
    status(unsafe { handle::close::<T>(fid) })
}

unsafe extern "C" fn bind<T: Kind>(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    if other.is_null() {
        return Error::INVAL.negative();
    }
    // SAFETY: fi_endpoint(3) and the other pages with a bind call: both handles stay open during it. fi_provider(3): an
    // object that is imported by fi_import_fid has its class, and belongs to the library until it is closed.
    status(unsafe { object(handle::get::<T, fid>(fid)).and_then(|this| this.import(other, flags)) })
}

unsafe extern "C" fn control<T: Kind>(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the handle stays open during the call.
    let Some(this) = (unsafe { handle::get::<T, fid>(fid) }) else {
        return Error::INVAL.negative();
    };
    // SAFETY: fi_control(3): `arg` has the type that the command requires.
    status(unsafe { dispatch(this, command, arg) })
}

/// # Safety
/// `arg` must be NULL or point to the type that fi_control(3) gives for `command`.
unsafe fn dispatch<T: Kind>(this: &T, command: c_int, arg: *mut c_void) -> Result {
    // SAFETY (all blocks below): the command determines the type of `arg`; NULL was excluded where it is read.
    match command as u32 {
        FI_ENABLE => this.enable(),
        // SAFETY: `arg` is NULL, or names a counter.
        FI_FLUSH_WORK => this.flush_work(unsafe { work::flushed(arg) }),
        _ if arg.is_null() => Err(Error::INVAL),
        FI_GETWAIT => {
            match this.wait_handle()? {
                // SAFETY: for FI_WAIT_FD `arg` is an int *.
                WaitHandle::Fd(fd) => unsafe {
                    arg.cast::<c_int>().write(fd);
                    Ok(())
                },
                // SAFETY: for FI_WAIT_POLLFD `arg` is a struct fi_wait_pollfd *.
                WaitHandle::PollFds(fds, index) => unsafe {
                    get_pollfd(&fds, index, &mut *arg.cast())
                },
                // SAFETY: for FI_WAIT_MUTEX_COND `arg` is a struct fi_mutex_cond *.
                WaitHandle::MutexCond { mutex, cond } => unsafe {
                    arg.cast::<fi_mutex_cond>()
                        .write(fi_mutex_cond { mutex, cond });
                    Ok(())
                },
            }
        }
        // SAFETY: `arg` is an enum fi_wait_obj *.
        FI_GETWAITOBJ => unsafe { user::store(arg.cast(), || this.wait_obj()) },
        FI_GET_FD => match this.wait_handle()? {
            // SAFETY: `arg` is an int *.
            WaitHandle::Fd(fd) => unsafe { user::store(arg.cast(), || Ok(fd)) },
            _ => Err(Error::NODATA),
        },
        FI_GETOPSFLAG => {
            // SAFETY: `arg` is a uint64_t * that selects the side.
            let side = OpFlags::from_bits_retain(unsafe { arg.cast::<u64>().read() });
            // SAFETY: as above, writable.
            unsafe { user::store(arg.cast(), || Ok(this.op_flags(side)?.bits())) }
        }
        FI_SETOPSFLAG => {
            // SAFETY: `arg` is a uint64_t *.
            let flags = unsafe { arg.cast::<u64>().read() };
            this.set_op_flags(OpFlags::from_bits_retain(flags))
        }
        FI_ALIAS => {
            // SAFETY: `arg` is a struct fi_alias *.
            let alias = unsafe { &*arg.cast::<fi_alias>() };
            let flags = OpFlags::from_bits_retain(alias.flags);
            // SAFETY: `alias.fid` receives the new handle.
            unsafe { user::store(alias.fid, || this.alias(flags)) }
        }
        // SAFETY: `arg` is an int *.
        FI_BACKLOG => this.set_backlog(unsafe { arg.cast::<c_int>().read() }),
        // SAFETY: `arg` is a struct fi_mr_modify *.
        FI_REFRESH => unsafe { refresh(this, arg.cast()) },
        // SAFETY: `arg` is a struct fi_mr_raw_attr *.
        FI_GET_RAW_MR => unsafe { get_raw(this, &*arg.cast::<fi_mr_raw_attr>()) },
        // SAFETY: `arg` is a struct fi_mr_map_raw *.
        FI_MAP_RAW_MR => unsafe { map_raw(this, &*arg.cast::<fi_mr_map_raw>()) },
        // SAFETY: `arg` is a uint64_t *.
        FI_UNMAP_KEY => this.unmap_key(unsafe { arg.cast::<u64>().read() }),
        // SAFETY: `arg` is a struct fi_deferred_work *.
        FI_QUEUE_WORK => this.queue_work(unsafe { work::read(arg.cast()) }?),
        FI_CANCEL_WORK => this.cancel_work(arg as usize),
        _ => Err(Error::NOSYS),
    }
}

/// FI_GETWAIT of FI_WAIT_POLLFD.
///
/// # Safety
/// `wait.fd` must be NULL or have room for `wait.nfds` elements.
unsafe fn get_pollfd(fds: &[c_int], index: u64, wait: &mut fi_wait_pollfd) -> Result {
    let room = core::mem::replace(&mut wait.nfds, fds.len());
    wait.change_index = index;
    if room < fds.len() {
        return Err(Error::TOOSMALL);
    }
    if wait.fd.is_null() {
        return Err(Error::INVAL);
    }
    for (i, &fd) in fds.iter().enumerate() {
        let pollfd = pollfd {
            fd,
            events: POLLIN,
            revents: 0,
        };
        // SAFETY: promised by the caller, up to the size of the array.
        unsafe { wait.fd.add(i).write(pollfd) };
    }
    Ok(())
}

/// fi_mr_refresh: reads only members that the struct has in all versions.
///
/// # Safety
/// `modify` must be readable, and its vector must have the given number of elements.
unsafe fn refresh<T: Kind>(this: &T, modify: *const fi_mr_modify) -> Result {
    // SAFETY: promised by the caller.
    let (iov, count, flags) = unsafe {
        let attr = &raw const (*modify).attr;
        ((*attr).anonymous.mr_iov, (*attr).iov_count, (*modify).flags)
    };
    if count > MAX_RANGES || (iov.is_null() && count > 0) {
        return Err(Error::INVAL);
    }
    // SAFETY: `count` elements.
    let pieces = (0..count).map(|i| unsafe { *iov.add(i) });
    let ranges: Vec<_> = pieces
        .map(|p| Span::new(p.iov_base as usize, p.iov_len))
        .collect();
    this.refresh(&ranges, flags)
}

/// Limit on ranges in one call; more are a caller's mistake.
const MAX_RANGES: usize = 1 << 16;

/// fi_mr_raw_attr: returns FI_ETOOSMALL, with the needed size, if the caller's buffer for the key is too small.
///
/// # Safety
/// The pointers in `raw` must be NULL or writable.
unsafe fn get_raw<T: Kind>(this: &T, raw: &fi_mr_raw_attr) -> Result {
    let (base, bytes) = this.raw_key()?;
    if raw.key_size.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: fi_mr(3): `key_size` points to the size of the buffer at `raw_key`.
    let room = unsafe { raw.key_size.replace(bytes.len()) };
    if room < bytes.len() {
        return Err(Error::TOOSMALL);
    }
    if raw.raw_key.is_null() || raw.base_addr.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: `raw_key` has `room` bytes, `base_addr` is a uint64_t *.
    unsafe {
        raw.raw_key
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        raw.base_addr.write(base);
    }
    Ok(())
}

/// fi_mr_map_raw.
///
/// # Safety
/// The pointers in `map` must be NULL or valid for their types.
unsafe fn map_raw<T: Kind>(this: &T, map: &fi_mr_map_raw) -> Result {
    // SAFETY: `raw_key` has `key_size` bytes.
    let raw = unsafe { user::bytes(map.raw_key.cast(), map.key_size) }?;
    // SAFETY: `key` receives the result.
    unsafe { user::store(map.key, || this.map_raw_key(raw)) }
}

unsafe extern "C" fn ops_open<T: Kind>(
    fid: *mut fid,
    name: *const c_char,
    flags: u64,
    ops: *mut *mut c_void,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the handle stays open during the call.
    let this = unsafe { handle::get::<T, _>(fid) };
    let Some(this) = this.filter(|_| !name.is_null() && !ops.is_null()) else {
        return Error::INVAL.negative();
    };
    // SAFETY: a terminated string.
    let name = unsafe { CStr::from_ptr(name) };
    if name == profile::NAME {
        // SAFETY: `ops` receives the result.
        return unsafe { profile::open(this, ops, context) };
    }
    // No object has other tables.
    let is_credits = name
        .to_bytes()
        .eq_ignore_ascii_case(credits::NAME.to_bytes());
    let Some(table) = this.credits().filter(|_| is_credits) else {
        return Error::NOSYS.negative();
    };
    if flags != 0 {
        return Error::BADFLAGS.negative();
    }
    // SAFETY: `ops` receives the result.
    status(unsafe {
        user::store(ops, || {
            Ok(core::ptr::from_ref(table).cast_mut().cast::<c_void>())
        })
    })
}

/// FI_SET_OPS_HMEM_OVERRIDE.
const OVERRIDE: &CStr = c"hmem_override_ops";

unsafe extern "C" fn ops_set<T: Kind>(
    fid: *mut fid,
    name: *const c_char,
    flags: u64,
    ops: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the handle stays open during the call.
    let this = unsafe { handle::get::<T, _>(fid) };
    let Some(this) = this.filter(|_| !name.is_null() && !ops.is_null()) else {
        return Error::INVAL.negative();
    };
    // SAFETY: a terminated string.
    let name = unsafe { CStr::from_ptr(name) };
    if name != OVERRIDE {
        return Error::NOSYS.negative();
    }
    if flags != 0 {
        return Error::BADFLAGS.negative();
    }
    // SAFETY: fi_domain(3): such a table begins with its size.
    let functions = unsafe {
        match ops.cast::<usize>().read_unaligned() < size_of::<fi_hmem_override_ops>() {
            true => None,
            false => {
                let table = ops.cast::<fi_hmem_override_ops>().read_unaligned();
                let both = table.copy_from_hmem_iov.zip(table.copy_to_hmem_iov);
                both.map(|(from, to)| Functions { from, to })
            }
        }
    };
    let set = |functions| this.copy_devices_by(functions);
    status(functions.ok_or(Error::INVAL).and_then(set))
}
