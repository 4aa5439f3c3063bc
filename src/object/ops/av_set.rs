// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_av_set`: fi_av_set(3).

use core::ffi::c_int;

use crate::handle::{self, Kind, Other};
use crate::ops::{object, status};
use crate::user::store;
use abi::*;
use base::{Error, Result};

/// The content of a `struct fi_av_set_attr`.
#[derive(Debug)]
pub struct SetRequest {
    pub count: usize,
    pub start: u64,
    pub end: u64,
    pub stride: u64,
    /// Whether a key was given.
    pub keyed: bool,
    pub flags: u64,
    /// With FI_PEER: the members of the owner's set.
    pub members: Option<Vec<u64>>,
}

impl SetRequest {
    pub fn read(attr: &fi_av_set_attr) -> SetRequest {
        SetRequest {
            count: attr.count,
            start: attr.start_addr,
            end: attr.end_addr,
            stride: attr.stride,
            keyed: attr.comm_key_size > 0,
            flags: attr.flags,
            members: None,
        }
    }
}

/// Operation of one set on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    Union,
    Intersect,
    Diff,
}

pub trait SetCalls: Kind<Head = fid_av_set> {
    fn merge(&self, source: Other<'_>, how: Merge) -> Result;
    fn insert(&self, addr: u64) -> Result;
    fn remove(&self, addr: u64) -> Result;
    fn address(&self) -> u64;
}

pub fn table<T: SetCalls>() -> &'static fi_ops_av_set {
    &fi_ops_av_set {
        size: size_of::<fi_ops_av_set>(),
        set_union: Some(set_union::<T>),
        intersect: Some(intersect::<T>),
        diff: Some(diff::<T>),
        insert: Some(insert::<T>),
        remove: Some(remove::<T>),
        addr: Some(addr::<T>),
    }
}

/// # Safety
/// `set` must be NULL or an open set.
unsafe fn set<'a, T: SetCalls>(set: *mut fid_av_set) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_av_set>(set) })
}

/// # Safety
/// `dst` must be NULL or an open set, `src` stay open during the call.
unsafe fn merge<T: SetCalls>(dst: *mut fid_av_set, src: *const fid_av_set, how: Merge) -> c_int {
    // SAFETY: promised by the caller.
    status(unsafe {
        set::<T>(dst).and_then(|set| set.merge(Other::new(src.cast_mut().cast()), how))
    })
}

unsafe extern "C" fn set_union<T: SetCalls>(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: fi_av_set(3): open sets.
    unsafe { merge::<T>(dst, src, Merge::Union) }
}

unsafe extern "C" fn intersect<T: SetCalls>(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: fi_av_set(3): open sets.
    unsafe { merge::<T>(dst, src, Merge::Intersect) }
}

unsafe extern "C" fn diff<T: SetCalls>(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: fi_av_set(3): open sets.
    unsafe { merge::<T>(dst, src, Merge::Diff) }
}

unsafe extern "C" fn insert<T: SetCalls>(s: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: an open set.
    status(unsafe { set::<T>(s) }.and_then(|set| set.insert(addr)))
}

unsafe extern "C" fn remove<T: SetCalls>(s: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: an open set.
    status(unsafe { set::<T>(s) }.and_then(|set| set.remove(addr)))
}

unsafe extern "C" fn addr<T: SetCalls>(s: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int {
    // SAFETY: an open set; `coll_addr` receives the address.
    status(unsafe {
        set::<T>(s).and_then(|set| match coll_addr.is_null() {
            true => Err(Error::INVAL),
            false => store(coll_addr, || Ok(set.address())),
        })
    })
}
