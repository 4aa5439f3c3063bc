// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions that create handles, of the libfabric.so.1 that the program runs with: fi_getinfo(3), fi_fabric(3).
//!
//! Functions that releases have changed are looked up while the program runs, because a program that is linked to one
//! of their versions does not start with an older libfabric. Returned structs have the layout of the loaded library;
//! later members are at the end of each, and the programs do not use them.

use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use abi::{fi_fabric_attr, fi_info, fid_fabric};
use client::library::{Getinfo, Library};

use crate::failure::Failure;

unsafe extern "C" {
    pub fn fi_version() -> u32;
    pub fn fi_fabric(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int;
}

pub struct Functions {
    pub getinfo: Getinfo,
    pub freeinfo: unsafe extern "C" fn(info: *mut fi_info),
    pub dupinfo: unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info,
}

/// The newest versions that the loaded library has.
pub fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        // SAFETY: the types are those of the manual pages, of every release.
        unsafe {
            Functions {
                getinfo: function(b"fi_getinfo\0"),
                freeinfo: function(b"fi_freeinfo\0"),
                dupinfo: function(b"fi_dupinfo\0"),
            }
        }
    })
}

/// # Safety
/// `F` is the type of the function.
unsafe fn function<F: Copy>(name: &[u8]) -> F {
    // SAFETY: the caller knows the type. The program is linked to the library, so it stays.
    let found = unsafe {
        libloading::os::unix::Library::this()
            .get::<F>(name)
            .map(|f| *f)
    };
    found.unwrap_or_else(|error| {
        eprintln!("[error] libfabric.so.1: {error}");
        std::process::exit(1)
    })
}

/// Makes the linked library the one that `client` calls.
pub fn install() {
    let functions = functions();
    let linked = Library {
        getinfo: functions.getinfo,
        freeinfo: functions.freeinfo,
        fabric: fi_fabric,
        unclosed: |what, error| {
            let failure = Failure::of(format!("closing {what}"), error);
            eprintln!("[error] {failure}");
        },
    };
    // SAFETY: the functions of one library, which frees what it returns; the programs allocate no lists of their own.
    unsafe { linked.install() };
}
