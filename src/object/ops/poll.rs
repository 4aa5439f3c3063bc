// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_poll` and `struct fi_ops_wait`: fi_poll(3).

use core::ffi::{c_int, c_void};

use crate::handle::{self, Kind};
use crate::live;
use crate::ops::{object, status};
use abi::*;
use base::{Error, Result};

pub trait PollCalls: Kind<Head = fid_poll> {
    /// `member` is the handle's address and `context` what the application opened it with.
    fn add(&self, member: usize) -> Result;
    fn del(&self, member: usize) -> Result;
    fn members(&self) -> Vec<usize>;
}

pub trait WaitCalls: Kind<Head = fid_wait> {
    fn wait(&self, timeout: c_int) -> Result;
}

pub fn table<T: PollCalls>() -> &'static fi_ops_poll {
    &fi_ops_poll {
        size: size_of::<fi_ops_poll>(),
        poll: Some(poll::<T>),
        poll_add: Some(poll_add::<T>),
        poll_del: Some(poll_del::<T>),
    }
}

pub fn wait_table<T: WaitCalls>() -> &'static fi_ops_wait {
    &fi_ops_wait {
        size: size_of::<fi_ops_wait>(),
        wait: Some(wait::<T>),
    }
}

unsafe extern "C" fn poll<T: PollCalls>(
    set: *mut fid_poll,
    context: *mut *mut c_void,
    count: c_int,
) -> c_int {
    // SAFETY: an open poll set.
    let set = match unsafe { handle::get::<T, fid_poll>(set) } {
        Some(set) if count >= 0 && (!context.is_null() || count == 0) => set,
        _ => return Error::INVAL.negative(),
    };
    let mut found = 0;
    for member in set.members() {
        let member = member as *const fid;
        // All are polled; those without room in the result keep their state for the next call.
        let ask = found < count;
        // SAFETY: fi_poll(3): members stay open while they are in the set; `live` tolerates those that did not.
        if unsafe { live::poll(member, ask) } == Some(true) && ask {
            // SAFETY: `context` has room for `count` pointers; the member is live.
            unsafe { context.add(found as usize).write((*member).context) };
            found += 1;
        }
    }
    found
}

unsafe extern "C" fn poll_add<T: PollCalls>(
    set: *mut fid_poll,
    member: *mut fid,
    flags: u64,
) -> c_int {
    // SAFETY: an open poll set.
    let set = unsafe { handle::get::<T, fid_poll>(set) };
    if flags != 0 {
        return Error::BADFLAGS.negative();
    }
    // SAFETY: the member stays open during the call.
    match unsafe { live::poll(member, false) } {
        Some(_) => status(object(set).and_then(|set| set.add(member as usize))),
        None => Error::INVAL.negative(),
    }
}

unsafe extern "C" fn poll_del<T: PollCalls>(
    set: *mut fid_poll,
    member: *mut fid,
    flags: u64,
) -> c_int {
    // SAFETY: an open poll set.
    let set = unsafe { handle::get::<T, fid_poll>(set) };
    if flags != 0 {
        return Error::BADFLAGS.negative();
    }
    status(object(set).and_then(|set| set.del(member as usize)))
}

unsafe extern "C" fn wait<T: WaitCalls>(set: *mut fid_wait, timeout: c_int) -> c_int {
    // SAFETY: an open wait set.
    status(object(unsafe { handle::get::<T, fid_wait>(set) }).and_then(|set| set.wait(timeout)))
}
