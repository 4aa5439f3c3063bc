// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters: fi_cntr(3).

use core::marker::PhantomData;
use core::mem::forget;
use core::ptr::null_mut;
use core::time::Duration;
use std::sync::Arc;

use ironfabric_sys::*;

use crate::domain::{Domain, DomainInner};
use crate::error::{Error, Result, status};
use crate::handle::{Raw, Shared, Threads, Wait, milliseconds, slot};

/// A number of finished operations: fi_cntr(3). A clone is another reference to the same counter.
pub struct Counter<T: Threads = Shared>(pub(crate) Arc<CounterInner>, PhantomData<T>);

pub(crate) struct CounterInner {
    pub raw: Raw<fid_cntr>,
    pub domain: Arc<DomainInner>,
}

impl<T: Threads> Counter<T> {
    /// Opens a counter of operations: fi_cntr_open.
    pub fn open(domain: &Domain<T>, wait: Wait) -> Result<Counter<T>> {
        let mut attr = fi_cntr_attr {
            events: FI_CNTR_EVENTS_COMP,
            wait_obj: wait.raw(),
            wait_set: null_mut(),
            flags: 0,
            xpu_ctx: null_mut(),
        };
        let parent = domain.0.raw.get();
        let mut cntr = null_mut();
        // SAFETY: the domain is open and kept; the attributes are read during the call; `cntr` is written on success.
        let raw = unsafe {
            let call = slot!((*parent).ops, fi_ops_domain, cntr_open)?;
            let code = call(parent, &raw mut attr, &raw mut cntr, null_mut());
            Raw::opened(code, cntr)?
        };
        let inner = CounterInner {
            raw,
            domain: domain.0.clone(),
        };
        Ok(Counter(Arc::new(inner), PhantomData))
    }

    /// Returns the number of operations that ended well, and drives progress.
    pub fn read(&self) -> Result<u64> {
        let cntr = self.0.raw.get();
        // SAFETY: the counter is open.
        unsafe { Ok(slot!((*cntr).ops, fi_ops_cntr, read)?(cntr)) }
    }

    /// Returns the number of operations that failed.
    pub fn read_errors(&self) -> Result<u64> {
        let cntr = self.0.raw.get();
        // SAFETY: the counter is open.
        unsafe { Ok(slot!((*cntr).ops, fi_ops_cntr, readerr)?(cntr)) }
    }

    /// Adds to the number.
    pub fn add(&self, value: u64) -> Result {
        let cntr = self.0.raw.get();
        // SAFETY: the counter is open.
        unsafe { status(slot!((*cntr).ops, fi_ops_cntr, add)?(cntr, value)) }
    }

    /// Sets the number.
    pub fn set(&self, value: u64) -> Result {
        let cntr = self.0.raw.get();
        // SAFETY: the counter is open.
        unsafe { status(slot!((*cntr).ops, fi_ops_cntr, set)?(cntr, value)) }
    }

    /// Waits until the number has reached `threshold`. `TIMEDOUT`: not in time. `AVAIL`: an operation failed.
    pub fn wait(&self, threshold: u64, limit: Option<Duration>) -> Result {
        let cntr = self.0.raw.get();
        // SAFETY: the counter is open.
        unsafe {
            let call = slot!((*cntr).ops, fi_ops_cntr, wait)?;
            status(call(cntr, threshold, milliseconds(limit)))
        }
    }
}

impl<T: Threads> Clone for Counter<T> {
    fn clone(&self) -> Counter<T> {
        Counter(self.0.clone(), PhantomData)
    }
}

impl Drop for CounterInner {
    fn drop(&mut self) {
        // SAFETY: bound endpoints hold a reference to the counter, and this was the last one.
        if unsafe { self.raw.close() }.is_err() {
            forget(self.domain.clone());
        }
    }
}
