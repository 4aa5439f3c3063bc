// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The libfabric whose functions create the handles of this crate: fi_getinfo(3), fi_fabric(3). The library names its
//! own functions, a program those of the libfabric.so.1 that it is linked to.

use core::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use abi::{FI_ENOSYS, fi_fabric_attr, fi_info, fid_fabric};
use base::Error;
use base::log::{CORE, Subsys, log_warn};

/// fi_getinfo(3).
pub type Getinfo = unsafe extern "C" fn(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int;
type OpenFabric = unsafe extern "C" fn(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int;

/// Functions of one libfabric.
pub struct Library {
    pub getinfo: Getinfo,
    pub freeinfo: unsafe extern "C" fn(info: *mut fi_info),
    pub fabric: OpenFabric,
    /// Reports that an object could not be closed when its last handle was dropped.
    pub unclosed: fn(what: &str, error: Error),
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

impl Library {
    /// Used where nothing is installed, as in the tests of one layer: there are no providers.
    pub const NONE: Library = Library {
        getinfo,
        freeinfo,
        fabric,
        unclosed,
    };

    /// Makes this the libfabric of the process. A later call changes nothing.
    ///
    /// # Safety
    /// The functions do what their man pages say, and `freeinfo` accepts what `getinfo` returns and what this library
    /// allocates.
    pub unsafe fn install(self) {
        LIBRARY.get_or_init(|| self);
    }

    pub(crate) fn get() -> &'static Library {
        LIBRARY.get().unwrap_or(&Library::NONE)
    }
}

unsafe extern "C" fn getinfo(
    _: u32,
    _: *const c_char,
    _: *const c_char,
    _: u64,
    _: *const fi_info,
    _: *mut *mut fi_info,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn freeinfo(info: *mut fi_info) {
    // SAFETY: without a libfabric the list can only be one that this library has allocated.
    unsafe { base::info::release(info) }
}

unsafe extern "C" fn fabric(
    _: *mut fi_fabric_attr,
    _: *mut *mut fid_fabric,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

/// Writes a line into the log.
#[cold]
pub fn unclosed(what: &str, error: Error) {
    log_warn!(&CORE, Subsys::Core, "a {what} could not be closed: {error}");
}
