// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_profile.h>`: Profiling: fi_profile(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use libc::ssize_t;

use super::fabric::{fi_type, fid};
use super::fi_domain::fi_datatype;

/// Variables that every provider may have. fi_profile(3)
pub const FI_VAR_UNEXP_MSG_CNT: u32 = 0;
pub const FI_VAR_UNEXP_MSG_QUEUE: u32 = 1;
pub const FI_VAR_MSG_QUEUE_CNT: u32 = 2;
pub const FI_VAR_CONNECTION_CNT: u32 = 3;
pub const FI_VAR_CONN_REQUEST: u32 = 4;
pub const FI_VAR_CONN_ACCEPT: u32 = 5;
pub const FI_VAR_CONN_REJECT: u32 = 6;
pub const FI_VAR_OFI_MEM: u32 = 7;
/// Events that every provider may have. fi_profile(3)
pub const FI_EVENT_UNEXP_MSG_RECVD: u32 = 0;
pub const FI_EVENT_UNEXP_MSG_MATCHED: u32 = 1;

c_enum! {
    /// The enumeration that names the type of a variable. fi_profile(3)
    pub enum fi_profile_type {
        /// enum fi_datatype.
        fi_primitive_type = 0,
        /// enum fi_type.
        fi_defined_type = 1,
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_profile_desc_datatype {
    pub primitive: fi_datatype,
    pub defined: fi_type,
}

/// A variable or an event. fi_profile(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_profile_desc {
    /// Its number.
    pub id: u32,
    /// The member of `datatype` that is valid.
    pub datatype_sel: fi_profile_type,
    pub datatype: fi_profile_desc_datatype,
    pub flags: u64,
    /// Bytes of its value.
    pub size: usize,
    pub name: *const c_char,
    pub desc: *const c_char,
}

/// Operations of a profile. fi_profile(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_profile_ops {
    pub size: usize,
    pub reset: Option<unsafe extern "C" fn(prof_fid: *mut fid_profile, flags: u64)>,
    pub query_vars: Option<
        unsafe extern "C" fn(
            prof_fid: *mut fid_profile,
            varlist: *mut fi_profile_desc,
            count: *mut usize,
        ) -> ssize_t,
    >,
    pub query_events: Option<
        unsafe extern "C" fn(
            prof_fid: *mut fid_profile,
            eventlist: *mut fi_profile_desc,
            count: *mut usize,
        ) -> ssize_t,
    >,
    pub read_var: Option<
        unsafe extern "C" fn(
            prof_fid: *mut fid_profile,
            var_id: u32,
            data: *mut c_void,
            size: *mut usize,
        ) -> ssize_t,
    >,
    pub reg_callback: Option<
        unsafe extern "C" fn(
            prof_fid: *mut fid_profile,
            event_id: u32,
            callback: Option<
                unsafe extern "C" fn(
                    prof_fid: *mut fid_profile,
                    event: *mut fi_profile_desc,
                    data: *mut c_void,
                    size: usize,
                    context: *mut c_void,
                ) -> c_int,
            >,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub start_reads: Option<unsafe extern "C" fn(prof_fid: *mut fid_profile, flags: u64)>,
    pub end_reads: Option<unsafe extern "C" fn(prof_fid: *mut fid_profile, flags: u64)>,
}

/// The profile of an object. fi_profile(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_profile {
    pub fid: fid,
    pub ops: *mut fi_profile_ops,
}
