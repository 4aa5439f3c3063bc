// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_profile_ops`: fi_profile(3). Variables only: no object reports events.

use core::ffi::{CStr, c_int, c_void};

use crate::handle::{self, Kind};
use crate::ops::{answer, object, status};
use crate::user::{self, Room};
use abi::*;
use base::{Error, Result};

/// A number that can be read.
#[derive(Clone, Copy)]
pub struct Variable {
    pub id: u32,
    pub name: &'static CStr,
    pub desc: &'static CStr,
}

pub trait ProfileCalls: Kind<Head = fid_profile> {
    fn variables(&self) -> &'static [Variable];
    /// Returns the current value, or the value of the kept snapshot.
    fn read(&self, id: u32) -> Result<u64>;
    /// Keeps a snapshot of the values for all reads, or drops it.
    fn keep(&self, on: bool);
}

pub fn table<T: ProfileCalls>() -> &'static fi_profile_ops {
    &fi_profile_ops {
        size: size_of::<fi_profile_ops>(),
        reset: Some(reset),
        query_vars: Some(query_vars::<T>),
        query_events: Some(query_events),
        read_var: Some(read_var::<T>),
        reg_callback: Some(reg_callback),
        start_reads: Some(start_reads::<T>),
        end_reads: Some(end_reads::<T>),
    }
}

/// # Safety
/// `profile` must be NULL or open.
unsafe fn profile<'a, T: ProfileCalls>(profile: *mut fid_profile) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_profile>(profile) })
}

/// The variables show the current state, so there is nothing to reset.
unsafe extern "C" fn reset(_profile: *mut fid_profile, _flags: u64) {}

unsafe extern "C" fn query_vars<T: ProfileCalls>(
    p: *mut fid_profile,
    list: *mut fi_profile_desc,
    count: *mut usize,
) -> isize {
    // SAFETY: an open profile.
    let result = unsafe { profile::<T>(p) }.and_then(|profile| {
        let variables = profile.variables().iter().map(describe);
        // SAFETY: fi_profile(3): `list` is NULL or has room for `count` descriptions.
        unsafe { hand_out(variables, list, count) }
    });
    answer(result)
}

unsafe extern "C" fn query_events(
    _profile: *mut fid_profile,
    list: *mut fi_profile_desc,
    count: *mut usize,
) -> isize {
    // SAFETY: as for `query_vars`.
    answer(unsafe { hand_out(core::iter::empty(), list, count) })
}

fn describe(variable: &Variable) -> fi_profile_desc {
    fi_profile_desc {
        id: variable.id,
        datatype_sel: fi_primitive_type,
        datatype: fi_profile_desc_datatype {
            primitive: FI_UINT64,
        },
        flags: 0,
        size: size_of::<u64>(),
        name: variable.name.as_ptr(),
        desc: variable.desc.as_ptr(),
    }
}

/// fi_profile(3): writes as many descriptions as fit; `count` receives the total number.
///
/// # Safety
/// `list` must be NULL or have room for `count` descriptions; `count` must be NULL or readable and writable.
unsafe fn hand_out(
    all: impl ExactSizeIterator<Item = fi_profile_desc>,
    list: *mut fi_profile_desc,
    count: *mut usize,
) -> Result<usize> {
    if count.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: promised by the caller.
    let room = unsafe { count.replace(all.len()) };
    if list.is_null() {
        return Ok(0);
    }
    let mut written = 0;
    for description in all.take(room) {
        // SAFETY: `written` is less than `room`.
        unsafe { list.add(written).write(description) };
        written += 1;
    }
    Ok(written)
}

unsafe extern "C" fn read_var<T: ProfileCalls>(
    p: *mut fid_profile,
    id: u32,
    data: *mut c_void,
    size: *mut usize,
) -> isize {
    // SAFETY: an open profile.
    let result = unsafe { profile::<T>(p) }.and_then(|profile| {
        if data.is_null() || size.is_null() {
            return Err(Error::INVAL);
        }
        let value = profile.read(id)?.to_ne_bytes();
        // SAFETY: `size` is the number of bytes at `data`, and receives the size of the value.
        let room = unsafe { size.replace(value.len()) };
        if room < value.len() {
            return Err(Error::TOOSMALL);
        }
        // SAFETY: as above.
        Ok(unsafe { Room::new(data, room) }?.fill(&value))
    });
    answer(result)
}

/// fi_profile(3): returns FI_EINVAL for an event that is not in the list, which is empty.
unsafe extern "C" fn reg_callback(
    _profile: *mut fid_profile,
    _event: u32,
    _callback: Option<
        unsafe extern "C" fn(
            *mut fid_profile,
            *mut fi_profile_desc,
            *mut c_void,
            usize,
            *mut c_void,
        ) -> c_int,
    >,
    _context: *mut c_void,
) -> c_int {
    Error::INVAL.negative()
}

unsafe extern "C" fn start_reads<T: ProfileCalls>(p: *mut fid_profile, _flags: u64) {
    // SAFETY: an open profile.
    if let Ok(profile) = unsafe { profile::<T>(p) } {
        profile.keep(true);
    }
}

unsafe extern "C" fn end_reads<T: ProfileCalls>(p: *mut fid_profile, _flags: u64) {
    // SAFETY: an open profile.
    if let Ok(profile) = unsafe { profile::<T>(p) } {
        profile.keep(false);
    }
}

/// fi_open_ops with the name of these operations: the caller receives the address of the handle's member `ops`.
///
/// # Safety
/// `ops` must be valid for the result.
pub(super) unsafe fn open<T: Kind>(this: &T, ops: *mut *mut c_void, context: *mut c_void) -> c_int {
    // SAFETY: promised by the caller.
    status(unsafe {
        user::store(ops, || {
            let handle = this.profile(context)?;
            // The handle was just created.
            Ok((&raw mut (*handle).ops).cast())
        })
    })
}

/// The name of these operations for fi_open_ops.
pub(super) const NAME: &CStr = c"fi_profile_ops";
