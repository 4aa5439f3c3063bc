// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Requests that are posted together: ibv_post_send(3).

use core::ops::Range;
use core::ptr;
use std::io;

use super::abi::*;
use super::check_number;
use super::datagram::Destination;
use super::pair::{Pair, PairKind, unsupported};
use super::request::Request;
use crate::io_list::GatherList;

/// Requests that are posted together, with one doorbell. Bytes that they carry are copied here.
#[derive(Default)]
pub struct Batch {
    requests: Vec<Deferred>,
    bytes: Vec<u8>,
}

struct Deferred {
    request: Request<'static>,
    /// The bytes that it carries itself.
    carried: Option<Range<usize>>,
    to: Option<Destination>,
}

// SAFETY: the addresses in requests are plain words until `post`, which sets those that point into the batch.
unsafe impl Send for Batch {}

impl Batch {
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request over registered memory, or one that carries a copy of `bytes`.
    pub fn push(
        &mut self,
        mut request: Request<'static>,
        bytes: Option<&GatherList<'_>>,
        to: Option<Destination>,
    ) {
        let carried = bytes.map(|list| {
            let start = self.bytes.len();
            list.copy_out(&mut self.bytes);
            request.inline_bytes(&[]);
            start..self.bytes.len()
        });
        self.requests.push(Deferred {
            request,
            carried,
            to,
        });
    }

    fn ids(&self, first: usize) -> Vec<u64> {
        let left = self.requests[first..].iter();
        left.map(|one| one.request.id()).collect()
    }

    /// Drops the requests.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.bytes.clear();
    }

    /// Posts the requests in order. If the pair refuses one, that one and all behind it are not posted; the result has
    /// their identifiers and the error.
    pub fn post(&mut self, pair: &Pair) -> Result<(), (Vec<u64>, io::Error)> {
        let mut next = ptr::null_mut();
        let is_addressed = |one: &Deferred| one.to.is_some();
        if pair.kind == PairKind::Datagram && !self.requests.iter().all(is_addressed) {
            return Err((self.ids(0), unsupported()));
        }
        for one in self.requests.iter_mut().rev() {
            let request = &mut one.request;
            if let Some(range) = &one.carried {
                let bytes = &self.bytes[range.clone()];
                request.pieces[0] = ibv_sge {
                    addr: bytes.as_ptr().addr() as u64,
                    length: bytes.len() as u32,
                    lkey: 0,
                };
            }
            if let Some(to) = &one.to {
                request.wr.wr.ud = to.raw();
            }
            let raw = request.raw();
            request.wr.next = next;
            next = raw;
        }
        if next.is_null() {
            return Ok(());
        }
        let mut bad = ptr::null_mut();
        // SAFETY: as in `Pair::post`; the requests are linked, and stay where they are during the call.
        let result = unsafe { (pair.post_send)(pair.raw.as_ptr(), next, &raw mut bad) };
        let result = check_number(result);
        let result = result.map_err(|error| {
            let is_first = |one: &Deferred| ptr::eq(&raw const one.request.wr, bad);
            let first = self.requests.iter().position(is_first).unwrap_or(0);
            (self.ids(first), error)
        });
        self.clear();
        result
    }
}
