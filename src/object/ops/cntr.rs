// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_cntr`: fi_cntr(3).

use core::ffi::c_int;

use crate::handle::{self, Kind};
use crate::ops::missing::Missing;
use crate::ops::{object, status};
use abi::*;
use base::Result;

pub trait CntrCalls: Kind<Head = fid_cntr> {
    fn read(&self) -> u64;
    fn read_err(&self) -> u64;
    fn add(&self, value: u64) -> Result;
    fn add_err(&self, value: u64) -> Result;
    fn set(&self, value: u64) -> Result;
    fn set_err(&self, value: u64) -> Result;
    /// Sleeps until the value reaches `threshold`; FI_EAVAIL when the error value changes first.
    fn wait(&self, threshold: u64, timeout: c_int) -> Result;
}

pub fn table<T: CntrCalls>() -> &'static fi_ops_cntr {
    &fi_ops_cntr {
        size: size_of::<fi_ops_cntr>(),
        read: Some(read::<T>),
        readerr: Some(readerr::<T>),
        add: Some(add::<T>),
        set: Some(set::<T>),
        wait: Some(wait::<T>),
        adderr: Some(adderr::<T>),
        seterr: Some(seterr::<T>),
        ..Missing::TABLE
    }
}

/// # Safety
/// `cntr` must be NULL or an open counter.
#[inline]
unsafe fn cntr<'a, T: CntrCalls>(cntr: *mut fid_cntr) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_cntr>(cntr) })
}

unsafe extern "C" fn read<T: CntrCalls>(c: *mut fid_cntr) -> u64 {
    // SAFETY: an open counter.
    unsafe { cntr::<T>(c) }.map_or(0, |c| c.read())
}

unsafe extern "C" fn readerr<T: CntrCalls>(c: *mut fid_cntr) -> u64 {
    // SAFETY: an open counter.
    unsafe { cntr::<T>(c) }.map_or(0, |c| c.read_err())
}

unsafe extern "C" fn add<T: CntrCalls>(c: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    status(unsafe { cntr::<T>(c) }.and_then(|c| c.add(value)))
}

unsafe extern "C" fn adderr<T: CntrCalls>(c: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    status(unsafe { cntr::<T>(c) }.and_then(|c| c.add_err(value)))
}

unsafe extern "C" fn set<T: CntrCalls>(c: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    status(unsafe { cntr::<T>(c) }.and_then(|c| c.set(value)))
}

unsafe extern "C" fn seterr<T: CntrCalls>(c: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: an open counter.
    status(unsafe { cntr::<T>(c) }.and_then(|c| c.set_err(value)))
}

unsafe extern "C" fn wait<T: CntrCalls>(c: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: an open counter.
    status(unsafe { cntr::<T>(c) }.and_then(|c| c.wait(threshold, timeout)))
}
