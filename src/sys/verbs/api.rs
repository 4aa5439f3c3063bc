// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions of libibverbs and librdmacm, found by name in the libraries when they are first needed.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use super::abi::*;
use crate::fork::Birth;
use crate::shared_object::SharedObject;

/// Declares the table of functions. A function that is missing makes the libraries unusable, except an optional one.
macro_rules! functions {
    (
        $(from $of:ident { $($name:ident($($arg:ty),*) $(-> $result:ty)?;)* })*
        optional $optional_of:ident { $($maybe:ident($($maybe_arg:ty),*) -> $maybe_result:ty;)* }
    ) => {
        /// The functions. They stay valid, because the libraries are never closed.
        pub struct Api {
            /// The process that opened the libraries.
            birth: Birth,
            $($(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*)*
            $(pub $maybe: Option<unsafe extern "C" fn($($maybe_arg),*) -> $maybe_result>,)*
        }

        impl Api {
            fn find(libraries: &Libraries) -> Result<Api, String> {
                Ok(Api {
                    birth: Birth::here(),
                    // SAFETY: the headers of rdma-core declare functions of these types, and the libraries stay open.
                    $($($name: unsafe {
                        libraries.$of.function(symbol(concat!(stringify!($name), "\0")))
                    }
                    .ok_or_else(|| missing(stringify!($name)))?,)*)*
                    // SAFETY: as above.
                    $($maybe: unsafe {
                        libraries.$optional_of.function(symbol(concat!(stringify!($maybe), "\0")))
                    },)*
                })
            }
        }
    };
}

functions! {
    from ibverbs {
        ibv_get_device_list(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list(*mut *mut ibv_device);
        ibv_get_device_name(*mut ibv_device) -> *const c_char;
        ibv_open_device(*mut ibv_device) -> *mut ibv_context;
        ibv_close_device(*mut ibv_context) -> c_int;
        ibv_query_device(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        ibv_query_gid(*mut ibv_context, u8, c_int, *mut [u8; 16]) -> c_int;
        ibv_query_pkey(*mut ibv_context, u8, c_int, *mut u16) -> c_int;
        ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd;
        ibv_dealloc_pd(*mut ibv_pd) -> c_int;
        ibv_reg_mr_iova2(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
        ibv_dereg_mr(*mut ibv_mr) -> c_int;
        ibv_create_cq(
            *mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int
        ) -> *mut ibv_cq;
        ibv_destroy_cq(*mut ibv_cq) -> c_int;
        ibv_create_comp_channel(*mut ibv_context) -> *mut ibv_comp_channel;
        ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int;
        ibv_get_cq_event(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events(*mut ibv_cq, c_uint);
        ibv_create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
        ibv_destroy_srq(*mut ibv_srq) -> c_int;
        ibv_create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        ibv_modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        ibv_destroy_qp(*mut ibv_qp) -> c_int;
        ibv_create_ah(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        ibv_destroy_ah(*mut ibv_ah) -> c_int;
        ibv_wc_status_str(c_uint) -> *const c_char;
    }
    from rdmacm {
        rdma_create_event_channel() -> *mut rdma_event_channel;
        rdma_destroy_event_channel(*mut rdma_event_channel);
        rdma_create_id(
            *mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_uint
        ) -> c_int;
        rdma_destroy_id(*mut rdma_cm_id) -> c_int;
        rdma_migrate_id(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int;
        rdma_bind_addr(*mut rdma_cm_id, *mut SockAddr) -> c_int;
        rdma_resolve_addr(*mut rdma_cm_id, *mut SockAddr, *mut SockAddr, c_int) -> c_int;
        rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int;
        rdma_create_qp(*mut rdma_cm_id, *mut ibv_pd, *mut ibv_qp_init_attr) -> c_int;
        rdma_destroy_qp(*mut rdma_cm_id);
        rdma_connect(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_accept(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_reject(*mut rdma_cm_id, *const c_void, u8) -> c_int;
        rdma_disconnect(*mut rdma_cm_id) -> c_int;
        rdma_listen(*mut rdma_cm_id, c_int) -> c_int;
        rdma_get_cm_event(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
        rdma_ack_cm_event(*mut rdma_cm_event) -> c_int;
        rdma_get_devices(*mut c_int) -> *mut *mut ibv_context;
    }
    optional ibverbs {
        ibv_resize_cq(*mut ibv_cq, c_int) -> c_int;
        ibv_get_async_event(*mut ibv_context, *mut ibv_async_event) -> c_int;
        ibv_ack_async_event(*mut ibv_async_event) -> ();
        ibv_reg_dmabuf_mr(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
    }
}

struct Libraries {
    ibverbs: SharedObject,
    rdmacm: SharedObject,
}

fn symbol(text: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default()
}

fn missing(name: &str) -> String {
    format!("{name} is missing in the installed libraries")
}

fn load() -> Result<Api, String> {
    let open = |name: &str| {
        SharedObject::open(Path::new(name)).map_err(|error| format!("{name}: {error}"))
    };
    let libraries = Libraries {
        ibverbs: open("libibverbs.so.1")?,
        rdmacm: open("librdmacm.so.1")?,
    };
    let api = Api::find(&libraries)?;
    libraries.ibverbs.keep();
    libraries.rdmacm.keep();
    Ok(api)
}

fn loaded() -> Result<&'static Api, &'static str> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(String::as_str)
}

/// Opens the libraries at the first call. On failure returns the reason, which stays the same. A child of the process
/// that opened them gets an error: see `is_here`.
pub fn available() -> Result<(), &'static str> {
    match loaded()?.birth.is_here() {
        true => Ok(()),
        false => Err("the process that this one was forked from has opened them"),
    }
}

/// Whether this process opened the libraries. Its children must not use them: the libraries keep devices open, whose
/// descriptors the child shares and whose memory it has lost, so a call would end in a fault or destroy objects of the
/// parent.
pub fn is_here() -> bool {
    loaded().is_ok_and(|api| api.birth.is_here())
}

/// The functions, for a call that a child must not make: it fails with `EPERM` there.
pub(super) fn api_here() -> io::Result<&'static Api> {
    api_to_destroy().ok_or_else(|| io::Error::from_raw_os_error(libc::EPERM))
}

/// The functions, for destroying an object; `None` in a child, which must leave the objects of its parent alone.
pub(super) fn api_to_destroy() -> Option<&'static Api> {
    let api = api();
    api.birth.is_here().then_some(api)
}

/// The functions, for the wrappers: no wrapper exists before `available` has succeeded.
#[inline]
pub(super) fn api() -> &'static Api {
    match loaded() {
        Ok(api) => api,
        Err(_) => no_libraries(),
    }
}

#[cold]
fn no_libraries() -> ! {
    unreachable!("devices come from these libraries")
}
