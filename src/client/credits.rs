// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peer credits of the provider below: `object::ops::credits`. The provider calls a function to have credits sent, from
//! inside any call of the endpoint. That function only counts: the layer sends the credits when its call is over.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::domain::Domain;
use super::ep::Ep;
use super::status;
use abi::*;
use base::{Error, Result};
use object::ops::credits::{FlowControl, NAME};
use object::slots;

/// The calls of a domain whose provider counts receives.
#[derive(Clone)]
pub struct Credits {
    domain: Arc<Domain>,
    table: FlowControl,
}

/// Credits of an endpoint and its peer. Keeps the endpoint open.
pub struct PeerCredits {
    ep: Arc<Ep>,
    table: FlowControl,
    /// Receives of which the peer has to get to know.
    due: Arc<AtomicU64>,
}

/// Endpoints by the numbers of their handles.
type Due = HashMap<usize, Arc<AtomicU64>>;

fn due() -> MutexGuard<'static, Option<Due>> {
    static DUE: Mutex<Option<Due>> = Mutex::new(None);
    DUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts receives of which the peer has to get to know.
unsafe extern "C" fn note_due(ep: *mut fid_ep, count: u64) -> ssize_t {
    let due = due();
    match due.as_ref().and_then(|all| all.get(&ep.addr())) {
        Some(known) => {
            // Relaxed: only a number.
            known.fetch_add(count, Ordering::Relaxed);
            0
        }
        None => Error::INVAL.negative() as ssize_t,
    }
}

impl Credits {
    /// Returns `None` if the provider does not count receives.
    pub fn of(domain: &Arc<Domain>) -> Option<Credits> {
        let mut ops = null_mut();
        // SAFETY: the domain is open; the name is terminated; `ops` is written on success.
        let code = unsafe {
            slots::base::ops_open(domain.fid(), NAME.as_ptr(), 0, &raw mut ops, null_mut())
        };
        status(code).ok()?;
        let table = ops.cast::<FlowControl>();
        // SAFETY: success: NULL, or a table that begins with its size and exists while the domain is open.
        let size = unsafe { table.cast::<usize>().as_ref() }?;
        if *size < size_of::<FlowControl>() {
            return None;
        }
        // SAFETY: a table of that name has these calls.
        let table = unsafe { *table };
        // SAFETY: the domain is open; the function is part of this library.
        unsafe { (table.set_send_handler)(domain.as_ptr(), Some(note_due)) };
        let domain = domain.clone();
        Some(Credits { domain, table })
    }

    /// Returns `None` if the endpoint has no credits.
    pub fn of_endpoint(&self, ep: &Arc<Ep>) -> Option<PeerCredits> {
        // SAFETY: the endpoint is open, and one of the table's domain.
        let has_credits = ep.keeps(&self.domain) && unsafe { (self.table.available)(ep.as_ptr()) };
        if !has_credits {
            return None;
        }
        let count = Arc::<AtomicU64>::default();
        let mut due = due();
        due.get_or_insert_default()
            .insert(ep.number(), count.clone());
        Some(PeerCredits {
            ep: ep.clone(),
            table: self.table,
            due: count,
        })
    }
}

impl PeerCredits {
    /// From now on messages cost credits, and `take_due` returns posted receives, at least `threshold` at a time.
    pub fn enable(&self, threshold: u64) -> Result {
        // SAFETY: the endpoint is open, and has credits.
        status(unsafe { (self.table.enable)(self.ep.as_ptr(), threshold) })
    }

    /// Adds credits that the peer has sent.
    pub fn add(&self, count: u64) {
        // SAFETY: as above.
        unsafe { (self.table.add_credits)(self.ep.as_ptr(), count) };
    }

    /// Whether `take_due` returns a number other than 0.
    #[inline]
    pub fn is_due(&self) -> bool {
        // Relaxed: only a number.
        self.due.load(Ordering::Relaxed) > 0
    }

    /// Takes the number of receives of which the peer has to get to know.
    pub fn take_due(&self) -> u64 {
        // Relaxed: as above.
        self.due.swap(0, Ordering::Relaxed)
    }
}

impl Drop for PeerCredits {
    fn drop(&mut self) {
        if let Some(all) = &mut *due() {
            all.remove(&self.ep.number());
        }
    }
}
