// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peer credits: the table `ofix_flow_ctrl_v1` of fi_open_ops, by which a layered provider (ofi_rxm) limits the
//! messages of an endpoint to the receives that its peer has posted. No header and no page has it; the layout and the
//! rules are those of libfabric's own verbs.

use core::ffi::{CStr, c_int};
use core::ptr;

use crate::handle::{self, Kind};
use crate::live;
use crate::ops::{object, status};
use abi::*;
use base::{Error, OpFlags, Result};

/// The name of the table.
pub const NAME: &CStr = c"ofix_flow_ctrl_v1";

/// The flag of fi_sendmsg for messages that carry credits: they may use the last credit.
pub const CREDIT_MESSAGE: OpFlags = OpFlags::from_bits_retain(1 << 62);

/// Sends credits to the peer of an endpoint. Anything but 0 means that the credits were not sent.
pub type SendCredits = unsafe extern "C" fn(*mut fid_ep, u64) -> ssize_t;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FlowControl {
    pub size: usize,
    pub available: unsafe extern "C" fn(*mut fid_ep) -> bool,
    pub enable: unsafe extern "C" fn(*mut fid_ep, u64) -> c_int,
    pub add_credits: unsafe extern "C" fn(*mut fid_ep, u64),
    pub set_send_handler: unsafe extern "C" fn(*mut fid_domain, Option<SendCredits>),
}

const _: () = assert!(size_of::<FlowControl>() == 40);

/// An endpoint whose provider counts posted receives and credits.
pub trait CreditedEp: Kind<Head = fid_ep> {
    /// Whether credits can be enabled for the endpoint.
    fn has_credits(&self) -> bool;
    /// From now on messages cost credits, and the handler is called for each `threshold` posted receives.
    fn enable_credits(&self, threshold: u64) -> Result;
    /// Adds credits that the peer has sent.
    fn add_credits(&self, count: u64);
}

/// A domain with such endpoints.
pub trait CreditedDomain: Kind<Head = fid_domain> {
    fn set_credit_handler(&self, handler: Option<CreditHandler>);
}

/// The function of the layer above that sends credits.
#[derive(Clone, Copy)]
pub struct CreditHandler(SendCredits);

impl CreditHandler {
    /// Calls the handler, which may call the endpoint: no lock is held. On failure nothing was sent.
    pub fn call<E: CreditedEp>(self, ep: &E, count: u64) -> Result {
        let head = ptr::with_exposed_provenance_mut::<fid>(handle::number_of(ep));
        if !live::is::<E>(head) {
            return Err(Error::INVAL);
        }
        // SAFETY: set_send_handler: the layer's function, which stays loaded while the domain is open. `live` confirms
        // that it is the handle of `ep`, which is open because a call of it is in progress.
        match unsafe { (self.0)(head.cast(), count) } {
            0 => Ok(()),
            _ => Err(Error::AGAIN),
        }
    }
}

/// Returns the table of a domain of type `D` with endpoints of type `E`.
pub fn table<D: CreditedDomain, E: CreditedEp>() -> &'static FlowControl {
    &FlowControl {
        size: size_of::<FlowControl>(),
        available: available::<E>,
        enable: enable::<E>,
        add_credits: add_credits::<E>,
        set_send_handler: set_send_handler::<D>,
    }
}

unsafe extern "C" fn available<E: CreditedEp>(ep: *mut fid_ep) -> bool {
    // SAFETY: NULL, or an open endpoint of the domain that the table was opened for.
    unsafe { handle::get::<E, _>(ep) }.is_some_and(E::has_credits)
}

unsafe extern "C" fn enable<E: CreditedEp>(ep: *mut fid_ep, threshold: u64) -> c_int {
    // SAFETY: as above.
    let ep = object(unsafe { handle::get::<E, _>(ep) });
    status(ep.and_then(|ep| ep.enable_credits(threshold)))
}

unsafe extern "C" fn add_credits<E: CreditedEp>(ep: *mut fid_ep, count: u64) {
    // SAFETY: as above.
    if let Some(ep) = unsafe { handle::get::<E, _>(ep) } {
        ep.add_credits(count);
    }
}

unsafe extern "C" fn set_send_handler<D: CreditedDomain>(
    domain: *mut fid_domain,
    handler: Option<SendCredits>,
) {
    // SAFETY: NULL, or the open domain that the table was opened for.
    if let Some(domain) = unsafe { handle::get::<D, _>(domain) } {
        domain.set_credit_handler(handler.map(CreditHandler));
    }
}
