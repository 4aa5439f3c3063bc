// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Flow control between a provider and the provider layered on it: calls outside the ops tables that take endpoints.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Wrapped, Wrapper, outside};
use abi::*;
use base::Error;
use object::handle;
use object::ops::credits::{FlowControl, SendCredits};

static CREDITS: FlowControl = FlowControl {
    size: size_of::<FlowControl>(),
    available,
    enable,
    add_credits,
    set_send_handler,
};

/// The calls of the provider inside, and the layer's function that sends credits.
#[derive(Default)]
pub(super) struct Credits {
    table: OnceLock<FlowControl>,
    handler: Mutex<Option<SendCredits>>,
}

/// Replaces the provider's table, which was just opened, by the table of the layer.
///
/// # Safety
/// `ops` holds a table of that name.
pub(super) unsafe fn leave_table(wrapper: &Wrapper<impl Wrapped>, ops: *mut *mut c_void) {
    // SAFETY: promised by the caller; it begins with its size.
    unsafe {
        let inner: *const FlowControl = (*ops).cast_const().cast();
        if (*inner).size >= size_of::<FlowControl>() {
            // Each provider has one table.
            let _ = wrapper.layer.credits.table.set(*inner);
            *ops = ptr::from_ref(&CREDITS).cast_mut().cast();
        }
    }
}

/// Returns the object inside a wrapper and the calls of its provider.
///
/// # Safety
/// The handle is open.
unsafe fn credits<H: Wrapped>(handle: *mut H) -> Option<(*mut H, FlowControl)> {
    // SAFETY: an object with the table of these calls is a wrapper.
    let wrapper = unsafe { handle::get::<Wrapper<H>, _>(handle) }?;
    let table = wrapper.layer.credits.table.get()?;
    Some((wrapper.inner.as_ptr(), *table))
}

unsafe extern "C" fn available(ep: *mut fid_ep) -> bool {
    // SAFETY: an open endpoint.
    unsafe { credits(ep).is_some_and(|(ep, table)| (table.available)(ep)) }
}

unsafe extern "C" fn enable(ep: *mut fid_ep, threshold: u64) -> c_int {
    // SAFETY: an open endpoint.
    unsafe {
        match credits(ep) {
            Some((ep, table)) => (table.enable)(ep, threshold),
            None => Error::INVAL.negative(),
        }
    }
}

unsafe extern "C" fn add_credits(ep: *mut fid_ep, count: u64) {
    // SAFETY: an open endpoint.
    unsafe {
        if let Some((ep, table)) = credits(ep) {
            (table.add_credits)(ep, count);
        }
    }
}

unsafe extern "C" fn set_send_handler(domain: *mut fid_domain, handler: Option<SendCredits>) {
    // SAFETY: an open domain.
    unsafe {
        if let Some(wrapper) = handle::get::<Wrapper<fid_domain>, _>(domain) {
            let held = &wrapper.layer.credits.handler;
            *held.lock().unwrap_or_else(PoisonError::into_inner) = handler;
        }
        if let Some((domain, table)) = credits(domain) {
            (table.set_send_handler)(domain, handler.map(|_| send_credits as SendCredits));
        }
    }
}

/// Handles the provider's request to send credits on one of its endpoints.
unsafe extern "C" fn send_credits(ep: *mut fid_ep, count: u64) -> ssize_t {
    let handle = outside(ep.cast());
    let handler = |wrapper: &Wrapper<fid_ep>| {
        let held = &wrapper.layer.credits.handler;
        *held.lock().unwrap_or_else(PoisonError::into_inner)
    };
    match handle::with(handle.addr(), handler).flatten() {
        // SAFETY: the handler of the provider layered above, and its endpoint.
        Some(handler) => unsafe { handler(handle.cast(), count) },
        None => Error::INVAL.negative() as ssize_t,
    }
}
