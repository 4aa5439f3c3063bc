// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handles that C holds at the moment. They are looked up only when handles come as arguments and when they are
//! closed, so that a stale or foreign handle is an error and not a crash.

use core::any::TypeId;
use core::ffi::CStr;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::foreign;
use crate::handle::{Inner, Kind};
use abi::fid;
use base::{Error, Result};

/// Calls on a handle whose type is unknown.
trait Live: Sync {
    fn trywait(&self) -> Result;
    fn poll(&self, ask: bool) -> Option<bool>;
    fn named(&self) -> Option<(&CStr, &CStr)>;
    fn wrapped(&self) -> Option<Inner>;
}

impl<T: Kind> Live for T {
    fn trywait(&self) -> Result {
        Kind::trywait(self)
    }
    fn poll(&self, ask: bool) -> Option<bool> {
        Kind::poll(self, ask)
    }
    fn named(&self) -> Option<(&CStr, &CStr)> {
        Kind::named(self)
    }
    fn wrapped(&self) -> Option<Inner> {
        Kind::wrapped(self)
    }
}

struct Entry {
    kind: TypeId,
    /// FI_CLASS_*, a copy of the head's. C may write other members of the head at any time, so the head is not read.
    class: u32,
    object: *const dyn Live,
    /// Set while a call that will take the object checks whether it can be closed.
    closing: bool,
}

// SAFETY: the object is Sync (`Kind` demands it) and outlives its entry.
unsafe impl Send for Entry {}

#[derive(Default)]
struct Handles {
    /// Never freed. Leak checkers find a `BTreeMap` by a pointer to the start of its memory and do not report it; a
    /// `HashMap` only has a pointer to the middle.
    entries: BTreeMap<usize, Entry>,
    /// Handles of objects with a name, in the order in which they were opened.
    named: Vec<usize>,
}

fn handles() -> MutexGuard<'static, Handles> {
    static HANDLES: OnceLock<Mutex<Handles>> = OnceLock::new();
    HANDLES
        .get_or_init(Default::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// `object` must stay valid until a claim of `head` is taken.
pub(super) unsafe fn insert<T: Kind>(head: *const fid, class: u32, object: *const T) {
    let entry = Entry {
        kind: TypeId::of::<T>(),
        class,
        object: object as *const dyn Live,
        closing: false,
    };
    // SAFETY: valid until then, as the caller promises.
    let has_name = unsafe { &*object }.named().is_some();
    let mut handles = handles();
    handles.entries.insert(head as usize, entry);
    if has_name {
        handles.named.push(head as usize);
    }
}

/// The right to take an object out of its handle. Only one exists at a time for a handle.
pub(super) struct Claim(usize);

/// Returns FI_BADF if there is no live handle of this kind, FI_EBUSY if another call has the claim.
pub(super) fn claim<T: Kind>(head: *const fid) -> Result<Claim> {
    let mut handles = handles();
    let entry = handles.entries.get_mut(&(head as usize));
    let entry = entry.filter(|entry| entry.kind == TypeId::of::<T>());
    match entry.ok_or(Error::BADF)? {
        entry if entry.closing => Err(Error::BUSY),
        entry => {
            entry.closing = true;
            Ok(Claim(head as usize))
        }
    }
}

impl Claim {
    /// Removes the handle; later lookups do not find it.
    pub(super) fn take(self) {
        let mut handles = handles();
        handles.entries.remove(&self.0);
        handles.named.retain(|named| *named != self.0);
    }

    /// Leaves the object in its handle.
    pub(super) fn give_up(self) {
        if let Some(entry) = handles().entries.get_mut(&self.0) {
            entry.closing = false;
        }
    }
}

pub(super) fn is<T: Kind>(head: *const fid) -> bool {
    handles()
        .entries
        .get(&(head as usize))
        .is_some_and(|entry| entry.kind == TypeId::of::<T>())
}

/// Whether this is a handle of any kind.
pub fn is_handle(head: *const fid) -> bool {
    handles().entries.contains_key(&(head as usize))
}

fn find(head: *const fid) -> Result<*const dyn Live> {
    match handles().entries.get(&(head as usize)) {
        Some(entry) => Ok(entry.object),
        None => Err(Error::INVAL),
    }
}

/// Returns the first opened handle of this class (FI_CLASS_FABRIC, FI_CLASS_DOMAIN), provider and name, as a number; 0
/// if there is none.
pub fn find_named(class: u32, provider: &CStr, name: &CStr) -> usize {
    let handles = handles();
    let found = handles.named.iter().find(|head| {
        let entry = handles.entries.get(*head);
        let entry = entry.filter(|entry| entry.class == class);
        // SAFETY: the object outlives its entry, which stays while the map is locked.
        entry.is_some_and(|entry| unsafe { &*entry.object }.named() == Some((provider, name)))
    });
    found.copied().unwrap_or(0)
}

/// Returns provider and name of a live handle of this class, given as a number; `None` if there is no such handle.
pub fn names_of(class: u32, head: usize) -> Option<(CString, CString)> {
    let handles = handles();
    let entry = handles.entries.get(&head);
    let entry = entry.filter(|entry| entry.class == class)?;
    // SAFETY: as in `find_named`.
    let names = unsafe { &*entry.object }.named();
    names.map(|(provider, name)| (provider.to_owned(), name.to_owned()))
}

/// Returns the object inside a wrapper; `None` if this is not a live wrapper.
pub fn wrapped(head: *const fid) -> Option<*mut fid> {
    let handles = handles();
    let entry = handles.entries.get(&(head as usize))?;
    // SAFETY: as in `find_named`.
    unsafe { &*entry.object }.wrapped().map(Inner::as_ptr)
}

/// fi_trywait(3) of one handle of this or another library.
///
/// # Safety
/// The handle must not be closed during the call.
pub unsafe fn trywait(head: *const fid) -> Result {
    let Ok(object) = find(head) else {
        // SAFETY: not this library's handle; promised by the caller.
        return match unsafe { foreign::has_events(head.cast_mut()) } {
            Some(true) => Err(Error::AGAIN),
            Some(false) => Ok(()),
            None => Err(Error::INVAL),
        };
    };
    // SAFETY: the object is alive (`find`) and not closed during the call.
    unsafe { &*object }.trywait()
}

/// fi_poll(3) of one handle of this or another library.
///
/// # Safety
/// As `trywait`.
pub unsafe fn poll(head: *const fid, ask: bool) -> Option<bool> {
    let Ok(object) = find(head) else {
        let other = head.cast_mut();
        // SAFETY: not this library's handle; promised by the caller. Checking a counter would consume its change.
        return unsafe {
            match ask {
                true => foreign::has_events(other),
                false => foreign::is_read(other).then_some(false),
            }
        };
    };
    // SAFETY: as in `trywait`.
    unsafe { &*object }.poll(ask)
}
