// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions of libfabric that are exported by name; all others are in the tables of objects.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::mem::transmute_copy;
use std::sync::OnceLock;

use crate::{fi_fabric_attr, fi_info, fi_type, fid_fabric};

/// The exported functions of one libfabric. It stays loaded until the process ends.
pub struct Library {
    /// fi_version(3): the major number in the upper 16 bits, the minor number in the lower ones.
    pub version: unsafe extern "C" fn() -> u32,
    /// fi_getinfo(3).
    pub getinfo: unsafe extern "C" fn(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int,
    /// fi_getinfo(3): frees a list with its strings and addresses.
    pub freeinfo: unsafe extern "C" fn(info: *mut fi_info),
    /// fi_getinfo(3): copies one entry; NULL gives an empty entry, as fi_allocinfo does.
    pub dupinfo: unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info,
    /// fi_fabric(3).
    pub fabric: unsafe extern "C" fn(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int,
    /// fi_errno(3): the text of a positive number.
    pub strerror: unsafe extern "C" fn(errno: c_int) -> *const c_char,
    /// fi_fabric(3): writes a value as text into a buffer. Absent from libraries before 1.14.
    pub tostr_r: Option<
        unsafe extern "C" fn(
            buf: *mut c_char,
            len: usize,
            data: *const c_void,
            datatype: fi_type,
        ) -> *mut c_char,
    >,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// No usable libfabric was found; the text comes from the dynamic linker.
#[derive(Clone, Debug)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

impl Library {
    /// Returns the libfabric of the process. The first call loads `libfabric.so.1` as the dynamic linker finds it,
    /// unless [`Library::open`] was called before. A failed call is repeated by the next one. With the feature
    /// `static` it is the one that is linked into the program.
    pub fn get() -> Result<&'static Library, LoadError> {
        match LIBRARY.get() {
            Some(library) => Ok(library),
            #[cfg(feature = "static")]
            None => Ok(LIBRARY.get_or_init(linked::library)),
            // SAFETY: every program that uses libfabric trusts the library of this name.
            #[cfg(not(feature = "static"))]
            None => unsafe { Library::open(c"libfabric.so.1") },
        }
    }

    /// Loads the library at `path` and makes it the libfabric of the process. If one is loaded already, it stays.
    ///
    /// # Safety
    /// The file is a libfabric whose functions do what their manual pages say.
    pub unsafe fn open(path: &CStr) -> Result<&'static Library, LoadError> {
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        // SAFETY: the initialisers of a libfabric, for which the caller answers, have no requirements.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(last_error());
        }
        // SAFETY: the fields have the types of the functions that their pages declare. Without a version, dlsym
        // returns the default one, whose structs are the newest of that library.
        let library = unsafe {
            Library {
                version: required(handle, c"fi_version")?,
                getinfo: required(handle, c"fi_getinfo")?,
                freeinfo: required(handle, c"fi_freeinfo")?,
                dupinfo: required(handle, c"fi_dupinfo")?,
                fabric: required(handle, c"fi_fabric")?,
                strerror: required(handle, c"fi_strerror")?,
                tostr_r: required(handle, c"fi_tostr_r").ok(),
            }
        };
        Ok(LIBRARY.get_or_init(|| library))
    }
}

/// The functions of an archive.
#[cfg(feature = "static")]
mod linked {
    use super::*;

    unsafe extern "C" {
        fn fi_version() -> u32;
        fn fi_getinfo(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int;
        fn fi_freeinfo(info: *mut fi_info);
        fn fi_dupinfo(info: *const fi_info) -> *mut fi_info;
        fn fi_fabric(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int;
        fn fi_strerror(errno: c_int) -> *const c_char;
        fn fi_tostr_r(
            buf: *mut c_char,
            len: usize,
            data: *const c_void,
            datatype: fi_type,
        ) -> *mut c_char;
    }

    pub fn library() -> Library {
        Library {
            version: fi_version,
            getinfo: fi_getinfo,
            freeinfo: fi_freeinfo,
            dupinfo: fi_dupinfo,
            fabric: fi_fabric,
            strerror: fi_strerror,
            tostr_r: Some(fi_tostr_r),
        }
    }
}

/// Returns the function `name`.
///
/// # Safety
/// `F` is the type of a function pointer, and that function has this type.
unsafe fn required<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, LoadError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is open, and the name is a string.
    let at = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if at.is_null() {
        return Err(last_error());
    }
    // SAFETY: a function of this type, as the caller promises; the sizes are equal.
    Ok(unsafe { transmute_copy(&at) })
}

/// Returns the dynamic linker's text for its last failure in this thread.
fn last_error() -> LoadError {
    // SAFETY: the text belongs to this thread and is copied before its next call.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    LoadError(text.unwrap_or_else(|| "a function is missing".into()))
}
