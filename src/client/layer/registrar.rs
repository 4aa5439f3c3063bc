// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registers memory below, as the entry of the provider there requires: fi_mr(3).

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::{Cntr, Domain, Ep, Info, Memory, Mr};
use abi::*;
use base::iovec::Span as Place;
use base::rights::KEPT;
use base::{Error, Registered, Result};

/// Registers memory in one domain below; clones share the sequence of keys.
#[derive(Clone)]
pub struct Registrar {
    domain: Arc<Domain>,
    /// Endpoint of the regions, if regions belong to endpoints (FI_MR_ENDPOINT).
    ep: Option<Arc<Ep>>,
    /// FI_MR_* bits of the entry.
    mr_mode: u64,
    local: bool,
    /// Of messages that are sent, and that are received.
    prefixes: [usize; 2],
    keys: Arc<AtomicU64>,
    /// Counts peers' writes to memory that is lent to them.
    counter: Option<Arc<Cntr>>,
    /// Flags of registrations of the application's memory for one operation.
    flags: u64,
}

impl Registrar {
    pub fn new(domain: &Arc<Domain>, info: Info<'_>) -> Registrar {
        let mr_mode = info.domain().map_or(0, |attr| attr.mr_mode);
        Registrar {
            domain: domain.clone(),
            ep: None,
            mr_mode: u64::from(mr_mode.cast_unsigned()),
            local: info.wants_local_mr(),
            prefixes: [FI_SEND, FI_RECV].map(|access| info.msg_prefix(access)),
            keys: Arc::new(AtomicU64::new(FIRST_KEY)),
            counter: None,
            flags: 0,
        }
    }

    /// Returns a registrar whose regions for operations may stay in the cache of the provider below, which is built in,
    /// with the rights of peers (`base::rights::KEPT`).
    pub fn keeping(self) -> Registrar {
        Registrar {
            flags: KEPT,
            ..self
        }
    }

    /// Returns a registrar with a sequence of keys of its own, from this one on.
    pub fn with_keys_from(self, first: u64) -> Registrar {
        Registrar {
            keys: Arc::new(AtomicU64::new(first)),
            ..self
        }
    }

    /// Returns a registrar for operations of one endpoint, if regions belong to endpoints. The endpoint stays open as
    /// long as one of its regions: shut it down, and take the completions, before it is closed.
    pub fn of_endpoint(&self, ep: &Arc<Ep>) -> Registrar {
        let ep = self.has(FI_MR_ENDPOINT).then(|| ep.clone());
        Registrar { ep, ..self.clone() }
    }

    /// Returns a clone whose counter counts peers' writes to lent memory.
    pub fn counting(&self, counter: &Arc<Cntr>) -> Registrar {
        let counter = Some(counter.clone());
        Registrar {
            counter,
            ..self.clone()
        }
    }

    /// Whether regions belong to endpoints (FI_MR_ENDPOINT).
    pub fn of_endpoints(&self) -> bool {
        self.has(FI_MR_ENDPOINT)
    }

    /// Whether local operations need registered memory.
    pub fn wants_local(&self) -> bool {
        self.local
    }

    /// Returns the number of bytes before a message that belong to the provider below (FI_MSG_PREFIX), in buffers with
    /// these rights of local operations.
    pub fn prefix(&self, access: u64) -> usize {
        let [sends, receives] = self.prefixes;
        match access & FI_RECV {
            0 => sends,
            _ => receives,
        }
    }

    /// Returns the address by which peers name memory at `place` in a region that starts at `base`.
    pub(super) fn remote_address(&self, place: usize, base: usize) -> u64 {
        match self.has(FI_MR_VIRT_ADDR) || self.is_basic() {
            true => place as u64,
            false => place.wrapping_sub(base) as u64,
        }
    }

    /// Registers memory of this library.
    pub(super) fn register(&self, memory: &Arc<Memory>, access: u64) -> Result<Arc<Mr>> {
        self.with_key(|key| Mr::register(&self.domain, memory, access, key))
    }

    /// Registers memory of the application.
    ///
    /// # Safety
    /// It may be read and written, as the access rights say, until the region is closed.
    pub(super) unsafe fn register_place(&self, place: Place, access: u64) -> Result<Arc<Mr>> {
        let base: *mut c_void = core::ptr::with_exposed_provenance_mut(place.start);
        let iov = iovec {
            iov_base: base,
            iov_len: place.len,
        };
        self.with_key(|key| {
            // SAFETY: numbers and pointers, for which zeros are values.
            let mut attr: fi_mr_attr = unsafe { core::mem::zeroed() };
            attr.anonymous.mr_iov = &raw const iov;
            (attr.iov_count, attr.access, attr.requested_key) = (1, access, key);
            // SAFETY: one piece, whose struct is read during the call; the rest is promised by the caller.
            let region = unsafe { Mr::register_attr(&self.domain, &attr, self.flags) }?;
            match &self.counter {
                Some(counter) if access & FI_REMOTE_WRITE != 0 => {
                    region.bind(counter, FI_REMOTE_WRITE)?;
                }
                _ => {}
            }
            Ok(region)
        })
    }

    /// Registers memory below that the application registers, with its usage flags (FI_MR_*). `requested_key` is for
    /// regions of peers, if applications choose keys; without it the region gets a free key.
    pub fn register_application(
        &self,
        segments: &[Registered],
        access: u64,
        requested_key: Option<u64>,
        flags: u64,
    ) -> Result<Arc<Mr>> {
        let piece = |segment: &Registered| {
            let Place { start, len } = segment.span();
            iovec {
                iov_base: core::ptr::with_exposed_provenance_mut(start),
                iov_len: len,
            }
        };
        let pieces: Vec<iovec> = segments.iter().map(piece).collect();
        // SAFETY: numbers and pointers, for which zeros are values.
        let mut attr: fi_mr_attr = unsafe { core::mem::zeroed() };
        attr.anonymous.mr_iov = pieces.as_ptr();
        (attr.iov_count, attr.access) = (pieces.len(), access);
        let mut register = |key| {
            attr.requested_key = key;
            // SAFETY: the structs are read during the call. The creator of the segments (`Registered::new`) promised
            // their memory until the application has closed its region; the owner drops this region before that.
            unsafe { Mr::register_attr(&self.domain, &attr, flags) }
        };
        match requested_key {
            Some(key) => self.enabled(register(key)?),
            None => self.with_key(register),
        }
    }

    /// Registers with a free key.
    fn with_key(&self, mut register: impl FnMut(u64) -> Result<Arc<Mr>>) -> Result<Arc<Mr>> {
        for _ in 0..KEY_ATTEMPTS {
            match register(self.keys.fetch_add(1, Ordering::Relaxed)) {
                Err(Error::NOKEY) => {}
                Err(error) => return Err(error),
                Ok(region) => return self.enabled(region),
            }
        }
        Err(Error::NOKEY)
    }

    /// Enables a region if that is a separate step.
    fn enabled(&self, region: Arc<Mr>) -> Result<Arc<Mr>> {
        if let Some(ep) = &self.ep {
            region.bind(ep, 0)?;
            region.enable()?;
        }
        Ok(region)
    }

    fn has(&self, bit: i32) -> bool {
        self.mr_mode & u64::from(bit.cast_unsigned()) != 0
    }

    fn is_basic(&self) -> bool {
        self.has(FI_MR_BASIC)
    }
}

/// Applications choose their keys from 0 on, and use the same domain.
const FIRST_KEY: u64 = 1 << 31;
/// Number of keys to try: the application may have taken some.
const KEY_ATTEMPTS: usize = 1024;
