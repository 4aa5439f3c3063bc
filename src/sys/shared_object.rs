// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Shared objects that are opened while the program runs: dlopen(3), dladdr(3).
//!
//! Trusted with: the actions of their constructors. Objects are opened only if the program's environment requests it.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// An open shared object; closed on drop.
pub struct SharedObject(Library);

impl SharedObject {
    /// Opens an object by its path, or by a bare name that the system's loader searches for. All its symbols are
    /// resolved, and are not visible to other objects. On failure returns the loader's error text.
    pub fn open(file: &Path) -> Result<SharedObject, String> {
        // SAFETY: see the module's comment.
        let opened = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
        opened.map(SharedObject).map_err(|error| match error {
            libloading::Error::DlOpen { desc } => format!("{desc:?}"),
            other => other.to_string(),
        })
    }

    /// Returns the function of this name.
    ///
    /// # Safety
    /// The symbol is a function of type `F`, a function pointer, and is not called after the object is closed.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: promised by the caller.
        unsafe { self.0.get::<F>(name.to_bytes_with_nul()) }
            .ok()
            .map(|symbol| *symbol)
    }

    /// Keeps the object open until the process ends.
    pub fn keep(self) {
        std::mem::forget(self.0);
    }
}

/// Returns the function of this name from the symbols that are global in the process.
///
/// # Safety
/// As for [`SharedObject::function`].
pub unsafe fn global<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: promised by the caller.
    unsafe { Library::this().get::<F>(name.to_bytes_with_nul()) }
        .ok()
        .map(|symbol| *symbol)
}

/// Returns the file that contains a piece of code or static data.
pub fn file_of(address: *const ()) -> Option<PathBuf> {
    // SAFETY: integers and pointers, for which zero is valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr accepts any address; `found` is writable.
    if unsafe { libc::dladdr(address.cast(), &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a terminated string that is valid as long as the object is open.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}
