// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A connection request between its event and fi_endpoint or fi_reject: the `handle` of its info (fi_cm(3)).

use super::private;
use abi::{FI_CLASS_CONNREQ, fid};
use base::Result;
use object::Kind;
use object::handle;
use sys::verbs::Id;

/// The identifier of a requested connection. Dropping it rejects the request.
pub struct Request(Id);

impl Kind for Request {
    type Head = fid;
    const IS_CONSUMED: bool = true;
}

impl Request {
    /// Creates a handle for a request.
    pub fn open(id: Id) -> usize {
        handle::open(
            Request(id),
            FI_CLASS_CONNREQ,
            core::ptr::null_mut(),
            |fid| fid,
        ) as usize
    }

    pub fn into_id(self) -> Id {
        self.0
    }

    /// Rejects the request with this data.
    pub fn reject(self, data: &[u8]) -> Result {
        Ok(self.0.reject(&private::encode(data)?)?)
    }
}

/// Ends a request whose event was not read.
pub fn end(request: usize) {
    drop(handle::take::<Request>(request));
}
