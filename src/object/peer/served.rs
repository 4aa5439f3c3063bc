// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The calls of an owner to receive contexts of this library: fi_peer(3).
//!
//! Trusted with: entries that an owner passes back, which were queued.

use core::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use slab::Slab;

use super::Started;
use crate::ops::status;
use abi::*;
use base::{Error, Result};

/// A receive context of this library that matches its messages through an owner.
pub trait Served: Send + Sync {
    /// Starts the transfer of a message for which a receive was posted.
    fn start(&self, token: usize, started: Started) -> Result;
    /// Discards a message. The owner frees the entry.
    fn discard(&self, token: usize) -> Result;
    /// Returns the address of the sender, or FI_ADDR_UNSPEC.
    fn address(&self, token: usize) -> u64;
}

/// All served contexts of the process. A token contains the index here, so a token of a closed context finds nothing.
static SERVED: Mutex<Slab<Weak<dyn Served>>> = Mutex::new(Slab::new());

/// An index in `SERVED`.
pub struct Place(usize);

/// Number of low bits of a token that hold the index in `SERVED`; the serial number of the message is above them.
const PLACES: u32 = 16;

impl Place {
    pub fn new(served: Weak<dyn Served>) -> Result<Place> {
        let mut all = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        match all.vacant_key() >> PLACES {
            0 => Ok(Place(all.insert(served))),
            _ => Err(Error::NOMEM),
        }
    }

    /// Returns the token of a message; never 0.
    pub fn token(&self, serial: usize) -> usize {
        (serial + 1) << PLACES | self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        all.try_remove(self.0);
    }
}

fn served(token: usize) -> Option<Arc<dyn Served>> {
    let all = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(token & ((1 << PLACES) - 1))?.upgrade()
}

pub(super) static PEER_OPS: fi_ops_srx_peer = fi_ops_srx_peer {
    size: size_of::<fi_ops_srx_peer>(),
    start_msg: Some(start),
    start_tag: Some(start),
    discard_msg: Some(discard),
    discard_tag: Some(discard),
};

/// # Safety
/// `entry` is NULL or an entry that was queued.
unsafe fn told(entry: *mut fi_peer_rx_entry) -> Result<(Arc<dyn Served>, usize)> {
    // SAFETY: promised by the caller.
    let token = unsafe { entry.as_ref() }.ok_or(Error::INVAL)?.peer_context as usize;
    served(token)
        .map(|served| (served, token))
        .ok_or(Error::INVAL)
}

unsafe extern "C" fn start(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: fi_peer(3): an entry that was queued.
    let told = unsafe { told(entry) };
    status(told.and_then(|(served, token)| served.start(token, Started(entry))))
}

unsafe extern "C" fn discard(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: fi_peer(3): an entry that was queued.
    let told = unsafe { told(entry) };
    status(told.and_then(|(served, token)| served.discard(token)))
}

pub(super) unsafe extern "C" fn address(entry: *mut fi_peer_rx_entry) -> fi_addr_t {
    // SAFETY: fi_peer(3): an entry that was queued.
    let told = unsafe { told(entry) };
    told.map_or(FI_ADDR_UNSPEC, |(served, token)| served.address(token))
}
