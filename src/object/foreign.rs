// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Objects of loadable providers in arrays that are passed to this library's objects: fi_trywait, fi_poll(3). They are
//! called through their own tables.
//!
//! Trusted with: a handle that is not this library's and not NULL is an open object of another library. This is assumed
//! only in a process that has opened a fabric of another library; elsewhere such a handle is stale, and an error.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::slots;
use abi::*;

/// Set after a fabric of another library was opened.
static EXPECTED: AtomicBool = AtomicBool::new(false);

/// From now on unknown handles are taken for objects of other libraries.
pub fn expect() {
    // Relaxed: a thread with such a handle got it after the fabric was opened, which orders the two.
    EXPECTED.store(true, Ordering::Relaxed);
}

/// Whether there is something to read; `None` for an object that cannot be another library's, or that has nothing to
/// read.
///
/// # Safety
/// The handle is not one of this library's. If it is another library's, it stays open during the call.
pub unsafe fn has_events(fid: *mut fid) -> Option<bool> {
    if fid.is_null() || !EXPECTED.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: an open object of the class in its head, as the caller promises.
    unsafe {
        match (*fid).fclass as u32 {
            FI_CLASS_CQ => Some(cq_has_events(fid.cast()) || fd_is_readable(fid)),
            FI_CLASS_EQ => Some(eq_has_events(fid.cast())),
            FI_CLASS_CNTR => Some(cntr_has_events(fid.cast())),
            _ => None,
        }
    }
}

/// Whether the object can be checked in this way.
///
/// # Safety
/// As `has_events`.
pub unsafe fn is_read(fid: *mut fid) -> bool {
    let expected = !fid.is_null() && EXPECTED.load(Ordering::Relaxed);
    // SAFETY: an open object of the class in its head, as the caller promises.
    expected
        && matches!(
            unsafe { (*fid).fclass } as u32,
            FI_CLASS_CQ | FI_CLASS_EQ | FI_CLASS_CNTR
        )
}

/// Reads zero entries, which drives progress and returns whether there is an entry.
///
/// # Safety
/// As `has_events`.
unsafe fn cq_has_events(cq: *mut fid_cq) -> bool {
    // SAFETY: promised by the caller.
    let read = unsafe { slots::cq::read(cq, null_mut(), 0) };
    read >= 0 || read == -FI_EAVAIL as ssize_t
}

/// # Safety
/// As `has_events`.
unsafe fn eq_has_events(eq: *mut fid_eq) -> bool {
    let (mut event, mut room) = (0, [0_u64; 64]);
    let len = size_of_val(&room);
    // SAFETY: promised by the caller; the event stays in the queue.
    let read =
        unsafe { slots::eq::read(eq, &raw mut event, room.as_mut_ptr().cast(), len, FI_PEEK) };
    read >= 0 || [-FI_EAVAIL, -FI_ETOOSMALL].contains(&(read as c_int))
}

/// Whether the counter has changed since the last call.
///
/// # Safety
/// As `has_events`.
unsafe fn cntr_has_events(cntr: *mut fid_cntr) -> bool {
    static SEEN: Mutex<BTreeMap<usize, (u64, u64)>> = Mutex::new(BTreeMap::new());
    // SAFETY: promised by the caller.
    let now = unsafe { (slots::cntr::read(cntr), slots::cntr::readerr(cntr)) };
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.insert(cntr.addr(), now).unwrap_or_default() != now
}

/// Whether the object's descriptor is readable; some objects signal only that way.
///
/// # Safety
/// As `has_events`.
unsafe fn fd_is_readable(fid: *mut fid) -> bool {
    let (mut wait_obj, mut fd): (fi_wait_obj, c_int) = (FI_WAIT_UNSPEC, -1);
    // SAFETY: promised by the caller; the arguments have the types that fi_control(3) gives for the commands.
    let fd = unsafe {
        let asked = slots::base::control(fid, FI_GETWAITOBJ as c_int, (&raw mut wait_obj).cast());
        if asked != 0 || wait_obj != FI_WAIT_FD {
            return false;
        }
        if slots::base::control(fid, FI_GETWAIT as c_int, (&raw mut fd).cast()) != 0 || fd < 0 {
            return false;
        }
        BorrowedFd::borrow_raw(fd)
    };
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}
