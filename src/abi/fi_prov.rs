// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/providers/fi_prov.h>`: Declaration of a provider: fi_provider(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use super::fabric::{fi_context, fi_fabric_attr, fi_info, fid_fabric};

/// A provider. fi_provider(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_provider {
    /// Version of the provider, FI_VERSION().
    pub version: u32,
    /// Version of the interface it was written for.
    pub fi_version: u32,
    /// Private to the library.
    pub context: fi_context,
    /// Name; layers joined by ';'.
    pub name: *const c_char,
    /// fi_getinfo for this provider alone.
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    /// fi_fabric for this provider alone.
    pub fabric: Option<
        unsafe extern "C" fn(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int,
    >,
    /// Called before the library is unloaded.
    pub cleanup: Option<unsafe extern "C" fn()>,
}
