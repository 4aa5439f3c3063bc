// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that the peer accesses, and operations on the peer's memory: fi_mr(3), fi_rma(3), fi_atomic(3).
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::endpoint::{Endpoint, back, posted};
use super::failure::{Failure, Result};
use abi::*;
use client::{Domain, Info, Memory, Mr};

/// An operation in which only the posting side takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Write,
    WriteData,
    Read,
    /// Adds numbers of 64 bits to the peer's.
    Atomic,
    /// Does the same as `Atomic`, and returns the previous numbers.
    Fetch,
}

/// The address and key by which operations refer to memory of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    pub addr: u64,
    pub key: u64,
}

/// Memory that peers read and write.
pub struct Target {
    pub place: Place,
    /// Keeps the memory registered as long as it may be accessed.
    _region: Arc<Mr>,
}

impl Target {
    pub fn open(domain: &Arc<Domain>, info: Info<'_>, length: usize) -> Result<Target> {
        let memory = Memory::new(length);
        let region = Mr::register(domain, &memory, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY)
            .map_err(Failure::by("fi_mr_reg"))?;
        let mode = info.domain().map_or(0, |attr| attr.mr_mode);
        // FI_MR_BASIC uses addresses, too.
        let by_address = mode & FI_MR_VIRT_ADDR != 0 || mode == FI_MR_BASIC;
        let addr = if by_address { memory.address() } else { 0 };
        let key = region.key();
        Ok(Target {
            place: Place { addr, key },
            _region: region,
        })
    }
}

impl Endpoint {
    /// Posts one access of `length` bytes. Returns false if the provider returned -FI_EAGAIN.
    pub fn access(&mut self, access: Access, length: usize, place: Place) -> Result<bool> {
        let buffer = self.outgoing.pop().expect("a buffer is free");
        let (ep, peer, at) = (&self.raw, self.peer, (place.addr, place.key));
        let count = length / size_of::<u64>();
        let done = match access {
            Access::Write => ep.write_buffer(buffer, length, None, peer, at),
            Access::WriteData => ep.write_buffer(buffer, length, Some(1), peer, at),
            Access::Read => ep.read_buffer(buffer, length, peer, at),
            Access::Atomic => ep.add_buffer(buffer, count, false, peer, at, TO_THE_END),
            Access::Fetch => ep.add_buffer(buffer, count, true, peer, at, FI_COMPLETION),
        };
        let doing = "posting an access to the peer's memory";
        posted(doing, back(done, |buffer| self.outgoing.push(buffer)))
    }

    /// Number of writes with data that the peer has made.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    pub fn forget_announced(&mut self) {
        self.announced = 0;
    }
}

/// Returns the greatest length of one atomic operation in bytes, if the operation is available.
pub fn longest_atomic(domain: &Arc<Domain>, fetches: bool) -> Option<usize> {
    let flags = if fetches { FI_FETCH_ATOMIC } else { 0 };
    let attr = domain.query_atomic(FI_UINT64, FI_SUM, flags).ok()?;
    Some(attr.count * attr.size)
}

/// Completion means that the peer's memory has changed.
const TO_THE_END: u64 = FI_COMPLETION | FI_DELIVERY_COMPLETE;
/// Key for providers whose applications choose keys; no other region uses it.
const KEY: u64 = 7;
