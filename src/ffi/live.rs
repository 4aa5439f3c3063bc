// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handles that C holds at the moment. Asked only when handles come as arguments and when they are closed, so
//! that a stale or foreign handle is an error and not a crash.

use core::any::TypeId;
use core::ffi::CStr;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::fid;
use crate::base::{Error, Result};
use crate::ffi::object::Kind;

/// What can be asked of a handle without knowing its type.
trait Live: Sync {
    fn trywait(&self) -> Result;
    fn poll(&self, ask: bool) -> Option<bool>;
    fn named(&self) -> Option<(&CStr, &CStr)>;
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
}

struct Entry {
    kind: TypeId,
    object: *const dyn Live,
}

// SAFETY: the object is Sync (`Kind` demands it) and outlives its entry.
unsafe impl Send for Entry {}

#[derive(Default)]
struct Handles {
    /// Never freed. A `BTreeMap` is found by the start of its memory, which tells who looks for leaks at the end of a
    /// program that it is none; a `HashMap` knows only the middle.
    entries: BTreeMap<usize, Entry>,
    /// Those of objects with a name, in the order in which they were opened.
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
/// `object` must stay valid until `remove(head)`.
pub(super) unsafe fn insert<T: Kind>(head: *const fid, object: *const T) {
    let entry = Entry {
        kind: TypeId::of::<T>(),
        object: object as *const dyn Live,
    };
    // SAFETY: valid until `remove`, says the caller.
    let has_name = unsafe { &*object }.named().is_some();
    let mut handles = handles();
    handles.entries.insert(head as usize, entry);
    if has_name {
        handles.named.push(head as usize);
    }
}

pub(super) fn remove(head: *const fid) {
    let mut handles = handles();
    handles.entries.remove(&(head as usize));
    handles.named.retain(|named| *named != head as usize);
}

pub(super) fn is<T: Kind>(head: *const fid) -> bool {
    handles()
        .entries
        .get(&(head as usize))
        .is_some_and(|entry| entry.kind == TypeId::of::<T>())
}

/// Whether this is a handle, of whatever kind.
pub(super) fn is_handle(head: *const fid) -> bool {
    handles().entries.contains_key(&(head as usize))
}

fn find(head: *const fid) -> Result<*const dyn Live> {
    match handles().entries.get(&(head as usize)) {
        Some(entry) => Ok(entry.object),
        None => Err(Error::INVAL),
    }
}

/// The first opened handle of this class (FI_CLASS_FABRIC, FI_CLASS_DOMAIN), provider and name, as a number; 0 if there
/// is none.
pub fn find_named(class: u32, provider: &CStr, name: &CStr) -> usize {
    let handles = handles();
    let found = handles.named.iter().find(|head| {
        // SAFETY: the handle is live while the map is locked; `fclass` is written once, before it got here.
        let is_class = unsafe { (**head as *const fid).read() }.fclass == class as usize;
        let entry = handles.entries.get(*head).filter(|_| is_class);
        // SAFETY: the object outlives its entry.
        entry.is_some_and(|entry| unsafe { &*entry.object }.named() == Some((provider, name)))
    });
    found.copied().unwrap_or(0)
}

/// Provider and name of a live handle of this class that came as a number; `None` if there is no such handle.
pub fn names_of(class: u32, head: usize) -> Option<(CString, CString)> {
    let handles = handles();
    let entry = handles.entries.get(&head)?;
    // SAFETY: as in `find_named`.
    let is_class = unsafe { (head as *const fid).read() }.fclass == class as usize;
    // SAFETY: the object outlives its entry.
    let names = unsafe { &*entry.object }.named().filter(|_| is_class);
    names.map(|(provider, name)| (provider.to_owned(), name.to_owned()))
}

/// fi_trywait(3) of one handle.
///
/// # Safety
/// The handle must not be closed during the call.
pub unsafe fn trywait(head: *const fid) -> Result {
    let object = find(head)?;
    // SAFETY: the object is alive (`find`) and not closed during the call.
    unsafe { &*object }.trywait()
}

/// fi_poll(3) of one handle.
///
/// # Safety
/// As `trywait`.
pub unsafe fn poll(head: *const fid, ask: bool) -> Option<bool> {
    let object = find(head).ok()?;
    // SAFETY: as in `trywait`.
    unsafe { &*object }.poll(ask)
}
